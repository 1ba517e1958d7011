"""Rows as bytes, sorted into leaves and cells, each with a centre: what `Leaves` keeps in memory and in its file.

In: the vectors of a `Flat`. Out: f of a hyperplane for whole leaves, and for what a leaf or a cell holds on average.
"""

import zipfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.errors import DamagedError
from lookalike.index.byte_sums import BLOCK, GROUP
from lookalike.index.flat import Flat
from lookalike.index.leaf_order import leaf_order
from lookalike.index.leaf_plane import SAMPLE, Steps
from lookalike.index.leaf_slope import Shape, f_by_slope, f_of_leaves
from lookalike.index.scan import Codes, Plane, f_leaves, f_rows, in_blocks, rows_at
from lookalike.index.slopes import spreads
from lookalike.types import Ids, Progress, Vectors

MIN_ROWS = 1_000
"""Fewer rows are not worth leaves."""

Mask = NDArray[np.bool_]


class Centres(NamedTuple):
    """Means of sets of rows, one mean deviation to either side: in blocks, 16 sets each."""

    upper: Codes  # mean + mean deviation
    lower: Codes  # mean − mean deviation

    @classmethod
    def of(cls, mean: Vectors, deviation: Vectors) -> Self:
        """From means and mean deviations, (m, d filled up) each."""
        ends = np.zeros((2, len(mean) + -len(mean) % BLOCK, mean.shape[1]), np.uint8)
        ends[:, : len(mean)] = np.rint(np.clip([mean + deviation, mean - deviation], 0, 255))
        return cls(in_blocks(ends[0]), in_blocks(ends[1]))

    def f(self, blocks: Ids, plane: Plane) -> Vectors:
        """F / ‖w‖ of what the sets of these blocks hold on average, (16 m,).

        Not f of the mean: rows are farther from anything than their mean is. The mean of |u − s| and |v − s|, with u
        and v one mean deviation from the mean on either side, is the rows' mean of |x − s| for s at or far from it.
        """
        return f_leaves(self.upper, blocks, 1, plane, self.lower).ravel()

    def spreads(self, sets: Ids, plane: Plane) -> Vectors:
        """About how far f / ‖w‖ of rows is from that of their centre, for these sets, (m,)."""
        return np.maximum(spreads(self.upper, self.lower, sets, plane), np.float32(1e-9))

    def radii(self) -> Vectors:
        """How wide each set is: twice the length of its mean deviation, in steps, (16 blocks,)."""
        wide = self.upper.astype(np.float32) - self.lower
        radii: Vectors = np.sqrt(np.einsum("bgje,bgje->bj", wide, wide)).ravel()
        return np.maximum(radii, np.float32(1))


