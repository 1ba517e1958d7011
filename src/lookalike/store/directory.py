"""A collection's directory: opened, locked, written in transactions.

    catalogue.sqlite    what images are          vectors/   segments      models/    fitted chains
    judgements.sqlite   what people said         indexes/   snapshots     lock       held by the one writer
    derived/            worked out, and can be again: groups of duplicates, maps, a copy of the class model
    reserve             space that is set free where the disk is full and something is removed
    access.json, jobs/, uploads/    of the service: who may use it, what it was asked to do, pictures that were sent

In: a path. Out: a `Store` with `items`, `vectors` and `judgements`. A file that SQLite does not name does not exist:
whatever a killed writer left behind is removed when the next one takes the lock.
"""

import os
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection
from typing import TypeVar

import numpy as np

from lookalike.errors import DamagedError, FormatError, FullError, LockedError, NoCollectionError, StoreError
from lookalike.store.database import Database
from lookalike.store.derived import FOLDER, Derived
from lookalike.store.files import make_folder, sync_folder
from lookalike.store.items import Items
from lookalike.store.judgements import Judgements
from lookalike.store.lock import take_lock
from lookalike.store.schema import CATALOGUE, EMPTY_LOG, JUDGEMENTS, connect, translated
from lookalike.store.segments import Segments

T = TypeVar("T")

FOLDERS = ("vectors", "models", "indexes")
MANIFEST = "backup.json"
"""A directory with this file is a backup (see `store.backup`)."""

LEFT_OVER = ("-wal", "-shm", ".part", ".part-wal", ".part-shm")
"""What may lie next to a database that is gone or was never finished. SQLite would play a log into a new one."""

RESERVE_BYTES = 2**20
"""Size of the reserve: SQLite's log needs that much to remove thousands of pictures."""

RESERVE_SHARE = 1 / 16
"""The share of the free space that the reserve may take."""

CREATE_WAIT_S = 10.0

READ_TRIES = 5
"""How often a consistent read starts again when a writer has changed the catalogue."""


