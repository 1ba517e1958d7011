"""Reference implementation of NCMML and NCMC: one row, one centroid, one difference at a time."""

import numpy as np


def log_likelihood(W, X, y, centroids, owners):
    """Return the mean of ln p(y|x), Eq. 9 with Eq. 22."""
    total = 0.0
    for x, label in zip(X, y, strict=True):
        halves = np.array([-0.5 * np.sum((W @ (x - m)) ** 2) for m in centroids])
        weights = np.exp(halves - halves.max())
        total += np.log(weights[owners == label].sum() / weights.sum())
    return total / len(X)


def gradient(W, X, y, centroids, owners):
    """Return the ascent gradient, Eq. 24–25 (Eq. 10 if each class has one centroid)."""
    total = np.zeros_like(W)
    for x, label in zip(X, y, strict=True):
        halves = np.array([-0.5 * np.sum((W @ (x - m)) ** 2) for m in centroids])
        p = np.exp(halves - halves.max())
        p /= p.sum()
        own = np.where(owners == label, p, 0)
        for m, alpha in zip(centroids, p - own / own.sum(), strict=True):
            z = m - x
            total += alpha * W @ np.outer(z, z)
    return total / len(X)


def inner_log_likelihood(W, s, X, y, means):
    """Return Eq. 9 with Eq. 27."""
    total = 0.0
    for x, label in zip(X, y, strict=True):
        scores = np.array([x @ W.T @ W @ m + bias for m, bias in zip(means, s, strict=True)])
        total += scores[label] - scores.max() - np.log(np.exp(scores - scores.max()).sum())
    return total / len(X)


def differences(f, x, step=1e-6):
    """Return the gradient of f at x by central differences."""
    out = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        out[at] = (f(up) - f(down)) / (2 * step)
    return out
