"""Segments: immutable files of vectors, opened as memory maps (blocks), and merged when there are many.

The catalogue lists the segments of a space (`list_segments`). `open_block` maps a segment into memory without a copy. A
removed row is marked as dead and is dropped by the next merge. `choose_blocks` selects the segments to merge: segments
of similar size become one, so their number grows with the logarithm of the number of rows.
"""

import errno
import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import CHUNK_BYTES
from lookalike.errors import DamagedError
from lookalike.scaled_rows import Rows, ScaledRows, dtype_name, join_rows
from lookalike.store import npy_files
from lookalike.types import Ids

Stamp: TypeAlias = tuple[int, int, int]
"""Inode, size and modification time of a file. They never change, because segments never change."""

NOT_A_FILE = (errno.EISDIR, errno.ENOTDIR, errno.ELOOP)
"""Error numbers if a directory or a link has the name of a file. Other errors, such as EMFILE, are not damage."""

TIER = 8
"""Number of segments of similar size that are merged into one; also the ratio of sizes between successive tiers."""

MAX_ROWS = 2**20
"""Maximum number of rows of a merged segment. Larger segments make scans no faster, and merging needs more space."""


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of one segment."""

    ids: Ids  # (m,) int64, ascending
    X: Rows  # (m, d) float32, float16, uint8 or scaled rows, a memory map
    dead: NDArray[np.bool_] | None  # (m,), True for removed rows; None if there are none
    segment: int
    digest: bytes  # of the ids and rows when they were written
    stamps: tuple[Stamp, ...] = ()  # of its two files when they were opened
    file: Path | None = None  # of the rows

    @property
    def n_dead(self) -> int:
        """Number of dead rows."""
        return 0 if self.dead is None else int(np.count_nonzero(self.dead))

    @property
    def n_live(self) -> int:
        """Number of live rows."""
        return len(self.ids) - self.n_dead

    @property
    def intact(self) -> bool:
        """Whether the ids and rows match their digest. Reads all of them."""
        return npy_files.digest(self.ids, self.X) == self.digest

    def live_ids(self) -> Ids:
        """Return the ids of the live rows, ascending."""
        return self.ids if self.dead is None else self.ids[~self.dead]

    def live_rows(self, ids: Ids) -> NDArray[np.int64]:
        """Return the indices of the live rows of these ids (ascending)."""
        at = np.searchsorted(self.ids, ids)
        at[at == len(self.ids)] = 0
        rows: NDArray[np.int64] = at[self.ids[at] == ids]
        return rows if self.dead is None else rows[~self.dead[rows]]


class StoredRows:
    """The rows of several segments, numbered from 0, including dead ones. A call returns the rows with some numbers.

    A copy in another process maps the same files into memory.

    Parameters
    ----------
    segments : the file and the rows (m, d) of each segment.

    """

    def __init__(self, segments: Sequence[tuple[str, Rows]]):
        self.dim = segments[0][1].shape[1] if segments else 0
        self._segments = segments
        self._starts = np.cumsum([0, *(len(X) for _, X in segments)])

    def __call__(self, numbers: NDArray[Any]) -> NDArray[np.float32]:
        """The rows (m, d) with these numbers (m,)."""
        rows = np.empty((len(numbers), self.dim), np.float32)
        segments = np.searchsorted(self._starts, numbers, side="right") - 1  # (m,)
        for segment in np.unique(segments):
            inside = np.flatnonzero(segments == segment)
            rows[inside] = self._segments[segment][1].take(numbers[inside] - self._starts[segment], axis=0)
        return rows

    def __reduce__(self) -> tuple[Any, ...]:
        return _map_segments, ([(file, X.shape, dtype_name(X)) for file, X in self._segments],)


def _map_segments(segments: Sequence[tuple[str, tuple[int, int], str]]) -> StoredRows:
    """Map the rows of segments into memory."""
    return StoredRows([(file, npy_files.map_rows(Path(file), shape, dtype)[1]) for file, shape, dtype in segments])


class ListedSegment(NamedTuple):
    """An entry of the catalogue for a segment; `damage` is the reason if it is quarantined."""

    id: int
    file: str
    rows: int
    n_dead: int
    dim: int
    dtype: str
    digest: bytes
    damage: str | None = None


def list_segments(db: sqlite3.Connection, space: str, *, quarantined: bool = False) -> list[ListedSegment]:
    """Return the segments of a space that are not quarantined, or only those that are."""
    which = "NOT NULL" if quarantined else "NULL"
    query = (
        "SELECT id, file, rows, dead, dim, dtype, digest, damage FROM segments"
        f" WHERE space = ? AND damage IS {which} ORDER BY id"
    )
    return [ListedSegment(*row) for row in db.execute(query, [space])]


def dead_rows(db: sqlite3.Connection, row: ListedSegment, before: Block | None = None) -> NDArray[np.bool_] | None:
    """Return which rows of a segment are dead, (m,). Dead rows stay dead, so the same number means the same rows."""
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
    ascending. Searching and merging rely on these properties.
    """
    if before is not None:
        return before if dead is before.dead else replace(before, dead=dead)
    try:
        stamps = read_stamps(folder, row.file)
        ids, X = npy_files.map_rows(folder / row.file, (row.rows, row.dim), row.dtype)
    except OSError as error:
        if error.errno in NOT_A_FILE:
            raise DamagedError(f"{error.filename} is damaged: it is not a file ({error.strerror}).") from None
        raise
    if ids[0] < 0 or (ids[1:] <= ids[:-1]).any():
        raise DamagedError(f"{npy_files.ids_file(folder / row.file)} is damaged: its ids are not ascending.")
    return Block(ids, X, dead, row.id, row.digest, stamps, folder / row.file)


