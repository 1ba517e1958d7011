"""The robust transductive support vector machine: a plane between two classes that also keeps clear of unlabelled rows.

In: rows (n, d), NumPy, with labels −1 and +1, and 0 for no label. Out: (n,) scores and labels. Cevikalp et al. 2017,
"Large-scale image retrieval using transductive support vector machines" (tsvm-hashing), Eq. 2–8, Algorithms 1 and 2.
"""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from lookalike.errors import InputError
from lookalike.limits import COST, COST_OR_ZERO, COUNT, check_number

START_ROWS = 1_000
"""Rows that the supervised machine is fitted on which the search starts from."""
ROUNDS = 20
"""Of Algorithm 1, at most; the objective is flat long before."""
LOSSES = ("ramp", "hinge")
BALANCES = ("labels", "scores")


class RobustTsvm(ClassifierMixin, BaseEstimator):
    """min ½‖w‖² + C Σ R(y f(x)) + C* Σ (R(f(x)) + R(−f(x))) with f(x) = wᵀx + b, R the ramp min(1 − s, max(0, 1 − t)).

    The second sum is over unlabelled rows: each enters twice, as +1 and as −1. The mean score of unlabelled rows is
    held at the mean of the labels, so that they do not all end up on one side; with no unlabelled row there is no such
    constraint. Rounds of Algorithm 1 solve a convex problem each, by stochastic gradients.

    Labels. y holds −1, +1 and, where a row has no label, 0. scikit-learn's own semi-supervised estimators write −1 for
    no label, which here is a class: as in the paper, whose formulas multiply by y. Any other two labels (0 and 1, two
    strings) are taken as two classes without unlabelled rows.

    Parameters
    ----------
    C : weight of a labelled row, above 0. The sums are sums: twice the rows are twice the loss.
    C_unlabelled : C*, weight of an unlabelled row, at least 0.
    loss : of labelled rows: "ramp", which gives up on rows far on the wrong side, or "hinge" (Eq. 2), which does not.
    balance : "labels" holds the mean score of unlabelled rows at the mean of the labels (Eq. 4); "scores" holds it at
        the mean score that the supervised machine which the search starts from gives labelled rows. That suits sides of
        unequal size, where a good plane's scores are longer on the larger side.
    passes : of Algorithm 2 over all rows in a round, at most.
    random_state : seed of the order of rows.

    Attributes
    ----------
    classes_ : (2,) labels; the second is that of scores from 0 up.
    coef_ : (d,) float64, w. intercept_ : float, b.
    level_ : what the mean score of unlabelled rows is held at; NaN where there are none.
    objectives_ : (rounds + 1,) the objective at the start and after each round; it never rises. The constant is in it:
        an unlabelled row costs between 1 − s = 1.2 and 2, times C*.

    Examples
    --------
    >>> X = np.array([[-3.0], [-2.0], [2.0], [3.0], [-2.5], [2.5]])
    >>> RobustTsvm().fit(X, [-1, -1, 1, 1, 0, 0]).predict([[-1.0], [1.5]])
    array([-1,  1])

    """

    classes_: NDArray[Any]
    coef_: NDArray[np.float64]
    intercept_: float
    level_: float
    objectives_: NDArray[np.float64]

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
        from lookalike.codes.rtsvm_rounds import FLAT, Problem, enter, hold, solve  # numba takes a second to load

        self._check()
        X, y = validate_data(self, X, y, dtype=(np.float32, np.float64), order="C", y_numeric=False)
        self.classes_, signs = _signs(column_or_1d(y))
        random = check_random_state(self.random_state)
        labelled = np.flatnonzero(signs)
        terms = enter(signs, self.C, self.C_unlabelled)
        ramp = np.ones(len(terms.rows))
        ramp[: len(labelled)] = self.loss == "ramp"  # an unlabelled row is always the sum of two ramps
        w, b = _start(X[labelled], signs[labelled], self.C, random)
        level = signs[labelled] if self.balance == "labels" else X[labelled] @ w + b
        problem = Problem(X, terms, ramp, hold(X, signs, float(level.mean())))
        w, b = problem.project(w, b)
        objectives = [problem.objective(w, b)]
        step = None
        for _ in range(ROUNDS):
            betas = problem.betas(w, b)
            w_new, b_new, step = solve(problem, betas, w, b, self.passes, step, random)
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

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores f(x), (n,)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float32, np.float64), reset=False)
        scores: NDArray[np.float64] = X @ self.coef_ + self.intercept_
        return scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels (n,): the second class from a score of 0 up."""
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


def _signs(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The two classes, and −1, +1 or 0 for each row."""
    check_classification_targets(y)
    found = np.unique(y)
    if found.dtype.kind in "iuf" and np.isin(found, (-1, 0, 1)).all() and -1 in found and 0 in found:
        if 1 not in found:
            raise InputError("y must hold both classes, -1 and +1, besides 0 for no label. Got -1 and 0.")
        return found[found != 0], y.astype(np.float64)
    if len(found) != 2:
        raise InputError(
            f"Only binary classification is supported: y must hold 2 classes (-1 and +1, with 0 for no label, or any"
            f" other two). Got {len(found)} class{'es' * (len(found) != 1)}."
        )
    return found, np.where(y == found[1], 1.0, -1.0)


def _start(X: NDArray[Any], signs: NDArray[np.float64], C: float, random: Any) -> tuple[NDArray[np.float64], float]:
    """A supervised linear machine, on a part of the rows of each side where there are many."""
    share = min(1.0, START_ROWS / len(signs))
    sides = [np.flatnonzero(signs == side) for side in (-1, 1)]
    some = np.concatenate([random.permutation(side)[: max(50, round(share * len(side)))] for side in sides])
    machine = LinearSVC(C=C, dual=True, max_iter=200, random_state=random.randint(2**31 - 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a start need not be the end
        machine.fit(X[some], signs[some])
    return machine.coef_[0].astype(np.float64), float(machine.intercept_[0])
