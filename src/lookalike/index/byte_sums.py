"""Sums over the bytes of rows by single instructions: of |x − y|, for L1 distances of codes, and of x · y.

In: a block of 16 rows of bytes, (groups, 16, 8), and a row (groups · 8,). Out: 16 sums. So laid out, psadbw adds up 8
differences of each of 8 rows at once, pmaddubsw and pmaddwd 8 products in two halves; numba reaches them by their names
in LLVM. Other processors have plain loops.
"""

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import config as _config
from numba import njit, types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

cgutils: Any = _cgutils  # without types
config: Any = _config

BLOCK, GROUP = 16, 8
"""Rows of a block, dimensions of a group."""

INSTRUCTIONS = {
    64: ("avx512bw", "avx512.psad.bw.512", "avx512.pmaddubs.w.512", "avx512.pmaddw.d.512"),
    32: ("avx2", "avx2.psad.bw", "avx2.pmadd.ub.sw", "avx2.pmadd.wd"),
    16: ("ssse3", "sse2.psad.bw", "ssse3.pmadd.ub.sw.128", "sse2.pmadd.wd"),
}
"""By the bytes they take: the processor's feature that has them, and the instructions for differences and products."""

MOST = 64
"""Products are of bytes 0 … 255 with −MOST … MOST: two of them fit into 16 bits."""

_BYTE, _SHORT, _INT, _WORD = (ir.IntType(bits) for bits in (8, 16, 32, 64))


def widths() -> list[int]:
    """The widths of `INSTRUCTIONS` that this machine has, widest first; none on other processors than x86."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return []
    features: str = config.CPU_FEATURES or binding.get_host_cpu_features().flatten()
    return [width for width, (feature, *_) in INSTRUCTIONS.items() if f"+{feature}" in features.split(",")]


def make_sad(width: int | None) -> Any:
    """`sad(block, row, out)`: L1 distances of 16 rows (groups, 16, 8) to one (groups · 8,), to `out` (16,) uint64.

    `width` is one of `widths()`, or None for a plain loop.
    """
    if width is None:
        return _sad_plain

    def differences(builder: Any, rows: Any, repeated: Any) -> Any:
        return _call(builder, INSTRUCTIONS[width][1], ir.VectorType(_WORD, width // 8), rows, repeated)

    return _make_loop(width, differences, bits=64)


def make_dot(width: int | None) -> Any:
    """`dot(block, row, out)`: products of 16 rows with one (groups · 8,) int8, to `out` (16, 2) int32: in two halves.

    `width` as for `make_sad`; |row| ≤ `MOST`.
    """
    if width is None:
        return _dot_plain

    def products(builder: Any, rows: Any, repeated: Any) -> Any:
        shorts, ints = ir.VectorType(_SHORT, width // 2), ir.VectorType(_INT, width // 4)
        pairs = _call(builder, INSTRUCTIONS[width][2], shorts, rows, repeated)
        return _call(builder, INSTRUCTIONS[width][3], ints, pairs, ir.Constant(shorts, [1] * (width // 2)))

    return _make_loop(width, products, bits=32)


@njit
def _sad_plain(block: Any, row: Any, out: Any) -> None:
    out[:] = 0
    for g in range(block.shape[0]):
        for j in range(BLOCK):
            for e in range(GROUP):
                out[j] += abs(np.int32(block[g, j, e]) - np.int32(row[g * GROUP + e]))


@njit
def _dot_plain(block: Any, row: Any, out: Any) -> None:
    out[:] = 0
    for g in range(block.shape[0]):
        for j in range(BLOCK):
            for e in range(GROUP):
                out[j, 2 * e // GROUP] += np.int32(block[g, j, e]) * np.int32(row[g * GROUP + e])


def _call(builder: Any, name: str, result: Any, first: Any, second: Any) -> Any:
    kind = ir.FunctionType(result, [first.type, second.type])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), [first, second])


def _make_loop(width: int, combine: Callable[[Any, Any, Any], Any], bits: int) -> Any:
    """The loop over groups, with what `combine` makes of `width` bytes of rows and as many of the repeated row.

    Its sums are of so many `bits`.
    """
    call = _make_call(width, combine, bits)

    @njit(inline="always")
    def loop(block: Any, row: Any, out: Any) -> None:
        call(block.ctypes.data, row.ctypes.data, block.shape[0], out.ctypes.data)

    return loop


def _make_call(width: int, combine: Callable[[Any, Any, Any], Any], bits: int) -> Any:
    """The same on addresses."""
    lanes = width // GROUP
    vector, words = ir.VectorType(_BYTE, width), ir.VectorType(_WORD, lanes)
    sums = ir.VectorType(ir.IntType(bits), 8 * width // bits)

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        block, row, groups, out = args
        totals = [cgutils.alloca_once(builder, sums) for _ in range(BLOCK // lanes)]
        for total in totals:
            builder.store(ir.Constant(sums, None), total)
        with cgutils.for_range(builder, groups) as loop:
            at = builder.mul(loop.index, ir.Constant(_WORD, GROUP))
            eight = builder.load(builder.inttoptr(builder.add(row, at), _WORD.as_pointer()), align=1)
            first = builder.insert_element(ir.Constant(words, ir.Undefined), eight, ir.Constant(_INT, 0))
            zeros = ir.Constant(ir.VectorType(_INT, lanes), None)
            repeated = builder.bitcast(builder.shuffle_vector(first, first, zeros), vector)
            here = builder.add(block, builder.mul(at, ir.Constant(_WORD, BLOCK)))
            for part, total in enumerate(totals):
                place = builder.add(here, ir.Constant(_WORD, part * width))
                rows = builder.load(builder.inttoptr(place, vector.as_pointer()), align=1)
                builder.store(builder.add(builder.load(total), combine(builder, rows, repeated)), total)
        for part, total in enumerate(totals):
            place = builder.add(out, ir.Constant(_WORD, part * width))
            builder.store(builder.load(total), builder.inttoptr(place, sums.as_pointer()), align=1)
        return context.get_dummy_value()

    @intrinsic
    def call(_: Any, block: Any, row: Any, groups: Any, out: Any) -> Any:  # noqa: ARG001 (numba wants the names)
        return types.void(types.uintp, types.uintp, types.int64, types.uintp), generate

    return call
