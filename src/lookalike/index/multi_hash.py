"""Multi-index hashing: exact search over long codes by tables of their parts, fast if the results are near the query.

Norouzi, Punjani & Fleet, "Fast exact search in Hamming space with multi-index hashing", IEEE TPAMI 2014: two codes that
differ in few bits differ in even fewer bits in one of their parts, so a search reads few entries of each part's table
(§3). Library only: the collection, the command line and the server search codes with `Hamming`.

Parts are 16 bits wide and are tried with 0, 1, 2 … bits flipped, all parts at each step. In addition to the row
numbers, a table stores the 64-bit word that contains the part: this word rejects most rows of an entry, without reading
their codes elsewhere in memory.
"""

from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.codes.bits import to_words
from lookalike.codes.queries import CodeQuery
from lookalike.compiler import njit
from lookalike.errors import InputError
from lookalike.index import threads
from lookalike.index.compiled import count_ones, prefetch, push
from lookalike.index.exact import AcceleratedIndex
from lookalike.index.hamming import LANES, Hamming
from lookalike.index.queries import check_search
from lookalike.index.topk import keep_best
from lookalike.types import Hits, Ids, Progress, Query, Vectors

PAYS = 8
"""A scan takes over if a query would read more rows than the scan reads words, divided by this. A row takes three or
four times longer than a word of the scan, so the attempt wastes at most half a scan."""

MIN_ROWS = 10_000
"""With fewer rows, no tables are built."""

PART_BITS = 16
"""Bits of a part: 2 bytes."""

ENTRY_COST = 40
"""Cost of visiting an entry of a table, in rejected rows."""

CODE_COST = 60
"""Cost of reading the whole code of a row, in rejected rows."""

AHEAD = 4
"""Number of entries that are prefetched."""

LINE = 8
"""64-bit words of a cache line."""


class Tables(NamedTuple):
    """The rows by the value of each of their parts."""

    order: NDArray[np.int32]  # (parts, n) rows, sorted by the value of the part
    keys: NDArray[np.uint64]  # (parts, n) the word that contains the part, in the same order
    starts: NDArray[np.int32]  # (parts, 2**16 + 1) where each value starts
    n: int  # number of rows when the tables were built


