"""What work costs: the speed of a machine in two numbers, and a curve for each kind of work.

All that a search or a fit does is bound by reading memory or by products of matrices (the roofline model of Williams,
Waterman & Patterson, CACM 2009). A curve states the bytes or operations that cannot be avoided for n rows of d numbers;
`times` and `fixed_s` were measured: seconds = fixed_s + times · work(n, d) / speed.

Measured on 2026-11-16 by `lookalike bench run scaling` (64 dimensions, one thread, CPU time; docs/plan.md has the
table) on an Intel Xeon with 2 cores; `STORED` is what `measure` returned there. `times` is that of the largest size.
All figures are rounded.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Literal

import numpy as np

ROWS, WIDTH = 2**17, 256
"""Size of the matrix that is read: 128 MiB, more than most caches hold."""
SIDE, RUNS = 1024, 5
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Memory limits of a Linux container: control groups of version 2, and of version 1."""

MEASURED_MAX = 10_000_000
"""Largest size that was measured: predictions beyond extrapolate the curves."""

PCA_MORE = 180
"""Columns of a product that cost as much as everything else that is done to a projected row."""

SUPPORTS = 50
"""Marks that a round of feedback learns from, in the curves: about five rounds into a session."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The speed of a machine."""

    memory: float  # bytes per second, read in order
    product: float  # additions and multiplications of float32 per second


STORED = Machine(memory=10e9, product=100e9)
"""The machine on which the curves were measured, one thread."""


@dataclass(frozen=True, slots=True)
class CostCurve:
    """One kind of work. `work(n, d)`: bytes read, or operations, for n rows of d numbers (of codes, d bytes)."""

    bound: Literal["memory", "product"]
    work: Callable[[float, float], float]
    times: float
    fixed_s: float = 0.0

    def seconds(self, n: float, d: float, machine: Machine = STORED) -> float:
        """Seconds on a machine."""
        speed = machine.memory if self.bound == "memory" else machine.product
        return self.fixed_s + self.times * self.work(n, d) / speed


def trained_rows(n: float) -> float:
    """Rows that the lists of `Ann` are trained on."""
    return min(n, max(65_536, 64 * sqrt(n)))


def _cells(n: float) -> float:
    """Cells of `Leaves`."""
    return min(n / 500, 4_096)


CURVES: dict[str, CostCurve] = {
    # every row, as float32
    "search-flat": CostCurve("memory", lambda n, d: (4 * d + 8) * n, 1.1, 3e-4),
    # 192 nodes with 16 links each, a byte a number; of a larger graph, caches miss more
    "search-hnsw": CostCurve("memory", lambda n, d: 192 * 16 * d * n**0.15, 1.5, 1.5e-4),
    # the centres of √n lists, and 64 lists of half a byte for two numbers
    "search-ivfpq": CostCurve("memory", lambda n, d: (4 + 64 / 4) * d * sqrt(n), 2.5, 1.5e-4),
    # every code; the fixed part is the vectors of 300 that are proposed
    "search-itq": CostCurve("memory", lambda n, d: d * n, 1.5, 1e-3),
    # one table look-up for every byte of every code
    "search-pq": CostCurve("memory", lambda n, d: d * n, 30.0, 1e-3),
    # every row against every support vector, for four searches
    "round-flat": CostCurve("product", lambda n, d: 4 * 2 * SUPPORTS * d * n, 5.5, 1.8e-2),
    # the leaves that are visited: for every row there a byte a number, and its place
    "round-leaves": CostCurve("memory", lambda n, d: (d + 64) * n**0.6, 1800.0, 2e-2),
    # 80 candidates with 16 links, for every row a byte a number, and its links
    "build-hnsw": CostCurve("memory", lambda n, d: 80 * 16 * (d + 200) * n**1.15, 0.6),
    # every row against the centres of √n lists, those they are learned from 25 times
    "build-ivfpq": CostCurve("product", lambda n, d: 2 * d * sqrt(n) * (n + 25 * trained_rows(n)), 4.0),
    # every row against the centres of cells, those they are learned from 10 times; then cells are cut into leaves
    "build-leaves": CostCurve("product", lambda n, d: 2 * d * (_cells(n) * (n + 1280 * _cells(n)) + 800 * n), 5.3),
    # 256 principal components; what is done to rows besides costs as much as 180 more (see `pca_seconds`)
    "encode-pca": CostCurve("product", lambda n, d: 2 * d * (256 + PCA_MORE) * n, 0.8),
    # 64 bits, and what comes after the product
    "encode-itq": CostCurve("product", lambda n, d: 2 * 64 * (d + 100) * n, 1.4),
    # every part of a row against its 256 centroids
    "encode-pq": CostCurve("product", lambda n, d: 2 * d * 256 * n, 9.0),
}

