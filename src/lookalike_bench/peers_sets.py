"""What the `peers` bench measures on: drawn rows, or those of a set in the data folder.

In: a `Place`. Out: rows to search, rows in many classes, or rows to learn from; made once a process.
"""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from lookalike.types import Vectors
from lookalike_bench import feedback_sets, hyperplane
from lookalike_bench.datasets import classes

DRAWN = "drawn"
SETS = (DRAWN, *feedback_sets.SETS)
N, DIM = 50_000, 128
LEARNED, CLASSES = 2_000, 10
"""The most rows and classes that learners get of a set."""
SPLITS = 3


class Place(NamedTuple):
    """Which set, where it is, and what everything by lot is drawn with."""

    name: str
    data: Path
    seed: int


class Grouped(NamedTuple):
    """Rows and the number of the class of each."""

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
    """Rows to search, (n, d): of length one around n / 200 centres, their spectrum falling as after a PCA."""
    if place.name != DRAWN:
        return feedback_sets.vectors(place.name, place.data).X
    random = np.random.default_rng(place.seed)
    scale = ((1 + np.arange(DIM)) ** -0.6).astype(np.float32)
    centres = scale * random.standard_normal((max(10, N // 200), DIM), np.float32)
    X = centres[random.integers(len(centres), size=N)] + 0.7 * scale * random.standard_normal((N, DIM), np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X


@cache
def grouped(place: Place) -> Grouped:
    """Rows in classes: the mixture of the `hyperplane` bench."""
    if place.name == DRAWN:
        X = np.empty((N, hyperplane.DIM), np.float32)
        return Grouped(X, hyperplane.draw(N, place.seed, X)[0])
    base = feedback_sets.vectors(place.name, place.data)
    return Grouped(base.X, _numbers(base.labels))


@cache
def splits(place: Place) -> list[Split]:
    """For learners: two thirds and one third, by lot, of scikit-learn's digits; float64, at unit variance."""
    if place.name == DRAWN:
        X, y = load_digits(return_X_y=True)
    else:
        X, y = feedback_sets.vectors(place.name, place.data)
        y = _numbers(y)
    made = []
    for i in range(SPLITS):
        order = np.random.default_rng([place.seed, i]).permutation(np.flatnonzero(y < CLASSES))[:LEARNED]
        train, test = order[: len(order) * 2 // 3], order[len(order) * 2 // 3 :]
        some = X[:, X[train].std(axis=0) > 0].astype(np.float64)  # a column that never changes has no variance to scale
        scaler = StandardScaler().fit(some[train])
        made.append(Split(scaler.transform(some[train]), y[train], scaler.transform(some[test]), y[test]))
    return made


def _numbers(labels: NDArray[np.str_]) -> NDArray[np.int64]:
    places = {name: number for number, name in enumerate(classes(labels))}
    return np.array([places[label] for label in labels.tolist()])