class MultiHash(AcceleratedIndex[Hamming]):
    """Tables over the codes of a `Hamming`; a scan takes over as soon as it is cheaper.

    Always exact: a search scans the rows added since `build` and never returns removed rows. A scan answers queries
    whose k-th hit differs in many bits: see `benchmarks/hamming_speed.py`. Library only.

    Examples
    --------
    >>> codes = np.random.default_rng(0).integers(0, 256, (20_000, 16), np.uint8)
    >>> index = MultiHash()
    >>> index.add(np.arange(20_000), codes)
    >>> hits = index.build().search(CodeQuery(codes[7:8]), k=1)
    >>> hits.ids, hits.scored < 20_000
    (array([[7]]), True)

    """

    codes = True  # rows are packed bits

    def __init__(self) -> None:
        super().__init__(Hamming())
        self._tables: Tables | None = None
        self._removed = 0  # removed rows of the tables

    def build(self, truth: Hamming | None = None, progress: Progress | None = None) -> Self:
        """Sort all rows, or those of another `truth`, by each of their parts: 12 bytes per row and part."""
        truth = self.truth if truth is None else truth
        n, dim = len(truth.alive), truth.dim
        if n < MIN_ROWS or dim is None:
            if truth is not self.truth:
                self.truth, self._tables, self._tail, self._removed = truth, None, truth.ids, 0
            return self
        if n >= 2**31:
            raise InputError(f"MultiHash supports up to {2**31 - 1} codes. Got {n}. Use Hamming.")
        parts = -(-dim // 2)
        order, keys = np.empty((parts, n), np.int32), np.empty((parts, n), np.uint64)
        starts = np.zeros((parts, 2**PART_BITS + 1), np.int32)
        for part in range(parts):
            if progress is not None:
                progress("indexing", part, parts)
            words = truth.words[:, part // 4].reshape(-1)[:n]
            values = (words >> np.uint64(PART_BITS * (part % 4))).astype(np.uint16)
            order[part] = np.argsort(values, kind="stable")  # a radix sort
            keys[part] = words[order[part]]
            np.cumsum(np.bincount(values, minlength=2**PART_BITS), out=starts[part, 1:])
        self.truth, self._tables = truth, Tables(order, keys, starts, n)
        self._tail, self._removed = self._tail[:0], 0
        return self

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """Return the exact k best; `effort` is checked and ignored. `scored` counts the compared codes.

        A scan answers weighted queries and searches with `among`.
        """
        among, exclude = check_search(query, k, among, exclude, effort, self.dim)
        tables = self._tables
        if tables is None or among is not None or not isinstance(query, CodeQuery) or query.weights is not None:
            return self.truth.search(query, k, among=among, exclude=exclude)
        ids, distances, scored = self._probe(tables, query, k, exclude)
        left = np.flatnonzero(scored < 0)
        total = int(scored[scored > 0].sum())
        if len(self._tail) and len(left) < len(ids):
            tail = self._search_tail(query, k, None, exclude)
            ids, distances = keep_best(np.hstack([ids, tail.ids]), np.hstack([distances, tail.scores]), k)
            total += tail.scored
        if len(left):
            scan = self.truth.search(CodeQuery(query.codes[left]), k, exclude=exclude)
            ids[left], distances[left] = scan.ids, scan.scores
            total += scan.scored
        return Hits(ids, distances, total)

    def _probe(
        self, tables: Tables, query: CodeQuery, k: int, exclude: Ids | None
    ) -> tuple[Ids, Vectors, NDArray[np.int64]]:
        """Return ids (q, k), distances (q, k) and numbers of compared rows, (q,): -1 for queries that need a scan."""
        q, keep = len(query.codes), self.truth.allowed(exclude)
        row_words, row_ids = self.truth.words, self.truth.row_ids
        words = to_words(query.codes)
        cores = max(1.0, threads.CORES / max(1, q))  # cores that a scan would use for one query
        budget = int(tables.n * words.shape[1] / PAYS / cores)
        ids, distances = np.full((q, k), -1, np.int64), np.full((q, k), np.inf, np.float32)
        scored = np.empty(q, np.int64)

        def work(start: int, stop: int) -> None:
            size = min(k, tables.n)
            near, found = np.empty(size, np.int32), np.empty(size, np.int64)
            for j in range(start, stop):
                held, scored[j] = _probe_one(
                    row_words, row_ids, keep, *tables[:3], words[j], *_flips(), budget, near, found
                )
                best = np.lexsort((found[:held], near[:held]))
                ids[j, :held], distances[j, :held] = found[best], near[best]

        threads.share(work, q)
        return ids, distances, scored

    def _forget(self, ids: Ids) -> None:
        if self._tables is not None:
            rows = self.truth.rows(ids)
            self._removed += int(np.count_nonzero((rows >= 0) & (rows < self._tables.n)))

    def _n_removed(self) -> int:
        return self._removed


@cache
def _flips() -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """All values of a part, sorted by their number of 1 bits, and where each number of bits starts, (18,)."""
    ones = np.bitwise_count(np.arange(2**PART_BITS, dtype=np.uint16))
    order = np.argsort(ones, kind="stable").astype(np.uint16)
    return order, np.concatenate([[0], np.cumsum(np.bincount(ones))])


@njit(cache=True, nogil=True)
def _probe_one(
    words: Any, row_ids: Any, keep: Any, order: Any, keys: Any, starts: Any, query: Any, flips: Any, flip_starts: Any,
    budget: Any, distances: Any, ids: Any,
) -> Any:  # fmt: skip
    """Search for one query; return the number of hits and of compared rows: -1 if that would exceed the budget.

    After parts 0 … c were tried with r flips, and the others with r − 1, every code within the distance parts · r + c
    was found: a code that was not found differs in at least r + 1 bits in each of the former parts, and in at least r
    bits in each of the latter (§3.2).
    """
    parts, k = len(order), len(ids)
    size = scored = met = work = 0
    limit = np.uint64(2**62)  # the distance of the k-th hit
    for r in range(PART_BITS + 1):
        first, last = flip_starts[r], flip_starts[r + 1]
        for c in range(parts):
            word = query[c // 4]
            value = (word >> np.uint64(PART_BITS * (c % 4))) & np.uint64(2**PART_BITS - 1)
            work += ENTRY_COST * (last - first)
            if work > budget:
                return size, -1
            for flip in range(first, last):
                entry = np.int64(value ^ np.uint64(flips[flip]))
                work += starts[c, entry + 1] - starts[c, entry]
            if work > budget:
                return size, -1
            part = keys[c]
            for flip in range(first, last):
                if flip + AHEAD < last:
                    entry = np.int64(value ^ np.uint64(flips[flip + AHEAD]))
                    for place in range(starts[c, entry], starts[c, entry + 1], LINE):
                        prefetch(np.uintp(part.ctypes.data) + np.uintp(8 * place))
                entry = np.int64(value ^ np.uint64(flips[flip]))
                begin, end = starts[c, entry], starts[c, entry + 1]
                scored += end - begin
                smallest = np.uint64(64)
                for place in range(begin, end):
                    smallest = min(smallest, count_ones(part[place] ^ word))
                if smallest > limit:
                    continue
                for place in range(begin, end):
                    if count_ones(part[place] ^ word) > limit:
                        continue
                    row = order[c, place]
                    work += CODE_COST
                    distance = _distance(words[row // LANES], row % LANES, query, c, r, parts)
                    if distance < 0:
                        continue
                    met += 1
                    if keep[row]:
                        size = push(distances, ids, size, np.int32(distance), row_ids[row])
                        if size == k:
                            limit = np.uint64(distances[0])
            if met == order.shape[1] or (size == k and distances[0] <= parts * r + c):
                return size, scored
    return size, scored


@njit(cache=True, nogil=True)
def _distance(block: Any, lane: Any, query: Any, c: Any, r: Any, parts: Any) -> Any:
    """Distance of a row found by part c with r flips; -1 if an earlier part or step has already found it."""
    total = np.int64(0)
    for part in range(parts):
        differing = (block[part // 4, lane] ^ query[part // 4]) >> np.uint64(PART_BITS * (part % 4))
        ones = np.int64(count_ones(differing & np.uint64(2**PART_BITS - 1)))
        if ones < r or (ones == r and part < c):
            return -1
        total += ones
    return total
