"""One search's way through the leaves: cells in order, then the leaves of the promising ones, then their rows.

In: leaves, a hyperplane and which places may be answers. Out: byte scores of the rows that were visited.
Inside a cell f is taken to be normal around that of its centre; how wide, its slope and the cell's own width say.
"""

from collections.abc import Callable
from math import ceil, inf

import numpy as np
from scipy.special import ndtr

from lookalike.index.byte_sums import BLOCK
from lookalike.index.hyperplane import HyperplaneQuery
from lookalike.index.leaf_codes import LeafCodes, Mask
from lookalike.types import Ids, Vectors

ALL = 50_000
"""Fewer rows are all scored as bytes: choosing among leaves would take longer."""

SLOPES = {"frontier": 0.4, "maximum": 0.1}
"""The share of the cells, by f of their centres, whose spread is worked out; others are taken to be like these."""

CLOSER, CLOSER_SHARE = 256, {"frontier": 0.5, "maximum": 0.2}
"""The most promising cells, whose leaves are looked at one by one: so many, or so large a share."""

SWELL = {"frontier": 1.0, "maximum": 1.3}
"""What spreads are multiplied by: where only the outermost rows count, they reach farther than those of a normal."""

UPWARD = 2.5
"""Where the best rows of a leaf are, in spreads above its centre: by this the first leaves are chosen."""

FIRST, FIRST_SHARE = 32, {"frontier": 0.005, "maximum": 0.002}
"""Leaves that are visited before anything is known of the answers: so many, or so large a share."""

GROWTH = 3
"""So many times as far goes a visit at most as all before: what it finds corrects what is expected of the next."""

HOPELESS = 0.1
"""Leaves that hold a smaller part of the answers that may be missed, were they all alike, are not thought of again."""

WRONG = 4.0
"""What is expected is corrected by no larger factor."""

SHORT = 4
"""The first shortlist is so many times k: its errors say how long the second must be."""

SIGMAS = 2.5
"""Scores that may be this many standard errors off still decide who is scored better."""


