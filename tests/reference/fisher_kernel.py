"""Reference implementation of Fisher scores and soft nearest neighbours: loops and finite differences, float64."""

import numpy as np

from reference.aggregation import log_densities


def mean_log_likelihood(rows, logits, means, deviations):
    weights = np.exp(logits) / np.exp(logits).sum()
    return np.mean([np.logaddexp.reduce(log_densities(x, weights, means, deviations**2)) for x in rows])


def differences(function, x, step=1e-6):
    """Return the gradient of a function with respect to x, by central differences."""
    out = np.empty(x.shape)
    for place in np.ndindex(*x.shape):
        shift = np.zeros(x.shape)
        shift[place] = step
        out[place] = (function(x + shift) - function(x - shift)) / (2 * step)
    return out


def scores(rows, weights, means, deviations):
    """Return the gradient of an item's mean log-likelihood by means, deviations and the logits of weights."""
    logits = np.log(weights)
    return np.concatenate(
        [
            differences(lambda u: mean_log_likelihood(rows, logits, u, deviations), means).ravel(),
            differences(lambda s: mean_log_likelihood(rows, logits, means, s), deviations).ravel(),
            differences(lambda a: mean_log_likelihood(rows, a, means, deviations), logits),
        ]
    )


def objective(scores, w, labels):
    """Return the mean over i of Σ_j s_ij p_ij; `labels` has one set per item."""
    n, total = len(scores), 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        near = np.array([np.exp(-np.sum(w * (scores[i] - scores[j]) ** 2)) for j in others])
        like = np.array([2 / (1 + np.exp(1 - 2 * len(labels[i] & labels[j]))) - 1 for j in others])
        total += near @ like / near.sum()
    return total / n


def free_energy_pieces(rows, weights, means, deviations):
    """Return g log N(x) per dimension, g log α and −g log g of an item for each Gaussian, averaged over rows."""
    k, d = means.shape
    densities, priors, entropies = np.zeros((k, d)), np.zeros(k), np.zeros(k)
    for x in rows:
        logs = log_densities(x, weights, means, deviations**2)
        g = np.exp(logs - np.logaddexp.reduce(logs))
        for i in range(k):
            for j in range(d):
                z = (x[j] - means[i, j]) / deviations[i, j]
                densities[i, j] += g[i] * (-0.5 * np.log(2 * np.pi) - np.log(deviations[i, j]) - 0.5 * z * z)
            priors[i] += g[i] * np.log(weights[i])
            entropies[i] -= g[i] * np.log(g[i])
    return np.concatenate([densities.ravel(), priors, entropies]) / len(rows)


def posterior_divergence(rows, items, weights, means, deviations):
    """Return the effect of an item on a mixture of `items` items in one step of incremental EM, by weighted means."""
    k, d = means.shape
    logs = np.array([log_densities(x, weights, means, deviations**2) for x in rows])
    g = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
    share = g / len(rows)  # each item has weight 1, regardless of its number of rows
    effects, fits = np.zeros((2, k, d))
    effect_weights, fit_weights, entropies = np.zeros((3, k))
    for i in range(k):
        old = items * weights[i]
        now = old + share[:, i].sum()
        alpha = now / (items + 1)
        effect_weights[i] = old * (np.log(alpha) - np.log(weights[i]))
        fit_weights[i] = share[:, i].sum() * np.log(alpha)
        entropies[i] = -np.mean(g[:, i] * np.log(g[:, i]))
        for j in range(d):
            mean = (old * means[i, j] + share[:, i] @ rows[:, j]) / now
            second = (old * (deviations[i, j] ** 2 + means[i, j] ** 2) + share[:, i] @ rows[:, j] ** 2) / now
            sigma = np.sqrt(second - mean**2)
            ratio, shift = deviations[i, j] / sigma, (means[i, j] - mean) / sigma
            effects[i, j] = -old * (ratio**2 / 2 + shift**2 / 2 - 0.5 - np.log(ratio))  # KL(old ‖ new)
            z = (rows[:, j] - mean) / sigma
            fits[i, j] = share[:, i] @ (-0.5 * np.log(2 * np.pi) - np.log(sigma) - 0.5 * z * z)
    return np.concatenate([effects.ravel(), fits.ravel(), effect_weights, fit_weights, entropies])
