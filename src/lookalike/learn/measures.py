"""What early stopping watches: how often the right class is among the first, or how well rows find their like.

In: class scores (n, C), rows (n, D) or rankings, and labels. Out: one number, larger is better. Paper: ncm, §5.1, 5.4.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, chunks, unit_rows
from lookalike.types import Array

MEASURES = ("top5", "top1", "map")


def ranks(scores: Array, y: NDArray[np.int64]) -> NDArray[np.int64]:
    """At which place, from 0, each row's own class comes by its scores (n, C); behind those that score the same."""
    scores = as_numpy(scores)
    own = scores[np.arange(len(y)), y][:, None]  # (n, 1)
    return np.asarray((scores >= own).sum(axis=1) - 1)


def top(found: NDArray[np.int64], k: int) -> float:
    """The share of rows whose class is among the first k; of two equal shares the one with more first places wins.

    >>> top(np.array([0, 3, 9]), 5) > top(np.array([1, 3, 9]), 5) > top(np.array([0, 0, 9]), 1) - 0.1
    True
    """
    n = len(found)
    return float(np.mean(found < k) + np.mean(found < 1) / (n * (n + 1)))


def precisions(relevant: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The average precision of each ranking (q, n), the best first, that has something to find: at most q numbers.

    >>> precisions(np.array([[True, False, True], [False, False, False]]))
    array([0.83333333])
    """
    hits = np.cumsum(relevant, axis=1)
    sums = np.where(relevant, hits / np.arange(1, relevant.shape[1] + 1), 0.0).sum(axis=1)
    total = hits[:, -1]
    return np.asarray(sums[total > 0] / total[total > 0])


def alike(y: NDArray[np.int64], part: slice = slice(None)) -> NDArray[np.bool_]:
    """Which of all items have the label of those of a part, (m, n); y (n, C) of ones and zeros: a label in common."""
    return y[part][:, None] == y[None, :] if y.ndim == 1 else y[part] @ y.T > 0


def mean_average_precision(X: Array, y: NDArray[np.int64]) -> float:
    """Each row in turn asks for its like among the others, by the cosine: the mean of the average precisions.

    Rows that are the only ones of their label ask nothing.

    >>> mean_average_precision(np.array([[1.0, 0], [1, 0.1], [0, 1], [0.2, 1]]), np.array([0, 0, 1, 1]))
    1.0
    """
    unit = unit_rows(X)
    return retrieval_precision(lambda part: -(unit[part] @ unit.T), y)


def retrieval_precision(distances: Callable[[slice], Array], y: NDArray[np.int64]) -> float:
    """The mean average precision of n rows that each ask for their like among the others, the nearest first.

    `distances` are those of some rows to all, (m, n); y as for `alike`. Rows without their like ask nothing.
    """
    n = len(y)
    if n < 2:
        return 0.0
    found: list[NDArray[np.float64]] = []
    for part in chunks(n, row_bytes=48 * n):
        D = as_numpy(distances(part)).astype(np.float64)  # (m, n)
        D[np.arange(len(D)), np.arange(part.start, part.stop)] = np.inf  # itself last
        order = np.argsort(D, axis=1, kind="stable")[:, :-1]
        found.append(precisions(np.take_along_axis(alike(y, part), order, axis=1)))  # (m, n - 1)
    every = np.concatenate(found)
    return float(every.mean()) if len(every) else 0.0
