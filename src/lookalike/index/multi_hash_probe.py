"""One query against tables of the parts of codes: the loop behind `MultiHash`.

In: tables, a query, how much work it may be. Out: the k nearest rows in a heap, or that it gave up. Parts are 16 bits
wide and are tried with 0, 1, 2 … bits flipped, all parts at each step. A table has, beside the number of each row, the
word of 64 bits that the part is of: most rows of an entry are passed over by that, without a look elsewhere in memory.
"""

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from lookalike.index.code_blocks import LANES
from lookalike.index.hamming_scan import count_ones, push

cgutils: Any = _cgutils  # without types

CHUNK = 16
"""Bits of a part: 2 bytes."""
ENTRY = 40
"""Rows that are passed over in the time of going to an entry of a table, which is somewhere else in memory."""
LOOK = 60
"""The same for a look at the whole code of a row."""

AHEAD = 4
"""Entries that are asked of the memory before they are needed."""
LINE = 8
"""Words of 64 bits that the memory gives at a time."""


def _fetch(_: Any, address: Any) -> Any:  # noqa: ARG001 (numba wants the name)
    """Ask the memory for the line at an address, and do not wait for it."""
    byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data = (ir.Constant(flag, value) for value in (0, 3, 1))
        builder.call(call, [builder.inttoptr(args[0], byte), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.uintp), generate


fetch: Any = intrinsic(_fetch)


@cache
def masks() -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Every value of a part by how many bits are 1, and where each number of bits begins, (18,)."""
    ones = np.bitwise_count(np.arange(2**CHUNK, dtype=np.uint16))
    order = np.argsort(ones, kind="stable").astype(np.uint16)
    return order, np.concatenate([[0], np.cumsum(np.bincount(ones))])


@njit(cache=True, nogil=True)
def probe(
    words: Any, row_ids: Any, keep: Any, order: Any, keys: Any, starts: Any, query: Any, flips: Any, flip_starts: Any,
    budget: Any, distances: Any, ids: Any,
) -> Any:  # fmt: skip
    """How many of the k best were found, and how many rows were compared for it: -1 where it would be too much work.

    Once parts 0 … c were tried with r flips, and the others with r − 1, every code within parts · r + c was met: one
    farther away differs in r + 1 bits in each of the former and in r in each of the latter, at least (§3.2).
    """
    parts, k = len(order), len(ids)
    size = scored = met = work = 0
    limit = np.uint64(2**62)  # the worst of k
    for r in range(CHUNK + 1):
        first, last = flip_starts[r], flip_starts[r + 1]
        for c in range(parts):
            word = query[c // 4]
            value = (word >> np.uint64(CHUNK * (c % 4))) & np.uint64(2**CHUNK - 1)
            work += ENTRY * (last - first)
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
                        fetch(np.uintp(part.ctypes.data) + np.uintp(8 * place))
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
                    work += LOOK
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
    """The distance of a row that part c led to with r flips; -1 where an earlier part or step led to it before."""
    total = np.int64(0)
    for part in range(parts):
        differing = (block[part // 4, lane] ^ query[part // 4]) >> np.uint64(CHUNK * (part % 4))
        ones = np.int64(count_ones(differing & np.uint64(2**CHUNK - 1)))
        if ones < r or (ones == r and part < c):
            return -1
        total += ones
    return total
