"""Searches for the 50 best vectors for a hyperplane: their recall, and their speed-up over a scan.

Rows are indexes and scans, columns are measures, kinds of query and sets of vectors: recall@50, speed-up over
`scan-f32` in the same run, the share of the vectors that were scored, bytes per item in memory. Synthetic vectors need
no data folder; the columns `sift` read pictures from it.

Protocol. Vectors are sampled from 1,000 isotropic Gaussian clusters in 128 dimensions, centres N(0, 1), sizes
log-normal. The spread, 1.5, determines the number of leaves that must be visited. With it, the highest-scoring vectors
of an SVM, as many as its cluster has, nearly all belong to that cluster (98 %, 100,000 vectors; 1.25: 99.6 %, 1.75:
90 %, 2: 79 %); if clusters overlap more, searches visit more vectors and gain less. A query is an SVM (Laplace kernel,
L1, C = 100, balanced classes) of 10 vectors of a cluster against 12 of the five nearest clusters and 28 of any other.
The ground truth is a full scan, whose best 1,000 are scored again in double precision. A search and its scan are timed
one after the other, several times for every query, on all cores; the result is the median of the ratios. Constants of
`Leaves` were chosen on seeds from 100 on. More than 2M vectors are float16 in a file and are read on demand, as are
their leaves; the scan's time does not include reading. The trees of the paper are measured only at 100k. Rows
`gaussian` use the Gaussian kernel.

The columns `sift` use real vectors: rootSIFT of the photos of corel1k, ukbench2000 and corel5k, in random order, at
OpenCV's keypoints; `sift10M` at the points of a dense grid. A query is the SVM of feedback for the 15 vectors nearest
to a random one against 35 random ones.
"""

import math
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.svm import SVC

from lookalike.arrays import chunks
from lookalike.compiler import njit
from lookalike.errors import InputError, SourceError
from lookalike.feedback.learners import Svm
from lookalike.index.flat import Flat
from lookalike.index.fsm_tree import FsmTree
from lookalike.index.leaves import Leaves
from lookalike.index.queries import HyperplaneQuery, Kind
from lookalike.index.threads import share
from lookalike.kernels import KERNELS, typical_gamma
from lookalike.types import Hits, Ids, Progress, Vectors
from lookalike_bench import datasets
from lookalike_bench.measures import bootstrap, mean
from lookalike_bench.tables import Bench, Score

K, QUERIES, REPEATS = 50, 12, 3
DIM, CLUSTERS, SPREAD = 128, 1_000, 1.5
POSITIVE, HARD, NEGATIVE = 10, 12, 28
C = 100.0
EPSILON, DELTA = 1.0, 0.1
"""For the rows `ac` and `pac`: the k-th result may be twice as far, and farther with probability 0.1."""
PART = 250_000
"""Vectors that are generated or scanned at a time."""
SIZES = {"100k": 100_000, "1M": 1_000_000, "10M": 10_000_000}
PHOTOS = ("corel1k", "ukbench2000", "corel5k")
SIFT_SIZES = {"sift100k": 100_000, "sift1M": 1_000_000, "sift10M": 10_000_000}
"""Number of real vectors, from as many of `PHOTOS` as needed."""
GRID_STEP, GRID_SIZE = 5, 12
"""Pixels between the points of the dense grid, and the size of their keypoints: 12.7M in all photos."""
CONTRAST = 0.01
"""Minimum contrast of a keypoint: about a thousand per photo of corel1k."""
NEAR, FAR = 15, 35
"""Marks of a query of real vectors."""
LARGE = 2_000_000
"""Above this number, vectors are float16 in a file."""
TREES: dict[str, dict[str, float]] = {
    "exact": {},
    "ac": {"epsilon": EPSILON},
    "pac": {"epsilon": EPSILON, "delta": DELTA},
}
GAUSSIAN = ("scan-f32-gaussian", "scan-u8-gaussian", "fast-gaussian", "balanced-gaussian")
ROWS = ("scan-f32", "scan-u8", *TREES, "fast", "balanced", *GAUSSIAN)
MEASURES = (
    "recall-frontier",
    "speedup-frontier",
    "recall-maximum",
    "speedup-maximum",
    "scored-frontier",
    "scored-maximum",
)
COLUMNS = {f"{measure}-{size}": (measure, size) for size in (*SIZES, *SIFT_SIZES) for measure in (*MEASURES, "bytes")}


EXP2 = (0.0018775767, 0.0089893397, 0.055826318, 0.24015361, 0.69315308, 0.99999994)
"""Coefficients of a polynomial for 2ˣ, 0 ≤ x < 1, highest power first."""


