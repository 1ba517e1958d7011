"""Sums of absolute differences of bytes, by one instruction: what makes L1 distances of codes quick.

In: a block of 16 rows of bytes, (groups, 16, 8), and a row (groups · 8,). Out: 16 distances. So laid out, psadbw adds
up 8 differences of each of 8 rows at once; numba reaches it by its name in LLVM. Other processors have a plain loop.
"""

import platform
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
    64: ("avx512bw", "llvm.x86.avx512.psad.bw.512"),
    32: ("avx2", "llvm.x86.avx2.psad.bw"),
    16: ("sse2", "llvm.x86.sse2.psad.bw"),
}
"""By the bytes they take: the sum-of-absolute-differences instructions, and the processor's feature that has them."""


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
