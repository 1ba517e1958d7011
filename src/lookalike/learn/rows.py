"""Training rows from any source (arrays, tensors, memory maps, `PqRows`), and projections of them.

Rows are read in chunks, so a source can be larger than memory.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import check_rows, chunks, like, namespace
from lookalike.encode.check import check_matrix, float32_out
from lookalike.errors import InputError
from lookalike.types import Array

Rows: TypeAlias = Any
"""(n, d): an object with `shape` whose `rows[numbers]` returns (m, d) floats."""


def check_source(part: BaseEstimator, X: Rows, *, reset: bool, min_rows: int = 1) -> Rows:
    """Check that X is a matrix of at least `min_rows` rows with as many columns as `part` was fitted on, and return it.

    With `reset`, store the number of columns instead. Values are not read here; `blocks` rejects NaN.
    """
    if hasattr(X, "__array__") or not hasattr(X, "shape") or scipy.sparse.issparse(X):
        return check_matrix(part, X, reset=reset, min_rows=min_rows)
    if len(X.shape) != 2 or X.shape[0] < min_rows:
        raise InputError(f"X must be a matrix with at least {min_rows} rows. Got shape {tuple(X.shape)}.")
    if reset:
        part.n_features_in_ = X.shape[1]
    elif X.shape[1] != part.n_features_in_:
        raise InputError(f"X must have {part.n_features_in_} columns. Got {X.shape[1]}.")
    return X


class Picked:
    """View of some rows of a source, in the order of `chosen`, without a copy.

    >>> Picked(np.arange(10.0).reshape(5, 2), np.array([4, 0]))[:1]
    array([[8., 9.]])
    """

    def __init__(self, X: Rows, chosen: NDArray[np.int64]):
        self.X, self.chosen = X, chosen
        self.shape = (len(chosen), X.shape[1])

    def __getitem__(self, rows: Any) -> Array:
        return self.X[self.chosen[rows]]


def blocks(X: Rows) -> Iterator[tuple[slice, Array]]:
    """Yield all rows, block by block, as floats of the same array type; raise InputError if one is not finite."""
    for part in chunks(X.shape[0], row_bytes=16 * X.shape[1]):
        yield part, check_rows(X[part])


def check_values(X: Rows) -> None:
    """Reject rows with NaN or infinity, for training that may not read every row."""
    for _ in blocks(X):
        pass


def project(X: Rows, W: Array) -> Array:
    """Return XWᵀ, (n, D), of the type of the rows and at the precision of W; W can be of another type."""
    out = []
    for _, rows in blocks(X):
        xp, there = namespace(rows), like(rows, W)
        out.append(xp.astype(rows, there.dtype, copy=False) @ there.T)
    if not out:
        some = X[:0]
        return namespace(some).astype(some, like(some, W).dtype)[:, :1] @ like(some, W)[:, :1].T
    return namespace(out[0]).concat(out)


def means_by_label(X: Rows, y: NDArray[np.int64], C: int) -> Array:
    """Return the mean of the rows of each of C labels, (C, d) float64 of their type; zero for a label without rows."""
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
    return total / like(total, np.maximum(np.bincount(y, minlength=C), 1).astype(np.float64))[:, None]


class Projection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learned linear map x ↦ Wx as a scikit-learn transformer; subclasses define `fit`."""

    labels = True  # whether fit needs y

    W_: Array  # (D, d) float32
    classes_: NDArray[Any]

    def transform(self, X: Rows) -> Array:
        """Project rows (n, d) to (n, D) float32."""
        return self._map(X)

    def _map(self, X: Rows) -> Array:
        """Return `transform` as an array, without the container of `set_output`; subclasses override this method."""
        check_is_fitted(self)
        return project(check_source(self, X, reset=False, min_rows=0), self.W_)

    @property
    def _n_features_out(self) -> int:
        return int(self.W_.shape[0])

    def __sklearn_tags__(self) -> Tags:
        tags = float32_out(super().__sklearn_tags__())
        tags.target_tags.required = self.labels
        return tags
