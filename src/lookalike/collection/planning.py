"""Planning: recommend a search method for a number of pictures and a memory size, and predict its cost.

A plan lists all search methods, with predictions, the reason why each is or is not recommended, and the commands
that set it up. Predictions are curves: a search or a fit is bound by memory bandwidth or by matrix products (the
roofline model of Williams, Waterman & Patterson, CACM 2009). A curve gives the minimum bytes or operations for n rows
of d dimensions; `times` and `fixed_s` were measured: seconds = fixed_s + times · work(n, d) / speed.

The constants were measured on 2026-11-16 with `lookalike bench run scaling` (64 dimensions, one thread, CPU time; see
docs/experiments/plan.md) on an Intel Xeon with 2 cores; `measure` returned `REFERENCE_MACHINE` there. `times` is the
value at the largest size. All constants are rounded.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, inf, sqrt
from typing import Any, Literal, TypeVar

import cv2
import numpy as np

from lookalike.collection.chain import SINGLE_BLAS_THREAD
from lookalike.collection.fitting import FIT_MAX, ROWS_BYTES, SAMPLE_BYTES
from lookalike.collection.indexes import GPU_MIN, LEAVES_MIN, PROCESS_BYTES, leaves_fit, leaves_peak
from lookalike.collection.specs import is_coder, is_smooth, parse_recipe, recognizes_kinds
from lookalike.errors import InputError, UnknownNameError
from lookalike.features.kinds import KIND_BYTES
from lookalike.images.decoding import read
from lookalike.images.demo import KINDS, draw
from lookalike.index.choice import FLAT_MAX, HNSW_MAX, choose
from lookalike.index.neighbours import (
    CELL_ROWS,
    EXACT_MAX,
    GRAPH_BYTES,
    ITERATIONS,
    MAX_CELLS,
    PROBES,
    TASK_ROWS,
    TRAINING_ROWS,
)
from lookalike.recipes import RECIPES
from lookalike.registry import create
from lookalike.scaled_rows import row_width
from lookalike.system import count_cores
from lookalike.text import human_bytes, human_seconds
from lookalike.types import Feature, needs_fit

AnyWay = TypeVar("AnyWay", bound="Way")

MATRIX_ROWS, MATRIX_COLUMNS = 2**17, 256
"""Size of the matrix that measures memory bandwidth: 128 MiB, more than most caches hold."""
PRODUCT_SIDE, TIMED_RUNS = 1024, 5
"""Rows and columns of the multiplied matrices, and repetitions of each measurement."""

MEASURED_MAX = 10_000_000
"""Largest measured number of pictures; above it, the curves are extrapolated."""

PCA_EXTRA_COLUMNS = 180
"""Cost of all other work per projected row, as a number of columns."""

ROUND_MARKS = 50
"""Marks in a feedback round of the curves: about the fifth round of a session."""

INDEX_RECALL = {"flat": 1.0, "hnsw": 0.98, "ivfpq": 0.97}
"""Recall of the ten nearest neighbours, effort "balanced", on a million synthetic vectors (docs/indexes.md)."""
CODE_WAYS = {"codes-128": ("itq", 128, 0.966), "pq-64": ("pq", 64, 0.965), "codes-64": ("itq", 64, 0.918)}
"""The search methods that use codes: coder, bits and recall (docs/codes.md, `cifar10-deep`)."""
INDEX_RANGES = {
    "flat": f"up to {FLAT_MAX:,} pictures",
    "hnsw": f"from {FLAT_MAX:,} to {HNSW_MAX:,} pictures",
    "ivfpq": f"above {HNSW_MAX:,} pictures",
}
"""Sizes at which this version uses each index; users cannot choose it."""
LONG_ADD_S = 30 * 86_400
"""If an add takes longer, the plan has a note about it."""

TIMED_PICTURES = 8
TIMED_SHAPE = (768, 512)
"""Width and height of the generated pictures: between those of web pages and of cameras."""
VOCABULARY_BYTES = 2**22
"""Memory limit for fitting features; the quality of a vocabulary does not affect its speed."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The speed of a machine."""

    memory: float  # bytes per second, read sequentially
    product: float  # float32 additions and multiplications per second


REFERENCE_MACHINE = Machine(memory=10e9, product=100e9)
"""The machine on which the curves were measured, with one thread."""


@dataclass(frozen=True, slots=True)
class CostCurve:
    """The cost of one kind of work.

    `work(n, d)` is the number of bytes read, or of operations, for n rows of d dimensions (n codes of d bytes).
    """

    bound: Literal["memory", "product"]
    work: Callable[[float, float], float]
    times: float
    fixed_s: float = 0.0

    def seconds(self, n: float, d: float, machine: Machine = REFERENCE_MACHINE) -> float:
        """Predict the seconds on a machine."""
        speed = machine.memory if self.bound == "memory" else machine.product
        return self.fixed_s + self.times * self.work(n, d) / speed


def trained_rows(n: float) -> float:
    """Number of rows that the lists of `Ann` are trained on."""
    return min(n, max(65_536, 64 * sqrt(n)))


