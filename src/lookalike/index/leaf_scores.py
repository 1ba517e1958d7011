"""Hyperplane scores of rows that are stored as bytes: the numeric part of `Leaves`.

f is the sum in Eq. 3, fsm-tree, divided by ‖w‖:

    f_leaves   f of every row up to the rounding to bytes, by comparing it with every support vector
    spreads    the spread of f in a set of rows, from its slope at the centre, without reading rows

Codes are (blocks, groups, 16, 8) uint8: 16 rows per block, 8 dimensions per group, as `compiled.make_sad` reads them.
`Steps` turns rows into bytes, and a query into a `Plane` in the units of these bytes.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.compiler import njit
from lookalike.index.compiled import BLOCK, GROUP, make_sad, make_ssd, widths
from lookalike.index.queries import HyperplaneQuery
from lookalike.index.threads import share
from lookalike.kernels import check_kernel
from lookalike.types import Vectors

L1, L2, SQUARED, PRODUCT = range(4)
"""The argument of a kernel: ‖x − s‖₁, ‖x − s‖₂ or ‖x − s‖₂², all by a table, or x·s, as t + γt²."""

TABLE = {L1: 8_192, L2: 8_192, SQUARED: 32_768}
"""Approximate number of entries of a table of kernel values. Those that are used fit into the first-level cache,
because squared distances of rows are far below the largest possible one."""

OUTSIDE = 0.0005
"""Share of a dimension's values, at either end, that are clipped."""

LEAST_ROWS = 1_024
"""Minimum number of rows per thread."""

PRODUCT_BYTES = 8 * 2**20
"""Size of the rows as floats and their products that are held at a time: they stay in the caches."""

AT_ONCE = 4
"""Support vectors that share a pass over the dimensions."""

Codes = NDArray[np.uint8]
"""(blocks, groups, 16, 8)."""

_sad = make_sad(next(iter(widths()), None))
_ssd = make_ssd(next(iter(widths()), None))


class Plane(NamedTuple):
    """A hyperplane f(x) = Σ aᵢK(x, sᵢ) + b, in the units of the codes."""

    mode: int
    bytes: NDArray[np.uint8]  # (m, d padded) the support vectors as codes, for distances
    rows: Vectors  # (m, d padded) the support vectors as floats in the units of the codes
    a: Vectors  # (m,)
    b: float
    table: Vectors  # K by distance: L1 or SQUARED >> shift, or L2 · scale
    shift: int
    scale: float  # for PRODUCT: γ
    offsets: Vectors  # (m,) the part of x·s that does not depend on x, for PRODUCT


