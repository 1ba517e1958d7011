"""k-means and mixtures of Gaussians with diagonal covariances, for millions of rows, NumPy or torch.

`kmeans` calls faiss for NumPy rows, and does the same on the device of other rows. `fit_mixture` starts from its
centres and runs EM, whose expensive part, `Products.weigh`, is a few matrix products. `gmm.Gmm` wraps `fit_mixture` as
a scikit-learn estimator.

Dempster, Laird & Rubin, "Maximum likelihood from incomplete data via the EM algorithm", J. R. Stat. Soc. B 1977.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import array_api_compat
import faiss as _faiss
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import CACHE_BYTES, as_numpy, chunks, held_bytes, like, namespace, to_numpy
from lookalike.errors import InputError
from lookalike.types import Array, Progress, Vectors, silent

faiss: Any = _faiss  # its stubs cover only a part of it

ROWS_PER_CENTRE = 256
"""Maximum number of rows per centre, sampled at random. More rows would hardly move the centre."""
ITERATIONS = 25
SPLIT = 1 / 1024
"""Relative distance by which `_lloyd` moves a centre and its copy apart, as faiss does."""
LEAST_WEIGHT = 1e-3
"""Minimum weight of a Gaussian, as a fraction of 1 / k, so that its weight can grow again."""
LEAST_ROWS = 1e-3
"""A Gaussian with fewer rows than this keeps its mean and variances."""
LEAST_SCALE = 1e-6
"""Minimum variance of a column, as a fraction of the largest."""
NEGLIGIBLE = -60.0
"""Logarithm of the smallest posterior that is computed. Smaller ones would be subnormal in float32, and processors are
many times slower with subnormal numbers."""
FARTHEST = 1e4
"""Maximum distance of a row from the mean, in standard deviations: larger squares exceed the precision of float32."""

Moments = NDArray[np.float64]


def kmeans(X: Array, k: int, random_state: int = 0, iterations: int = ITERATIONS) -> tuple[Vectors, float]:
    """Return k centres (k, d) float32 of rows X (n, d), n ≥ k, and the mean squared distance to them, both on the CPU.

    NumPy rows are clustered by faiss: the same rows, seed and number of threads give the same bytes. Other rows are
    clustered on their device, from the same start. Lloyd, "Least squares quantization in PCM", IEEE Trans. Information
    Theory 1982.

    >>> centres, distance = kmeans(np.array([[0.0], [2.0], [10.0], [12.0]]), 2)
    >>> sorted(centres.ravel().tolist()), distance
    ([1.0, 11.0], 1.0)
    """
    n, d = X.shape
    if n < k:
        raise InputError(f"k must be at most {n} (the number of rows). Got {k}.")
    if n == k:
        return to_numpy(X).copy(), 0.0
    random = np.random.default_rng(random_state)
    if n > k * ROWS_PER_CENTRE:
        xp = namespace(X)
        X = X[xp.asarray(np.sort(random.choice(n, k * ROWS_PER_CENTRE, replace=False)))]
    seed = int(random.integers(2**31))
    if not array_api_compat.is_numpy_array(X):
        return _lloyd(X, k, seed, iterations)
    rows = to_numpy(X)
    found = faiss.Kmeans(
        d,
        k,
        niter=iterations,
        seed=seed,
        min_points_per_centroid=1,  # avoids a printed warning
        max_points_per_centroid=ROWS_PER_CENTRE,
    )
    found.train(rows)
    return np.asarray(found.centroids, np.float32).reshape(k, d), float(found.obj[-1]) / len(rows)


def _lloyd(X: Array, k: int, seed: int, iterations: int) -> tuple[Vectors, float]:
    """Compute the result of `kmeans` for rows X (n, d) on their device."""
    xp, n = namespace(X), X.shape[0]
    rows = xp.astype(X, xp.float32)
    mean = xp.mean(rows, axis=0)
    rows = rows - mean  # (n, d); reduces rounding errors of the products
    order = np.empty(n, np.int32)
    faiss.rand_perm(faiss.swig_ptr(order), n, seed + 1)  # the order in which faiss takes rows as the first centres
    centres = as_numpy(rows[like(X, order[:k])]).astype(np.float64)  # (k, d)
    numbers, random = xp.arange(k, device=array_api_compat.device(X)), np.random.default_rng(seed)
    total = 0.0
    for _ in range(iterations):
        C, sums, counts, total = like(rows, centres.astype(np.float32)), 0.0, 0.0, 0.0
        half = xp.sum(C * C, axis=1) / 2  # (k,)
        for part in chunks(n, 8 * k, held_bytes(X, CACHE_BYTES)):
            scores = rows[part] @ C.T - half  # (m, k): (‖x‖² − ‖x − c‖²) / 2
            own = xp.astype(xp.argmax(scores, axis=1)[:, None] == numbers, xp.float32)  # (m, k)
            sums = sums + xp.astype(own.T @ rows[part], xp.float64)  # a product, because index_add is not reproducible
            counts = counts + xp.astype(xp.sum(own, axis=0), xp.int64)
            squares = xp.vecdot(rows[part], rows[part]) - 2 * xp.max(scores, axis=1)  # (m,)
            total += float(xp.sum(xp.clip(squares, 0, None)))
        sizes = as_numpy(counts)
        centres = np.where(sizes[:, None] > 0, as_numpy(sums) / np.maximum(sizes, 1)[:, None], centres)
        _fill_empty(centres, sizes, random)
    return (centres + as_numpy(mean)).astype(np.float32), total / n


def _fill_empty(centres: Moments, sizes: NDArray[np.int64], random: np.random.Generator) -> None:
    """Replace centres without rows by copies of others, drawn by their numbers of rows (k,), and move both apart."""
    sizes = sizes.copy()
    for empty in np.flatnonzero(sizes == 0):
        spare = np.maximum(sizes - 1, 0)
        full = random.choice(len(sizes), p=spare / spare.sum())
        centres[empty] = centres[full] * (1 + SPLIT)
        centres[full] *= 1 - SPLIT
        sizes[empty] = sizes[full] // 2
        sizes[full] -= sizes[empty]


class Mixture(NamedTuple):
    """The parameters of a mixture of Gaussians, float64."""

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
    """Fit a mixture of k Gaussians to rows X (n, d), n ≥ k; return it and the mean log-likelihood before each step.

    The options and the properties of the result are those of `Gmm`.
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
            break  # the gain is smaller than the rounding error
        likelihoods.append(likelihood)
        best = mixture
        if done and likelihood - likelihoods[-2] <= tolerance * (likelihood - likelihoods[0]):
            break
        mixture = proposed
    progress("fitting the mixture", max_iterations, max_iterations)
    return best, np.array(likelihoods)


