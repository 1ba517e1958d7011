"""What a ball of the input space can hold of a query's score, whatever the kernel.

In: a query, the norm of the tree, the length of its longest row. Out: a `Bound`: scores of rows, and the least score
within a distance of a row that was scored. Crucianu et al. (fsm-tree), §3: the pruning rules, in the kernel's feature
space; here a radial kernel maps distances of the input space to those of its feature space, so one tree serves every γ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.index.centre import CentreQuery
from lookalike.index.hyperplane import HyperplaneQuery
from lookalike.index.queries import PointQuery
from lookalike.kernels import KERNELS
from lookalike.types import Query, Vectors

Numbers: TypeAlias = NDArray[np.float64]

SLACK = 1e-6
"""Scores are answered in float32: a bound gives way by more than their rounding, as a share of the numbers in it."""

DISTANCES: dict[str, Callable[[Numbers, float], Numbers]] = {
    "angular": lambda r, gamma: np.sqrt(2 * r),  # noqa: ARG005
    "angular-l2": lambda r, gamma: np.sqrt(2 * r),  # noqa: ARG005
    "gaussian": lambda r, gamma: np.sqrt(-2 * np.expm1(-gamma * r * r)),
    "laplace": lambda r, gamma: np.sqrt(-2 * np.expm1(-gamma * r)),
    "laplace-l2": lambda r, gamma: np.sqrt(-2 * np.expm1(-gamma * r)),
    "linear": lambda r, gamma: r,  # noqa: ARG005
}
"""‖φ(x) − φ(y)‖ by ‖x − y‖ = r and γ: all rise with r. Not for gaussian-l1, which is the distance of no space."""


@dataclass(frozen=True)
class Bound:
    """A query as the tree sees it: u, a distance (signed for a maximum query), and how fast it can change."""

    score: Callable[[Vectors], Numbers]
    """Rows (m, d) to their scores, (m,) float64; rounded to float32 they are the query's own."""

    spread: Callable[[Numbers], Numbers]
    """A distance in the tree's norm to the most that u can differ over it."""

    apart: Callable[[Numbers], Numbers] | None = None
    """A distance in the tree's norm to the least that two points are apart where u is a distance to a point."""

    noise: float = 0.0
    """What rounding may have done to u, at the most."""

    squared: bool = False
    """Whether scores are squares of u."""

    least: float = 0.0
    """No u is below it."""

    linear_at_0: bool = False
    """Whether u has the same density on either side of 0, near it, so that it can be read off a wider surrounding."""

    def u(self, scores: Numbers) -> Numbers:
        """Scores to u."""
        return np.sqrt(scores) if self.squared else scores

    def lower(self, u: Numbers, reach: Numbers) -> Numbers:
        """The least u that rows within `reach` of one with this u can have. (p, r) holds d(p, H) − r, §3, fsm-tree."""
        spread = self.spread(reach)
        low: Numbers = u - spread - SLACK * (np.abs(u) + spread) - self.noise
        return low

    def lower_by_parent(self, u: float, gaps: Numbers, radii: Numbers) -> Numbers:
        """The same for balls of these radii, `gaps` away from a parent of this u: the rule before d(p, H) is computed.

        One-sided for a hyperplane: two points far from each other may both lie on it. For a point there is the other
        side: what is far from the parent is far from a point near the parent.
        """
        low = self.lower(np.full(len(gaps), u), gaps + radii)
        if self.apart is not None:
            away = self.apart(np.maximum(gaps - radii, 0.0))
            np.maximum(low, away - u - SLACK * (u + away) - self.noise, out=low)
        return low


def bound_of(query: Query, norm: int, longest: float) -> Bound | None:
    """The bound of a query in a tree of this norm, no row of which is longer (L1); None where there is none."""
    if isinstance(query, PointQuery) and len(query.vectors) == 1:
        point = query.vectors[0].astype(np.float64)
        wide, narrow = _between(norm, 2, query.dim)

        def squares(X: Vectors) -> Numbers:
            differences = X - point  # (m, d)
            found: Numbers = np.einsum("ij,ij->i", differences, differences)
            return found

        return Bound(squares, lambda r: wide * r, lambda r: narrow * r, squared=True)
    if isinstance(query, HyperplaneQuery) and query.kernel != "poly":
        return _hyperplane(query, norm, longest)
    if isinstance(query, CentreQuery) and query.kernel != "poly":
        return _centre(query, norm, longest)
    return None