class Store:
    """The files of one collection. Safe to read from many threads and processes; one of them writes at a time.

    Parameters
    ----------
    path : the directory.
    create : make an empty collection where there is none.

    """

    def __init__(self, path: Path, *, create: bool = False):
        self.path = Path(path).absolute()
        self._home = os.path.realpath(self.path)  # whatever links it is called by
        self._mutex = threading.RLock()
        self._moment = threading.local()
        self._depth = 0  # of `writer` blocks, in the thread that owns the mutex
        self._owner: int | None = None
        self._lock_file = -1
        self._reserve = self.path / "reserve"
        catalogue = self.path / "catalogue.sqlite"
        if not catalogue.exists():
            self._check_absent(create)
            self._create(catalogue, self.path / "judgements.sqlite")
        _check_not_empty(catalogue)
        self._catalogue = Database(catalogue, CATALOGUE)
        self.items = Items(self._catalogue)
        self.vectors = Segments(self.path, self._catalogue, self.transaction)
        self.derived = Derived(self.path)
        try:
            self._judgements = _open_judgements(self.path / "judgements.sqlite")
        except BaseException:
            self._catalogue.close()
            raise
        home = self.items.home()
        if home not in (None, self._home) and not os.path.exists(home):  # moved; of a copy, the first writer sees to it
            with suppress(StoreError), self.writer():  # it can only be read here, or another writes, who does the same
                pass

    @property
    def judgements(self) -> Judgements:
        """Labels, sessions and classes. Raises StoreError if their database cannot be opened; all else still works."""
        if isinstance(self._judgements, StoreError):
            raise type(self._judgements)(str(self._judgements))
        return self._judgements

    @contextmanager
    def writer(self, wait_s: float = 0.0) -> Iterator[None]:
        """Be the one writer; waits so long for another to finish. May be nested within a thread."""
        self._take(wait_s)
        try:
            if self._depth == 1:
                self._sweep()
                self._settle()
                self._make_reserve()
            yield
        except BaseException:
            if self._depth == 1:
                with suppress(StoreError):
                    self._sweep()  # what was written and will not be named: the disk may be full of it
            raise
        finally:
            self._release()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All changes to the catalogue or none; on the disk when it ends. Only inside `writer`."""
        self._check_writer()
        self._catalogue.check_in_place()
        try:
            with self._catalogue.transaction() as db:
                yield db
                db.execute("UPDATE state SET version = version + 1")
            for file in self.vectors.doomed:
                with suppress(OSError):  # swept by the next writer
                    file.unlink()
        finally:
            self.vectors.doomed.clear()

    def free_space(self, work: Callable[[], T]) -> T:
        """Run work that frees space; where the disk is full, again with the space of the reserve. Only in `writer`."""
        self._check_writer()
        try:
            return work()
        except FullError:
            if not self._reserve.exists():
                raise
        with translated(self._reserve):
            self._reserve.unlink()
        for database in self.databases().values():
            database.reopen()  # what is opened on a full disk can only read
        return work()

    def remove(self, ids: Iterable[int]) -> int:
        """Forget items, their paths and their rows, inside a transaction; returns how many were there."""
        gone = sorted(ids)
        self.vectors.bury(np.array(gone, np.int64))
        return self.items.remove(gone)

    def version(self) -> int:
        """Return a number that changes with every commit to the catalogue and when an open file was found changed.

        Within `moment`, it is the number given there.
        """
        held: int | None = getattr(self._moment, "version", None)
        return self.vectors.version() + (self.vectors.drops << 48) if held is None else held

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Within this block, and in this thread, the catalogue is as one commit left it, whoever writes."""
        with self._catalogue.reading():
            yield

    def in_transaction(self) -> bool:
        """Whether this thread sees what is not committed yet."""
        return self._catalogue.in_transaction()

    @contextmanager
    def moment(self, version: int) -> Iterator[None]:
        """Within this block, and in this thread, the version is taken to be this: one look need not ask again."""
        before = getattr(self._moment, "version", None)
        self._moment.version = version
        try:
            yield
        finally:
            self._moment.version = before

    def read_consistently(self, read: Callable[[], T]) -> T:
        """Return `read()`, all of it from one version of the store: a refit halfway would mix two sets of vectors.

        `read` is called again if a writer changed the catalogue meanwhile; after READ_TRIES, the last result counts.
        """
        for _ in range(READ_TRIES):
            version = self.vectors.version()  # the current one, also inside another `read_consistently`
            try:
                with self.moment(version):
                    found = read()
            except StoreError:
                if self.vectors.version() == version:
                    raise
                continue
            if self.vectors.version() == version:
                return found
        return read()

    @property
    def snapshot(self) -> Path:
        """Where what is known of classes may be kept, by whoever has it; nobody relies on it."""
        return self.path / FOLDER / "classes.npz"

    def bytes(self) -> int:
        """What the directory takes on the disk."""
        total = 0
        for folder, _, names in os.walk(self.path):
            for name in names:
                with suppress(FileNotFoundError):  # merged away since it was listed
                    total += Path(folder, name).lstat().st_size
        return total

    def databases(self) -> dict[str, Database]:
        """Return the databases that can be opened, by the names of their files."""
        found = {"catalogue.sqlite": self._catalogue}
        if isinstance(self._judgements, Judgements):
            found["judgements.sqlite"] = self._judgements.database
        return found

    def verify(self) -> list[str]:
        """Return a sentence for each fault in the databases."""
        faults = [fault for database in self.databases().values() for fault in database.verify()]
        return [*faults, str(self._judgements)] if isinstance(self._judgements, StoreError) else faults

    def vacuum(self) -> None:
        """Give the space of what was removed from the catalogue back to the disk. Only inside `writer`."""
        self._check_writer()
        self._catalogue.vacuum()

    def close(self) -> None:
        """Close the connections of every thread."""
        self._catalogue.close()
        if isinstance(self._judgements, Judgements):
            self._judgements.close()

    def _check_absent(self, create: bool) -> None:
        """That there is no collection, not even what is left of one."""
        if (self.path / MANIFEST).exists():
            raise NoCollectionError(
                f"{self.path} is a backup, not a collection."
                f" Restore it first: lookalike restore {shlex.quote(str(self.path))} NEW_COLLECTION"
            )
        if any((self.path / "vectors").glob("*.npy")):
            file = self.path / "catalogue.sqlite"
            raise DamagedError(f"{file} is missing, but there are vectors. Run: lookalike repair --from BACKUP")
        if not create:
            raise NoCollectionError(f"No collection at {self.path}. Make one with: lookalike -c {self.path} add FOLDER")

    def _create(self, catalogue: Path, judgements: Path) -> None:
        """An empty collection. It is there when its catalogue is, and that gets its name when all is complete."""
        with translated(self.path):
            make_folder(self.path)
            self._take(CREATE_WAIT_S)
            try:
                for file, migrations in ((judgements, JUDGEMENTS), (catalogue, CATALOGUE)):
                    if file.exists():
                        continue  # another process was faster, or what people said has outlived a catalogue
                    left_over = [file.with_name(file.name + ending) for ending in LEFT_OVER]
                    for found in left_over:
                        found.unlink(missing_ok=True)
                    part = file.with_name(f"{file.name}.part")
                    part.touch()
                    with closing(connect(part, migrations)) as db:
                        db.execute(EMPTY_LOG)  # closing does so too, but reports no error, and the log is not renamed
                    part.rename(file)
                    for found in left_over:
                        found.unlink(missing_ok=True)
                    sync_folder(self.path)
                sync_folder(self.path.parent)
            finally:
                self._release()

    def _check_writer(self) -> None:
        assert self._owner == threading.get_ident(), "only the thread that is the writer writes"

    def _take(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        if not self._mutex.acquire(timeout=min(max(wait_s, 0.0), threading.TIMEOUT_MAX)):
            raise LockedError(f"Another thread of this process is writing to {self.path}. Wait for it.")
        try:
            if self._depth == 0:
                self._lock_file = take_lock(self.path, deadline - time.monotonic())
            self._depth += 1
            self._owner = threading.get_ident()
        except BaseException:
            self._let_go()
            raise

    def _release(self) -> None:
        self._depth -= 1
        self._let_go()

    def _let_go(self) -> None:
        if self._depth == 0:
            self._owner = None
            if self._lock_file >= 0:
                os.close(self._lock_file)  # and the kernel frees the lock, as it does when we die
                self._lock_file = -1
        self._mutex.release()

    def _settle(self) -> None:
        """Have it written down where the collection is: it may have been moved, or be a copy."""
        if self.items.home() != self._home:
            with suppress(FullError), self.transaction():  # then the next writer does
                self.items.move(self._home)

    def _sweep(self) -> None:
        """Remove the files that are not part of the collection, make the folders that it needs.

        A transaction comes first: until then, a commit that failed may be there after a crash, and name these files.
        """
        self._catalogue.check_in_place()
        _check_not_empty(self._catalogue.path)
        with translated(self.path):
            for folder in FOLDERS:
                make_folder(self.path / folder)
            strays = self._strays()
        if not strays:
            return
        try:
            with self.transaction():
                pass
        except FullError:
            if self._catalogue.in_doubt:
                return
        with translated(self.path):
            for file in strays:
                file.unlink(missing_ok=True)

    def _make_reserve(self) -> None:
        """Set space aside, where there is enough of it."""
        with suppress(OSError):  # it is for a full disk only
            found = os.statvfs(self.path)
            if not self._reserve.exists() and found.f_bavail * found.f_frsize * RESERVE_SHARE >= RESERVE_BYTES:
                with self._reserve.open("wb") as stream:
                    os.posix_fallocate(stream.fileno(), 0, RESERVE_BYTES)

    def _strays(self) -> list[Path]:
        """List the files that are not part of the collection."""
        named = self.vectors.named()
        files = [file for folder in FOLDERS for file in (self.path / folder).iterdir() if file.is_file()]
        return [*(file for file in files if file not in named), *self.snapshot.parent.glob("*.part")]


def _open_judgements(file: Path) -> Judgements | StoreError:
    """Return the judgements, or the error if their file is damaged. Other errors may pass, and are raised."""
    try:
        _check_not_empty(file)
        return Judgements(file)
    except (DamagedError, FormatError) as error:
        return error


def _check_not_empty(database: Path) -> None:
    """Raise DamagedError if a database is missing or empty: SQLite would create a new one."""
    if not database.exists() or database.stat().st_size == 0:
        raise DamagedError(f"{database} is missing or empty. Run: lookalike repair --from BACKUP")
