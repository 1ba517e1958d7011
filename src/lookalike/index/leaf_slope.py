"""About f of the rows of a leaf, by its slope at the leaf's centre: one product a row, whatever the support vectors.

In: leaves as bytes with their centres, and a hyperplane of a kernel of ‖x − s‖₂. Out: about f, float32. With wₛ the
slope of aₛK by the squared distance, at the mean dₛ of that distance in the leaf, f(x) ≈ f₀ + Σ wₛ(‖x − s‖² − dₛ): a
level, a slope along x and one along ‖x − mean‖². What that is off by is measured in every leaf. Only right beside a
support vector can f be farther from it than that tells: leaves that may hold one are scored in full.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.index.byte_sums import BLOCK, MOST, make_dot, widths
from lookalike.index.scan import MIDDLE, PRODUCT_BYTES, Codes, Plane, f_leaves, f_rows, rows_at, squares
from lookalike.index.threads import share
from lookalike.types import Vectors

PROBES = 2
"""Rows of a leaf, those farthest from its mean, whose f is worked out in full: they tell how far its slope is off."""

APART = 4_096
"""Of a mean squared distance: the unit of squared distances."""

_dot = make_dot(next(iter(widths()), None))


class Shape(NamedTuple):
    """How the rows of each leaf lie around their mean; follows from the codes."""

    mean: NDArray[np.uint8]  # (leaves, d), rounded
    width: Vectors  # (leaves,) the mean of ‖x − mean‖²
    apart: NDArray[np.uint16]  # (places,) ‖x − mean‖² by that, in parts of `APART`
    probes: NDArray[np.int64]  # (leaves, PROBES) the places of the rows with the largest

    @classmethod
    def of(cls, codes: Codes, size: int) -> Self:
        """Of the rows of bytes in leaves of so many."""
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
                ratios = APART * squares / made.width[here, None]
                made.apart[here.start * size : here.stop * size] = np.minimum(np.rint(ratios), 2**16 - 1).ravel()
                farthest = np.argpartition(squares, -PROBES, axis=1)[:, -PROBES:]  # (m, PROBES)
                made.probes[here] = np.arange(here.start, here.stop)[:, None] * size + farthest

        share(work, leaves, least=64)
        return made


class _Slopes(NamedTuple):
    """F ≈ level + unit · (x·along) + curve · ‖x − mean‖² / its mean; one row a leaf."""

    level: Vectors  # (m,)
    unit: Vectors  # (m,)
    along: NDArray[np.int8]  # (m, d)
    curve: Vectors  # (m,)


def f_by_slope(
    codes: Codes, shape: Shape, leaves: NDArray[np.int64], blocks: int, plane: Plane
) -> tuple[Vectors, Vectors]:
    """About f of every row of these leaves, (m, 16 · blocks), and the standard error of each.

    That of a row grows as its squared distance from the mean, as what is left out does.
    """
    size = blocks * BLOCK
    out, doubt = np.empty((2, len(leaves), size), np.float32)
    near = np.empty(len(leaves), np.bool_)
    n_vectors, d = plane.rows.shape
    for part in chunks(len(leaves), row_bytes=4 * (3 * d + (2 + PROBES) * n_vectors), max_bytes=PRODUCT_BYTES):
        some, f, off, probes = leaves[part], out[part], doubt[part], shape.probes[leaves[part]]
        slopes, nearest = _slopes(shape.mean[some], shape.width[some], plane)
        near[part] = nearest <= shape.apart[probes].max(axis=1) / np.float32(APART) * shape.width[some]

        def work(start: int, stop: int, some: Any = some, slopes: Any = slopes, f: Any = f, off: Any = off) -> None:
            here = _Slopes(*(column[start:stop] for column in slopes))
            _scan(codes, shape.apart, some[start:stop], blocks, here, f[start:stop], off[start:stop])

        share(work, len(some), least=16)
        truth = f_rows(rows_at(codes, probes.ravel()), plane).reshape(-1, PROBES)
        row = np.arange(len(some))[:, None]
        errors = np.square((f[row, probes % size] - truth) / off[row, probes % size])
        off *= np.sqrt(np.maximum(errors.max(axis=1), np.median(errors)))[:, None]
    full = np.flatnonzero(near)
    out[full], doubt[full] = f_leaves(codes, leaves[full], blocks, plane), 0
    return out, doubt


def f_of_leaves(shape: Shape, leaves: NDArray[np.int64], plane: Plane) -> Vectors:
    """F of what each of these leaves holds on average, (m,)."""
    out = np.empty(len(leaves), np.float32)
    n_vectors, d = plane.rows.shape
    for part in chunks(len(out), row_bytes=4 * (d + n_vectors), max_bytes=PRODUCT_BYTES):
        _, _, terms = _squares(shape.mean[leaves[part]], shape.width[leaves[part]], plane)
        _weigh_all(terms, plane, out[part])
    return out


def _squares(mean: NDArray[np.uint8], width: Vectors, plane: Plane) -> tuple[Vectors, Vectors, Vectors]:
    """Leaves' means X (m, d) and support vectors S (v, d), less the middle, and the means of ‖x − s‖², (m, v)."""
    X = mean.astype(np.float32) - MIDDLE
    S = plane.rows - MIDDLE
    return X, S, squares(X, S, np.vecdot(X, X) + width)


def _weigh_all(terms: Vectors, plane: Plane, level: Vectors) -> None:
    share(lambda start, stop: _weigh(terms[start:stop], plane, level[start:stop]), len(level), least=64)


def _slopes(mean: NDArray[np.uint8], width: Vectors, plane: Plane) -> tuple[_Slopes, Vectors]:
    """From means (m, d) and widths (m,) of leaves; and the squared distance of the nearest support vector to each."""
    X, S, terms = _squares(mean, width, plane)
    nearest = terms.min(axis=1) - width
    level = np.empty(len(mean), np.float32)
    _weigh_all(terms, plane, level)
    curve = terms.sum(axis=1)
    slope = terms @ (-2 * S)
    slope += 2 * curve[:, None] * X  # of Σ wₛ‖x − s‖² at the mean
    unit = np.maximum(np.abs(slope).max(axis=1), np.float32(1e-30)) / np.float32(MOST)
    slope /= unit[:, None]
    along = np.rint(slope).astype(np.int8)
    start = np.vecdot(along.astype(np.float32), X + MIDDLE)  # x·along at the mean
    return _Slopes(level - unit * start - curve * width, unit, along, curve * width), nearest


@njit(cache=True, fastmath=True, nogil=True)
def _weigh(terms: Any, plane: Any, level: Any) -> None:
    """Squared distances (m, v) become the slopes of aₛK there; f, (m,), to `level`."""
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
def _scan(codes: Any, apart: Any, leaves: Any, blocks: int, slopes: Any, out: Any, distances: Any) -> None:
    """About f to `out`, squared distances from the mean to `distances`: more than 0, 1 in the mean."""
    sums = np.empty((BLOCK, 2), np.int32)
    for i in range(len(leaves)):
        level, unit, curve = slopes.level[i], slopes.unit[i], slopes.curve[i]
        for block in range(blocks):
            at, place = leaves[i] * blocks + block, block * BLOCK
            _dot(codes[at], slopes.along[i], sums)
            for j in range(BLOCK):
                distance = np.float32(apart[at * BLOCK + j]) / np.float32(APART)
                out[i, place + j] = level + unit * np.float32(sums[j, 0] + sums[j, 1]) + curve * distance
                distances[i, place + j] = max(distance, np.float32(1e-3))
