"""One segment, as the catalogue lists it and as a block of rows in memory maps.

In: a connection to the catalogue and the folder of vectors. Out: `Block`: ids (m,) int64 ascending, X (m, d) float32,
float16 or uint8, dead (m,) bool; nothing is copied but the dead rows.
"""

import errno
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import DamagedError
from lookalike.store import files
from lookalike.types import Ids

Stamp: TypeAlias = tuple[int, int, int]
"""Inode, size and modification time of a file. Segments never change, so neither does this."""

NOT_A_FILE = (errno.EISDIR, errno.ENOTDIR, errno.ELOOP)
"""Errors of the system where something else has the name of a file; others, such as EMFILE, are no damage."""


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of one segment."""

    ids: Ids  # (m,) int64, ascending
    X: NDArray[Any]  # (m, d) float32, float16 or uint8, a memory map
    dead: NDArray[np.bool_] | None  # (m,), True for rows that are no more
    segment: int
    digest: bytes  # of the ids and rows, as they were written
    stamps: tuple[Stamp, ...] = ()  # of its two files, when they were opened

    @property
    def n_dead(self) -> int:
        """How many rows are dead."""
        return 0 if self.dead is None else int(np.count_nonzero(self.dead))

    @property
    def n_live(self) -> int:
        """How many rows are not."""
        return len(self.ids) - self.n_dead

    @property
    def intact(self) -> bool:
        """Whether the ids and rows match their digest; reads all of them."""
        return files.digest(self.ids, self.X) == self.digest

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
    """A segment as the catalogue lists it; `damage` is the reason if it is quarantined."""

    id: int
    file: str
    rows: int
    n_dead: int
    dim: int
    dtype: str
    digest: bytes
    damage: str | None = None


def list_segments(db: sqlite3.Connection, space: str, *, quarantined: bool = False) -> list[ListedSegment]:
    """Return the segments of a space, without those that are quarantined; or only these."""
    which = "NOT NULL" if quarantined else "NULL"
    query = (
        "SELECT id, file, rows, dead, dim, dtype, digest, damage FROM segments"
        f" WHERE space = ? AND damage IS {which} ORDER BY id"
    )
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
    """Return the block of a segment.

    Raises FileNotFoundError if a file is missing, and DamagedError if the shape or type is wrong or the ids are not
    ascending: search and merge rely on these.
    """
    if before is not None:
        return before if dead is before.dead else replace(before, dead=dead)
    try:
        stamps = stamp(folder, row.file)
        ids, X = files.map_rows(folder / row.file, (row.rows, row.dim), row.dtype)
    except OSError as error:
        if error.errno in NOT_A_FILE:
            raise DamagedError(f"{error.filename} is damaged: it is not a file ({error.strerror}).") from None
        raise
    if ids[0] < 0 or (ids[1:] <= ids[:-1]).any():
        raise DamagedError(f"{files.ids_file(folder / row.file)} is damaged: its ids are not ascending.")
    return Block(ids, X, dead, row.id, row.digest, stamps)


def open_blocks(
    folder: Path, listed: Sequence[tuple[ListedSegment, NDArray[np.bool_] | None]], before: Mapping[int, Block]
) -> tuple[list[Block], dict[int, str]]:
    """Return the blocks of these segments, and for each segment that cannot be opened the reason."""
    blocks, unreadable = [], {}
    for row, dead in listed:
        try:
            blocks.append(open_block(folder, row, dead, before.get(row.id)))
        except FileNotFoundError as error:
            unreadable[row.id] = f"{error.filename} is missing."
        except DamagedError as error:
            unreadable[row.id] = str(error)
    return blocks, unreadable


def stamp(folder: Path, file: str) -> tuple[Stamp, ...]:
    """Return the stamps of a segment's two files, to compare with those of a block."""
    stats = [path.stat() for path in (folder / file, files.ids_file(folder / file))]
    return tuple((found.st_ino, found.st_size, found.st_mtime_ns) for found in stats)
