"""Compiled code that several indexes share: a bounded heap and processor instructions.

numba takes a second to load, so modules that do not need it do not import this one. `count_ones`, `prefetch` and the
loops of `make_sad` and `make_ssd` are called from other compiled functions. numba does not expose their instructions,
so they are emitted as LLVM intrinsics, by name.
"""

import platform
from collections.abc import Callable
from typing import Any

import numpy as np

from lookalike.compiler import binding, cgutils, config, intrinsic, ir, njit, types

BLOCK, GROUP = 16, 8
"""Rows of a block and dimensions of a group, in the layout that `make_sad` and `make_ssd` read."""

INSTRUCTIONS = {
    64: ("avx512bw", "avx512.psad.bw.512", "avx512.pmaddw.d.512"),
    32: ("avx2", "avx2.psad.bw", "avx2.pmadd.wd"),
    16: ("sse2", "sse2.psad.bw", "sse2.pmadd.wd"),
}
"""Width in bytes: the CPU feature, the instruction for sums of differences and the one for sums of products."""

_ANY_ORDER = {"reassoc", "contract", "nsz"}
"""Fast-math flags: sums in any order, but infinities and NaN keep their meaning."""

_BYTE, _SHORT, _INT, _WORD = (ir.IntType(bits) for bits in (8, 16, 32, 64))


@njit(cache=True, inline="always")
def is_before(score: Any, item: Any, other_score: Any, other_item: Any) -> Any:
    """Whether a hit ranks before another, by score, then by id."""
    return score < other_score or (score == other_score and item < other_item)


@njit(cache=True, nogil=True)
def push(scores: Any, ids: Any, size: Any, score: Any, item: Any) -> Any:
    """Push a hit into a heap of at most len(ids) hits, the worst on top; return the new size."""
    k = len(ids)
    if size < k:
        at = size
        while at > 0:
            above = (at - 1) >> 1
            if is_before(score, item, scores[above], ids[above]):
                break
            scores[at], ids[at] = scores[above], ids[above]
            at = above
        scores[at], ids[at] = score, item
        return size + 1
    if not is_before(score, item, scores[0], ids[0]):
        return size
    at = 0
    while 2 * at + 1 < k:
        below = 2 * at + 1
        if below + 1 < k and is_before(scores[below], ids[below], scores[below + 1], ids[below + 1]):
            below += 1
        if is_before(scores[below], ids[below], score, item):
            break
        scores[at], ids[at] = scores[below], ids[below]
        at = below
    scores[at], ids[at] = score, item
    return size


def _count_ones(_: Any, x: Any) -> Any:  # noqa: ARG001 — numba requires the name
    """The number of 1 bits of a uint64."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), generate


count_ones: Any = intrinsic(_count_ones)


def _prefetch(_: Any, address: Any) -> Any:  # noqa: ARG001
    """Request the cache line at an address without waiting for it."""
    byte = _BYTE.as_pointer()

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT, _INT, _INT])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data = (ir.Constant(_INT, value) for value in (0, 3, 1))
        builder.call(call, [builder.inttoptr(args[0], byte), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.uintp), generate


prefetch: Any = intrinsic(_prefetch)


def widths() -> list[int]:
    """The widths of `INSTRUCTIONS` that this machine supports, widest first; empty on processors other than x86."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return []
    features: str = config.CPU_FEATURES or binding.get_host_cpu_features().flatten()
    return [width for width, (feature, *_) in INSTRUCTIONS.items() if f"+{feature}" in features.split(",")]


def make_sad(width: int | None) -> Any:
    """Compile `sad(block, row, out)`: L1 distances of 16 rows of bytes, (groups, 16, 8), to one, (groups · 8,).

    `out` is (16,) uint64. `width` is one of `widths()`, or None for a plain loop. In this layout, one psadbw adds up 8
    differences of several rows.
    """
    if width is None:
        return _sad_plain

    def differences(builder: Any, rows: Any, repeated: Any) -> Any:
        return _call(builder, INSTRUCTIONS[width][1], ir.VectorType(_WORD, width // 8), rows, repeated)

    return _make_loop(width, differences, bits=64)


def make_ssd(width: int | None) -> Any:
    """Compile `ssd(block, row, out)`: squared L2 distances of 16 rows of bytes, (groups, 16, 8), to one, (groups · 8,).

    `out` is (16, 2) int32, in two halves. `width` as for `make_sad`.
    """
    if width is None:
        return _ssd_plain

    def squares(builder: Any, rows: Any, repeated: Any) -> Any:
        # One of the saturated differences is |row - repeated|, the other 0.
        name, kind = f"llvm.usub.sat.v{width}i8", ir.FunctionType(rows.type, [rows.type, rows.type])
        subtract = cgutils.get_or_insert_function(builder.module, kind, name)
        far = builder.or_(builder.call(subtract, [rows, repeated]), builder.call(subtract, [repeated, rows]))
        shorts, ints = ir.VectorType(_SHORT, width // 2), ir.VectorType(_INT, width // 4)
        pairs = builder.bitcast(far, shorts)
        even = builder.and_(pairs, ir.Constant(shorts, [255] * (width // 2)))
        odd = builder.lshr(pairs, ir.Constant(shorts, [8] * (width // 2)))
        return builder.add(*(_call(builder, INSTRUCTIONS[width][2], ints, part, part) for part in (even, odd)))

    return _make_loop(width, squares, bits=32)


@njit
def _sad_plain(block: Any, row: Any, out: Any) -> None:
    out[:] = 0
    for g in range(block.shape[0]):
        for j in range(BLOCK):
            for e in range(GROUP):
                out[j] += abs(np.int32(block[g, j, e]) - np.int32(row[g * GROUP + e]))


@njit
def _ssd_plain(block: Any, row: Any, out: Any) -> None:
    out[:] = 0
    for g in range(block.shape[0]):
        for j in range(BLOCK):
            for e in range(GROUP):
                far = np.int32(block[g, j, e]) - np.int32(row[g * GROUP + e])
                out[j, 2 * e // GROUP] += far * far


def _call(builder: Any, name: str, result: Any, first: Any, second: Any) -> Any:
    kind = ir.FunctionType(result, [first.type, second.type])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), [first, second])


def _make_loop(width: int, combine: Callable[[Any, Any, Any], Any], bits: int) -> Any:
    """Compile the loop over groups that adds up `combine` of rows and the repeated row, in sums of `bits`."""
    call = _make_call(width, combine, bits)

    @njit(inline="always")
    def loop(block: Any, row: Any, out: Any) -> None:
        call(block.ctypes.data, row.ctypes.data, block.shape[0], out.ctypes.data)

    return loop


def _make_call(width: int, combine: Callable[[Any, Any, Any], Any], bits: int) -> Any:
    """The loop of `_make_loop`, on addresses."""
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
    def call(_: Any, block: Any, row: Any, groups: Any, out: Any) -> Any:  # noqa: ARG001
        return types.void(types.uintp, types.uintp, types.int64, types.uintp), generate

    return call
