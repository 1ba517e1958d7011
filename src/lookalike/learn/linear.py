"""Metrics in closed form: Fisher's discriminants, ridge regression, the inverse covariance.

In: (n, d) rows, and labels where classes count; NumPy, torch, a memory map or `PqRows`, read twice in chunks. Out:
(n, D) float32. Paper: ncm, Eq. 11, 17–18 and §5.3: what NCMML is compared with. λ is a share of the mean variance,
so that the same one does for rows of any length.
"""

from typing import Any, NamedTuple, Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import cholesky, like, namespace, solve_lower
from lookalike.encode.check import float32_out
from lookalike.learn.labels import encode_labels
from lookalike.learn.rows import blocks, check_source, means_by_label, project
from lookalike.learn.sgd import Rows
from lookalike.limits import COUNT, NOT_NEGATIVE, check_number
from lookalike.types import Array

LEAST = 1e-6
"""λ below this share of the mean variance is taken for it: what no row varies in has no inverse."""


class _Linear(TransformerMixin, BaseEstimator):
    """x ↦ W(x − μ), plus a bias where there is one."""

    W_: Array  # (D, d) float32
    bias_: Array  # (D,) float32

    def transform(self, X: Rows) -> Array:
        """(n, d) to (n, D) float32."""
        check_is_fitted(self)
        Y = project(check_source(self, X, reset=False, min_rows=0), self.W_)
        return Y + like(Y, self.bias_)

    def __sklearn_tags__(self) -> Tags:
        tags = float32_out(super().__sklearn_tags__())
        tags.target_tags.required = getattr(self, "labels", False)
        return tags

    def _keep(self, W: Array, bias: Array) -> Self:
        xp = namespace(W)
        self.W_, self.bias_ = xp.astype(W, xp.float32), xp.astype(bias, xp.float32)
        return self


class Fda(_Linear):
    """Fisher's discriminants: directions in which class means differ most against the spread inside classes (Eq. 11).

    Scaled so that classes have unit variance on average. D = min(dim, d, C - 1): C means span no more.

    Parameters
    ----------
    dim : output dimension, at most.
    lam : added to the variances inside classes, as a share of their mean.

    Attributes
    ----------
    W_ : (D, d) float32, by falling share of variance between classes. bias_ : (D,) float32, the mean becomes zero.
    classes_ : (C,) sorted labels, NumPy.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 4)) * [1, 1, 9, 9]
    >>> y = np.arange(300) % 2
    >>> X[:, 0] += 5 * y
    >>> np.abs(Fda().fit(X, y).W_).round(1)
    array([[1., 0., 0., 0.]], dtype=float32)

    """

    labels = True  # fit needs y
    classes_: NDArray[Any]

    def __init__(self, dim: int = 64, lam: float = 1e-3):
        self.dim = dim
        self.lam = lam

    def fit(self, X: Rows, y: Array | None = None) -> Self:
        """Learn from rows (n, d) and labels (n,) of at least 2 classes."""
        check_number("dim", self.dim, *COUNT)
        X = check_source(self, X, reset=True, min_rows=2)
        self.classes_, codes = encode_labels(y, X.shape[0])
        found = _moments(X, codes, self.lam)
        xp = namespace(found.mean)
        L = cholesky(found.within + found.lam * _eye(found.mean))
        between = ((found.means - found.mean) * xp.sqrt(found.shares)[:, None]).T  # (d, C)
        U = xp.linalg.svd(solve_lower(L, between), full_matrices=False)[0]  # (d, min(d, C))
        U = U[:, : min(self.dim, X.shape[1], len(self.classes_) - 1)]
        W = solve_lower(L, U, transposed=True).T  # (D, d): Wᵀ = L⁻ᵀU
        extremes = xp.argmax(xp.abs(W), axis=1)
        W = W * xp.sign(xp.take_along_axis(W, extremes[:, None], axis=1))  # the largest entry of each is positive
        return self._keep(W, -W @ found.mean)


