"""Reference implementation of exemplar classifiers (slem, Eq. 1): one linear system or quadratic programme for each."""

import numpy as np
from sklearn.svm import SVC


def square_loss(x: np.ndarray, negatives: np.ndarray, lam: float, theta: float) -> tuple[np.ndarray, float]:
    """Return ω (d,) and ν where the derivative of Eq. 1 is zero, from the (d + 1) × (d + 1) normal equations."""
    n, d = negatives.shape
    rows = np.column_stack([np.vstack([x, negatives]), np.ones(n + 1)])  # (n + 1, d + 1)
    targets = np.array([1.0] + n * [-1.0])
    weights = np.array([theta] + n * [1 / n])
    ridge = lam * np.diag([1.0] * d + [0.0])
    solution = np.linalg.solve(rows.T @ (weights[:, None] * rows) + ridge, rows.T @ (weights * targets))
    return solution[:d], solution[d]


def discriminant(x: np.ndarray, negatives: np.ndarray) -> tuple[np.ndarray, float]:
    """Return ω (d,) and ν of linear discriminant analysis, Eq. 7."""
    mean = negatives.mean(axis=0)
    omega = np.linalg.solve(np.cov(negatives.T, bias=True), x - mean)
    return omega, -0.5 * (x + mean) @ omega


def hinge_loss(x: np.ndarray, negatives: np.ndarray, lam: float, theta: float) -> np.ndarray:
    """Return ω (d,) of Eq. 1 with the hinge loss and unregularised ν, by libsvm instead of liblinear."""
    n = len(negatives)
    machine = SVC(kernel="linear", C=1 / lam, tol=1e-8)
    weights = np.array([theta] + n * [1 / n])
    return machine.fit(np.vstack([x, negatives]), [1] + n * [-1], sample_weight=weights).coef_[0]