def _cells(n: float) -> float:
    """Number of cells of `Leaves`."""
    return min(n / 500, 4_096)


def _graph_cells(n: float) -> float:
    """Number of cells of `NeighbourGraph`."""
    return 0 if n <= EXACT_MAX else min(n / CELL_ROWS, MAX_CELLS)


def _around(n: float) -> float:
    """Number of rows that each row is compared with to find its neighbours: those in 1.4 times PROBES cells."""
    return n if n <= EXACT_MAX else 1.4 * PROBES * n / _graph_cells(n)


CURVES: dict[str, CostCurve] = {
    # every row, as float32
    "search-flat": CostCurve("memory", lambda n, d: (4 * d + 8) * n, 1.1, 3e-4),
    # 192 nodes with 16 links each, one byte per dimension; larger graphs cause more cache misses
    "search-hnsw": CostCurve("memory", lambda n, d: 192 * 16 * d * n**0.15, 1.5, 1.5e-4),
    # the centres of √n lists, and 64 lists with half a byte per two dimensions
    "search-ivfpq": CostCurve("memory", lambda n, d: (4 + 64 / 4) * d * sqrt(n), 2.5, 1.5e-4),
    # every code; the fixed part is for the vectors of 300 candidates
    "search-itq": CostCurve("memory", lambda n, d: d * n, 1.5, 1e-3),
    # one table look-up for every byte of every code
    "search-pq": CostCurve("memory", lambda n, d: d * n, 30.0, 1e-3),
    # every row against every support vector, for four searches
    "round-flat": CostCurve("product", lambda n, d: 4 * 2 * ROUND_MARKS * d * n, 5.5, 1.8e-2),
    # the visited leaves: one byte per dimension of every row, and its position
    "round-leaves": CostCurve("memory", lambda n, d: (d + 64) * n**0.6, 100.0, 2e-2),
    # for every row, 80 candidates with 16 links: one byte per dimension, and the links
    "build-hnsw": CostCurve("memory", lambda n, d: 80 * 16 * (d + 200) * n**1.15, 0.6),
    # every row against the centres of √n lists; training rows 25 times
    "build-ivfpq": CostCurve("product", lambda n, d: 2 * d * sqrt(n) * (n + 25 * trained_rows(n)), 4.0),
    # every row against the centres of cells, training rows 10 times; then cells are split into leaves, and every row is
    # scored for 64 hyperplanes to measure recall
    "build-leaves": CostCurve("product", lambda n, d: 2 * d * (_cells(n) * (n + 1280 * _cells(n)) + 5_100 * n), 1.3),
    # every row against all rows, or those of the cells around its own
    "build-neighbours": CostCurve("product", lambda n, d: 2 * d * n * _around(n), 1.4),
    # every row against the centres of cells
    "assign-neighbours": CostCurve("product", lambda n, d: 2 * d * n * _graph_cells(n), 1.1),
    # training rows against the centres of cells, in every iteration
    "train-neighbours": CostCurve(
        "product", lambda n, d: 2 * d * TRAINING_ROWS * ITERATIONS * _graph_cells(n) ** 2, 1.1
    ),
    # 256 principal components; other work per row costs as much as 180 more (see `pca_seconds`)
    "encode-pca": CostCurve("product", lambda n, d: 2 * d * (256 + PCA_EXTRA_COLUMNS) * n, 0.8),
    # 64 bits, and the work after the product
    "encode-itq": CostCurve("product", lambda n, d: 2 * 64 * (d + 100) * n, 1.4),
    # every part of a row against its 256 centroids
    "encode-pq": CostCurve("product", lambda n, d: 2 * d * 256 * n, 9.0),
}

FEATURE_S: Mapping[str, float] = {
    "efficientnet()": 0.0185,
    "efficientnet(views=2)": 0.0360,
    "efficientnet(pool='spoc')": 0.0188,
    "efficientnet(pool='rmac')": 0.0220,
    "vlad(local='efficientnetmaps()')": 0.0155,
    "vlad()": 0.0721,
    "fisher()": 0.0939,
    "fisher(k=256)": 0.1053,
    "join(parts=['probabilitycolor()', 'laplaciancolor()', 'hsv()', 'hough()', 'fourier()'])": 0.0061,
    "color()": 0.0021,
}
"""CPU seconds to read a picture of 768 × 512 pixels and extract the feature, one thread, on the reference machine."""

PICTURE_S = 0.0019
"""Seconds per picture for all other work of an add, including commits: `add` in the table, for small pictures."""

ADD_BYTES = 800e6
"""Memory of an add with its reading processes (README, 10,000 pictures)."""

CATALOGUE_BYTES = 330
"""Bytes on disk per picture, in addition to vectors and kinds: path, size, dates, id, digests, camera data, and 8 per
word in the path (docs/store.md)."""

ID_BYTES = 25
"""Bytes in memory per row of an index, in addition to the vector: id, sorted table of ids and rows, live flag."""

ANN_BYTES: Mapping[str, Callable[[float], float]] = {"hnsw": lambda d: d + 144, "ivfpq": lambda d: d / 4 + 24}
"""Bytes per row of the faiss structures, in memory and on disk."""

