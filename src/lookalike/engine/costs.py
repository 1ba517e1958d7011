"""What work costs at any size: what it must read or compute, how many times that bound it was measured to take.

In: the name of a kind of work, n rows, their width. Out: seconds on a machine, or bytes. A curve's work is what cannot
be avoided; `times` and `fixed_s` were measured. Data, and one formula: seconds = fixed_s + times · work(n, d) / speed.

Measured on 2026-11-16 by `lookalike bench run scaling` (64 dimensions, one thread, worked time; docs/plan.md has the
table) on an Intel Xeon of 2 cores; `STORED` is what `machine.measure` said there. `times` is that of the
largest size. All of them are rounded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from lookalike.engine.machine import Machine

STORED = Machine(memory=10e9, product=100e9)
"""The machine of the curves, one thread."""

MEASURED_MAX = 10_000_000
"""No size above was ever measured: predictions beyond are the curves, drawn on."""

PCA_MORE = 180
"""Columns of a product that cost as much as what else is done to a row that is projected."""

SUPPORTS = 50
"""Marks that a round of feedback learns from, in the curves: some five rounds into a session."""


@dataclass(frozen=True, slots=True)
class CostCurve:
    """One kind of work. `work(n, d)`: bytes read, or operations, for n rows of d numbers (of codes, d bytes)."""

    bound: Literal["memory", "product"]
    work: Callable[[float, float], float]
    times: float
    fixed_s: float = 0.0

    def seconds(self, n: float, d: float, machine: Machine = STORED) -> float:
        """On this machine."""
        speed = machine.memory if self.bound == "memory" else machine.product
        return self.fixed_s + self.times * self.work(n, d) / speed


def trained_rows(n: float) -> float:
    """Rows that lists of `Ann` are learned from."""
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
    # a look into a table for every byte of every code
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
"""Worked seconds to read a picture of 768 × 512 and describe it, one thread, on the machine of the curves."""

PICTURE_S = 0.0019
"""What else an add does for a picture, the catalogue and its commits included: `add` in the table, small pictures."""

PROCESS, ADDING = 350e6, 800e6
"""Bytes of Python with its libraries and a network; of an add with its reading processes (README, 10,000 pictures)."""

CATALOGUE = 200
"""Bytes a picture on the disk that are no vectors: its path, size, dates, id."""

IDS = 25
"""Bytes a row of an index in memory that are no vector: the id, a sorted table of ids and rows, whether it is alive."""

ANN: Mapping[str, Callable[[float], float]] = {"hnsw": lambda d: d + 144, "ivfpq": lambda d: d / 4 + 24}
"""Bytes a row that faiss's structures hold, and their files."""


def pca_seconds(n: float, d: float, columns: float, machine: Machine) -> float:
    """To project n rows of d numbers to so many columns."""
    return CURVES["encode-pca"].seconds(n * (columns + PCA_MORE) / (256 + PCA_MORE), d, machine)


def leaves_bytes(d: float) -> float:
    """A row of `Leaves`, in memory and in its file."""
    return d + 30


def leaves_peak(n: float, d: float) -> float:
    """The most memory while leaves are built: rows as bytes twice, as they come and as they are sorted, and orders."""
    return (2.2 * d + 60) * n


def leaves_fit(n: float, d: float, ram: float) -> bool:
    """Whether leaves can be built in so much memory."""
    return PROCESS + leaves_peak(n, d) <= ram
