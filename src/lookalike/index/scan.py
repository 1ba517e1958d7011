"""Hyperplane scores of rows kept as bytes, and of float32 rows: the loops behind `Leaves`.

In: codes (blocks, groups, 16, 8) uint8, 16 rows a block, 8 dimensions a group, and a hyperplane prepared for them.
Out: f, float32. Eq. 3, fsm-tree. So laid out, one instruction (psadbw) adds up 8 differences of each of 8 rows.
"""

import math
import platform
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba import config as _config
from numba import njit, prange, types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from lookalike.types import Vectors

cgutils: Any = _cgutils  # without types
config: Any = _config

BLOCK, GROUP = 16, 8
"""Rows of a block, dimensions of a group."""

L1, L2, PRODUCT = 0, 1, 2
"""What a kernel depends on: ‖x − s‖₁ or ‖x − s‖₂, both by a table, or x·s, as t + γt²."""

Codes = NDArray[np.uint8]
"""(blocks, groups, 16, 8)."""

INSTRUCTIONS = {
    64: ("avx512bw", "llvm.x86.avx512.psad.bw.512"),
    32: ("avx2", "llvm.x86.avx2.psad.bw"),
    16: ("sse2", "llvm.x86.sse2.psad.bw"),
}
"""By the bytes they take: the sum-of-absolute-differences instructions, and the processor's feature that has them."""


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


