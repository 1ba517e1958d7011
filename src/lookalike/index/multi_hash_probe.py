"""One query against tables of the parts of codes: the loop behind `MultiHash`.

In: tables, a query, how many rows may be looked at. Out: the k nearest rows in a heap, or that it gave up. Parts are 16
bits wide and are tried with 0, 1, 2 … bits flipped, all parts at each step.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookalike.index.code_blocks import LANES
from lookalike.index.hamming_scan import count_ones, push

CHUNK = 16
"""Bits of a part: 2 bytes."""
PROBES = 4
"""Entries of a table that cost as much as one row."""


@cache
def masks() -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Every value of a part by how many bits are 1, and where each number of bits begins, (18,)."""
    ones = np.bitwise_count(np.arange(2**CHUNK, dtype=np.uint16))
    order = np.argsort(ones, kind="stable").astype(np.uint16)
    return order, np.concatenate([[0], np.cumsum(np.bincount(ones))])


@njit(cache=True, nogil=True)
def probe(
    words: Any, row_ids: Any, keep: Any, order: Any, starts: Any, query: Any, flips: Any, flip_starts: Any,
    budget: Any, distances: Any, ids: Any,
) -> Any:  # fmt: skip
    """How many of the k best were found, and how many rows were compared for it: -1 where it would be too many.

    Once parts 0 … c were tried with r flips, and the others with r − 1, every code within parts · r + c was met: one
    farther away differs in r + 1 bits in each of the former and in r in each of the latter, at least (§3.2).
    """
    parts = len(order)
    size = scored = met = 0
    for r in range(CHUNK + 1):
        first, last = flip_starts[r], flip_starts[r + 1]
        for c in range(parts):
            value = (query[c // 4] >> np.uint64(CHUNK * (c % 4))) & np.uint64(2**CHUNK - 1)
            ahead = (last - first) // PROBES
            if scored + ahead > budget:
                return size, -1
            for flip in range(first, last):
                entry = np.int64(value ^ np.uint64(flips[flip]))
                ahead += starts[c, entry + 1] - starts[c, entry]
            if scored + ahead > budget:
                return size, -1
            scored += (last - first) // PROBES
            for flip in range(first, last):
                entry = np.int64(value ^ np.uint64(flips[flip]))
                for place in range(starts[c, entry], starts[c, entry + 1]):
                    row = order[c, place]
                    scored += 1
                    distance = _distance(words[row // LANES], row % LANES, query, c, r, parts)
                    if distance < 0:
                        continue
                    met += 1
                    if keep[row]:
                        size = push(distances, ids, size, np.int32(distance), row_ids[row])
            if met == order.shape[1] or (size == len(ids) and distances[0] <= parts * r + c):
                return size, scored
    return size, scored


@njit(cache=True, nogil=True)
def _distance(block: Any, lane: Any, query: Any, c: Any, r: Any, parts: Any) -> Any:
    """The distance of a row that part c led to with r flips; -1 where an earlier part or step led to it before."""
    total = np.int64(0)
    for part in range(parts):
        differing = (block[part // 4, lane] ^ query[part // 4]) >> np.uint64(CHUNK * (part % 4))
        ones = np.int64(count_ones(differing & np.uint64(2**CHUNK - 1)))
        if ones < r or (ones == r and part < c):
            return -1
        total += ones
    return total
