"""What DFK learns, as one array, and a step of it: the objective of a batch and its gradient.

In: parameters (P + 2kd + k + 1,), and a batch of items with their labels, NumPy or torch. Out: the loss, and its
gradient by the parameters. Wang, Li & Liu 2013 (dfk), Eq. 9–11.
"""

from typing import NamedTuple

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, like, namespace
from lookalike.features.mixture import Mixture
from lookalike.learn.fisher_gradient import back
from lookalike.learn.fisher_scores import FisherScores
from lookalike.learn.neighbours import pulls
from lookalike.types import Array

SPREADS = 2.0 ** np.arange(-3, 8)
"""Squares of the scale that training may start at, by the mean distance: the one with the best objective."""


class Packed(NamedTuple):
    """All that is learned, in one array: v (P,), means and log deviations (k, d) from where EM left them, a (k,), b.

    exp(b) is the square of the scale: with rows of unit length weights cannot say it.
    """

    mixture: Mixture  # of EM
    learned: str
    unit: bool

    def unpack(self, parameters: Array) -> tuple[Mixture, NDArray[np.float64], float]:
        """The mixture, √w (P,) and the scale."""
        values = as_numpy(parameters).astype(np.float64)
        k, d = self.mixture.means.shape
        v, u, t, a, b = np.split(values, np.cumsum([k * (2 * d + 1), k * d, k * d, k]))
        sigma = np.sqrt(self.mixture.variances)
        means = self.mixture.means + sigma * u.reshape(k, d)
        alpha = self.mixture.weights * np.exp(a - a.max())
        mixture = Mixture(alpha / alpha.sum(), means, (sigma * np.exp(t.reshape(k, d))) ** 2)
        return mixture, np.exp(v / 2), float(np.exp(b[0] / 2))

    def start(self, rows: Array, starts: NDArray[np.int64], y: NDArray[np.int64]) -> Array:
        """Where training starts, of the kind of the rows: EM's mixture, weights of 1, and the scale y likes best."""
        xp, (k, d) = namespace(rows), self.mixture.means.shape
        fisher, labels = FisherScores(self.mixture, rows), like(rows, y)
        products, _ = self._products(fisher.score(rows, starts).U)
        spread = xp.mean(xp.linalg.diagonal(products)) - xp.mean(products)  # half of the mean distance
        unit = 1 / (2 * max(float(spread), 0.0) or 1.0)
        values = [float(pulls(float(square * unit) * products, labels)[0]) for square in SPREADS]
        best = float(SPREADS[int(np.argmax(values))] * unit)
        zeros = xp.zeros((fisher.dim + 2 * k * d + k,), dtype=rows.dtype, device=array_api_compat.device(rows))
        return xp.concat([zeros, xp.log(xp.ones_like(zeros[:1]) * best)])

    def step(self, parameters: Array, rows: Array, starts: NDArray[np.int64], y: Array) -> tuple[Array, Array]:
        """The loss, less the objective, of a batch, and its gradient; posteriors are held fixed for "fixed"."""
        xp = namespace(parameters)
        rows = xp.astype(like(parameters, rows), parameters.dtype, copy=False)
        mixture, _, _ = self.unpack(parameters)
        roots, squared = xp.exp(parameters[: -self._others] / 2), xp.exp(parameters[-1:])
        fisher = FisherScores(mixture, rows, roots)
        scored = fisher.score(rows, starts)
        products, lengths = self._products(scored.U)  # (n, n), (n,)
        value, L = pulls(squared * products, y)
        own = xp.sum(L * products, axis=1)  # (n,)
        by_b = squared * xp.sum(own)
        M = 2 * squared * L  # M V is the gradient by V, the scores at unit length or as they are
        if self.unit:  # what is along V changes its length alone
            each = xp.arange(M.shape[0], device=array_api_compat.device(M))
            M[each, each] -= 2 * squared * own
            M /= lengths
            M /= lengths[:, None]
        found = back(fisher, scored, M, self.learned)
        rest = self._by_mixture(mixture, (found.alphas, found.means, found.deviations))
        return -value, -xp.concat([found.logs / 2, rest, by_b])

    def _products(self, U: Array) -> tuple[Array, Array]:
        """Scores (k, 2d + 1, n) with each other, (n, n), at unit length where wanted, and the lengths, (n,)."""
        xp = namespace(U)
        U = xp.reshape(U, (-1, U.shape[2]))  # (P, n)
        if not self.unit:
            U = U - xp.mean(U, axis=1, keepdims=True)  # differences stay, rounding is less
            return U.T @ U, xp.ones_like(U[0, :])
        products = U.T @ U
        lengths = unit_lengths(xp.linalg.diagonal(products))
        products /= lengths
        products /= lengths[:, None]
        return products, lengths

    @property
    def _others(self) -> int:
        """How many parameters there are besides the weights of scores."""
        k, d = self.mixture.means.shape
        return int(2 * k * d + k + 1)

    def _by_mixture(self, mixture: Mixture, gradients: tuple[Array, Array, Array]) -> Array:
        """Gradients by weights, means and deviations, as those by what stands for them here, in one array."""
        by_alpha, by_means, by_deviations = gradients
        xp = namespace(by_alpha)

        def cast(values: NDArray[np.float64]) -> Array:
            return xp.astype(like(by_alpha, values), by_alpha.dtype)

        alpha = cast(mixture.weights)
        u = by_means * cast(np.sqrt(self.mixture.variances))
        t = by_deviations * cast(np.sqrt(mixture.variances))
        return xp.concat([xp.reshape(u, (-1,)), xp.reshape(t, (-1,)), alpha * (by_alpha - xp.sum(alpha * by_alpha))])


def unit_lengths(squares: Array) -> Array:
    """What rows of these squared lengths are divided by to be of unit length; those of length 0 by 1."""
    xp = namespace(squares)
    lengths = xp.sqrt(squares)
    return xp.where(lengths > 0, lengths, xp.ones_like(lengths))
