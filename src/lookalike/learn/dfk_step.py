"""What DFK learns, as one array, and a step of it: the objective of a batch and its gradient.

In: parameters (P + 2kd + k,), and a batch of items with their labels, NumPy or torch. Out: the loss, and its
gradient by the parameters. Wang, Li & Liu 2013 (dfk), Eq. 9–11.
"""

from dataclasses import dataclass, field

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, like, namespace
from lookalike.features.clustering import Mixture
from lookalike.learn.fisher_gradient import Gradients, back
from lookalike.learn.fisher_scores import FisherScores
from lookalike.learn.neighbours import pulls
from lookalike.learn.room import Room
from lookalike.types import Array

SPREAD = 24.0
"""The mean of D over pairs at the start, which fixes the scale. Where the scale is learned, or chosen by the objective,
it grows until only the nearest neighbour of an item counts, and training overfits (docs/dfk.md)."""


@dataclass(frozen=True)
class Packed:
    """All that is learned, in one array: v (P,), means and log deviations (k, d) from where EM left them, a (k,)."""

    mixture: Mixture  # of EM
    learned: str
    room: Room = field(default_factory=Room)  # of one step after the other

    def unpack(self, parameters: Array) -> tuple[Mixture, NDArray[np.float64]]:
        """The mixture, and √w (P,)."""
        values = as_numpy(parameters).astype(np.float64)
        k, d = self.mixture.means.shape
        v, u, t, a = np.split(values, np.cumsum([k * (2 * d + 1), k * d, k * d]))
        sigma = np.sqrt(self.mixture.variances)
        means = self.mixture.means + sigma * u.reshape(k, d)
        alpha = self.mixture.weights * np.exp(a - a.max())
        mixture = Mixture(alpha / alpha.sum(), means, (sigma * np.exp(t.reshape(k, d))) ** 2)
        return mixture, np.exp(v)

    def start(self, rows: Array, starts: NDArray[np.int64]) -> tuple[Array, float]:
        """Where training starts, EM's mixture and weights of 1, of the kind of the rows; and the scale of scores."""
        xp, (k, d) = namespace(rows), self.mixture.means.shape
        fisher = FisherScores(self.mixture, rows)
        products, _ = _products(fisher.rooted(fisher.score(rows, starts, self.room)))
        mean = 2 * float(xp.mean(xp.linalg.diagonal(products)) - xp.mean(products))  # of D, over all pairs
        zeros = xp.zeros((fisher.dim + 2 * k * d + k,), dtype=rows.dtype, device=array_api_compat.device(rows))
        return zeros, (SPREAD / mean) ** 0.5 if mean > 0 else 1.0

    def step(
        self, parameters: Array, rows: Array, starts: NDArray[np.int64], y: Array, scale: float
    ) -> tuple[Array, Array]:
        """The loss, less the objective, of a batch, and its gradient; posteriors are held fixed for "fixed"."""
        xp, (mixture, _) = namespace(parameters), self.unpack(parameters)
        rows = xp.astype(like(parameters, rows), parameters.dtype, copy=False)
        k, d = mixture.means.shape
        fisher = FisherScores(mixture, rows, xp.exp(parameters[: k * (2 * d + 1)]))
        scored = fisher.score(rows, starts, self.room)
        R = fisher.rooted(scored)
        products, lengths = _products(R)  # (n, n), (n,)
        value, M = pulls(scale**2 * products, y)
        M *= 2 * scale**2  # times V, the roots at unit length, that is the gradient by V
        each = xp.arange(M.shape[0], device=array_api_compat.device(M))
        M[each, each] -= xp.sum(M * products, axis=1)  # what is along V changes its length alone
        M /= lengths
        M /= lengths[:, None]
        found = back(fisher, scored, R, M, self.learned)
        return -value, -xp.concat([found.logs, self._by_mixture(mixture, found)])

    def _by_mixture(self, mixture: Mixture, found: Gradients) -> Array:
        """Gradients by weights, means and deviations, as those by what stands for them here, in one array."""
        xp = namespace(found.alphas)

        def cast(values: NDArray[np.float64]) -> Array:
            return xp.astype(like(found.alphas, values), found.alphas.dtype)

        alpha = cast(mixture.weights)
        u = found.means * cast(np.sqrt(self.mixture.variances))
        t = found.deviations * cast(np.sqrt(mixture.variances))
        a = alpha * (found.alphas - xp.sum(alpha * found.alphas))
        return xp.concat([xp.reshape(u, (-1,)), xp.reshape(t, (-1,)), a])


def _products(R: Array) -> tuple[Array, Array]:
    """Roots of scores R (k, 2d + 1, n), at unit length, with each other, (n, n); and the lengths they had, (n,)."""
    xp = namespace(R)
    R = xp.reshape(R, (-1, R.shape[2]))
    products = R.T @ R
    lengths = xp.sqrt(xp.linalg.diagonal(products))
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    products /= lengths
    products /= lengths[:, None]
    return products, lengths
