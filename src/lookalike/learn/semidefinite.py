"""MMC, DML-eig and SDPM: metrics learned by convex optimisation over matrices B ⪰ 0 of trace 1.

MMC (Xing et al., "Distance metric learning with application to clustering with side-information", NIPS 2002) and
DML-eig (Ying & Li, "Distance metric learning with eigenvalue optimization", JMLR 2012) learn from similar (`alike`)
and dissimilar (`unlike`) pairs of rows. Both limit the mean squared distance of similar pairs to 1, which is
trace(B) ≤ 1 in rows whitened by those pairs. SDPM learns from triplets with the squared hinge loss (Kim, Shen & Wang,
"A scalable algorithm for learning a Mahalanobis distance metric", ACCV 2009; Shen, Kim & Wang, "Scalable large-margin
Mahalanobis distance metric learning", IEEE Trans. Neural Networks 2010).
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, check_rows, chunks
from lookalike.errors import InputError
from lookalike.learn.labels import encode_labels
from lookalike.learn.rows import Projection, Rows, check_source
from lookalike.limits import COUNT, NOT_NEGATIVE, POSITIVE, Limit, check_limits
from lookalike.types import Array

Matrix = NDArray[np.float64]
TINY = 1e-10
"""Numbers below this share of the largest eigenvalue, or of the mean distance, are treated as zero."""
NEAREST = 3
"""Triplets combine this many nearest rows of the anchor's class with this many nearest others, as in the paper."""
PAIR_LIMITS: dict[str, Limit] = {
    "pairs": COUNT,
    "lam": NOT_NEGATIVE,
    "max_iterations": COUNT,
    "tolerance": NOT_NEGATIVE,
}
TRIPLET_LIMITS: dict[str, Limit] = {
    "triplets": COUNT,
    "cost": POSITIVE,
    "max_iterations": COUNT,
    "tolerance": NOT_NEGATIVE,
}


class Mmc(Projection):
    """Xing's metric: maximises the mean distance of dissimilar pairs, with similar pairs at a mean square of 1.

    Maximises the mean of ‖x − x'‖_A over dissimilar pairs, by projected gradients. The optimal value is unique, and
    `gap_` bounds the distance to it.

    Parameters
    ----------
    pairs : number of similar and of dissimilar pairs that are sampled if labels are given.
    lam : added to the squared differences of similar pairs, as a share of their mean; it keeps them above zero.
    max_iterations : maximum number of steps.
    tolerance : training stops when the objective is within this share of the optimum.
    random_state : random seed of the pairs.

    Attributes
    ----------
    W_ : (d, d) float32, NumPy, A = WᵀW, rows sorted by decreasing weight; rows beyond the rank of A are about zero.
    gap_ : float, upper bound of the distance to the optimum, as a share of the objective.

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
        """Fit to rows (n, d) and labels (n,), or to similar and dissimilar pairs of row numbers, (m, 2) each."""
        check_limits(self, PAIR_LIMITS)
        X = check_source(self, X, reset=True, min_rows=2)
        if alike is None and unlike is None:
            self.classes_, codes = encode_labels(y, X.shape[0])
            alike, unlike = draw_pairs(codes, int(self.pairs), np.random.default_rng(self.random_state))
        near, far = (_differences(X, pairs, name) for pairs, name in ((alike, "alike"), (unlike, "unlike")))
        values, U = np.linalg.eigh(near.T @ near / len(near))
        mean = max(values.mean(), TINY * np.mean(far**2)) or 1.0
        whiten = U / np.sqrt(np.maximum(values, 0) + max(self.lam, TINY) * mean)  # (d, d)
        B, self.gap_ = self._solve(far @ whiten)
        self.W_ = (matrix_root(B) @ whiten.T).astype(np.float32)
        return self

    def _solve(self, far: Matrix) -> tuple[Matrix, float]:
        """Return the best B ⪰ 0 (d, d) of trace 1 for differences (m, d), and its gap."""
        return ascend(lambda B: mean_distance(B, far), far.shape[1], self.max_iterations, self.tolerance)


class DmlEig(Mmc):
    """DML-eig: the metric that maximises the distance of the closest dissimilar pair.

    Maximises the smallest ‖x − x'‖²_A over dissimilar pairs, smoothed by a soft minimum with a temperature of a
    hundredth of the mean. Each Frank-Wolfe step adds the direction in which the closest pairs differ most.

    Everything else is as in `Mmc`, except that `tolerance` and `gap_` are shares of the mean squared distance at the
    start.

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
        scale = float(np.mean(far**2)) or 1.0  # mean squared distance under the first B
        best, best_value = B, -np.inf
        for t in range(self.max_iterations):
            value, gradient = least_distance(B, far, 0.01 * scale)
            if value > best_value:
                best, best_value = B, value
            values, V = np.linalg.eigh(gradient)
            bound = min(bound, values[-1] - np.sum(gradient * B) + value)  # the objective is concave
            if bound - best_value <= self.tolerance * scale:
                break
            B = B + 2 / (t + 3) * (np.outer(V[:, -1], V[:, -1]) - B)
        return best, float((bound - best_value) / scale)


