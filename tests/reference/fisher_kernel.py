"""Slow twins of Fisher scores and soft nearest neighbours: loops and finite differences, float64."""

import numpy as np

from reference.aggregation import log_densities


def mean_log_likelihood(rows, logits, means, deviations):
    weights = np.exp(logits) / np.exp(logits).sum()
    return np.mean([np.logaddexp.reduce(log_densities(x, weights, means, deviations**2)) for x in rows])


def differences(function, x, step=1e-6):
    """The gradient of a function by x, number by number."""
    out = np.empty(x.shape)
    for place in np.ndindex(*x.shape):
        shift = np.zeros(x.shape)
        shift[place] = step
        out[place] = (function(x + shift) - function(x - shift)) / (2 * step)
    return out


def scores(rows, weights, means, deviations):
    """The gradient of an item's mean log-likelihood by means, deviations and the logits of weights."""
    logits = np.log(weights)
    return np.concatenate(
        [
            differences(lambda u: mean_log_likelihood(rows, logits, u, deviations), means).ravel(),
            differences(lambda s: mean_log_likelihood(rows, logits, means, s), deviations).ravel(),
            differences(lambda a: mean_log_likelihood(rows, a, means, deviations), logits),
        ]
    )


def objective(scores, w, labels):
    """The mean over i of Σ_j s_ij p_ij; labels are sets, one an item."""
    n, total = len(scores), 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        near = np.array([np.exp(-np.sum(w * (scores[i] - scores[j]) ** 2)) for j in others])
        like = np.array([2 / (1 + np.exp(1 - 2 * len(labels[i] & labels[j]))) - 1 for j in others])
        total += near @ like / near.sum()
    return total / n
