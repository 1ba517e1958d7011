"""One search's way through the leaves: cells in order, then the leaves of the promising ones, then their rows.

In: leaves, a hyperplane and which places may be answers. Out: byte scores of the rows that were visited.
Inside a cell f is taken to be normal around that of its centre; how wide, its slope and the cell's own width say.
"""

from math import ceil, inf

import numpy as np

from lookalike.index.hyperplane import HyperplaneQuery
from lookalike.index.leaf_codes import LeafCodes, Mask
from lookalike.index.sad import BLOCK
from lookalike.types import Ids, Vectors

ALL = 50_000
"""Fewer rows are all scored as bytes: choosing among leaves would take longer."""

CLOSER = {"frontier": 0.4, "maximum": 0.15}
"""The share of the leaves, those of the most promising cells, that are put in order one by one; the rest come later."""

UPWARD = 2.5
"""Where the best rows of a leaf are, in spreads above its centre."""

GROWTH = 1.5
"""So many times as far goes each visit as all before; one that brings little ends the search."""

FIRST, FIRST_SHARE = 32, {"frontier": 0.01, "maximum": 0.002}
"""Leaves that are visited before anything is known of the answers: so many, or so large a share."""


class Visit:
    """Byte scores of ever more rows; `keep` (places,) are those that may be answers, `counts` (leaves,) of a leaf."""

    def __init__(self, codes: LeafCodes, query: HyperplaneQuery, k: int, keep: Mask, counts: Ids):
        self.codes, self.k, self.keep = codes, k, keep.reshape(-1, codes.size)
        self.plane, self.kind = codes.steps.plane(query), query.kind
        self.left = counts > 0  # (leaves,) not visited yet
        self.scored = 0
        self._kth = inf  # the k-th best so far
        self._top: Vectors = np.full(k, np.inf, np.float32)  # the k best scores so far
        self._visits: list[tuple[Ids, Vectors]] = []  # leaves (m,) and scores (m, size), inf = no answer

    def share(self, share: float) -> None:
        """Visit so large a share of the leaves, or more until there are k answers."""
        goal = ceil(share * len(self.left))
        order = self._order() if goal < len(self.left) else np.flatnonzero(self.left)
        self._visit(order[:goal])
        while self._kth == inf:
            self._visit(order[goal : goal + FIRST])
            goal += FIRST

    def until(self, missed: float) -> None:
        """Visit leaves, the promising first, until a visit brings no more than this share of the answers."""
        if np.count_nonzero(self.left) * self.codes.size <= ALL:
            self._visit(np.flatnonzero(self.left))
            return
        order = self._order()
        done, goal = 0, max(FIRST, int(FIRST_SHARE[self.kind] * len(self.left)))
        while done < len(order):
            news = self._visit(order[done:goal])
            if done and self._kth < inf and news <= missed * self.k:
                return
            done, goal = goal, ceil(GROWTH * goal)

    def best(self, m: int) -> tuple[Vectors, Ids]:
        """The m best byte scores, or as many as there are, and their places."""
        rough = np.concatenate([rough.ravel() for _, rough in self._visits])
        limit = float(np.partition(rough, m - 1)[m - 1]) if len(rough) > m else inf
        limit = min(limit, float(np.finfo(np.float32).max))  # inf is no answer
        return rough[rough <= limit], self.between(-inf, limit)

    def between(self, low: float, high: float) -> Ids:
        """The places of byte scores above `low` and up to `high`."""
        places = []
        for leaves, rough in self._visits:
            row, column = np.nonzero((rough > low) & (rough <= high))
            places.append(leaves[row] * self.codes.size + column)
        return np.concatenate(places)

    def _order(self) -> Ids:
        """Leaves that are left, the promising first."""
        codes, cells = self.codes, len(self.codes.starts) - 1
        f = codes.cells.f(np.arange(-(-cells // BLOCK)), self.plane)[:cells]
        spread = codes.cells.spreads(np.arange(cells), self.plane)
        self.scored += 2 * cells
        order = np.argsort(self._merit(f, spread))
        leaves = np.concatenate([np.arange(*codes.starts[cell : cell + 2]) for cell in order])  # by cell
        closer = leaves[: max(FIRST, int(CLOSER[self.kind] * len(leaves)))]
        blocks = np.unique(closer // BLOCK)
        centres = np.full(len(leaves) + -len(leaves) % BLOCK, np.inf, np.float32)
        centres.reshape(-1, BLOCK)[blocks] = codes.leaves.f(blocks, self.plane).reshape(-1, BLOCK)
        self.scored += 2 * BLOCK * len(blocks)
        merit = self._merit(centres[closer], spread[codes.cell[closer]] * codes.narrow[closer])
        leaves[: len(closer)] = closer[np.argsort(merit)]
        return leaves[self.left[leaves]]

    def _merit(self, f: Vectors, spread: Vectors) -> Vectors:
        """Smaller is better: how likely a row is an answer, where f is normal with this mean and spread."""
        if self.kind == "frontier":
            return (f / spread) ** 2 / 2 + np.log(spread)
        return -f - np.float32(UPWARD) * spread

    def _visit(self, leaves: Ids) -> int:
        """Score the rows of these leaves; returns how many of the k best so far are among them."""
        codes = self.codes
        leaves = np.sort(leaves)
        rough = codes.f(leaves, self.plane)  # (m, size)
        self.scored += rough.size
        if self.kind == "frontier":
            np.abs(rough, out=rough)
        else:
            np.negative(rough, out=rough)
        rough[~self.keep[leaves]] = np.inf
        self._visits.append((leaves, rough))
        news = rough[rough < self._kth]
        self._top = np.partition(np.concatenate([self._top, news]), self.k - 1)[: self.k]
        self._kth = float(self._top[self.k - 1])
        return int(np.count_nonzero(news <= self._kth))