LEAVES_HELD = 1.0
"""Bytes per row of `Leaves` in memory: the mask of a filter. Everything else is mapped from the file."""

# Constants of a cluster, measured by benchmarks/cluster_shards.py on 2026-11-18 (docs/experiments/plan.md).
SHARD_POINT = CostCurve("memory", lambda n, d: (4 * d + 8) * n, 0.5, 1e-3)
"""A search of one shard by a point, on one core while the others search as well."""
# Most of the time is for the mask of allowed rows.
SHARD_PLANE = CostCurve("memory", lambda n, d: 1000 * n + 200 * (d + 64) * n**0.6, 1.0, 3e-3)
"""A search of one shard by a hyperplane, in leaves, without the marked rows."""
POINT_RATIOS = (0.98, 0.98, 0.98, 0.98, 0.99, 0.99, 1.00, 1.00, 1.00, 1.00,
                1.00, 1.00, 1.00, 1.01, 1.01, 1.01, 1.02, 1.02, 1.08, 1.12)  # fmt: skip
PLANE_RATIOS = (0.91, 0.91, 0.92, 0.93, 0.93, 0.93, 0.93, 0.94, 0.96, 1.00,
                1.00, 1.02, 1.02, 1.03, 1.03, 1.03, 1.04, 1.04, 1.04, 1.11)  # fmt: skip
"""Times of 20 searches of a shard of 1M rows, divided by their median."""
DRAWS = 1_000
"""Number of simulated searches."""
FANOUT_S, FANOUT_EACH_S = 5e-3, 6e-4
"""To ask the workers and to merge their answers: fixed part, and CPU time of the head per worker."""
HEAD_SEARCH_S, HEAD_MASK_S, HEAD_ROUND_S = 2e-11, 3e-10, 2e-9
"""Work of the head per row of the collection: in a search, in a search with a filter, and in a feedback round."""
ROUND_FIXED_S = 2e-2
"""Work of the head in a feedback round, regardless of the number of rows: mainly training."""
ROUND_SEARCHES = 3
"""Searches of a feedback round: for the ranking, the estimate and the questions."""
HEAD_PICTURE_S = 1.7e-4
"""CPU seconds of the head per added picture: listing, messages, catalogue and segments."""
HEAD_TASK_S = 1e-2
"""CPU seconds of the head per task of the neighbour graph: messages, and inserting the found rows into lists."""
HEAD_SMOOTHED_S = 5e-9
"""CPU seconds of the head per byte of smoothed rows, to receive and write them. Workers take as long to average them,
which is negligible for each of them."""
NETWORK = 1.25e9
"""Bytes per second that the head can send: 10 Gbit/s, assumed."""
# One NVIDIA H200, measured by benchmarks/gpu.py on 2026-11-19 (docs/gpu.md).
GPU_RAM = 141e9
"""Bytes of its memory; `GpuFlat` uses 80 % of what is free."""
GPU_MEMORY, GPU_UPLOAD = 3.65e12, 5.5e10
"""Bytes per second that a search by a point reads from its memory, and from host memory."""
GPU_PRODUCTS, GPU_DIFFERENCES = 1e12, 8e12
"""Speed of a pass in a feedback round with all its candidates: bytes per second for the Gaussian kernel, and absolute
differences per second for the Laplace kernel."""
GPU_FIXED_S, GPU_ROUND_S = 1.2e-3, 3e-2
"""Part of a search, and of a feedback round, that does not depend on the number of rows."""

WORKER_CORES = 8
"""Default number of cores, and so of workers, per machine of a cluster."""


def pca_seconds(n: float, d: float, columns: float, machine: Machine) -> float:
    """Predict the seconds to project n rows of d dimensions to this number of columns."""
    return CURVES["encode-pca"].seconds(n * (columns + PCA_EXTRA_COLUMNS) / (256 + PCA_EXTRA_COLUMNS), d, machine)


def graph_seconds(n: float, d: float, machine: Machine, workers: int = 0) -> float:
    """Predict the seconds to smooth n rows of d dimensions, mostly to find their neighbours; 0 workers: no cluster."""
    train_s, assign_s, build_s = (
        CURVES[f"{work}-neighbours"].seconds(n, d, machine) for work in ("train", "assign", "build")
    )
    if not workers:
        return train_s + assign_s + build_s
    slower = REFERENCE_MACHINE.product / machine.product
    cells = max(1, _graph_cells(n))
    tasks = cells * ceil(n / cells / TASK_ROWS) * ceil(_around(n) / EXACT_MAX)
    tasks_s = max((assign_s + build_s) / workers, tasks * HEAD_TASK_S * slower)
    return train_s + tasks_s + n * 4 * d * HEAD_SMOOTHED_S * slower


def leaves_bytes(d: float) -> float:
    """Bytes per row of the file of `Leaves`, or of leaves in the memory of a worker."""
    return 1.1 * d + 22


