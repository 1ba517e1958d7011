"""Fisher scores of a mixture of Gaussians: how an item would have the mixture's parameters change.

In: items of one row or many, NumPy or torch, and a mixture (k, d). Out: (n, k(2d + 1)) scores, for means, for standard
deviations, for weights. Wang, Li & Liu 2013, "Learning discriminative Fisher kernel" (dfk), Eq. 3, 5–7: Eq. 6 holds
for each Gaussian by itself; weights are a soft-max, as weights that sum to 1 have k - 1 directions, not k.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import like, namespace
from lookalike.features.mixture import Mixture, Products
from lookalike.types import Array


class FisherScores:
    """Scores under one mixture, for rows of the kind and the precision of X.

    `scores` are divided by the root of their Fisher information, so that the parts can be compared; `roots` undoes it.
    Numbers inside are those of z, rows less the mixture's mean by its deviation, which no score depends on.

    >>> mixture = Mixture(np.array([1.0]), np.array([[0.0]]), np.array([[4.0]]))
    >>> fisher = FisherScores(mixture, np.empty((0, 1)))
    >>> (fisher.scores(fisher.sums(np.array([[2.0], [6.0]]), np.array([0, 2]))) * fisher.roots()).tolist()
    [[1.0, 2.0, 0.0]]
    """

    def __init__(self, mixture: Mixture, X: Array):
        self._xp, self._products = namespace(X), Products(mixture, X)
        shift, scale = self._products.shift, self._products.scale

        def cast(values: NDArray[np.float64]) -> Array:
            return self._xp.astype(like(X, values), X.dtype)

        self._m, self._s = cast((mixture.means - shift) / scale), cast(np.sqrt(mixture.variances) / scale)  # (k, d)
        self._alpha, self._scale = cast(mixture.weights[:, None]), cast(scale)  # (k, 1), (d,)
        self._root = self._xp.sqrt(self._alpha)
        self.k, self.d = mixture.means.shape
        self.dim = self.k * (2 * self.d + 1)

    def sums(self, rows: Array, starts: NDArray[np.int64]) -> Array:
        """Posteriors times (z², z, 1), the mean over the rows of each item: (n, k, 2d + 1). All a score needs (Eq. 3).

        The rows of item i are those from starts[i] to starts[i + 1].
        """
        xp = self._xp
        if len(starts) == rows.shape[0] + 1:
            E, Y, _ = self._products.weigh(rows)
            return E[:, :, None] * Y[:, None, :]
        found = []
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            E, Y, _ = self._products.weigh(rows[begin:end])
            found.append(E.T @ Y / (end - begin))
        return xp.stack(found)

    def scores(self, sums: Array) -> Array:
        """(n, k, 2d + 1) to (n, k(2d + 1)): Eq. 6, each divided by the root of its Fisher information."""
        xp, count, n = self._xp, sums[:, :, -1:], sums.shape[0]
        off, square = self._moments(sums)  # (n, k, d)
        means = off / (self._s * self._root)
        spreads = (square / self._s**2 - count) / (2**0.5 * self._root)
        weights = (count - self._alpha) / self._root  # (n, k, 1)
        parts = (means, spreads, weights)
        return xp.concat([xp.reshape(part, (n, self.k * part.shape[2])) for part in parts], axis=1)

    def roots(self) -> Array:
        """(k(2d + 1),): what `scores` were divided by; times these they are Eq. 6, in the units of the rows."""
        xp, sigma = self._xp, self._s * self._scale
        parts = (self._root / sigma, 2**0.5 * self._root / sigma, self._root)
        return xp.concat([xp.reshape(part, (-1,)) for part in parts])

    def gradient(self, sums: Array, by_scores: Array) -> tuple[Array, Array, Array]:
        """From a gradient by scores (n, k(2d + 1)) to those by weights (k,), means (k, d) and deviations (k, d).

        Posteriors are held fixed, as in the paper; weights are taken as k free numbers.
        """
        xp, k, d, n = self._xp, self.k, self.d, by_scores.shape[0]
        second, first, count = self._split(sums)
        by_means = xp.reshape(by_scores[:, : k * d], (n, k, d))
        by_spreads = xp.reshape(by_scores[:, k * d : 2 * k * d], (n, k, d))
        by_weights = by_scores[:, 2 * k * d :]

        def total(by: Array, moment: Array) -> Array:  # over items, (k, d), without a product of all in memory
            return xp.einsum("nkd,nkd->kd", by, xp.broadcast_to(moment, by.shape))

        m, s, counts, spread_counts = self._m, self._s, total(by_means, count), total(by_spreads, count)
        firsts = total(by_spreads, first)
        means_off, spreads_off = total(by_means, first) - m * counts, firsts - m * spread_counts
        square = (total(by_spreads, second) - m * (firsts + spreads_off)) / 2**0.5
        m_part = -(counts / s + 2**0.5 * spreads_off / s**2) / self._root
        s_part = -(means_off / s**2 + 2 * square / s**3) / self._root
        own = xp.sum(means_off / s + square / s**2 - spread_counts / 2**0.5, axis=1)  # (k,)
        shares = xp.sum(by_weights * (count[:, :, 0] + self._alpha[:, 0]), axis=0)  # (k,)
        alpha_part = -(own + shares) / (2 * (self._alpha * self._root)[:, 0])
        return alpha_part, m_part / self._scale, s_part / self._scale

    def through(self, rows: Array, starts: NDArray[np.int64], by_scores: Array) -> tuple[Array, Array, Array]:
        """What `gradient` leaves out: how scores change because posteriors do, in the same shapes."""
        xp, k, d, n = self._xp, self.k, self.d, by_scores.shape[0]
        by_means = xp.reshape(by_scores[:, : k * d], (n, k, d)) / (self._s * self._root)
        by_spreads = xp.reshape(by_scores[:, k * d : 2 * k * d], (n, k, d)) / (2**0.5 * self._root)
        by_weights = xp.reshape(by_scores[:, 2 * k * d :], (n, k, 1)) / self._root
        squares = by_spreads / self._s**2
        counts = xp.sum(self._m * (self._m * squares - by_means) - by_spreads, axis=2, keepdims=True) + by_weights
        by_sums = xp.concat([squares, by_means - 2 * self._m * squares, counts], axis=2)  # (n, k, 2d + 1)
        single, total = len(starts) == rows.shape[0] + 1, 0 * by_sums[0, ...]
        for i in range(1 if single else n):
            E, Y, _ = self._products.weigh(rows if single else rows[int(starts[i]) : int(starts[i + 1])])
            size = xp.sum(E, axis=1, keepdims=True)
            g, Y = E / size, Y * size
            by_g = xp.einsum("nkc,nc->nk", by_sums, Y) if single else Y @ by_sums[i, ...].T / Y.shape[0]  # (m, k)
            total = total + (g * (by_g - xp.sum(g * by_g, axis=1, keepdims=True))).T @ Y  # by the logs of α N(x)
        off, square = self._moments(total[None, ...])
        count = total[:, -1:]
        m_part, s_part = off[0, ...] / self._s**2, square[0, ...] / self._s**3 - count / self._s
        return count[:, 0] / self._alpha[:, 0], m_part / self._scale, s_part / self._scale

    def _split(self, sums: Array) -> tuple[Array, Array, Array]:
        """Sums of z², of z and of posteriors alone."""
        return sums[:, :, : self.d], sums[:, :, self.d : -1], sums[:, :, -1:]

    def _moments(self, sums: Array) -> tuple[Any, Any]:
        """Sums of z − m and of its square, (n, k, d) each."""
        second, first, count = self._split(sums)
        off = first - count * self._m
        return off, second - self._m * (first + off)
