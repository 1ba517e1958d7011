"""Estimate how many positive items a collection has: "found 12 of about 40".

A regression on the marks before an answer ranks the items that had no mark at that time. The answer then shows whether
the item at that depth of the ranking is positive. A curve describes how the share of positives falls with the depth;
its sum over the unmarked items is the number not found yet. Neither the regression nor the strategy that chose the
question knew the answer, so the answers are a fair test whatever the strategy.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from lookalike.feedback.learners import Reals, Signs, gamma_of
from lookalike.kernels import KERNELS
from lookalike.types import Vectors

MIN_MARKS = 3
"""Minimum number of marks of each sign for an estimate."""
MAX_MARKS = 500
"""Number of marks that the regression uses, the last ones; bounds its time, which grows with their cube."""
SAMPLE = 50
"""Number of marks from which the regression takes its γ."""
NOISE = 0.1
"""Variance of a mark in the regression: one over the default C of `Svm`, so that both rank similarly."""
TOPS, SLOPES, ENDS = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1), (1.0, 1.5, 2.0, 3.0, 6.0, 12.0), 30
"""Parameters of the curves top / (1 + (depth / end) ** slope); the ends are `ENDS` depths from 1 to the last."""
BIN = 1.2
"""Ratio of the depths at both ends of a bin."""
TRUST, RARITY = 0.5, 0.5
"""Weight of an answer, below 1 because answers of one session are not independent; and the prior, which divides the
weight of a curve by its total to this power, because large classes are rare. Chosen among 0.5, 0.75 and 1, and 0, 0.5
and 1, on sessions for classes 0, 2, 4 … of corel5k with the questions "mix" and "maximum": the pair whose intervals
contain the true number most nearly in 9 of 10 sessions at rounds 5 and 10."""
DRAWS, QUANTILES = 1000, (0.05, 0.5, 0.95)
"""Number of random totals, and the quantiles that are reported: low, likely and high."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of the number of positive items, including those found."""

    low: int
    likely: int
    high: int


@dataclass(frozen=True, slots=True)
class Unmarked:
    """The items without a mark."""

    head: Vectors  # (h, d) the highest-ranking rows
    tail: Vectors  # (s, d) a random sample of the others
    n: int  # the number of all others


def estimate_total(X: Vectors, y: Signs, unmarked: Unmarked, found: int, *, seed: int = 0) -> Estimate | None:
    """Estimate the number of positives from marks X (m, d), in the order they were made; None for too few marks.

    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(1000, 4)).astype(np.float32)
    >>> X[:50] += 3  # positives
    >>> y = np.repeat([1, -1, 1], [5, 20, 15]).astype(np.int8)
    >>> asked, others = np.r_[:5, 50:70, 5:20], np.r_[20:50, 70:1000]
    >>> unmarked = Unmarked(X[others[:100]], X[others[100::2]], len(others) - 100)
    >>> total = estimate_total(X[asked], y, unmarked, found=20)
    >>> 20 <= total.low <= total.likely <= total.high
    True
    """
    X, y = X[-MAX_MARKS:], y[-MAX_MARKS:]
    if min(np.count_nonzero(y > 0), np.count_nonzero(y < 0)) < MIN_MARKS:
        return None
    edges = _bin_edges(len(y) + len(unmarked.head) + unmarked.n)  # (b + 1,)
    shares = _share_curves(edges)  # (c, b)
    depths = find_depths(X, y, unmarked)  # (m,)
    answered = np.arange(len(y)) >= np.argmax(y < 0)  # the positives before the first negative are examples
    positives, negatives = (np.histogram(depths[answered & (y == sign)], edges)[0] for sign in (1, -1))
    evidence = TRUST * (np.log(shares) @ positives + np.log1p(-shares) @ negatives)  # (c,)
    weights = np.exp(evidence - evidence.max()) / (shares @ np.diff(edges)) ** RARITY
    missing = shares @ np.maximum(np.diff(edges) - np.histogram(depths, edges)[0], 0)  # (c,) expected, not found
    random = np.random.default_rng(seed)
    drawn = random.poisson(random.choice(missing, DRAWS, p=weights / weights.sum()))
    low, likely, high = np.minimum(np.quantile(drawn, QUANTILES), len(unmarked.head) + unmarked.n)
    return Estimate(found + int(low), found + round(likely), found + int(np.ceil(high)))


def find_depths(X: Vectors, y: Signs, unmarked: Unmarked) -> Reals:
    """Depths (m,), from 0, of marks X (m, d) in rankings of all items, each by a regression on the marks before it.

    The regression gives the rank among the items unmarked at that time. The depth also counts the earlier marks above.
    """
    m, rows = len(X), np.concatenate([X, unmarked.head, unmarked.tail])  # (r, d)
    gamma = gamma_of("gaussian", X[:SAMPLE].astype(np.float64))
    K = 1 + KERNELS["gaussian"].pairs(X, rows, gamma)  # (m, r) float32; the 1 fits the mean
    factor = cholesky(K[:, :m] + np.float32(NOISE) * np.eye(m, dtype=np.float32), lower=True)
    whitened = solve_triangular(factor, np.column_stack([K, y]), lower=True)  # (m, r + 1)
    scores = np.cumsum(whitened[:-1, :-1] * whitened[:-1, -1:], axis=0)  # (m - 1, r): row i is by marks 0 … i
    above = scores > np.diagonal(scores[:, 1:m])[:, None]  # (m - 1, r): the rows above mark i + 1
    items_per_row = unmarked.n / max(1, len(unmarked.tail))  # of the tail
    in_head, in_tail = (part.sum(axis=1) for part in np.split(above[:, m:], [len(unmarked.head)], axis=1))
    ranks = np.triu(above[:, :m], 1).sum(axis=1) + in_head + items_per_row * in_tail  # (m - 1,)
    depths = np.zeros(m)
    for i, rank in enumerate(ranks.tolist(), 1):
        depths[i] = insert(rank, depths[:i])
    return depths


def insert(rank: float, depths: Reals) -> float:
    """Depth of an item that has `rank` unmarked items above it, given the depths (m,) of marked items.

    >>> insert(2.0, np.array([0.0, 1.0, 9.0]))  # below two unmarked and two marked items
    4.0
    """
    below = np.sort(depths) > rank + np.arange(len(depths))
    return rank + (int(np.argmax(below)) if below.any() else len(depths))


def _bin_edges(n: int) -> Reals:
    """Edges (b + 1,) from 0 to n of bins of depths."""
    edges: Reals = np.unique(np.round(BIN ** np.arange(np.log(n + 1) / np.log(BIN)))) - 1
    return np.append(edges[edges < n], n)


def _share_curves(edges: Reals) -> Reals:
    """Shares (c, b) of positives in bins of depths, one row for each curve."""
    middle = np.log((edges[:-1] + edges[1:] + 1) / 2)  # (b,)
    ends = np.linspace(0, np.log(edges[-1]), ENDS)
    top, slope, end = (values.reshape(-1, 1) for values in np.meshgrid(TOPS, SLOPES, ends))
    shares: NDArray[np.float64] = top / (1 + np.exp(np.minimum(slope * (middle - end), 500)))
    return np.clip(shares, 1e-12, 1 - 1e-6)