FEATURE_S: Mapping[str, float] = {
    "efficientnet()": 0.0185,
    "efficientnet(pool='spoc')": 0.0188,
    "efficientnet(pool='rmac')": 0.0220,
    "vlad(local='efficientnetmaps()')": 0.0155,
    "vlad()": 0.0721,
    "fisher()": 0.0939,
    "fisher(k=256)": 0.1053,
    "join(parts=['probabilitycolor()', 'laplaciancolor()', 'hsv()', 'hough()', 'fourier()'])": 0.0061,
    "color()": 0.0021,
}
"""CPU seconds to read and describe a picture of 768 × 512, one thread, on the machine of the curves."""

PICTURE_S = 0.0019
"""Seconds of everything else that an add does per picture, including commits: `add` in the table, small pictures."""

PROCESS, ADDING = 350e6, 800e6
"""Bytes of Python with its libraries and a network; of an add with its reading processes (README, 10,000 pictures)."""

CATALOGUE = 200
"""Bytes on the disk per picture besides vectors: path, size, dates, id."""

IDS = 25
"""Bytes in memory per row of an index besides the vector: the id, a sorted table of ids and rows, a live flag."""

ANN: Mapping[str, Callable[[float], float]] = {"hnsw": lambda d: d + 144, "ivfpq": lambda d: d / 4 + 24}
"""Bytes per row of faiss's structures, in memory and on the disk."""


def pca_seconds(n: float, d: float, columns: float, machine: Machine) -> float:
    """Seconds to project n rows of d numbers to so many columns."""
    return CURVES["encode-pca"].seconds(n * (columns + PCA_MORE) / (256 + PCA_MORE), d, machine)


def leaves_bytes(d: float) -> float:
    """Bytes per row of `Leaves`, in memory and on the disk."""
    return d + 30


def leaves_peak(n: float, d: float) -> float:
    """Peak memory while leaves are built: rows as bytes twice, unsorted and sorted, and orders."""
    return (2.2 * d + 60) * n


def leaves_fit(n: float, d: float, ram: float) -> bool:
    """Whether leaves can be built within `ram` bytes of memory."""
    return PROCESS + leaves_peak(n, d) <= ram


def measure(clock: Callable[[], float] = time.perf_counter) -> Machine:
    """Measure this machine with the threads that NumPy has now: the best of a few runs, half a second in all.

    >>> measure().product > 0
    True
    """
    X = np.ones((ROWS, WIDTH), np.float32)
    square, out = np.ones((SIDE, SIDE), np.float32), np.empty((SIDE, SIDE), np.float32)
    read = _best(lambda: X @ X[0], clock)
    multiplied = _best(lambda: np.matmul(square, square, out=out), clock)
    return Machine(X.nbytes / read, 2 * SIDE**3 / multiplied)


def installed_bytes() -> int:
    """The memory of this machine, or the limit of the container."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory, *(_limit(file, memory) for file in LIMITS))


def _limit(file: Path, memory: int) -> int:
    """The limit in a file; all the memory if there is none ("max", or a number larger than any machine)."""
    try:
        limit = int(file.read_text())
    except (OSError, ValueError):
        return memory
    return limit if limit > 0 else memory


def _best(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds of the fastest of several calls: other processes only make it slower."""
    work()
    times = []
    for _ in range(RUNS):
        start = clock()
        work()
        times.append(clock() - start)
    return max(min(times), 1e-9)