def _workers_peak(n: float, d: float, cores: int) -> float:
    """Peak memory of a machine whose cores build the leaves of n rows. Workers keep them in memory, not in files."""
    return cores * (PROCESS_BYTES + leaves_peak(n / cores, d)) + n * leaves_bytes(d)


def measure(clock: Callable[[], float] = time.perf_counter, *, one_core: bool = False) -> Machine:
    """Measure this machine with the threads that NumPy uses: the best of a few runs, half a second in total.

    >>> measure().product > 0
    True
    """
    if one_core:
        with SINGLE_BLAS_THREAD:
            return measure(clock)
    X = np.ones((MATRIX_ROWS, MATRIX_COLUMNS), np.float32)
    square, out = np.ones((PRODUCT_SIDE, PRODUCT_SIDE), np.float32), np.empty((PRODUCT_SIDE, PRODUCT_SIDE), np.float32)
    read_s = _best(lambda: X @ X[0], clock)
    multiply_s = _best(lambda: np.matmul(square, square, out=out), clock)
    return Machine(X.nbytes / read_s, 2 * PRODUCT_SIDE**3 / multiply_s)


def _best(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the seconds of the fastest of several calls; other processes can only slow a call down."""
    work()
    times = []
    for _ in range(TIMED_RUNS):
        start = clock()
        work()
        times.append(clock() - start)
    return max(min(times), 1e-9)


@dataclass(frozen=True, slots=True)
class Workload:
    """The number of pictures that a plan is for, and the length of their vectors."""

    items: int
    dim: int  # of the vectors that are searched
    feature_dim: int  # of the vectors of the feature
    chain: tuple[str, ...] = ()  # specs; empty if only the dimension is known
    name: str = "RECIPE"  # of the recipe, or of the space
    exists: bool = False  # whether the collection exists
    feature_s: float | None = None  # seconds to read a picture and extract its feature; None if unknown

    def __post_init__(self) -> None:
        for name in ("items", "dim", "feature_dim"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1. Got {getattr(self, name)}.")


@dataclass(frozen=True, slots=True)
class Way:
    """A search method and its cost."""

    name: str
    memory: float  # bytes that a process holds or reads in every search
    feedback: float  # additional bytes during feedback
    feedback_file: float  # bytes of the leaves, which feedback maps into memory and reads in part; 0 without leaves
    peak: float  # bytes while it is built
    disk: float  # bytes
    add_s: float | None  # to read, extract, encode and index all pictures; None: the feature's speed is unknown
    search_s: float  # by a picture in the collection; for others, features must be extracted first
    round_s: float  # of feedback
    recall: float
    commands: tuple[str, ...]
    made: bool  # whether this version uses it at this size
    why: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """All search methods, in order of preference, and the recommended one."""

    workload: Workload
    ram: float
    latency_s: float | None
    ways: tuple[Way, ...]
    chosen: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterWay(Way):
    """A search method on a cluster: `memory`, `feedback` and `peak` are those of one machine. All is modelled."""

    head: float = 0.0  # bytes of memory of the head
    core_hours: float | None = None  # to read all pictures and extract their features


@dataclass(frozen=True, slots=True)
class ClusterPlan(Plan):
    """The plan of a cluster with one worker per core; `ram` is that of one machine, inf if it does not matter."""

    machines: int
    cores_per_machine: int
    rows_per_worker: int
    modelled: bool = True


def recipe_workload(items: int, recipe: str) -> Workload:
    """Return the workload of a number of pictures with a recipe, or with a pipeline `NAME = SPEC | SPEC`.

    >>> recipe_workload(1_000, "color").dim, recipe_workload(1_000, "small = color() | pca(dim=32)").dim
    (512, 32)
    """
    name, chain = parse_recipe(recipe)
    return Workload(items, *_dims(chain), tuple(chain), name)


def collection_workload(stats: dict[str, Any], space: str | None = None) -> Workload:
    """Return the workload of a collection in one of its spaces; by default the first that stores vectors."""
    spaces = {row["name"]: row for row in stats["spaces"]}
    if not stats["items"] or not spaces:
        raise InputError("The collection is empty. Add pictures first: lookalike add FOLDER. Or plan ahead: --items N")
    if space is not None and space not in spaces:
        raise UnknownNameError("space", space, spaces)
    row = spaces[space] if space else next((r for r in spaces.values() if r["bits"] is None), stats["spaces"][0])
    dim, feature_dim = _dims(row["chain"])
    if row["state"] != "raw" and row["bits"] is None:
        dim = row["dim"]
    return Workload(stats["items"], dim, feature_dim, tuple(row["chain"]), row["name"], exists=True)


def with_speed(workload: Workload, machine: Machine, pictures_per_s: float | None = None) -> Workload:
    """Add the seconds per picture to a workload: from a measured rate, or from `FEATURE_S` scaled to this machine."""
    stored = FEATURE_S.get(workload.chain[0]) if workload.chain else None
    seconds = None if stored is None else stored * REFERENCE_MACHINE.product / machine.product
    return replace(workload, feature_s=1 / pictures_per_s if pictures_per_s else seconds)


def plan(workload: Workload, ram: float, latency_s: float | None = None, machine: Machine = REFERENCE_MACHINE) -> Plan:
    """Recommend the first search method that fits into `ram` bytes and answers within `latency_s`.

    >>> small, large = Workload(100_000, 256, 1280), Workload(10_000_000, 256, 1280)
    >>> plan(small, ram=4e9).chosen, plan(large, ram=4e9).chosen, plan(large, ram=1.6e9).chosen
    ('flat', 'ivfpq', 'codes-128')
    """
    _check_limits(ram, latency_s)
    ways, chosen = _choose(_ways(workload, ram, machine), ram, latency_s)
    chosen_name = None if chosen is None else chosen.name
    return Plan(workload, ram, latency_s, tuple(ways), chosen_name, tuple(_notes(workload, ways, chosen, ram)))


def plan_cluster(
    workload: Workload,
    machines: int,
    cores: int = WORKER_CORES,
    ram: float = inf,
    latency_s: float | None = None,
    machine: Machine = REFERENCE_MACHINE,
    seed: int = 0,
) -> ClusterPlan:
    """Model a cluster of machines with this number of cores and `ram` bytes each; `machine` is the speed of one core.

    >>> plan_cluster(Workload(100_000_000, 256, 1280), machines=10).rows_per_worker
    1250000
    """
    _check_limits(ram, latency_s)
    for name, value in (("machines", machines), ("cores per machine", cores)):
        if value < 1:
            raise InputError(f"{name} must be at least 1. Got {value}.")
    ways, chosen = _choose(_cluster_ways(workload, machines, cores, machine, seed), ram, latency_s)
    return ClusterPlan(
        workload,
        ram,
        latency_s,
        tuple(ways),
        None if chosen is None else chosen.name,
        tuple(_cluster_notes(ways, chosen, machines * cores)),
        machines,
        cores,
        -(-workload.items // (machines * cores)),
    )


def search_seconds(kind: str, n: int, width: float, machine: Machine = REFERENCE_MACHINE) -> float:
    """Predict the time of a search in n vectors or codes.

    `width` is the dimension of the vectors for "flat", "hnsw" and "ivfpq", or the bytes of a code for "itq" and "pq".
    """
    if kind == "gpu":
        return gpu_seconds(n, width)
    return CURVES[f"search-{kind}"].seconds(n, width, machine)


def gpu_bytes(n: float, d: float) -> float:
    """Memory of `GpuFlat` for n rows: half precision, squared length and mask, and the scores of two searches."""
    return (2 * (d + -d % 16) + 5 + 8) * n


def gpu_seconds(n: float, d: float) -> float:
    """Predict a search on a GPU by a point, which reads all rows."""
    return GPU_FIXED_S + 2 * d * n * _gpu_read(n, d)


def gpu_round_seconds(n: float, d: float) -> tuple[float, float]:
    """Predict a feedback round on a GPU: one pass with the Gaussian kernel, or two with the Laplace kernel."""
    slower = GPU_MEMORY * _gpu_read(n, d)
    one, two = 2 * d * n / GPU_PRODUCTS, 2 * ROUND_MARKS * d * n / GPU_DIFFERENCES
    return GPU_ROUND_S + one * slower, GPU_ROUND_S + two * max(1.0, slower / 2)


def _gpu_read(n: float, d: float) -> float:
    """Seconds to read a byte: some rows may be in host memory."""
    resident = min(1.0, 0.8 * GPU_RAM / gpu_bytes(n, d))
    return resident / GPU_MEMORY + (1 - resident) / GPU_UPLOAD


def slowest_seconds(samples: Sequence[float], n: int, cores: int, seed: int = 0) -> float:
    """Median seconds until n shards on this number of cores have answered, from sampled seconds of one shard.

    Shards on the same core run one after the other.

    >>> slowest_seconds([1.0], n=4, cores=2)
    2.0
    """
    each = -(-n // cores)
    drawn = np.random.default_rng(seed).choice(samples, (DRAWS, min(n, cores), each))
    return float(np.median(drawn.sum(axis=2).max(axis=1)))


def _check_limits(ram: float, latency_s: float | None) -> None:
    for name, value in (("ram", ram), ("latency", latency_s)):
        if value is not None and value <= 0:
            raise InputError(f"{name} must be above 0. Got {value:g}.")


def _choose(ways: Iterable[AnyWay], ram: float, latency_s: float | None) -> tuple[list[AnyWay], AnyWay | None]:
    """Choose the first search method that can be used; add the reasons to all."""
    chosen: AnyWay | None = None
    explained = []
    for way in ways:
        why = _obstacle(way, ram, latency_s)
        if not why and chosen is None:
            chosen, why = way, "exact, and fits" if way.recall == 1 else "highest recall that fits"
        elif not why and chosen is not None:
            why = f"also fits, but {chosen.name} has a higher recall"
        explained.append(replace(way, why=why))
    return explained, chosen


def _cluster_ways(workload: Workload, machines: int, cores: int, machine: Machine, seed: int) -> Iterator[ClusterWay]:
    """Yield the search methods of a cluster, in order of preference."""
    n, workers = workload.items, machines * cores
    rows = -(-n // workers)
    slower = REFERENCE_MACHINE.product / machine.product
    no_leaves = 0.0  # the head stores none, because the workers build their own
    here = {way.name: way for way in _ways(replace(workload, feature_s=0.0), no_leaves, machine, workers)}
    smooth = bool(workload.chain) and is_smooth(workload.chain[-1])
    for name, way in here.items():
        if name in ANN_BYTES:
            continue
        coder, bits, _ = CODE_WAYS.get(name) or (name, 0, 1.0)
        feedback_dim = workload.feature_dim if bits else workload.dim
        feedback_bytes = float(ID_BYTES if bits or smooth else 0)  # codes and smoothed vectors are other rows
        plane_s = CURVES["round-flat"].seconds(rows, feedback_dim, machine) / 4
        if rows >= LEAVES_MIN:
            plane_s = SHARD_PLANE.seconds(rows, feedback_dim, machine)
            feedback_bytes += leaves_bytes(feedback_dim)
        point_s = SHARD_POINT.seconds(rows, workload.dim, machine)
        if bits:
            point_s = search_seconds(coder, rows, bits // 8, machine)
        point_s, plane_s = (
            slowest_seconds([median_s * ratio for ratio in ratios], workers, workers, seed)
            for median_s, ratios in ((point_s, POINT_RATIOS), (plane_s, PLANE_RATIOS))
        )
        fanout_s = FANOUT_S + workers * FANOUT_EACH_S
        mask_s = n * (HEAD_MASK_S + 1 / 8 / NETWORK)
        memory = cores * PROCESS_BYTES + (way.memory - PROCESS_BYTES) / machines
        after_s = (way.add_s or 0.0) - n * PICTURE_S * slower  # mostly the neighbour graph
        describe_s = None if workload.feature_s is None else n * (workload.feature_s + PICTURE_S * slower)
        add_s = None if describe_s is None else max(describe_s / workers, n * HEAD_PICTURE_S * slower) + after_s
        yield ClusterWay(
            name=name,
            memory=memory,
            feedback=n / machines * feedback_bytes,
            feedback_file=0.0,
            peak=memory if rows < LEAVES_MIN else _workers_peak(n / machines, feedback_dim, cores),
            disk=way.disk,
            add_s=add_s,
            search_s=point_s + fanout_s + n * HEAD_SEARCH_S,
            round_s=ROUND_SEARCHES * (plane_s + fanout_s + mask_s) + ROUND_FIXED_S + n * HEAD_ROUND_S,
            recall=way.recall,
            commands=tuple(command.replace("lookalike", "lookalike --cluster ADDRESS", 1) for command in way.commands),
            made=True,
            head=max(way.peak, PROCESS_BYTES + n * ID_BYTES * (2 if feedback_bytes else 1)),
            core_hours=None if describe_s is None else describe_s / 3600,
        )


def _cluster_notes(ways: Sequence[ClusterWay], chosen: ClusterWay | None, workers: int) -> Iterator[str]:
    """Yield notes for the user."""
    yield (
        "All figures are modelled from measurements of single shards and of clusters with up to 4 workers; see"
        " docs/experiments/plan.md."
    )
    if chosen is None:
        needed = min(max(way.memory, way.peak) for way in ways)
        fastest_s = min(way.search_s for way in ways)
        yield (
            f"Nothing fits. The smallest way needs {human_bytes(needed)} of memory per machine, the fastest"
            f" {human_seconds(fastest_s)} per search. Use more machines."
        )
    elif chosen.add_s is not None and chosen.core_hours is not None:
        describe_s = 3600 * chosen.core_hours / workers
        if chosen.add_s > 2 * describe_s:
            yield (
                f"The workers extract the features in {human_seconds(describe_s)}. The add takes longer because of the"
                " work of the head, which more machines do not make faster."
            )


def _ways(workload: Workload, ram: float, machine: Machine, workers: int = 0) -> Iterator[Way]:
    """Yield all search methods, in order of preference; the workers of a cluster find neighbours."""
    n, d, D = workload.items, workload.dim, workload.feature_dim
    searches_feature = len(workload.chain) < 2 and d == D  # the feature's own vectors are searched
    vector_bytes = 4 * d if searches_feature else row_width(d)  # of a stored vector
    feature_bytes = 0 if searches_feature else row_width(D) + 8
    encode_s = 0.0 if searches_feature else pca_seconds(n, D, d, machine)
    smooth_bytes = smooth_memory = 0.0
    if workload.chain and is_smooth(workload.chain[-1]):
        smooth_bytes = vector_bytes + 8 + GRAPH_BYTES  # the smoothed rows and the neighbour graph
        smooth_memory = 2 * n * GRAPH_BYTES + max(min(n, EXACT_MAX), TRAINING_ROWS * _graph_cells(n)) * 4 * d
        encode_s += graph_seconds(n, d, machine, workers)
    for kind in INDEX_RANGES:
        structure_bytes = ANN_BYTES[kind](d) if kind in ANN_BYTES else 0.0
        build_s = CURVES[f"build-{kind}"].seconds(n, d, machine) if structure_bytes else 0.0
        row_bytes = vector_bytes + 4 if kind == "flat" else 16  # rows and their squared lengths; a table of ids
        held_bytes = n * (structure_bytes + row_bytes + ID_BYTES)
        yield _way(
            (workload, ram, machine),
            kind,
            memory=held_bytes,
            build_memory=max(
                held_bytes + trained_rows(n) * 4 * d if structure_bytes else n * ID_BYTES,
                n * ID_BYTES + smooth_memory,
            ),
            disk=n * (feature_bytes + vector_bytes + 8 + smooth_bytes + structure_bytes),
            feedback_dim=d,
            seconds=encode_s + build_s,
        )
    # The vectors of an existing space stay on disk.
    old_space_bytes = vector_bytes + 8 + smooth_bytes if workload.exists and not searches_feature else 0
    for name, (coder, bits, _) in CODE_WAYS.items():
        held_bytes = n * (bits / 8 + 2 * ID_BYTES)  # ids of the codes, and of the vectors, of which a search reads few
        yield _way(
            (workload, ram, machine),
            name,
            memory=held_bytes,
            build_memory=held_bytes + 2 * ROWS_BYTES,
            disk=n * (row_width(D) + 8 + bits / 8 + 8 + old_space_bytes),
            feedback_dim=D,
            seconds=CURVES[f"encode-{coder}"].seconds(n * bits / 64, D, machine),
        )


def _way(
    conditions: tuple[Workload, float, Machine],
    name: str,
    *,
    memory: float,
    build_memory: float,
    disk: float,
    feedback_dim: int,
    seconds: float,
) -> Way:
    """Return a search method with all its costs; `feedback_dim` is the dimension of the vectors for feedback."""
    workload, ram, machine = conditions
    n = workload.items
    coder, bits, recall = CODE_WAYS.get(name) or (name, 0, INDEX_RECALL[name])
    leaves = n >= LEAVES_MIN and leaves_fit(n, feedback_dim, ram)
    fit_memory = 2.2 * min(SAMPLE_BYTES, 4 * workload.feature_dim * min(n, FIT_MAX))  # rows and intermediate results
    # one after the other: read pictures, fit transforms, build the index, build leaves
    peak = max(ADD_BYTES, PROCESS_BYTES + fit_memory, PROCESS_BYTES + build_memory)
    if leaves:
        peak = max(peak, PROCESS_BYTES + leaves_peak(n, feedback_dim))
        disk += n * leaves_bytes(feedback_dim)
        seconds += CURVES["build-leaves"].seconds(n, feedback_dim, machine)
    kinds_bytes = KIND_BYTES + 8 if workload.chain and recognizes_kinds(workload.chain[0]) else 0  # with ids
    add_s = None
    if workload.feature_s is not None:
        add_s = n * (workload.feature_s + PICTURE_S * REFERENCE_MACHINE.product / machine.product) + seconds
    return Way(
        name=name,
        memory=PROCESS_BYTES + memory,
        feedback=n * LEAVES_HELD if leaves else 0.0,
        feedback_file=n * leaves_bytes(feedback_dim) if leaves else 0.0,
        peak=peak,
        disk=disk + n * (CATALOGUE_BYTES + kinds_bytes),
        add_s=add_s,
        search_s=search_seconds(coder, n, bits // 8 or workload.dim, machine),
        round_s=CURVES["round-leaves" if leaves else "round-flat"].seconds(n, feedback_dim, machine),
        recall=recall,
        commands=_commands(workload, coder, bits),
        made=bool(bits) or name == choose(n),
    )


def _obstacle(way: Way, ram: float, latency_s: float | None) -> str:
    """Return why a search method cannot be used; empty if it can."""
    if not way.made:
        exact = " (at any size with --effort exact)" * (way.name == "flat")
        return f"used only {INDEX_RANGES[way.name]}{exact}"
    if way.memory > ram:
        return f"needs {human_bytes(way.memory)} of memory"
    if way.peak > ram:
        return f"needs {human_bytes(way.peak)} of memory to build"
    if latency_s is not None and way.search_s > latency_s:
        return f"too slow: {human_seconds(way.search_s)} per search"
    return ""


def _commands(workload: Workload, coder: str, bits: int) -> tuple[str, ...]:
    """Return the commands that set up a search method, for new pictures or for the existing collection."""
    pipeline = f'"{workload.name} = {" | ".join(workload.chain)}"'
    recipe = pipeline if workload.chain and workload.name not in RECIPES else workload.name
    space = ("codes" if coder == "itq" else coder) if bits else workload.name
    fit_commands = [f"lookalike fit '{space}(bits={bits})'"] if bits else []
    if workload.exists:
        exact = " --effort exact" if not bits and is_coder(workload.chain[-1]) else ""  # vectors instead of its codes
        return (*fit_commands, f"lookalike search IMAGE --space {space}{exact}")
    if bits and workload.chain:
        recipe, fit_commands = f'"{space} = {workload.chain[0]} | {coder}(bits={bits})"', []
    return (f"lookalike add FOLDER --recipe {recipe}", *fit_commands, f"lookalike search IMAGE --space {space}")


def _notes(workload: Workload, ways: Sequence[Way], chosen: Way | None, ram: float) -> Iterator[str]:
    """Yield notes for the user."""
    if chosen is None:
        available = [way for way in ways if way.made]
        least_memory = min(max(way.memory, way.peak) for way in available)
        fastest_s = min(way.search_s for way in available)
        yield (
            f"Nothing fits. The smallest way needs {human_bytes(least_memory)} of memory, the fastest"
            f" {human_seconds(fastest_s)} per search. Use fewer pictures, a recipe with shorter vectors (--recipe"
            ' "small = efficientnet() | pca(dim=64)"), a larger machine, or several machines (--machines).'
        )
        return
    if workload.items >= LEAVES_MIN and not chosen.feedback:
        yield (
            "There is not enough memory to build the feedback index (leaves). Each feedback round scans all vectors,"
            f" which takes about {human_seconds(chosen.round_s)}, or longer if they must be read from the disk."
        )
    elif chosen.memory + chosen.feedback > ram:
        yield (
            f"During feedback, a process needs {human_bytes(chosen.memory + chosen.feedback)} of memory, more than"
            " available. Run feedback in a separate process, or in another space."
        )
    elif chosen.feedback and chosen.memory + chosen.feedback_file > ram:
        yield (
            f"The file of the feedback index (leaves) takes {human_bytes(chosen.feedback_file)}, which is more than the"
            " free memory. Feedback reads parts of it from the disk, which takes longer."
        )
    if workload.items >= GPU_MIN and chosen.name not in CODE_WAYS:
        n, d = workload.items, workload.dim
        first, last = gpu_round_seconds(n, d)
        yield (
            f"On a GPU, all searches are exact. Modelled for one NVIDIA H200: {human_bytes(gpu_bytes(n, d))} of its"
            f" memory, {human_seconds(gpu_seconds(n, d))} per search, {human_seconds(first)} to {human_seconds(last)}"
            " per feedback round, depending on the kernel."
        )
    if workload.items > MEASURED_MAX:
        yield (
            f"These figures are extrapolated: nothing above {MEASURED_MAX:,} pictures was measured. To plan for"
            " several machines: lookalike plan --machines N"
        )
    if chosen.add_s is not None and chosen.add_s > LONG_ADD_S:
        yield f"Adding takes about {human_seconds(chosen.add_s)}. You can stop it and resume it at any time."


def _dims(chain: Sequence[str]) -> tuple[int, int]:
    """Return the dimension after the transforms, and that of the feature."""
    feature_dim = dim = int(create("feature", chain[0]).dim)
    for spec in chain[1:]:
        if not is_coder(spec):
            dim = min(dim, getattr(create("transform", spec), "dim", None) or dim)
    return dim, feature_dim


@dataclass(frozen=True)
class RecipeSpeed:
    """The speed of a recipe on this machine."""

    dim: int
    pictures_per_s: float


def measure_recipe(chain: Sequence[str], *, one_core: bool = False) -> RecipeSpeed:
    """Estimate the speed of a recipe from a few generated pictures, in about a second; transforms are not timed.

    The work of the reading processes is divided by the number of cores; other work is not. Raises MissingError if the
    weights of a network are missing.
    """
    feature, rate = _rate(chain[0], 1 if one_core else count_cores())
    dim = feature.dim
    for spec in chain[1:]:
        dim = min(dim, getattr(create("transform", spec), "dim", None) or dim)
    return RecipeSpeed(dim, rate)


@cache
def _rate(spec: str, cores: int) -> tuple[Feature, float]:
    """Return a feature, and the number of pictures per second that it processes."""
    feature: Feature = create("feature", spec)
    files = _generated_files()
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)  # as in the reading processes
    try:
        prepared = [feature.prepare(read(data, side=feature.side).pixels) for data in files[:2]]  # warms up
        start = time.perf_counter()
        prepared = [feature.prepare(read(data, side=feature.side).pixels) for data in files]
        prepare_s = (time.perf_counter() - start) / TIMED_PICTURES
    finally:
        cv2.setNumThreads(threads)
    if needs_fit(feature):
        feature.fit(prepared, max_bytes=VOCABULARY_BYTES)  # type: ignore[attr-defined]
    with SINGLE_BLAS_THREAD:
        feature.describe(prepared[:1])
        start = time.perf_counter()
        feature.describe(prepared)
        describe_s = (time.perf_counter() - start) / TIMED_PICTURES
    parallel_s = prepare_s + describe_s if feature.by_picture else prepare_s
    return feature, 1 / (parallel_s / cores + (prepare_s + describe_s - parallel_s))


@cache
def _generated_files() -> list[bytes]:
    """Generate pictures as JPEG files."""
    files = []
    for i in range(TIMED_PICTURES):
        picture = draw(KINDS[i % len(KINDS)], np.random.default_rng(i))
        ok, data = cv2.imencode(".jpg", cv2.resize(picture, TIMED_SHAPE)[:, :, ::-1])
        assert ok
        files.append(data.tobytes())
    return files
