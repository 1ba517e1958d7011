"""The honest guard: how far to trust what was learned, decided by marks that were held out.

In: marked rows and their signs. Out: the hyperplane to rank by, between "as much like the examples as possible" and
the SVM's, and the scores of every mark by hyperplanes that have not seen it. Both ends are hyperplanes of one feature
space, so anything between them is one too, and costs an index no more.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.feedback.learners import Reals, Signs, Svm, solve
from lookalike.index.queries import HyperplaneQuery
from lookalike.kernels import KERNELS

BLENDS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The shares of the SVM that are tried."""
FOLDS = 5
THUMB = ((1, 0.25), (2, 0.5), (3, 0.75), (5, 1.0))
"""The rule of thumb: from so many marks of the rarer kind on, so much of the SVM. Held-out marks may overrule it."""


class Guarded(NamedTuple):
    """A ranking, and what speaks for it."""

    query: HyperplaneQuery  # of kind maximum, ‖w‖ = 1
    blend: float  # 0 by example alone, 1 the SVM alone
    heldout: Reals  # (m,) distances of the marks to hyperplanes that have not seen them; NaN where none could be had


def guard(svm: Svm, X: Reals, y: Signs, weights: Reals) -> Guarded:
    """The blend whose hyperplanes rank marks (m, d) best that they have not seen; `svm` was fitted on these marks."""
    K = svm.gram_  # (m, m)
    real = weights >= 1  # presumed marks teach, they do not judge
    scores = np.full((len(BLENDS), len(y)), np.nan)
    wins: list[Reals] = []
    for out in folds(y, real):
        kept = np.setdiff1d(np.arange(len(y)), out)
        if len(set(y[kept].tolist())) < 2:
            continue
        inner = K[np.ix_(kept, kept)]
        ends = by_example(inner, y[kept], svm.kernel), _unit(inner, *solve(inner, y[kept], svm.costs_[kept]))
        for i, share in enumerate(BLENDS):
            a, b = _between(inner, ends, share)
            scores[i, out] = K[np.ix_(out, kept)] @ a + b
        wins.append(np.array([ranks_well(row[out], y[out]) for row in scores]))
    share = _choose(np.array(wins), y[real])
    a, b = _between(K, (by_example(K, y, svm.kernel), _unit(K, svm.a_, svm.b_)), share)
    query = HyperplaneQuery(X[a != 0], a[a != 0], b, kernel=svm.kernel, gamma=svm.gamma_, kind="maximum")
    return Guarded(query, share, scores[BLENDS.index(share)])


def folds(y: Signs, real: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Which marks are held out together: each real one once, both signs spread evenly, in turn by time."""
    place = np.full(len(y), -1)
    for sign in (1, -1):
        mine = np.flatnonzero((y == sign) & real)
        place[mine] = np.arange(len(mine)) % FOLDS
    return [np.flatnonzero(place == fold) for fold in range(FOLDS) if np.any(place == fold)]


def ranks_well(scores: Reals, y: Signs) -> float:
    """The share of pairs, one of each sign, in the right order; ties count half, NaN where there is no pair.

    >>> ranks_well(np.array([3.0, 1.0, 2.0]), np.array([1, 1, -1]))
    0.5
    """
    positive, negative = scores[y > 0], scores[y < 0]
    if not len(positive) or not len(negative):
        return float("nan")
    return float(np.mean((np.sign(positive[:, None] - negative) + 1) / 2))


def _choose(wins: Reals, y: Signs) -> float:
    """The rule of thumb, unless held-out marks speak against it, beyond their error; wins (folds, blends)."""
    if not np.any(y > 0):
        return 1.0  # there is no example to be like
    fewer = min(np.count_nonzero(y > 0), np.count_nonzero(y < 0))
    thumb = BLENDS.index(max((share for enough, share in THUMB if fewer >= enough), default=0.0))
    judged: Reals = wins[~np.isnan(wins).any(axis=1)] if len(wins) else wins
    if len(judged) < 2:
        return BLENDS[thumb]
    gain = judged - judged[:, thumb : thumb + 1]  # (folds, blends)
    merit = gain.mean(axis=0) - gain.std(axis=0, ddof=1) / len(gain) ** 0.5  # (blends,), 0 for the rule itself
    return BLENDS[int(np.argmax(merit))] if merit.max() > 0 else BLENDS[thumb]


def by_example(K: Reals, y: Signs, kernel: str) -> tuple[Reals, float]:
    """The mean of what is wanted as a hyperplane, ‖w‖ = 1: what is like the examples, before any learning.

    With one example, the order of rows by their distance to it. The angular kernels, whose coefficients must add up to
    0, take the mean of what is unwanted away.
    """
    away = 1 / np.count_nonzero(y < 0) if KERNELS[kernel].balanced else 0.0
    a = np.where(y > 0, 1 / np.count_nonzero(y > 0), -away)  # (m,)
    f = K @ a
    return _unit(K, a, -float(f[y > 0].mean() + f[y < 0].mean()) / 2)


def _unit(K: Reals, a: Reals, b: float) -> tuple[Reals, float]:
    length = max(float(a @ K @ a), 1e-30) ** 0.5
    return a / length, b / length


def _between(K: Reals, ends: tuple[tuple[Reals, float], tuple[Reals, float]], share: float) -> tuple[Reals, float]:
    """The hyperplane between two, ‖w‖ = 1 as theirs: so that what is held out is measured as the collection is."""
    (a, b), (c, d) = ends
    return _unit(K, (1 - share) * a + share * c, (1 - share) * b + share * d)
