"""One segment, as the catalogue lists it and as a block of rows in memory maps.

In: a connection to the catalogue and the folder of vectors. Out: `Block`: ids (m,) int64 ascending, X (m, d) float32,
float16 or uint8, dead (m,) bool; nothing is copied but the dead rows.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.store import files
from lookalike.types import Ids


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of one segment."""

    ids: Ids  # (m,) int64, ascending
    X: NDArray[Any]  # (m, d) float32, float16 or uint8, a memory map
    dead: NDArray[np.bool_] | None  # (m,), True for rows that are no more
    segment: int

    @property
    def n_dead(self) -> int:
        """How many rows are dead."""
        return 0 if self.dead is None else int(np.count_nonzero(self.dead))

    @property
    def n_live(self) -> int:
        """How many rows are not."""
        return len(self.ids) - self.n_dead

    def live_ids(self) -> Ids:
        """The ids of the rows that are not dead, ascending."""
        return self.ids if self.dead is None else self.ids[~self.dead]

    def live_rows(self, ids: Ids) -> NDArray[np.int64]:
        """Which rows belong to these ids (ascending) and are not dead."""
        at = np.searchsorted(self.ids, ids)
        at[at == len(self.ids)] = 0
        rows: NDArray[np.int64] = at[self.ids[at] == ids]
        return rows if self.dead is None else rows[~self.dead[rows]]


class ListedSegment(NamedTuple):
    """A segment as the catalogue lists it."""

    id: int
    file: str
    rows: int
    n_dead: int
    dim: int
    dtype: str
    digest: bytes


def list_segments(db: sqlite3.Connection, space: str) -> list[ListedSegment]:
    """The segments of a space."""
    query = "SELECT id, file, rows, dead, dim, dtype, digest FROM segments WHERE space = ? ORDER BY id"
    return [ListedSegment(*row) for row in db.execute(query, [space])]


def dead_rows(db: sqlite3.Connection, row: ListedSegment, before: Block | None = None) -> NDArray[np.bool_] | None:
    """Which rows of a segment are dead, (m,). They only ever grow in number: as many as before are the same."""
    if row.n_dead == 0:
        return None
    if before is not None and before.n_dead == row.n_dead:
        return before.dead
    dead = np.zeros(row.rows, bool)
    numbers = db.execute("SELECT row FROM dead WHERE segment = ? AND row < ?", [row.id, row.rows])
    dead[[number for (number,) in numbers]] = True
    return dead


def open_block(folder: Path, row: ListedSegment, dead: NDArray[np.bool_] | None, before: Block | None = None) -> Block:
    """The block of a segment; FileNotFoundError where its files are gone, DamagedError where they are not right."""
    if before is None:
        ids, X = files.map_rows(folder / row.file, (row.rows, row.dim), row.dtype)
        return Block(ids, X, dead, row.id)
    return before if dead is before.dead else Block(before.ids, before.X, dead, row.id)
