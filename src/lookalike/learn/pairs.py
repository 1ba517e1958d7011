"""MMC and DML-eig: metrics from pairs of rows that are alike and pairs that are not, as convex problems.

In: (n, d) rows, and labels, or pairs of row numbers. Out: (n, D) float32. Xing et al., "Distance metric learning with
application to clustering with side-information", NIPS 2002; Ying & Li, "Distance metric learning with eigenvalue
optimization", JMLR 2012. Both keep the mean square distance of alike pairs at 1 or less: in rows whitened by those
pairs, that is trace(B) ≤ 1, so that what is sought is a B ⪰ 0 of trace 1.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, check_rows
from lookalike.errors import InputError
from lookalike.learn.labels import encode_labels
from lookalike.learn.projection import Projection
from lookalike.learn.rows import check_source
from lookalike.learn.sgd import Rows
from lookalike.limits import COUNT, NOT_NEGATIVE, Limit, check_limits
from lookalike.types import Array

Matrix = NDArray[np.float64]
TINY = 1e-10
"""Below this share of the largest eigenvalue, or of the mean distance, a number is zero."""
LIMITS: dict[str, Limit] = {
    "pairs": COUNT,
    "lam": NOT_NEGATIVE,
    "max_iterations": COUNT,
    "tolerance": NOT_NEGATIVE,
}
"""What the numbers among the parameters may be."""


class Mmc(Projection):
    """Xing's metric: pairs that are not alike as far apart as can be in the mean, alike ones near.

    Maximises the mean of ‖x − x'‖_A over the one kind while that of ‖x − x'‖²_A over the other is 1, by projected
    gradients. The optimum is unique in value, and `gap_` says how far at most it is.

    Parameters
    ----------
    pairs : how many of each kind are drawn where labels are given.
    lam : added to the square differences of alike pairs, as a share of their mean: what they do not vary in.
    max_iterations : steps at most.
    tolerance : training ends when the objective is known to be this near the optimum, as a share of it.
    random_state : seed of the pairs.

    Attributes
    ----------
    W_ : (d, d) float32, NumPy, A = WᵀW, rows by falling weight; those beyond the rank of A are zero, or nearly.
    gap_ : float, at most by how much, as a share of it, the objective is below the optimum.

    Examples
    --------
    >>> X, y = np.random.default_rng(0).normal(size=(300, 3)), np.arange(300) % 2
    >>> X[:, 0] += 9 * y
    >>> A = Mmc().fit(X, y).W_
    >>> bool((A.T @ A)[0, 0] > 5 * (A.T @ A)[1, 1])
    True

    """

    gap_: float

    def __init__(
        self,
        pairs: int = 10_000,
        lam: float = 1e-2,
        max_iterations: int = 200,
        tolerance: float = 1e-3,
        random_state: int = 0,
    ):
        self.pairs = pairs
        self.lam = lam
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.random_state = random_state

    def fit(self, X: Rows, y: Array | None = None, *, alike: Array | None = None, unlike: Array | None = None) -> Self:
        """Learn from rows (n, d) and labels (n,); or from pairs of row numbers, (m, 2) each, in their place."""
        check_limits(self, LIMITS)
        X = check_source(self, X, reset=True, min_rows=2)
        if alike is None and unlike is None:
            self.classes_, codes = encode_labels(y, X.shape[0])
            alike, unlike = draw_pairs(codes, int(self.pairs), np.random.default_rng(self.random_state))
        near, far = (_differences(X, pairs, name) for pairs, name in ((alike, "alike"), (unlike, "unlike")))
        values, U = np.linalg.eigh(near.T @ near / len(near))
        mean = max(values.mean(), TINY * np.mean(far**2)) or 1.0
        whiten = U / np.sqrt(np.maximum(values, 0) + max(self.lam, TINY) * mean)  # (d, d)
        B, self.gap_ = self._solve(far @ whiten)
        self.W_ = (root(B) @ whiten.T).astype(np.float32)
        return self

    def _solve(self, far: Matrix) -> tuple[Matrix, float]:
        """The best B (d, d) for differences (m, d), and its gap: ascent on the B ⪰ 0 of trace 1."""
        return ascend(lambda B: _mean_distance(B, far), far.shape[1], self.max_iterations, self.tolerance)


class DmlEig(Mmc):
    """DML-eig: the nearest of the pairs that are not alike as far apart as can be.

    Maximises the least of ‖x − x'‖²_A over those pairs, smoothed (a soft-min of a hundredth of the mean), by
    Frank and Wolfe's steps: each adds the direction in which the pairs now nearest differ most.

    All else is as in `Mmc`, but that `tolerance` and `gap_` are shares of the mean square distance at the start.

    Examples
    --------
    >>> X, y = np.random.default_rng(0).normal(size=(300, 3)), np.arange(300) % 2
    >>> X[:, 0] += 9 * y
    >>> A = DmlEig().fit(X, y).W_
    >>> bool((A.T @ A)[0, 0] > 5 * (A.T @ A)[1, 1])
    True

    """

    def _solve(self, far: Matrix) -> tuple[Matrix, float]:
        d = far.shape[1]
        B, bound = np.eye(d) / d, np.inf
        scale = float(np.mean(far**2)) or 1.0  # the mean square distance under the first B
        best, best_value = B, -np.inf
        for t in range(self.max_iterations):
            value, gradient = _least_distance(B, far, 0.01 * scale)
            if value > best_value:
                best, best_value = B, value
            values, V = np.linalg.eigh(gradient)
            bound = min(bound, values[-1] - np.sum(gradient * B) + value)  # the objective is concave
            if bound - best_value <= self.tolerance * scale:
                break
            B = B + 2 / (t + 3) * (np.outer(V[:, -1], V[:, -1]) - B)
        return best, float((bound - best_value) / scale)


def ascend(
    function: Callable[[Matrix], tuple[float, Matrix]], d: int, max_iterations: int, tolerance: float
) -> tuple[Matrix, float]:
    """The B ⪰ 0 (d, d) of trace 1 that makes a concave function largest, and its gap, by projected gradients.

    `function(B)` gives value and gradient. The gap says how far at most the optimum is, as a share of the value. A step
    that does not gain is halved and not taken: the value never falls.
    """
    B, step, gap = np.eye(d) / d, 1.0, np.inf
    value, gradient = function(B)
    for _ in range(max_iterations):
        gap = (np.linalg.eigvalsh(gradient)[-1] - np.sum(gradient * B)) / max(abs(value), np.finfo(np.float64).tiny)
        if gap <= tolerance:
            break
        while step > TINY:
            there = _project(B + step / np.linalg.norm(gradient) * gradient)
            value_there, gradient_there = function(there)
            if value_there > value:
                break
            step /= 2
        else:
            break  # rounding: no step gains
        B, value, gradient, step = there, value_there, gradient_there, 2 * step
    return B, float(gap)


def root(B: Matrix) -> Matrix:
    """W (d, d) with WᵀW = B, rows by falling eigenvalue; the largest entry of each is positive."""
    values, V = np.linalg.eigh(B)
    W = (V * np.sqrt(np.maximum(values, 0))).T[::-1]
    return np.asarray(W * np.where(np.take_along_axis(W, np.argmax(np.abs(W), axis=1)[:, None], axis=1) < 0, -1, 1))


def draw_pairs(
    codes: NDArray[np.int64], count: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`count` pairs of rows with the same label, by lot, and as many with different ones: (count, 2) each.

    >>> alike, unlike = draw_pairs(np.array([0, 1, 0]), 2, np.random.default_rng(0))
    >>> np.sort(alike).tolist(), bool((np.sort(unlike)[:, 0] < 2).all())
    ([[0, 2], [0, 2]], True)
    """
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    starts = np.cumsum(counts) - counts
    several = np.flatnonzero(counts[codes] > 1)
    if not len(several):
        raise InputError("y must give some label to two rows or more. Got a label of its own for each row.")
    first = random.choice(several, count)
    place = np.empty(len(codes), np.int64)
    place[order] = np.arange(len(codes))
    inside = place[first] - starts[codes[first]]
    step = 1 + (random.random(count) * (counts[codes[first]] - 1)).astype(np.int64)
    second = order[starts[codes[first]] + (inside + step) % counts[codes[first]]]
    other = random.integers(len(codes), size=count)
    outside = len(codes) - counts[codes[other]]  # rows of other labels, after those of this one, in a ring
    step = counts[codes[other]] + (random.random(count) * outside).astype(np.int64)
    return np.stack([first, second], axis=1), np.stack(
        [other, order[(starts[codes[other]] + step) % len(codes)]], axis=1
    )


