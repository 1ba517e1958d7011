"""Timing of two implementations side by side, and the vectors they are timed on.

`in_turns` runs ours and theirs alternately, so that other load on the machine affects both equally. Each side has one
thread, and times are CPU seconds, which other processes hardly affect. Vectors are synthetic, or those of a dataset in
the data folder; they are computed once per process.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import faiss as _faiss
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from lookalike.index import threads
from lookalike.types import Vectors
from lookalike_bench import feedback, hyperplane
from lookalike_bench.datasets import classes
from lookalike_bench.feedback import load_set

faiss: Any = _faiss  # its type stubs are incomplete

DRAWN = "drawn"
SETS = (DRAWN, *feedback.SETS)
N, DIM = 50_000, 128
"""Number of synthetic vectors, and their dimension."""
LEARNED, CLASSES = 2_000, 10
"""Maximum numbers of rows and classes of a dataset for learners."""
SPLITS = 3
TICK_S = time.get_clock_info("process_time").resolution
"""Shortest time that the clock can measure."""

Query = TypeVar("Query")
Timed = Callable[[Query], tuple[float, Any]]
"""From a query to the seconds it took and the answer."""


class Compared(NamedTuple):
    """Results of a comparison: lists with one number per turn."""

    speed: list[float]
    """Their seconds divided by ours: above 1, we are faster."""
    ours: list[float]
    """Quality of our answers, from 0 to 1; `theirs` likewise."""
    theirs: list[float]


def clocked(call: Callable[[Query], Any]) -> Timed[Query]:
    """Wrap a function so that it also returns its CPU seconds.

    >>> clocked(len)("four")[1]
    4
    """

    def timed(asked: Query) -> tuple[float, Any]:
        start = time.process_time()
        answer = call(asked)
        return time.process_time() - start, answer

    return timed


def in_turns(
    ours: Timed[Query], theirs: Timed[Query], asked: Sequence[Query], good: Callable[[Query, Any], float]
) -> Compared:
    """Time both sides for each query; they take turns at going first. `good(query, answer)` is the quality.

    The caller compiles code and warms up caches beforehand.
    """
    result = Compared([], [], [])
    for turn, one in enumerate(asked):
        if turn % 2:
            (theirs_s, their_answer), (ours_s, our_answer) = theirs(one), ours(one)
        else:
            (ours_s, our_answer), (theirs_s, their_answer) = ours(one), theirs(one)
        result.speed.append(max(theirs_s, TICK_S) / max(ours_s, TICK_S))
        result.ours.append(good(one, our_answer))
        result.theirs.append(good(one, their_answer))
    return result


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit our loops, faiss and linear algebra to one thread within this block."""
    cores, lanes = threads.CORES, faiss.omp_get_max_threads()
    try:
        with threadpool_limits(1):
            threads.CORES = 1
            faiss.omp_set_num_threads(1)
            yield
    finally:
        threads.CORES = cores
        faiss.omp_set_num_threads(lanes)


class Place(NamedTuple):
    """The dataset to measure on, the data folder and the random seed."""

    name: str
    data: Path
    seed: int


class Grouped(NamedTuple):
    """Rows with class numbers."""

    X: Vectors  # (n, d)
    y: NDArray[np.int64]  # (n,)


class Split(NamedTuple):
    """Rows to learn from and rows to test with."""

    X: NDArray[Any]  # (n, d)
    y: NDArray[np.int64]  # (n,)
    X_test: NDArray[Any]  # (m, d)
    y_test: NDArray[np.int64]  # (m,)


@cache
def spread(place: Place) -> Vectors:
    """Vectors to search, (n, d): of unit length around n / 200 centres, with a falling spectrum as after a PCA."""
    if place.name != DRAWN:
        return load_set(place.name, place.data).X
    random = np.random.default_rng(place.seed)
    scale = ((1 + np.arange(DIM)) ** -0.6).astype(np.float32)
    centres = scale * random.standard_normal((max(10, N // 200), DIM), np.float32)
    X = centres[random.integers(len(centres), size=N)] + 0.7 * scale * random.standard_normal((N, DIM), np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X


@cache
def grouped(place: Place) -> Grouped:
    """Rows in classes: the mixture of the `hyperplane` benchmark, or the rows of a dataset."""
    if place.name == DRAWN:
        X = np.empty((N, hyperplane.DIM), np.float32)
        return Grouped(X, hyperplane.draw(N, place.seed, X)[0])
    base = load_set(place.name, place.data)
    return Grouped(base.X, _numbers(base.labels))


@cache
def splits(place: Place) -> list[Split]:
    """Random splits for learners, two thirds and one third: scikit-learn's digits, or rows of a dataset.

    Rows are float64, scaled to unit variance.
    """
    if place.name == DRAWN:
        X, y = load_digits(return_X_y=True)
    else:
        X, y = load_set(place.name, place.data)
        y = _numbers(y)
    made = []
    for i in range(SPLITS):
        order = np.random.default_rng([place.seed, i]).permutation(np.flatnonzero(y < CLASSES))[:LEARNED]
        train, test = order[: len(order) * 2 // 3], order[len(order) * 2 // 3 :]
        some = X[:, X[train].std(axis=0) > 0].astype(np.float64)  # a constant column has no variance to scale
        scaler = StandardScaler().fit(some[train])
        made.append(Split(scaler.transform(some[train]), y[train], scaler.transform(some[test]), y[test]))
    return made


def _numbers(labels: NDArray[np.str_]) -> NDArray[np.int64]:
    places = {name: number for number, name in enumerate(classes(labels))}
    return np.array([places[label] for label in labels.tolist()])
