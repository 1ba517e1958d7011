"""Learners: models that are fitted on marked rows and return the queries of a feedback round.

`Svm` is the default, §2 and §4 of Crucianu et al. (fsm-tree). With few marks an SVM can be worse than plain search by
example, so `Svm` ranks by a hyperplane between the two; cross-validation on the marks chooses its weight. `Svdd` is the
older 1-class baseline of Tax and Duin, "Support vector domain description" (1999). Both are also scikit-learn
estimators: a classifier of two classes and an outlier detector.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC, OneClassSVM
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from lookalike.arrays import check_rows, to_numpy
from lookalike.encode.check import check_matrix
from lookalike.errors import InputError
from lookalike.index.queries import CentreQuery, HyperplaneQuery
from lookalike.kernels import KERNELS, check_kernel, typical_gamma
from lookalike.types import Query, Vectors

Reals = NDArray[np.float64]
Signs = NDArray[np.int8]
Hyperplane = tuple[Reals, float]
"""Coefficients (m,) of marked rows, and the bias."""

TOLERANCE = 1e-3
"""Tolerance of the SVM solver. A smaller one takes longer and does not change the ranking noticeably."""
BLENDS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Candidate weights of the SVM in the ranking."""
FOLDS = 5
DEFAULT_BLENDS = ((2, 0.5), (3, 0.75), (5, 1.0))
"""(marks, weight): default weight of the SVM with at least this many marks of the rarer sign. Held-out marks can
override it. It is 0 with one positive mark: the negative marks are excluded from the ranking anyway, so that a round
without a match never makes it worse."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The query that ranks the collection in a round."""

    query: Query
    blend: float = 1.0  # weight of the learner in the ranking; 1 - blend is that of similarity to the examples
    held_out: Reals | None = None  # (m,) scores of the marks by models fitted without them; NaN if not held out


@runtime_checkable
class Learner(Protocol):
    """A model that is fitted on marked rows and returns queries for any index."""

    kernel: str
    """The kernel that defines the similarity of rows; a name in `lookalike.kernels.KERNELS`."""
    gamma_: float
    """The kernel's γ after `fit`."""

    def fit(self, X: Vectors, y: Signs, weights: Reals | None = None) -> Self:
        """Learn from marked rows X (m, d), y (m,) +1 positive or -1 negative, with `weights` (m,)."""
        ...

    def best(self) -> Query:
        """Query for the rows with the highest scores."""
        ...

    def unsure(self) -> Query:
        """Query for the most ambiguous rows."""
        ...

    def ranking(self) -> Ranking:
        """Query that ranks the collection."""
        ...


