"""Where the training of a projection starts, and what makes its steps even: both from a sample of the rows.

In: any source of rows (n, d), and their classes. Out: W (D, d), Fisher's discriminants and then the principal
directions of rows whitened within classes; the mean; what a gradient is multiplied by so that directions in which
classes spread do not drown the others: the descent is that of a W for whitened rows.
"""

from typing import Any, NamedTuple

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, like, namespace, principal
from lookalike.learn.rows import means_by_label
from lookalike.learn.sgd import Rows
from lookalike.types import Array

START_BYTES = 32 * 2**20
"""What is held of the rows to find their directions."""
LAM = 3.0
"""Added to the variances within classes, as a share of their mean, where rows are whitened. Of 0.1, 0.3, 1, 3, 10 and
none the best, or within 0.2 points of it, on validation parts of five training sets: see docs/learn.md."""
TINY = 1e-6
"""Class means that differ by less than this share of what they differ by most do not differ."""
MOST = 512
"""Directions that are whitened, at most: along the others classes spread so little that λ is most of it."""


class Start(NamedTuple):
    """W, and what belongs to it."""

    W: Array  # (D, d) float32, D ≤ dim, d, n - 1
    mean: Array  # (d,) float32
    first: float  # variance of whitened rows along the direction where it is largest
    total: float  # along all D directions together
    U: Array  # (r, d) float32: orthonormal directions in which classes spread most
    kept: Array  # (r,) float32: λ / (σ² + λ), what whitening leaves of variances along them

    def condition(self, gradient: Array) -> Array:
        """A gradient by W (D, d) times λ(Σ + λI)⁻¹, Σ the covariance within classes."""
        return gradient - ((gradient @ self.U.T) * (1 - self.kept)) @ self.U


def start(X: Rows, y: NDArray[np.int64], dim: int, random: np.random.Generator) -> Start:
    """From rows (n, d) and the numbers of their classes (n,). Variances are 1 where there is nothing to scale by.

    >>> found = start(np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([0, 1]), 5, np.random.default_rng(0))
    >>> found.W.tolist(), found.mean.tolist(), found.first
    ([[1.0, 0.0]], [1.0, 1.0], 2.0)
    """
    n, d = X.shape
    most = max(4 * dim, START_BYTES // (4 * d), 2)
    chosen: Any = np.arange(n) if n <= most else np.sort(random.choice(n, most, replace=False))
    rows = check_rows(X[chosen])
    xp = namespace(rows)
    rows = xp.astype(rows, xp.float64)
    if rows.shape[0] < 2:
        rows, chosen = xp.concat([rows, rows]), np.repeat(chosen, 2)
    present, codes = np.unique(y[chosen], return_inverse=True)
    means = means_by_label(rows, codes, len(present))  # (C, d)
    U, spread, lam = _within(rows - means[like(rows, codes)], len(present))
    kept = lam / (spread + lam)  # (r,)

    def whiten(some: Array) -> Array:
        return some - ((some @ U.T) * (1 - kept**0.5)) @ U

    mean = xp.mean(rows, axis=0)
    D = max(1, min(dim, d, n - 1, rows.shape[0] - 1))
    Z, weights = whiten(rows - mean), like(rows, np.sqrt(np.bincount(codes) / len(codes)))
    between, V = xp.linalg.svd(weights[:, None] * whiten(means - mean), full_matrices=False)[1:]  # (C,), (C, d)
    V = V[: min(D, int(xp.sum(xp.astype(between > TINY * between[0], xp.int64))))]  # Fisher's discriminants, (F, d)
    extremes = xp.argmax(xp.abs(V), axis=1)
    V = V * xp.sign(xp.take_along_axis(V, extremes[:, None], axis=1))  # the largest entry of each is positive
    along = Z @ V.T  # (n, F)
    F, rest = V.shape[0], Z - along @ V
    _, others, variances = principal(rest, max(1, D - F))
    variances = xp.concat([xp.sum(along * along, axis=0) / (along.shape[0] - 1), variances])
    W = whiten(xp.concat([V, others[: D - F]]))
    W, mean, U, kept = (
        xp.asarray(part, dtype=xp.float32, device=array_api_compat.device(rows)) for part in (W, mean, U, kept)
    )
    first, total = float(xp.max(variances)), float(xp.sum(variances[:D]))
    return Start(W, mean, first or 1.0, total or 1.0, U, kept)


def _within(off: Array, C: int) -> tuple[Array, Array, float]:
    """Directions (r, d) and variances (r,) of rows less the means of their C classes, (n, d), and λ in their units."""
    xp, (n, d) = namespace(off), off.shape
    share = (n - 1) / max(n - C, 1)  # what the means took away
    lam = LAM * share * float(xp.sum(off * off)) / (n - 1) / d
    if not lam:
        return off[:0], off[:0, 0], 1.0  # classes of one row each, or of rows all alike: as PCA
    _, U, variances = principal(off, min(n, d, MOST))
    return U, share * variances, lam
