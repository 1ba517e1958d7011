"""Exact search over codes by looking at every one, at the speed of the memory.

In: ids (n,) and codes (n, bits / 8) uint8, copied, and queries (see `codes.queries`). Out: `Hits`; scores are Hamming
distances, equal ones in the order of their ids.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.codes.bits import Codes, to_words
from lookalike.codes.queries import CodeQuery
from lookalike.index.code_blocks import CodeBlocks
from lookalike.index.flat import GATHER, check_search
from lookalike.index.hamming_scan import Scan
from lookalike.index.ids import sort_ids, without
from lookalike.index.topk import TopK
from lookalike.types import Array, Hits, Ids, Query, Vectors

SCORED_BYTES = 2**21
"""Scores and codes that are worked on at a time for queries other than plain Hamming: they stay in the cache."""


class Hamming:
    """Every code, compared with every query; 8 bytes a word of 64 bits, and 25 for the id.

    Searches may run side by side in threads; `add` and `remove` want to be alone.

    Examples
    --------
    >>> index = Hamming()
    >>> index.add(np.array([10, 20]), np.array([[0b0011], [0b1111]], np.uint8))
    >>> hits = index.search(CodeQuery(np.array([[0b0111]], np.uint8)), k=2)
    >>> hits.ids, hits.scores  # both differ in one bit: the smaller id is first
    (array([[10, 20]]), array([[1., 1.]], dtype=float32))

    """

    codes = True  # rows are packed bits

    def __init__(self) -> None:
        self.blocks = CodeBlocks()

    def __len__(self) -> int:
        return self.blocks.n - self.blocks.removed

    def __contains__(self, item: int) -> bool:
        return item in self.blocks.table

    @property
    def dim(self) -> int | None:
        """Bytes of a code, once something was added."""
        return self.blocks.dim

    @property
    def ids(self) -> Ids:
        """The ids of all codes, ascending."""
        return self.blocks.table.ids()

    def add(self, ids: Ids, X: Array) -> None:
        """Add codes X (n, bytes) under new ids (n,)."""
        self.blocks.add(ids, X)

    def remove(self, ids: Ids) -> int:
        """Forget these ids; returns how many of them were there. Their codes stay in memory as long as the index."""
        return self.blocks.remove(ids)

    def vectors(self, ids: Ids) -> Codes:
        """The codes of these ids, (m, bytes)."""
        return self.blocks.gather(self.blocks.table.find(ids))

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """The k best, exactly, whatever the effort. `scored` counts a code once for every query it is compared with."""
        check_search(query, k, effort, self.dim)
        among = None if among is None else sort_ids(among, "among")
        exclude = None if exclude is None else sort_ids(exclude, "exclude")
        return self.search_sorted(query, k, among, exclude)

    def search_sorted(self, query: Query, k: int, among: Ids | None, exclude: Ids | None) -> Hits:
        """`search` with arguments that were checked, filters ascending: few rows are picked, many are scanned."""
        blocks = self.blocks
        filtered = blocks.removed > 0 or among is not None or exclude is not None
        keep = self.kept(exclude)
        if among is not None:
            rows = blocks.table.rows(among if exclude is None else without(among, exclude))
            rows = rows[rows >= 0]
            if len(rows) * GATHER < blocks.n:
                return self.pick(query, k, rows)
            keep = np.zeros(blocks.n, np.bool_)
            keep[rows] = True
        if isinstance(query, CodeQuery) and query.weights is None:
            found = Scan(blocks, to_words(query.codes), k, keep if filtered else keep[:0]).run()
            return Hits(*found, len(query.codes) * blocks.n)
        return self.pick(query, k, np.flatnonzero(keep))

    def kept(self, exclude: Ids | None) -> NDArray[np.bool_]:
        """Which rows may be answers, (rows,): those that were not removed, less these ids."""
        if exclude is None:
            return self.blocks.alive
        rows = self.blocks.table.rows(exclude)
        keep = self.blocks.alive.copy()
        keep[rows[rows >= 0]] = False
        return keep

    def pick(self, query: Query, k: int, rows: Ids) -> Hits:
        """The k best of these rows, by the query's own score."""
        blocks = self.blocks
        score: Callable[[Any], Vectors] = query.score  # of codes, where other indexes have vectors
        width: int = getattr(query, "dim", 1) if self.dim is None else self.dim
        q = len(score(np.empty((0, width), np.uint8)))
        best = TopK(q, k)
        for part in chunks(len(rows), row_bytes=8 * q + 4 * width, max_bytes=SCORED_BYTES):
            scores = score(blocks.gather(rows[part]))
            best.add(scores, blocks.ids[rows[part]])
        return Hits(*best.result(), q * len(rows))