def sad_widths() -> list[int]:
    """The widths of `INSTRUCTIONS` that this machine has, widest first; none on other processors than x86."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return []
    features: str = config.CPU_FEATURES or binding.get_host_cpu_features().flatten()
    return [width for width, (feature, _) in INSTRUCTIONS.items() if f"+{feature}" in features.split(",")]


def make_sad(width: int | None) -> Any:
    """`sad(block, row, out)`: L1 distances of 16 rows (groups, 16, 8) to one (groups · 8,), to `out` (16,) uint64.

    `width` is one of `sad_widths()`, or None for a plain loop.
    """
    if width is None:
        return _sad_plain
    call = _make_call(width)

    @njit(inline="always")
    def sad(block: Any, row: Any, out: Any) -> None:
        call(block.ctypes.data, row.ctypes.data, block.shape[0], out.ctypes.data)

    return sad


@njit
def _sad_plain(block: Any, row: Any, out: Any) -> None:
    out[:] = 0
    for g in range(block.shape[0]):
        for j in range(BLOCK):
            for e in range(GROUP):
                out[j] += abs(np.int32(block[g, j, e]) - np.int32(row[g * GROUP + e]))


def _make_call(width: int) -> Any:
    """The loop over groups with the instruction of this width, on addresses."""
    byte, word = ir.IntType(8), ir.IntType(64)
    lanes = width // GROUP
    vector, sums = ir.VectorType(byte, width), ir.VectorType(word, lanes)

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        block, row, groups, out = args
        psadbw = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(sums, [vector, vector]), INSTRUCTIONS[width][1]
        )
        totals = [cgutils.alloca_once(builder, sums) for _ in range(BLOCK // lanes)]
        for total in totals:
            builder.store(ir.Constant(sums, None), total)
        with cgutils.for_range(builder, groups) as loop:
            at = builder.mul(loop.index, ir.Constant(word, GROUP))
            eight = builder.load(builder.inttoptr(builder.add(row, at), word.as_pointer()), align=1)
            first = builder.insert_element(ir.Constant(sums, ir.Undefined), eight, ir.Constant(ir.IntType(32), 0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), None)
            repeated = builder.bitcast(builder.shuffle_vector(first, first, zeros), vector)
            here = builder.add(block, builder.mul(at, ir.Constant(word, BLOCK)))
            for part, total in enumerate(totals):
                place = builder.add(here, ir.Constant(word, part * width))
                rows = builder.load(builder.inttoptr(place, vector.as_pointer()), align=1)
                builder.store(builder.add(builder.load(total), builder.call(psadbw, [rows, repeated])), total)
        for part, total in enumerate(totals):
            place = builder.add(out, ir.Constant(word, part * width))
            builder.store(builder.load(total), builder.inttoptr(place, sums.as_pointer()), align=1)
        return context.get_dummy_value()

    @intrinsic
    def call(_: Any, block: Any, row: Any, groups: Any, out: Any) -> Any:  # noqa: ARG001 (numba wants the names)
        return types.void(types.uintp, types.uintp, types.int64, types.uintp), generate

    return call


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


@njit(cache=True, parallel=True, fastmath=True)
def _f_leaves(codes: Any, twins: Any, leaves: Any, blocks: int, plane: Any, out: Any) -> None:
    for task in prange((len(leaves) + 7) // 8):
        d = plane.rows.shape[1]
        D, E = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
        X, Y = np.empty((BLOCK, d), np.float32), np.empty((BLOCK, d), np.float32)
        for i in range(8 * task, min(8 * task + 8, len(leaves))):
            for block in range(blocks):
                at, place = leaves[i] * blocks + block, block * BLOCK
                _f_block(codes[at], twins[at], plane, (D, E, X, Y), out[i, place : place + BLOCK])


def f_leaves(codes: Codes, leaves: NDArray[np.int64], blocks: int, plane: Plane, twins: Codes | None = None) -> Vectors:
    """F of every row of these leaves, (len(leaves), 16 · blocks); a leaf is so many blocks in a row.

    With `twins`, blocks of the same shape: f at the mean distance of a row and its twin.
    """
    out = np.empty((len(leaves), blocks * BLOCK), np.float32)
    _f_leaves(codes, codes if twins is None else twins, leaves, blocks, plane, out)
    return out


def spreads(upper: Codes, lower: Codes, leaves: NDArray[np.int64], plane: Plane) -> Vectors:
    """The standard deviation of f in these leaves, (m,), as the slope of f at their centres makes it.

    As if dimensions varied apart from each other inside a leaf: √Σ(∂f/∂xⱼ · σⱼ)².
    """
    out = np.empty(len(leaves), np.float32)
    _spreads(upper, lower, leaves, plane, out)
    return out


@njit(cache=True, parallel=True, fastmath=True)
def _spreads(upper: Any, lower: Any, leaves: Any, plane: Any, out: Any) -> None:
    for task in prange((len(leaves) + 63) // 64):
        d = plane.rows.shape[1]
        mean, deviation, soft = np.empty(d, np.float32), np.empty(d, np.float32), np.empty(d, np.float32)
        slope = np.empty(d, np.float32)
        for i in range(64 * task, min(64 * task + 64, len(leaves))):
            block, j = leaves[i] // BLOCK, leaves[i] % BLOCK
            for e in range(d):
                u, v = np.float32(upper[block, e // GROUP, j, e % GROUP]), lower[block, e // GROUP, j, e % GROUP]
                mean[e], deviation[e] = (u + v) / 2, (u - v) / 2
                soft[e] = 1 / (np.float32(1.57) * deviation[e] + np.float32(0.3))  # the mean of a normal's sign is soft
                slope[e] = 0
            for s in range(len(plane.a)):
                _add_slope(mean, deviation, soft, plane, s, slope)
            total = np.float32(0)
            for e in range(d):
                total += (slope[e] * np.float32(1.25) * deviation[e]) ** 2  # σ of a normal: 1.25 mean deviations
            out[i] = math.sqrt(total)


@njit(cache=True, fastmath=True)
def _add_slope(mean: Any, deviation: Any, soft: Any, plane: Any, s: int, slope: Any) -> None:
    """Add the slope of aₛK(x, s) at a leaf's centre."""
    row, table = plane.rows[s], plane.table
    t: Any = np.float32(0)
    if plane.mode == PRODUCT:
        t = _term(mean, row, PRODUCT) + plane.offsets[s]
        factor = plane.a[s] * (1 + 2 * plane.scale * t)
        for e in range(len(slope)):
            slope[e] += factor * row[e]
    elif plane.mode == L2:
        for e in range(len(slope)):
            t += (mean[e] - row[e]) ** 2 + deviation[e] ** 2
        low: Any = min(np.int64(math.sqrt(t) * plane.scale), len(table) - 2)
        factor = plane.a[s] * (table[low + 1] - table[low]) * plane.scale / max(math.sqrt(t), np.float32(1))
        for e in range(len(slope)):
            slope[e] += factor * (mean[e] - row[e])
    else:
        for e in range(len(slope)):
            t += max(abs(mean[e] - row[e]), deviation[e])
        low = min(np.int64(t) >> plane.shift, len(table) - 2)
        factor = plane.a[s] * (table[low + 1] - table[low]) / (1 << plane.shift)
        for e in range(len(slope)):
            slope[e] += factor * min(max((mean[e] - row[e]) * soft[e], np.float32(-1)), np.float32(1))


def in_blocks(rows: NDArray[np.uint8]) -> Codes:
    """Rows of bytes (n, d), n a multiple of 16 and d of 8, in blocks.

    >>> in_blocks(np.zeros((32, 24), np.uint8)).shape
    (2, 3, 16, 8)
    """
    n, d = rows.shape
    return np.ascontiguousarray(rows.reshape(n // BLOCK, BLOCK, d // GROUP, GROUP).swapaxes(1, 2))
