"""Probabilities and predictions from distances, and their calibration on held-out rows.

The probability of a class, given that the image belongs to one of them, is a softmax of distances at a temperature
(Mensink et al., "Large scale metric learning for distance-based image classification on open ended data sets", 2013
(ncm), Eq. 5). The probability that the image belongs to one of them is a logistic function of its distance to the
nearest class. Beyond a threshold of this distance, the prediction is "none of these". `choose_temperature` (Guo et al.,
"On calibration of modern neural networks", ICML 2017), `fit_membership` and `choose_threshold` choose them on held-out
rows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks

TEMPERATURES = 1e4
"""Temperatures are searched from 1 / TEMPERATURES to TEMPERATURES times the spread of the scores."""
WRONG_LABELS, WRONG_WEIGHT, WRONG_ROUNDS = 0.05, 20, 20
"""Prior share of wrong labels, the weight of this prior in labels, and iterations that estimate the share. Because
wrong labels are part of the model, a single one hardly changes the temperature."""
FARTHEST = 1e30
"""Relative distance of a class without a mean; finite, because 0 · ∞ is not a number."""
PRIOR_ROUNDS, HALF_WEIGHT = 100, 0.1
"""Iterations that estimate the share of unlabelled rows that belong to a class, and the weight of its prior, one half,
as a share of the number of unlabelled rows; chosen on classes 0, 2, 4 … of corel5k."""
CALIBRATION_BYTES = 2**20
"""Size of the scores processed at a time when choosing a temperature; they stay in the cache between operations."""

Scores: TypeAlias = NDArray[np.float32] | NDArray[np.float64]


class Membership(NamedTuple):
    """The probability that a row belongs to one of the classes: a logistic function of its relative distance."""

    slope: float = 0.0
    offset: float = math.inf  # the default is a probability of 1

    def chances(self, relative: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability for squared distances to the nearest class, relative to the typical distance."""
        from scipy.special import expit

        chances: NDArray[np.float64] = expit(self.offset + self.slope * np.minimum(relative, FARTHEST))
        return chances


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted class of a picture, and the runner-up.

    All other classes and "none of these" share the remaining probability.
    """

    label: str | None  # None: none of these
    probability: float | None  # of `nearest`; None: unknown, because there was nothing to calibrate it on
    nearest: str | None  # the nearest class, even if it is farther than the threshold; None: no class is possible
    runner_up: str | None
    runner_up_probability: float | None
    id: int | None = None  # of the picture, if it is a file or an item of a collection
    path: str | None = None
    labels: list[str] = field(default_factory=list)  # labels of the picture


def predict_from_distances(
    distances: NDArray[np.float64],
    names: Mapping[int, str],
    temperature: float,
    threshold: float,
    membership: Membership | None = None,
    typical: NDArray[np.float64] | float = 1.0,
) -> list[Prediction]:
    """Return the prediction of each row from its squared distances to C classes, (m, C); infinity excludes a class.

    `names` are the classes of the columns; `temperature`, `threshold` and `membership` are those of an `OpenSet`, and
    `typical` (m,) is `OpenSet.typical_distances`.

    >>> predict_from_distances(np.array([[1.0, 9.0]]), {0: "cat", 1: "dog"}, temperature=1.0, threshold=4.0)[0].label
    'cat'
    """
    nearest = np.min(distances, axis=1, keepdims=True, initial=np.finfo(np.float64).max)
    chances = np.exp(-0.5 * (distances - nearest) / temperature)  # (m, C); Eq. 5
    chances /= np.maximum(chances.sum(axis=1, keepdims=True), 1.0)
    relative = np.min(distances, axis=1, initial=np.inf) / typical  # (m,)
    chances *= (membership or Membership()).chances(relative)[:, None]
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
                label=best if relative[row] <= threshold else None,
                probability=0.0 if best is None else float(chances[row, one]),
                nearest=best,
                runner_up=runner_up,
                runner_up_probability=0.0 if runner_up is None else float(chances[row, two]),
            )
        )
    return predictions


def choose_temperature(scores: Scores, codes: NDArray[np.int64]) -> float:
    """Return the T that maximises the likelihood of softmax(scores / T) on held-out rows: scores (n, C), classes (n,).

    A share of the labels is assumed to be random; this share is estimated too. One more row, of a random wrong class,
    is assumed (compare Platt, "Probabilistic outputs for SVMs", 1999); otherwise T would go to zero if all n rows are
    right. Equal scores, or fewer than two classes, give 1.

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
    parts = list(chunks(n, scores.itemsize * C, CALIBRATION_BYTES))
    buffer = np.empty_like(scores[parts[0]])

    def loss(log_t: float) -> float:
        sharpness, logs = math.exp(-log_t), np.empty(n)
        for part in parts:
            scaled = np.multiply(scores[part], sharpness, out=buffer[: part.stop - part.start])
            logs[part] = np.log(np.exp(scaled, out=scaled).sum(axis=1))  # at least 0: the best score is 0
        own = np.exp(sharpness * right - logs)
        wrongs = _wrong_labels(own, C)
        likelihood = float(np.log((1 - wrongs) * own + wrongs / C).sum())
        assumed = WRONG_LABELS * math.log(wrongs) + (1 - WRONG_LABELS) * math.log(1 - wrongs)
        return (float(np.mean(logs - sharpness * wrong)) - likelihood - WRONG_WEIGHT * assumed) / n

    bounds = (-np.log(TEMPERATURES), np.log(TEMPERATURES))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3})
    return spread * float(np.exp(found.x))


