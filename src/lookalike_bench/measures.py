"""Quality of a ranking: one function per measure.

A ranking is a row of `relevant` (q, n) bool, one row per query, best first; `junk` (q, n) bool marks items that do not
count, such as the query itself. Measures return one value per query, (q,) float64, NaN if a query has no relevant item.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaln

from lookalike.errors import InputError

Values = NDArray[np.float64]


def average_precision(relevant: ArrayLike, *, junk: ArrayLike | None = None, total: ArrayLike | None = None) -> Values:
    """The mean, over the relevant items, of the precision at their rank.

    `total` (q,) is the number of relevant items, needed if the ranking is truncated.

    >>> average_precision([[True, False, True]])
    array([0.83333333])
    """
    relevant, counted = _ranking(relevant, junk)
    precision = np.cumsum(relevant, axis=1) / np.maximum(np.cumsum(counted, axis=1), 1)  # (q, n)
    return _share((precision * relevant).sum(axis=1), _total(relevant, total))


def trapezoid_precision(relevant: ArrayLike, *, junk: ArrayLike | None = None) -> Values:
    """Average precision as the program of Oxford5k computes it: the area under precision over recall.

    Each hit counts with the mean of the precision before and after it.

    >>> trapezoid_precision([[True, False, True]])  # 1 · ½, then (½ + ⅔) / 2 · ½
    array([0.79166667])
    """
    relevant, counted = _ranking(relevant, junk)
    hits, place = np.cumsum(relevant, axis=1), np.cumsum(counted, axis=1)  # (q, n), after each
    after = hits / np.maximum(place, 1)
    before = np.where(place > 1, (hits - relevant) / np.maximum(place - 1, 1), 1.0)
    return _share((relevant * (before + after) / 2).sum(axis=1), _total(relevant, None))


def top_error(places: ArrayLike, k: int) -> Values:
    """Top-k error of a classifier: 1 if the rank of the right class in `places` (q,), from 0, is not below k.

    >>> top_error([0, 4, 9], 5)
    array([0., 0., 1.])
    """
    if k < 1:
        raise InputError(f"k must be at least 1. Got {k}.")
    wrong: Values = (np.asarray(places) >= k).astype(np.float64)
    return wrong


def learning_area(values: ArrayLike) -> Values:
    """Area under the learning curve of each session, 0 to 1; `values` (q, rounds) are the quality after each round.

    >>> learning_area([[0.0, 1.0, 1.0]])
    array([0.75])
    """
    curves = np.asarray(values, np.float64)
    if curves.ndim != 2 or curves.shape[1] < 2:
        raise InputError(f"values must have shape (q, rounds), with at least two rounds. Got shape {curves.shape}.")
    area: Values = np.trapezoid(curves, axis=1) / (curves.shape[1] - 1)
    return area


def precision_at(relevant: ArrayLike, k: int, *, junk: ArrayLike | None = None) -> Values:
    """The share of relevant items among the first k; a ranking shorter than k is filled with misses.

    >>> precision_at([[True, False, True]], 2)
    array([0.5])
    """
    return _hits_at(*_ranking(relevant, junk), k) / k


def recall_at(relevant: ArrayLike, k: int, *, junk: ArrayLike | None = None, total: ArrayLike | None = None) -> Values:
    """The share of the relevant items that is among the first k.

    >>> recall_at([[True, False, True]], 2)
    array([0.5])
    """
    relevant, counted = _ranking(relevant, junk)
    return _share(_hits_at(relevant, counted, k), _total(relevant, total))


def four_recall_at_4(relevant: ArrayLike) -> Values:
    """UKBench's score, 0 to 4: the number of an object's four pictures among the first four.

    The query is one of the four and is ranked with the others.

    >>> four_recall_at_4([[True, True, False, True, True]])
    array([3.])
    """
    return 4 * recall_at(relevant, 4, total=np.full(len(np.asarray(relevant)), 4))


def tied_average_precision(sizes: ArrayLike, relevant: ArrayLike, k: int, *, order: str = "mean") -> Values:
    """Average precision of the first k if scores tie: the exact mean over every order of tied items.

    A ranking is given by its groups of equal scores, best first: `sizes` (q, g) items in each, of which `relevant`
    (q, g); a group may be empty. The sum over hits is divided by the relevant items among the first k; a query without
    any has 0. McSherry & Najork, "Computing information retrieval performance measures efficiently in the presence of
    tied scores", ECIR 2008, Eq. 6; the group that k cuts is averaged over the number of its relevant items inside.
    `order` "best" puts the relevant items of each group first, "worst" last.

    >>> tied_average_precision([[1, 2]], [[1, 1]], 3)  # 1, then ½ · (1 + 2/2) + ½ · (1 + 2/3), of 2
    array([0.91666667])
    """
    n, r = _groups(sizes, relevant, k)
    if order in ("best", "worst"):
        hits = np.array([_laid_out(*row, k, order == "best") for row in zip(n, r, strict=True)]).reshape(len(n), -1)
        values: Values = np.nan_to_num(average_precision(hits))
        return values
    if order != "mean":
        raise InputError(f"order must be mean, best or worst. Got {order!r}.")
    before, found = np.cumsum(n, axis=1) - n, np.cumsum(r, axis=1) - r  # (q, g) ahead of each group
    whole = before + n <= k
    sums = np.where(whole, _expected(n, r, before, found), 0.0).sum(axis=1)  # (q,)
    R = np.where(whole, r, 0).sum(axis=1)
    values = np.divide(sums, R, out=np.zeros(len(n)), where=R > 0)
    factorials = gammaln(np.arange(n.max(initial=0) + 1) + 1.0)  # their logarithms
    for row, group in zip(*np.nonzero(~whole & (before < k)), strict=True):
        size, hits, ahead = n[row, group], r[row, group], before[row, group]
        least, most = max(0, k - ahead - (size - hits)), min(k - ahead, hits)
        inside = np.arange(least, most + 1)  # possible numbers of relevant items of the group among the first k
        chance = _hypergeometric(inside, size, hits, k - ahead, factorials)
        total = sums[row] + _expected(np.full(len(inside), k - ahead), inside, ahead, R[row])
        share = np.divide(total, R[row] + inside, out=np.zeros(len(inside)), where=R[row] + inside > 0)
        values[row] = float(chance @ share)
    return values


def tied_precision(sizes: ArrayLike, relevant: ArrayLike, k: int) -> Values:
    """The share of relevant items among the first k if scores tie: the mean over every order of tied items.

    Groups as for `tied_average_precision`; a ranking shorter than k is filled with misses.

    >>> tied_precision([[1, 2]], [[1, 1]], 2)  # one hit, and half of another
    array([0.75])
    """
    n, r = _groups(sizes, relevant, k)
    inside = np.clip(k - (np.cumsum(n, axis=1) - n), 0, n)  # (q, g) of each group among the first k
    values: Values = (r * (inside / np.maximum(n, 1))).sum(axis=1) / k
    return values


def calibration_error(chances: ArrayLike, right: ArrayLike, bins: int = 15) -> float:
    """Expected calibration error of probabilities (n,): the mean difference to the share that is `right`, over bins.

    Guo et al., "On calibration of modern neural networks", ICML 2017; bins of equal width, weighted by their size.

    >>> round(calibration_error([0.9, 0.9, 0.1, 0.1], [True, False, False, False]), 2)
    0.25
    """
    p, hits = np.asarray(chances, np.float64), np.asarray(right, np.float64)
    places = np.minimum((p * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(places, p - hits, bins)  # (bins,)
    return float(np.abs(gaps).sum() / max(1, len(p)))


def mean(values: ArrayLike) -> float:
    """The mean over the queries that have relevant items; NaN if none has."""
    found = np.asarray(values, np.float64)
    found = found[~np.isnan(found)]
    return float(found.mean()) if found.size else float("nan")


def median(values: ArrayLike) -> float:
    """The median of the values that are not NaN; NaN if there is none."""
    found = np.asarray(values, np.float64)
    found = found[~np.isnan(found)]
    return float(np.median(found)) if found.size else float("nan")


def bootstrap(
    values: ArrayLike,
    *,
    seed: int = 0,
    rounds: int = 1_000,
    level: float = 0.95,
    statistic: Callable[[Values], float] = mean,
) -> tuple[float, float]:
    """The interval that contains the mean, or another statistic, in `level` of all resamplings of the queries."""
    found = np.asarray(values, np.float64)
    found = found[~np.isnan(found)]
    if not found.size:
        return float("nan"), float("nan")
    random = np.random.default_rng(seed)
    resampled = [statistic(random.choice(found, found.size)) for _ in range(rounds)]
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _ranking(relevant: ArrayLike, junk: ArrayLike | None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks of relevant and of counted items, both (q, n); junk is in neither."""
    ranked = np.asarray(relevant, bool)
    if ranked.ndim != 2:
        raise InputError(f"relevant must have two dimensions, one row per query. Got shape {ranked.shape}.")
    counted = np.ones_like(ranked) if junk is None else ~np.asarray(junk, bool)
    if counted.shape != ranked.shape:
        raise InputError(f"junk must have the shape of relevant, {ranked.shape}. Got {counted.shape}.")
    return ranked & counted, counted


