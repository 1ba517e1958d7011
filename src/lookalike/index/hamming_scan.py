"""The k nearest codes by Hamming distance, exactly: one pass over blocks of 64 rows.

In: blocks (blocks, words, 64) uint64, query codes (q, words), which rows count. Out: the k best of each query by
(distance, id). A block is compared with all queries while it is in the cache; its smallest distance says whether any of
its rows has to be looked at. The k best so far are a heap whose worst member is on top.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from lookalike.index.code_blocks import LANES, CodeBlocks
from lookalike.index.threads import share
from lookalike.types import Ids, Vectors

TILE_BYTES = 16 * 2**10
"""What is compared with one query after the other: half of a first-level cache."""

LEAST_BLOCKS = 256
"""Blocks that are worth a thread."""


@dataclass(slots=True)
class Heaps:
    """The k best of each query that one thread has met."""

    distances: NDArray[np.int32]  # (q, k)
    ids: Ids  # (q, k)
    sizes: NDArray[np.int64]  # (q,)
    end: int = 0  # blocks before this one may have been seen

    @classmethod
    def make(cls, q: int, k: int) -> "Heaps":
        """Empty ones."""
        return cls(np.empty((q, k), np.int32), np.empty((q, k), np.int64), np.zeros(q, np.int64))


@dataclass(slots=True)
class Scan:
    """A search under way: threads borrow heaps, piece after piece."""

    blocks: CodeBlocks
    queries: NDArray[np.uint64]  # (q, words)
    k: int
    keep: NDArray[np.bool_]  # (rows,) or (0,): all
    heaps: list[Heaps] = field(default_factory=list)  # those nobody uses just now

    def run(self) -> tuple[Ids, Vectors]:
        """Ids (q, k) and distances (q, k), best first, equal distances by smaller id; -1 and inf where none is left."""
        words = self.blocks.words
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
        blocks = self.blocks
        heaps = self.heaps.pop() if self.heaps else Heaps.make(len(self.queries), min(self.k, blocks.n))
        # The first of equals stays only where ids rise and nothing later was seen before.
        first_wins = blocks.ascending and heaps.end <= start
        make_scan(blocks.words.shape[1])(
            blocks.words, start, stop, blocks.n, blocks.ids, self.keep, self.queries, first_wins,
            heaps.distances, heaps.ids, heaps.sizes,
        )  # fmt: skip
        heaps.end = max(heaps.end, stop)
        self.heaps.append(heaps)


def _count_ones(_: Any, x: Any) -> Any:  # noqa: ARG001 (numba wants the name)
    """The bits of a uint64 that are 1, by the processor's own instruction."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), generate


count_ones: Any = intrinsic(_count_ones)


@njit(cache=True, inline="always")
def is_before(distance: Any, item: Any, other_distance: Any, other_item: Any) -> Any:
    """Whether a hit is the better one: by distance, then by id."""
    return distance < other_distance or (distance == other_distance and item < other_item)


@njit(cache=True, nogil=True)
def push(distances: Any, ids: Any, size: Any, distance: Any, item: Any) -> Any:
    """A hit into a heap of at most len(ids), worst on top; returns the new size."""
    k = len(ids)
    if size < k:
        at = size
        while at > 0:
            above = (at - 1) >> 1
            if is_before(distance, item, distances[above], ids[above]):
                break
            distances[at], ids[at] = distances[above], ids[above]
            at = above
        distances[at], ids[at] = distance, item
        return size + 1
    if not is_before(distance, item, distances[0], ids[0]):
        return size
    at = 0
    while 2 * at + 1 < k:
        below = 2 * at + 1
        if below + 1 < k and is_before(distances[below], ids[below], distances[below + 1], ids[below + 1]):
            below += 1
        if is_before(distances[below], ids[below], distance, item):
            break
        distances[at], ids[at] = distances[below], ids[below]
        at = below
    distances[at], ids[at] = distance, item
    return size


@cache
def make_scan(n_words: int) -> Any:
    """The loop for codes of so many words: known beforehand, the words of a row are added up in a register."""
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
                    continue  # nothing beats k equals
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
