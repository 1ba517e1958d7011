"""The cost of every operation as a collection grows: CPU time by number of vectors, and its growth exponent.

Rows are operations, columns are numbers of synthetic vectors. A cell is milliseconds, bytes per item, the slope of log
time over log n with its interval, or the prediction of `collection.planning` divided by the measured time. Needs no
data folder.

Protocol. Vectors are synthetic (`draw`), in 64 dimensions; `ratio-…` columns use 128, on which no factor of the planner
was fitted. Times are CPU seconds of the process and its children, so other load on the machine hardly counts; on an
idle machine with one thread they equal wall time. A search is called, after one call that compiles, until half a second
of work is done, at most 15 times: the result is the median, with the interval of 80 % of the calls. Work that can be
done only once (build, fit, add) is done once, after a small run that compiles. An exponent is fitted to the largest
five sizes of its row up to a million, two decades: at smaller sizes, constant costs hide it. Its interval is Student's,
over those sizes; three sizes are too few.
"""

import math
import tempfile
import time
from collections.abc import Callable
from functools import cache, lru_cache, partial
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from scipy import stats

from lookalike.collection import Collection
from lookalike.collection.chain import Labelled
from lookalike.collection.chain import fit as fit_chain
from lookalike.collection.planning import CURVES, Machine, measure, pca_seconds
from lookalike.feedback.learners import Svm
from lookalike.feedback.round import Marks
from lookalike.feedback.round import run_round as play
from lookalike.index.ann import EXACT_ROWS, Ann
from lookalike.index.coded import Coded
from lookalike.index.flat import Flat
from lookalike.index.fsm_tree import FsmTree
from lookalike.index.hamming import Hamming
from lookalike.index.leaves import Leaves
from lookalike.index.multi_hash import MultiHash
from lookalike.index.queries import CodedQuery, HyperplaneQuery, PointQuery
from lookalike.registry import create
from lookalike.store.items import Item
from lookalike.system import children_seconds
from lookalike.types import Progress, Vectors
from lookalike_bench.tables import Bench, Score

DIM, WIDE = 64, 128
"""Dimension of the curves, and dimension at which predictions are tested."""
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
USUAL = 1_000_000
"""Columns with more vectors are filled on request."""
RATIOS = (10_000, 30_000, 100_000)
SECONDS, REPEATS, SLOPE = 0.5, 15, 5
WARM = 1_100
"""Rows of the warm-up, which compiles code and imports modules."""
K, QUERIES, BITS, CLASSES = 10, 50, 64, 10
SPREAD, SPECTRUM = 0.7, -0.6
"""Vectors lie around one centre per 200 vectors, with a falling spectrum as after a PCA, as in search_speed.py."""
SAMPLE = 20_000
"""Rows that coders are fitted on, unless the fit is timed."""
POSITIVE, NEGATIVE = 10, 40
"""Marks of a session after about five rounds."""
PART = 100_000
"""Vectors that are generated or encoded at a time."""


class Work(NamedTuple):
    """The work of one cell."""

    call: Callable[[], object] | None  # to be timed, several times
    seconds: float = 0.0  # of CPU time, if it can be done only once
    bytes: float = 0.0  # per item: in memory, or on disk (`store`, `add`)


def worked() -> float:
    """CPU seconds of this process and of its finished children."""
    return time.process_time() + children_seconds()


