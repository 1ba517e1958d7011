"""Hyperplane scores of rows that are stored as bytes: the numeric part of `Leaves`.

f is the sum in Eq. 3, fsm-tree, divided by ‖w‖. There are three ways to compute it, from exact (up to the rounding to
bytes) to cheap:

    f_leaves, f_rows          f of every row, by comparing it with every support vector
    f_by_slope, f_of_leaves   approximate f, from its slope at the mean of a leaf: one product per row
    spreads                   the spread of f in a set of rows, from its slope at the centre, without reading rows

Codes are (blocks, groups, 16, 8) uint8: 16 rows per block, 8 dimensions per group, as `compiled.make_sad` reads them.
`Steps` turns rows into bytes, and a query into a `Plane` in the units of these bytes.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.compiler import njit
from lookalike.index.compiled import BLOCK, GROUP, MAX_FACTOR, make_dot, make_sad, widths
from lookalike.index.queries import HyperplaneQuery
from lookalike.index.threads import share
from lookalike.kernels import check_kernel
from lookalike.types import Vectors

L1, L2, PRODUCT = 0, 1, 2
"""The argument of a kernel: ‖x − s‖₁ or ‖x − s‖₂, both by a table, or x·s, as t + γt²."""

TABLE = 8_192
"""Approximate number of entries of a table of kernel values, which fits into the first-level cache."""

OUTSIDE = 0.0005
"""Share of a dimension's values, at either end, that are clipped."""

LEAST_ROWS = 1_024
"""Minimum number of rows per thread."""

PRODUCT_BYTES = 8 * 2**20
"""Size of the rows as floats and their products that are held at a time: they stay in the caches."""

MIDDLE = np.float32(127.5)
"""The middle of the bytes."""

PROBES = 2
"""Number of rows of a leaf, the farthest from its mean, whose f is computed in full to measure the error."""

DISTANCE_UNIT = 4_096
"""Squared distances from the mean of a leaf are stored in this fraction of their mean."""

AT_ONCE = 4
"""Support vectors that share a pass over the dimensions."""

Codes = NDArray[np.uint8]
"""(blocks, groups, 16, 8)."""

_sad = make_sad(next(iter(widths()), None))
_dot = make_dot(next(iter(widths()), None))


