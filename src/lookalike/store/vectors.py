"""The vectors of a collection: spaces, their segments, and the files of their models.

A segment is written first and becomes part of its space in a later transaction (`write`, `commit`). A damaged segment
is quarantined: it is no longer part of its space, and its pictures are missing there until they are read again.
"""

import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike import atomic_files
from lookalike.arrays import chunks
from lookalike.atomic_files import file_errors
from lookalike.errors import DamagedError, FullError, InputError, LockedError, UnknownNameError
from lookalike.scaled_rows import SCALED, Rows, ScaledRows, dtype_name
from lookalike.store import npy_files
from lookalike.store.database import Database, read_ids, read_version, text
from lookalike.store.derived import Structures
from lookalike.store.segments import (
    Block,
    ListedSegment,
    MergedRows,
    StoredRows,
    choose_blocks,
    dead_rows,
    list_segments,
    open_block,
    open_blocks,
    read_stamps,
    split_rows,
)
from lookalike.store.sharing import check_shared, find_moving
from lookalike.types import Ids, Progress, Run

log = logging.getLogger("lookalike.store")

DTYPES = ("float32", "float16", "uint8", SCALED)
"""Types of rows: vectors, codes (uint8), or vectors as scaled bytes."""

TRIES = 20
"""Number of times that segments are listed again if other processes merge them while they are being opened."""

NegativePool: TypeAlias = tuple[str | None, Ids]
"""Negatives that a model was fitted on: their directory, or None for the collection itself, and their ids (n,)."""


@dataclass(frozen=True, slots=True)
class StoredSpace:
    """A space in the catalogue: the chain of specs that computes its vectors, and its fitted model."""

    name: str
    chain: list[str]
    base: str | None
    dim: int | None
    model: str | None
    fitted_on: int | None
    created_at: float
    model_digest: bytes | None


@dataclass(frozen=True, slots=True)
class Pending:
    """A segment that is written to disk but is not yet part of the collection."""

    space: str
    segment: int
    file: str
    ids: Ids  # (m,) int64, ascending
    dim: int
    dtype: str
    digest: bytes


