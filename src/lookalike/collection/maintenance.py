"""Maintenance: find and repair damage, compare items with their files, free disk space.

`repair` restores a collection with damaged or missing files to a state that `verify` accepts. It repairs the databases
first, because they list everything else; then vectors and models, from a backup or from the pictures; then indexes and
derived files, which are computed from these.
"""

import os
import shlex
import shutil
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from lookalike.arrays import chunks
from lookalike.atomic_files import atomic_write
from lookalike.collection.adding import Adding
from lookalike.collection.classes import Classes
from lookalike.collection.fitting import fit_space, update_spaces
from lookalike.collection.space import Space, Spaces
from lookalike.errors import (
    DamagedError,
    FormatError,
    ImageError,
    InputError,
    LockedError,
    MissingError,
    NoCollectionError,
    ReadOnlyError,
    SourceError,
    StoreError,
)
from lookalike.images.decoding import content_id, digest_content
from lookalike.images.sources import Entry, ignore, known_entry, split_member, walk
from lookalike.limits import collect_fewer
from lookalike.store.backup import Backup, open_backup
from lookalike.store.derived import KINDS, Kind
from lookalike.store.directory import MANIFEST, Store
from lookalike.store.items import Item
from lookalike.store.npy_files import digest_file, ids_file
from lookalike.store.repair import repair_databases, repair_rows, repair_words
from lookalike.store.schema import DATABASES
from lookalike.text import many
from lookalike.types import Progress, format_id, silent

INDEXED_MIN = 1_000
"""Spaces with fewer rows need no index, so a damaged one is not reported."""

BATCH = 10_000
"""Items looked up, and digests written, per batch."""


@dataclass
class RepairReport:
    """The repairs that were made and the faults that remain, one sentence each."""

    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def verify(spaces: Spaces, progress: Progress) -> list[str]:
    """Find the faults of a collection; return a sentence for each."""
    store = spaces.store
    faults = store.verify()
    for space in spaces.with_features():
        faults += _verify_space(space, progress)
    faults += [f"derived/{file.name} is damaged. Run: lookalike repair" for file in store.derived.damaged()]
    return faults


def verify_pictures(store: Store, progress: Progress) -> list[str]:
    """Read the original pictures; return a sentence for each missing or changed one.

    If the collection is writable, items that were added by an older version get the complete digest of their file.
    """
    check = _PictureCheck(store, progress)
    archives: dict[str, dict[str, Item]] = {}  # by archive and path, so that each archive is read once
    ids = store.items.ids()
    for part in chunks(len(ids), 1, BATCH):
        for item in store.items.get(ids[part].tolist()).values():
            for path in item.paths:
                archive, member = split_member(path)
                if member and not os.path.lexists(path):
                    archives.setdefault(archive, {})[path] = item
                else:
                    check(path, item, known_entry(path, item.bytes))
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
    """Compares files with their items, and collects faults."""

    def __init__(self, store: Store, progress: Progress):
        self.faults: list[str] = []
        self._store = store
        self._progress = progress
        self._total = store.items.n_paths()
        self._done = 0
        self._contents: dict[int, bytes] = {}

    def __call__(self, path: str, item: Item, entry: Entry | None) -> None:
        """Compare one file; `entry` is None if it is missing."""
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
        """The command for a missing or changed file; uploads are inside the collection."""
        inside = Path(path).is_relative_to(self._store.path)
        return "lookalike repair --from BACKUP" if inside else "lookalike refresh, if that is intended"

    def write_contents(self) -> None:
        """Store the digests of items that lack one."""
        if self._contents:
            with suppress(LockedError, ReadOnlyError), self._store.writer(), self._store.transaction():
                self._store.items.set_contents(self._contents)
            self._contents = {}