class Marked(NamedTuple):
    """A hyperplane as a query of each kind, and the best vectors by a full scan."""

    query: dict[Kind, HyperplaneQuery]
    best: dict[Kind, Ids]  # (K,) each


@dataclass
class World:
    """Vectors and their indexes."""

    X: NDArray[Any]  # (n, d) float32, or float16 in a file
    y: NDArray[np.int64] | None = None  # (n,) clusters of synthetic vectors
    centres: Vectors | None = None  # (clusters, d)
    leaves: Leaves = field(default_factory=Leaves)
    tree: FsmTree = field(default_factory=FsmTree)

    def scan(self, query: HyperplaneQuery) -> tuple[Vectors, float]:
        """f / ‖w‖ of every vector by `scan_float32`, and its seconds without reading."""
        f, seconds = np.empty(len(self.X), np.float32), 0.0
        step = len(self.X) if self.X.dtype == np.float32 else PART
        for start in range(0, len(self.X), step):
            X = self.X[start : start + step].astype(np.float32, copy=False)
            begin = time.perf_counter()
            f[start : start + step] = scan_float32(X, query)
            seconds += time.perf_counter() - begin
        return f, seconds


class Outcome(NamedTuple):
    """Results of one row of the table, one number per query."""

    recall: list[float]
    speedup: list[float]
    scored: list[float]


def draw(n: int, seed: int, X: NDArray[Any]) -> tuple[NDArray[np.int64], Vectors]:
    """Fill X (n, d) with samples of the mixture; return the cluster of each, (n,), and the centres."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((CLUSTERS, DIM), np.float32)
    shares = np.exp(random.normal(0, 1, CLUSTERS))
    y = random.choice(CLUSTERS, n, p=shares / shares.sum())
    for start in range(0, n, PART):
        some = y[start : start + PART]
        X[start : start + PART] = SPREAD * random.standard_normal((len(some), DIM), np.float32) + centres[some]
    return y, centres


def pick(
    X: NDArray[Any], y: NDArray[np.int64], centres: Vectors, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Marked rows (m, d) for a random cluster, and their signs (m,), by the protocol above."""
    target = random.choice(np.flatnonzero(np.bincount(y, minlength=len(centres)) >= K))
    near = np.argsort(cdist(centres[target][None], centres)[0])[1:6]
    rows = [
        random.choice(np.flatnonzero(mask), size, replace=False)
        for mask, size in ((y == target, POSITIVE), (np.isin(y, near), HARD), (y != target, NEGATIVE))
    ]
    return X[np.concatenate(rows)].astype(np.float64), np.repeat([1, -1], [POSITIVE, HARD + NEGATIVE])


def train(
    marked: NDArray[np.float64], sides: NDArray[np.int64], kernel: str = "laplace", gamma: float = 1.0
) -> HyperplaneQuery:
    """The hyperplane of an SVM fitted to marked rows."""
    gram = KERNELS[kernel].pairs(marked, marked, gamma)
    svm = SVC(C=C, kernel="precomputed", class_weight="balanced").fit(gram, sides)
    return HyperplaneQuery(
        marked[svm.support_], svm.dual_coef_[0], float(svm.intercept_[0]), kernel=kernel, gamma=gamma
    )


@cache
def world(size: str, seed: int, data: Path) -> World:
    """The vectors of a column, generated or read once per process."""
    if size in SIFT_SIZES:
        X = empty_rows(SIFT_SIZES[size])
        read_sift(data, seed, X)
        return World(X)
    X = empty_rows(SIZES[size])
    return World(X, *draw(len(X), seed, X))


def empty_rows(n: int) -> NDArray[Any]:
    """An array for n vectors, (n, 128): float32 in memory, or float16 in a file if there are more than `LARGE`."""
    if n <= LARGE:
        return np.empty((n, DIM), np.float32)
    with tempfile.TemporaryFile(prefix="lookalike-bench-") as file:  # deleted when the map is closed
        return np.memmap(file, np.float16, "w+", shape=(n, DIM))


