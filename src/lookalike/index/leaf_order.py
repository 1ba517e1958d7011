"""Rows in an order that puts like ones side by side: cells by k-means, cut into leaves by bisecting 2-means.

In: rows as bytes, codes (n, d) uint8. Out: an order in which every `size` rows in a row are a leaf, and leaves of a
cell are neighbours. A tree alone cuts through the clusters it meets on its way down: on 1,000 Gaussian ones, two
thirds of a leaf's rows were of other clusters than most, and five times as many leaves had to be visited.
"""

from typing import Any

import faiss as _faiss
import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.features.clustering import kmeans
from lookalike.index.threads import share
from lookalike.types import Ids, Progress, silent

faiss: Any = _faiss  # its stubs know only a part of it

CELL, CELLS = 500, 4_096
"""Rows of a cell, on average, and the number of cells, at most."""

LEARN, TURNS = 128, 10
"""Rows a cell that k-means learns from, and its rounds."""

SAMPLE = 512
"""Rows of a part that its 2-means learns from."""

ROUNDS = 6
"""Rounds of 2-means."""

LEAST = 0.1
"""The share of a part's leaves that each side of a cut gets at least: it bounds the depth."""


def leaf_order(codes: NDArray[np.uint8], size: int, progress: Progress = silent) -> tuple[Ids, Ids]:
    """Rows by place, -1 = none, (leaves · size,), and the first leaf of each cell and of none, (cells + 1,).

    >>> order, cells = leaf_order(np.array([[9], [1], [8], [0]], np.uint8), 2)
    >>> sorted(map(sorted, order.reshape(-1, 2).tolist())), cells.tolist()
    ([[0, 2], [1, 3]], [0, 2])
    """
    cell = _assign(codes, progress)
    order = np.argsort(cell, kind="stable")
    counts = np.bincount(cell)
    counts = counts[counts > 0]
    stops = np.cumsum(counts)
    starts, leaves = stops - counts, -(-counts // size)

    progress("sorting into leaves", 0, None)

    def work(first: int, last: int) -> None:
        _cut_all(codes, order, starts[first:last], stops[first:last], size)

    share(work, len(counts))
    cells = np.append(0, np.cumsum(leaves))
    places = np.full(cells[-1] * size, -1)
    places[np.arange(len(order)) + np.repeat(cells[:-1] * size - starts, counts)] = order
    return places, cells


def _assign(codes: NDArray[np.uint8], progress: Progress) -> Ids:
    """The cell of each row, (n,)."""
    n, d = codes.shape
    k = min(CELLS, max(1, n // CELL))
    if k == 1:
        return np.zeros(n, np.int64)
    progress("looking for cells", 0, None)
    sample = np.random.default_rng(0).permutation(n)[: LEARN * k]
    index = faiss.IndexFlatL2(d)
    index.add(kmeans(codes[np.sort(sample)].astype(np.float32), k, iterations=TURNS)[0])
    cell = np.empty(n, np.int64)
    for part in chunks(n, row_bytes=4 * d, max_bytes=2**23):
        progress("sorting into cells", part.start, n)
        cell[part] = index.search(codes[part].astype(np.float32), 1)[1][:, 0]
    return cell


@njit(cache=True, nogil=True)
def _cut_all(codes: Any, order: Any, starts: Any, stops: Any, size: int) -> None:
    """Cut cells until every piece is a leaf."""
    for p in range(len(starts)):
        stack = [(starts[p], stops[p])]
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
