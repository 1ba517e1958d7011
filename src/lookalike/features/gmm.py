"""Mixtures of Gaussians with diagonal covariances, for millions of rows.

In: (n, d) rows, NumPy or torch. Out: weights, means and variances; how likely each Gaussian is to have made a row.
Dempster, Laird & Rubin, "Maximum likelihood from incomplete data via the EM algorithm", J. R. Stat. Soc. B 1977.
"""

from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, check_rows, chunks, namespace
from lookalike.errors import InputError
from lookalike.features.kmeans import kmeans
from lookalike.types import Array, Progress, silent

CHUNK_BYTES = 4 * 2**20
"""What is held of the rows at a time: as much as stays in a processor's cache is quickest."""
LEAST_WEIGHT = 1e-3
"""No Gaussian weighs less than this share of 1 / k, so that it can come back to life."""
LEAST_ROWS = 1e-3
"""Fewer rows than this have no mean: a Gaussian with less keeps its own."""
LEAST_SCALE = 1e-6
"""A column with less than this share of the largest variance is taken to have that much."""
NEGLIGIBLE = -60.0
"""The logarithm of the least share of a Gaussian in a row: smaller ones become float32's subnormal numbers, and
processors are many times slower with those."""
FARTHEST = 1e4
"""Deviations from the mean beyond which a row counts as so far away: float32 squares lose all sense there."""

Moments = NDArray[np.float64]


class Mixture(NamedTuple):
    """The parameters, float64."""

    weights: Moments  # (k,), sum to 1
    means: Moments  # (k, d)
    variances: Moments  # (k, d)


class Gmm(BaseEstimator):
    """A mixture of k Gaussians, each with a variance of its own along each axis, fitted by EM.

    Variances stay at or above a floor and weights at or above a thousandth of 1 / k. Each M step is the best one
    under these two limits, which do not move, so that the likelihood cannot fall, floor or not, but by rounding; a
    step that rounding spoils is not taken and ends the fit: `likelihoods_` never falls. A Gaussian that no row
    belongs to keeps its mean and its variances.

    Parameters
    ----------
    k : Gaussians.
    max_iterations : passes over the rows at most.
    tolerance : the fit ends with a step that gains less than this share of all that was gained since the start.
    floor : least variance, as a share of the variance of its column over all rows.
    random_state : of the k-means that gives the first means.

    Attributes
    ----------
    weights_ : (k,) float64.
    means_, variances_ : (k, d) float64.
    likelihoods_ : (passes,) float64, the mean log-likelihood of a row before each step; the last is that of the fit.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 2)) + np.repeat([[0], [9]], 250, axis=0)
    >>> gmm = Gmm(k=2).fit(X)
    >>> gmm.weights_.round(3), gmm.posteriors(X[:1]).max().round(3)
    (array([0.5, 0.5]), np.float64(1.0))

    """

    weights_: Moments
    means_: Moments
    variances_: Moments
    likelihoods_: Moments

    def __init__(
        self,
        k: int = 256,
        max_iterations: int = 30,
        tolerance: float = 1e-3,
        floor: float = 1e-3,
        random_state: int = 0,
    ):
        self.k = k
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.floor = floor
        self.random_state = random_state

    def fit(self, X: Array, y: Array | None = None, *, progress: Progress = silent) -> Self:  # noqa: ARG002
        """Learn from (n, d) rows, n ≥ k: float32 rows with float32 products and float64 sums, float64 all through."""
        _check("k", self.k, Integral, "a whole number of at least 1", 1)
        _check("max_iterations", self.max_iterations, Integral, "a whole number of at least 1", 1)
        _check("tolerance", self.tolerance, Real, "a number of at least 0", 0)
        _check("floor", self.floor, Real, "a number above 0", np.nextafter(0, 1))
        X = check_rows(X)
        n, d = X.shape
        if n < self.k:
            raise InputError(f"k must be at most {n} (the number of rows). Got {self.k}.")
        floors = self.floor * _variances(X)  # (d,)
        means, distance = kmeans(X, self.k, self.random_state)
        variances = np.maximum(np.full((self.k, d), distance / d), floors)
        mixture = Mixture(np.full(self.k, 1 / self.k), means.astype(np.float64), variances)
        likelihoods: list[float] = []
        for done in range(self.max_iterations):
            progress("fitting the mixture", done, self.max_iterations)
            proposed, likelihood = step(X, mixture, floors)
            if likelihoods and likelihood < likelihoods[-1]:
                break  # rounding: what EM has to gain is less than that
            likelihoods.append(likelihood)
            self.weights_, self.means_, self.variances_ = mixture
            if done and likelihood - likelihoods[-2] <= self.tolerance * (likelihood - likelihoods[0]):
                break
            mixture = proposed
        progress("fitting the mixture", self.max_iterations, self.max_iterations)
        self.likelihoods_ = np.array(likelihoods)
        return self

    def posteriors(self, X: Array) -> Array:
        """(n, d) to (n, k), in the precision of X: the share of each Gaussian in each row; rows sum to 1."""
        X = self._check_rows(X)
        xp = namespace(X)
        out = xp.empty((X.shape[0], len(self.weights_)), dtype=X.dtype, device=array_api_compat.device(X))
        products = Products(self.mixture, X)
        for part in chunks(X.shape[0], products.row_bytes, CHUNK_BYTES):
            shares = products.weigh(X[part])[0]
            out[part] = shares / xp.sum(shares, axis=1, keepdims=True)
        return out

    def log_likelihood(self, X: Array) -> Array:
        """(n, d) to (n,) float64: the logarithm of the mixture's density at each row."""
        X = self._check_rows(X)
        xp = namespace(X)
        out = xp.empty((X.shape[0],), dtype=xp.float64, device=array_api_compat.device(X))
        products = Products(self.mixture, X)
        for part in chunks(X.shape[0], products.row_bytes, CHUNK_BYTES):
            out[part] = products.weigh(X[part])[2]
        return out

    @property
    def mixture(self) -> Mixture:
        """What was learned, in one piece."""
        check_is_fitted(self)
        return Mixture(self.weights_, self.means_, self.variances_)

    def _check_rows(self, X: Array) -> Array:
        return check_rows(X, dim=self.mixture.means.shape[1])


