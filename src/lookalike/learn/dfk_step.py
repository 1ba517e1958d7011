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
from lookalike.learn.fisher_scores import FisherScores
from lookalike.learn.neighbours import objective
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
        fisher = FisherScores(self.mixture, rows)
        scores, labels = fisher.scores(fisher.sums(rows, starts)), like(rows, y)
        ones = xp.ones_like(scores[0, :])
        V, _ = weigh(scores, ones, self.unit)
        unit = 1 / (2 * float(xp.sum(xp.var(V, axis=0))) or 1.0)
        values = [float(objective(V, ones * float(spread * unit), labels)[0]) for spread in SPREADS]
        zeros = xp.zeros((fisher.dim + 2 * k * d + k,), dtype=V.dtype, device=array_api_compat.device(V))
        return xp.concat([zeros, xp.log(ones[:1] * float(SPREADS[int(np.argmax(values))] * unit))])

    def step(self, parameters: Array, rows: Array, starts: NDArray[np.int64], y: Array) -> tuple[Array, Array]:
        """The loss, less the objective, of a batch, and its gradient; posteriors are held fixed for "fixed"."""
        xp = namespace(parameters)
        rows = xp.astype(like(parameters, rows), parameters.dtype, copy=False)
        mixture, _, _ = self.unpack(parameters)
        fisher = FisherScores(mixture, rows)
        sums = fisher.sums(rows, starts)
        roots, squared = xp.exp(parameters[: fisher.dim] / 2), xp.exp(parameters[-1:])
        V, lengths = weigh(fisher.scores(sums), roots, self.unit)
        value, by_w, by_V = objective(V, squared * xp.ones_like(roots), y)
        by_b = squared * xp.sum(by_w)
        if self.unit:  # what is along V changes its length alone
            by_V = (by_V - xp.sum(by_V * V, axis=1, keepdims=True) * V) / lengths
        by_v = xp.sum(by_V * V * lengths, axis=0) / 2
        by_scores = by_V * roots
        if self.learned == "weights":
            rest = 0 * parameters[fisher.dim : -1]
        else:
            gradients = fisher.gradient(sums, by_scores)
            if self.learned == "all":
                moved = fisher.through(rows, starts, by_scores)
                gradients = (gradients[0] + moved[0], gradients[1] + moved[1], gradients[2] + moved[2])
            rest = self._by_mixture(mixture, gradients)
        return -value, -xp.concat([by_v, rest, by_b])

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


def weigh(scores: Array, roots: Array, unit: bool) -> tuple[Array, Array]:
    """Scores (n, P) times √w, of unit length where wanted, and what they were divided by for that, (n, 1)."""
    xp, V = namespace(scores), scores * roots
    lengths = xp.sqrt(xp.sum(V * V, axis=1, keepdims=True))
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths)) if unit else xp.ones_like(lengths)
    return V / lengths, lengths
