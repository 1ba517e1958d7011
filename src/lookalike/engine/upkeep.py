"""Upkeep of a collection: finding damage, comparing pictures with their files, giving disk space back."""

import os
from contextlib import suppress
from pathlib import Path

from lookalike.arrays import chunks
from lookalike.engine.presence import ignore
from lookalike.engine.space_fit import find_lacking
from lookalike.engine.space_settle import settle
from lookalike.engine.spaces import Spaces
from lookalike.errors import (
    DamagedError,
    FormatError,
    ImageError,
    LockedError,
    ReadOnlyError,
    SourceError,
    StoreError,
)
from lookalike.images.decoding import content_id, digest_content
from lookalike.images.sources import Entry, locate, split_member, walk
from lookalike.index.flat import Flat
from lookalike.store.derived import KINDS, Kind
from lookalike.store.directory import Store
from lookalike.store.items import Item
from lookalike.store.npy_files import digest_file
from lookalike.text import many
from lookalike.types import Progress, format_id

INDEXED_MIN = 1_000
"""Rows from which on an index is built. A space with fewer does not need the one it may still have."""

BATCH = 10_000
"""Items looked up, and digests written, at a time."""


def verify(store: Store, spaces: Spaces, progress: Progress) -> list[str]:
    """Every fault of a collection; none where all is well."""
    faults = store.verify()
    for name in spaces.all():
        faults += _verify_space(spaces, name, progress)
    faults += [f"derived/{file.name} is damaged. Run: lookalike repair" for file in store.derived.damaged()]
    return faults


def verify_pictures(store: Store, progress: Progress) -> list[str]:
    """Read the original pictures; returns a sentence for each one that is missing or has changed.

    Items that an older Lookalike added get the whole digest of their file, if the collection is writable.
    """
    check = _PictureCheck(store, progress)
    archives: dict[str, dict[str, Item]] = {}  # by archive and path: each archive is read once
    ids = store.items.ids()
    for part in chunks(len(ids), 1, BATCH):
        for item in store.items.get(ids[part].tolist()).values():
            for path in item.paths:
                archive, member = split_member(path)
                if member and not os.path.lexists(path):
                    archives.setdefault(archive, {})[path] = item
                else:
                    check(path, item, locate(path))
            if not item.paths:
                check.faults.append(f"Item {format_id(item.id)} has no path. Run: lookalike refresh")
    for archive, members in archives.items():
        with suppress(SourceError):
            for entry in walk([archive], on_skip=ignore):
                if entry.path in members:
                    check(entry.path, members.pop(entry.path), entry)
        for path, item in members.items():
            check(path, item, None)
    check.write_contents()
    return check.faults


class _PictureCheck:
    """Comparison of files with their items."""

    def __init__(self, store: Store, progress: Progress):
        self.faults: list[str] = []
        self._store = store
        self._progress = progress
        self._total = store.items.n_paths()
        self._done = 0
        self._contents: dict[int, bytes] = {}

    def __call__(self, path: str, item: Item, entry: Entry | None) -> None:
        """Compare one file."""
        self._done += 1
        self._progress("reading pictures", self._done, self._total)
        try:
            if entry is None:
                raise ImageError("it is missing")
            content = digest_content(entry.read())
        except ImageError as error:
            self.faults.append(f"{path} cannot be read: {error}. Run: {self._command(path)}")
            return
        if content_id(content) != item.id or item.content not in (None, content):
            self.faults.append(f"{path} has changed since it was added. Run: {self._command(path)}")
        elif item.content is None:
            self._contents[item.id] = content
            if len(self._contents) >= BATCH:
                self.write_contents()

    def _command(self, path: str) -> str:
        """Return the command to run for a file that is damaged: of an upload, the collection had the original."""
        inside = Path(path).is_relative_to(self._store.path)
        return "lookalike repair --from BACKUP" if inside else "lookalike refresh, if that is intended"

    def write_contents(self) -> None:
        """Store the digests of items that had none."""
        if self._contents:
            with suppress(LockedError, ReadOnlyError), self._store.writer(), self._store.transaction():
                self._store.items.set_contents(self._contents)
            self._contents = {}


def damaged_structures(spaces: Spaces, name: str) -> dict[Kind, str]:
    """Return what is wrong with the index structures of a space, by kind."""
    found: dict[Kind, str] = {}
    for kind in KINDS:
        structure = spaces.store.vectors.structures.get(name, kind)
        if structure is None or spaces.store.vectors.rows(name) < INDEXED_MIN:
            continue
        file = spaces.store.path / "indexes" / structure.file
        try:
            if structure.digest is not None and digest_file(file) != structure.digest:
                found[kind] = f"{file} does not match its digest."
            else:
                spaces.indexes.open(structure.file, Flat())
        except FileNotFoundError:
            found[kind] = f"{file} is missing."
        except StoreError as error:
            found[kind] = str(error)
    return found


def compact(store: Store, spaces: Spaces, progress: Progress) -> dict[str, int]:
    """Drop what is removed, and join small files; bytes and segments before and after. Needs the writer lock."""
    before = store.bytes(), store.vectors.n_segments()
    for name in spaces.all():
        store.vectors.merge(name, everything=True, progress=progress)
    settle(spaces, spaces.recipes(), progress)
    store.vacuum()
    with suppress(DamagedError, FormatError):  # `verify` reports the damage
        store.judgements.compact()
    after = store.bytes(), store.vectors.n_segments()
    return {
        "bytes_before": before[0],
        "bytes_after": after[0],
        "segments_before": before[1],
        "segments_after": after[1],
    }


def _verify_space(spaces: Spaces, name: str, progress: Progress) -> list[str]:
    """What is wrong with a space: its rows, its model, its index, rows that its base has and it lacks."""
    faults = spaces.store.vectors.verify(name, progress)
    space = spaces.all()[name]
    try:
        if space.model is not None:
            spaces.load(space)
    except StoreError as error:
        faults.append(str(error))
    faults += [f"{problem} Run: lookalike repair" for problem in damaged_structures(spaces, name).values()]
    if not faults and space.model is not None and (lacking := len(find_lacking(spaces, name))):
        faults.append(f"No vector in '{name}' for {many(lacking, 'item')}. Run: lookalike repair")
    return faults
