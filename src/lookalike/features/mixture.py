"""The maths of mixtures of Gaussians with diagonal covariances: EM over millions of rows, matrix product by product.

In: (n, d) rows, NumPy or torch. Out: weights, means and variances. Apart from `gmm`, whose class is scikit-learn's, so
that reading processes need not load that. Dempster, Laird & Rubin, J. R. Stat. Soc. B 1977.
"""

from collections.abc import Iterator
from typing import NamedTuple

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import CACHE_BYTES, as_numpy, chunks, held_bytes, namespace
from lookalike.features.kmeans import kmeans
from lookalike.types import Array, Progress, silent

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


def fit_mixture(
    X: Array,
    k: int,
    *,
    max_iterations: int = 30,
    tolerance: float = 1e-3,
    floor: float = 1e-3,
    random_state: int = 0,
    progress: Progress = silent,
) -> tuple[Mixture, Moments]:
    """A mixture of k Gaussians for rows X (n, d), n ≥ k, and the mean log-likelihood before each step.

    What the options mean, and what holds for the result, stands with `Gmm`.
    """
    d = X.shape[1]
    floors = floor * _variances(X)  # (d,)
    means, distance = kmeans(X, k, random_state)
    variances = np.maximum(np.full((k, d), distance / d), floors)
    mixture = best = Mixture(np.full(k, 1 / k), means.astype(np.float64), variances)
    likelihoods: list[float] = []
    for done in range(max_iterations):
        progress("fitting the mixture", done, max_iterations)
        proposed, likelihood = step(X, mixture, floors)
        if likelihoods and likelihood < likelihoods[-1]:
            break  # rounding: what EM has to gain is less than that
        likelihoods.append(likelihood)
        best = mixture
        if done and likelihood - likelihoods[-2] <= tolerance * (likelihood - likelihoods[0]):
            break
        mixture = proposed
    progress("fitting the mixture", max_iterations, max_iterations)
    return best, np.array(likelihoods)


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
        self._shift, self._scale, self.W = (self._like_rows(a) for a in (shift, scale, W))
        # As arrays: `clip` with numbers takes as long as the rest together.
        self._negligible, self._farthest = (self._like_rows(np.array(a)) for a in (NEGLIGIBLE, FARTHEST))
        self._offset = -float(np.sum(np.log(scale)))  # of densities, from z to x
        self.row_bytes = self.W.itemsize * (2 * self.k + 4 * self.d)
        self.shift, self.scale = shift, scale

    def parts(self, n: int) -> Iterator[slice]:
        """n rows in parts of a good size for `weigh`."""
        return chunks(n, self.row_bytes, held_bytes(self.W, CACHE_BYTES))

    def weigh(self, X: Array) -> tuple[Array, Array, Array]:
        """Rows X (m, d) to E (m, k), Y (m, 2d + 1) and log-likelihoods (m,).

        Row by row, E is the posteriors times some number and Y is (z², z, 1) divided by it: EᵀY sums up
        posteriors × (z², z, 1), and dividing the narrow matrix is cheaper than dividing the wide one.
        """
        xp = self._xp
        z = xp.maximum(xp.minimum((X - self._shift) / self._scale, self._farthest), -self._farthest)
        Y = xp.empty((X.shape[0], 2 * self.d + 1), dtype=self._dtype, device=self._device)
        Y[:, : self.d] = z * z
        Y[:, self.d : -1] = z
        Y[:, -1] = 1
        E = Y @ self.W  # (m, k)
        most = xp.max(E, axis=1, keepdims=True)  # (m, 1)
        E -= most
        xp.maximum(E, self._negligible, out=E)  # NumPy and torch both know `out`: new memory takes time
        xp.exp(E, out=E)
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
    for part in products.parts(X.shape[0]):
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
