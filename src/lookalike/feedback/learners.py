"""What learns from marks: a 2-class SVM, and the older 1-class SVDD.

In: marked rows X (m, d) and y (m,), +1 wanted and -1 not. Out: queries, `best()` and `unsure()`, for any index. §2 and
§4 of Crucianu et al. (fsm-tree); Tax and Duin, "Support vector domain description" (1999), for the SVDD.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC, OneClassSVM

from lookalike.arrays import check_rows, to_numpy
from lookalike.errors import InputError
from lookalike.index.queries import CentreQuery, HyperplaneQuery
from lookalike.kernels import check_kernel, typical_gamma
from lookalike.types import Vectors

Reals = NDArray[np.float64]
Signs = NDArray[np.int8]

TOLERANCE = 1e-3
"""How exactly the SVM is solved: finer changes no order that a person would notice and takes longer."""


class Svm:
    """A 2-class SVM with a bias: what is wanted lies on the positive side of a hyperplane in the kernel's space.

    Both kinds of marks weigh the same in all, however many there are of each.

    Parameters
    ----------
    kernel : a name of `lookalike.kernels.KERNELS`.
    gamma : the kernel's γ; None takes it from the rows: one over their median distance D, 2 / D² for the gaussians, one
        over their median squared length for "poly". A γ many times as large puts everything on the frontier.
    C : what a mark on the wrong side costs, for a kernel scaled so that the squared distance of two marks in its space
        is 2 in the mean (see `spread`).

    Attributes
    ----------
    gamma_ : the γ in use.
    query_ : the hyperplane.
    gram_, a_, b_ : the kernel (m, m) of the rows it was fitted on, their coefficients (m,) and the bias.
    costs_ : what each row on the wrong side costs, (m,): C by the weights and the kernel's scale.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [4.0, 0.0], [4.0, 1.0]], np.float32)
    >>> svm = Svm("angular").fit(X, np.array([1, 1, -1, -1]))
    >>> svm.best().score(X)[0].argsort(kind="stable").tolist()
    [0, 1, 2, 3]

    """

    def __init__(self, kernel: str = "gaussian", gamma: float | None = None, C: float = 10.0):
        self.kernel, self.gamma, self.C = kernel, gamma, C

    def fit(self, X: Vectors, y: Signs, weights: Reals | None = None) -> Self:
        """Learn from rows X (m, d), y (m,) of both signs; `weights` (m,) say how far to trust each mark."""
        rows, y, weights = check_marks(X, y, weights)
        if not 0 < self.C < np.inf:
            raise InputError(f"C must be a number above 0. Got {self.C}.")
        if len(set(y[weights > 0].tolist())) < 2:
            raise InputError(
                "An SVM needs marks of both kinds, +1 and -1. Use `play`, which presumes the missing ones."
            )
        self.gamma_ = gamma_of(self.kernel, rows) if self.gamma is None else self.gamma
        K = check_kernel(self.kernel, self.gamma_).pairs(rows, rows, self.gamma_)  # (m, m) float64
        self.costs_: Reals = self.C * balance(y, weights) / spread(K)  # (m,)
        a, b = solve(K, y, self.costs_)
        self.query_ = HyperplaneQuery(rows[a != 0], a[a != 0], b, kernel=self.kernel, gamma=self.gamma_)
        self.gram_: Reals = K
        self.a_, self.b_ = a, b
        return self

    def best(self) -> HyperplaneQuery:
        """The most positive first."""
        _check_fitted(self)
        return self.query_.of_kind("maximum")

    def unsure(self) -> HyperplaneQuery:
        """The nearest to the frontier first."""
        _check_fitted(self)
        return self.query_.of_kind("frontier")


class Svdd:
    """The smallest ball around what is wanted, in the kernel's space: the older baseline, which has no negatives.

    Parameters
    ----------
    kernel, gamma : as of `Svm`; the kernel must have a constant K(x, x), so "linear" and "poly" are refused.
    nu : the share of the marks that may stay outside the ball.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [9.0]], np.float32)
    >>> Svdd(gamma=0.5).fit(X, np.array([1, 1, -1])).best().score(X).argmax()
    np.int64(2)

    """

    def __init__(self, kernel: str = "gaussian", gamma: float | None = None, nu: float = 0.2):
        self.kernel, self.gamma, self.nu = kernel, gamma, nu

    def fit(self, X: Vectors, y: Signs) -> Self:
        """Learn from the rows of X (m, d) whose y is +1, at least one; the others do not count."""
        rows, y, _ = check_marks(X, y, None)
        mine = rows[y > 0]
        if not len(mine):
            raise InputError("An SVDD needs a mark +1 to begin with. Got none.")
        if not 0 < self.nu < 1:
            raise InputError(f"nu must be between 0 and 1. Got {self.nu}.")
        self.gamma_ = gamma_of(self.kernel, rows) if self.gamma is None else self.gamma
        kernel = check_kernel(self.kernel, self.gamma_)
        if kernel.norm is None:
            raise InputError(f"An SVDD needs a kernel of a distance, such as gaussian. Got {self.kernel}.")
        # With K(x, x) constant, the ball and the one-class hyperplane have the same α (Schölkopf et al., 2001).
        K = kernel.pairs(mine, mine, self.gamma_)  # (p, p) float64
        model = OneClassSVM(kernel="precomputed", nu=self.nu, tol=TOLERANCE).fit(K)
        a = model.dual_coef_[0] / model.dual_coef_[0].sum()  # (s,)
        self.query_ = CentreQuery(mine[model.support_], a, kernel=self.kernel, gamma=self.gamma_)
        radius = self.query_.score(mine[model.support_].astype(np.float32))[0]
        self.radius_ = float(np.median(radius))
        return self

    def best(self) -> CentreQuery:
        """The nearest to the ball's centre first."""
        _check_fitted(self)
        return self.query_

    def unsure(self) -> "Shell":
        """The nearest to the ball's surface first."""
        _check_fitted(self)
        return Shell(self.query_, self.radius_)