def read_sift(data: Path, seed: int, X: NDArray[Any]) -> None:
    """Fill X (n, 128) with rootSIFT of photos, in random order; on a dense grid if n is larger than `LARGE`."""
    n = len(X)
    sift = cv2.SIFT_create(contrastThreshold=CONTRAST)  # type: ignore[attr-defined]
    parts: list[NDArray[np.uint8]] = []
    for name in PHOTOS:
        if sum(map(len, parts)) >= n:
            break
        photos = datasets.load(name, data)
        with tarfile.open(photos.source) as archive:
            for member in photos.labels:
                file = archive.extractfile(member)
                assert file is not None
                gray = cv2.imdecode(np.frombuffer(file.read(), np.uint8), cv2.IMREAD_GRAYSCALE)
                assert gray is not None
                found = (sift.compute(gray, _grid(gray.shape)) if n > LARGE else sift.detectAndCompute(gray, None))[1]
                if found is not None:
                    parts.append(found.astype(np.uint8))
    rows = np.concatenate(parts)
    if len(rows) < n:
        raise SourceError(f"The photos in {data} have {len(rows):,} keypoints, but {n:,} are needed.")
    order = np.random.default_rng(seed).permutation(len(rows))[:n]
    for part in chunks(n, row_bytes=4 * DIM):
        some = rows[order[part]].astype(np.float32)
        X[part] = np.sqrt(some / np.maximum(some.sum(axis=1, keepdims=True), 1))


@cache
def _grid(shape: tuple[int, int]) -> list[cv2.KeyPoint]:
    """The points of a dense grid over a gray picture."""
    ys, xs = (range(GRID_STEP, side - GRID_STEP, GRID_STEP) for side in shape)
    return [cv2.KeyPoint(float(x), float(y), GRID_SIZE) for y in ys for x in xs]


@cache
def marked_queries(size: str, kernel: str, seed: int, data: Path) -> list[Marked]:
    """Queries and their best vectors."""
    made, queries = world(size, seed, data), []
    random = np.random.default_rng(seed + 1)
    gamma = (2 if kernel == "gaussian" else 1) * typical_gamma(kernel, made.X[:PART].astype(np.float32))
    for _ in range(QUERIES):
        if made.y is None or made.centres is None:
            query = train_near(made.X, random, kernel)
        else:
            query = train(*pick(made.X, made.y, made.centres, random), kernel, gamma)
        kinds: dict[Kind, HyperplaneQuery] = {"frontier": query, "maximum": query.of_kind("maximum")}
        f = made.scan(query)[0]
        best = {kind: _exact(made, kinds[kind], np.abs(f) if kind == "frontier" else -f) for kind in kinds}
        queries.append(Marked(kinds, best))
    return queries


def train_near(X: Vectors, random: np.random.Generator, kernel: str) -> HyperplaneQuery:
    """The hyperplane of feedback for the vectors nearest to a random one, against random ones."""
    centre = X[random.integers(len(X))]
    far = np.concatenate([np.square(X[part] - centre).sum(1) for part in chunks(len(X), row_bytes=4 * DIM)])
    rows = [np.argpartition(far, NEAR)[:NEAR], random.choice(len(X), FAR, replace=False)]
    return Svm(kernel).fit(X[np.concatenate(rows)], np.repeat([1, -1], [NEAR, FAR]).astype(np.int8)).query_


def _exact(made: World, query: HyperplaneQuery, scores: Vectors) -> Ids:
    """The K best rows by scores in double precision, among the 20 K best by a float32 scan."""
    few = np.argpartition(scores, 20 * K)[: 20 * K]
    best: Ids = few[np.argsort(query.score(made.X[few].astype(np.float32))[0], kind="stable")[:K]]
    return best


def search(row: str, made: World, query: HyperplaneQuery) -> Hits:
    """Search with the method of a row of the table."""
    row = row.removesuffix("-gaussian")
    if row in TREES:
        return made.tree.search(query, K, **TREES[row])  # type: ignore[arg-type]
    return made.leaves.search(query, K, effort=1 if row == "scan-u8" else row)


def _built(row: str, made: World, progress: Progress) -> World:
    if row in TREES and not len(made.tree):
        progress("building the tree", 0, None)
        made.tree.add(np.arange(len(made.X)), made.X)
    if row not in TREES and not row.startswith("scan-f32") and not len(made.leaves):
        build(made.leaves, made.X, progress)
    return made


def build(leaves: Leaves, X: NDArray[Any], progress: Progress) -> None:
    """Build leaves over vectors X: in a file if X is in one."""
    flat = Flat()
    flat.add(np.arange(len(X)), X)
    with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as folder:  # a mapped file stays until it is closed
        leaves.build(flat, progress, None if X.dtype == np.float32 else Path(folder, "leaves"))


