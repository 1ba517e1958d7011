"""Reference implementation of the robust transductive SVM: sums term by term, projections of whole vectors."""

import numpy as np


def ramp(t, s=-0.2):
    """R_s(t) = min(1 − s, max(0, 1 − t))."""
    return min(1 - s, max(0.0, 1 - t))


def objective(X, y, w, b, C, C_unlabelled, loss):
    """Return Eq. 4 (ramp) or Eq. 2 (hinge); y is −1, +1, or 0 for unlabelled rows."""
    total = w @ w / 2
    for x, label in zip(X, y, strict=True):
        score = w @ x + b
        if label == 0:
            total += C_unlabelled * (ramp(score) + ramp(-score))
        else:
            total += C * (ramp(label * score) if loss == "ramp" else max(0.0, 1 - label * score))
    return total


def steps(X, terms, order, w, b, balance, t):
    """Algorithm 2: return the hyperplane (w, b) after the projection of every step."""
    rows, signs, weights, betas = terms
    mean, level = balance
    planes = []
    for place in order:
        x, y = X[rows[place]], signs[place]
        slope = y * betas[place]
        if y * (w @ x + b) <= 1:
            slope -= y * weights[place]
        w = w - (w + len(rows) * slope * x) / t
        b = b - len(rows) * slope / t
        if not np.isnan(level):
            excess = (mean @ w + b - level) / (mean @ mean + 1)
            w, b = w - excess * mean, b - excess
        planes.append((w, b))
        t += 1
    return planes
