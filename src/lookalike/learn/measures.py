"""Validation scores (larger is better): ranks of the right class, and mean average precision of retrieval.

Mensink et al. 2013 (ncm), §5.1 and §5.4.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, chunks, namespace, unit_rows
from lookalike.types import Array

MEASURES = ("top5", "top1", "map")


def ranks(scores: Array, y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank, from 0, of each row's own class by its scores (n, C); equal scores rank before it."""
    scores = as_numpy(scores)
    own = scores[np.arange(len(y)), y][:, None]  # (n, 1)
    return np.asarray((scores >= own).sum(axis=1) - 1)


def top(found: NDArray[np.int64], k: int) -> float:
    """Return the share of ranks below k; a tiny bonus for first places breaks ties.

    >>> top(np.array([0, 3, 9]), 5) > top(np.array([1, 3, 9]), 5) > top(np.array([0, 0, 9]), 1) - 0.1
    True
    """
    n = len(found)
    return float(np.mean(found < k) + np.mean(found < 1) / (n * (n + 1)))


def precisions(relevant: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the average precision of each ranking (q, n), best first; rankings without a relevant item are left out.

    >>> precisions(np.array([[True, False, True], [False, False, False]]))
    array([0.83333333])
    """
    hits = np.cumsum(relevant, axis=1)
    sums = np.where(relevant, hits / np.arange(1, relevant.shape[1] + 1), 0.0).sum(axis=1)
    total = hits[:, -1]
    return np.asarray(sums[total > 0] / total[total > 0])


def alike(y: NDArray[np.int64], part: slice = slice(None)) -> NDArray[np.bool_]:
    """Return whether each of the m items of a part shares a label with each of n items, (m, n).

    y is (n,), or 0 and 1, (n, C).
    """
    return y[part][:, None] == y[None, :] if y.ndim == 1 else y[part] @ y.T > 0


def mean_average_precision(X: Array, y: NDArray[np.int64]) -> float:
    """Return the mean average precision of the rows X (n, D) as queries for the other rows of their label, by cosine.

    Rows whose label occurs only once are not used as queries.

    >>> mean_average_precision(np.array([[1.0, 0], [1, 0.1], [0, 1], [0.2, 1]]), np.array([0, 0, 1, 1]))
    1.0
    """
    unit = unit_rows(X)
    return ranked_precision(lambda part: -(unit[part] @ unit.T), y)


def retrieval(Z: Array, y: NDArray[np.int64]) -> float:
    """Return the mean average precision by Euclidean distance; rows that share a label are relevant; y as in `alike`.

    >>> retrieval(np.array([[0.0], [1.0], [5.0], [6.0]]), np.array([0, 0, 1, 1]))
    1.0
    """
    squares = namespace(Z).sum(Z * Z, axis=1)
    return ranked_precision(lambda part: squares[None, :] - 2 * (Z[part] @ Z.T), y)


def ranked_precision(distances: Callable[[slice], Array], y: NDArray[np.int64]) -> float:
    """Return the mean of `ranked_precisions`; 0 if no row has a relevant one."""
    every = ranked_precisions(distances, y)
    return float(every.mean()) if len(every) else 0.0


def ranked_precisions(distances: Callable[[slice], Array], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the average precision of n rows as queries for the other rows of their label; y as in `alike`.

    `distances(part)` returns the distances of some rows to all, (m, n). Rows without a relevant row are left out.
    """
    n = len(y)
    found: list[NDArray[np.float64]] = [np.empty(0)]
    for part in chunks(n if n > 1 else 0, row_bytes=48 * n):
        D = as_numpy(distances(part)).astype(np.float64)  # (m, n)
        D[np.arange(len(D)), np.arange(part.start, part.stop)] = np.inf  # rank the query itself last
        order = np.argsort(D, axis=1, kind="stable")[:, :-1]
        found.append(precisions(np.take_along_axis(alike(y, part), order, axis=1)))  # (m, n - 1)
    return np.concatenate(found)