class Sdpm(Projection):
    """SDPM: the metric of trace 1 under which rows are closer to their class than to others by the largest margin.

    For triplets of an anchor a, a row l of its class and a row o of another class, with margins
    m = ‖a − o‖²_A − ‖a − l‖²_A, it maximises ρ − C · mean max(0, ρ − m)² over A ⪰ 0 and ρ ≥ 0 by projected gradients.
    Squared distances are measured in units of their mean over triplets.

    Parameters
    ----------
    triplets : number of triplets built from labels, nine for each random anchor.
    cost : C; larger values give more weight to the worst triplets.
    max_iterations : maximum number of steps.
    tolerance : training stops when the objective is within this share of the optimum.
    random_state : random seed of the anchors.

    Attributes
    ----------
    W_ : (d, d) float32, NumPy, WᵀW = d · A, rows sorted by decreasing weight; rows beyond the rank of A are about zero.
    gap_ : float, upper bound of the distance to the optimum, as a share of the objective.

    Examples
    --------
    >>> X, y = np.random.default_rng(0).normal(size=(300, 3)), np.arange(300) % 2
    >>> X[:, 0] += 9 * y
    >>> np.abs(Sdpm().fit(X, y).W_).argmax(axis=1)[0]
    np.int64(0)

    """

    gap_: float

    def __init__(
        self,
        triplets: int = 10_000,
        cost: float = 1.0,
        max_iterations: int = 200,
        tolerance: float = 1e-3,
        random_state: int = 0,
    ):
        self.triplets = triplets
        self.cost = cost
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.random_state = random_state

    def fit(self, X: Rows, y: Array | None = None, *, triplets: Array | None = None) -> Self:
        """Fit to rows (n, d) and labels (n,), or to triplets of row numbers, (m, 3): anchor, similar row, other row."""
        check_limits(self, TRIPLET_LIMITS)
        X = check_source(self, X, reset=True, min_rows=2)
        rows = as_numpy(check_rows(X[:])).astype(np.float64)
        if triplets is None:
            self.classes_, codes = encode_labels(y, len(rows))
            anchors = np.random.default_rng(self.random_state).permutation(len(rows))
            triplets = nearest_triplets(rows, codes, np.sort(anchors[: -(-int(self.triplets) // NEAREST**2)]))
        anchors, like, other = _check_triplets(triplets, len(rows)).T
        near, far = rows[anchors] - rows[like], rows[anchors] - rows[other]
        unit = np.sqrt((np.mean(near**2) + np.mean(far**2)) / 2) or 1.0
        B, self.gap_ = ascend(
            lambda B: margin(B, near / unit, far / unit, self.cost), X.shape[1], self.max_iterations, self.tolerance
        )
        self.W_ = (matrix_root(B) * np.sqrt(X.shape[1])).astype(np.float32)  # keeps distances close to Euclidean ones
        return self


def ascend(
    function: Callable[[Matrix], tuple[float, Matrix]], d: int, max_iterations: int, tolerance: float
) -> tuple[Matrix, float]:
    """Find the B ⪰ 0 (d, d) of trace 1 that maximises a concave function by projected gradients; also return its gap.

    `function(B)` returns value and gradient. The gap bounds the distance to the optimum, as a share of the value. A
    step that does not increase the value is halved, so the value never decreases.
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
            break  # rounding: no step increases the value
        B, value, gradient, step = there, value_there, gradient_there, 2 * step
    return B, float(gap)


def matrix_root(B: Matrix) -> Matrix:
    """Return W (d, d) with WᵀW = B, rows sorted by decreasing eigenvalue; the largest entry of each is positive."""
    values, V = np.linalg.eigh(B)
    W = (V * np.sqrt(np.maximum(values, 0))).T[::-1]
    return np.asarray(W * np.where(np.take_along_axis(W, np.argmax(np.abs(W), axis=1)[:, None], axis=1) < 0, -1, 1))


def draw_pairs(
    codes: NDArray[np.int64], count: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sample `count` pairs of rows with the same label and `count` pairs with different labels, (count, 2) each.

    >>> alike, unlike = draw_pairs(np.array([0, 1, 0]), 2, np.random.default_rng(0))
    >>> np.sort(alike).tolist(), bool((np.sort(unlike)[:, 0] < 2).all())
    ([[0, 2], [0, 2]], True)
    """
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    starts = np.cumsum(counts) - counts
    several = np.flatnonzero(counts[codes] > 1)
    if not len(several):
        raise InputError("y must contain a label with at least 2 rows. Got a different label for each row.")
    first = random.choice(several, count)
    place = np.empty(len(codes), np.int64)
    place[order] = np.arange(len(codes))
    inside = place[first] - starts[codes[first]]
    step = 1 + (random.random(count) * (counts[codes[first]] - 1)).astype(np.int64)
    second = order[starts[codes[first]] + (inside + step) % counts[codes[first]]]
    other = random.integers(len(codes), size=count)
    outside = len(codes) - counts[codes[other]]  # rows of other labels follow those of this one, cyclically
    step = counts[codes[other]] + (random.random(count) * outside).astype(np.int64)
    return np.stack([first, second], axis=1), np.stack(
        [other, order[(starts[codes[other]] + step) % len(codes)]], axis=1
    )


def mean_distance(B: Matrix, far: Matrix) -> tuple[float, Matrix]:
    """Return the mean of √(δᵀBδ) and its gradient with respect to B."""
    squares = np.einsum("md,md->m", far @ B, far)
    roots = np.sqrt(np.maximum(squares, max(TINY**2 * squares.mean(), np.finfo(np.float64).tiny)))
    return float(roots.mean()), (far / (2 * len(far) * roots[:, None])).T @ far


def least_distance(B: Matrix, far: Matrix, mu: float) -> tuple[float, Matrix]:
    """Return −μ log mean exp(−δᵀBδ / μ) and its gradient with respect to B."""
    squares = np.einsum("md,md->m", far @ B, far)
    least = squares.min()
    weights = np.exp((least - squares) / mu)
    return float(least - mu * np.log(weights.mean())), (far * (weights / weights.sum())[:, None]).T @ far


def margin(B: Matrix, near: Matrix, far: Matrix, cost: float) -> tuple[float, Matrix]:
    """Return the maximum over ρ ≥ 0 of ρ − C · mean max(0, ρ − m)², and its gradient w.r.t. B. Differences: (m, d)."""
    margins = np.einsum("md,md->m", far @ B, far) - np.einsum("md,md->m", near @ B, near)
    rising = np.sort(margins)
    counts = np.arange(1, len(margins) + 1)
    # With the i smallest margins below ρ, the mean shortfall is 1 / 2C at this ρ; the smallest such ρ is the solution.
    rho = max(float(np.min((len(margins) / (2 * cost) + np.cumsum(rising)) / counts)), 0.0)
    short = np.maximum(rho - margins, 0)
    weights = (2 * cost / len(margins) * short)[:, None]
    return float(rho - cost * np.mean(short**2)), (weights * far).T @ far - (weights * near).T @ near


def nearest_triplets(X: Matrix, codes: NDArray[np.int64], anchors: NDArray[np.int64]) -> NDArray[np.int64]:
    """Combine the nearest rows of each anchor's class with its nearest other rows: (m, 3) row numbers.

    An anchor that is the only row of its class has no triplet.

    >>> nearest_triplets(np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1]), np.array([0, 2])).tolist()
    [[0, 1, 2]]
    """
    squares, found = np.sum(X * X, axis=1), []
    for part in chunks(len(anchors), row_bytes=24 * len(X)):
        some = anchors[part]
        D = squares - 2 * X[some] @ X.T  # (m, n), up to a constant per anchor
        same = codes[some][:, None] == codes
        itself = some[:, None] == np.arange(len(X))
        for i, anchor in enumerate(some):
            like, other = (
                np.flatnonzero(mask)[np.argsort(D[i][mask], kind="stable")[:NEAREST]]
                for mask in (same[i] & ~itself[i], ~same[i])
            )
            found.append(np.stack(np.meshgrid([anchor], like, other, indexing="ij"), axis=-1).reshape(-1, 3))
    triplets = np.concatenate(found)
    if not len(triplets):
        raise InputError("y must contain a label with at least 2 rows. Got a different label for each row.")
    return triplets


def _differences(X: Rows, pairs: Any, name: str) -> Matrix:
    """Return x − x' for pairs of row numbers, (m, d)."""
    pairs = np.asarray([] if pairs is None else as_numpy(pairs))
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(f"{name} must contain pairs of row numbers, (m, 2). Got {pairs.dtype} of shape {pairs.shape}.")
    if pairs.min() < 0 or pairs.max() >= X.shape[0]:
        raise InputError(
            f"{name} must contain row numbers from 0 to {X.shape[0] - 1}. Got {pairs.min()} to {pairs.max()}."
        )
    used, places = np.unique(pairs, return_inverse=True)
    rows = as_numpy(check_rows(X[used])).astype(np.float64)
    left, right = places.reshape(pairs.shape).T
    return np.asarray(rows[left] - rows[right])


def _project(M: Matrix) -> Matrix:
    """Project onto the matrices B ⪰ 0 of trace 1."""
    values, V = np.linalg.eigh(M)
    falling = values[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(values) + 1)
    shift = excess[np.flatnonzero(falling > excess)[-1]]
    return np.asarray((V * np.maximum(values - shift, 0)) @ V.T)


def _check_triplets(triplets: Array, n: int) -> NDArray[np.int64]:
    """Return triplets as a NumPy array after checking that they are valid row numbers."""
    found = as_numpy(triplets)
    if found.ndim != 2 or found.shape[1] != 3 or found.dtype.kind not in "iu" or not len(found):
        raise InputError(f"triplets must contain row numbers, (m, 3). Got {found.dtype} of shape {found.shape}.")
    if found.min() < 0 or found.max() >= n:
        raise InputError(f"triplets must contain row numbers from 0 to {n - 1}. Got {found.min()} to {found.max()}.")
    return found
