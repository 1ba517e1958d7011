"""How sure to be, and when to say "none of these": a temperature and a threshold from held-out rows.

In: scores or distances of rows that no class was made of. Out: one number. Temperature after Guo et al., "On
calibration of modern neural networks", ICML 2017; smoothed targets after Platt, "Probabilistic outputs for SVMs", 1999.
"""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from lookalike.arrays import chunks

RANGE = 1e4
"""Temperatures are looked for from 1 / RANGE to RANGE times the spread of the scores."""
AT_ONCE = 2**20
"""Bytes of scores that are worked on at a time: they stay in a cache from one operation to the next."""

Scores: TypeAlias = NDArray[np.float32] | NDArray[np.float64]


def choose_temperature(scores: Scores, codes: NDArray[np.int64]) -> float:
    """The T that makes softmax(scores / T) likeliest for held-out rows: scores (n, C), codes (n,) the true classes.

    The truth is taken as (n + 1) / (n + 2) sure: where all n rows are right, T would else go to zero. Scores that do
    not differ, or of fewer than two classes, say nothing: 1.

    >>> choose_temperature(np.array([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0]]), np.array([0, 1, 1])) > 4
    True
    """
    n, C = len(scores), int(scores.shape[1])
    if not n or C < 2:
        return 1.0
    scores = scores - scores.max(axis=1, keepdims=True)
    totals = scores.sum(axis=1, dtype=np.float64)
    spread = float(-totals.mean()) / C
    if not spread > 0:
        return 1.0
    scores /= spread
    right = scores[np.arange(n), codes].astype(np.float64)
    wrong = (totals / spread - right) / (C - 1)
    target = float(np.mean((n + 1) * right + wrong)) / (n + 2)
    parts = list(chunks(n, scores.itemsize * C, AT_ONCE))
    held = np.empty_like(scores[parts[0]])

    def loss(log_t: float) -> float:
        sharp, total = math.exp(-log_t), 0.0
        for part in parts:
            some = np.multiply(scores[part], sharp, out=held[: part.stop - part.start])
            sums = np.exp(some, out=some).sum(axis=1)  # at least 1: the best score is 0
            total += float(np.log(sums).sum(dtype=np.float64))
        return total / n - sharp * target

    found = minimize_scalar(loss, bounds=(-np.log(RANGE), np.log(RANGE)), method="bounded", options={"xatol": 1e-3})
    return spread * float(np.exp(found.x))


def choose_threshold(known: NDArray[np.float64], others: NDArray[np.float64], reject: float) -> float:
    """The distance beyond which nothing is of any class; infinity: never.

    `known` (n,) are distances of held-out rows of the classes to the nearest, `others` (m,) those of rows of none. With
    others, the threshold with the fewest mistakes, both kinds counted in shares; without, the one that refuses
    a share `reject` of the known.

    >>> choose_threshold(np.arange(11.0), np.empty(0), 0.1)
    9.0
    >>> choose_threshold(np.array([1.0, 2.0, 3.0, 9.0]), np.array([8.0, 10.0, 12.0]), 0.0)
    5.5
    """
    if not len(known):
        return np.inf
    if not len(others):
        return float(np.quantile(known, 1 - reject)) if reject else np.inf
    at = np.unique(np.concatenate([known, others]))
    at = np.concatenate([at, [np.inf]])
    refused = 1 - np.searchsorted(np.sort(known), at, side="right") / len(known)
    taken = np.searchsorted(np.sort(others), at, side="right") / len(others)
    best = int(np.argmin(refused + taken))
    return float((at[best] + at[best + 1]) / 2) if best + 1 < len(at) else np.inf