class Ridge(_Linear):
    """Ridge regression of each class against the others: rows become their C scores (Eq. 17–18), largest for the class.

    Parameters
    ----------
    lam : λ of Eq. 16, as a share of the mean variance.

    Attributes
    ----------
    W_ : (C, d) float32, the weights of each class. bias_ : (C,) float32.
    classes_ : (C,) sorted labels, NumPy.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [5.0], [6.0]]), np.array(["low", "low", "high", "high"])
    >>> ridge = Ridge(lam=0.01).fit(X, y)
    >>> ridge.classes_[ridge.transform([[0.5], [7.0]]).argmax(axis=1)].tolist()
    ['low', 'high']

    """

    labels = True  # fit needs y
    classes_: NDArray[Any]

    def __init__(self, lam: float = 1e-2):
        self.lam = lam

    def fit(self, X: Rows, y: Array | None = None) -> Self:
        """Learn from rows (n, d) and labels (n,) of at least 2 classes."""
        X = check_source(self, X, reset=True, min_rows=2)
        self.classes_, codes = encode_labels(y, X.shape[0])
        found = _moments(X, codes, self.lam)
        away = found.means - found.mean  # (C, d)
        total = found.within + (away * found.shares[:, None]).T @ away  # Σ, (d, d)
        L = cholesky(total + found.lam * _eye(found.mean))
        W = found.shares[:, None] * solve_lower(L, solve_lower(L, away.T), transposed=True).T  # Eq. 18
        return self._keep(W, found.shares - W @ found.mean)  # Eq. 17, for rows that are not centred


class InverseCovariance(_Linear):
    """The metric WᵀW = (Σ + λI)⁻¹ in the principal directions: labels, where there are some, are not looked at.

    Parameters
    ----------
    dim : output dimension. D = min(dim, d): the directions of largest variance.
    lam : λ, as a share of the mean variance.

    Attributes
    ----------
    W_ : (D, d) float32, by falling variance. bias_ : (D,) float32, the mean becomes zero.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(400, 3)) * [1, 5, 25]
    >>> InverseCovariance(lam=0).fit_transform(X).std(axis=0).round(3)
    array([1., 1., 1.], dtype=float32)

    """

    def __init__(self, dim: int = 256, lam: float = 1e-2):
        self.dim = dim
        self.lam = lam

    def fit(self, X: Rows, y: Array | None = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Learn from rows (n, d), n ≥ 2."""
        check_number("dim", self.dim, *COUNT)
        X = check_source(self, X, reset=True, min_rows=2)
        found = _moments(X, np.zeros(X.shape[0], np.int64), self.lam)
        xp, D = namespace(found.mean), min(self.dim, X.shape[1])
        values, vectors = xp.linalg.eigh(found.within)  # (d,) rising, (d, d) in columns
        V = xp.flip(vectors[:, -D:], axis=1).T  # (D, d)
        extremes = xp.argmax(xp.abs(V), axis=1)
        V = V * xp.sign(xp.take_along_axis(V, extremes[:, None], axis=1))
        W = V / xp.sqrt(xp.clip(xp.flip(values[-D:]), 0.0, None) + found.lam)[:, None]
        return self._keep(W, -W @ found.mean)


class _Moments(NamedTuple):
    """Of classes, float64, divided by n."""

    means: Array  # (C, d)
    shares: Array  # (C,) of all rows
    mean: Array  # (d,)
    within: Array  # (d, d) covariance inside classes
    lam: float  # λ in the units of the rows


def _moments(X: Rows, codes: NDArray[np.int64], lam: float) -> _Moments:
    """Read X twice."""
    check_number("lam", lam, *NOT_NEGATIVE)
    counts = np.bincount(codes)
    means = means_by_label(X, codes, len(counts))  # (C, d)
    xp = namespace(means)
    shares = like(means, counts / len(codes))
    within = 0 * _eye(means[0])
    for part, rows in blocks(X):
        off = xp.astype(rows, xp.float64) - means[like(means, codes[part])]  # (m, d)
        within += off.T @ off
    within = within / len(codes)
    mean = shares @ means
    total = float(xp.sum(xp.linalg.diagonal(within)) + shares @ xp.sum((means - mean) ** 2, axis=1))
    return _Moments(means, shares, mean, within, max(lam, LEAST) * (total / X.shape[1] or 1.0))


def _eye(like_it: Array) -> Array:
    xp = namespace(like_it)
    return xp.eye(like_it.shape[0], dtype=xp.float64, device=array_api_compat.device(like_it))
