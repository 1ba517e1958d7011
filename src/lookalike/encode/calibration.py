"""Choose an encoder's parameters, using altered versions of pictures or labels.

`calibrate` needs no labels: the vector of a crop, flip or recompression of a picture must find the original picture.
`calibrate_labels` is the calibration of slem §6.4: a picture must find the others with its label.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lookalike.arrays import as_numpy, check_rows, chunks
from lookalike.errors import InputError
from lookalike.types import Array, Transform

SIGNIFICANT = 2.0
"""A candidate is worse if its precision is this many standard errors below the best; by chance, 1 in 40 is."""

Params = Mapping[str, Any]
Values = NDArray[np.float64]
Mask = NDArray[np.bool_]
Measured = tuple[Values, Values]
"""Precisions (groups,) and margins (groups,) of one candidate; groups are pictures or labels."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one candidate."""

    params: dict[str, Any]
    precision: float
    """Average precision, 0 to 1, mean over pictures or labels. Among equal scores, wrong items rank first."""
    margin: float
    """Mean, -1 to 1, of (nearest wrong item - right item) / (median wrong item - right item), in scores."""
    behind: float
    """Difference between the best precision and this one, in standard errors; 0 for the best."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result of each candidate, in the given order, and the chosen parameters.

    With labels, the best precision wins, as in slem §6.4. Without labels, the largest margin wins among the candidates
    whose precision is not significantly below the best: many candidates find all of the easy variants, so precision
    cannot distinguish them. Margins are comparable between candidates that differ in λ, but not between different γ or
    kernels; `kernels.typical_gamma` chooses γ without labels.
    """

    params: dict[str, Any]
    trials: list[Trial]


def calibrate(
    make: Callable[..., Transform], candidates: Sequence[Params], negatives: Array, originals: Array, variants: Array
) -> Calibration:
    """Choose without labels: each altered version must find its original among all originals.

    Every candidate's `make(**params)` is fitted on `negatives` (n, d). Each of the `variants` (m, a, d), a ≥ 1 altered
    versions of each picture, is a query; the `originals` (m, d), m ≥ 2, are searched. Scores are squared distances of
    the encoded rows, or `encoder.query(variants).score(encoded)` if the encoder has a `query`.

    The negatives must be the pool of the final fit: an original among them pushes its variants away, which requires a
    larger λ, as in a collection that is its own pool. The originals must show different objects, as a small random
    sample does: several views of one object would count as errors for each other.

    Examples
    --------
    >>> from lookalike.encode import Slem
    >>> random = np.random.default_rng(0)
    >>> scales = np.array([5.0] * 4 + [0.5] * 12)  # the first columns vary most and differ between crops
    >>> negatives, originals = random.normal(size=(500, 16)) * scales, random.normal(size=(50, 16)) * scales
    >>> variants = originals[:, None] + random.normal(size=(50, 2, 16)) * ([2.0] * 4 + [0.1] * 12)
    >>> calibrate(Slem, [{"lam": 0.01}, {"lam": 100.0}], negatives, originals, variants).params
    {'lam': 0.01}

    """
    originals = check_rows(originals, name="originals")
    m, d = originals.shape
    if getattr(variants, "ndim", 0) != 3 or variants.shape[0] != m or variants.shape[1] < 1 or variants.shape[2] != d:
        raise InputError(
            f"variants must have the shape (m, a, d), with m and d as in the originals, ({m}, {d}), and a at least 1."
            f" Got {getattr(variants, 'shape', type(variants).__name__)}."
        )
    if m < 2:
        raise InputError(f"originals must have at least 2 rows, because every encoder finds the only row. Got {m}.")
    altered = check_rows(variants.reshape(-1, d), name="variants")  # (m · a, d)
    picture = np.repeat(np.arange(m), variants.shape[1])  # (m · a,), the original of each

    def relevance(queries: slice) -> tuple[Mask, Mask]:
        own = picture[queries, None] == np.arange(m)  # (q, m)
        return own, ~own

    def measure(params: Params) -> Measured:
        encoder = make(**params).fit(negatives)
        return _measure(encoder, altered, encoder.transform(originals), relevance, picture)

    trials = _try(candidates, measure)
    able = [trial for trial in trials if trial.behind <= SIGNIFICANT]
    return Calibration(max(able, key=lambda trial: trial.margin).params, trials)


