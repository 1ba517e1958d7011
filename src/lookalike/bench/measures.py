"""How good a ranking is: one function per measure.

In: `relevant` (q, n) bool, one row per query, best ranked first. Out: (q,) float64, one value per query; NaN where a
query has nothing to find. `junk` (q, n) bool marks what does not count at all, such as the query itself.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lookalike.errors import InputError

Values = NDArray[np.float64]


def average_precision(relevant: ArrayLike, *, junk: ArrayLike | None = None, total: ArrayLike | None = None) -> Values:
    """The mean, over the relevant items, of the precision at their rank.

    `total` (q,) says how many there are to find where the ranking is cut short; else all of them are in it.

    >>> average_precision([[True, False, True]])
    array([0.83333333])
    """
    relevant, counted = _ranking(relevant, junk)
    precision = np.cumsum(relevant, axis=1) / np.maximum(np.cumsum(counted, axis=1), 1)  # (q, n)
    return _share((precision * relevant).sum(axis=1), _total(relevant, total))


def precision_at(relevant: ArrayLike, k: int, *, junk: ArrayLike | None = None) -> Values:
    """The share of relevant items among the first k; a ranking shorter than k is filled with misses.

    >>> precision_at([[True, False, True]], 2)
    array([0.5])
    """
    return _hits_at(*_ranking(relevant, junk), k) / k


def recall_at(relevant: ArrayLike, k: int, *, junk: ArrayLike | None = None, total: ArrayLike | None = None) -> Values:
    """The share of what there is to find that is among the first k.

    >>> recall_at([[True, False, True]], 2)
    array([0.5])
    """
    relevant, counted = _ranking(relevant, junk)
    return _share(_hits_at(relevant, counted, k), _total(relevant, total))


def four_recall_at_4(relevant: ArrayLike) -> Values:
    """UKBench's score, 0 to 4: how many of an object's four pictures are among the first four.

    The query is one of the four and is ranked with the others.

    >>> four_recall_at_4([[True, True, False, True, True]])
    array([3.])
    """
    return 4 * recall_at(relevant, 4, total=np.full(len(np.asarray(relevant)), 4))


def mean(values: ArrayLike) -> float:
    """The mean over the queries that have something to find; NaN where none has."""
    found = np.asarray(values, np.float64)
    found = found[~np.isnan(found)]
    return float(found.mean()) if found.size else float("nan")


def bootstrap(values: ArrayLike, *, seed: int = 0, rounds: int = 1_000, level: float = 0.95) -> tuple[float, float]:
    """The interval that holds the mean of `level` of all resamplings of the queries."""
    found = np.asarray(values, np.float64)
    found = found[~np.isnan(found)]
    if not found.size:
        return float("nan"), float("nan")
    random = np.random.default_rng(seed)
    means = [random.choice(found, found.size).mean() for _ in range(rounds)]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _ranking(relevant: ArrayLike, junk: ArrayLike | None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """What is relevant and what counts, both (q, n); junk is neither."""
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
    first = np.cumsum(counted, axis=1) <= k  # junk takes up no rank
    hits: Values = (relevant & first).sum(axis=1).astype(np.float64)  # (q,)
    return hits


def _total(relevant: NDArray[np.bool_], total: ArrayLike | None) -> Values:
    return (relevant.sum(axis=1) if total is None else np.asarray(total)).astype(np.float64)


def _share(found: Values, total: Values) -> Values:
    share = np.full(len(found), np.nan)
    np.divide(found, total, out=share, where=total > 0)
    return share
