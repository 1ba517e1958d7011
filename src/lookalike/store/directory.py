"""A collection's directory: `Store` opens it, locks it for one writer, and writes it in transactions.

    catalogue.sqlite    items, paths, spaces     vectors/   segments            models/    fitted transforms and coders
    judgements.sqlite   judgements of users      indexes/   index structures    lock       held by the one writer
    derived/            values that can be computed again: groups of duplicates, maps, a copy of the class model
    reserve             disk space that is freed if the disk is full and something is removed
    access.json, jobs.sqlite, jobs.lock, uploads/    of the service: tokens, jobs, and pictures that clients uploaded

A file that the catalogue does not name is not part of the collection: files that a killed writer left are removed when
the next writer takes the lock.
"""

import os
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection
from typing import TypeVar

import numpy as np

from lookalike.atomic_files import file_errors, make_folder, sync_folder, try_lock
from lookalike.errors import (
    DamagedError,
    FormatError,
    FullError,
    LockedError,
    LookalikeError,
    NoCollectionError,
    ReadOnlyError,
    StoreError,
)
from lookalike.store.database import Database, check_not_empty, create_database, database_errors
from lookalike.store.derived import FOLDER, Derived
from lookalike.store.items import Items
from lookalike.store.judgements import Judgements
from lookalike.store.schema import CATALOGUE, JUDGEMENTS
from lookalike.store.vectors import VectorStore

T = TypeVar("T")

FOLDERS = ("vectors", "models", "indexes")
MANIFEST = "backup.json"
"""A directory with this file is a backup (see `store.backup`)."""

RESERVE_BYTES = 2**20
"""Size of the reserve: SQLite's log needs this much to remove thousands of pictures."""

RESERVE_SHARE = 1 / 16
"""The share of the free space that the reserve may take."""

CREATE_WAIT_S = 10.0
POLL_S = 0.02

READ_TRIES = 5
"""How often a consistent read starts again when a writer has changed the catalogue."""


