"""Hyperplane scores of rows kept as bytes: the loops behind `Leaves`.

In: codes (blocks, groups, 16, 8) uint8, 16 rows a block, 8 dimensions a group, and a hyperplane prepared for them.
Out: f, float32. Eq. 3, fsm-tree.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookalike.index.sad import BLOCK, GROUP, make_sad, sad_widths
from lookalike.index.threads import share
from lookalike.types import Vectors

L1, L2, PRODUCT = 0, 1, 2
"""What a kernel depends on: ‖x − s‖₁ or ‖x − s‖₂, both by a table, or x·s, as t + γt²."""

LEAST_ROWS = 1_024
"""Rows that are worth a thread."""

Codes = NDArray[np.uint8]
"""(blocks, groups, 16, 8)."""


class Plane(NamedTuple):
    """A hyperplane f(x) = Σ aᵢK(x, sᵢ) + b, in the units of the codes."""

    mode: int
    bytes: NDArray[np.uint8]  # (m, d padded) the support vectors as codes: for L1
    rows: Vectors  # (m, d padded) and as numbers in the units of the codes
    a: Vectors  # (m,)
    b: float
    table: Vectors  # K by distance: L1 >> shift, or L2 · scale
    shift: int
    scale: float  # for PRODUCT: γ
    offsets: Vectors  # (m,) what x·s has of its own, whatever x: for PRODUCT


_sad = make_sad(next(iter(sad_widths()), None))


@njit(cache=True, fastmath=True)
def _f_block(block: Any, twin: Any, plane: Any, scratch: Any, out: Any) -> None:
    """F of 16 rows to `out` (16,); where `twin` is another block, of the mean distances to the rows of both."""
    D, E, X, Y = scratch  # (16,) twice, (16, d padded) twice
    out[:] = plane.b
    m, both = len(plane.a), twin.ctypes.data != block.ctypes.data
    if plane.mode == L1:
        shift = np.uint64(plane.shift)
        for i in range(m):
            _sad(block, plane.bytes[i], D)
            if both:
                _sad(twin, plane.bytes[i], E)
                for j in range(BLOCK):
                    D[j] = (D[j] + E[j]) >> np.uint64(1)
            a = plane.a[i]
            for j in range(BLOCK):
                out[j] += a * plane.table[D[j] >> shift]  # unsigned: no look at the sign
        return
    _decode(block, X)
    _decode(twin, Y)
    for j in range(BLOCK):
        for i in range(m):
            t = _term(X[j], plane.rows[i], plane.mode)
            t = (t + _term(Y[j], plane.rows[i], plane.mode)) / 2 if both else t
            if plane.mode == L2:
                place = min(math.sqrt(t) * plane.scale, np.float32(len(plane.table) - 2))
                low = np.int64(place)
                share = place - low
                out[j] += plane.a[i] * (plane.table[low] * (1 - share) + plane.table[low + 1] * share)
            else:
                t += plane.offsets[i]
                out[j] += plane.a[i] * (t + plane.scale * t * t)


@njit(cache=True)
def _decode(block: Any, X: Any) -> None:
    for g in range(block.shape[0]):
        for j in range(BLOCK):
            for e in range(GROUP):
                X[j, g * GROUP + e] = block[g, j, e]


@njit(cache=True, fastmath=True)
def _term(x: Any, row: Any, mode: int) -> Any:
    """‖x − row‖² or x·row."""
    t = np.float32(0)
    if mode == L2:
        for e in range(len(x)):
            difference = x[e] - row[e]
            t += difference * difference
    else:
        for e in range(len(x)):
            t += x[e] * row[e]
    return t


@njit(cache=True, fastmath=True, nogil=True)
def _f_leaves(codes: Any, twins: Any, leaves: Any, blocks: int, plane: Any, out: Any) -> None:
    d = plane.rows.shape[1]
    D, E = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    X, Y = np.empty((BLOCK, d), np.float32), np.empty((BLOCK, d), np.float32)
    for i in range(len(leaves)):
        for block in range(blocks):
            at, place = leaves[i] * blocks + block, block * BLOCK
            _f_block(codes[at], twins[at], plane, (D, E, X, Y), out[i, place : place + BLOCK])


def f_leaves(codes: Codes, leaves: NDArray[np.int64], blocks: int, plane: Plane, twins: Codes | None = None) -> Vectors:
    """F of every row of these leaves, (len(leaves), 16 · blocks); a leaf is so many blocks in a row.

    With `twins`, blocks of the same shape: f at the mean distance of a row and its twin.
    """
    out = np.empty((len(leaves), blocks * BLOCK), np.float32)
    pairs = codes if twins is None else twins

    def work(start: int, stop: int) -> None:
        _f_leaves(codes, pairs, leaves[start:stop], blocks, plane, out[start:stop])

    share(work, len(leaves), least=LEAST_ROWS // (blocks * BLOCK))
    return out


def in_blocks(rows: NDArray[np.uint8]) -> Codes:
    """Rows of bytes (n, d), n a multiple of 16 and d of 8, in blocks.

    >>> in_blocks(np.zeros((32, 24), np.uint8)).shape
    (2, 3, 16, 8)
    """
    n, d = rows.shape
    return np.ascontiguousarray(rows.reshape(n // BLOCK, BLOCK, d // GROUP, GROUP).swapaxes(1, 2))
