"""The rows of `Leaves` as bytes, sorted into cells and leaves: the structure in memory and in the file.

`leaf_order` puts similar rows next to each other: cells by k-means, split into leaves by bisecting 2-means. A tree
without cells splits clusters: on 1,000 Gaussian clusters, two thirds of the rows of a leaf did not belong to its main
cluster, and a search had to visit five times more leaves.
"""

import zipfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import faiss as _faiss
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.compiler import njit
from lookalike.errors import DamagedError
from lookalike.features.clustering import kmeans
from lookalike.index.compiled import BLOCK, GROUP
from lookalike.index.exact import Mask
from lookalike.index.flat import Flat
from lookalike.index.leaf_recall import Recall, uncalibrated
from lookalike.index.leaf_scores import (
    Codes,
    Plane,
    Steps,
    f_leaves,
    in_blocks,
    spreads,
)
from lookalike.index.threads import share
from lookalike.types import Ids, Progress, Vectors, silent

faiss: Any = _faiss  # its type stubs are incomplete

MIN_ROWS = 1_000
"""With fewer rows, no leaves are built."""

STEPS_SAMPLE = 20_000
"""Rows from which the step size of the bytes is computed."""

CELL, CELLS = 500, 4_096
"""Average number of rows per cell, and the maximum number of cells."""

KMEANS_ROWS, KMEANS_ROUNDS = 128, 10
"""Rows per cell for k-means, and its iterations."""

CUT_SAMPLE, CUT_ROUNDS = 512, 6
"""Rows for 2-means, and its iterations."""

CUT_LEAST = 0.1
"""Minimum share of the leaves for each side of a cut, which limits the depth."""


class Centres(NamedTuple):
    """The means of sets of rows, plus and minus their mean deviations, as codes: blocks of 16 sets."""

    upper: Codes  # mean + mean deviation
    lower: Codes  # mean − mean deviation

    @classmethod
    def of(cls, mean: Vectors, deviation: Vectors) -> Self:
        """Create centres from means and mean deviations, (m, d padded) each."""
        ends = np.zeros((2, len(mean) + -len(mean) % BLOCK, mean.shape[1]), np.uint8)
        ends[:, : len(mean)] = np.rint(np.clip([mean + deviation, mean - deviation], 0, 255))
        return cls(in_blocks(ends[0]), in_blocks(ends[1]))

    def f(self, blocks: Ids, plane: Plane) -> Vectors:
        """Approximate mean of f in the sets of these blocks, (16 m,).

        It differs from f of the mean, because rows are farther from any point than their mean is. With u and v one mean
        deviation above and below the mean, the mean of |u − s| and |v − s| equals that of |x − s| for s at the mean or
        far away.
        """
        return f_leaves(self.upper, blocks, 1, plane, self.lower).ravel()

    def spreads(self, sets: Ids, plane: Plane) -> Vectors:
        """Approximate standard deviation of f in these sets, (m,)."""
        return np.maximum(spreads(self.upper, self.lower, sets, plane), np.float32(1e-9))

    def radii(self) -> Vectors:
        """Width of each set, (16 blocks,): twice the length of its mean deviation, in steps."""
        wide = self.upper.astype(np.float32) - self.lower
        radii: Vectors = np.sqrt(np.einsum("bgje,bgje->bj", wide, wide)).ravel()
        return np.maximum(radii, np.float32(1))


