"""Rows in an order that puts like ones side by side: cut into equal parts, they are the leaves of a tree.

In: rows as bytes, codes (n, d) uint8. Out: an order, (n,), such that every `size` rows in a row are near each other.
Bisecting 2-means, each cut moved to the nearest multiple of `size`, so that all leaves but the last are full.
"""

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from lookalike.types import Ids, Progress, silent

SAMPLE = 512
"""Rows of a part that its 2-means learns from."""

ROUNDS = 6
"""Rounds of 2-means."""

LEAST = 0.1
"""The share of a part's leaves that each side of a cut gets at least: it bounds the depth."""

PARTS = 64
"""Parts that are cut one after the other before the rest are cut side by side."""


def leaf_order(codes: NDArray[np.uint8], size: int, progress: Progress = silent) -> Ids:
    """The order of rows, (n,), whose consecutive `size` rows are the leaves; the same for the same codes.

    >>> leaf_order(np.array([[9], [1], [8], [0]], np.uint8), 2).reshape(2, 2).tolist()
    [[0, 2], [1, 3]]
    """
    order = np.arange(len(codes))
    parts = [(0, len(codes))]
    while len(parts) < PARTS:
        start, stop = max(parts, key=lambda part: part[1] - part[0])
        if stop - start <= size:
            break
        middle = _cut(codes, order[start:stop], size) + start
        parts.remove((start, stop))
        parts += [(start, middle), (middle, stop)]
    parts.sort(key=lambda part: part[0] - part[1])  # the largest first: the cores finish together
    for i in range(0, len(parts), 8):
        progress("sorting into leaves", i, len(parts))
        _cut_all(codes, order, np.array(parts[i : i + 8]), size)
    return order


@njit(cache=True, parallel=True)
def _cut_all(codes: Any, order: Any, parts: Any, size: int) -> None:
    """Cut parts (p, 2), start and stop, until every piece is a leaf."""
    for p in prange(len(parts)):
        stack = [(parts[p, 0], parts[p, 1])]
        while len(stack):
            start, stop = stack.pop()
            if stop - start > size:
                middle = start + _cut(codes, order[start:stop], size)
                stack.append((start, middle))
                stack.append((middle, stop))


@njit(cache=True, fastmath=True)
def _cut(codes: Any, order: Any, size: int) -> int:
    """Reorder `order` (m,) by two means of its rows; returns where the second side starts."""
    m, d = len(order), codes.shape[1]
    step = max(1, m // SAMPLE)
    sample = order[::step]
    centres = np.empty((2, d), np.float32)
    centres[0] = codes[sample[0]]
    for side in (1, 0, 1):  # two rows far from each other to begin with
        centres[side] = codes[sample[_farthest(codes, sample, centres[1 - side])]]
    direction, level = np.empty(d, np.float32), np.float32(0)
    for _ in range(ROUNDS):
        level = _between(centres, direction)
        sums, counts = np.zeros((2, d), np.float32), np.zeros(2, np.int64)
        for row in sample:
            side = 1 if _product(codes[row], direction) > level else 0
            counts[side] += 1
            for e in range(d):
                sums[side, e] += codes[row, e]
        if counts.min() == 0:
            break
        for side in range(2):
            centres[side] = sums[side] / counts[side]
    level = _between(centres, direction)
    along = np.empty(m, np.float32)
    for i in range(m):
        along[i] = _product(codes[order[i]], direction)
    sort = np.argsort(along)
    order[:] = order[sort]
    leaves = (m + size - 1) // size
    least = max(1, int(LEAST * leaves))
    cut = round(np.count_nonzero(along <= level) / size)
    return size * min(max(cut, least), leaves - least)


@njit(cache=True, fastmath=True)
def _product(row: Any, direction: Any) -> Any:
    total = np.float32(0)
    for e in range(len(direction)):
        total += np.float32(row[e]) * direction[e]
    return total


@njit(cache=True, fastmath=True)
def _between(centres: Any, direction: Any) -> Any:
    """The direction from the first centre to the second, and where along it the middle is."""
    level = np.float32(0)
    for e in range(len(direction)):
        direction[e] = centres[1, e] - centres[0, e]
        level += direction[e] * (centres[1, e] + centres[0, e]) / 2
    return level


@njit(cache=True, fastmath=True)
def _farthest(codes: Any, rows: Any, centre: Any) -> int:
    best, at = np.float32(-1), 0
    for i in range(len(rows)):
        total = np.float32(0)
        for e in range(len(centre)):
            difference = np.float32(codes[rows[i], e]) - centre[e]
            total += difference * difference
        if total > best:
            best, at = total, i
    return at