class Products:
    """A mixture made ready for matrix products with rows like X: log(w_i p_i(x)) is linear in (z², z, 1).

    z is x less the mean of the mixture, by its standard deviation: without that, float32 would not do.
    """

    def __init__(self, mixture: Mixture, X: Array):
        weights, means, variances = mixture
        self.k, self.d = means.shape
        shift = weights @ means  # (d,)
        scale = np.sqrt(weights @ (variances + (means - shift) ** 2))  # (d,)
        m, v = (means - shift) / scale, variances / scale**2  # (k, d), of z
        constants = np.log(weights) - 0.5 * np.sum(m * m / v + np.log(2 * np.pi * v), axis=1)  # (k,)
        W = np.concatenate([-0.5 / v, m / v, constants[:, None]], axis=1).T  # (2d + 1, k)
        self._xp = namespace(X)
        self._dtype, self._device = X.dtype, array_api_compat.device(X)
        self._shift, self._scale, self._W = (self._like_rows(a) for a in (shift, scale, W))
        self._offset = -float(np.sum(np.log(scale)))  # of densities, from z to x
        self.row_bytes = self._W.itemsize * (2 * self.k + 4 * self.d)
        self.shift, self.scale = shift, scale

    def weigh(self, X: Array) -> tuple[Array, Array, Array]:
        """Rows X (m, d) to E (m, k), Y (m, 2d + 1) and log-likelihoods (m,).

        Row by row, E is the posteriors times some number and Y is (z², z, 1) divided by it: EᵀY sums up
        posteriors × (z², z, 1), and dividing the narrow matrix is cheaper than dividing the wide one.
        """
        xp = self._xp
        z = xp.clip((X - self._shift) / self._scale, -FARTHEST, FARTHEST)
        Y = xp.empty((X.shape[0], 2 * self.d + 1), dtype=self._dtype, device=self._device)
        Y[:, : self.d] = z * z
        Y[:, self.d : -1] = z
        Y[:, -1] = 1
        E = Y @ self._W  # (m, k)
        most = xp.max(E, axis=1, keepdims=True)  # (m, 1)
        E -= most
        E = xp.exp(xp.clip(E, NEGLIGIBLE, None))
        total = xp.sum(E, axis=1, keepdims=True)  # (m, 1), 1 to k
        Y /= total
        logs = xp.astype(most, xp.float64) + xp.log(xp.astype(total, xp.float64)) + self._offset
        return E, Y, logs[:, 0]

    def _like_rows(self, values: Moments) -> Array:
        return self._xp.asarray(values, dtype=self._dtype, device=self._device)


def step(X: Array, mixture: Mixture, floors: Moments) -> tuple[Mixture, float]:
    """One step of EM over rows X (n, d): the next mixture, and the mean log-likelihood under this one."""
    xp = namespace(X)
    products = Products(mixture, X)
    device = array_api_compat.device(X)
    sums = xp.zeros((products.k, 2 * products.d + 1), dtype=xp.float64, device=device)
    likelihood = 0.0
    for part in chunks(X.shape[0], products.row_bytes, CHUNK_BYTES):
        E, Y, logs = products.weigh(X[part])
        sums += xp.astype(E.T @ Y, xp.float64)
        likelihood += float(xp.sum(logs))
    squares, firsts, counts = np.split(as_numpy(sums), [products.d, 2 * products.d], axis=1)
    live = counts[:, 0] > LEAST_ROWS
    rows = np.where(live[:, None], counts, 1.0)  # (k, 1)
    m = firsts / rows  # (k, d), of z
    means = np.where(live[:, None], products.shift + products.scale * m, mixture.means)
    variances = products.scale**2 * (squares / rows - m * m)
    variances = np.where(live[:, None], np.maximum(variances, floors), mixture.variances)
    return Mixture(_weights(counts[:, 0]), means, variances), likelihood / X.shape[0]


def _weights(counts: Moments) -> Moments:
    """The most likely weights (k,) for these counts (k,), none below the least."""
    least = LEAST_WEIGHT / len(counts)
    low = np.zeros(len(counts), bool)
    while True:
        free = 1 - least * low.sum()
        weights = np.where(low, least, counts * (free / counts[~low].sum()))
        if not np.any(weights[~low] < least):
            return weights
        low |= weights < least


def _variances(X: Array) -> Moments:
    """The variance of each column, (d,), none of them zero."""
    xp = namespace(X)
    n, d = X.shape
    mean, total = 0.0, 0.0
    for part in chunks(n, row_bytes=8 * d):
        mean = mean + xp.sum(xp.astype(X[part], xp.float64), axis=0) / n
    for part in chunks(n, row_bytes=8 * d):
        total = total + xp.sum((xp.astype(X[part], xp.float64) - mean) ** 2, axis=0) / n
    variances: Moments = as_numpy(total)
    return np.asarray(np.maximum(variances, LEAST_SCALE * variances.max() or 1.0))


def _check(name: str, value: Any, kind: type, allowed: str, low: float) -> None:
    if not isinstance(value, kind) or not value >= low:  # type: ignore[operator]
        raise InputError(f"{name} must be {allowed}. Got {value!r}.")
