"""`lookalike repair`: returns a collection with damaged or missing files to a state that `verify` accepts.

The databases are repaired first, because they list everything else. Vectors and models come next, from a backup or
otherwise from the pictures; then indexes and derived files, which are computed from them.
"""

import shlex
import shutil
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from lookalike.atomic_files import atomic_write
from lookalike.engine.classes import Classes
from lookalike.engine.intake import Intake
from lookalike.engine.space_fit import fit_space
from lookalike.engine.space_settle import settle
from lookalike.engine.spaces import Spaces
from lookalike.engine.upkeep import damaged_structures, verify
from lookalike.errors import (
    DamagedError,
    FormatError,
    InputError,
    MissingError,
    NoCollectionError,
    SourceError,
    StoreError,
)
from lookalike.store.backup import Backup, open_backup
from lookalike.store.directory import MANIFEST, Store
from lookalike.store.npy_files import ids_file
from lookalike.store.repair import repair_databases, repair_rows
from lookalike.store.schema import DATABASES
from lookalike.text import many
from lookalike.types import Progress, silent


@dataclass
class RepairReport:
    """The repairs that were done, and the faults that remain, in sentences."""

    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


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

    `backup` is a directory that `Collection.backup` made: damaged databases, rows, vectors and models are restored from
    it if it has them. `without_backup` replaces a database that cannot be read with an empty one; the damaged file is
    renamed and kept. `wait_s`: how long to wait for another writer to finish.
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
    """One run over an open store. The caller holds the writer lock."""

    def __init__(
        self, store: Store, backup: Backup | None, report: RepairReport, progress: Progress, workers: int | None
    ):
        self.store = store
        self.spaces = Spaces(store)
        self.intake = Intake(store, self.spaces, Classes(store, self.spaces), None)
        self.backup = backup
        self.report = report
        self.progress = progress
        self.workers = workers

    def run(self) -> None:
        done = len(self.report.done)
        self._rows()
        for step in (self._uploads, self._segments, self._models, self._pictures, self._indexes):
            try:
                step()
            except (DamagedError, FormatError, InputError, MissingError, SourceError) as error:
                self.report.left.append(str(error))
        for name in self.spaces.all():
            self.store.vectors.release_quarantined(name)
        if len(self.report.done) > done:  # derived files may have been computed from damaged data
            self.store.derived.clear()
        for file in self.store.derived.damaged():
            file.unlink()
            self.report.done.append(f"derived/{file.name} was removed; it is computed again when it is needed.")
        faults = verify(self.store, self.spaces, self.progress)
        self.report.left += [fault for fault in faults if fault not in self.report.left]

    def _rows(self) -> None:
        """Restore or remove database rows that do not match their digest."""
        for name, database in self.store.databases().items():
            copy = None if self.backup is None else self.backup.file(name)
            self.report.done += repair_rows(database, copy)

    def _uploads(self) -> None:
        """Uploaded pictures that are damaged or missing are restored: the collection has the only other copy."""
        names = [] if self.backup is None else [name for name in self.backup.entries if name.startswith("uploads/")]
        for name in names:
            file = self.store.path / name
            wanted = file.exists() or str(file) in self.store.items.seen([str(file)])
            if self.backup is not None and wanted and self.backup.differs(name, file):
                self._restore(name)

    def _segments(self) -> None:
        """Restore or quarantine damaged segments; drop live rows that do not agree with the items."""
        vectors = self.store.vectors
        for name in self.spaces.all():
            vectors.quarantine_damaged(name, progress=self.progress)
            for file in vectors.quarantined(name):
                if self._restore(f"vectors/{file}") and self._restore(f"vectors/{ids_file(Path(file)).name}"):
                    with self.store.transaction():
                        vectors.readmit(name, file)
            with self.store.transaction():
                dropped = vectors.reconcile(name)
            if dropped:
                self.report.done.append(f"Space '{name}': {many(dropped, 'surplus row')} dropped.")

    def _models(self) -> None:
        """Restore or refit models that cannot be loaded: first those of features, then those of spaces."""
        for base in [space for space in self.spaces.all().values() if space.base is None]:
            users = [name for name in self.spaces.recipes() if self.spaces.all()[name].chain[0] == base.name]
            if self._loads(base.name):
                continue
            fitted = self.intake.fit_features_anew(users, self.progress, self.workers)
            self.report.done += [
                f"Space '{name}': its feature was refitted on {many(n, 'picture')}." for name, n in fitted.items()
            ]
        for name in self.spaces.recipes():
            if self._loads(name):
                continue
            try:
                rows = fit_space(self.spaces, name, self.progress)
                self.report.done.append(f"Space '{name}' was refitted on {many(rows, 'picture')}.")
            except InputError as error:
                with self.store.transaction():
                    self.store.vectors.replace(name, [], model=None, fitted_on=None)
                self.report.done.append(f"Space '{name}' is no longer fitted: {error}")

    def _pictures(self) -> None:
        """Describe pictures again that have no vector in a space, if their files can be read."""
        described = self.intake.describe_missing(self.progress, self.workers)
        if described:
            self.report.done.append(f"{many(described, 'picture')} described again.")

    def _indexes(self) -> None:
        """Remove damaged index structures, and build those again that are needed."""
        for name in self.spaces.all():
            for kind, problem in damaged_structures(self.spaces, name).items():
                with self.store.transaction():
                    self.store.vectors.structures.set(name, kind, None)
                self.report.done.append(f"{problem.rstrip('.')}: removed; it is built again if it is needed.")
        settle(self.spaces, self.spaces.recipes(), self.progress)

    def _loads(self, name: str) -> bool:
        """Whether the model of a space can be loaded, if necessary after it was restored from the backup."""
        space = self.spaces.all()[name]
        if space.model is None or _works(lambda: self.spaces.load(space)):
            return True
        return self._restore(f"models/{space.model}") and _works(lambda: self.spaces.load(space))

    def _restore(self, name: str) -> bool:
        """Copy a file from the backup; False if the backup does not have it. `name` is relative to the collection."""
        copy = None if self.backup is None else self.backup.file(name)
        if copy is None:
            return False
        with atomic_write(self.store.path / name) as part:
            shutil.copyfile(copy, part)
        self.report.done.append(f"{name} was restored from the backup.")
        return True


def _works(load: Callable[[], object]) -> bool:
    try:
        load()
    except StoreError:
        return False
    return True