@dataclass(slots=True)
class LeafCodes:
    """Places 0 … leaves · size - 1, each with the code and id of a row; id -1 pads the last leaf of a cell."""

    size: int  # rows of a leaf
    steps: Steps
    codes: Codes  # (leaves · size / 16, groups, 16, 8)
    leaves: Centres
    cells: Centres
    starts: Ids  # (cells + 1,) the first leaf of each cell
    ids: Ids  # (places,)
    alive: Mask  # (places,)
    counts: Ids  # (leaves,) the number of places with a row
    place: NDArray[np.int32]  # (rows of `truth`,) the place of each row, -1 = none
    cell: NDArray[np.int32]  # (leaves,)
    narrow: Vectors  # (leaves,) the radius of a leaf relative to that of its cell
    recall: Recall

    @classmethod
    def build(cls, truth: Flat, size: int, progress: Progress) -> Self:
        """Sort all rows of `truth` into leaves."""
        ids = truth.ids
        n = len(ids)
        steps = Steps.of(truth.vectors(ids[:: max(1, n // STEPS_SAMPLE)]))
        rows = np.empty((n, steps.wide), np.uint8)
        for part in chunks(n, row_bytes=8 * steps.wide, max_bytes=2**23):
            progress("encoding", part.start, n)
            rows[part] = steps.encode(truth.vectors(ids[part]))
        order, starts = leaf_order(rows, size, progress)
        codes = np.empty((len(order) // BLOCK, steps.wide // GROUP, BLOCK, GROUP), np.uint8)
        leaves = np.empty((2, starts[-1], steps.wide), np.float32)
        cells = np.empty((2, len(starts) - 1, steps.wide), np.float32)
        for cell, (start, stop) in enumerate(pairwise(starts)):
            progress("filling leaves", cell, len(cells[0]))
            some = order[start * size : stop * size]
            full = rows[np.where(some < 0, some[some >= 0][-1], some)]  # padded with the last row
            codes[start * size // BLOCK : stop * size // BLOCK] = in_blocks(full)
            members = full.reshape(-1, size, steps.wide)
            leaves[0, start:stop] = members.mean(1, dtype=np.float32)
            leaves[1, start:stop] = np.abs(members - leaves[0, start:stop, None]).mean(1)
            cells[0, cell] = full.mean(0, dtype=np.float32)
            cells[1, cell] = np.abs(full - cells[0, cell]).mean(0)
        filled = np.where(order < 0, -1, ids[order])
        centres = Centres.of(*leaves), Centres.of(*cells)
        return cls._over(truth, size, steps, codes, *centres, starts, filled, uncalibrated())

    @classmethod
    def _over(
        cls,
        truth: Flat,
        size: int,
        steps: Steps,
        codes: Codes,
        leaves: Centres,
        cells: Centres,
        starts: Ids,
        ids: Ids,
        recall: Recall,
    ) -> Self:
        """Compute the arrays that depend on the current rows of `truth`."""
        rows = truth.rows(ids)  # -1 for id -1
        alive = rows >= 0
        place = np.full(int(rows.max(initial=-1)) + 1, -1, np.int32)
        place[rows[alive]] = np.flatnonzero(alive)
        counts = np.count_nonzero(alive.reshape(-1, size), axis=1)
        cell = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
        narrow = leaves.radii()[: len(counts)] / cells.radii()[cell]
        return cls(size, steps, codes, leaves, cells, starts, ids, alive, counts, place, cell, narrow, recall)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        arrays = (self.codes, self.ids, self.alive, self.counts, self.place, self.cell, self.narrow)
        return sum(array.nbytes for array in (*arrays, *self.leaves, *self.cells))

    @property
    def removed(self) -> int:
        """Number of removed rows."""
        return int(np.count_nonzero(~self.alive & (self.ids >= 0)))

    def places(self, rows: Ids) -> Ids:
        """The places of rows of `truth`; rows without a place are skipped."""
        rows = rows[(rows >= 0) & (rows < len(self.place))]
        places: Ids = self.place[rows].astype(np.int64)
        return places[places >= 0]

    def remove(self, rows: Ids) -> None:
        """Mark rows of `truth` as removed."""
        self.alive, self.counts = self.keep(None, rows)

    def keep(self, among: Ids | None, exclude: Ids | None) -> tuple[Mask, Ids]:
        """Mask of the places that pass the filters, and their number per leaf; filters are rows of `truth`."""
        keep, counts = self.alive, self.counts
        if among is not None:
            keep = np.zeros_like(keep)
            places = self.places(among)
            keep[places] = self.alive[places]
            counts = np.count_nonzero(keep.reshape(-1, self.size), axis=1)
        if exclude is not None:
            places = self.places(exclude)
            places = places[keep[places]]
            keep = keep.copy()
            keep[places] = False
            counts = counts - np.bincount(places // self.size, minlength=len(counts))
        return keep, counts

    def f_centres(self, leaves: Ids, plane: Plane) -> Vectors:
        """Approximate mean of f in each of these leaves, ascending, (m,)."""
        blocks, where = np.unique(leaves // BLOCK, return_inverse=True)
        f: Vectors = self.leaves.f(blocks, plane)[where * BLOCK + leaves % BLOCK]
        return f

    def f(self, leaves: Ids, plane: Plane) -> Vectors:
        """f of the rows of these leaves, (m, size)."""
        return f_leaves(self.codes, leaves, self.size // BLOCK, plane)

    def save(self, path: Path) -> None:
        """Write everything that cannot be computed from the codes and the vectors."""
        with path.open("wb") as file:
            np.savez(
                file,
                size=np.array(self.size),
                low=self.steps.low,
                step=np.array(self.steps.step),
                codes=self.codes,
                leaves=np.stack(self.leaves),
                cells=np.stack(self.cells),
                starts=self.starts,
                ids=np.where(self.alive, self.ids, -1),
                laws=self.recall.laws,
                limits=self.recall.limits,
            )

    @classmethod
    def load(cls, path: Path, truth: Flat) -> Self:
        """Read a file over the current rows of `truth`. Raises DamagedError if it was not written by `save`."""
        try:
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                steps = Steps(file["low"], float(file["step"]))
                leaves, cells = Centres(*file["leaves"]), Centres(*file["cells"])
                size, codes, starts, ids = int(file["size"]), file["codes"], file["starts"], file["ids"]
                recall = Recall(file["laws"], file["limits"]) if "laws" in file else uncalibrated()
            if len(codes) * BLOCK != len(ids) or starts[-1] * size != len(ids):
                raise ValueError(f"it has {len(codes) * BLOCK} codes, {len(ids)} ids and {starts[-1]} leaves of {size}")
            return cls._over(truth, size, steps, codes, leaves, cells, starts, ids, recall)
        except (OSError, ValueError, KeyError, EOFError, IndexError, TypeError, zipfile.BadZipFile) as error:
            raise DamagedError(f"Cannot read {path}: {error}. Delete it; the index will be rebuilt.") from error


def leaf_order(codes: NDArray[np.uint8], size: int, progress: Progress = silent) -> tuple[Ids, Ids]:
    """Sort rows into leaves; return the row of each place, -1 = none, and the first leaf of each cell.

    `codes` are rows of bytes (n, d). The results are (leaves · size,) and (cells + 1,). Each `size` consecutive places
    are a leaf; the leaves of a cell are consecutive.

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
    progress("finding cells", 0, None)
    sample = np.random.default_rng(0).permutation(n)[: KMEANS_ROWS * k]
    index = faiss.IndexFlatL2(d)
    index.add(kmeans(codes[np.sort(sample)].astype(np.float32), k, iterations=KMEANS_ROUNDS)[0])
    cell = np.empty(n, np.int64)
    for part in chunks(n, row_bytes=4 * d, max_bytes=2**23):
        progress("sorting into cells", part.start, n)
        cell[part] = index.search(codes[part].astype(np.float32), 1)[1][:, 0]
    return cell


@njit(cache=True, nogil=True)
def _cut_all(codes: Any, order: Any, starts: Any, stops: Any, size: int) -> None:
    """Split cells into leaves by reordering `order`."""
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
    """Reorder `order` (m,) along the line between two means of its rows; return where the second side starts."""
    m, d = len(order), codes.shape[1]
    step = max(1, m // CUT_SAMPLE)
    sample = order[::step]
    centres = np.empty((2, d), np.float32)
    centres[0] = codes[sample[0]]
    for side in (1, 0, 1):  # start with two distant rows
        centres[side] = codes[sample[_farthest(codes, sample, centres[1 - side])]]
    direction, level = np.empty(d, np.float32), np.float32(0)
    for _ in range(CUT_ROUNDS):
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
    least = max(1, int(CUT_LEAST * leaves))
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
    """Write the direction from the first centre to the second; return the position of the middle along it."""
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
