"""What `bench run scaling` times: one function per kind of work, by the name of a row.

In: a row's name, how many drawn rows, their dimension. Out: `Work`, something to call again and again, or the worked
seconds of what was done once, and the bytes an item that it holds.
"""

import resource
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from lookalike.collection import Collection
from lookalike.engine.chain import Labelled
from lookalike.engine.chain import fit as fit_chain
from lookalike.feedback.learners import Svm
from lookalike.feedback.round import Marks, play
from lookalike.index.ann import Ann
from lookalike.index.coded import Coded, CodedQuery
from lookalike.index.flat import Flat
from lookalike.index.fsm_tree import FsmTree
from lookalike.index.hamming import Hamming
from lookalike.index.hyperplane import HyperplaneQuery
from lookalike.index.leaves import Leaves
from lookalike.index.multi_hash import MultiHash
from lookalike.index.queries import PointQuery
from lookalike.registry import create
from lookalike.store.items import Item
from lookalike.types import Vectors

K, QUERIES, BITS, CLASSES = 10, 50, 64, 10
SPREAD, SPECTRUM = 0.7, -0.6
"""Rows lie around a centre for each 200 of them, their spectrum falls as after a PCA, as in search_speed.py."""
SAMPLE = 20_000
"""Rows that coders are fitted on, where it is not the fit that is timed."""
POSITIVE, NEGATIVE = 10, 40
"""Marks of a session after some five rounds."""
PART = 100_000
"""Rows that are drawn, encoded or stored at a time."""


class Work(NamedTuple):
    """One cell's work."""

    call: Callable[[], object] | None  # to be timed, several times
    seconds: float = 0.0  # worked, where it can be done only once
    bytes: float = 0.0  # that an item takes: in memory, of `store` and `add` on the disk


def worked() -> float:
    """Seconds that this process and those it waited for have worked: on a busy machine, what counts."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def draw(n: int, dim: int, seed: int) -> Vectors:
    """(n, dim) unit rows."""
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
    """An index of the drawn rows."""
    index = Flat()
    index.add(np.arange(n), drawn(n, dim, seed))
    return index


@lru_cache(2)
def coder(name: str, dim: int, seed: int) -> Any:
    """A coder that knows such rows."""
    return create("coder", f"{name}(bits={BITS})").fit(draw(SAMPLE, dim, seed))


@lru_cache(2)
def codes(name: str, n: int, dim: int, seed: int) -> Any:
    """(n, bytes) uint8."""
    made = coder(name, dim, seed)
    X = drawn(n, dim, seed)
    return np.concatenate([made.encode(X[start : start + PART]) for start in range(0, n, PART)])


@lru_cache(6)
def built(kind: str, n: int, dim: int, seed: int) -> tuple[Any, float, float]:
    """An index over the drawn rows, the worked seconds it took, and the bytes an item it holds, without vectors."""
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
    """What an index holds in memory, beside the vectors; 0 where it does not say. Of faiss: its file."""
    if kind in ("hnsw", "ivfpq"):
        with tempfile.TemporaryDirectory() as folder:
            index.save(Path(folder) / "index")
            return (Path(folder) / "index").stat().st_size
    if kind == "leaves":
        return float(index.nbytes)
    if kind == "hamming":  # words, ids, the sorted table of ids and rows, whether a row is alive
        return float(index.blocks.words.nbytes + len(index) * (8 + 16 + 1))
    if kind == "multihash":
        return float(sum(part.nbytes for part in index._tables[:3])) if index._tables else 0.0
    return 0.0


def plane(n: int, dim: int, seed: int) -> tuple[HyperplaneQuery, Marks]:
    """The hyperplane of a session that wants what is nearest to the first row, and its marks."""
    X = drawn(n, dim, seed)
    near = flat(n, dim, seed).search(PointQuery(X[:1]), 2 * POSITIVE).ids[0]
    far = np.random.default_rng(seed).choice(n, NEGATIVE, replace=False)
    ids = np.concatenate([near[:POSITIVE], np.setdiff1d(far, near)])
    y = np.where(np.isin(ids, near), 1, -1).astype(np.int8)
    return Svm().fit(X[ids], y).unsure(), Marks(ids, X[ids], y)


def search(kind: str, n: int, dim: int, seed: int) -> Work:
    """The K nearest of a row, another one each time; of leaves and trees, the K nearest to a hyperplane."""
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

    queries = cycle([ask(row) for row in range(0, n, max(1, n // QUERIES))])  # lest all that is looked at is cached
    return Work(lambda: index.search(next(queries), K))


def build(kind: str, n: int, dim: int, seed: int) -> Work:
    """Make an index."""
    _, seconds, each = built(kind, n, dim, seed)
    return Work(None, seconds, each)


def play_round(kind: str, n: int, dim: int, seed: int) -> Work:
    """A round of feedback, from marks to questions."""
    index = flat(n, dim, seed) if kind == "flat" else built(kind, n, dim, seed)[0]
    marks = plane(n, dim, seed)[1]
    return Work(partial(play, index, marks, seed=seed))


def fit(spec: str, n: int, dim: int, seed: int) -> Work:
    """Fit a transform or a coder; what learns from labels has CLASSES of them."""
    X = drawn(n, dim, seed)
    y = np.argmax(X @ np.random.default_rng(seed).standard_normal((dim, CLASSES)), axis=1)
    labelled = Labelled(np.arange(n), X, y, X[: n // 2])
    start = worked()
    fit_chain(["color()", spec], X, labelled=labelled)
    return Work(None, worked() - start)


def encode(spec: str, n: int, dim: int, seed: int) -> Work:
    """Put rows through what was fitted."""
    if spec == "pca":
        made = create("transform", f"pca(dim={dim // 4})").fit(draw(SAMPLE, dim, seed))
        return Work(partial(made.transform, drawn(n, dim, seed)))
    made, X = coder(spec, dim, seed), drawn(n, dim, seed)
    return Work(partial(made.encode, X))


def read(bound: str, n: int, dim: int, seed: int) -> Work:
    """The machine itself: every row once from memory, or a product with a square matrix."""
    X = drawn(n, dim, seed)
    other = X[0].copy() if bound == "memory" else np.ones((dim, dim), np.float32)
    out = np.empty((n, *other.shape[1:]), np.float32)
    return Work(partial(np.matmul, X, other, out=out))


def store(_: str, n: int, dim: int, seed: int) -> Work:
    """What an add does with vectors that are there: catalogue, segments, commits."""
    X = drawn(n, dim, seed)
    with tempfile.TemporaryDirectory(prefix="lookalike-scaling-") as folder:
        start = worked()
        with Collection(folder, create=True) as made, made._store.writer():
            made._spaces.ensure(["color"])
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


def add(_: str, n: int, dim: int, seed: int) -> Work:  # noqa: ARG001 (pictures have no dimension)
    """Small drawn pictures, read, described by their colours and kept."""
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
    """Worked seconds of each of some calls, after one that compiles: so many, or until so many seconds are over."""
    call()
    times: list[float] = []
    while len(times) < most and (len(times) < 3 or sum(times) < seconds):
        start = worked()
        call()
        times.append(worked() - start)
    return times