class Shell:
    """Rows by how far they lie from the surface of a ball, inside or outside."""

    def __init__(self, centre: CentreQuery, radius: float):
        self.centre, self.radius = centre, radius

    @property
    def dim(self) -> int:
        """d."""
        return self.centre.dim

    def score(self, X: Vectors) -> Vectors:
        """(m, d) to (1, m) float32."""
        apart: Vectors = np.abs(self.centre.score(X) - np.float32(self.radius))
        return apart


def check_marks(X: Any, y: Any, weights: Any) -> tuple[Reals, Signs, Reals]:
    """Marks as (m, d) float64, (m,) int8 and (m,) float64, or an InputError."""
    rows: Reals = to_numpy(check_rows(X, name="marks")).astype(np.float64)
    signs = np.asarray(y)
    if signs.shape != (len(rows),) or not np.all(np.isin(signs, (1, -1))):
        raise InputError(f"y must be +1 or -1 for each of the {len(rows)} marks.")
    trust = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)
    if trust.shape != signs.shape or not np.all((trust >= 0) & (trust < np.inf)):
        raise InputError(f"weights must be a number, at least 0, for each of the {len(rows)} marks.")
    return rows, signs.astype(np.int8), trust


def gamma_of(kernel: str, X: Reals) -> float:
    """γ from rows X (m, d): the typical one; twice that for the gaussians, as learns faster (docs/feedback.md)."""
    return (2.0 if kernel.startswith("gaussian") else 1.0) * typical_gamma(kernel, X)


def spread(K: Reals) -> float:
    """Half the mean squared feature distance of pairs of rows, K (m, m): C over it means the same for every kernel."""
    m = len(K)
    mean = float(np.trace(K) / m - (K.sum() - np.trace(K)) / (m * (m - 1))) if m > 1 else 0.0
    return mean if 1e-30 < mean < 1e30 else 1.0


def balance(y: Signs, weights: Reals) -> Reals:
    """Weights (m,) with the same sum for both signs: the lighter side is raised to the heavier one."""
    positive, negative = weights[y > 0].sum(), weights[y < 0].sum()
    heavier = max(positive, negative)
    scaled: Reals = weights * np.where(y > 0, heavier / positive, heavier / negative)
    return scaled


def solve(K: Reals, y: Signs, costs: Reals) -> tuple[Reals, float]:
    """The SVM's dual on K (m, m): coefficients aᵢ = αᵢyᵢ (m,), αᵢ ≤ costᵢ, Σaᵢ = 0, and the bias. Eq. 1, fsm-tree."""
    used = np.flatnonzero(costs > 0)  # libsvm drops the others, and then numbers its support vectors without them
    model = SVC(C=1.0, kernel="precomputed", tol=TOLERANCE, cache_size=20)
    with config_context(skip_parameter_validation=True, assume_finite=True):  # half of the time, for few marks
        model.fit(K[np.ix_(used, used)], y[used], sample_weight=costs[used])
    a = np.zeros(len(y))
    a[used[model.support_]] = model.dual_coef_[0]
    return a, float(model.intercept_[0])


def _check_fitted(learner: Svm | Svdd) -> None:
    if not hasattr(learner, "query_"):
        raise NotFittedError(f"This {type(learner).__name__} knows no marks yet. Call fit first.")