@dataclass(frozen=True, slots=True)
class Steps:
    """Rows as bytes with the same step size in every dimension: distances of codes are distances of rows, in steps.

    >>> steps = Steps.of(np.array([[0.0, 5.0], [255.0, 5.0]], np.float32))
    >>> steps.encode(np.array([[7.2, 5.0], [250.9, 5.0]], np.float32))[:, 0].tolist()
    [7, 251]
    """

    low: Vectors  # (d,) the value of byte 0
    step: float

    @classmethod
    def of(cls, sample: Vectors) -> "Steps":
        """Choose steps that cover nearly all values of a sample (n, d)."""
        first, last = np.quantile(sample, [OUTSIDE, 1 - OUTSIDE], axis=0)  # (d,) each
        step = float((last - first).max(initial=0.0)) / 255 or 1.0
        return cls(((first + last) / 2 - 127.5 * step).astype(np.float32), step)

    @property
    def wide(self) -> int:
        """d, padded to whole groups."""
        return len(self.low) + -len(self.low) % GROUP

    def encode(self, X: Vectors) -> NDArray[np.uint8]:
        """Convert rows (n, d) to bytes (n, d padded with zeros)."""
        codes = np.zeros((len(X), self.wide), np.uint8)
        codes[:, : len(self.low)] = np.clip(np.rint((X - self.low) / self.step), 0, 255)
        return codes

    def plane(self, query: HyperplaneQuery) -> Plane:
        """Convert a query to these steps."""
        kernel = check_kernel(query.kernel, query.gamma)
        X, a, d = query.X, query.a / query.length, len(self.low)
        if query.kernel == "linear":  # the sum of the support vectors is one vector
            X, a = (a @ X.astype(np.float64))[None, :].astype(np.float32), np.ones(1)
        near, rows = np.zeros((len(X), self.wide), np.uint8), np.zeros((len(X), self.wide), np.float32)
        table, shift, scale, offsets = np.zeros(2, np.float32), 0, 0.0, np.zeros(len(X), np.float32)
        if kernel.norm is None:
            mode = PRODUCT
            rows[:, :d] = X * self.step
            offsets = (X.astype(np.float64) @ self.low).astype(np.float32)
            scale = query.gamma if query.kernel == "poly" else 0.0
        else:
            near = self.encode(X)
            rows[:] = near
        if kernel.norm == 1 or query.kernel == "gaussian":  # the others change fast where the distance is 0
            mode, most = (L1, 255 * d) if kernel.norm == 1 else (SQUARED, 255**2 * d)
            shift = max(0, most // TABLE[mode]).bit_length()
            # The middles of the distances that share an entry.
            middles = np.arange((most >> shift) + 1) * 2.0**shift + (2**shift - 1) / 2
            table = _by_distance(query, (middles if mode == L1 else np.sqrt(middles)) * self.step)
        elif kernel.norm == 2:
            mode = L2
            scale = TABLE[L2] / float(255 * np.sqrt(d))
            table = _by_distance(query, (np.arange(TABLE[L2] + 2) + 0.5) / scale * self.step)
        b = float(np.float32(query.b / query.length))
        return Plane(mode, near, rows, a.astype(np.float32), b, table, shift, float(np.float32(scale)), offsets)


def f_leaves(codes: Codes, leaves: NDArray[np.int64], blocks: int, plane: Plane, twins: Codes | None = None) -> Vectors:
    """f of every row of these leaves, (len(leaves), 16 · blocks); a leaf is `blocks` consecutive blocks.

    With `twins`, codes of the same shape, it is f at the mean of the distances of a row and its twin.
    """
    out = np.empty((len(leaves), blocks * BLOCK), np.float32)
    if plane.mode == PRODUCT:
        _by_products(codes, leaves, blocks, plane, twins, out.reshape(-1, BLOCK))
        return out
    codes = _read_only(codes)
    pairs = codes if twins is None else _read_only(twins)

    def work(start: int, stop: int) -> None:
        _f_leaves(codes, pairs, leaves[start:stop], blocks, plane, out[start:stop])

    share(work, len(leaves), least=LEAST_ROWS // (blocks * BLOCK))
    return out


def in_blocks(rows: NDArray[np.uint8]) -> Codes:
    """Arrange rows of bytes (n, d) in blocks; n must be a multiple of 16, d of 8.

    >>> in_blocks(np.zeros((32, 24), np.uint8)).shape
    (2, 3, 16, 8)
    """
    n, d = rows.shape
    return np.ascontiguousarray(rows.reshape(n // BLOCK, BLOCK, d // GROUP, GROUP).swapaxes(1, 2))


def spreads(upper: Codes, lower: Codes, sets: NDArray[np.int64], plane: Plane) -> Vectors:
    """Standard deviation of f in sets of rows, (m,), assuming independent dimensions: √Σ(∂f/∂xⱼ · σⱼ)².

    A set is given by the codes of its mean plus and minus its mean deviation.
    """
    out, upper, lower = np.empty(len(sets), np.float32), _read_only(upper), _read_only(lower)
    padded = np.append(plane.rows, np.zeros((-len(plane.rows) % AT_ONCE, plane.rows.shape[1]), np.float32), axis=0)

    def work(start: int, stop: int) -> None:
        _spreads(upper, lower, sets[start:stop], plane, padded, out[start:stop])

    share(work, len(sets), least=64)
    return out


def _read_only(codes: Codes) -> Codes:
    """A read-only view, like the arrays of a mapped file: numba compiles each loop only once."""
    codes = codes.view()
    codes.flags.writeable = False
    return codes


def _by_distance(query: HyperplaneQuery, distances: NDArray[Any]) -> Vectors:
    """The kernel's values at these distances, computed for points on a line, where all norms are equal."""
    pairs = check_kernel(query.kernel, query.gamma).pairs
    table: Vectors = pairs(distances[:, None], np.zeros((1, 1)), query.gamma)[:, 0].astype(np.float32)
    return table


def _by_products(
    codes: Codes, leaves: NDArray[np.int64], blocks: int, plane: Plane, twins: Codes | None, out: Vectors
) -> None:
    """Compute `f_leaves` by a matrix product; write it to `out` (all blocks, 16)."""
    places = (leaves[:, None] * blocks + np.arange(blocks)).ravel()
    m, d = plane.rows.shape
    for part in chunks(len(places), row_bytes=4 * BLOCK * (d + m), max_bytes=PRODUCT_BYTES):
        terms = _products(codes[places[part]], plane)  # (16 · blocks, m)
        if twins is not None:
            terms += _products(twins[places[part]], plane)
            terms *= 0.5
        terms += plane.offsets
        terms += np.float32(plane.scale) * terms * terms
        out[part] = (terms @ plane.a + np.float32(plane.b)).reshape(-1, BLOCK)


def _products(blocks: Codes, plane: Plane) -> Vectors:
    """x·s of the rows of blocks and the support vectors, (16 · blocks, m)."""
    rows = blocks.swapaxes(1, 2).reshape(-1, plane.rows.shape[1]).astype(np.float32)
    return rows @ plane.rows.T


@njit(cache=True, fastmath=True)
def _f_l1(block: Any, twin: Any, plane: Any, D: Any, E: Any, out: Any) -> None:
    """Add Σ aᵢK of 16 rows to `out` (16,), for L1; if `twin` is another block, at the mean of both distances."""
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
            out[j] += a * plane.table[D[j] >> shift]  # unsigned: no check for a negative index


@njit(cache=True, fastmath=True)
def _f_l2(block: Any, twin: Any, plane: Any, D: Any, E: Any, out: Any) -> None:
    """As `_f_l1` for L2 and SQUARED, at the mean of both squared distances."""
    both = twin.ctypes.data != block.ctypes.data
    scale, shift = np.float32(plane.scale), np.uint32(plane.shift)
    for i in range(len(plane.a)):
        _ssd(block, plane.bytes[i], D)
        if both:
            _ssd(twin, plane.bytes[i], E)
            for j in range(BLOCK):
                D[j, 0] = (D[j, 0] + D[j, 1] + E[j, 0] + E[j, 1]) >> 1
                D[j, 1] = 0
        a = plane.a[i]
        if plane.mode == SQUARED:
            for j in range(BLOCK):
                out[j] += a * plane.table[np.uint32(D[j, 0] + D[j, 1]) >> shift]
        else:
            for j in range(BLOCK):
                far = math.sqrt(np.float32(D[j, 0] + D[j, 1])) * scale
                out[j] += a * plane.table[np.uint32(far)]


@njit(cache=True, fastmath=True, nogil=True)
def _f_leaves(codes: Any, twins: Any, leaves: Any, blocks: int, plane: Any, out: Any) -> None:
    D, E = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    P, Q = np.empty((BLOCK, 2), np.int32), np.empty((BLOCK, 2), np.int32)
    for i in range(len(leaves)):
        for block in range(blocks):
            at, place = leaves[i] * blocks + block, block * BLOCK
            f = out[i, place : place + BLOCK]
            f[:] = plane.b
            if plane.mode == L1:
                _f_l1(codes[at], twins[at], plane, D, E, f)
            else:
                _f_l2(codes[at], twins[at], plane, P, Q, f)


@njit(cache=True, fastmath=True, nogil=True)
def _spreads(upper: Any, lower: Any, sets: Any, plane: Any, rows: Any, out: Any) -> None:
    d = rows.shape[1]
    mean, deviation, soft = np.empty(d, np.float32), np.empty(d, np.float32), np.empty(d, np.float32)
    factors, slope = np.zeros(len(rows), np.float32), np.empty(d, np.float32)
    for i in range(len(sets)):
        block, j = sets[i] // BLOCK, sets[i] % BLOCK
        for e in range(d):
            u = np.float32(upper[block, e // GROUP, j, e % GROUP])
            v = np.float32(lower[block, e // GROUP, j, e % GROUP])
            mean[e], deviation[e] = (u + v) / np.float32(2), (u - v) / np.float32(2)
            # For normal x, the mean sign of x − s is nearly linear in s up to 1.57 mean deviations.
            soft[e] = np.float32(1) / (np.float32(1.57) * deviation[e] + np.float32(0.3))
            slope[e] = 0
        _factors(mean, deviation, plane, factors)
        for s in range(0, len(rows), AT_ONCE):
            if plane.mode == L1:
                _add_signs(mean, soft, rows[s : s + AT_ONCE], factors[s : s + AT_ONCE], slope)
            else:
                _add_rows(mean, rows[s : s + AT_ONCE], factors[s : s + AT_ONCE], plane.mode != PRODUCT, slope)
        total = np.float32(0)
        for e in range(d):
            step = slope[e] * np.float32(1.25) * deviation[e]  # σ of a normal: 1.25 mean deviations
            total += step * step
        out[i] = math.sqrt(total)


@njit(cache=True, fastmath=True, nogil=True)
def _factors(mean: Any, deviation: Any, plane: Any, out: Any) -> None:
    """Slope of each aₛK(x, s) by its argument, at a centre. Distances are separate functions so they vectorise."""
    table, last = plane.table, len(plane.table) - 2
    for s in range(len(plane.a)):
        if plane.mode == L1:
            low: Any = min(np.int64(_mean_l1(mean, deviation, plane.rows[s])) >> plane.shift, last)
            out[s] = plane.a[s] * (table[low + 1] - table[low]) / (1 << plane.shift)
        elif plane.mode == L2:
            length: Any = max(math.sqrt(_mean_l2(mean, deviation, plane.rows[s])), np.float32(1))
            low = min(np.int64(length * plane.scale), last)
            out[s] = plane.a[s] * (table[low + 1] - table[low]) * plane.scale / length
        elif plane.mode == SQUARED:
            low = min(np.int64(_mean_l2(mean, deviation, plane.rows[s])) >> plane.shift, last)
            out[s] = plane.a[s] * 2 * (table[low + 1] - table[low]) / (1 << plane.shift)
        else:
            t = _product(mean, plane.rows[s]) + plane.offsets[s]
            out[s] = plane.a[s] * (1 + 2 * plane.scale * t)


@njit(cache=True, fastmath=True, nogil=True)
def _mean_l1(mean: Any, deviation: Any, row: Any) -> Any:
    """Approximate mean L1 distance of the rows of a set to a row; in float32, because float64 would halve the speed."""
    t = np.float32(0)
    for e in range(len(mean)):
        t += max(abs(mean[e] - row[e]), deviation[e])
    return t


@njit(cache=True, fastmath=True, nogil=True)
def _mean_l2(mean: Any, deviation: Any, row: Any) -> Any:
    """Approximate mean squared L2 distance of the rows of a set to a row."""
    t = np.float32(0)
    for e in range(len(mean)):
        x = mean[e] - row[e]
        t += x * x + deviation[e] * deviation[e]
    return t


@njit(cache=True, fastmath=True, nogil=True)
def _product(mean: Any, row: Any) -> Any:
    t = np.float32(0)
    for e in range(len(mean)):
        t += mean[e] * row[e]
    return t


@njit(inline="always")
def _sign(x: Any) -> Any:
    return min(max(x, np.float32(-1)), np.float32(1))


@njit(cache=True, fastmath=True, nogil=True)
def _add_signs(mean: Any, soft: Any, rows: Any, factors: Any, slope: Any) -> None:
    """Add the slopes of four support vectors, for L1."""
    p, q, r, s = rows[0], rows[1], rows[2], rows[3]
    f, g, h, i = factors[0], factors[1], factors[2], factors[3]
    for e in range(len(slope)):
        x, w = mean[e], soft[e]
        near = f * _sign((x - p[e]) * w) + g * _sign((x - q[e]) * w)
        slope[e] += near + h * _sign((x - r[e]) * w) + i * _sign((x - s[e]) * w)


@njit(cache=True, fastmath=True, nogil=True)
def _add_rows(mean: Any, rows: Any, factors: Any, difference: bool, slope: Any) -> None:
    """Add the slopes of support vectors: along x − s for L2 and SQUARED, along s for products."""
    for j in range(len(rows)):
        row, f = rows[j], factors[j]
        if difference:
            for e in range(len(slope)):
                slope[e] += f * (mean[e] - row[e])
        else:
            for e in range(len(slope)):
                slope[e] += f * row[e]