def draw(n: int, dim: int, seed: int) -> Vectors:
    """Generate vectors of unit length, (n, dim)."""
    random = np.random.default_rng(seed)
    scale = ((1 + np.arange(dim)) ** SPECTRUM).astype(np.float32)
    centres = scale * random.standard_normal((max(CLASSES, n // 200), dim), np.float32)
    X = np.empty((n, dim), np.float32)
    for start in range(0, n, PART):
        part = X[start : start + PART]
        part[:] = SPREAD * scale * random.standard_normal(part.shape, np.float32)
        part += centres[random.integers(len(centres), size=len(part))]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return X


drawn = lru_cache(1)(draw)


@lru_cache(1)
def flat(n: int, dim: int, seed: int) -> Flat:
    """A flat index of the synthetic vectors."""
    index = Flat()
    index.add(np.arange(n), drawn(n, dim, seed))
    return index


@lru_cache(2)
def coder(name: str, dim: int, seed: int) -> Any:
    """A coder fitted to synthetic vectors."""
    return create("coder", f"{name}(bits={BITS})").fit(draw(SAMPLE, dim, seed))


@lru_cache(2)
def codes(name: str, n: int, dim: int, seed: int) -> Any:
    """Codes (n, bytes) uint8 of the synthetic vectors."""
    made = coder(name, dim, seed)
    X = drawn(n, dim, seed)
    return np.concatenate([made.encode(X[start : start + PART]) for start in range(0, n, PART)])


@lru_cache(6)
def built(kind: str, n: int, dim: int, seed: int) -> tuple[Any, float, float]:
    """An index over the synthetic vectors, the CPU seconds to build it, and its bytes per item without vectors."""
    truth: Any = flat(n, dim, seed)
    rows = codes("itq", n, dim, seed) if kind in ("hamming", "multihash") else drawn(n, dim, seed)
    start = worked()
    if kind in ("hnsw", "ivfpq"):
        index: Any = Ann(kind).build(truth)
    elif kind == "leaves":
        index = Leaves().build(truth)
    else:
        index = {"fsmtree": FsmTree, "hamming": Hamming, "multihash": MultiHash}[kind]()
        index.add(np.arange(n), rows)
        if kind == "multihash":
            index.build()
    seconds = worked() - start
    return index, seconds, _bytes(kind, index) / n


def _bytes(kind: str, index: Any) -> float:
    """Memory of an index without vectors, 0 if unknown; for faiss, the size of its file."""
    if kind in ("hnsw", "ivfpq"):
        with tempfile.TemporaryDirectory() as folder:
            index.save(Path(folder) / "index")
            return (Path(folder) / "index").stat().st_size
    if kind == "leaves":
        return float(index.nbytes)
    if kind == "hamming":  # words, ids, the sorted table of ids and rows, the flags of live rows
        return float(index.words.nbytes + len(index) * (8 + 16 + 1))
    if kind == "multihash":
        return float(sum(part.nbytes for part in index._tables[:3])) if index._tables else 0.0
    return 0.0


def plane(n: int, dim: int, seed: int) -> tuple[HyperplaneQuery, Marks]:
    """The hyperplane of a session whose targets are the rows nearest to the first row, and its marks."""
    X = drawn(n, dim, seed)
    near = flat(n, dim, seed).search(PointQuery(X[:1]), 2 * POSITIVE).ids[0]
    far = np.random.default_rng(seed).choice(n, NEGATIVE, replace=False)
    ids = np.concatenate([near[:POSITIVE], np.setdiff1d(far, near)])
    y = np.where(np.isin(ids, near), 1, -1).astype(np.int8)
    return Svm().fit(X[ids], y).unsure(), Marks(ids, X[ids], y)


def search_index(kind: str, n: int, dim: int, seed: int) -> Work:
    """Search for the K nearest of a row, a different row each time; leaves and trees: the K nearest to a hyperplane."""
    X, truth = drawn(n, dim, seed), flat(n, dim, seed)
    index: Any = truth
    if kind in ("itq", "pq"):
        held = Hamming()
        held.add(np.arange(n), codes(kind, n, dim, seed))
        index = Coded(held, truth)
    elif kind != "flat":
        index = built(kind, n, dim, seed)[0]
    if kind in ("leaves", "fsmtree"):
        return Work(partial(index.search, plane(n, dim, seed)[0], K))

    def ask(row: int) -> Any:
        point = X[row : row + 1]
        if kind in ("itq", "pq"):
            return CodedQuery(point, coder(kind, dim, seed).query(point))
        return coder("itq", dim, seed).query(point) if kind == "multihash" else PointQuery(point)

    queries = cycle([ask(row) for row in range(0, n, max(1, n // QUERIES))])  # so that not all rows are in the cache
    return Work(lambda: index.search(next(queries), K))


def build_index(kind: str, n: int, dim: int, seed: int) -> Work:
    """Build an index."""
    _, seconds, each = built(kind, n, dim, seed)
    return Work(None, seconds, each)


def play_round(kind: str, n: int, dim: int, seed: int) -> Work:
    """Run a feedback round, from marks to questions."""
    index = flat(n, dim, seed) if kind == "flat" else built(kind, n, dim, seed)[0]
    marks = plane(n, dim, seed)[1]
    return Work(partial(play, index, marks, seed=seed))


def fit_spec(spec: str, n: int, dim: int, seed: int) -> Work:
    """Fit a transform or a coder; supervised ones learn CLASSES classes."""
    X = drawn(n, dim, seed)
    y = np.argmax(X @ np.random.default_rng(seed).standard_normal((dim, CLASSES)), axis=1)
    labelled = Labelled(np.arange(n), X, y, X[: n // 2])
    start = worked()
    fit_chain(["color()", spec], X, labelled=labelled)
    return Work(None, worked() - start)


def encode_rows(spec: str, n: int, dim: int, seed: int) -> Work:
    """Transform or encode rows."""
    if spec == "pca":
        made = create("transform", f"pca(dim={dim // 4})").fit(draw(SAMPLE, dim, seed))
        return Work(partial(made.transform, drawn(n, dim, seed)))
    made, X = coder(spec, dim, seed), drawn(n, dim, seed)
    return Work(partial(made.encode, X))


def read_rows(bound: str, n: int, dim: int, seed: int) -> Work:
    """Measure the machine itself: read every row once, or multiply by a square matrix."""
    X = drawn(n, dim, seed)
    other = X[0].copy() if bound == "memory" else np.ones((dim, dim), np.float32)
    out = np.empty((n, *other.shape[1:]), np.float32)
    return Work(partial(np.matmul, X, other, out=out))


def store_vectors(_: str, n: int, dim: int, seed: int) -> Work:
    """Store vectors as an add does: catalogue, segments, commits."""
    X = drawn(n, dim, seed)
    with tempfile.TemporaryDirectory(prefix="lookalike-scaling-") as folder:
        start = worked()
        with Collection(folder, create=True) as made, made._store.writer():
            made._spaces.create(["color"])
            for first in range(0, n, 2_048):
                ids = np.arange(first, min(n, first + 2_048))
                pending = made._store.vectors.write("color()", ids, X[ids])
                with made._store.transaction():
                    made._store.items.add([Item(int(i), [], 1, 1, 1, "jpeg", 0.0, None) for i in ids])
                    made._store.items.link([(f"{folder}/{i:09}.jpg", 1, 1, int(i)) for i in ids])
                    made._store.vectors.commit(pending)
                made._store.vectors.merge("color()")
            seconds = worked() - start
            held = made._store.bytes()
    return Work(None, seconds, held / n)


def add_pictures(_: str, n: int, dim: int, seed: int) -> Work:  # noqa: ARG001 (pictures have no dimension)
    """Add small synthetic pictures with the recipe `color`."""
    with tempfile.TemporaryDirectory(prefix="lookalike-scaling-") as folder:
        where = Path(folder)
        random = np.random.default_rng(seed)
        for i in range(n):
            part = where / "pictures" / f"{i // 1_000:04}"
            part.mkdir(parents=True, exist_ok=True)
            small = random.integers(0, 256, (4, 4, 3), np.uint8)
            cv2.imwrite(str(part / f"{i:07}.jpg"), cv2.resize(small, (64, 64), interpolation=cv2.INTER_CUBIC))
        start = worked()
        with Collection(where / "made", create=True) as made:
            made.add(where / "pictures", recipes=["color"])
            held = made.stats()["bytes"]
    return Work(None, worked() - start, held / n)


def time_call(call: Callable[[], object], seconds: float, most: int) -> list[float]:
    """CPU seconds of each call, after one that compiles: at most `most` calls, until `seconds` have passed."""
    call()
    times: list[float] = []
    while len(times) < most and (len(times) < 3 or sum(times) < seconds):
        start = worked()
        call()
        times.append(worked() - start)
    return times


class Row(NamedTuple):
    """An operation, and the largest number of vectors it is measured with."""

    make: Callable[[int, int, int], Work]
    most: int


def _row(function: Callable[[str, int, int, int], Work], what: str, most: int) -> Row:
    return Row(partial(function, what), most)


FITS = {
    "pca(dim=32)": 30_000,
    "slem(lam=0.01)": 30_000,
    "kernelslem(rank=32)": 3_000,
    "itq(bits=64)": 30_000,
    "pcarr(bits=64)": 30_000,
    "lsh(bits=64)": 30_000,
    "spectral(bits=64)": 30_000,
    "sklsh(bits=64)": 30_000,
    "spherical(bits=64)": 30_000,
    "pq(bits=64)": 30_000,
    "fda(dim=9)": 30_000,
    "ncmml(dim=32)": 10_000,
    "lmnn(dim=32)": 3_000,
    "tsvm(bits=64)": 10_000,
    "sdh(bits=64)": 10_000,
    "fasthash(bits=64)": 3_000,
}
"""Specs to fit, and their largest number of vectors; a collection never fits on more than 50,000."""
M = 1_000_000
WORK: dict[str, Row] = {
    "memory": _row(read_rows, "memory", 10 * M),
    "product": _row(read_rows, "product", 3 * M),
    "add": _row(add_pictures, "", 10_000),
    "store": _row(store_vectors, "", 100_000),
    **{f"fit-{spec.partition('(')[0]}": _row(fit_spec, spec, most) for spec, most in FITS.items()},
    "encode-pca": _row(encode_rows, "pca", M),
    "encode-itq": _row(encode_rows, "itq", M),
    "encode-pq": _row(encode_rows, "pq", M),
    "build-hnsw": _row(build_index, "hnsw", 3 * M),
    "build-ivfpq": _row(build_index, "ivfpq", 3 * M),
    "build-leaves": _row(build_index, "leaves", 10 * M),
    "build-fsmtree": _row(build_index, "fsmtree", 30_000),
    "build-hamming": _row(build_index, "hamming", 10 * M),
    "build-multihash": _row(build_index, "multihash", 3 * M),
    "search-flat": _row(search_index, "flat", 10 * M),
    "search-hnsw": _row(search_index, "hnsw", 3 * M),
    "search-ivfpq": _row(search_index, "ivfpq", 3 * M),
    "search-itq": _row(search_index, "itq", 10 * M),
    "search-pq": _row(search_index, "pq", 10 * M),
    "search-multihash": _row(search_index, "multihash", 3 * M),
    "search-leaves": _row(search_index, "leaves", 10 * M),
    "search-fsmtree": _row(search_index, "fsmtree", 30_000),
    "round-flat": _row(play_round, "flat", 300_000),
    "round-leaves": _row(play_round, "leaves", 10 * M),
}


class Times(NamedTuple):
    """CPU seconds of each call, and bytes per item."""

    seconds: list[float]
    bytes: float

    @property
    def median(self) -> float:
        """Median of the seconds."""
        return float(np.median(self.seconds))


@cache
def measured(row: str, n: int, dim: int, seed: int) -> Times:
    """Measure one operation at one size."""
    warm(row, dim, seed)
    work = WORK[row].make(n, dim, seed)
    times = [work.seconds] if work.call is None else time_call(work.call, SECONDS, REPEATS)
    return Times(times, work.bytes)


@cache
def warm(row: str, dim: int, seed: int) -> None:
    """Run the operation once without timing, to compile code."""
    call = WORK[row].make(WARM, dim, seed).call
    if call is not None:
        call()


def sizes(row: str) -> list[int]:
    """The numbers of vectors that an operation is measured with."""
    least = EXACT_ROWS if row in ("search-hnsw", "search-ivfpq") else 0  # below, they scan every row
    return [n for n in SIZES if least <= n <= WORK[row].most]


def slope(n: list[int], seconds: list[float]) -> tuple[float, float, float]:
    """The exponent of a power law through these points, and its 95 % interval.

    >>> slope([10, 100, 1000], [1.0, 10.0, 100.0])
    (1.0, 1.0, 1.0)
    """
    line = stats.linregress(np.log(n), np.log(seconds))
    half = float(stats.t.ppf(0.975, len(n) - 2) * line.stderr) if len(n) > 2 else math.inf
    return tuple(round(float(value), 6) for value in (line.slope, line.slope - half, line.slope + half))  # type: ignore[return-value]


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:  # noqa: ARG001 (no data is read)
    """Fill one cell. `seed` seeds the vectors."""
    kind, _, number = column.partition("-")
    if kind == "exponent":
        largest = [n for n in sizes(row) if n <= USUAL][-SLOPE:]
        found = []
        for i, n in enumerate(largest):
            progress("sizes", i, len(largest))
            found.append(measured(row, n, DIM, seed).median)
        return Score("exponent", *slope(largest, found), scored=0)
    n = int(number)
    if kind == "ratio":
        ratios = [predicted(row, n, WIDE, machine()) / seconds for seconds in measured(row, n, WIDE, seed).seconds]
        low, high = np.quantile(ratios, [0.1, 0.9])
        return Score("predicted / measured", float(np.median(ratios)), float(low), float(high), scored=n)
    times = measured(row, n, DIM, seed)
    if kind == "bytes":
        return Score("bytes per item", times.bytes, times.bytes, times.bytes, scored=0)
    low, high = np.quantile(times.seconds, [0.1, 0.9])
    return Score("ms", 1e3 * times.median, 1e3 * float(low), 1e3 * float(high), scored=n)


@cache
def machine() -> Machine:
    """Speed of this machine, by CPU time."""
    return measure(worked)


def predicted(row: str, n: int, dim: int, on: Machine) -> float:
    """Seconds that the planner's curves predict."""
    if row == "encode-pca":
        return pca_seconds(n, dim, dim // 4, on)
    return CURVES[row].seconds(n, BITS / 8 if row in ("search-itq", "search-pq") else dim, on)


def has(row: str, column: str) -> bool:
    """Whether a row is measured at this size, reports its bytes, or has a prediction."""
    kind, _, number = column.partition("-")
    if kind == "exponent":
        return len(sizes(row)) > 3
    n = int(number)
    if kind == "ratio":
        return row in CURVES and n in sizes(row) and n * WIDE <= WORK[row].most * DIM
    return n in sizes(row) and (kind != "bytes" or row in ("add", "store") or row.startswith("build-"))


ON_REQUEST = (
    *(f"ms-{n}" for n in SIZES if n > USUAL),
    "exponent",
    "bytes-10000",
    "bytes-100000",
    *(f"ratio-{n}" for n in RATIOS),
    *(f"{row} ms-{USUAL}" for row in ("build-hnsw", "search-hnsw")),
)
"""Columns and cells that take long, or that do not fit into a plot with the others."""
BENCH = Bench(
    "scaling",
    "cost of every operation as a collection grows, on synthetic vectors",
    tuple(WORK),
    (*(f"ms-{n}" for n in SIZES if n <= USUAL), *ON_REQUEST),
    run,
    needs_data=False,
    has=has,
    on_request=ON_REQUEST,
    seconds=lambda _, column: 10.0 if column == f"ms-{USUAL}" else 1.0,
    alone=True,
)
