"""Where training rows come from: arrays, tensors, memory maps, anything that gives rows for row numbers.

In: such a source, (n, d). Out: chunks of it, projections, sums by class. What is larger than memory is never held.
"""

from collections.abc import Iterator
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from lookalike.arrays import check_rows, chunks, like, namespace
from lookalike.encode.check import check_matrix
from lookalike.errors import InputError
from lookalike.learn.sgd import Rows
from lookalike.types import Array


def check_source(part: BaseEstimator, X: Rows, *, reset: bool, min_rows: int = 1) -> Rows:
    """X, if it is a matrix of at least `min_rows` rows with the columns `part` knows; `reset` lets it learn them.

    Values are not read: whoever reads them, through `blocks`, finds NaN.
    """
    if hasattr(X, "__array__") or not hasattr(X, "shape") or scipy.sparse.issparse(X):
        return check_matrix(part, X, reset=reset, min_rows=min_rows)
    if len(X.shape) != 2 or X.shape[0] < min_rows:
        raise InputError(f"X must be a matrix of at least {min_rows} rows. Got shape {tuple(X.shape)}.")
    if reset:
        part.n_features_in_ = X.shape[1]
    elif X.shape[1] != part.n_features_in_:
        raise InputError(f"X must have {part.n_features_in_} columns. Got {X.shape[1]}.")
    return X


class Picked:
    """Some rows of a source, in the order of `chosen`, without a copy of them.

    >>> Picked(np.arange(10.0).reshape(5, 2), np.array([4, 0]))[:1]
    array([[8., 9.]])
    """

    def __init__(self, X: Rows, chosen: NDArray[np.int64]):
        self.X, self.chosen = X, chosen
        self.shape = (len(chosen), X.shape[1])

    def __getitem__(self, rows: Any) -> Array:
        return self.X[self.chosen[rows]]


def blocks(X: Rows) -> Iterator[tuple[slice, Array]]:
    """All rows, block by block, as finite floats of their own kind."""
    for part in chunks(X.shape[0], row_bytes=16 * X.shape[1]):
        yield part, check_rows(X[part])


def check_values(X: Rows) -> None:
    """Refuse rows with NaN before anything is learned from the others."""
    for _ in blocks(X):
        pass


def project(X: Rows, W: Array) -> Array:
    """XWᵀ, (n, D), of the kind of the rows, at the precision of W; W may be of another kind."""
    out = []
    for _, rows in blocks(X):
        xp, there = namespace(rows), like(rows, W)
        out.append(xp.astype(rows, there.dtype, copy=False) @ there.T)
    if not out:
        some = X[:0]
        return namespace(some).astype(some, like(some, W).dtype)[:, :1] @ like(some, W)[:, :1].T
    return namespace(out[0]).concat(out)


def sums_by_label(X: Rows, y: NDArray[np.int64], C: int) -> Array:
    """The sum of the rows of each of C labels, (C, d) float64 of their kind."""
    total: Any = None
    for part, rows in blocks(X):
        xp, labels = namespace(rows), y[part]
        if total is None:
            total = xp.zeros((C, X.shape[1]), dtype=xp.float64, device=array_api_compat.device(rows))
        if array_api_compat.is_torch_array(rows):
            total.index_add_(0, like(rows, labels), rows.to(total.dtype))
        else:
            m = len(labels)
            total += scipy.sparse.csr_array((np.ones(m), (labels, np.arange(m))), (C, m)) @ rows
    return total


def means_by_label(X: Rows, y: NDArray[np.int64], C: int) -> Array:
    """The mean of the rows of each of C labels, (C, d) float64; a label without rows has the mean zero."""
    total = sums_by_label(X, y, C)
    return total / like(total, np.maximum(np.bincount(y, minlength=C), 1).astype(np.float64))[:, None]
