"""Probabilities and predictions from distances, and their calibration on held-out rows.

The probability of a class is a softmax of distances at a temperature (Mensink et al., "Large scale metric learning for
distance-based image classification on open ended data sets", 2013 (ncm), Eq. 5). Beyond a threshold, the prediction is
"none of these". `choose_temperature` (Guo et al., "On calibration of modern neural networks", ICML 2017) and
`choose_threshold` choose both on held-out rows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks

TEMPERATURES = 1e4
"""Temperatures are searched from 1 / TEMPERATURES to TEMPERATURES times the spread of the scores."""
CALIBRATION_BYTES = 2**20
"""Size of the scores processed at a time when choosing a temperature; they stay in the cache between operations."""

Scores: TypeAlias = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted class of a picture, and the runner-up; probabilities assume that it belongs to one of the classes."""

    label: str | None  # None: none of these
    probability: float  # of `nearest`
    nearest: str | None  # the nearest class, even if it is farther than the threshold; None: no class is possible
    runner_up: str | None
    runner_up_probability: float
    id: int | None = None  # of the picture, if it is a file or an item of a collection
    path: str | None = None
    labels: list[str] = field(default_factory=list)  # labels of the picture


def predict_from_distances(
    distances: NDArray[np.float64], names: Mapping[int, str], temperature: float, threshold: float
) -> list[Prediction]:
    """Return the prediction of each row from its squared distances to C classes, (m, C); infinity excludes a class.

    `names` are the classes of the columns; `temperature` and `threshold` are `OpenSet.temperature_` and `threshold_`.

    >>> predict_from_distances(np.array([[1.0, 9.0]]), {0: "cat", 1: "dog"}, temperature=1.0, threshold=4.0)[0].label
    'cat'
    """
    nearest = np.min(distances, axis=1, keepdims=True, initial=np.finfo(np.float64).max)
    chances = np.exp(-0.5 * (distances - nearest) / temperature)  # (m, C); Eq. 5
    chances /= np.maximum(chances.sum(axis=1, keepdims=True), 1.0)
    first = np.argmin(distances, axis=1)  # (m,)
    others = distances.copy()
    np.put_along_axis(others, first[:, None], np.inf, axis=1)
    second = np.argmin(others, axis=1)
    predictions = []
    for row, (one, two) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        best = names[one] if np.isfinite(distances[row, one]) else None
        runner_up = names[two] if np.isfinite(others[row, two]) else None
        predictions.append(
            Prediction(
                label=best if distances[row, one] <= threshold else None,
                probability=0.0 if best is None else float(chances[row, one]),
                nearest=best,
                runner_up=runner_up,
                runner_up_probability=0.0 if runner_up is None else float(chances[row, two]),
            )
        )
    return predictions


def choose_temperature(scores: Scores, codes: NDArray[np.int64]) -> float:
    """Return the T that maximises the likelihood of softmax(scores / T) on held-out rows: scores (n, C), classes (n,).

    The target of the true class is (n + 1) / (n + 2) instead of 1 (Platt, "Probabilistic outputs for SVMs", 1999).
    Otherwise T would go to zero if all n rows are right. Equal scores, or fewer than two classes, give 1.

    >>> choose_temperature(np.array([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0]]), np.array([0, 1, 1])) > 4
    True
    """
    from scipy.optimize import minimize_scalar

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
    parts = list(chunks(n, scores.itemsize * C, CALIBRATION_BYTES))
    buffer = np.empty_like(scores[parts[0]])

    def loss(log_t: float) -> float:
        sharpness, total = math.exp(-log_t), 0.0
        for part in parts:
            scaled = np.multiply(scores[part], sharpness, out=buffer[: part.stop - part.start])
            sums = np.exp(scaled, out=scaled).sum(axis=1)  # at least 1: the best score is 0
            total += float(np.log(sums).sum(dtype=np.float64))
        return total / n - sharpness * target

    bounds = (-np.log(TEMPERATURES), np.log(TEMPERATURES))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3})
    return spread * float(np.exp(found.x))


def choose_threshold(known: NDArray[np.float64], others: NDArray[np.float64], reject: float) -> float:
    """Return the distance beyond which a row belongs to no class; infinity: never.

    `known` (n,) are the distances of held-out rows of the classes to the nearest class, `others` (m,) those of rows of
    no class. With others, the threshold minimises the sum of both error rates; without, it rejects a share `reject` of
    the known rows.

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
    rejected = 1 - np.searchsorted(np.sort(known), at, side="right") / len(known)
    accepted = np.searchsorted(np.sort(others), at, side="right") / len(others)
    best = int(np.argmin(rejected + accepted))
    return float((at[best] + at[best + 1]) / 2) if best + 1 < len(at) else np.inf