def label_weights(scores: Scores, codes: NDArray[np.int64], temperature: float) -> NDArray[np.float64]:
    """Return the probability that each label is right, (n,), from scores (n, C), if a share of them is random.

    >>> label_weights(np.array([[9.0, 0.0], [9.0, 0.0]]), np.array([0, 1]), 1.0).round(2).tolist()
    [0.95, 0.0]
    """
    scaled = (scores - scores.max(axis=1, keepdims=True)) / temperature
    chances = np.exp(scaled)
    own = (chances[np.arange(len(codes)), codes] / chances.sum(axis=1)).astype(np.float64)
    wrongs, C = _wrong_labels(own, scores.shape[1]), scores.shape[1]
    weights: NDArray[np.float64] = (1 - wrongs) * own / ((1 - wrongs) * own + wrongs / C)
    return weights


def _wrong_labels(own: NDArray[np.float64], C: int) -> float:
    """Return the share of wrong labels, from the probabilities of the labels if they are right, (n,)."""
    share = WRONG_LABELS
    for _ in range(WRONG_ROUNDS):  # expectation–maximisation
        wrong = float(np.sum(share / C / ((1 - share) * own + share / C)))
        share = (wrong + WRONG_LABELS * WRONG_WEIGHT) / (len(own) + WRONG_WEIGHT)
    return share


def fit_membership(
    known: NDArray[np.float64],
    strangers: NDArray[np.float64],
    unlabelled: NDArray[np.float64] | None,
    weights: NDArray[np.float64] | None = None,
) -> Membership:
    """Fit the probability that a row belongs to a class to the relative distances of rows that do, and of strangers.

    A logistic regression gives both groups the same total weight. The target of n members is (n + 1) / (n + 2), that of
    n strangers 1 / (n + 2) (Platt, "Probabilistic outputs for SVMs", 1999), so that few rows do not give probabilities
    of 0 and 1. The share of rows that belong to a class is then estimated on unlabelled rows, starting from a half
    (Saerens, Latinne & Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities", Neural
    Computation 2002). Without strangers, unlabelled rows replace them, and the share stays a half. If `unlabelled` is
    None, the share is that among the given rows. `weights` are those of the strangers.

    >>> member = fit_membership(np.full(9, 1.0), np.full(9, 2.0), np.array([1.0, 2.0, 2.0, 2.0]))
    >>> member.chances(np.array([1.0, 2.0])).round(1).tolist()
    [0.8, 0.0]
    """
    from scipy.special import expit, logit
    from sklearn.linear_model import LogisticRegression

    negatives = strangers if len(strangers) or unlabelled is None else unlabelled
    if not len(known) or not len(negatives):
        return Membership()
    unit = float(np.median(negatives)) or 1.0
    x = np.concatenate([known, negatives])[:, None] / unit  # (n, 1)
    targets = np.repeat([1 - 1 / (len(known) + 2), 1 / (len(negatives) + 2)], [len(known), len(negatives)])
    given = np.ones(len(negatives)) if weights is None or not len(strangers) else weights
    share = np.concatenate([np.full(len(known), 1 / len(known)), given / given.sum()])
    # Each row counts as a member with its target, and as a stranger with the rest.
    both = np.concatenate([share * targets, share * (1 - targets)])
    fitted = LogisticRegression(C=np.inf).fit(np.tile(x, (2, 1)), np.repeat([1, 0], len(x)), sample_weight=both)
    slope = min(float(fitted.coef_[0, 0]), 0.0) / unit
    offset = float(fitted.intercept_[0]) if slope else 0.0
    if unlabelled is None:
        return Membership(slope, offset + math.log(len(known) / len(negatives)))
    members = 0.5
    for _ in range(PRIOR_ROUNDS if len(strangers) else 0):
        expected = expit(offset + slope * unlabelled + logit(members)).sum()
        more = HALF_WEIGHT * len(unlabelled) + 2
        members = float((expected + more / 2) / (len(unlabelled) + more))
    return Membership(slope, offset + float(logit(members)))


def choose_threshold(known: NDArray[np.float64], others: NDArray[np.float64], reject: float) -> float:
    """Return the distance beyond which a row belongs to no class; infinity: never.

    `known` (n,) are the distances of held-out rows of the classes to the nearest class, `others` (m,) those of rows of
    no class. With others, the threshold minimises the sum of both error rates. Without, it rejects a share `reject` of
    new rows of the classes on average: a share 1 / (n + 1) of them falls between two adjacent distances of n held-out
    rows.

    >>> choose_threshold(np.arange(9.0), np.empty(0), 0.1)
    8.0
    >>> choose_threshold(np.array([1.0, 2.0, 3.0, 9.0]), np.array([8.0, 10.0, 12.0]), 0.0)
    5.5
    """
    if not len(known):
        return np.inf
    if not len(others):
        return float(np.quantile(known, 1 - reject, method="weibull")) if reject else np.inf
    at = np.unique(np.concatenate([known, others]))
    at = np.concatenate([at, [np.inf]])
    rejected = 1 - np.searchsorted(np.sort(known), at, side="right") / len(known)
    accepted = np.searchsorted(np.sort(others), at, side="right") / len(others)
    best = int(np.argmin(rejected + accepted))
    return float((at[best] + at[best + 1]) / 2) if best + 1 < len(at) else np.inf
