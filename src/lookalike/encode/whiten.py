"""Centred PCA with optional whitening, and rows of unit length.

Whitening after Jégou & Chum, "Negative evidences and co-occurrences in image retrieval", ECCV 2012.
"""

from numbers import Real
from typing import Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, check_rows, chunks, namespace, principal, unit_rows
from lookalike.encode.check import check_matrix, float32_out
from lookalike.limits import COUNT, check_number, report_fewer
from lookalike.types import Array

MAX_DIM = 256
"""The largest output dimension if none is requested."""

FLOOR = 1e-6
"""Variances below this share of the largest are whitened as if they had this share: noise must not be amplified."""


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Projection onto the `dim` directions of largest variance, centred and optionally whitened.

    Parameters
    ----------
    dim : output dimension D; None: at most 256. D is at most min(d, n - 1), because n rows span no more dimensions; a
        larger `dim` gives a warning.
    whiten : power between 0 and 1. Each direction is divided by its standard deviation to this power:
        0 keeps the variances (to find the same kind of picture), 1 makes them equal (to find the same object).

    Attributes
    ----------
    mean_ : (d,) float64.
    components_ : (D, d) float64, orthonormal rows, by decreasing variance, the largest entry of each positive.
    variances_ : (D,) float64, of the rows in `fit`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> PCA(dim=3, whiten=1.0).fit_transform(X).std(axis=0, ddof=1).round(3)
    array([1., 1., 1.], dtype=float32)

    """

    mean_: NDArray[np.float64]
    components_: NDArray[np.float64]
    variances_: NDArray[np.float64]

    def __init__(self, dim: int | None = None, whiten: float = 0.0):
        self.dim = dim
        self.whiten = whiten

    def fit(self, X: Array, y: Array | None = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Learn from (n, d) rows, n ≥ 2. A memory-mapped X is read twice in chunks, never copied as a whole."""
        if self.dim is not None:
            check_number("dim", self.dim, *COUNT)
        check_number("whiten", self.whiten, Real, "between 0 (none) and 1 (full)", 0, 1)
        X = check_matrix(self, X, reset=True, min_rows=2)
        n, d = X.shape
        # Learned arrays are NumPy arrays, regardless of the type of X.
        D = min(MAX_DIM if self.dim is None else self.dim, d, n - 1)
        report_fewer("dim", self.dim, D, f"{n} rows with {d} columns span at most {D} dimensions")
        self.mean_, self.components_, self.variances_ = map(as_numpy, principal(X, D))
        return self

    def transform(self, X: Array) -> Array:
        """Project rows (n, d) to (n, D) float32. The product runs at the precision of X."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        xp = namespace(X)
        W = self.components_ * self._scales()[:, None]  # (D, d)
        b = W @ self.mean_  # (D,)
        device = array_api_compat.device(X)
        precision = xp.float64 if X.dtype == xp.float64 else xp.float32
        W, b = (xp.asarray(a, dtype=precision, device=device) for a in (W.T, b))
        out = xp.empty((X.shape[0], W.shape[1]), dtype=xp.float32, device=device)
        for part in chunks(X.shape[0], row_bytes=8 * sum(W.shape)):
            out[part] = xp.astype(xp.astype(check_rows(X[part]), precision) @ W - b, xp.float32)
        return out

    def _scales(self) -> NDArray[np.float64]:
        """The factor of each direction, (D,)."""
        floor = FLOOR * self.variances_[0] or 1.0  # equal rows have no variance to divide by
        scales: NDArray[np.float64] = np.maximum(self.variances_, floor) ** (-self.whiten / 2)
        return scales

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        return float32_out(super().__sklearn_tags__())


class L2(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scaling of rows to unit Euclidean length; a zero row stays zero. Nothing is learned.

    Examples
    --------
    >>> L2().transform(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)

    """

    def fit(self, X: Array, y: Array | None = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Check X and store the number of its columns."""
        X = check_matrix(self, X, reset=True)
        for part in chunks(X.shape[0], row_bytes=8 * X.shape[1]):
            check_rows(X[part])
        return self

    def transform(self, X: Array) -> Array:
        """Scale rows (n, d) to unit length, float32."""
        X = check_matrix(self, X, reset=False, min_rows=0)
        xp = namespace(X)
        out = xp.empty(tuple(X.shape), dtype=xp.float32, device=array_api_compat.device(X))
        for part in chunks(X.shape[0], row_bytes=16 * X.shape[1]):
            # float64: the square of a small or large float32 is outside float32's range.
            out[part] = xp.astype(unit_rows(xp.astype(check_rows(X[part]), xp.float64)), xp.float32)
        return out

    def __sklearn_tags__(self) -> Tags:
        tags = float32_out(super().__sklearn_tags__())
        tags.requires_fit = False
        return tags
