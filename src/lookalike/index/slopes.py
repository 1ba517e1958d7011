"""How far f of a hyperplane spreads inside a set of rows, by its slope at the centre: no row is looked at.

In: centres as a pair of codes, mean ± mean deviation, and a hyperplane. Out: standard deviations of f, (m,) float32.
As if dimensions varied apart from each other inside a set: √Σ(∂f/∂xⱼ · σⱼ)².
"""

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookalike.index.byte_sums import BLOCK, GROUP
from lookalike.index.scan import L1, L2, Codes, Plane
from lookalike.index.threads import share
from lookalike.types import Vectors

AT_ONCE = 4
"""Support vectors that share a pass over the dimensions."""


def spreads(upper: Codes, lower: Codes, sets: NDArray[np.int64], plane: Plane) -> Vectors:
    """The standard deviation of f in these sets, (m,)."""
    out = np.empty(len(sets), np.float32)
    whole = np.append(plane.rows, np.zeros((-len(plane.rows) % AT_ONCE, plane.rows.shape[1]), np.float32), axis=0)

    def work(start: int, stop: int) -> None:
        _spreads(upper, lower, sets[start:stop], plane, whole, out[start:stop])

    share(work, len(sets), least=64)
    return out


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
            # The mean sign of a normal's distance from s is soft: about linear up to 1.57 mean deviations.
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
    """The slope of each aₛK(x, s) by what K depends on, at a centre. Distances apart: here no loop is vectorised."""
    table, last = plane.table, len(plane.table) - 2
    for s in range(len(plane.a)):
        if plane.mode == L1:
            low: Any = min(np.int64(_reach_l1(mean, deviation, plane.rows[s])) >> plane.shift, last)
            out[s] = plane.a[s] * (table[low + 1] - table[low]) / (1 << plane.shift)
        elif plane.mode == L2:
            length: Any = max(math.sqrt(_reach_l2(mean, deviation, plane.rows[s])), np.float32(1))
            low = min(np.int64(length * plane.scale), last)
            out[s] = plane.a[s] * (table[low + 1] - table[low]) * plane.scale / length
        else:
            t = _product(mean, plane.rows[s]) + plane.offsets[s]
            out[s] = plane.a[s] * (1 + 2 * plane.scale * t)


@njit(cache=True, fastmath=True, nogil=True)
def _reach_l1(mean: Any, deviation: Any, row: Any) -> Any:
    """About the mean L1 distance of a set's rows to a row, in float32: float64 would halve the speed."""
    t = np.float32(0)
    for e in range(len(mean)):
        t += max(abs(mean[e] - row[e]), deviation[e])
    return t


@njit(cache=True, fastmath=True, nogil=True)
def _reach_l2(mean: Any, deviation: Any, row: Any) -> Any:
    """About the mean squared L2 distance."""
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
    """Add what four support vectors give to the slope, for L1."""
    p, q, r, s = rows[0], rows[1], rows[2], rows[3]
    f, g, h, i = factors[0], factors[1], factors[2], factors[3]
    for e in range(len(slope)):
        x, w = mean[e], soft[e]
        near = f * _sign((x - p[e]) * w) + g * _sign((x - q[e]) * w)
        slope[e] += near + h * _sign((x - r[e]) * w) + i * _sign((x - s[e]) * w)


@njit(cache=True, fastmath=True, nogil=True)
def _add_rows(mean: Any, rows: Any, factors: Any, difference: bool, slope: Any) -> None:
    """The same for L2, where the slope is along x − s, and for products, where it is along s."""
    for j in range(len(rows)):
        row, f = rows[j], factors[j]
        if difference:
            for e in range(len(slope)):
                slope[e] += f * (mean[e] - row[e])
        else:
            for e in range(len(slope)):
                slope[e] += f * row[e]
