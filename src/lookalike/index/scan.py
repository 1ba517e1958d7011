"""Hyperplane scores of rows kept as bytes: the loops and products behind `Leaves`.

In: codes (blocks, groups, 16, 8) uint8, 16 rows a block, 8 dimensions a group, and a hyperplane prepared for them.
Out: f, float32. Eq. 3, fsm-tree.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.index.byte_sums import BLOCK, GROUP, make_sad, widths
from lookalike.index.threads import share
from lookalike.types import Vectors

L1, L2, PRODUCT = 0, 1, 2
"""What a kernel depends on: ‖x − s‖₁ or ‖x − s‖₂, both by a table, or x·s, as t + γt²."""

LEAST_ROWS = 1_024
"""Rows that are worth a thread."""

PRODUCT_BYTES = 8 * 2**20
"""What is held of rows as numbers, and of their products, at a time: more would leave the caches."""

MIDDLE = np.float32(127.5)
"""Of the bytes."""

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
    smooth: bool  # whether K is so where x is s, as the Gaussian is: f inside a leaf is then close to its slope


_sad = make_sad(next(iter(widths()), None))


def f_leaves(codes: Codes, leaves: NDArray[np.int64], blocks: int, plane: Plane, twins: Codes | None = None) -> Vectors:
    """F of every row of these leaves, (len(leaves), 16 · blocks); a leaf is so many blocks in a row.

    With `twins`, blocks of the same shape: f at the mean distance of a row and its twin.
    """
    out = np.empty((len(leaves), blocks * BLOCK), np.float32)
    if plane.mode != L1:
        _by_products(codes, leaves, blocks, plane, twins, out.reshape(-1, BLOCK))
        return out
    pairs = codes if twins is None else twins

    def work(start: int, stop: int) -> None:
        _f_leaves(codes, pairs, leaves[start:stop], blocks, plane, out[start:stop])

    share(work, len(leaves), least=LEAST_ROWS // (blocks * BLOCK))
    return out


def f_rows(rows: NDArray[np.uint8], plane: Plane) -> Vectors:
    """F of rows of bytes (n, d), by a matrix product: for all kernels but those of L1. (n,)."""
    out = np.empty(len(rows), np.float32)
    m, d = plane.rows.shape
    for part in chunks(len(rows), row_bytes=4 * (d + m), max_bytes=PRODUCT_BYTES):
        _add_up(_terms(rows[part], plane), plane, out[part])
    return out


def rows_at(codes: Codes, places: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Single rows out of their blocks, (m, d)."""
    return codes[places // BLOCK, :, places % BLOCK].reshape(len(places), codes.shape[1] * GROUP)


def squares(X: Vectors, S: Vectors, lengths: Vectors) -> Vectors:
    """‖x − s‖² of rows X (n, d) and S (m, d), (n, m), from ‖x‖², `lengths` (n,)."""
    terms: Vectors = X @ (-2 * S.T)
    terms += lengths[:, None]
    terms += np.vecdot(S, S)
    return terms


def in_blocks(rows: NDArray[np.uint8]) -> Codes:
    """Rows of bytes (n, d), n a multiple of 16 and d of 8, in blocks.

    >>> in_blocks(np.zeros((32, 24), np.uint8)).shape
    (2, 3, 16, 8)
    """
    n, d = rows.shape
    return np.ascontiguousarray(rows.reshape(n // BLOCK, BLOCK, d // GROUP, GROUP).swapaxes(1, 2))


def _by_products(
    codes: Codes, leaves: NDArray[np.int64], blocks: int, plane: Plane, twins: Codes | None, out: Vectors
) -> None:
    """The same where distances come from a matrix product, to `out` (blocks in all, 16): BLAS is hard to beat at it."""
    places = (leaves[:, None] * blocks + np.arange(blocks)).ravel()
    m, d = plane.rows.shape
    for part in chunks(len(places), row_bytes=4 * BLOCK * (d + m), max_bytes=PRODUCT_BYTES):
        terms = _terms(codes[places[part]].swapaxes(1, 2).reshape(-1, d), plane)  # (16 · blocks, m)
        if twins is not None:
            terms += _terms(twins[places[part]].swapaxes(1, 2).reshape(-1, d), plane)
            terms *= 0.5
        _add_up(terms, plane, out[part].reshape(-1))


def _add_up(terms: Vectors, plane: Plane, out: Vectors) -> None:
    share(lambda start, stop: _f_terms(terms[start:stop], plane, out[start:stop]), len(terms), least=LEAST_ROWS)


def _terms(rows: NDArray[np.uint8], plane: Plane) -> Vectors:
    """‖x − s‖² or x·s of rows (n, d) and the support vectors, (n, m)."""
    X = rows.astype(np.float32)
    if plane.mode == PRODUCT:
        return X @ plane.rows.T
    X -= MIDDLE  # shorter rows, less rounding
    return squares(X, plane.rows - MIDDLE, np.vecdot(X, X))


@njit(cache=True, fastmath=True)
def _f_block(block: Any, twin: Any, plane: Any, D: Any, E: Any, out: Any) -> None:
    """F of 16 rows to `out` (16,), L1; where `twin` is another block, of the mean distances to the rows of both."""
    out[:] = plane.b
    both = twin.ctypes.data != block.ctypes.data
    shift = np.uint64(plane.shift)
    for i in range(len(plane.a)):
        _sad(block, plane.bytes[i], D)
        if both:
            _sad(twin, plane.bytes[i], E)
            for j in range(BLOCK):
                D[j] = (D[j] + E[j]) >> np.uint64(1)
        a = plane.a[i]
        for j in range(BLOCK):
            out[j] += a * plane.table[D[j] >> shift]  # unsigned: no look at the sign


@njit(cache=True, fastmath=True, nogil=True)
def _f_leaves(codes: Any, twins: Any, leaves: Any, blocks: int, plane: Any, out: Any) -> None:
    D, E = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    for i in range(len(leaves)):
        for block in range(blocks):
            at, place = leaves[i] * blocks + block, block * BLOCK
            _f_block(codes[at], twins[at], plane, D, E, out[i, place : place + BLOCK])


@njit(cache=True, fastmath=True, nogil=True)
def _f_terms(terms: Any, plane: Any, out: Any) -> None:
    """F by ‖x − s‖² or x·s, terms (n, m), to `out` (n,)."""
    n, m = terms.shape
    most = np.float32(len(plane.table) - 2)
    for j in range(n):
        f = np.float32(plane.b)
        for i in range(m):
            t = terms[j, i]
            if plane.mode == L2:
                place = min(math.sqrt(max(t, np.float32(0))) * plane.scale, most)
                low = np.int64(place)
                part = place - low
                f += plane.a[i] * (plane.table[low] * (1 - part) + plane.table[low + 1] * part)
            else:
                t += plane.offsets[i]
                f += plane.a[i] * (t + plane.scale * t * t)
        out[j] = f
