"""Closed-form metrics: Fisher's linear discriminants, ridge regression, inverse covariance.

These are the baselines of NCMML: Mensink et al. 2013 (ncm), Eq. 11, 17–18 and §5.3. Rows are read twice, in chunks. λ
is a share of the mean variance, so one value serves rows of any scale.
"""

from typing import NamedTuple, Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import cholesky, like, namespace, solve_lower
from lookalike.learn.labels import encode_labels
from lookalike.learn.rows import Projection, Rows, blocks, check_source, means_by_label
from lookalike.limits import COUNT, NOT_NEGATIVE, check_number, report_fewer
from lookalike.types import Array

MAX_DIM, MAX_WHITENED = 64, 256
"""The largest output dimensions of `Fda` and `InverseCovariance` if none is requested."""

LEAST = 1e-6
"""Smallest λ, as a share of the mean variance, so that directions without variance can be inverted."""


class _Affine(Projection):
    """Affine map x ↦ Wx + b."""

    bias_: Array  # (D,) float32

    def _map(self, X: Rows) -> Array:
        Z = super()._map(X)
        return Z + like(Z, self.bias_)

    def _keep(self, W: Array, bias: Array) -> Self:
        xp = namespace(W)
        self.W_, self.bias_ = xp.astype(W, xp.float32), xp.astype(bias, xp.float32)
        return self


class Fda(_Affine):
    """Fisher's discriminants: directions in which classes differ most relative to the variance within them, Eq. 11.

    They are scaled to an average variance of one within classes. D is at most min(d, C - 1), because C means span no
    more dimensions.

    Parameters
    ----------
    dim : output dimension D; None: at most 64. A larger `dim` than there are directions gives a warning.
    lam : added to the variances within classes, as a share of their mean.

    Attributes
    ----------
    W_ : (D, d) float32, sorted by decreasing share of variance between classes.
    bias_ : (D,) float32; it maps the mean to zero.
    classes_ : (C,) sorted labels, NumPy.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 4)) * [1, 1, 9, 9]
    >>> y = np.arange(300) % 2
    >>> X[:, 0] += 5 * y
    >>> np.abs(Fda().fit(X, y).W_).round(1)
    array([[1., 0., 0., 0.]], dtype=float32)

    """

    def __init__(self, dim: int | None = None, lam: float = 1e-3):
        self.dim = dim
        self.lam = lam

    def fit(self, X: Rows, y: Array | None = None) -> Self:
        """Fit to rows (n, d) and labels (n,) of at least 2 classes."""
        if self.dim is not None:
            check_number("dim", self.dim, *COUNT)
        X = check_source(self, X, reset=True, min_rows=2)
        self.classes_, codes = encode_labels(y, X.shape[0])
        found = _moments(X, codes, self.lam)
        xp = namespace(found.mean)
        L = cholesky(found.within + found.lam * _eye(found.mean))
        between = ((found.means - found.mean) * xp.sqrt(found.shares)[:, None]).T  # (d, C)
        U = xp.linalg.svd(solve_lower(L, between), full_matrices=False)[0]  # (d, min(d, C))
        d, C = X.shape[1], len(self.classes_)
        D = min(MAX_DIM if self.dim is None else self.dim, d, C - 1)
        report_fewer("dim", self.dim, D, f"{C} classes with {d} columns differ in at most {D} directions")
        U = U[:, :D]
        W = solve_lower(L, U, transposed=True).T  # (D, d): Wᵀ = L⁻ᵀU
        extremes = xp.argmax(xp.abs(W), axis=1)
        W = W * xp.sign(xp.take_along_axis(W, extremes[:, None], axis=1))  # make the largest entry of each positive
        return self._keep(W, -W @ found.mean)


class Ridge(_Affine):
    """Ridge regression of each class against the others: a row becomes its scores for the C classes (Eq. 17–18).

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

    def __init__(self, lam: float = 1e-2):
        self.lam = lam

    def fit(self, X: Rows, y: Array | None = None) -> Self:
        """Fit to rows (n, d) and labels (n,) of at least 2 classes."""
        X = check_source(self, X, reset=True, min_rows=2)
        self.classes_, codes = encode_labels(y, X.shape[0])
        found = _moments(X, codes, self.lam)
        away = found.means - found.mean  # (C, d)
        total = found.within + (away * found.shares[:, None]).T @ away  # Σ, (d, d)
        L = cholesky(total + found.lam * _eye(found.mean))
        W = found.shares[:, None] * solve_lower(L, solve_lower(L, away.T), transposed=True).T  # Eq. 18
        return self._keep(W, found.shares - W @ found.mean)  # Eq. 17, for rows that are not centred


class InverseCovariance(_Affine):
    """The metric WᵀW = (Σ + λI)⁻¹ in the principal directions, without labels.

    Parameters
    ----------
    dim : output dimension D; None: at most 256. The directions of largest variance are kept; a larger `dim` than d
        gives a warning.
    lam : λ, as a share of the mean variance.

    Attributes
    ----------
    W_ : (D, d) float32, sorted by decreasing variance.
    bias_ : (D,) float32; it maps the mean to zero.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(400, 3)) * [1, 5, 25]
    >>> InverseCovariance(lam=0).fit_transform(X).std(axis=0).round(3)
    array([1., 1., 1.], dtype=float32)

    """

    labels = False

    def __init__(self, dim: int | None = None, lam: float = 1e-2):
        self.dim = dim
        self.lam = lam

    def fit(self, X: Rows, y: Array | None = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Fit to rows (n, d), n ≥ 2."""
        if self.dim is not None:
            check_number("dim", self.dim, *COUNT)
        X = check_source(self, X, reset=True, min_rows=2)
        found = _moments(X, np.zeros(X.shape[0], np.int64), self.lam)
        xp, D = namespace(found.mean), min(MAX_WHITENED if self.dim is None else self.dim, X.shape[1])
        report_fewer("dim", self.dim, D, f"X has {D} columns")
        values, vectors = xp.linalg.eigh(found.within)  # (d,) ascending, (d, d) in columns
        V = xp.flip(vectors[:, -D:], axis=1).T  # (D, d)
        extremes = xp.argmax(xp.abs(V), axis=1)
        V = V * xp.sign(xp.take_along_axis(V, extremes[:, None], axis=1))
        W = V / xp.sqrt(xp.clip(xp.flip(values[-D:]), 0.0, None) + found.lam)[:, None]
        return self._keep(W, -W @ found.mean)


class _Moments(NamedTuple):
    """Moments of classes, float64, divided by n."""

    means: Array  # (C, d)
    shares: Array  # (C,) share of each class in all rows
    mean: Array  # (d,)
    within: Array  # (d, d) covariance within classes
    lam: float  # λ in the units of the rows


def _moments(X: Rows, codes: NDArray[np.int64], lam: float) -> _Moments:
    """Compute the moments of classes `codes` (n,), in two passes over X."""
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
