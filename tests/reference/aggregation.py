"""Reference implementation of mixtures, Fisher vectors and VLAD: one row, one Gaussian or word at a time, float64."""

import numpy as np


def log_densities(x, weights, means, variances):
    """Return log(w_i p_i(x)) for each Gaussian i."""
    return [
        np.log(w) - 0.5 * sum(np.log(2 * np.pi * v) + (x - m) ** 2 / v)
        for w, m, v in zip(weights, means, variances, strict=True)
    ]


def log_likelihood(X, weights, means, variances):
    return np.mean([np.logaddexp.reduce(log_densities(x, weights, means, variances)) for x in X])


def fisher(X, weights, means, variances):
    """Return the gradients for means, then for standard deviations, scaled by the root of the Fisher information."""
    for_means, for_deviations = np.zeros_like(means), np.zeros_like(means)
    for x in np.asarray(X, np.float64):
        logs = log_densities(x, weights, means, variances)
        posteriors = np.exp(logs - np.logaddexp.reduce(logs))
        for i, g in enumerate(posteriors):
            deviation = np.sqrt(variances[i])
            for_means[i] += g * (x - means[i]) / deviation / np.sqrt(weights[i]) / len(X)
            for_deviations[i] += g * ((x - means[i]) ** 2 / variances[i] - 1) / np.sqrt(2 * weights[i]) / len(X)
    return np.concatenate([for_means, for_deviations]).ravel()


def vlad(X, words, rotations):
    """Return the VLAD vector: rotated and normalised per word, then signed square root and unit length."""
    sums = np.zeros(words.shape)
    for x in np.asarray(X, np.float64):
        word = np.argmin([sum((x - c) ** 2) for c in words])
        sums[word] += x - words[word]
    for word in range(len(words)):
        sums[word] = rotations[word] @ sums[word]
        if np.any(sums[word]):
            sums[word] /= np.sqrt(sum(sums[word] ** 2))
    return root_and_unit(sums.ravel())


def root_and_unit(row):
    rooted = np.sign(row) * np.sqrt(np.abs(row))
    return rooted / (np.sqrt(sum(rooted**2)) or 1)
