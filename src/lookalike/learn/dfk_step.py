"""What DFK learns, as one array, and a step of it: the objective of a batch and its gradient.

In: parameters (P + 2kd + k,), and a batch of items with their labels, NumPy or torch. Out: the loss, and its
gradient by the parameters. Wang, Li & Liu 2013 (dfk), Eq. 9–11.
"""

from typing import NamedTuple

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, like, namespace
from lookalike.features.mixture import Mixture
from lookalike.learn.fisher_scores import FisherScores
from lookalike.learn.neighbours import objective
from lookalike.types import Array

SPREAD = 16.0
"""The mean of D over pairs at the start, which fixes the scale. Where the scale is learned, or chosen by the objective,
it grows until only the nearest neighbour of an item counts, and training overfits (docs/dfk.md)."""
SMALL = 1e-3
"""Scores below this, in deviations, are taken as they are, not by their root, whose slope there has no bound."""


class Packed(NamedTuple):
    """All that is learned, in one array: v (P,), means and log deviations (k, d) from where EM left them, a (k,)."""

    mixture: Mixture  # of EM
    learned: str

    def unpack(self, parameters: Array) -> tuple[Mixture, NDArray[np.float64]]:
        """The mixture, and √w (P,)."""
        values = as_numpy(parameters).astype(np.float64)
        k, d = self.mixture.means.shape
        v, u, t, a = np.split(values, np.cumsum([k * (2 * d + 1), k * d, k * d]))
        sigma = np.sqrt(self.mixture.variances)
        means = self.mixture.means + sigma * u.reshape(k, d)
        alpha = self.mixture.weights * np.exp(a - a.max())
        mixture = Mixture(alpha / alpha.sum(), means, (sigma * np.exp(t.reshape(k, d))) ** 2)
        return mixture, np.exp(v / 2)

    def start(self, rows: Array, starts: NDArray[np.int64]) -> tuple[Array, float]:
        """Where training starts, EM's mixture and weights of 1, of the kind of the rows; and the scale of scores."""
        xp, (k, d) = namespace(rows), self.mixture.means.shape
        fisher = FisherScores(self.mixture, rows)
        V, _, _ = weigh(fisher.scores(fisher.sums(rows, starts)), xp.ones_like(rows[0, :1]))
        mean = 2 * float(xp.sum(xp.var(V, axis=0)))  # of D, over all pairs
        zeros = xp.zeros((fisher.dim + 2 * k * d + k,), dtype=V.dtype, device=array_api_compat.device(V))
        return zeros, (SPREAD / mean) ** 0.5 if mean > 0 else 1.0

    def step(
        self, parameters: Array, rows: Array, starts: NDArray[np.int64], y: Array, scale: float
    ) -> tuple[Array, Array]:
        """The loss, less the objective, of a batch, and its gradient; posteriors are held fixed for "fixed"."""
        xp = namespace(parameters)
        rows = xp.astype(like(parameters, rows), parameters.dtype, copy=False)
        mixture, _ = self.unpack(parameters)
        fisher = FisherScores(mixture, rows)
        sums = fisher.sums(rows, starts)
        roots = xp.exp(parameters[: fisher.dim] / 2)
        V, U, lengths = weigh(fisher.scores(sums), roots)
        value, _, by_V = objective(V, scale**2 * xp.ones_like(roots), y)
        by_R = (by_V - xp.sum(by_V * V, axis=1, keepdims=True) * V) / lengths  # what is along V changes but its length
        by_U = by_R * root_slope(U)
        by_v = xp.sum(by_U * U, axis=0) / 2
        by_scores = by_U * roots
        if self.learned == "weights":
            rest = 0 * parameters[fisher.dim :]
        else:
            gradients = fisher.gradient(sums, by_scores)
            if self.learned == "all":
                moved = fisher.through(rows, starts, by_scores)
                gradients = (gradients[0] + moved[0], gradients[1] + moved[1], gradients[2] + moved[2])
            rest = self._by_mixture(mixture, gradients)
        return -value, -xp.concat([by_v, rest])

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


def weigh(scores: Array, roots: Array) -> tuple[Array, Array, Array]:
    """Scores (n, P) times √w, U; their roots at unit length, V; and what these were divided by for that, (n, 1).

    As V, U, lengths. Roots keep the few Gaussians that an item is all about from drowning the others, lengths say
    mostly how far an item is from all of them (Perronnin, Sánchez & Mensink, ECCV 2010).
    """
    xp, U = namespace(scores), scores * roots
    R = root(U)
    lengths = xp.sqrt(xp.sum(R * R, axis=1, keepdims=True))
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    return R / lengths, U, lengths


def root(U: Array) -> Array:
    """The signed square root, smooth at zero.

    >>> root(np.array([-4.0, 0.0, 9.0])).round(3).tolist()
    [-2.0, 0.0, 3.0]
    """
    xp = namespace(U)
    return U / xp.sqrt(xp.abs(U) + SMALL)


def root_slope(U: Array) -> Array:
    """The derivative of `root`."""
    size = namespace(U).abs(U)
    return (size / 2 + SMALL) / (size + SMALL) ** 1.5
