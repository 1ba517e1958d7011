"""SDPM: the metric of trace 1 under which rows are nearer to their like than to others by the largest margin.

In: (n, d) rows and labels, or triplets of row numbers. Out: (n, d) float32. Kim, Shen & Wang, "A scalable algorithm for
learning a Mahalanobis distance metric", ACCV 2009; Shen, Kim & Wang, "Scalable large-margin Mahalanobis distance metric
learning", IEEE Trans. Neural Networks 2010, with the squared hinge loss.
"""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, check_rows, chunks
from lookalike.errors import InputError
from lookalike.learn.labels import encode_labels
from lookalike.learn.pairs import Matrix, ascend, root
from lookalike.learn.projection import Projection
from lookalike.learn.rows import check_source
from lookalike.learn.sgd import Rows
from lookalike.limits import COUNT, NOT_NEGATIVE, POSITIVE, Limit, check_limits
from lookalike.types import Array

NEAREST = 3
"""Triplets join an anchor with its so many nearest like and its so many nearest others, as in the paper."""
LIMITS: dict[str, Limit] = {
    "triplets": COUNT,
    "cost": POSITIVE,
    "max_iterations": COUNT,
    "tolerance": NOT_NEGATIVE,
}
"""What the numbers among the parameters may be."""


class Sdpm(Projection):
    """Large margins by semidefinite programming: A ⪰ 0 of trace 1, found by projected gradients.

    For triplets of an anchor, its like and another, with margins m = ‖a − o‖²_A − ‖a − l‖²_A, maximises
    ρ − C · mean max(0, ρ − m)² over A and ρ ≥ 0. Squares of distances count in units of their mean over triplets.

    Parameters
    ----------
    triplets : how many are made of labels, nine an anchor, anchors by lot.
    cost : C: the larger, the more the worst triplets count.
    max_iterations : steps at most.
    tolerance : training ends when the objective is known to be this near the optimum, as a share of it.
    random_state : seed of the anchors.

    Attributes
    ----------
    W_ : (d, d) float32, NumPy, WᵀW = d · A, rows by falling weight; those beyond the rank of A are zero, or nearly.
    gap_ : float, at most by how much, as a share of it, the objective is below the optimum.

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
        """Learn from rows (n, d) and labels (n,); or from triplets of row numbers, (m, 3): anchor, like, other."""
        check_limits(self, LIMITS)
        X = check_source(self, X, reset=True, min_rows=2)
        rows = as_numpy(check_rows(X[:])).astype(np.float64)
        if triplets is None:
            self.classes_, codes = encode_labels(y, len(rows))
            anchors = np.random.default_rng(self.random_state).permutation(len(rows))
            triplets = nearest_triplets(rows, codes, np.sort(anchors[: -(-int(self.triplets) // NEAREST**2)]))
        anchors, like, other = _check(triplets, len(rows)).T
        near, far = rows[anchors] - rows[like], rows[anchors] - rows[other]
        unit = np.sqrt((np.mean(near**2) + np.mean(far**2)) / 2) or 1.0
        B, self.gap_ = ascend(
            lambda B: margin(B, near / unit, far / unit, self.cost), X.shape[1], self.max_iterations, self.tolerance
        )
        self.W_ = (root(B) * np.sqrt(X.shape[1])).astype(np.float32)  # distances of the size of Euclid's
        return self


def margin(B: Matrix, near: Matrix, far: Matrix, cost: float) -> tuple[float, Matrix]:
    """The largest over ρ ≥ 0 of ρ − C · mean max(0, ρ − m)², and its gradient by B; differences are (m, d)."""
    margins = np.einsum("md,md->m", far @ B, far) - np.einsum("md,md->m", near @ B, near)
    rising = np.sort(margins)
    counts = np.arange(1, len(margins) + 1)
    # With the i least margins below ρ, the mean shortfall is 1 / 2C at this ρ; the least of these is the one.
    rho = max(float(np.min((len(margins) / (2 * cost) + np.cumsum(rising)) / counts)), 0.0)
    short = np.maximum(rho - margins, 0)
    weights = (2 * cost / len(margins) * short)[:, None]
    return float(rho - cost * np.mean(short**2)), (weights * far).T @ far - (weights * near).T @ near


def nearest_triplets(X: Matrix, codes: NDArray[np.int64], anchors: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each anchor its nearest like with its nearest others, all combinations: (m, 3) row numbers.

    An anchor alone in its class has no triplet.

    >>> nearest_triplets(np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1]), np.array([0, 2])).tolist()
    [[0, 1, 2]]
    """
    squares, found = np.sum(X * X, axis=1), []
    for part in chunks(len(anchors), row_bytes=24 * len(X)):
        some = anchors[part]
        D = squares - 2 * X[some] @ X.T  # (m, n), but for the anchor's own square
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
        raise InputError("y must give some label to two rows or more. Got a label of its own for each row.")
    return triplets


def _check(triplets: Array, n: int) -> NDArray[np.int64]:
    """Triplets as row numbers that there are."""
    found = as_numpy(triplets)
    if found.ndim != 2 or found.shape[1] != 3 or found.dtype.kind not in "iu" or not len(found):
        raise InputError(f"triplets must hold row numbers, (m, 3). Got {found.dtype} of shape {found.shape}.")
    if found.min() < 0 or found.max() >= n:
        raise InputError(f"triplets must hold row numbers from 0 to {n - 1}. Got {found.min()} to {found.max()}.")
    return found
