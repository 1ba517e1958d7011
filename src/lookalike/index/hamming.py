"""Exact search that compares every code, at the speed of memory.

Codes are stored in blocks of 64 rows, word by word, so that one instruction compares the same word of several rows. The
scan compares a block with all queries while the block is in the cache. If the smallest distance in a block is too
large, the block is skipped.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.codes.bits import WORD, Codes, check_codes, to_words
from lookalike.codes.queries import CodeQuery
from lookalike.compiler import njit
from lookalike.index.compiled import count_ones, push
from lookalike.index.exact import CHUNK_BYTES, Chunk, ExactIndex, Mask, Selection
from lookalike.index.threads import share
from lookalike.types import Array, Hits, Ids, Query, Vectors

LANES = 64
"""Rows of a block."""

TILE_BYTES = 16 * 2**10
"""Size of the codes that are compared with one query after the other: half of a first-level cache."""

LEAST_BLOCKS = 256
"""Minimum number of blocks per thread."""


class Hamming(ExactIndex):
    """Exact search by Hamming distance. Uses 8 bytes of memory per 64 bits, and 25 per id.

    `add` copies the codes, (n, bits / 8) uint8. Queries are those of `lookalike.codes.queries`; a `CodeQuery` without
    weights is the fastest. Searches are thread-safe while no other thread calls `add` or `remove`.

    Examples
    --------
    >>> index = Hamming()
    >>> index.add(np.array([10, 20]), np.array([[0b0011], [0b1111]], np.uint8))
    >>> hits = index.search(CodeQuery(np.array([[0b0111]], np.uint8)), k=2)
    >>> hits.ids, hits.scores  # both differ in one bit: the smaller id is first
    (array([[10, 20]]), array([[1., 1.]], dtype=float32))

    """

    codes = True  # rows are packed bits
    dtype = np.uint8

    def __init__(self) -> None:
        super().__init__()
        self.ascending = True  # whether ids increase with the rows; then the first of equal rows is the best
        self._words: NDArray[np.uint64] = np.empty((0, 0, LANES), np.uint64)  # with spare capacity

    @property
    def words(self) -> NDArray[np.uint64]:
        """The codes, (blocks, words, 64); lanes after the last row are undefined."""
        return self._words[: -(-len(self.alive) // LANES)]

    def copy(self) -> Self:
        """Return an independent copy that can be changed while this index answers searches."""
        made = super().copy()
        made._words = self.words.copy()
        return made

    def gather(self, rows: Ids) -> Codes:
        """The codes of these rows, (m, bytes)."""
        words = np.ascontiguousarray(self._words[rows // LANES, :, rows % LANES])  # (m, words)
        return words.view(np.uint8).reshape(len(rows), words.shape[1] * WORD)[:, : self.dim or 0]

    def _search(self, query: Query, k: int, selection: Selection) -> Hits:
        if selection.rows is None and isinstance(query, CodeQuery) and query.weights is None:
            found = _Scan(self, to_words(query.codes), k, selection.keep).run()
            return Hits(*found, len(query.codes) * len(self.alive))
        return super()._search(query, k, selection)

    def _check_rows(self, X: Array) -> Codes:
        return check_codes(X, self.dim)

    def _append(self, ids: Ids, X: Codes) -> None:
        n = len(self.alive)
        self._grow(n + len(ids))
        rows = np.arange(n, n + len(ids))
        self._words[rows // LANES, :, rows % LANES] = to_words(X)
        self.ascending &= bool(np.all(np.diff(ids, prepend=self.row_ids[-1] if n else -1) > 0))

    def _grow(self, n: int) -> None:
        """Allocate space for n rows, at least 1.5 times the current space, so that a row is copied only a few times."""
        space, n_words = len(self._words) * LANES, -(-(self.dim or 0) // WORD)
        if n <= space and self._words.shape[1] == n_words:
            return
        words = np.zeros((-(-max(n, space * 3 // 2) // LANES), n_words, LANES), np.uint64)
        if len(self.alive):
            words[: len(self.words)] = self.words
        self._words = words

    def _chunks(self, selection: Selection, row_bytes: int) -> Iterator[Chunk]:
        rows = selection.rows
        if rows is None:
            rows = np.arange(len(self.alive)) if selection.keep is None else np.flatnonzero(selection.keep)
        for part in chunks(len(rows), row_bytes, max_bytes=CHUNK_BYTES):
            yield Chunk(rows[part], [self.gather(rows[part])])


@dataclass(slots=True)
class _Heaps:
    """The k best hits of each query found by one thread, as heaps with the worst on top."""

    distances: NDArray[np.int32]  # (q, k)
    ids: Ids  # (q, k)
    sizes: NDArray[np.int64]  # (q,)
    end: int = 0  # blocks from here on have not been scanned

    @classmethod
    def empty(cls, q: int, k: int) -> "_Heaps":
        return cls(np.empty((q, k), np.int32), np.empty((q, k), np.int64), np.zeros(q, np.int64))


@dataclass(slots=True)
class _Scan:
    """A search for the k nearest codes; each thread takes free heaps and scans one piece after the other."""

    index: Hamming
    queries: NDArray[np.uint64]  # (q, words)
    k: int
    keep: Mask | None  # (rows,)
    heaps: list[_Heaps] = field(default_factory=list)  # heaps that are not in use

    def run(self) -> tuple[Ids, Vectors]:
        """Return ids (q, k) and distances (q, k), best first, ties by smaller id. Unused places have -1 and inf."""
        words = self.index.words
        if len(words) and len(self.queries):
            share(self._piece, len(words), LEAST_BLOCKS)
        q = len(self.queries)
        ids, distances = np.full((q, self.k), -1, np.int64), np.full((q, self.k), np.inf, np.float32)
        for row in range(q):
            near = np.concatenate([h.distances[row, : h.sizes[row]] for h in self.heaps] or [np.empty(0, np.int32)])
            found = np.concatenate([h.ids[row, : h.sizes[row]] for h in self.heaps] or [np.empty(0, np.int64)])
            best = np.lexsort((found, near))[: self.k]
            ids[row, : len(best)], distances[row, : len(best)] = found[best], near[best]
        return ids, distances

    def _piece(self, start: int, stop: int) -> None:
        index, n = self.index, len(self.index.alive)
        try:
            heaps = self.heaps.pop()  # atomic; another thread can have taken the last one
        except IndexError:
            heaps = _Heaps.empty(len(self.queries), min(self.k, n))
        # A later row of equal distance can be skipped only if ids increase and these heaps have no later rows.
        first_wins = index.ascending and heaps.end <= start
        keep = np.empty(0, np.bool_) if self.keep is None else self.keep
        _make_scan(index.words.shape[1])(
            index.words, start, stop, n, index.row_ids, keep, self.queries, first_wins,
            heaps.distances, heaps.ids, heaps.sizes,
        )  # fmt: skip
        heaps.end = max(heaps.end, stop)
        self.heaps.append(heaps)


@cache
def _make_scan(n_words: int) -> Any:
    """Compile the scan for this number of words: a constant, so that the words of a row are added up in a register."""
    tile = max(1, TILE_BYTES // (8 * LANES * n_words))
    furthest = np.uint64(64 * n_words)

    @njit(cache=True, nogil=True)
    def scan(
        words: Any, start: Any, stop: Any, n: Any, row_ids: Any, keep: Any, queries: Any, first_wins: Any,
        distances: Any, ids: Any, sizes: Any,
    ) -> None:  # fmt: skip
        near = np.empty(LANES, np.uint64)
        k = ids.shape[1]
        for begin in range(start, stop, tile):
            for j in range(len(queries)):
                query = queries[j]
                limit = furthest if sizes[j] < k else np.uint64(max(0, distances[j, 0] - first_wins))
                if sizes[j] == k and distances[j, 0] == 0 and first_wins:
                    continue  # no later row is better than k equal ones
                for b in range(begin, min(begin + tile, stop)):
                    smallest = furthest + np.uint64(1)
                    for lane in range(LANES):
                        total = np.uint64(0)
                        for w in range(n_words):
                            total += count_ones(words[b, w, lane] ^ query[w])
                        near[lane] = total
                        smallest = min(smallest, total)
                    if smallest > limit:
                        continue
                    for lane in range(min(LANES, n - b * LANES)):
                        row = b * LANES + lane
                        if near[lane] <= limit and (len(keep) == 0 or keep[row]):
                            sizes[j] = push(distances[j], ids[j], sizes[j], np.int32(near[lane]), row_ids[row])
                            if sizes[j] == k:
                                limit = np.uint64(max(0, distances[j, 0] - first_wins))

    return scan