class Visit:
    """Byte scores of ever more rows; `keep` (places,) are those that may be answers, `counts` (leaves,) of a leaf."""

    def __init__(self, codes: LeafCodes, query: HyperplaneQuery, k: int, keep: Mask, counts: Ids):
        self.codes, self.k, self.counts, self.keep = codes, k, counts, keep.reshape(-1, codes.size)
        self.plane, self.kind = codes.steps.plane(query), query.kind
        self.left = counts > 0  # (leaves,) which have any
        self.scored = 0
        self._kth = inf  # the k-th best so far
        self._top: Vectors = np.full(k, np.inf, np.float32)  # the k best scores so far
        self._visits: list[tuple[Ids, Vectors, Vectors]] = []  # leaves (m,), scores (m, size), doubts (m, size)

    def share(self, share: float) -> None:
        """Visit so large a share of the leaves, or more until there are k answers."""
        goal = ceil(share * len(self.left))
        leaves = np.flatnonzero(self.left)
        if goal < len(leaves):
            leaves, f, spread = self._centres()
            leaves = leaves[np.argsort(self._merit(f, spread))]
        self._visit(leaves[:goal])
        while self._kth == inf:
            self._visit(leaves[goal : goal + FIRST])
            goal += FIRST

    def until(self, missed: float, most: int) -> None:
        """Visit leaves, the promising first, until no larger share of the answers is expected in the others.

        Or until so many rows, at `most`, were visited and there are k answers.
        """
        if np.count_nonzero(self.left) * self.codes.size <= ALL:
            self._visit(np.flatnonzero(self.left))
            return
        leaves, f, spread = self._centres()
        done, goal, wrong = 0, max(FIRST, int(FIRST_SHARE[self.kind] * len(leaves))), 1.0
        order = np.argpartition(self._merit(f, spread), min(goal, len(leaves) - 1))
        while goal:
            now, order = order[:goal], order[goal:]
            limit = self._kth
            expected = float(self._expected(leaves[now], f[now], spread[now]).sum()) if limit < inf else 0.0
            found = self._visit(leaves[now])
            done += goal
            if self._kth == inf:
                goal = min(len(order), done)
                continue
            if limit < inf:
                wrong = min(max((found + 1) / (expected + 1), 1 / WRONG), WRONG)
            hopes = wrong * self._expected(leaves[order], f[order], spread[order])
            some = hopes > HOPELESS * missed * self.k / max(1, len(order))  # all others together are next to nothing
            order, hopes = order[some], hopes[some]
            best = np.argsort(-hopes / self.counts[leaves[order]])
            order, rest = order[best], hopes.sum() - np.cumsum(hopes[best])
            more = int(np.searchsorted(-rest, -missed * self.k)) + 1 if hopes.sum() > missed * self.k else 0
            goal = min(len(order), more, GROWTH * done, max(0, most // self.codes.size - done))

    def best(self) -> tuple[Ids, Vectors]:
        """Places and byte scores of whatever was visited and may be among the k best."""
        size = self.codes.size
        leaves, rough, doubt = (np.concatenate(parts) for parts in zip(*self._visits, strict=True))
        places, rough = (leaves[:, None] * size + np.arange(size)).ravel(), rough.ravel()
        if self.plane.smooth:
            places, rough = shorten(places, rough, doubt.ravel(), self.k, self._bytes)
            self.scored += len(places)
        return places, rough

    def _centres(self) -> tuple[Ids, Vectors, Vectors]:
        """The leaves that are left, about f of what they hold on average and how far f spreads around it.

        Leaves of cells that promise little are taken to be as their cell is.
        """
        codes, cells = self.codes, len(self.codes.starts) - 1
        f = codes.cells.f(np.arange(-(-cells // BLOCK)), self.plane)[:cells]
        order = np.argsort(self._score(f))[: ceil(SLOPES[self.kind] * cells)]
        some = codes.cells.spreads(order, self.plane)
        spread = np.full(cells, np.median(some))
        spread[order] = some
        promising = np.zeros(cells, np.bool_)
        most = max(CLOSER, ceil(CLOSER_SHARE[self.kind] * cells))
        promising[np.argsort(self._merit(f, spread))[:most]] = True
        left = np.flatnonzero(self.left)
        cell = codes.cell[left]
        f, spread, closer = f[cell], spread[cell], np.flatnonzero(promising[cell])
        f[closer] = codes.f_centres(left[closer], self.plane)
        spread[closer] *= codes.narrow[left[closer]]
        spread *= np.float32(SWELL[self.kind])
        self.scored += 2 * (cells + len(closer))
        return left, f, spread

    def _expected(self, leaves: Ids, f: Vectors, spread: Vectors) -> Vectors:
        """How many rows of each leaf should be better than the k-th so far."""
        high = ndtr((np.float32(self._kth) - (f if self.kind == "frontier" else -f)) / spread)
        low = ndtr((np.float32(-self._kth) - f) / spread) if self.kind == "frontier" else 0
        expected: Vectors = self.counts[leaves] * (high - low)
        return expected

    def _score(self, f: Vectors) -> Vectors:
        return np.abs(f) if self.kind == "frontier" else -f

    def _bytes(self, places: Ids) -> Vectors:
        return self._score(self.codes.f_places(places, self.plane))

    def _merit(self, f: Vectors, spread: Vectors) -> Vectors:
        """Smaller is better: how likely a row is an answer, where f is normal with this mean and spread."""
        if self.kind == "frontier":
            return ((f / spread) ** 2 / 2 + np.log(spread)).astype(np.float32)
        return -f - np.float32(UPWARD) * spread

    def _visit(self, leaves: Ids) -> int:
        """Score the rows of these leaves; returns how many are better than the k-th before."""
        codes = self.codes
        leaves = np.sort(leaves)
        rough, doubt = codes.f(leaves, self.plane)  # (m, size) each
        self.scored += rough.size
        rough = self._score(rough)
        rough[~self.keep[leaves]] = np.inf
        self._visits.append((leaves, rough, doubt))
        news = rough[rough < self._kth]
        self._top = np.partition(np.concatenate([self._top, news]), self.k - 1)[: self.k]
        self._kth = float(self._top[self.k - 1])
        return len(news)


def shorten(
    places: Ids, rough: Vectors, doubts: Vectors | None, k: int, better: Callable[[Ids], Vectors]
) -> tuple[Ids, Vectors]:
    """Better scores of whatever may be among the k best, by its rough score and the standard error of that.

    A rough score of inf is no answer. Where `doubts` is None, the errors of the first few are taken for all.

    >>> places, scores = shorten(np.arange(9), np.arange(9.0), None, 1, lambda some: some + 0.1)
    >>> places.tolist(), scores.tolist()
    ([0, 1, 2, 3], [0.1, 1.1, 2.1, 3.1])
    """
    m = SHORT * k
    limit = float(np.partition(rough, m - 1)[m - 1]) if len(rough) > m else inf
    first = rough <= min(limit, float(np.finfo(rough.dtype).max))
    scores = better(places[first])
    spread = np.sqrt(np.mean(np.square(rough[first] - scores))) if doubts is None else doubts
    kth = np.partition(scores, k - 1)[k - 1]
    more = places[~first & (rough < np.inf) & (rough - SIGMAS * spread <= kth)]
    return np.concatenate([places[first], more]), np.concatenate([scores, better(more)])