def _differences(X: Rows, pairs: Any, name: str) -> Matrix:
    """x − x' for pairs of row numbers, (m, d)."""
    pairs = np.asarray([] if pairs is None else as_numpy(pairs))
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(f"{name} must hold pairs of row numbers, (m, 2). Got {pairs.dtype} of shape {pairs.shape}.")
    if pairs.min() < 0 or pairs.max() >= X.shape[0]:
        raise InputError(
            f"{name} must hold row numbers from 0 to {X.shape[0] - 1}. Got {pairs.min()} to {pairs.max()}."
        )
    used, places = np.unique(pairs, return_inverse=True)
    rows = as_numpy(check_rows(X[used])).astype(np.float64)
    left, right = places.reshape(pairs.shape).T
    return np.asarray(rows[left] - rows[right])


def _mean_distance(B: Matrix, far: Matrix) -> tuple[float, Matrix]:
    """The mean of √(δᵀBδ), and its gradient by B."""
    squares = np.einsum("md,md->m", far @ B, far)
    roots = np.sqrt(np.maximum(squares, max(TINY**2 * squares.mean(), np.finfo(np.float64).tiny)))
    return float(roots.mean()), (far / (2 * len(far) * roots[:, None])).T @ far


def _least_distance(B: Matrix, far: Matrix, mu: float) -> tuple[float, Matrix]:
    """−μ log mean exp(−δᵀBδ / μ), and its gradient by B."""
    squares = np.einsum("md,md->m", far @ B, far)
    least = squares.min()
    weights = np.exp((least - squares) / mu)
    return float(least - mu * np.log(weights.mean())), (far * (weights / weights.sum())[:, None]).T @ far


def _project(M: Matrix) -> Matrix:
    """The nearest B ⪰ 0 of trace 1."""
    values, V = np.linalg.eigh(M)
    falling = values[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(values) + 1)
    shift = excess[np.flatnonzero(falling > excess)[-1]]
    return np.asarray((V * np.maximum(values - shift, 0)) @ V.T)