class Store:
    """The files of one collection. Many threads and processes can read it; one of them writes at a time.

    Parameters
    ----------
    path : the directory.
    create : create an empty collection if there is none.

    """

    def __init__(self, path: Path, *, create: bool = False):
        self.path = Path(path).absolute()
        self._home = os.path.realpath(self.path)  # the same for all links to it
        self._mutex = threading.RLock()
        self._local = threading.local()
        self._depth = 0  # of `writer` blocks, in the thread that owns the mutex
        self._owner: int | None = None
        self._lock_file = -1
        self._reserve = self.path / "reserve"
        catalogue = self.path / "catalogue.sqlite"
        if not catalogue.exists():
            self._check_absent(create)
            self._create(catalogue, self.path / "judgements.sqlite")
        check_not_empty(catalogue)
        self._catalogue = Database(catalogue, CATALOGUE)
        self.items = Items(self._catalogue)
        self.vectors = VectorStore(self.path, self._catalogue, self.transaction)
        self.derived = Derived(self.path)
        try:
            self._judgements = _open_judgements(self.path / "judgements.sqlite")
        except BaseException:
            self._catalogue.close()
            raise
        home = self.items.home()
        if home not in (None, self._home) and not os.path.exists(
            home
        ):  # moved; for a copy, the first writer records it
            with suppress(StoreError), self.writer():  # read-only, or another writer is active and records it
                pass

    @property
    def judgements(self) -> Judgements:
        """Labels, sessions and classes. Raises StoreError if their database cannot be opened; the rest still works."""
        if isinstance(self._judgements, StoreError):
            raise type(self._judgements)(str(self._judgements))
        return self._judgements

    @contextmanager
    def writer(self, wait_s: float = 0.0) -> Iterator[None]:
        """Be the one writer within the block; waits up to `wait_s` for another to finish. Blocks may be nested."""
        self._take(wait_s)
        try:
            if self._depth == 1:
                self._remove_strays()
                self._record_home()
                self._make_reserve()
            yield
        except BaseException:
            if self._depth == 1:
                with suppress(StoreError):
                    self._remove_strays()  # files that will not be committed: the disk may be full of them
            raise
        finally:
            self._release()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Make all changes to the catalogue or none; they are on the disk when it ends. Only inside `writer`."""
        self._check_writer()
        self._catalogue.check_not_replaced()
        try:
            with self._catalogue.transaction() as db:
                yield db
                db.execute("UPDATE state SET version = version + 1")
            for file in self.vectors.unlink_after_commit:
                with suppress(OSError):  # the next writer removes it
                    file.unlink()
        finally:
            self.vectors.unlink_after_commit.clear()

    def free_space(self, work: Callable[[], T]) -> T:
        """Run `work`, which frees space; if the disk is full, again without the reserve. Only inside `writer`."""
        self._check_writer()
        try:
            return work()
        except FullError:
            if not self._reserve.exists():
                raise
        with file_errors(self._reserve):
            self._reserve.unlink()
        for database in self.databases().values():
            database.reopen()  # a connection opened on a full disk is read-only
        return work()

    def remove(self, ids: Iterable[int]) -> int:
        """Remove items, their paths and their rows, inside a transaction; returns how many there were."""
        removed = sorted(ids)
        self.vectors.remove(np.array(removed, np.int64))
        return self.items.remove(removed)

    def version(self) -> int:
        """Return a number that changes with every commit to the catalogue and when an open file was found changed.

        Within `at_version`, it is the version given there.
        """
        held: int | None = getattr(self._local, "version", None)
        return self.vectors.version() + (self.vectors.n_closed << 48) if held is None else held

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read the catalogue at one commit within the block, in this thread, even if other processes write."""
        with self._catalogue.reading():
            yield

    def in_transaction(self) -> bool:
        """Whether this thread is inside a transaction, so that it sees uncommitted changes."""
        return self._catalogue.in_transaction()

    @contextmanager
    def at_version(self, version: int) -> Iterator[None]:
        """Have `version` return this number within the block, in this thread, without a query."""
        before = getattr(self._local, "version", None)
        self._local.version = version
        try:
            yield
        finally:
            self._local.version = before

    def read_consistently(self, read: Callable[[], T]) -> T:
        """Return `read()`, all of it from one version of the store: a refit halfway would mix two sets of vectors.

        `read` is called again if a writer changed the catalogue meanwhile, also after an error, which may come from a
        mixture of two versions; after READ_TRIES, the last result counts.
        """
        for _ in range(READ_TRIES):
            version = self.vectors.version()  # the current one, also inside another `read_consistently`
            try:
                with self.at_version(version):
                    found = read()
            except LookalikeError:
                if self.vectors.version() == version:
                    raise
                continue
            if self.vectors.version() == version:
                return found
        return read()

    @property
    def class_snapshot_file(self) -> Path:
        """Path of a copy of the class model, which can be computed again."""
        return self.path / FOLDER / "classes.npz"

    def bytes(self) -> int:
        """Return the bytes that the directory takes on the disk."""
        total = 0
        for folder, _, names in os.walk(self.path):
            for name in names:
                with suppress(FileNotFoundError):  # removed by a merge since it was listed
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
        """Free the disk space of rows that were removed from the catalogue. Only inside `writer`."""
        self._check_writer()
        self._catalogue.vacuum()

    def close(self) -> None:
        """Close the connections of every thread."""
        self._catalogue.close()
        if isinstance(self._judgements, Judgements):
            self._judgements.close()

    def _check_absent(self, create: bool) -> None:
        """Raise an error if here is a backup, the rest of a collection, or nothing while `create` is False."""
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
        """Create an empty collection. The catalogue is completed last, under a temporary name, and then renamed."""
        with database_errors(self.path):
            make_folder(self.path)
            self._take(CREATE_WAIT_S)
            try:
                for file, migrations in ((judgements, JUDGEMENTS), (catalogue, CATALOGUE)):
                    if not file.exists():  # another process was faster, or judgements have survived a lost catalogue
                        create_database(file, migrations)
                sync_folder(self.path.parent)
            finally:
                self._release()

    def _check_writer(self) -> None:
        assert self._owner == threading.get_ident(), "only the thread inside `writer` may write"

    def _take(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        if not self._mutex.acquire(timeout=min(max(wait_s, 0.0), threading.TIMEOUT_MAX)):
            raise LockedError(f"Another thread of this process is writing to {self.path}. Wait for it.")
        try:
            if self._depth == 0:
                self._lock_file = take_writer_lock(self.path, deadline - time.monotonic())
            self._depth += 1
            self._owner = threading.get_ident()
        except BaseException:
            self._unlock()
            raise

    def _release(self) -> None:
        self._depth -= 1
        self._unlock()

    def _unlock(self) -> None:
        if self._depth == 0:
            self._owner = None
            if self._lock_file >= 0:
                os.close(self._lock_file)  # the kernel then releases the lock, as it does if the process dies
                self._lock_file = -1
        self._mutex.release()

    def _record_home(self) -> None:
        """Record the directory of the collection, which may have been moved or be a copy."""
        if self.items.home() != self._home:
            with suppress(FullError), self.transaction():  # the next writer tries again
                self.items.set_home(self._home)

    def _remove_strays(self) -> None:
        """Make missing folders, and remove the files that are not part of the collection.

        A transaction comes first: until then, a failed commit may take effect after a crash, and name these files.
        """
        self._catalogue.check_not_replaced()
        check_not_empty(self._catalogue.path)
        with file_errors(self.path):
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
        with file_errors(self.path):
            for file in strays:
                file.unlink(missing_ok=True)

    def _make_reserve(self) -> None:
        """Reserve disk space if there is enough."""
        with suppress(OSError):  # without a reserve, only removing on a full disk fails
            found = os.statvfs(self.path)
            if not self._reserve.exists() and found.f_bavail * found.f_frsize * RESERVE_SHARE >= RESERVE_BYTES:
                with self._reserve.open("wb") as stream:
                    os.posix_fallocate(stream.fileno(), 0, RESERVE_BYTES)

    def _strays(self) -> list[Path]:
        """List the files that are not part of the collection."""
        named = self.vectors.files()
        files = [file for folder in FOLDERS for file in (self.path / folder).iterdir() if file.is_file()]
        return [*(file for file in files if file not in named), *self.class_snapshot_file.parent.glob("*.part")]


def take_writer_lock(folder: Path, wait_s: float) -> int:
    """Take the writer lock of a collection; returns a file descriptor that holds it until it is closed."""
    deadline = time.monotonic() + wait_s
    with file_errors(folder / "lock"):
        try:
            file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:
            raise ReadOnlyError(f"{folder} is not writable: you have no permission to write there.") from None
        try:
            while not try_lock(file):
                if time.monotonic() >= deadline:
                    holder = os.pread(file, 20, 0).decode(errors="replace") or "unknown"
                    raise LockedError(
                        f"Another process (pid {holder}) is writing to {folder}. Wait for it, or pass --wait SECONDS."
                    )
                time.sleep(POLL_S)
        except BaseException:
            os.close(file)
            raise
    with suppress(OSError):  # the pid is only for the message; a full disk must not prevent the removal of pictures
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
    return file


@contextmanager
def writer_lock(folder: Path, wait_s: float) -> Iterator[None]:
    """Hold the writer lock of a collection within a block."""
    file = take_writer_lock(folder, wait_s)
    try:
        yield
    finally:
        os.close(file)


def _open_judgements(file: Path) -> Judgements | StoreError:
    """Return the judgements, or the error if their file is damaged. Other errors may be temporary and are raised."""
    try:
        check_not_empty(file)
        return Judgements(file)
    except (DamagedError, FormatError) as error:
        return error