def damaged_structures(space: Space) -> dict[Kind, str]:
    """The faults of the index structures of a space, by kind."""
    store, name = space.store, space.name
    faults: dict[Kind, str] = {}
    for kind in KINDS:
        structure = store.vectors.structures.get(name, kind)
        if structure is None or (kind != "neighbours" and store.vectors.rows(name) < INDEXED_MIN):
            continue
        file = store.path / "indexes" / structure.file
        try:
            if structure.digest is not None and digest_file(file) != structure.digest:
                faults[kind] = f"{file} does not match its digest."
            else:
                space.check_structure(structure.file)
        except FileNotFoundError:
            faults[kind] = f"{file} is missing."
        except StoreError as error:
            faults[kind] = str(error)
    return faults


def compact(spaces: Spaces, progress: Progress) -> dict[str, int]:
    """Drop removed rows and merge small files; return bytes and segments before and after. Needs the writer lock."""
    store = spaces.store
    before = store.bytes(), store.vectors.n_segments()
    for space in spaces.with_features():
        store.vectors.merge(space.name, everything=True, progress=progress)
    update_spaces(spaces, progress)
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


def _verify_space(space: Space, progress: Progress) -> list[str]:
    """Find the faults of a space: damaged rows, model and indexes, and missing rows; return a sentence for each."""
    faults = space.store.vectors.verify(space.name, progress, space.executor.map)
    try:
        if space.is_fitted:
            space.load_model()
    except StoreError as error:
        faults.append(str(error))
    faults += [f"{problem} Run: lookalike repair" for problem in damaged_structures(space).values()]
    if not faults and space.is_fitted and (missing := len(space.missing_rows())):
        faults.append(f"Space '{space.name}' has no vectors for {many(missing, 'item')}. Run: lookalike repair")
    if not faults and space.has_smoothed_rows and (missing := len(space.row_ids()) - len(space)):
        faults.append(
            f"Space '{space.name}' has no smoothed vectors for {many(missing, 'item')}. Run: lookalike repair"
        )
    return faults


def repair(
    path: str | Path,
    *,
    backup: str | Path | None = None,
    without_backup: bool = False,
    wait_s: float = 0.0,
    progress: Progress | None = None,
    workers: int | None = None,
) -> RepairReport:
    """Repair the collection in a directory as far as possible.

    `backup` is a directory written by `Collection.backup`: damaged databases, rows, vectors and models are restored
    from it if possible. `without_backup` replaces an unreadable database with an empty one; the damaged file is renamed
    and kept. `wait_s`: seconds to wait for another writer to finish.
    """
    path = Path(path).expanduser().absolute()
    if not path.is_dir() or not any((path / name).exists() for name in [*DATABASES, "vectors"]):
        if (path / MANIFEST).exists():
            raise NoCollectionError(
                f"{path} is a backup, not a collection."
                f" Restore it first: lookalike restore {shlex.quote(str(path))} NEW_COLLECTION"
            )
        raise NoCollectionError(f"No collection at {path}. Nothing to repair.")
    with nullcontext() if backup is None else open_backup(Path(backup).expanduser()) as source:
        report = RepairReport(repair_databases(path, source, without_backup=without_backup, wait_s=wait_s))
        with closing(Store(path)) as store, store.writer(wait_s):
            _Repair(store, source, report, progress or silent, workers).run()
    return report