def _hyperplane(query: HyperplaneQuery, norm: int, longest: float) -> Bound:
    size, error, weight = _rounding(query, longest)
    missing = abs(query.a.sum()) if KERNELS[query.kernel].balanced else 0.0  # the coefficients should add up to 0
    # ‖w‖ as it may be, over ‖w‖ as it was computed: where support vectors nearly cancel, the latter is rough.
    stretch = (1 + (error * weight**2 + 3 * missing * weight) * size / query.length**2) ** 0.5
    wide, _ = _between(norm, KERNELS[query.kernel].norm or 2, query.dim)

    def score(X: Vectors) -> Numbers:
        distance = query.distance(X)
        return np.abs(distance) if query.kind == "frontier" else -distance

    def spread(r: Numbers) -> Numbers:
        change: Numbers
        if query.kernel == "gaussian-l1":  # ‖w‖ says nothing here, the slope of each support vector's kernel does
            change = weight / query.length * _gaussian_change(wide * r, query.gamma)
        else:  # |f(p) − f(q)| ≤ ‖w‖ ‖φ(p) − φ(q)‖
            change = stretch * DISTANCES[query.kernel](wide * r, query.gamma) + missing / query.length * wide * r
        return change

    noise = 2 * error * (weight * size + abs(query.b)) / query.length
    frontier = query.kind == "frontier"
    return Bound(score, spread, noise=noise, least=0.0 if frontier else -inf, linear_at_0=frontier)


def _centre(query: CentreQuery, norm: int, longest: float) -> Bound:
    size, error, weight = _rounding(query, longest)
    missing = abs(query.a.sum() - 1) if KERNELS[query.kernel].balanced else 0.0
    off = (error * (1 + weight) ** 2 + 4 * missing * (1 + weight)) * size  # by how much the squares may be
    noise = 2 * off**0.5
    wide, narrow = _between(norm, KERNELS[query.kernel].norm or 2, query.dim)
    gamma = query.gamma
    if query.kernel == "gaussian-l1":  # no triangle holds; what a square changes by, its root changes by no more than √
        return Bound(query.distance, lambda r: np.sqrt(2 * weight * _gaussian_change(wide * r, gamma)), noise=noise)
    distance = DISTANCES[query.kernel]
    return Bound(query.distance, lambda r: distance(wide * r, gamma), lambda r: distance(narrow * r, gamma), noise)


def _between(norm: int, other: int, dim: int) -> tuple[float, float]:
    """By how much the tree's norm must be multiplied to be at least, and at most, another: ‖x‖₂ ≤ ‖x‖₁ ≤ √d ‖x‖₂."""
    if norm == other:
        return 1.0, 1.0
    return (1.0, dim**-0.5) if norm == 1 else (dim**0.5, 1.0)


def _gaussian_change(r: Numbers, gamma: float) -> Numbers:
    """The most that exp(−γt²) changes while t does by r: its steepest slope is √(2γ/e)."""
    change: Numbers = np.minimum(1.0, (2 * gamma / np.e) ** 0.5 * r)
    return change


def _rounding(query: HyperplaneQuery | CentreQuery, longest: float) -> tuple[float, float, float]:
    """How large a kernel (and the sums inside it) can be, the relative error of float64 sums as long, and Σ|aᵢ|."""
    far = longest + float(np.abs(query.X.astype(np.float64)).sum(axis=1).max(initial=0.0))
    if KERNELS[query.kernel].balanced:
        size = far
    elif query.kernel == "linear":
        size = far * far
    else:
        size = 1 + (query.gamma * far * far if query.kernel == "gaussian" else 0.0)
    error = 8 * (query.dim + len(query.X) + 16) * float(np.finfo(np.float64).eps)
    return size, error, float(np.abs(query.a).sum())