class Svm(ClassifierMixin, BaseEstimator):
    """A 2-class SVM with a bias: a hyperplane in the kernel's space separates positive from negative rows.

    Positive and negative marks have the same total weight, regardless of their numbers.

    Parameters
    ----------
    kernel : a name in `lookalike.kernels.KERNELS`.
    gamma : the kernel's γ. None computes it from the rows: 1 / D with their median distance D, 2 / D² for the
        Gaussian kernels, one over the median squared length for "poly". With a much larger γ, every row is ambiguous.
    C : cost of a mark on the wrong side, for a kernel scaled to a mean squared distance of 2 between marks.

    Attributes
    ----------
    classes_ : (2,) the labels, sorted; the second is positive.
    gamma_ : the γ in use.
    query_ : the hyperplane.
    X_, y_, weights_ : the marks, (m, d) float64, (m,) and (m,).
    gram_, a_, b_ : the kernel (m, m) of the marks, their coefficients (m,) and the bias.
    costs_ : cost of each mark on the wrong side, (m,): C times its weight and the kernel's scale.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [4.0, 0.0], [4.0, 1.0]], np.float32)
    >>> svm = Svm("angular").fit(X, np.array([1, 1, -1, -1]))
    >>> svm.best().score(X)[0].argsort(kind="stable").tolist()
    [0, 1, 2, 3]
    >>> svm.predict(X).tolist()
    [1, 1, -1, -1]

    """

    classes_: NDArray[Any]
    gamma_: float

    def __init__(self, kernel: str = "gaussian", gamma: float | None = None, C: float = 10.0):
        self.kernel, self.gamma, self.C = kernel, gamma, C

    def fit(self, X: Vectors, y: Signs, weights: Reals | None = None) -> Self:
        """Learn from marked rows X (m, d), y (m,) of both signs, or of any two classes, with `weights` (m,)."""
        X = check_matrix(self, X, reset=True)
        signs, classes = _to_signs(y)
        rows, y, weights = _check_marks(X, signs, weights)
        if not 0 < self.C < np.inf:
            raise InputError(f"C must be a number above 0. Got {self.C}.")
        if len(set(y[weights > 0].tolist())) < 2:
            raise InputError(
                "An SVM needs marks of both signs, +1 and -1. Got one class. Use `run_round`, which adds assumed marks."
            )
        self.gamma_ = gamma_of(self.kernel, rows) if self.gamma is None else self.gamma
        K = check_kernel(self.kernel, self.gamma_).pairs(rows, rows, self.gamma_)  # (m, m) float64
        self.costs_: Reals = self.C * balance(y, weights) / _scale(K)  # (m,)
        a, b = solve(K, y, self.costs_)
        self.query_ = HyperplaneQuery(rows[a != 0], a[a != 0], b, kernel=self.kernel, gamma=self.gamma_)
        self.X_, self.y_, self.weights_ = rows, y, weights
        self.gram_: Reals = K
        self.a_, self.b_ = a, b
        self.classes_ = classes
        return self

    def decision_function(self, X: Vectors) -> Reals:
        """Return the signed distances (n,) of rows X (n, d) from the hyperplane, above 0 for the positive class."""
        _check_fitted(self)
        distances: Reals = self.query_.distance(_check_new(self, X))
        return distances

    def predict(self, X: Vectors) -> NDArray[Any]:
        """Return the class of each of the rows X (n, d)."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(np.intp)])

    def best(self) -> HyperplaneQuery:
        """Query for the most positive rows."""
        _check_fitted(self)
        return self.query_.of_kind("maximum")

    def unsure(self) -> HyperplaneQuery:
        """Query for the rows nearest to the hyperplane."""
        _check_fitted(self)
        return self.query_.of_kind("frontier")

    def ranking(self) -> Ranking:
        """A hyperplane between similarity to the positive examples (blend 0) and the SVM (blend 1).

        Cross-validation chooses the blend.
        """
        _check_fitted(self)
        K, y = self.gram_, self.y_  # (m, m)
        real = self.weights_ >= 1  # assumed marks are used for learning, but not held out
        scores = np.full((len(BLENDS), len(y)), np.nan)
        shares: list[Reals] = []
        for out in split_folds(y, real):
            kept = np.setdiff1d(np.arange(len(y)), out)
            if len(set(y[kept].tolist())) < 2:
                continue
            inner = K[np.ix_(kept, kept)]
            example = _by_example(inner, y[kept], self.kernel)
            learned = _unit(inner, *solve(inner, y[kept], self.costs_[kept]))
            for i, blend in enumerate(BLENDS):
                a, b = _between(inner, example, learned, blend)
                scores[i, out] = K[np.ix_(out, kept)] @ a + b
            shares.append(np.array([ordered_pairs(row[out], y[out]) for row in scores]))
        blend = _choose_blend(np.array(shares), y[real])
        a, b = _between(K, _by_example(K, y, self.kernel), _unit(K, self.a_, self.b_), blend)
        used = a != 0
        query = HyperplaneQuery(self.X_[used], a[used], b, kernel=self.kernel, gamma=self.gamma_, kind="maximum")
        return Ranking(query, blend, scores[BLENDS.index(blend)])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class Svdd(OutlierMixin, BaseEstimator):
    """The smallest ball around the positive marks in the kernel's space: the older baseline, which ignores negatives.

    Parameters
    ----------
    kernel, gamma : as in `Svm`; the kernel must have a constant K(x, x), which excludes "linear" and "poly".
    nu : share of the marks that can lie outside the ball.

    Attributes
    ----------
    gamma_ : the γ in use.
    query_ : the ball's centre.
    radius_ : the ball's radius. offset_ : its negative, as in scikit-learn's outlier detectors.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [9.0]], np.float32)
    >>> Svdd(gamma=0.5).fit(X, np.array([1, 1, -1])).best().score(X).argmax()
    np.int64(2)

    """

    gamma_: float
    radius_: float

    def __init__(self, kernel: str = "gaussian", gamma: float | None = None, nu: float = 0.2):
        self.kernel, self.gamma, self.nu = kernel, gamma, nu

    def fit(self, X: Vectors, y: Signs | None = None, weights: Reals | None = None) -> Self:  # noqa: ARG002 — as a `Learner`
        """Learn from the rows of X (m, d) whose y is not -1, at least one; ignores other rows and the weights."""
        X = check_matrix(self, X, reset=True)
        outside = np.zeros(len(X), np.bool_) if y is None else np.asarray(y) == -1
        rows, signs, _ = _check_marks(X, np.where(outside, -1, 1), None)
        positive = rows[signs > 0]
        if not len(positive):
            raise InputError("An SVDD needs at least one positive mark, +1. Got none.")
        if not 0 < self.nu < 1:
            raise InputError(f"nu must be above 0 and below 1. Got {self.nu}.")
        self.gamma_ = gamma_of(self.kernel, rows) if self.gamma is None else self.gamma
        kernel = check_kernel(self.kernel, self.gamma_)
        if kernel.norm is None:
            raise InputError(f"An SVDD needs a distance-based kernel, such as 'gaussian'. Got {self.kernel!r}.")
        # With K(x, x) constant, the ball and the one-class hyperplane have the same α (Schölkopf et al., 2001).
        K = kernel.pairs(positive, positive, self.gamma_)  # (p, p) float64
        model = OneClassSVM(kernel="precomputed", nu=self.nu, tol=TOLERANCE).fit(K)
        a = model.dual_coef_[0] / model.dual_coef_[0].sum()  # (s,)
        self.query_ = CentreQuery(positive[model.support_], a, kernel=self.kernel, gamma=self.gamma_)
        radius = self.query_.score(positive[model.support_].astype(np.float32))[0]
        self.radius_ = float(np.median(radius))
        return self

    @property
    def offset_(self) -> float:
        """The negative radius, as in scikit-learn's outlier detectors."""
        return -self.radius_

    def score_samples(self, X: Vectors) -> Reals:
        """Return the negative distances (n,) of rows X (n, d) from the ball's centre."""
        _check_fitted(self)
        scores: Reals = -self.query_.distance(_check_new(self, X))
        return scores

    def decision_function(self, X: Vectors) -> Reals:
        """Return how far inside the ball rows X (n, d) are, (n,); below 0 outside."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Vectors) -> NDArray[np.int64]:
        """Return 1 for rows X (n, d) inside the ball and -1 for rows outside, (n,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def best(self) -> CentreQuery:
        """Query for the rows nearest to the ball's centre."""
        _check_fitted(self)
        return self.query_

    def unsure(self) -> "SurfaceQuery":
        """Query for the rows nearest to the ball's surface."""
        _check_fitted(self)
        return SurfaceQuery(self.query_, self.radius_)

    def ranking(self) -> Ranking:
        """Query for the rows nearest to the ball's centre."""
        return Ranking(self.best())


class SurfaceQuery:
    """Rows by their distance from the surface of a ball, inside or outside."""

    def __init__(self, centre: CentreQuery, radius: float):
        self.centre, self.radius = centre, radius

    @property
    def dim(self) -> int:
        """Dimension d of the rows."""
        return self.centre.dim

    def score(self, X: Vectors) -> Vectors:
        """Return the scores (1, m) float32 of rows X (m, d)."""
        scores: Vectors = np.abs(self.centre.score(X) - np.float32(self.radius))
        return scores


def gamma_of(kernel: str, X: Reals) -> float:
    """γ for rows X (m, d): the typical one; twice that for the Gaussian kernels, which then learn faster."""
    return (2.0 if kernel.startswith("gaussian") else 1.0) * typical_gamma(kernel, X)


def balance(y: Signs, weights: Reals) -> Reals:
    """Scale weights (m,) so that both signs have the same sum, the larger of the two."""
    positive, negative = weights[y > 0].sum(), weights[y < 0].sum()
    larger = max(positive, negative)
    scaled: Reals = weights * np.where(y > 0, larger / positive, larger / negative)
    return scaled


def solve(K: Reals, y: Signs, costs: Reals) -> Hyperplane:
    """Solve the SVM's dual on K (m, m): coefficients aᵢ = αᵢyᵢ (m,), αᵢ ≤ costᵢ, Σaᵢ = 0; bias. Eq. 1, fsm-tree."""
    used = np.flatnonzero(costs > 0)  # libsvm drops the others and does not count them in `support_`
    model = SVC(C=1.0, kernel="precomputed", tol=TOLERANCE, cache_size=20)
    with config_context(skip_parameter_validation=True, assume_finite=True):  # halves the time for few marks
        model.fit(K[np.ix_(used, used)], y[used], sample_weight=costs[used])
    a = np.zeros(len(y))
    a[used[model.support_]] = model.dual_coef_[0]
    return a, float(model.intercept_[0])


def split_folds(y: Signs, real: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Folds for cross-validation: each real mark is in one fold; each sign is spread evenly."""
    fold = np.full(len(y), -1)
    for sign in (1, -1):
        mine = np.flatnonzero((y == sign) & real)
        fold[mine] = np.arange(len(mine)) % FOLDS
    return [np.flatnonzero(fold == i) for i in range(FOLDS) if np.any(fold == i)]


def ordered_pairs(scores: Reals, y: Signs) -> float:
    """The share of correctly ordered pairs, one of each sign; ties count half, NaN if there is no pair.

    >>> ordered_pairs(np.array([3.0, 1.0, 2.0]), np.array([1, 1, -1]))
    0.5
    """
    positive, negative = scores[y > 0], scores[y < 0]
    if not len(positive) or not len(negative):
        return float("nan")
    return float(np.mean((np.sign(positive[:, None] - negative) + 1) / 2))


def _to_signs(y: Any) -> tuple[Any, NDArray[Any]]:
    """Turn two classes (m,) into -1 and +1; also return the classes. Signs and invalid marks do not change."""
    if y is None:
        raise InputError("An Svm requires y to be passed, but the target y is None.")
    marks = np.asarray(y)
    if marks.dtype.kind in "iu" and np.isin(marks, (1, -1)).all():  # the fast path of a feedback round
        return marks, np.array([-1, 1])
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError("y must be finite. Got NaN or infinity.")
    check_classification_targets(labels)
    classes = np.unique(labels)
    if len(classes) > 2:
        raise InputError(
            "Only binary classification is supported. The type of the target is"
            f" {type_of_target(labels)}, with {len(classes)} classes."
        )
    return (np.where(labels == classes[1], 1, -1) if len(classes) == 2 else marks), classes


def _check_new(learner: "Svm | Svdd", X: Any) -> Vectors:
    """Check rows (n, d) to be scored by a fitted learner."""
    return to_numpy(check_rows(check_matrix(learner, X, reset=False)))


def _check_marks(X: Any, y: Any, weights: Any) -> tuple[Reals, Signs, Reals]:
    """Check marks; return (m, d) float64, (m,) int8 and (m,) float64."""
    rows: Reals = to_numpy(check_rows(X, name="marks")).astype(np.float64)
    signs = np.asarray(y)
    if signs.shape != (len(rows),) or not np.all(np.isin(signs, (1, -1))):
        raise InputError(f"y must contain +1 or -1 for each of the {len(rows)} marks. Got {signs.tolist()!r:.80}.")
    trust = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)
    if trust.shape != signs.shape or not np.all((trust >= 0) & (trust < np.inf)):
        raise InputError(
            f"weights must contain a finite number of at least 0 for each of the {len(rows)} marks. Got"
            f" {trust.tolist()!r:.80}."
        )
    return rows, signs.astype(np.int8), trust


def _scale(K: Reals) -> float:
    """Half the mean squared feature distance of pairs in K (m, m); C / scale is comparable between kernels."""
    m = len(K)
    mean = float(np.trace(K) / m - (K.sum() - np.trace(K)) / (m * (m - 1))) if m > 1 else 0.0
    return mean if 1e-30 < mean < 1e30 else 1.0


def _choose_blend(shares: Reals, y: Signs) -> float:
    """The default blend, or one that ranks held-out marks significantly better; shares (folds, blends)."""
    if not np.any(y > 0):
        return 1.0  # without a positive example there is no similarity to blend with
    fewer = min(np.count_nonzero(y > 0), np.count_nonzero(y < 0))
    default = BLENDS.index(max((blend for enough, blend in DEFAULT_BLENDS if fewer >= enough), default=0.0))
    complete: Reals = shares[~np.isnan(shares).any(axis=1)] if len(shares) else shares
    if len(complete) < 2:
        return BLENDS[default]
    gain = complete - complete[:, default : default + 1]  # (folds, blends)
    merit = gain.mean(axis=0) - gain.std(axis=0, ddof=1) / len(gain) ** 0.5  # (blends,), 0 for the default
    return BLENDS[int(np.argmax(merit))] if merit.max() > 0 else BLENDS[default]


def _by_example(K: Reals, y: Signs, kernel: str) -> Hyperplane:
    """The mean of the positive marks as a hyperplane, ‖w‖ = 1: similarity to the examples.

    With one positive mark, it ranks rows by their distance to that mark. For the angular kernels, whose coefficients
    must sum to 0, it subtracts the mean of the negative marks.
    """
    away = 1 / np.count_nonzero(y < 0) if KERNELS[kernel].balanced else 0.0
    a = np.where(y > 0, 1 / np.count_nonzero(y > 0), -away)  # (m,)
    f = K @ a
    return _unit(K, a, -float(f[y > 0].mean() + f[y < 0].mean()) / 2)


def _unit(K: Reals, a: Reals, b: float) -> Hyperplane:
    length = max(float(a @ K @ a), 1e-30) ** 0.5
    return a / length, b / length


def _between(K: Reals, example: Hyperplane, learned: Hyperplane, blend: float) -> Hyperplane:
    """The hyperplane between two, with ‖w‖ = 1 so that distances of held-out marks and other rows are comparable."""
    (a, b), (c, d) = example, learned
    return _unit(K, (1 - blend) * a + blend * c, (1 - blend) * b + blend * d)


def _check_fitted(learner: Svm | Svdd) -> None:
    if not hasattr(learner, "query_"):
        raise NotFittedError(f"This {type(learner).__name__} is not fitted yet. Call fit with marks first.")
