"""Rows as bytes, sorted into leaves, each with a centre: what `Leaves` keeps in memory and in its file.

In: the vectors of a `Flat`. Out: f of a hyperplane for whole leaves, and for what a leaf holds on average.
A byte is a step of one size in every dimension, so that distances of codes are distances of rows, in steps.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.errors import DamagedError
from lookalike.index.flat import Flat
from lookalike.index.hyperplane import HyperplaneQuery
from lookalike.index.leaf_order import leaf_order
from lookalike.index.scan import BLOCK, GROUP, L1, L2, PRODUCT, Codes, Plane, f_leaves, in_blocks, spreads
from lookalike.kernels import check_kernel
from lookalike.types import Ids, Progress, Vectors

MIN_ROWS = 1_000
"""Fewer rows are not worth leaves."""

SAMPLE = 20_000
"""Rows that tell how large a step is."""

OUTSIDE = 0.0005
"""The share of a dimension's values, at either end, that may not fit into a byte."""

TABLE = 8_192
"""Entries of a table of kernel values, about: it stays in the fastest cache."""

Mask = NDArray[np.bool_]


@dataclass(slots=True)
class LeafCodes:
    """Places 0 … leaves · size - 1, each with a row's code and id; id -1 fills up the last leaf."""

    size: int  # rows of a leaf
    dim: int
    low: Vectors  # (d,) what byte 0 stands for
    step: float
    codes: Codes  # (leaves · size / 16, groups, 16, 8)
    upper: Codes  # (leaves / 16, …) for each leaf its mean + its mean deviation
    lower: Codes  # … its mean − its mean deviation
    ids: Ids  # (places,)
    alive: Mask  # (places,)
    place: NDArray[np.int32]  # (rows of the truth,) -1 = none

    @classmethod
    def build(cls, truth: Flat, size: int, progress: Progress) -> Self:
        """All rows of the truth, in leaves."""
        ids, d = truth.ids, truth.dim or 0
        n, wide = len(ids), d + -d % GROUP
        sample = truth.vectors(ids[:: max(1, n // SAMPLE)])
        first, last = np.quantile(sample, [OUTSIDE, 1 - OUTSIDE], axis=0)  # (d,) each
        step = float((last - first).max(initial=0.0)) / 255 or 1.0
        low = ((first + last) / 2 - 127.5 * step).astype(np.float32)
        rows = np.zeros((n, wide), np.uint8)
        for part in chunks(n, row_bytes=8 * d, max_bytes=2**23):
            progress("encoding", part.start, n)
            rows[part, :d] = _encode(truth.vectors(ids[part]), low, step)
        order = leaf_order(rows, size, progress)
        leaves = -(-n // size)
        codes = np.empty((leaves * size // BLOCK, wide // GROUP, BLOCK, GROUP), np.uint8)
        centres = np.zeros((2, leaves + -leaves % BLOCK, wide), np.uint8)
        per = max(1, 2**16 // size)
        for start in range(0, leaves, per):
            progress("filling leaves", start, leaves)
            some = order[start * size : (start + per) * size]
            full = rows[np.append(some, np.repeat(some[-1:], -len(some) % size))]  # the last leaf: its last row again
            codes[start * size // BLOCK :][: len(full) // BLOCK] = in_blocks(full)
            members = full.reshape(-1, size, wide)
            mean = members.mean(1, dtype=np.float32)  # (per, wide)
            deviation = np.abs(members - mean[:, None]).mean(1)
            at = slice(start, start + len(mean))
            centres[0, at], centres[1, at] = np.rint(np.clip([mean + deviation, mean - deviation], 0, 255))
        filled = np.append(ids[order], np.full(leaves * size - n, -1))
        upper, lower = in_blocks(centres[0]), in_blocks(centres[1])
        return cls._over(truth, size, d, low, step, codes, upper, lower, filled)

    @classmethod
    def _over(
        cls,
        truth: Flat,
        size: int,
        d: int,
        low: Vectors,
        step: float,
        codes: Codes,
        upper: Codes,
        lower: Codes,
        ids: Ids,
    ) -> Self:
        """With what follows from the truth as it is now."""
        rows = truth.rows(ids)  # id -1 is nobody's
        place = np.full(int(rows.max(initial=-1)) + 1, -1, np.int32)
        place[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
        return cls(size, d, low, step, codes, upper, lower, ids, rows >= 0, place)

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
        places = self.places(rows)
        self.alive[places] = False

    def keep(self, among: Ids | None, exclude: Ids | None) -> Mask:
        """Which places may be answers, for rows of the truth; all that are alive, where neither is given."""
        keep = self.alive
        if among is not None:
            keep = np.zeros_like(keep)
            places = self.places(among)
            keep[places] = self.alive[places]
        if exclude is not None:
            keep = keep.copy()
            keep[self.places(exclude)] = False
        return keep

    def f_leaves(self, leaves: Ids, plane: Plane) -> Vectors:
        """F / ‖w‖ of the rows of these leaves, (m, size)."""
        return f_leaves(self.codes, leaves, self.size // BLOCK, plane)

    def f_centres(self, plane: Plane) -> Vectors:
        """F / ‖w‖ of what each leaf holds on average, (leaves,).

        Not f of the mean: rows are farther from anything than their mean is. The mean of |u − s| and |v − s|, with u
        and v one mean deviation from the mean on either side, is the rows' mean of |x − s| for s at or far from it.
        """
        blocks = np.arange(len(self.upper))
        return f_leaves(self.upper, blocks, 1, plane, self.lower).ravel()[: len(self.ids) // self.size]

    def spreads(self, leaves: Ids, plane: Plane) -> Vectors:
        """About how far f / ‖w‖ of rows is from that of their centre, for these leaves, (m,)."""
        return np.maximum(spreads(self.upper, self.lower, leaves, plane), np.float32(1e-9))

    def plane(self, query: HyperplaneQuery) -> Plane:
        """The query in the units of the codes."""
        kernel = check_kernel(query.kernel, query.gamma)
        X, a = query.X, query.a / query.length
        if query.kernel == "linear":  # the sum of the support vectors is one vector
            X, a = (a @ X.astype(np.float64))[None, :].astype(np.float32), np.ones(1)
        m, wide = len(X), self.codes.shape[1] * GROUP
        near, rows = np.zeros((m, wide), np.uint8), np.zeros((m, wide), np.float32)
        table, shift, scale, offsets = np.zeros(2, np.float32), 0, 0.0, np.zeros(m, np.float32)
        if kernel.norm is None:
            mode = PRODUCT
            rows[:, : self.dim] = X * self.step
            offsets = (X.astype(np.float64) @ self.low).astype(np.float32)
            scale = query.gamma if query.kernel == "poly" else 0.0
        elif kernel.norm == 1:
            mode, most = L1, 255 * self.dim
            near[:, : self.dim] = _encode(X, self.low, self.step)
            rows[:] = near
            shift = max(0, most // TABLE).bit_length()
            steps = (
                np.arange((most >> shift) + 1) * 2.0**shift + (2**shift - 1) / 2
            )  # the middle of what is thrown together
            table = _by_distance(query, steps * self.step)
        else:
            mode = L2
            rows[:, : self.dim] = (X - self.low) / self.step
            reach = float(np.sqrt((np.maximum(np.abs(rows), np.abs(rows - 255)) ** 2).sum(1).max(initial=1.0)))
            scale = TABLE / reach
            table = _by_distance(query, np.arange(TABLE + 2) / scale * self.step)
        return Plane(
            mode,
            near,
            rows,
            a.astype(np.float32),
            float(np.float32(query.b / query.length)),
            table,
            shift,
            float(np.float32(scale)),
            offsets,
        )

    def save(self, path: Path) -> None:
        """Write everything but what follows from the vectors."""
        whole = np.array([self.size, self.dim])
        with path.open("wb") as file:
            np.savez(
                file,
                whole=whole,
                low=self.low,
                step=np.array(self.step),
                codes=self.codes,
                upper=self.upper,
                lower=self.lower,
                ids=np.where(self.alive, self.ids, -1),
            )

    @classmethod
    def load(cls, path: Path, truth: Flat) -> Self:
        """Raises DamagedError where the file does not hold what `save` wrote."""
        try:
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                size, dim = map(int, file["whole"])
                low, step, codes = file["low"], float(file["step"]), file["codes"]
                return cls._over(truth, size, dim, low, step, codes, file["upper"], file["lower"], file["ids"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DamagedError(f"{path} cannot be read: {error}. Delete it: the index is built anew.") from error


def _encode(X: Vectors, low: Vectors, step: float) -> NDArray[np.uint8]:
    codes: NDArray[np.uint8] = np.clip(np.rint((X - low) / step), 0, 255).astype(np.uint8)
    return codes


def _by_distance(query: HyperplaneQuery, distances: NDArray[np.float64]) -> Vectors:
    """The kernel's values at these distances: those of points on a line, where every norm is the same."""
    pairs = check_kernel(query.kernel, query.gamma).pairs
    table: Vectors = pairs(distances[:, None], np.zeros((1, 1)), query.gamma)[:, 0].astype(np.float32)
    return table
