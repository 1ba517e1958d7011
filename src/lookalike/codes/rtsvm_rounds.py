"""One round of the robust transductive SVM: its terms, its constraint, what it minimises, and how.

In: rows (n, d), signs (n,), a plane (w, b). Out: a better plane. Cevikalp et al. 2017 (tsvm-hashing), Eq. 4–8,
Algorithms 1 and 2.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.codes.rtsvm_steps import steps

S = -0.2
"""s of Eq. 3: a labelled row that is this far on the wrong side counts as noise."""
STEPS = (0.1, 0.01, 0.001)
"""By so much may the first step move the score of its own row; the one that lowers the objective most is taken."""
FLAT = 1e-3
"""A pass, or a round of Algorithm 1, that lowers the objective by less than this share is the last."""

Numbers: TypeAlias = NDArray[np.float64]


class Terms(NamedTuple):
    """The L + 2U terms of Eq. 6, labelled rows first."""

    rows: NDArray[np.int64]  # (N,)
    signs: Numbers  # (N,)
    weights: Numbers  # (N,) C or C*


class Balance(NamedTuple):
    """The constraint meanᵀw + b = level; none where the level is NaN."""

    mean: Numbers  # (d,) of the unlabelled rows
    products: Numbers  # (n,) its products with the rows
    level: float


class Problem(NamedTuple):
    """Eq. 4."""

    X: NDArray[Any]  # (n, d)
    terms: Terms
    ramp: Numbers  # (N,) 1 where the loss is a ramp, 0 where it is a hinge
    balance: Balance

    def project(self, w: Numbers, b: float) -> tuple[Numbers, float]:
        """The nearest plane that holds the balance constraint."""
        mean, _, level = self.balance
        if np.isnan(level):
            return w, b
        excess = (mean @ w + b - level) / (mean @ mean + 1)
        return w - excess * mean, float(b - excess)

    def margins(self, w: Numbers, b: float) -> Numbers:
        """y f(x) of each term, (N,)."""
        scores = (self.X @ w.astype(self.X.dtype, copy=False)).astype(np.float64) + b  # (n,)
        return np.asarray(self.terms.signs * scores[self.terms.rows])

    def betas(self, w: Numbers, b: float) -> Numbers:
        """β of Algorithm 1, (N,): the weights of terms on the flat part of their ramp."""
        return np.asarray(self.terms.weights * self.ramp * (self.margins(w, b) < S))

    def objective(self, w: Numbers, b: float) -> float:
        """Eq. 4 (Eq. 2 for hinges), with the constant of the symmetric ramp."""
        margins = self.margins(w, b)
        losses = np.maximum(0, 1 - margins) - self.ramp * np.maximum(0, S - margins)  # R = H_1 − H_s
        return float(w @ w / 2 + self.terms.weights @ losses)

    def convex(self, w: Numbers, b: float, betas: Numbers) -> float:
        """What a round minimises: Eq. 4 with its concave part replaced by the tangent that β is the slope of."""
        margins = self.margins(w, b)
        return float(w @ w / 2 + self.terms.weights @ np.maximum(0, 1 - margins) + betas @ margins)


def enter(signs: Numbers, C: float, C_unlabelled: float) -> Terms:
    """The terms of rows with signs (n,), 0 for unlabelled ones."""
    labelled, unlabelled = np.flatnonzero(signs), np.flatnonzero(signs == 0)
    rows = np.concatenate([labelled, unlabelled, unlabelled])
    both = np.concatenate([signs[labelled], np.ones(len(unlabelled)), -np.ones(len(unlabelled))])
    return Terms(rows, both, np.where(np.arange(len(rows)) < len(labelled), float(C), float(C_unlabelled)))


def hold(X: NDArray[Any], signs: Numbers, level: float) -> Balance:
    """The constraint that holds the mean score of unlabelled rows at a level."""
    free = signs == 0
    if not free.any():
        return Balance(np.zeros(X.shape[1]), np.zeros(len(X)), np.nan)
    mean = X[free].mean(axis=0, dtype=np.float64)
    return Balance(mean, X @ mean, level)


def solve(
    problem: Problem, betas: Numbers, w: Numbers, b: float, passes: int, step: float | None, random: Any
) -> tuple[Numbers, float, float]:
    """Algorithm 2 from the plane (w, b): the best mean of the planes of one pass, w and b; and the size of step."""
    N = len(problem.terms.rows)
    lengths = np.einsum("ij,ij->i", problem.X, problem.X, dtype=np.float64)
    reach = float(problem.terms.weights @ (lengths[problem.terms.rows] + 1))  # a step 1 / t moves its row by this / t
    if step is None:
        trials = [(_pass(problem, betas, w, b, max(2.0, reach / size), random)[2], size) for size in STEPS]
        step = min(trials, key=lambda trial: trial[0].value)[1]
    best, t = _Plane(w, b, problem.convex(w, b, betas)), max(2.0, reach / step)
    for _ in range(passes):
        w, b, mean = _pass(problem, betas, w, b, t, random)
        t += N
        gain = best.value - mean.value
        best = min(best, mean, key=lambda plane: plane.value)
        if 0 < gain < FLAT * abs(best.value):
            break
    return best.w, best.b, step


class _Plane(NamedTuple):
    w: Numbers
    b: float
    value: float  # of what the round minimises


def _pass(
    problem: Problem, betas: Numbers, w: Numbers, b: float, t: float, random: Any
) -> tuple[Numbers, float, _Plane]:
    """The last plane of one pass over all terms, w and b, and the mean of its planes."""
    w, mean_w = w.copy(), np.empty_like(w)
    order = random.permutation(len(betas))
    # Plain tuples: numba keeps what it compiled by the types of arguments, and would look for a named one by its name.
    b, mean_b = steps(problem.X, (*problem.terms, betas), order, w, b, tuple(problem.balance), t, mean_w)
    return w, b, _Plane(mean_w, mean_b, problem.convex(mean_w, mean_b, betas))
