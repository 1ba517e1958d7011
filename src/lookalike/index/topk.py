"""The k best hits of each query: smallest scores first, equal scores by smaller id.

All indexes use these rules, so results do not depend on the order in which rows are scored.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.types import Ids, Vectors

Which: TypeAlias = NDArray[np.intp]
"""(m,) the number of a query, from 0 to q - 1."""

ExactScores: TypeAlias = Callable[[Which, Ids], Vectors]
"""`exact_scores(which, ids)`: the exact scores, (m,) float32, of pairs of a query and an id."""

KEEPING = 10
"""Cost of keeping a candidate, relative to partitioning one score."""

_WORST = np.finfo(np.float32).max  # below infinity, so that a score of inf or NaN is never a hit


def keep_best(ids: Ids, scores: Vectors, k: int) -> tuple[Ids, Vectors]:
    """The k best columns of each row of ids (q, m) and scores (q, m), in order. Unused places have id -1, score inf.

    >>> keep_best(np.array([[7, 3, 9]]), np.array([[1.0, 1.0, 0.5]]), 2)
    (array([[9, 3]]), array([[0.5, 1. ]]))
    """
    return pick(np.lexsort((ids, scores))[:, :k], ids, scores)


def pick(columns: NDArray[np.intp], ids: Ids, scores: Vectors) -> tuple[Ids, Vectors]:
    """Return the ids and scores (q, m) in these columns (q, k) of each row."""
    if len(columns) > 1:
        columns = columns + np.arange(len(columns))[:, None] * ids.shape[1]
    return ids.take(columns), scores.take(columns)  # faster than an index per axis


class TopK:
    """The k smallest scores of each of q queries, from a stream of scores.

    Scores can be approximate if `exact_scores` is given: a block's `slack` is the largest error of the difference of
    two approximate scores. Rows that can still be hits are kept and re-ranked by exact scores.

    Examples
    --------
    >>> import numpy as np
    >>> best = TopK(q=1, k=2)
    >>> best.add(np.array([[3.0, 1.0, 2.0]], np.float32), np.array([7, 8, 9]))
    >>> best.result()
    (array([[8, 9]]), array([[1., 2.]], dtype=float32))

    """

    def __init__(self, q: int, k: int, exact_scores: ExactScores | None = None):
        self._q, self._k, self._exact_scores = q, k, exact_scores
        self._kth = np.full(q, _WORST, np.float32)  # (q,) the k-th smallest score, or an upper bound of it
        self._slack = np.zeros(q, np.float32)  # (q,)
        self._kept: list[tuple[Which, Ids, Vectors]] = []  # the candidates: query, id, score
        self._count = 0
        self._max_count = q * (2 * k + 256)

    def add(self, scores: Vectors, ids: Ids, slack: Vectors | float = 0.0) -> None:
        """Add a block: scores (q, m) in any memory order, the ids of its columns (m,), slack (q,)."""
        np.maximum(self._slack, slack, out=self._slack)
        # The k-th smallest score of the first h columns limits the candidates from the others to about mk / h.
        head = int((KEEPING * len(ids) * self._k) ** 0.5)
        if self._k <= head < len(ids) and self._kth.max(initial=0.0) == _WORST:
            first = np.partition(scores[:, :head], self._k - 1, axis=1)  # (q, h)
            self._kth = np.fmin(self._kth, first[:, self._k - 1])
        small = scores <= self._limit()[:, None]  # (q, m); NaN is never small
        if small.flags.f_contiguous:  # in memory order, which is much faster
            column, which = np.divmod(np.flatnonzero(small.T), max(1, self._q))
        else:
            which, column = np.divmod(np.flatnonzero(small), max(1, len(ids)))
        if len(column):
            self._kept.append((which, ids[column], scores[which, column]))
            self._count += len(column)
        if self._count > self._max_count:
            self._shrink()

    def result(self) -> tuple[Ids, Vectors]:
        """Return ids (q, k) and scores (q, k) of the best so far. Unused places have id -1 and score inf."""
        self._shrink()
        which, ids, scores = self._candidates()
        exact = self._exact(which, ids, scores)
        best, place = self._best(which, ids, exact)
        best_ids = np.full((self._q, self._k), -1, np.int64)
        best_scores = np.full((self._q, self._k), np.inf, np.float32)
        best_ids[which[best], place], best_scores[which[best], place] = ids[best], exact[best]
        return best_ids, best_scores

    def _shrink(self) -> None:
        """Drop candidates that can no longer be hits."""
        which, ids, scores = self._candidates()
        groups = [scores]
        if self._q > 1:
            order = np.argsort(which.astype(np.min_scalar_type(self._q)), kind="stable")  # short integers sort fastest
            ends = np.cumsum(np.bincount(which, minlength=self._q))
            groups = np.split(scores[order], ends[:-1])
        for j, group in enumerate(groups[: self._q]):
            if len(group) >= self._k:
                self._kth[j] = min(self._kth[j], np.partition(group, self._k - 1)[self._k - 1])
        self._keep(which, ids, scores, np.flatnonzero(scores <= self._limit()[which]))
        if self._count > self._max_count:  # too many scores within the slack: compute the exact ones
            which, ids, scores = self._candidates()
            best, _ = self._best(which, ids, self._exact(which, ids, scores))
            self._keep(which, ids, scores, best)

    def _limit(self) -> Vectors:
        """Largest score that can still be a hit, (q,)."""
        limit: Vectors = np.minimum(_WORST, self._kth + self._slack)
        return limit

    def _exact(self, which: Which, ids: Ids, scores: Vectors) -> Vectors:
        return scores if self._exact_scores is None else self._exact_scores(which, ids)

    def _best(self, which: Which, ids: Ids, exact: Vectors) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The numbers of the k best candidates of each query, and each one's place in the result."""
        order = np.lexsort((ids, exact, which))
        order = order[exact[order] <= _WORST]
        place = np.arange(len(order)) - np.searchsorted(which[order], which[order])
        return order[place < self._k], place[place < self._k]

    def _candidates(self) -> tuple[Which, Ids, Vectors]:
        if not self._kept:
            return np.empty(0, np.intp), np.empty(0, np.int64), np.empty(0, np.float32)
        which, ids, scores = (np.concatenate(part) for part in zip(*self._kept, strict=True))
        return which, ids, scores

    def _keep(self, which: Which, ids: Ids, scores: Vectors, stays: NDArray[np.intp]) -> None:
        self._kept, self._count = [(which[stays], ids[stays], scores[stays])], len(stays)
