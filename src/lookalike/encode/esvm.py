"""The exemplar SVM, the baseline of SLEM: one linear SVM per row.

Malisiewicz, Gupta & Efros, ICCV 2011; as an encoder Zepeda & Pérez, CVPR 2015. Eq. 1 of slem with the hinge loss.
Library only: no recipe or command uses it; the benchmarks compare SLEM with it.
"""

from typing import Self

import array_api_compat
import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.svm import LinearSVC
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import check_rows, namespace, to_numpy, unit_rows
from lookalike.encode.check import check_matrix, float32_out
from lookalike.limits import COST, COUNT, check_number
from lookalike.types import Array, Vectors

BIAS_SCALE = 3.0
"""liblinear regularises ν like a weight of ω. A constant column of this length, relative to the longest row, makes that
regularisation negligible; a longer column takes many more iterations."""
TOLERANCE = 1e-2
"""Tolerance of liblinear's dual. The direction of ω, the only part that is used, converges much earlier."""


class Esvm(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Exemplar SVM: ω/‖ω‖ of the hyperplane between a row and a pool of negatives, by scikit-learn's `LinearSVC`.

    Slow: each row requires training on all negatives, which takes seconds; SLEM takes microseconds.

    Parameters
    ----------
    lam : λ of Eq. 1, above 0. In terms of SVMs, C = theta / lam for the row and 1 / (n · lam) for each negative.
    theta : θ of Eq. 1, above 0: the weight of the row relative to all negatives together. It affects the direction,
        unlike in SLEM.
    max_iterations : maximum number of iterations per row; scikit-learn warns if it is too small.
    random_state : seed of the order in which the solver visits the rows.

    Attributes
    ----------
    negatives_ : (n, d) float32, the pool.

    Examples
    --------
    >>> negatives = np.random.default_rng(0).normal(size=(500, 2)) * [3, 1]
    >>> Esvm(lam=0.1).fit(negatives).transform([[5, 5]]).round(1)
    array([[0.2, 1. ]], dtype=float32)

    """

    negatives = True  # fit expects a pool of negatives

    negatives_: Vectors

    def __init__(self, lam: float = 1e-3, theta: float = 1.0, max_iterations: int = 10_000, random_state: int = 0):
        self.lam = lam
        self.theta = theta
        self.max_iterations = max_iterations
        self.random_state = random_state

    def fit(self, X: Array, y: Array | None = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Store rows (n, d) as the pool."""
        check_number("lam", self.lam, *COST)
        check_number("theta", self.theta, *COST)
        check_number("max_iterations", self.max_iterations, *COUNT)
        X = check_matrix(self, X, reset=True)
        self.negatives_ = to_numpy(check_rows(X)).copy()
        return self

    def transform(self, X: Array) -> Array:
        """Encode rows (m, d) as float32 unit rows (m, d), one SVM each; a row equal to all negatives becomes 0."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        exemplars = to_numpy(check_rows(X))
        n, d = self.negatives_.shape
        # A shift changes only ν, and a small ν is regularised less.
        centre = self.negatives_.mean(axis=0, dtype=np.float64)  # (d,)
        rows = np.empty((n + 1, d))  # float64, as liblinear computes
        rows[1:] = self.negatives_ - centre
        labels = np.array([1] + n * [-1])  # (n + 1,)
        importance = np.array([self.theta] + n * [1 / n])  # (n + 1,)
        omega = np.empty(exemplars.shape)  # (m, d)
        for i, exemplar in enumerate(exemplars):
            rows[0] = exemplar - centre
            length = np.sqrt(np.max(np.einsum("ij,ij->i", rows, rows))) or 1.0
            machine = LinearSVC(
                C=1 / self.lam,
                loss="hinge",
                tol=TOLERANCE,
                intercept_scaling=BIAS_SCALE * length,
                max_iter=self.max_iterations,
                random_state=self.random_state,
            )
            omega[i] = machine.fit(rows, labels, sample_weight=importance).coef_[0]
        xp = namespace(X)
        return xp.asarray(unit_rows(omega).astype(np.float32), device=array_api_compat.device(X))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_in_)

    def __sklearn_tags__(self) -> Tags:
        return float32_out(super().__sklearn_tags__())