class Products:
    """A mixture prepared for matrix products with rows like X: log(w_i p_i(x)) is linear in (z², z, 1).

    z is x standardised by the mean and standard deviation of the mixture. Without this, float32 would not be precise
    enough.
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
        # Arrays, because `clip` with Python numbers would double the total time.
        self._negligible, self._farthest = (self._like_rows(np.array(a)) for a in (NEGLIGIBLE, FARTHEST))
        self._offset = -float(np.sum(np.log(scale)))  # of densities, from z to x
        self.row_bytes = self.W.itemsize * (2 * self.k + 4 * self.d)
        self.shift, self.scale = shift, scale

    def parts(self, n: int) -> Iterator[slice]:
        """Yield slices of n rows of an efficient size for `weigh`."""
        return chunks(n, self.row_bytes, held_bytes(self.W, CACHE_BYTES))

    def weigh(self, X: Array) -> tuple[Array, Array, Array]:
        """Return E (m, k), Y (m, 2d + 1) and the log-likelihoods (m,) of rows X (m, d).

        Each row of E contains the posteriors times a factor, and the row of Y is (z², z, 1) divided by this factor.
        EᵀY is then the sum of posteriors × (z², z, 1). Dividing the narrow matrix is cheaper than the wide one.
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
        xp.maximum(E, self._negligible, out=E)  # in place, because allocation is slow; NumPy and torch have `out`
        xp.exp(E, out=E)
        total = xp.sum(E, axis=1, keepdims=True)  # (m, 1), 1 to k
        Y /= total
        logs = xp.astype(most, xp.float64) + xp.log(xp.astype(total, xp.float64)) + self._offset
        return E, Y, logs[:, 0]

    def _like_rows(self, values: Moments) -> Array:
        return self._xp.asarray(values, dtype=self._dtype, device=self._device)


def step(X: Array, mixture: Mixture, floors: Moments) -> tuple[Mixture, float]:
    """Run one EM step over rows X (n, d); return the next mixture and the mean log-likelihood under this one."""
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
    """Return the maximum-likelihood weights (k,) for these counts (k,), none below the minimum."""
    least = LEAST_WEIGHT / len(counts)
    low = np.zeros(len(counts), bool)
    while True:
        free = 1 - least * low.sum()
        weights = np.where(low, least, counts * (free / counts[~low].sum()))
        if not np.any(weights[~low] < least):
            return weights
        low |= weights < least


def _variances(X: Array) -> Moments:
    """Return the variance of each column, (d,), none of them zero."""
    xp = namespace(X)
    n, d = X.shape
    mean, total = 0.0, 0.0
    for part in chunks(n, row_bytes=8 * d):
        mean = mean + xp.sum(xp.astype(X[part], xp.float64), axis=0) / n
    for part in chunks(n, row_bytes=8 * d):
        total = total + xp.sum((xp.astype(X[part], xp.float64) - mean) ** 2, axis=0) / n
    variances: Moments = as_numpy(total)
    return np.asarray(np.maximum(variances, LEAST_SCALE * variances.max() or 1.0))