def _hits_at(relevant: NDArray[np.bool_], counted: NDArray[np.bool_], k: int) -> Values:
    if k < 1:
        raise InputError(f"k must be at least 1. Got {k}.")
    first = np.cumsum(counted, axis=1) <= k  # junk has no rank
    hits: Values = (relevant & first).sum(axis=1).astype(np.float64)  # (q,)
    return hits


def _total(relevant: NDArray[np.bool_], total: ArrayLike | None) -> Values:
    return (relevant.sum(axis=1) if total is None else np.asarray(total)).astype(np.float64)


def _share(found: Values, total: Values) -> Values:
    share = np.full(len(found), np.nan)
    np.divide(found, total, out=share, where=total > 0)
    return share


def _groups(sizes: ArrayLike, relevant: ArrayLike, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    n, r = np.asarray(sizes), np.asarray(relevant)
    if k < 1:
        raise InputError(f"k must be at least 1. Got {k}.")
    if n.ndim != 2 or n.shape != r.shape or (r < 0).any() or (r > n).any():
        raise InputError(
            f"sizes and relevant must have shape (q, groups), with 0 <= relevant <= sizes. Got shapes {n.shape} and"
            f" {r.shape}."
        )
    return n.astype(np.int64), r.astype(np.int64)


def _expected(n: NDArray[np.int64], r: NDArray[np.int64], before: ArrayLike, found: ArrayLike) -> Values:
    """Mean contribution of a group of n items, r of them relevant, to the sum of precisions, over all its orders.

    At place j of the group: r/n · (found + 1 + (j − 1)(r − 1)/(n − 1)) / (before + j). Σ 1/(before + j) is a difference
    of digamma functions, Σ (j − 1)/(before + j) is n minus (before + 1) times that.
    """
    start = np.asarray(before, np.float64)
    harmonic = digamma(start + n + 1) - digamma(start + 1)
    others = np.where(n > 1, (r - 1) / np.maximum(n - 1, 1), 0.0)
    sums: Values = ((np.asarray(found) + 1) * harmonic + others * (n - (start + 1) * harmonic)) * (r / np.maximum(n, 1))
    return sums


def _hypergeometric(h: NDArray[np.int64], size: int, hits: int, drawn: int, factorials: Values) -> Values:
    """Probability that h of the hits are among `drawn` of `size` items; `factorials` are logarithms."""

    def choose(a: NDArray[np.int64] | int, b: NDArray[np.int64] | int) -> Values:
        logs: Values = factorials[a] - factorials[b] - factorials[np.subtract(a, b)]
        return logs

    chances: Values = np.exp(choose(hits, h) + choose(size - hits, drawn - h) - choose(size, drawn))
    return chances


def _laid_out(n: NDArray[np.int64], r: NDArray[np.int64], k: int, best: bool) -> NDArray[np.bool_]:
    """The first k ranks, (k,), with the relevant items of each group first or last; padded with misses."""
    runs = np.stack([r, n - r] if best else [n - r, r], axis=1).ravel()
    flags = np.tile([best, not best], len(n))
    places = np.repeat(flags, runs)[:k]
    return np.pad(places, (0, k - len(places)))
