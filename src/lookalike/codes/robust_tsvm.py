"""The robust transductive SVM: a hyperplane between two classes that also stays away from unlabelled rows.

`RobustTsvm` is the estimator. `_Problem` represents one fit (Eq. 4): the terms of its sum, its balance constraint and
its objectives. `_solve` is Algorithm 2, stochastic gradient descent; `gradient_steps` runs its steps with numba.

Cevikalp, Elmas & Ozkan, "Large-scale image retrieval using transductive support vector machines", 2017 (tsvm-hashing),
Eq. 2–8, Algorithms 1 and 2.
"""

import warnings
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from lookalike.compiler import njit
from lookalike.errors import InputError
from lookalike.limits import COST, COST_OR_ZERO, COUNT, check_number

S = -0.2
"""s in Eq. 3: labelled rows this far on the wrong side count as noise."""
START_ROWS = 1_000
"""Rows for the supervised SVM that the search starts from."""
ROUNDS = 20
"""Maximum number of rounds of Algorithm 1; the objective is flat long before."""
STEPS = (0.1, 0.01, 0.001)
"""Candidates for how far the first step may move the score of its own row; the best one in a trial pass is used."""
FLAT = 1e-3
"""A pass, or a round of Algorithm 1, that lowers the objective by less than this share is the last."""
LOSSES = ("ramp", "hinge")
BALANCES = ("labels", "scores")

Numbers: TypeAlias = NDArray[np.float64]


class RobustTsvm(ClassifierMixin, BaseEstimator):
    """Robust TSVM: min ½‖w‖² + C Σ R(yf) + C* Σ (R(f) + R(−f)), f(x) = wᵀx + b, R(t) = min(1 − s, max(0, 1 − t)).

    The second sum is over unlabelled rows: each enters twice, as +1 and as −1. A constraint holds the mean score of the
    unlabelled rows at the mean of the labels, so that they do not all end up on one side. Without unlabelled rows,
    there is no constraint. Each round of Algorithm 1 solves a convex problem by stochastic gradients.

    Labels are −1, +1, and 0 for unlabelled rows, as in the paper, whose formulas multiply by y. scikit-learn's own
    semi-supervised estimators use −1 for unlabelled rows; here it is a class. Any other two labels (0 and 1, two
    strings) are two classes without unlabelled rows.

    Parameters
    ----------
    C : weight of a labelled row, above 0. Losses are summed, not averaged: twice the rows are twice the loss.
    C_unlabelled : C*, weight of an unlabelled row, at least 0.
    loss : of labelled rows: "ramp", which ignores rows far on the wrong side, or "hinge" (Eq. 2), which does not.
    balance : "labels" holds the mean score of unlabelled rows at the mean of the labels (Eq. 4); "scores" holds it at
        the mean score of the labelled rows under the supervised SVM that the search starts from. That suits sides of
        unequal size, where a good hyperplane has larger scores on the larger side.
    passes : maximum number of passes of Algorithm 2 over all rows in a round.
    random_state : seed of the order of rows.

    Attributes
    ----------
    classes_ : (2,) labels; scores of at least 0 predict the second.
    coef_ : (d,) float64, w. intercept_ : float, b.
    level_ : the value at which the mean score of unlabelled rows is held; NaN without unlabelled rows.
    objectives_ : (rounds + 1,) the objective at the start and after each round; it never increases. It includes the
        constant: an unlabelled row costs between 1 − s = 1.2 and 2, times C*.

    Examples
    --------
    >>> X = np.array([[-3.0], [-2.0], [2.0], [3.0], [-2.5], [2.5]])
    >>> RobustTsvm().fit(X, [-1, -1, 1, 1, 0, 0]).predict([[-1.0], [1.5]])
    array([-1,  1])

    """

    classes_: NDArray[Any]
    coef_: Numbers
    intercept_: float
    level_: float
    objectives_: Numbers

    def __init__(
        self,
        C: float = 10.0,
        C_unlabelled: float = 2.0,
        loss: str = "ramp",
        balance: str = "labels",
        passes: int = 20,
        random_state: Any = 0,
    ):
        self.C = C
        self.C_unlabelled = C_unlabelled
        self.loss = loss
        self.balance = balance
        self.passes = passes
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows (n, d) and labels (n,) of two classes."""
        self._check()
        X, y = validate_data(self, X, y, dtype=(np.float32, np.float64), order="C", y_numeric=False)
        self.classes_, signs = _signs(column_or_1d(y))
        random = check_random_state(self.random_state)
        labelled = np.flatnonzero(signs)
        terms = _terms(signs, self.C, self.C_unlabelled)
        ramp = np.ones(len(terms.rows))
        ramp[: len(labelled)] = self.loss == "ramp"  # an unlabelled row is always the sum of two ramps
        w, b = _start(X[labelled], signs[labelled], self.C, random)
        level = signs[labelled] if self.balance == "labels" else X[labelled] @ w + b
        problem = _Problem(X, terms, ramp, _balance(X, signs, float(level.mean())))
        w, b = problem.project(w, b)
        objectives = [problem.objective(w, b)]
        step = None
        for _ in range(ROUNDS):
            betas = problem.betas(w, b)
            w_new, b_new, step = _solve(problem, betas, w, b, self.passes, step, random)
            after = problem.objective(w_new, b_new)
            if not after < objectives[-1]:
                break
            w, b = w_new, b_new
            objectives.append(after)
            if after > objectives[-2] * (1 - FLAT) or np.array_equal(problem.betas(w, b), betas):
                break
        self.coef_, self.intercept_, self.level_ = w, b, problem.balance.level
        self.objectives_ = np.array(objectives)
        return self

    def decision_function(self, X: Any) -> Numbers:
        """Scores f(x), (n,)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float32, np.float64), reset=False)
        scores: Numbers = X @ self.coef_ + self.intercept_
        return scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels (n,): the second class if the score is at least 0."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores >= 0).astype(np.int64)])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _check(self) -> None:
        check_number("C", self.C, *COST)
        check_number("C_unlabelled", self.C_unlabelled, *COST_OR_ZERO)
        check_number("passes", self.passes, *COUNT)
        for name, allowed in (("loss", LOSSES), ("balance", BALANCES)):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}. Got {getattr(self, name)!r}.")