class VectorStore:
    """The spaces of a collection and their vectors.

    Methods that change the catalogue must be called inside a transaction, unless documented otherwise.

    Parameters
    ----------
    path : the collection's directory.
    database : its catalogue.
    transaction : starts a transaction of the catalogue.

    """

    def __init__(self, path: Path, database: Database, transaction: Callable[[], AbstractContextManager[Any]]):
        self.unlink_after_commit: list[Path] = []  # files to unlink once the transaction is on disk
        self._path = path
        self._db = database
        self._transaction = transaction
        self._last = 0
        self._known: dict[str, tuple[int, list[Block]]] = {}
        self._unreadable: dict[int, str] = {}  # reasons of segments that could not be opened
        self._changed: dict[str, set[int]] = {}  # segments whose files changed while they were open, by space
        self.n_closed = 0  # number of times that `find_changed` has closed such segments
        self.structures = Structures(path / "indexes", database, self.unlink_after_commit)

    def spaces(self) -> dict[str, StoredSpace]:
        """Return every space by name, in the order of their creation."""
        with self._db.reading() as db:
            rows = db.execute(
                "SELECT name, chain, base, dim, model, fitted_on, created_at, model_digest FROM spaces ORDER BY rowid"
            ).fetchall()
        return {row[0]: StoredSpace(row[0], json.loads(row[1]), *row[2:]) for row in rows}

    def create_space(self, name: str, chain: Sequence[str], base: str | None = None) -> None:
        """Create an empty space. `base` is the space from whose vectors its vectors are computed."""
        if name in self.spaces():
            raise InputError(f"Space '{name}' already exists. Choose another name.")
        if base is not None:
            self._space(base)
        self._db.writing().execute(
            "INSERT INTO spaces (name, chain, base, created_at) VALUES (?, ?, ?, ?)",
            [name, json.dumps(list(chain)), base, time.time()],
        )

    def drop_space(self, name: str) -> None:
        """Remove a space with its vectors, its model and its index structures."""
        users = [space.name for space in self.spaces().values() if space.base == name]
        if users:
            raise InputError(f"Space '{name}' is the base of {', '.join(users)}. Remove these spaces first.")
        self.replace(name, [], model=None, fitted_on=None)
        self._db.writing().execute("DELETE FROM spaces WHERE name = ?", [name])

    def write(self, space: str, ids: Ids, X: Rows) -> Pending:
        """Write a segment to the disk, sorted by id, to commit it later. Needs no transaction.

        `ids` are (n,) int64 without duplicates. `X` is (n, d) and keeps its type: finite float32 or float16, scaled
        rows, or uint8 codes.
        """
        ids = np.asarray(ids, np.int64)
        if X.ndim != 2 or X.shape[0] != len(ids) or 0 in X.shape or dtype_name(X) not in DTYPES:
            raise InputError(
                "X must be a matrix of float32, float16, uint8 or scaled rows with one row per id, and at least one."
                f" Got {dtype_name(X)} of shape {X.shape} for {len(ids)} ids."
            )
        order = np.argsort(ids)
        _check_ids(space, ids[order])
        for part in chunks(len(ids), X.nbytes // len(ids)):
            if not _is_finite(X[part]):
                raise InputError(f"Vectors for '{space}' must be finite. Got NaN or infinity.")
        parts = ((ids[order[part]], X[order[part]]) for part in chunks(len(ids), X.nbytes // len(ids)))
        return self._write(space, (len(ids), X.shape[1]), dtype_name(X), parts)

    def commit(self, pending: Pending, *, overwrite: bool = False) -> None:
        """Make a written segment part of its space. The first one determines the dimensions of the space.

        With `overwrite`, its rows replace the previous rows of the same items.
        """
        if overwrite:
            self._remove(pending.space, pending.ids)
        for block in self.blocks(pending.space):
            if len(block.live_rows(pending.ids)):
                raise InputError(
                    f"Space '{pending.space}' already has vectors for some of these ids. Remove them first."
                )
        self._quarantine(self._unreadable)  # otherwise an item could have two rows if the file becomes readable again
        self._name(pending)

    def replace(
        self,
        space: str,
        pendings: Sequence[Pending],
        *,
        model: str | None,
        fitted_on: int | None,
        chain: Sequence[str] | None = None,
        pools: Sequence[NegativePool] = (),
    ) -> None:
        """Replace all segments and the model of a space, and drop its index structures.

        Also drops the smoothed rows, which were computed from the rows of this space without a model. `model` is the
        name of a file in `models/` that is already in place. `chain`: the new chain of the space. `pools`: the
        negatives that the model was fitted on.
        """
        if pendings:
            _check_ids(space, np.sort(np.concatenate([pending.ids for pending in pendings])))
        before = self._space(space).model
        if before is not None and before != model:
            self.unlink_after_commit.append(self._path / "models" / before)
        digest = npy_files.digest_file(self._path / "models" / model) if model is not None else None
        self.structures.drop(space)
        db = self._db.writing()
        segments = [*list_segments(db, space), *list_segments(db, space, quarantined=True)]
        self._forget([row.id for row in segments])
        self._db.writing().execute(
            "UPDATE spaces SET dim = NULL, model = ?, model_digest = ?, fitted_on = ?, chain = coalesce(?, chain)"
            " WHERE name = ?",
            [model, digest, fitted_on, None if chain is None else json.dumps(list(chain)), space],
        )
        self._db.writing().execute("DELETE FROM pools WHERE space = ?", [space])
        self._db.writing().executemany(
            "INSERT INTO pools VALUES (?, CAST(? AS TEXT), ?)",
            [(space, None if source is None else text(source), ids.astype("<i8").tobytes()) for source, ids in pools],
        )
        for pending in pendings:
            self._name(pending)
        for user in [other.name for other in self.spaces().values() if other.base == space and other.model is None]:
            self.replace(user, [], model=None, fitted_on=None)

    def pools(self, space: str) -> list[NegativePool]:
        """Return the negatives that the model of a space was fitted on, as given to `replace`."""
        with self._db.reading() as db:
            rows = db.execute("SELECT source, ids FROM pools WHERE space = ? ORDER BY rowid", [space]).fetchall()
        return [(source, np.frombuffer(ids, "<i8").astype(np.int64)) for source, ids in rows]

    def remove(self, ids: Ids | Sequence[int]) -> None:
        """Remove the vectors of these items from every space: mark their rows as dead until the next merge."""
        for space in self.spaces():
            self._remove(space, np.unique(np.asarray(ids, np.int64)))

    def recover(self, space: str, ids: Ids) -> list[Pending]:
        """Write the removed vectors of these items (ascending) again, to commit them later. Needs no transaction.

        Vectors that a merge has dropped, and those of damaged segments, are left out.
        """
        left, pendings = np.setdiff1d(ids, self.live_ids(space), assume_unique=True), []
        for block in reversed(self.blocks(space)):  # the newest vector of an item is in the newest segment
            rows = np.flatnonzero(np.isin(block.ids, left, assume_unique=True))
            if len(rows) and block.intact:
                pendings.append(self.write(space, block.ids[rows], block.X[rows]))
                left = np.setdiff1d(left, block.ids[rows], assume_unique=True)
        return pendings

    def blocks(self, space: str) -> list[Block]:
        """Return the vectors of a space, one memory-mapped block per segment. Unchanged blocks are the same objects."""
        inside = self._db.in_transaction()  # uncommitted rows must not be cached
        version, known = self._known.get(space, (-1, []))
        if version == self.version() and not inside:
            return list(known)
        before = {block.segment: block for block in known}
        for _ in range(TRIES):
            with self._db.reading() as db:
                now = read_version(db)
                listed = [(row, dead_rows(db, row, before.get(row.id))) for row in list_segments(db, space)]
            if not listed:
                self._space(space)  # raises if it does not exist
            blocks, unreadable = open_blocks(self._file(""), listed, before)
            if unreadable and (self.version() != now or find_moving(self._path)):
                continue  # another process has merged or moved them in the meantime
            if unreadable:
                check_shared(self._path)
            for segment, problem in unreadable.items():
                if segment not in self._unreadable:
                    log.warning("%s Its pictures are missing from '%s'. Run: lookalike repair", problem, space)
            for block in blocks:
                self._unreadable.pop(block.segment, None)  # its file may have been restored
            self._unreadable.update(unreadable)
            if not inside:
                self._known[space] = (now, blocks)
            return list(blocks)
        raise LockedError(f"The segments of '{space}' changed {TRIES} times while they were read. Try again later.")

    def close_removed(self, names: Container[str]) -> None:
        """Close the segments of all other spaces: open files of a removed space would still occupy disk space.

        Results and indexes that still use a segment keep it open until they are released.
        """
        for name in [name for name in list(self._known) if name not in names]:
            self._known.pop(name, None)

    def quarantined(self, space: str) -> dict[str, str]:
        """Return the files of the quarantined segments of a space, with the reasons."""
        with self._db.reading() as db:
            return {row.file: row.damage or "" for row in list_segments(db, space, quarantined=True)}

    def quarantine_damaged(self, space: str, ids: Ids | None = None, *, progress: Progress | None = None) -> list[str]:
        """Quarantine the segments of a space that do not match their digest; return their files.

        Code that rewrites vectors must call this first, so that damaged rows never get a valid digest. It reads all
        bytes of the segments or, with `ids` (ascending), only of segments that have a live row of one of them. A
        quarantined segment is no longer part of its space: its pictures are `missing` there. Uses its own transaction.
        """
        blocks = [block for block in self.blocks(space) if ids is None or len(block.live_rows(ids))]
        return self._quarantine_damaged(space, blocks, progress)

    def release_quarantined(self, space: str) -> None:
        """Remove the quarantined segments of a space if every item has a row again. Uses its own transaction."""
        with self._db.reading() as db:
            segments = [row.id for row in list_segments(db, space, quarantined=True)]
        if segments and not len(self.missing(space)):
            with self._transaction():
                self._forget(segments)

    def readmit(self, space: str, file: str) -> None:
        """Make a quarantined segment part of its space again if its files are intact. Needs a transaction."""
        db = self._db.writing()
        for row in list_segments(db, space, quarantined=True):
            if row.file == file:
                blocks, _ = open_blocks(self._file(""), [(row, dead_rows(db, row))], {})
                if blocks and blocks[0].intact:
                    db.execute("UPDATE segments SET damage = NULL WHERE id = ?", [row.id])
                    self._unreadable.pop(row.id, None)

    def reconcile(self, space: str) -> int:
        """Drop live rows without an item, and all except the newest row of each item; return how many were dropped.

        Also corrects the catalogue's counts of dead rows and the dimension of the space. Needs a transaction.
        """
        db = self._db.writing()
        db.execute("DELETE FROM dead WHERE row >= (SELECT rows FROM segments WHERE id = segment)")
        count = "(SELECT count(*) FROM dead WHERE segment = segments.id)"
        db.execute(f"UPDATE segments SET dead = {count} WHERE space = ? AND dead <> {count}", [space])
        dims = {row.dim for row in list_segments(db, space)}
        if len(dims) == 1:
            db.execute("UPDATE spaces SET dim = ? WHERE name = ?", [*dims, space])
        self._known.pop(space, None)  # their dead rows may have changed
        keep, dropped = read_ids(db, "SELECT id FROM items"), 0
        for block in reversed(self.blocks(space)):
            dropped += self._remove_rows(block, np.setdiff1d(block.live_ids(), keep, assume_unique=True))
            keep = np.setdiff1d(keep, block.live_ids(), assume_unique=True)
        return dropped

    def find_changed(self) -> dict[str, set[int]]:
        """Return the segments whose files have changed since this process opened them, by space. They never should.

        Reading the memory map of a truncated file would end the process, so these segments are closed here until
        `quarantine_changed` has checked them. This costs one stat call per open file.
        """
        for space, (_, known) in list(self._known.items()):
            with self._db.reading() as db:
                names = {row.id: row.file for row in list_segments(db, space)}
            changed = {block.segment for block in known if block.segment in names and self._has_changed(block, names)}
            if changed:
                self._changed.setdefault(space, set()).update(changed)
                self.n_closed += 1
                self._known[space] = (-1, [block for block in known if block.segment not in changed])
        return self._changed

    def quarantine_changed(self) -> list[str]:
        """Quarantine the changed segments that are damaged; return their files. Uses its own transactions."""
        files = []
        for space, changed in self._changed.items():
            blocks = [block for block in self.blocks(space) if block.segment in changed]
            files += self._quarantine_damaged(space, blocks, None)
        self._changed = {}
        return files

    def rows(self, space: str) -> int:
        """Return the number of live rows of a space."""
        self._space(space)
        return self._number(
            "SELECT coalesce(sum(rows - dead), 0) FROM segments WHERE space = ? AND damage IS NULL", space
        )

    def n_segments(self) -> int:
        """Return the number of segments of all spaces."""
        return self._number("SELECT count(*) FROM segments")

    def bytes(self, space: str) -> int:
        """Return the size of a space's vectors on disk in bytes, including dead rows."""
        return sum(block.ids.nbytes + block.X.nbytes for block in self.blocks(space))

    def row_bytes(self, space: str) -> int | None:
        """Return the size of the largest vector or code of a space in bytes, or None if the space is empty."""
        return max((block.X.nbytes // len(block.ids) for block in self.blocks(space)), default=None)

    def live_ids(self, space: str) -> Ids:
        """Return the items with a live row in a space, ascending."""
        ids = [block.live_ids() for block in self.blocks(space)]
        return np.sort(np.concatenate(ids)) if ids else np.empty(0, np.int64)

    def stored_rows(self, space: str) -> tuple[Ids, NDArray[Any], StoredRows]:
        """Return the items with a live row, ascending, the number of each row, and the rows by number.

        Other processes can use the rows, too.
        """
        blocks = self.blocks(space)
        alive = [np.ones(len(block.ids), np.bool_) if block.dead is None else ~block.dead for block in blocks]
        numbers = np.flatnonzero(np.concatenate([np.empty(0, np.bool_), *alive]))
        ids = np.concatenate([np.empty(0, np.int64), *(block.live_ids() for block in blocks)])
        order = np.argsort(ids)
        small = sum(map(len, alive)) < 2**31  # then messages to other processes are half as long
        files = [(str(block.file and block.file.resolve()), block.X) for block in blocks]
        return ids[order], numbers[order].astype(np.int32 if small else np.int64), StoredRows(files)

    def missing(self, space: str) -> Ids:
        """Return the items without a live row in a space, ascending."""
        with self._db.reading() as db:
            items = read_ids(db, "SELECT id FROM items")
        return np.setdiff1d(items, self.live_ids(space), assume_unique=True)

    def merge(self, space: str, *, everything: bool = False, progress: Progress | None = None) -> int:
        """Merge small segments and drop their dead rows; return how many segments were merged.

        Eight segments of similar size become one; with `everything`, all are merged into as few as possible. On a full
        disk, segments with dead rows are rewritten one by one, and the others are not changed. Uses its own
        transactions.
        """
        merged = self._forget_dead(space)
        while blocks := choose_blocks(self.blocks(space), everything):
            if self._quarantine_damaged(space, blocks, None):
                continue  # choose among the others
            try:
                self._merge(space, blocks, progress)
                merged += len(blocks)
            except FullError:
                dead = sorted((block for block in blocks if block.n_dead), key=lambda block: block.n_live)
                if not dead:
                    break  # no space can be freed, and there is not enough to merge them
                if len(blocks) == 1:
                    raise
                self._merge(space, dead[:1], progress)  # needs the least space and frees some
                merged += 1
        return merged

    def verify(self, space: str, progress: Progress, run: Run = map) -> list[str]:
        """Return a sentence for each fault in the vectors of a space. Reads every byte of them.

        `run` is like `map`; it can check the segments in other processes.
        """
        self._space(space)
        for _ in range(TRIES):  # all files are opened before they are read, so that a merge cannot remove them
            with self._db.reading() as db:
                version = read_version(db)
                listed = [(row, dead_rows(db, row)) for row in list_segments(db, space)]
                quarantined = list_segments(db, space, quarantined=True)
                (dim,) = db.execute("SELECT dim FROM spaces WHERE name = ?", [space]).fetchone()
                items = read_ids(db, "SELECT id FROM items")
            blocks, unreadable = open_blocks(self._file(""), listed, {})
            if not unreadable:
                break
            if self.version() == version and not find_moving(self._path):
                check_shared(self._path)
                break
        faults = list(unreadable.values())
        faults += [f"vectors/{row.file} is quarantined: {(row.damage or '').rstrip('.')}." for row in quarantined]
        by_segment = {row.id: (row, dead) for row, dead in listed}
        to_check = [by_segment[block.segment] for block in blocks]
        checked = run(partial(check_segment, self._file(""), dim), to_check)
        for done, (found, (row, _), block) in enumerate(zip(checked, to_check, blocks, strict=True)):
            progress(f"verifying {space}", done, len(blocks))
            found = _find_faults(row, block, dim) if found is None else found
            faults += [f"{self._file(row.file)} {fault}." for fault in found]
        progress(f"verifying {space}", len(blocks), len(blocks))
        faults += _find_wrong_ids(blocks, items, space)
        return [f"{fault} Run: lookalike repair" for fault in faults]

    def new_file(self, folder: str, suffix: str) -> Path:
        """Return a new path in the folder "models" or "indexes". Write it, call `put_in_place`, then reference it."""
        return self._path / folder / f"{secrets.token_hex(8)}{suffix}"

    def unfinished_file(self, space: str, suffix: str) -> Path:
        """Return the path in "indexes" of an unfinished index of the current rows of a space.

        After an interruption, the file and those whose names start with its name are kept until the rows change, so
        that a later build can resume. Removes the unfinished files of earlier rows. Needs the writer lock.
        """
        folder = self._path / "indexes"
        with file_errors(folder):
            for earlier in {*folder.glob(f"*{suffix}*")} - self.files():
                if earlier.is_file():
                    earlier.unlink()
        return folder / f"{self.fingerprint(space)}{suffix}"

    def put_in_place(self, temp: Path, name: str | None = None) -> str:
        """Sync a file to the disk, rename it if a name is given, and return its name."""
        with file_errors(temp):
            atomic_files.put_in_place(temp, temp.with_name(name or temp.name))
        return name or temp.name

    def files(self) -> set[Path]:
        """Return every file that the catalogue lists, and unfinished ones of the current rows (`unfinished_file`)."""
        with self._db.reading() as db:
            rows = [self._file(file) for (file,) in db.execute("SELECT file FROM segments")]
            models = db.execute("SELECT model FROM spaces WHERE model IS NOT NULL").fetchall()
            indexes = db.execute("SELECT file FROM structures").fetchall()
        current = {self.fingerprint(space) for space in self.spaces()}
        return {
            *rows,
            *(npy_files.ids_file(file) for file in rows),
            *(self._path / "models" / name for (name,) in models),
            *(self._path / "indexes" / name for (name,) in indexes),
            *(file for file in (self._path / "indexes").glob("*") if file.name.partition(".")[0] in current),
        }

    def fingerprint(self, space: str) -> str:
        """Return a digest of the live rows of a space; it changes with every change to them."""
        with self._db.reading() as db:
            rows = [(row.file, row.n_dead, row.digest.hex()) for row in list_segments(db, space)]
        return blake2b(repr(rows).encode(), digest_size=npy_files.DIGEST_BYTES).hexdigest()

    def version(self) -> int:
        """Return the number of commits to the catalogue."""
        return self._db.version()

    def _space(self, name: str) -> StoredSpace:
        spaces = self.spaces()
        if name not in spaces:
            raise UnknownNameError("space", name, spaces)
        return spaces[name]

    def _file(self, name: str) -> Path:
        return self._path / "vectors" / name

    def _number(self, query: str, *values: str) -> int:
        with self._db.reading() as db:
            return int(db.execute(query, values).fetchone()[0])

    def _write(self, space: str, shape: tuple[int, int], dtype: str, parts: Iterable[tuple[Ids, Rows]]) -> Pending:
        # Numbers are never reused, so that readers cannot mistake a new file for an old one.
        used = self._number("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'segments'")
        self._last = max(self._last, used) + 1
        slug = re.sub(r"[^A-Za-z0-9]+", "-", space).strip("-")[:40]
        target = self._file(f"{slug}-{self._last}.npy")
        with file_errors(target):
            writer = npy_files.RowWriter(target, *shape, dtype)
            try:
                for ids, X in parts:
                    writer.add(ids, X)
                digest = writer.close()
            except BaseException:
                writer.discard()
                raise
            ids, _ = npy_files.map_rows(target, shape, dtype)
        return Pending(space, self._last, target.name, ids, shape[1], dtype, digest)

    def _merge(self, space: str, blocks: Sequence[Block], progress: Progress | None) -> None:
        """Replace these segments by new segments with their live rows."""
        dim, dtypes = blocks[0].X.shape[1], {dtype_name(block.X) for block in blocks}
        dtype = SCALED if SCALED in dtypes else np.result_type(*dtypes).name  # as `merge_rows`
        total = sum(block.n_live for block in blocks)
        merged = MergedRows(blocks, lambda done: progress(f"merging {space}", done, total) if progress else None)
        pendings = list[Pending]()
        try:
            for rows in split_rows(total):
                pendings.append(self._write(space, (rows, dim), dtype, merged.take(rows)))
            with self._transaction():
                self._forget([block.segment for block in blocks])
                for pending in pendings:
                    self._name(pending)
        except FullError:
            self._discard(pendings)
            raise

    def _discard(self, pendings: Sequence[Pending]) -> None:
        """Remove written segments that will not be committed."""
        if not self._db.in_doubt:
            for pending in pendings:
                for file in (self._file(pending.file), npy_files.ids_file(self._file(pending.file))):
                    file.unlink(missing_ok=True)

    def _forget_dead(self, space: str) -> int:
        """Remove the segments without live rows, which needs almost no disk space; return how many were removed."""
        if dead := [block.segment for block in self.blocks(space) if not block.n_live]:
            with self._transaction():
                self._forget(dead)
        return len(dead)

    def _remove(self, space: str, ids: Ids) -> None:
        """Mark the rows of these items, ascending, as dead."""
        for block in self.blocks(space):
            self._remove_rows(block, ids)

    def _remove_rows(self, block: Block, ids: Ids) -> int:
        """Mark the rows of these items, ascending, as dead in one segment; return how many there were."""
        rows, db = block.live_rows(ids).tolist(), self._db.writing()
        db.executemany("INSERT INTO dead VALUES (?, ?)", [(block.segment, row) for row in rows])
        db.execute("UPDATE segments SET dead = dead + ? WHERE id = ?", [len(rows), block.segment])
        return len(rows)

    def _name(self, pending: Pending) -> None:
        dim = self._space(pending.space).dim
        if dim not in (None, pending.dim):
            raise InputError(f"Space '{pending.space}' has {dim} dimensions. Got {pending.dim}.")
        db = self._db.writing()
        db.execute("UPDATE spaces SET dim = ? WHERE name = ?", [pending.dim, pending.space])
        db.execute(
            "INSERT INTO segments (id, space, file, rows, dim, dtype, digest) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                *(pending.segment, pending.space, pending.file, len(pending.ids)),
                *(pending.dim, pending.dtype, pending.digest),
            ],
        )

    def _has_changed(self, block: Block, names: Mapping[int, str]) -> bool:
        try:
            return read_stamps(self._file(""), names[block.segment]) != block.stamps
        except OSError:
            return True

    def _quarantine_damaged(self, space: str, blocks: Sequence[Block], progress: Progress | None) -> list[str]:
        damage = dict(self._unreadable)
        for done, block in enumerate(blocks):
            if progress:
                progress(f"verifying {space}", done, len(blocks))
            if not block.intact:
                damage[block.segment] = "does not match its digest"
        with self._db.reading() as db:
            listed = [row for row in list_segments(db, space) if row.id in damage]
        if not listed:
            return []
        with self._transaction():
            self._quarantine({row.id: damage[row.id] for row in listed})
        files = [row.file for row in listed]
        for file in files:
            log.warning(
                "vectors/%s is damaged and was quarantined. Its pictures are missing from '%s'. Run: lookalike repair",
                file,
                space,
            )
        return files

    def _quarantine(self, damage: Mapping[int, str]) -> None:
        update = "UPDATE segments SET damage = ? WHERE id = ? AND damage IS NULL"
        self._db.writing().executemany(update, [(reason, segment) for segment, reason in damage.items()])

    def _forget(self, segments: Sequence[int]) -> None:
        for segment in segments:
            delete = "DELETE FROM segments WHERE id = ? RETURNING file"
            (file,) = self._db.writing().execute(delete, [segment]).fetchone()
            self.unlink_after_commit += [self._file(file), npy_files.ids_file(self._file(file))]


def _check_ids(space: str, ids: Ids) -> None:
    """Raise InputError if ascending ids are negative or contain duplicates."""
    if ids[0] < 0:
        raise InputError(f"Ids for '{space}' cannot be negative. Got {ids[0]}.")
    if (twice := ids[1:][ids[1:] == ids[:-1]]).size:
        raise InputError(f"Ids for '{space}' must be unique. Got {twice[0]} twice.")


def check_segment(folder: Path, dim: int, listed: tuple[ListedSegment, NDArray[np.bool_] | None]) -> list[str] | None:
    """Open a segment and return its faults; None if it cannot be opened, for example because it was just merged."""
    try:
        return _find_faults(listed[0], open_block(folder, *listed), dim)
    except (OSError, DamagedError):
        return None


def _find_faults(row: ListedSegment, block: Block, dim: int) -> list[str]:
    """Return the faults of one segment."""
    faults = []
    if not block.intact:
        faults.append("does not match its digest")
    if row.dim != dim:
        faults.append(f"has {row.dim} dimensions, but its space has {dim}")
    if not all(_is_finite(block.X[part]) for part in chunks(row.rows, block.X.nbytes // row.rows)):
        faults.append("has vectors that are not finite")
    if block.n_dead != row.n_dead:
        faults.append(f"has {block.n_dead} removed vectors, but the catalogue lists {row.n_dead}")
    return faults


def _is_finite(X: Rows) -> bool:
    return bool(np.isfinite(X.scales if isinstance(X, ScaledRows) else X).all())


def _find_wrong_ids(blocks: list[Block], items: Ids, space: str) -> list[str]:
    """Return one sentence if live rows have no item, and one if items have two live rows."""
    faults = []
    live = np.concatenate([np.empty(0, np.int64), *(block.live_ids() for block in blocks)])
    ids, counts = np.unique(live, return_counts=True)
    if (counts > 1).any():
        faults.append(f"Space '{space}': items with two vectors: {np.count_nonzero(counts > 1)}.")
    unknown = np.setdiff1d(ids, items, assume_unique=True)
    if len(unknown):
        faults.append(f"Space '{space}': vectors without an item: {len(unknown)}.")
    return faults