class Plane(NamedTuple):
    """A hyperplane f(x) = Σ aᵢK(x, sᵢ) + b, in the units of the codes."""

    mode: int
    bytes: NDArray[np.uint8]  # (m, d padded) the support vectors as codes, for L1
    rows: Vectors  # (m, d padded) the support vectors as floats in the units of the codes
    a: Vectors  # (m,)
    b: float
    table: Vectors  # K by distance: L1 >> shift, or L2 · scale
    shift: int
    scale: float  # for PRODUCT: γ
    offsets: Vectors  # (m,) the part of x·s that does not depend on x, for PRODUCT
    smooth: bool  # whether K is smooth at x = s, like the Gaussian: then f is nearly linear in a leaf


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
        elif kernel.norm == 1:
            mode, most = L1, 255 * d
            near = self.encode(X)
            rows[:] = near
            shift = max(0, most // TABLE).bit_length()
            # The middles of the distances that share an entry.
            middles = np.arange((most >> shift) + 1) * 2.0**shift + (2**shift - 1) / 2
            table = _by_distance(query, middles * self.step)
        else:
            mode = L2
            rows[:, :d] = (X - self.low) / self.step
            reach = float(np.sqrt((np.maximum(np.abs(rows), np.abs(rows - 255)) ** 2).sum(1).max(initial=1.0)))
            scale = TABLE / reach
            table = _by_distance(query, np.arange(TABLE + 2) / scale * self.step)
        b = float(np.float32(query.b / query.length))
        smooth = query.kernel == "gaussian"
        return Plane(mode, near, rows, a.astype(np.float32), b, table, shift, float(np.float32(scale)), offsets, smooth)


def f_leaves(codes: Codes, leaves: NDArray[np.int64], blocks: int, plane: Plane, twins: Codes | None = None) -> Vectors:
    """f of every row of these leaves, (len(leaves), 16 · blocks); a leaf is `blocks` consecutive blocks.

    With `twins`, codes of the same shape, it is f at the mean of the distances of a row and its twin.
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
    """f of rows of bytes (n, d), (n,), by a matrix product; not for L1 kernels."""
    out = np.empty(len(rows), np.float32)
    m, d = plane.rows.shape
    for part in chunks(len(rows), row_bytes=4 * (d + m), max_bytes=PRODUCT_BYTES):
        _add_up(_terms(rows[part], plane), plane, out[part])
    return out


def rows_at(codes: Codes, places: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Single rows, (m, d), by their places."""
    return codes[places // BLOCK, :, places % BLOCK].reshape(len(places), codes.shape[1] * GROUP)


def in_blocks(rows: NDArray[np.uint8]) -> Codes:
    """Arrange rows of bytes (n, d) in blocks; n must be a multiple of 16, d of 8.

    >>> in_blocks(np.zeros((32, 24), np.uint8)).shape
    (2, 3, 16, 8)
    """
    n, d = rows.shape
    return np.ascontiguousarray(rows.reshape(n // BLOCK, BLOCK, d // GROUP, GROUP).swapaxes(1, 2))


class Shape(NamedTuple):
    """The distribution of the rows of each leaf around their mean."""

    mean: NDArray[np.uint8]  # (leaves, d), rounded
    width: Vectors  # (leaves,) the mean of ‖x − mean‖²
    distance: NDArray[np.uint16]  # (places,) ‖x − mean‖² / width, in units of 1 / `DISTANCE_UNIT`
    probes: NDArray[np.int64]  # (leaves, PROBES) the places of the rows farthest from the mean

    @classmethod
    def of(cls, codes: Codes, size: int) -> Self:
        """Compute the shape of leaves of `size` rows."""
        leaves = len(codes) * BLOCK // size
        made = cls(
            np.empty((leaves, codes.shape[1] * codes.shape[3]), np.uint8),
            np.empty(leaves, np.float32),
            np.empty(leaves * size, np.uint16),
            np.empty((leaves, PROBES), np.int64),
        )

        def work(start: int, stop: int) -> None:
            for part in chunks(stop - start, row_bytes=8 * size * made.mean.shape[1], max_bytes=2**22):
                here = slice(start + part.start, start + part.stop)
                blocks = codes[here.start * size // BLOCK : here.stop * size // BLOCK]
                rows = blocks.swapaxes(1, 2).reshape(-1, size, made.mean.shape[1]).astype(np.float32)
                made.mean[here] = np.rint(rows.mean(axis=1))
                rows -= made.mean[here, None]
                squares = np.vecdot(rows, rows)  # (m, size)
                made.width[here] = np.maximum(squares.mean(axis=1), 1)
                ratios = DISTANCE_UNIT * squares / made.width[here, None]
                made.distance[here.start * size : here.stop * size] = np.minimum(np.rint(ratios), 2**16 - 1).ravel()
                farthest = np.argpartition(squares, -PROBES, axis=1)[:, -PROBES:]  # (m, PROBES)
                made.probes[here] = np.arange(here.start, here.stop)[:, None] * size + farthest

        share(work, leaves, least=64)
        return made


def f_by_slope(
    codes: Codes, shape: Shape, leaves: NDArray[np.int64], blocks: int, plane: Plane
) -> tuple[Vectors, Vectors]:
    """Approximate f of every row of these leaves, (m, 16 · blocks), and the standard error of each.

    Let wₛ be the derivative of aₛK with respect to the squared distance, at its mean dₛ in the leaf. Then f(x) ≈ f₀ +
    Σ wₛ(‖x − s‖² − dₛ): a constant, a slope along x and one along ‖x − mean‖². The error, which is measured in each
    leaf, grows with the squared distance from the mean. It can be larger only close to a support vector, so leaves that
    can contain one are scored in full.
    """
    size = blocks * BLOCK
    out, doubt = np.empty((2, len(leaves), size), np.float32)
    near = np.empty(len(leaves), np.bool_)
    n_vectors, d = plane.rows.shape
    for part in chunks(len(leaves), row_bytes=4 * (3 * d + (2 + PROBES) * n_vectors), max_bytes=PRODUCT_BYTES):
        some, f, off, probes = leaves[part], out[part], doubt[part], shape.probes[leaves[part]]
        slopes, nearest = _slopes(shape.mean[some], shape.width[some], plane)
        near[part] = nearest <= shape.distance[probes].max(axis=1) / np.float32(DISTANCE_UNIT) * shape.width[some]

        def work(start: int, stop: int, some: Any = some, slopes: Any = slopes, f: Any = f, off: Any = off) -> None:
            here = _Slopes(*(column[start:stop] for column in slopes))
            _scan_slopes(codes, shape.distance, some[start:stop], blocks, here, f[start:stop], off[start:stop])

        share(work, len(some), least=16)
        truth = f_rows(rows_at(codes, probes.ravel()), plane).reshape(-1, PROBES)
        row = np.arange(len(some))[:, None]
        errors = np.square((f[row, probes % size] - truth) / off[row, probes % size])
        off *= np.sqrt(np.maximum(errors.max(axis=1), np.median(errors)))[:, None]
    full = np.flatnonzero(near)
    out[full], doubt[full] = f_leaves(codes, leaves[full], blocks, plane), 0
    return out, doubt


def f_of_leaves(shape: Shape, leaves: NDArray[np.int64], plane: Plane) -> Vectors:
    """Approximate mean of f in each of these leaves, (m,)."""
    out = np.empty(len(leaves), np.float32)
    n_vectors, d = plane.rows.shape
    for part in chunks(len(out), row_bytes=4 * (d + n_vectors), max_bytes=PRODUCT_BYTES):
        _, _, terms = _mean_squares(shape.mean[leaves[part]], shape.width[leaves[part]], plane)
        _weigh_all(terms, plane, out[part])
    return out


def spreads(upper: Codes, lower: Codes, sets: NDArray[np.int64], plane: Plane) -> Vectors:
    """Standard deviation of f in sets of rows, (m,), assuming independent dimensions: √Σ(∂f/∂xⱼ · σⱼ)².

    A set is given by the codes of its mean plus and minus its mean deviation.
    """
    out = np.empty(len(sets), np.float32)
    padded = np.append(plane.rows, np.zeros((-len(plane.rows) % AT_ONCE, plane.rows.shape[1]), np.float32), axis=0)

    def work(start: int, stop: int) -> None:
        _spreads(upper, lower, sets[start:stop], plane, padded, out[start:stop])

    share(work, len(sets), least=64)
    return out


def _by_distance(query: HyperplaneQuery, distances: NDArray[np.float64]) -> Vectors:
    """The kernel's values at these distances, computed for points on a line, where all norms are equal."""
    pairs = check_kernel(query.kernel, query.gamma).pairs
    table: Vectors = pairs(distances[:, None], np.zeros((1, 1)), query.gamma)[:, 0].astype(np.float32)
    return table


def _squared_distances(X: Vectors, S: Vectors, lengths: Vectors) -> Vectors:
    """‖x − s‖² of rows X (n, d) and S (m, d), (n, m), from ‖x‖², `lengths` (n,)."""
    terms: Vectors = X @ (-2 * S.T)
    terms += lengths[:, None]
    terms += np.vecdot(S, S)
    return terms


def _by_products(
    codes: Codes, leaves: NDArray[np.int64], blocks: int, plane: Plane, twins: Codes | None, out: Vectors
) -> None:
    """Compute `f_leaves` by a matrix product; write it to `out` (all blocks, 16)."""
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
    X -= MIDDLE  # shorter rows have smaller rounding errors
    return _squared_distances(X, plane.rows - MIDDLE, np.vecdot(X, X))


@njit(cache=True, fastmath=True)
def _f_block(block: Any, twin: Any, plane: Any, D: Any, E: Any, out: Any) -> None:
    """Write f of 16 rows to `out` (16,), for L1; if `twin` is another block, f at the mean of both distances."""
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
            out[j] += a * plane.table[D[j] >> shift]  # unsigned: no check for a negative index


@njit(cache=True, fastmath=True, nogil=True)
def _f_leaves(codes: Any, twins: Any, leaves: Any, blocks: int, plane: Any, out: Any) -> None:
    D, E = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    for i in range(len(leaves)):
        for block in range(blocks):
            at, place = leaves[i] * blocks + block, block * BLOCK
            _f_block(codes[at], twins[at], plane, D, E, out[i, place : place + BLOCK])


@njit(cache=True, fastmath=True, nogil=True)
def _f_terms(terms: Any, plane: Any, out: Any) -> None:
    """Write f, computed from ‖x − s‖² or x·s, terms (n, m), to `out` (n,)."""
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


class _Slopes(NamedTuple):
    """f ≈ level + unit · (x·along) + curve · ‖x − mean‖² / width; one row per leaf."""

    level: Vectors  # (m,)
    unit: Vectors  # (m,)
    along: NDArray[np.int8]  # (m, d)
    curve: Vectors  # (m,)


def _mean_squares(mean: NDArray[np.uint8], width: Vectors, plane: Plane) -> tuple[Vectors, Vectors, Vectors]:
    """Means of leaves X (m, d) and support vectors S (v, d), both centred, and mean ‖x − s‖², (m, v)."""
    X = mean.astype(np.float32) - MIDDLE
    S = plane.rows - MIDDLE
    return X, S, _squared_distances(X, S, np.vecdot(X, X) + width)


def _weigh_all(terms: Vectors, plane: Plane, level: Vectors) -> None:
    share(lambda start, stop: _weigh(terms[start:stop], plane, level[start:stop]), len(level), least=64)


def _slopes(mean: NDArray[np.uint8], width: Vectors, plane: Plane) -> tuple[_Slopes, Vectors]:
    """Slopes of leaves with these means (m, d) and widths (m,), and squared distances to the nearest support vector."""
    X, S, terms = _mean_squares(mean, width, plane)
    nearest = terms.min(axis=1) - width
    level = np.empty(len(mean), np.float32)
    _weigh_all(terms, plane, level)
    curve = terms.sum(axis=1)
    slope = terms @ (-2 * S)
    slope += 2 * curve[:, None] * X  # of Σ wₛ‖x − s‖² at the mean
    unit = np.maximum(np.abs(slope).max(axis=1), np.float32(1e-30)) / np.float32(MAX_FACTOR)
    slope /= unit[:, None]
    along = np.rint(slope).astype(np.int8)
    start = np.vecdot(along.astype(np.float32), X + MIDDLE)  # x·along at the mean
    return _Slopes(level - unit * start - curve * width, unit, along, curve * width), nearest


@njit(cache=True, fastmath=True, nogil=True)
def _weigh(terms: Any, plane: Any, level: Any) -> None:
    """Replace squared distances (m, v) by the slopes of aₛK at them; write f, (m,), to `level`."""
    last = np.float32(len(plane.table) - 2)
    for i in range(terms.shape[0]):
        f = np.float32(plane.b)
        for s in range(terms.shape[1]):
            distance = math.sqrt(max(terms[i, s], np.float32(1)))
            place = min(distance * plane.scale, last)
            low = np.int64(place)
            step = plane.table[low + 1] - plane.table[low]
            f += plane.a[s] * (plane.table[low] + step * (place - low))
            terms[i, s] = plane.a[s] * step * plane.scale / (np.float32(2) * distance)
        level[i] = f


@njit(cache=True, fastmath=True, nogil=True)
def _scan_slopes(codes: Any, ratios: Any, leaves: Any, blocks: int, slopes: Any, out: Any, distances: Any) -> None:
    """Write approximate f to `out`, and squared distances from the mean, above 0 and with mean 1, to `distances`."""
    sums = np.empty((BLOCK, 2), np.int32)
    for i in range(len(leaves)):
        level, unit, curve = slopes.level[i], slopes.unit[i], slopes.curve[i]
        for block in range(blocks):
            at, place = leaves[i] * blocks + block, block * BLOCK
            _dot(codes[at], slopes.along[i], sums)
            for j in range(BLOCK):
                distance = np.float32(ratios[at * BLOCK + j]) / np.float32(DISTANCE_UNIT)
                out[i, place + j] = level + unit * np.float32(sums[j, 0] + sums[j, 1]) + curve * distance
                distances[i, place + j] = max(distance, np.float32(1e-3))


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
                _add_rows(mean, rows[s : s + AT_ONCE], factors[s : s + AT_ONCE], plane.mode == L2, slope)
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
    """Add the slopes of support vectors: along x − s for L2, along s for products."""
    for j in range(len(rows)):
        row, f = rows[j], factors[j]
        if difference:
            for e in range(len(slope)):
                slope[e] += f * (mean[e] - row[e])
        else:
            for e in range(len(slope)):
                slope[e] += f * row[e]