def _signs(y: NDArray[Any]) -> tuple[NDArray[Any], Numbers]:
    """The two classes, and −1, +1 or 0 for each row."""
    check_classification_targets(y)
    found = np.unique(y)
    if found.dtype.kind in "iuf" and np.isin(found, (-1, 0, 1)).all() and -1 in found and 0 in found:
        if 1 not in found:
            raise InputError("y must contain both classes, -1 and +1; 0 is for unlabelled rows. Got -1 and 0.")
        return found[found != 0], y.astype(np.float64)
    if len(found) != 2:
        raise InputError(
            f"Only binary classification is supported: y must contain 2 classes (-1 and +1, with 0 for unlabelled rows,"
            f" or any other two). Got {len(found)} class{'es' * (len(found) != 1)}."
        )
    return found, np.where(y == found[1], 1.0, -1.0)


def _start(X: NDArray[Any], signs: Numbers, C: float, random: Any) -> tuple[Numbers, float]:
    """The hyperplane of a supervised linear SVM, fitted on a sample of each side if there are many rows."""
    share = min(1.0, START_ROWS / len(signs))
    sides = [np.flatnonzero(signs == side) for side in (-1, 1)]
    some = np.concatenate([random.permutation(side)[: max(50, round(share * len(side)))] for side in sides])
    svm = LinearSVC(C=C, dual=True, max_iter=200, random_state=random.randint(2**31 - 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the initial SVM need not converge
        svm.fit(X[some], signs[some])
    return svm.coef_[0].astype(np.float64), float(svm.intercept_[0])


class _Terms(NamedTuple):
    """The L + 2U terms of Eq. 6, labelled rows first."""

    rows: NDArray[np.int64]  # (N,)
    signs: Numbers  # (N,)
    weights: Numbers  # (N,) C or C*


class _Balance(NamedTuple):
    """The constraint meanᵀw + b = level; no constraint if the level is NaN."""

    mean: Numbers  # (d,) of the unlabelled rows
    products: Numbers  # (n,) of the mean with the rows
    level: float


class _Problem(NamedTuple):
    """Eq. 4."""

    X: NDArray[Any]  # (n, d)
    terms: _Terms
    ramp: Numbers  # (N,) 1 for a ramp loss, 0 for a hinge loss
    balance: _Balance

    def project(self, w: Numbers, b: float) -> tuple[Numbers, float]:
        """The nearest hyperplane that satisfies the balance constraint."""
        mean, _, level = self.balance
        if np.isnan(level):
            return w, b
        excess = (mean @ w + b - level) / (mean @ mean + 1)
        return w - excess * mean, float(b - excess)

    def margins(self, w: Numbers, b: float) -> Numbers:
        """The margin y f(x) of each term, (N,)."""
        scores = (self.X @ w.astype(self.X.dtype, copy=False)).astype(np.float64) + b  # (n,)
        return np.asarray(self.terms.signs * scores[self.terms.rows])

    def betas(self, w: Numbers, b: float) -> Numbers:
        """β of Algorithm 1, (N,): the weights of terms on the flat part of their ramp, else 0."""
        return np.asarray(self.terms.weights * self.ramp * (self.margins(w, b) < S))

    def objective(self, w: Numbers, b: float) -> float:
        """Eq. 4 (Eq. 2 for hinges), with the constant of the symmetric ramp."""
        margins = self.margins(w, b)
        losses = np.maximum(0, 1 - margins) - self.ramp * np.maximum(0, S - margins)  # R = H_1 − H_s
        return float(w @ w / 2 + self.terms.weights @ losses)

    def convex(self, w: Numbers, b: float, betas: Numbers) -> float:
        """The objective of one round: Eq. 4 with its concave part replaced by the tangent of slope β."""
        margins = self.margins(w, b)
        return float(w @ w / 2 + self.terms.weights @ np.maximum(0, 1 - margins) + betas @ margins)


def _terms(signs: Numbers, C: float, C_unlabelled: float) -> _Terms:
    """The terms of rows with signs (n,), 0 for unlabelled ones."""
    labelled, unlabelled = np.flatnonzero(signs), np.flatnonzero(signs == 0)
    rows = np.concatenate([labelled, unlabelled, unlabelled])
    both = np.concatenate([signs[labelled], np.ones(len(unlabelled)), -np.ones(len(unlabelled))])
    return _Terms(rows, both, np.where(np.arange(len(rows)) < len(labelled), float(C), float(C_unlabelled)))


def _balance(X: NDArray[Any], signs: Numbers, level: float) -> _Balance:
    """The constraint that holds the mean score of unlabelled rows at a level."""
    unlabelled = signs == 0
    if not unlabelled.any():
        return _Balance(np.zeros(X.shape[1]), np.zeros(len(X)), np.nan)
    mean = X[unlabelled].mean(axis=0, dtype=np.float64)
    return _Balance(mean, X @ mean, level)


class _Plane(NamedTuple):
    w: Numbers
    b: float
    value: float  # of the round's objective


def _solve(
    problem: _Problem, betas: Numbers, w: Numbers, b: float, passes: int, step: float | None, random: Any
) -> tuple[Numbers, float, float]:
    """Algorithm 2 from the plane (w, b): w and b of the best mean plane of a pass, and the step size."""
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


def _pass(
    problem: _Problem, betas: Numbers, w: Numbers, b: float, t: float, random: Any
) -> tuple[Numbers, float, _Plane]:
    """One pass over all terms in random order: w and b of its last plane, and the mean of its planes."""
    w, mean_w = w.copy(), np.empty_like(w)
    order = random.permutation(len(betas))
    # Plain tuples: numba's cache on disk distinguishes named tuples by their class and would compile again.
    b, mean_b = gradient_steps(problem.X, (*problem.terms, betas), order, w, b, tuple(problem.balance), t, mean_w)
    return w, b, _Plane(mean_w, mean_b, problem.convex(mean_w, mean_b, betas))


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def gradient_steps(X: Any, terms: Any, order: Any, w: Any, b: float, balance: Any, t: float, mean_w: Any) -> Any:
    """Run one step of Algorithm 2 for each term in `order`, from the plane (w, b).

    terms: row (N,), sign, weight and β of each. balance: mean (d,), its products with the rows (n,) and a level: each
    step ends with a projection onto meanᵀw + b = level, unless the level is NaN. t: step sizes are 1/t, 1/(t + 1), …
    of the gradient of the whole sum. Overwrites w with the last plane and mean_w with the mean. Returns b and its mean.

    w is represented as scale · v + along · mean, so that shrinking and projecting do not touch all d elements.
    """
    rows, signs, weights, betas = terms
    mean, products, level = balance
    N, d = len(rows), len(w)
    bound = level == level  # not NaN
    v = w.copy()
    off = mean_w  # Σ of each step's change, times the scales before it
    off[:] = 0
    scale, along, scales, alongs, biases = 1.0, 0.0, 0.0, 0.0, 0.0
    mean_v, mean_mean = 0.0, 0.0
    for j in range(d):
        mean_v += mean[j] * v[j]
        mean_mean += mean[j] * mean[j]
    for place in order:
        i, sign = rows[place], signs[place]
        dot = 0.0
        for j in range(d):
            dot += v[j] * X[i, j]
        score = scale * dot + along * products[i] + b
        slope = betas[place] - (weights[place] if sign * score <= 1 else 0.0)
        scale *= 1 - 1 / t
        along *= 1 - 1 / t
        if slope != 0:
            change = -N * sign * slope / t
            b += change
            change /= scale
            mean_v += change * products[i]
            for j in range(d):
                v[j] += change * X[i, j]
                off[j] += change * scales * X[i, j]
        if bound:  # project onto the constraint
            excess = (scale * mean_v + along * mean_mean + b - level) / (mean_mean + 1)
            along -= excess
            b -= excess
        scales += scale
        alongs += along
        biases += b
        t += 1
    for j in range(d):
        w[j] = scale * v[j] + along * mean[j]
        mean_w[j] = (scales * v[j] - off[j] + alongs * mean[j]) / len(order)
    return b, biases / len(order)