@cache
def outcome(row: str, kind: Kind, size: str, seed: int, data: Path) -> Outcome:
    """Run every query, alternating between the search and the scan."""
    made, is_scan = world(size, seed, data), row.startswith("scan-f32")
    queries = marked_queries(size, "gaussian" if row.endswith("-gaussian") else "laplace", seed, data)
    result = Outcome([], [], [])
    if not is_scan:
        search(row, made, queries[0].query[kind])  # compiles
    for marked in queries:
        query = marked.query[kind]
        for _ in range(REPEATS):
            scan = made.scan(query)[1]
            begin = time.perf_counter()
            hits = None if is_scan else search(row, made, query)
            result.speedup.append(scan / (time.perf_counter() - begin) if hits else 1.0)
        result.recall.append(float(np.isin(marked.best[kind], hits.ids).mean()) if hits else 1.0)
        result.scored.append(hits.scored / len(made.X) if hits else 1.0)
    return result


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:
    """Fill one cell. `seed` seeds the vectors, the queries and the bootstrap."""
    measure, size = COLUMNS[column]
    progress("reading photos" if size in SIFT_SIZES else "generating vectors", 0, None)
    made = _built(row, world(size, seed, data), progress)
    if measure == "bytes":
        held = 0 if row.startswith("scan-f32") else made.leaves.nbytes
        each = (held + (made.X.nbytes if made.X.dtype == np.float32 else 0)) / len(made.X)
        return Score("bytes per item", each, each, each, scored=0)
    kind: Kind = "frontier" if measure.endswith("frontier") else "maximum"
    found = outcome(row, kind, size, seed, data)
    name = measure.partition("-")[0]
    values = getattr(found, name)
    centre: Callable[[Any], Any] = np.median if name == "speedup" else mean
    low, high = np.quantile(values, [0.1, 0.9]) if name == "speedup" else bootstrap(values, seed=seed)
    scored = round(mean(found.scored) * len(made.X))
    return Score("× scan-f32" if name == "speedup" else name, float(centre(values)), float(low), float(high), scored)


def scan_float32(X: Vectors, query: HyperplaneQuery) -> Vectors:
    """f / ‖w‖ (n,) of rows X (n, d) for the kernels laplace and gaussian, in float32 (Eq. 3, fsm-tree).

    The fastest plain scan: distances and kernels of a row stay in registers, and all cores are used.
    """
    if query.kernel not in ("laplace", "gaussian"):
        raise InputError(f"scan_float32 supports only the kernels laplace and gaussian. Got {query.kernel}.")
    a, b = (query.a / query.length).astype(np.float32), np.float32(query.b / query.length)
    out, gamma, squared = np.empty(len(X), np.float32), np.float32(query.gamma), query.kernel == "gaussian"
    share(lambda start, stop: _scan(X[start:stop], query.X, a, b, gamma, squared, out[start:stop]), len(X))
    return out


@njit(cache=True, fastmath=True, nogil=True)
def _scan(X: Any, S: Any, a: Any, b: Any, gamma: Any, squared: Any, out: Any) -> None:
    D = np.empty(len(S), np.float32)
    for p in range(len(X)):
        for i in range(len(S)):
            total = np.float32(0)
            if squared:
                for e in range(X.shape[1]):
                    total += (X[p, e] - S[i, e]) * (X[p, e] - S[i, e])
            else:
                for e in range(X.shape[1]):
                    total += abs(X[p, e] - S[i, e])
            D[i] = total
        f = b
        for i in range(len(S)):
            f += a[i] * _exp(-gamma * D[i])
        out[p] = f


@njit(inline="always")
def _exp(x: Any) -> Any:
    """exp of float32 x ≤ 0 with an error of 1e-7, by a polynomial that the compiler can vectorise."""
    x = max(x * np.float32(1.4426950408889634), np.float32(-126.0))
    whole = np.int32(math.floor(x))
    part = x - np.float32(whole)
    value = np.float32(EXP2[0])
    for i in range(1, len(EXP2)):
        value = value * part + np.float32(EXP2[i])
    return value * np.int32((whole + np.int32(127)) << np.int32(23)).view(np.float32)


def check(columns: Sequence[str], data: Path) -> None:
    """Raise an error if a column needs photos that are missing."""
    if any(COLUMNS[column][1] in SIFT_SIZES for column in columns):
        datasets.check(PHOTOS[0], data)


def has(row: str, column: str) -> bool:
    """Whether the cell exists: trees are measured only at 100k, without their memory."""
    measure, size = COLUMNS[column]
    return row not in TREES or (size == "100k" and measure != "bytes")


BENCH = Bench(
    "hyperplane",
    "search for the 50 best vectors for a hyperplane",
    ROWS,
    tuple(COLUMNS),
    run,
    check,
    needs_data=False,
    has=has,
    on_request=(*GAUSSIAN, *(column for column, (_, size) in COLUMNS.items() if size != "100k")),
    seconds=lambda row, column: 30.0 if "recall" in column else 1.0,  # noqa: ARG005
    alone=True,
)