@dataclass(slots=True)
class LeafCodes:
    """Places 0 … leaves · size - 1, each with a row's code and id; id -1 fills up the last leaf of a cell."""

    size: int  # rows of a leaf
    steps: Steps
    codes: Codes  # (leaves · size / 16, groups, 16, 8)
    leaves: Centres
    cells: Centres
    starts: Ids  # (cells + 1,) the first leaf of each cell
    ids: Ids  # (places,)
    alive: Mask  # (places,)
    counts: Ids  # (leaves,) how many of its places are alive
    place: NDArray[np.int32]  # (rows of the truth,) -1 = none
    cell: NDArray[np.int32]  # (leaves,)
    narrow: Vectors  # (leaves,) the radius of a leaf as a share of its cell's
    shape: Shape

    @classmethod
    def build(cls, truth: Flat, size: int, progress: Progress) -> Self:
        """All rows of the truth, in leaves."""
        ids = truth.ids
        n = len(ids)
        steps = Steps.of(truth.vectors(ids[:: max(1, n // SAMPLE)]))
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
            full = rows[np.where(some < 0, some[some >= 0][-1], some)]  # where there is none: the last row again
            codes[start * size // BLOCK : stop * size // BLOCK] = in_blocks(full)
            members = full.reshape(-1, size, steps.wide)
            leaves[0, start:stop] = members.mean(1, dtype=np.float32)
            leaves[1, start:stop] = np.abs(members - leaves[0, start:stop, None]).mean(1)
            cells[0, cell] = full.mean(0, dtype=np.float32)
            cells[1, cell] = np.abs(full - cells[0, cell]).mean(0)
        filled = np.where(order < 0, -1, ids[order])
        return cls._over(truth, size, steps, codes, Centres.of(*leaves), Centres.of(*cells), starts, filled)

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
    ) -> Self:
        """With what follows from the truth as it is now."""
        rows = truth.rows(ids)  # id -1 is nobody's
        alive = rows >= 0
        place = np.full(int(rows.max(initial=-1)) + 1, -1, np.int32)
        place[rows[alive]] = np.flatnonzero(alive)
        counts = np.count_nonzero(alive.reshape(-1, size), axis=1)
        cell = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
        shape = Shape.of(codes, size)
        narrow = leaves.radii()[: len(counts)] / cells.radii()[cell]
        return cls(size, steps, codes, leaves, cells, starts, ids, alive, counts, place, cell, narrow, shape)

    @property
    def nbytes(self) -> int:
        """What is held in memory."""
        arrays = (self.codes, self.ids, self.alive, self.counts, self.place, self.cell, self.narrow)
        return sum(array.nbytes for array in (*arrays, *self.leaves, *self.cells, *self.shape))

    @property
    def removed(self) -> int:
        """How many of the rows are no longer there."""
        return int(np.count_nonzero(~self.alive & (self.ids >= 0)))

    def places(self, rows: Ids) -> Ids:
        """The places of rows of the truth, of those that have one."""
        rows = rows[(rows >= 0) & (rows < len(self.place))]
        places: Ids = self.place[rows].astype(np.int64)
        return places[places >= 0]

    def remove(self, rows: Ids) -> None:
        """Rows of the truth that are no answers any more."""
        self.alive, self.counts = self.keep(None, rows)

    def keep(self, among: Ids | None, exclude: Ids | None) -> tuple[Mask, Ids]:
        """Which places may be answers, for rows of the truth, and how many of each leaf; None = all that are alive."""
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
        """F / ‖w‖ of what each of these leaves, ascending, holds on average, (m,)."""
        if plane.smooth:
            return f_of_leaves(self.shape, leaves, plane)
        blocks, where = np.unique(leaves // BLOCK, return_inverse=True)
        f: Vectors = self.leaves.f(blocks, plane)[where * BLOCK + leaves % BLOCK]
        return f

    def f(self, leaves: Ids, plane: Plane) -> tuple[Vectors, Vectors]:
        """F / ‖w‖ of the rows of these leaves, (m, size), and how far each may be off, beyond what bytes are."""
        blocks = self.size // BLOCK
        if plane.smooth:
            return f_by_slope(self.codes, self.shape, leaves, blocks, plane)
        f = f_leaves(self.codes, leaves, blocks, plane)
        return f, np.zeros_like(f)

    def f_places(self, places: Ids, plane: Plane) -> Vectors:
        """F / ‖w‖ of single rows, from their bytes, (m,); not for kernels of L1, whose `f` is that already."""
        return f_rows(rows_at(self.codes, places), plane)

    def save(self, path: Path) -> None:
        """Write everything but what follows from the vectors."""
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
            )

    @classmethod
    def load(cls, path: Path, truth: Flat) -> Self:
        """Raises DamagedError where the file does not hold what `save` wrote."""
        try:
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                steps = Steps(file["low"], float(file["step"]))
                leaves, cells = Centres(*file["leaves"]), Centres(*file["cells"])
                size, codes, starts, ids = int(file["size"]), file["codes"], file["starts"], file["ids"]
            if len(codes) * BLOCK != len(ids) or starts[-1] * size != len(ids):
                raise ValueError(f"it has {len(codes) * BLOCK} codes, {len(ids)} ids and {starts[-1]} leaves of {size}")
            return cls._over(truth, size, steps, codes, leaves, cells, starts, ids)
        except (OSError, ValueError, KeyError, EOFError, IndexError, TypeError, zipfile.BadZipFile) as error:
            raise DamagedError(f"{path} cannot be read: {error}. Delete it: the index is built anew.") from error