def calibrate_labels(
    make: Callable[..., Transform],
    candidates: Sequence[Params],
    X: Array,
    y: ArrayLike,
    negatives: Array | None = None,
) -> Calibration:
    """Choose with labels: each row of X (m, d) must find the others with its label in y (m,). Never use test labels.

    Otherwise like `calibrate`. If `negatives` is None, the sorted labels are split into two halves, and each half is
    the pool for the other, because later queries will have labels that the pool does not contain. A row whose label no
    other row has is not a query, but counts as a wrong item for the others.
    """
    X = check_rows(X)
    labels = np.asarray(y)
    if labels.shape != (X.shape[0],):
        raise InputError(f"y must have one label per row of X, ({X.shape[0]},). Got shape {labels.shape}.")
    _, classes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    half = np.zeros(len(sizes), np.intp)
    if negatives is None:
        half[len(sizes) // 2 :] = 1
    halves = [np.flatnonzero(half[classes] == side) for side in range(half.max(initial=0) + 1)]
    if any((sizes[half == side] > 1).sum() < 1 or (half == side).sum() < 2 for side in range(len(halves))):
        needed = "at least two labels, one of them on two or more rows"
        where = needed if negatives is not None else f"{needed}, in each half of its labels"
        raise InputError(f"y must have {where}. Got {len(sizes)} labels for {len(labels)} rows.")
    pools = [negatives] if negatives is not None else [X[rows] for rows in reversed(halves)]

    def measure(params: Params) -> Measured:
        measured = [
            _find_same_label(make(**params).fit(pool), X[rows], classes[rows])
            for pool, rows in zip(pools, halves, strict=True)
        ]
        return np.concatenate([precision for precision, _ in measured]), np.concatenate([m for _, m in measured])

    trials = _try(candidates, measure)
    return Calibration(max(trials, key=lambda trial: trial.precision).params, trials)


def _find_same_label(encoder: Transform, X: Array, classes: NDArray[np.intp]) -> Measured:
    """Measure rows X (m, d) as queries for each other; rows of the same class (m,) are right."""
    asked = np.flatnonzero(np.bincount(classes)[classes] > 1)  # (q,)

    def relevance(queries: slice) -> tuple[Mask, Mask]:
        same = classes[asked[queries], None] == classes  # (q, m)
        return same & (asked[queries, None] != np.arange(len(classes))), ~same

    return _measure(encoder, X[asked], encoder.transform(X), relevance, classes[asked])


def _try(candidates: Sequence[Params], measure: Callable[[Params], Measured]) -> list[Trial]:
    if not candidates:
        raise InputError("candidates must contain at least one dict of parameters. Got none.")
    measured = [measure(params) for params in candidates]
    best = max((precision for precision, _ in measured), key=np.mean)  # (groups,)
    return [
        Trial(dict(params), float(precision.mean()), float(margin.mean()), _behind(best - precision))
        for params, (precision, margin) in zip(candidates, measured, strict=True)
    ]


def _behind(differences: Values) -> float:
    """Mean of paired differences (groups,), in standard errors."""
    mean, error = float(differences.mean()), float(differences.std()) / len(differences) ** 0.5
    return mean / error if error else (float("inf") if mean else 0.0)


def _measure(
    encoder: Transform, Q: Array, Y: Array, relevance: Callable[[slice], tuple[Mask, Mask]], group: Any
) -> Measured:
    """Average precision and margin of queries Q (q, d) among encoded rows Y (n, D), as means over groups.

    `relevance` returns which rows are right and which are wrong, (q, n) each; others do not count. Queries of one
    picture or label are not independent, so standard errors are computed from the means of each `group` (q,).
    """
    precision, margin = np.empty(Q.shape[0]), np.empty(Q.shape[0])
    for part in chunks(Q.shape[0], row_bytes=64 * Y.shape[0]):
        scores = _scores(encoder, Q[part], Y)  # (q, n)
        right, wrong = relevance(part)
        precision[part] = _average_precision(scores, right, wrong)
        margin[part] = _margin(scores, right, wrong)
    _, group, sizes = np.unique(group, return_inverse=True, return_counts=True)
    return np.bincount(group, precision) / sizes, np.bincount(group, margin) / sizes


def _scores(encoder: Transform, Q: Array, Y: Array) -> Values:
    """Scores (q, n) float64 of encoded rows Y (n, D) for rows Q (q, d), smaller is better."""
    if hasattr(encoder, "query"):
        return as_numpy(encoder.query(Q).score(Y)).astype(np.float64)
    Q, Y = (as_numpy(rows).astype(np.float64) for rows in (encoder.transform(Q), Y))
    scores: Values = np.einsum("ij,ij->i", Q, Q)[:, None] + np.einsum("ij,ij->i", Y, Y) - 2 * Q @ Y.T
    return scores


def _average_precision(scores: Values, right: Mask, wrong: Mask) -> Values:
    """Average precision (q,); wrong items rank first among equal scores, so a constant score has no merit."""
    order = np.lexsort((right, scores), axis=1)  # (q, n)
    right, wrong = np.take_along_axis(right, order, axis=1), np.take_along_axis(wrong, order, axis=1)
    hits = np.cumsum(right, axis=1)
    share: Values = np.sum(right * (hits / np.maximum(hits + np.cumsum(wrong, axis=1), 1)), axis=1) / hits[:, -1]
    return share


def _margin(scores: Values, right: Mask, wrong: Mask) -> Values:
    """Margin (q,): the share of the way from the right items to the median wrong item before the first wrong item."""
    mean = np.mean(scores, axis=1, where=right)
    nearest = np.min(scores, axis=1, where=wrong, initial=np.inf)
    median = np.nanmedian(np.where(wrong, scores, np.nan), axis=1)
    share = np.full(len(scores), -1.0)
    np.divide(nearest - mean, median - mean, out=share, where=median > mean)
    return np.asarray(np.maximum(share, -1.0))