def open_blocks(
    folder: Path, listed: Sequence[tuple[ListedSegment, NDArray[np.bool_] | None]], before: Mapping[int, Block]
) -> tuple[list[Block], dict[int, str]]:
    """Return the blocks of these segments, and the reason for each segment that cannot be opened."""
    blocks, unreadable = [], {}
    for row, dead in listed:
        try:
            blocks.append(open_block(folder, row, dead, before.get(row.id)))
        except FileNotFoundError as error:
            unreadable[row.id] = f"{error.filename} is missing."
        except DamagedError as error:
            unreadable[row.id] = str(error)
    return blocks, unreadable


def read_stamps(folder: Path, file: str) -> tuple[Stamp, ...]:
    """Return the stamps of a segment's two files, for comparison with those of a block."""
    stats = [path.stat() for path in (folder / file, npy_files.ids_file(folder / file))]
    return tuple((found.st_ino, found.st_size, found.st_mtime_ns) for found in stats)


def choose_blocks(blocks: Sequence[Block], everything: bool) -> list[Block]:
    """Return the blocks to merge next, or an empty list. `everything`: merge into as few segments as possible."""
    live = {block.segment: block.n_live for block in blocks}
    if everything:
        total, dead = sum(live.values()), any(live[block.segment] < len(block.ids) for block in blocks)
        return list(blocks) if dead or len(blocks) > math.ceil(total / MAX_ROWS) else []
    for block in blocks:
        if 2 * live[block.segment] < len(block.ids):
            return [block]
    tiers: dict[int, list[Block]] = defaultdict(list)
    for block in blocks:
        if live[block.segment] < MAX_ROWS // 2:
            tiers[int(math.log(live[block.segment], TIER))].append(block)
    return next((tier for tier in tiers.values() if len(tier) >= TIER), [])


class MergedRows:
    """The live rows of several blocks by ascending id, read in portions; calls `on_rows` with the number read."""

    def __init__(self, blocks: Sequence[Block], on_rows: Callable[[int], None]):
        self._parts = merge_rows(blocks)
        self._on_rows = on_rows
        self._done = 0
        self._left: tuple[Ids, Rows] | None = None

    def take(self, rows: int) -> Iterator[tuple[Ids, Rows]]:
        """Yield the next `rows` rows in chunks of (m,) ids and (m, d) rows."""
        while rows:
            ids, X = self._left or next(self._parts)
            self._left = (ids[rows:], X[rows:]) if len(ids) > rows else None
            yield ids[:rows], X[:rows]
            taken = min(rows, len(ids))
            rows -= taken
            self._done += taken
            self._on_rows(self._done)


def split_rows(rows: int) -> list[int]:
    """Return the number of rows of each merged segment, for as few segments as possible, of equal size."""
    parts = math.ceil(rows / MAX_ROWS)
    return [rows // parts + (part < rows % parts) for part in range(parts)]


def merge_rows(blocks: Sequence[Block], max_bytes: int = CHUNK_BYTES) -> Iterator[tuple[Ids, Rows]]:
    """Yield the live rows of all blocks by ascending id, in chunks of (m,) ids and (m, d) rows.

    If some blocks have scaled rows, the rows of the others are rounded to scaled rows.
    """
    row_bytes = 8 + max(block.X.nbytes // len(block.ids) for block in blocks)
    window = max(1, max_bytes // (2 * row_bytes * len(blocks)))  # rows per block; in memory twice: gathered and sorted
    starts = [0] * len(blocks)
    scaled = any(isinstance(block.X, ScaledRows) for block in blocks)
    while unread := [i for i, block in enumerate(blocks) if starts[i] < len(block.ids)]:
        # All ids up to the smallest last id of the windows are inside the windows. The window with that last id is
        # exhausted each time, so the loop ends even if the ids are damaged.
        windows = {i: blocks[i].ids[starts[i] : starts[i] + window] for i in unread}
        least = min(unread, key=lambda i: int(windows[i][-1]))
        ids, rows = [], []
        for i in unread:
            taken = np.searchsorted(windows[i], windows[least][-1], side="right") if i != least else len(windows[i])
            part = slice(starts[i], starts[i] + int(taken))
            dead = blocks[i].dead
            keep = slice(None) if dead is None else ~dead[part]
            ids.append(blocks[i].ids[part][keep])
            kept = blocks[i].X[part][keep]
            rows.append(ScaledRows.encode(kept) if scaled and not isinstance(kept, ScaledRows) else kept)
            starts[i] = part.stop
        gathered = np.concatenate(ids)  # (m,)
        if len(gathered):  # otherwise all are dead
            order = np.argsort(gathered)
            yield gathered[order], join_rows(rows)[order]