class _Repair:
    """One repair of an open store. The caller holds the writer lock."""

    def __init__(
        self, store: Store, backup: Backup | None, report: RepairReport, progress: Progress, workers: int | None
    ):
        self.store = store
        self.spaces = Spaces(store)
        self.adding = Adding(self.spaces, Classes(self.spaces), None)
        self.backup = backup
        self.report = report
        self.progress = progress
        self.workers = workers

    def run(self) -> None:
        done_before = len(self.report.done)
        self._repair_rows()
        for step in (
            self._restore_uploads,
            self._repair_segments,
            self._repair_models,
            self._describe_missing,
            self._rebuild_indexes,
        ):
            try:
                step()
            except (DamagedError, FormatError, InputError, MissingError, SourceError) as error:
                self.report.left.append(str(error))
        for space in self.spaces.with_features():
            self.store.vectors.release_quarantined(space.name)
        if len(self.report.done) > done_before:  # derived files may have been computed from damaged data
            self.store.derived.clear()
        for file in self.store.derived.damaged():
            file.unlink()
            self.report.done.append(f"derived/{file.name} was removed; it will be computed again when needed.")
        faults = verify(self.spaces, self.progress)
        self.report.left += [fault for fault in faults if fault not in self.report.left]

    def _repair_rows(self) -> None:
        """Rebuild damaged word tables, and restore or remove database rows that do not match their digest."""
        for name, database in self.store.databases().items():
            copy = None if self.backup is None else self.backup.file(name)
            self.report.done += [*repair_words(database), *repair_rows(database, copy)]

    def _restore_uploads(self) -> None:
        """Restore uploaded pictures that are damaged or missing; the backup may have the only copy."""
        names = [] if self.backup is None else [name for name in self.backup.entries if name.startswith("uploads/")]
        for name in names:
            file = self.store.path / name
            needed = file.exists() or str(file) in self.store.items.seen([str(file)])
            if self.backup is not None and needed and self.backup.differs(name, file):
                self._restore(name)

    def _repair_segments(self) -> None:
        """Restore or quarantine damaged segments; drop live rows that do not belong to an item."""
        vectors = self.store.vectors
        for name in [space.name for space in self.spaces.with_features()]:
            vectors.quarantine_damaged(name, progress=self.progress)
            for file in vectors.quarantined(name):
                if self._restore(f"vectors/{file}") and self._restore(f"vectors/{ids_file(Path(file)).name}"):
                    with self.store.transaction():
                        vectors.readmit(name, file)
            with self.store.transaction():
                dropped = vectors.reconcile(name)
            if dropped:
                self.report.done.append(f"Space '{name}': removed {many(dropped, 'surplus vector')}.")

    def _repair_models(self) -> None:
        """Restore or refit models that cannot be loaded, first those of features, then those of spaces."""
        for feature in [space for space in self.spaces.with_features() if space.stored.base is None]:
            if self._ensure_model(feature):
                continue
            users = [space for space in self.spaces if space.feature == feature]
            with collect_fewer():  # known since the first fit
                fitted = self.adding.refit_features(self.progress, self.workers, users)
            self.report.done += [
                f"Space '{name}': its feature was refitted on {many(n, 'picture')}." for name, n in fitted.items()
            ]
        for space in self.spaces:
            if self._ensure_model(space):
                continue
            try:
                rows = fit_space(space, self.progress)
                self.report.done.append(f"Space '{space.name}' was refitted on {many(rows, 'picture')}.")
            except InputError as error:
                with self.store.transaction():
                    self.store.vectors.replace(space.name, [], model=None, fitted_on=None)
                self.report.done.append(f"Space '{space.name}' is no longer fitted: {error}")

    def _describe_missing(self) -> None:
        """Extract the features of pictures that have no vector in a space, if their files can be read."""
        described = self.adding.describe_missing(self.progress, self.workers)
        if described:
            self.report.done.append(f"The features of {many(described, 'picture')} were extracted again.")

    def _rebuild_indexes(self) -> None:
        """Remove damaged index structures, and rebuild those that are needed."""
        for space in self.spaces.with_features():
            for kind, problem in damaged_structures(space).items():
                with self.store.transaction():
                    self.store.vectors.structures.set(space.name, kind, None)
                self.report.done.append(f"{problem.rstrip('.')}. It was removed, and will be rebuilt if needed.")
        update_spaces(self.spaces, self.progress)

    def _ensure_model(self, space: Space) -> bool:
        """Restore the model of a space from the backup if it cannot be loaded; False if it still cannot be."""
        if not space.is_fitted or _succeeds(space.load_model):
            return True
        return self._restore(f"models/{space.stored.model}") and _succeeds(space.load_model)

    def _restore(self, name: str) -> bool:
        """Copy a file from the backup; False if the backup does not have it. `name` is relative to the collection."""
        copy = None if self.backup is None else self.backup.file(name)
        if copy is None:
            return False
        with atomic_write(self.store.path / name) as part:
            shutil.copyfile(copy, part)
        self.report.done.append(f"{name} was restored from the backup.")
        return True


def _succeeds(load: Callable[[], object]) -> bool:
    try:
        load()
    except StoreError:
        return False
    return True
