"""The directory of a collection: `Store` opens it, locks it for one writer, and changes it in transactions.

    catalogue.sqlite    items, paths, spaces     vectors/   segments            models/    fitted transforms and coders
    judgements.sqlite   labels and sessions      indexes/   index structures    lock       held by the one writer
    derived/            values that can be recomputed: groups of duplicates, maps, a copy of the class model
    reserve             disk space that is freed if the disk is full and pictures are removed
    access.json, jobs.sqlite, jobs.lock, uploads/    of the service: tokens, jobs, and pictures that clients uploaded
    .search-uploads/    pictures to search with, which are not in the collection

The folders vectors/, models/ and indexes/ can be links to a shared file system (`store.sharing`).

A file that the catalogue does not list is not part of the collection. Files left by a killed writer are removed when
the next writer gets the lock, except unfinished indexes of the current vectors.
"""

import os
import shlex
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection
from typing import TypeVar

import numpy as np

from lookalike.atomic_files import file_errors, make_folder
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
from lookalike.store.sharing import FOLDERS, check_shared, find_moving, record_collection, restore_folders
from lookalike.store.vectors import VectorStore
from lookalike.system import read_at, reserve, sync_folder, try_lock, write_at

T = TypeVar("T")

MANIFEST = "backup.json"
"""A directory with this file is a backup (see `store.backup`)."""

RESERVE_BYTES = 2**20
"""Size of the reserve, which SQLite's log needs to remove thousands of pictures."""

RESERVE_SHARE = 1 / 16
"""Largest fraction of the free disk space that the reserve can use."""

CREATE_WAIT_S = 10.0
POLL_S = 0.02

READ_TRIES = 5
"""Number of times that a consistent read is repeated if a writer changes the catalogue."""


class Store:
    """The files of one collection. Any number of threads and processes can read it; one at a time can write.

    Parameters
    ----------
    path : the directory.
    create : create an empty collection if the directory has none.

    """

    def __init__(self, path: Path, *, create: bool = False):
        self.path = Path(path).absolute()
        self._home = os.path.realpath(self.path)  # the same for all links to the directory
        self._mutex = threading.RLock()
        self._local = threading.local()
        self._depth = 0  # depth of nested `writer` blocks in the thread that owns the mutex
        self._owner: int | None = None
        self._lock_file = -1
        self._reserve = self.path / "reserve"
        if find_moving(self.path):
            with suppress(StoreError), writer_lock(self.path, CREATE_WAIT_S):  # fails if read-only
                restore_folders(self.path)
        check_shared(self.path)
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
        ):  # it was moved; for a copy, the first writer records the new path
            with suppress(StoreError), self.writer():  # fails if read-only, or if another writer records it
                pass

    @property
    def judgements(self) -> Judgements:
        """Labels, sessions and classes. Raises StoreError if their database cannot be opened."""
        if isinstance(self._judgements, StoreError):
            raise type(self._judgements)(str(self._judgements))
        return self._judgements

    @contextmanager
    def writer(self, wait_s: float = 0.0) -> Iterator[None]:
        """Hold the writer lock inside the block; waits up to `wait_s` for another writer. Blocks can be nested."""
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
                    self._remove_strays()  # files that will not be committed can fill the disk
            raise
        finally:
            self._release()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Commit all changes to the catalogue or none. They are on disk when the block ends. Only inside `writer`."""
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
        """Run `work`, which frees space. If the disk is full, free the reserve and run it again. Only in `writer`."""
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
        """Remove items, their paths and their vectors; return how many were removed. Needs a transaction."""
        removed = sorted(ids)
        self.vectors.remove(np.array(removed, np.int64))
        return self.items.remove(removed)

    def version(self) -> int:
        """Return a number that changes with every commit to the catalogue and when an open file was found changed.

        Inside `at_version`, it is the version given there.
        """
        held: int | None = getattr(self._local, "version", None)
        return self.vectors.version() + (self.vectors.n_closed << 48) if held is None else held

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read the catalogue at one commit inside the block, in this thread, even if other processes write."""
        with self._catalogue.reading():
            yield

    def in_transaction(self) -> bool:
        """Whether this thread is inside a transaction and therefore sees uncommitted changes."""
        return self._catalogue.in_transaction()

    @contextmanager
    def at_version(self, version: int) -> Iterator[None]:
        """Make `version` return this number inside the block, in this thread, without a query."""
        before = getattr(self._local, "version", None)
        self._local.version = version
        try:
            yield
        finally:
            self._local.version = before

    def read_consistently(self, read: Callable[[], T]) -> T:
        """Return `read()`, computed from one version of the store. A refit in between would mix two sets of vectors.

        `read` is called again if a writer changed the catalogue in the meantime, also after an error, because a mixture
        of two versions can cause errors. After READ_TRIES calls, the last result is returned.
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
        """Path of a copy of the class model, which can be recomputed."""
        return self.path / FOLDER / "classes.npz"

    def bytes(self) -> int:
        """Return the size of the directory in bytes, including shared folders."""
        total = 0
        links = [self.path / folder for folder in FOLDERS if (self.path / folder).is_symlink()]
        for top in (self.path, *links):  # inside a folder, links are not followed
            for folder, _, names in os.walk(top):
                for name in names:
                    with suppress(FileNotFoundError):  # a merge has removed it in the meantime
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
        databases = self.databases().values()
        faults = [fault for database in databases for fault in database.verify() or database.verify_words()]
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
        """Raise an error for a backup, an incomplete collection, or a missing collection if `create` is False."""
        if (self.path / MANIFEST).exists():
            raise NoCollectionError(
                f"{self.path} is a backup, not a collection."
                f" Restore it first: lookalike restore {shlex.quote(str(self.path))} NEW_COLLECTION"
            )
        if any((self.path / "vectors").glob("*.npy")):
            file = self.path / "catalogue.sqlite"
            raise DamagedError(f"{file} is missing, but vectors exist. Run: lookalike repair --from BACKUP")
        if not create:
            raise NoCollectionError(
                f"No collection at {self.path}. Create one with: lookalike -c {self.path} add FOLDER"
            )

    def _create(self, catalogue: Path, judgements: Path) -> None:
        """Create an empty collection. The catalogue is completed last, under a temporary name, and then renamed."""
        with database_errors(self.path):
            make_folder(self.path)
            self._take(CREATE_WAIT_S)
            try:
                for file, migrations in ((judgements, JUDGEMENTS), (catalogue, CATALOGUE)):
                    if not file.exists():  # another process may have created it, or only the catalogue was lost
                        create_database(file, migrations)
                sync_folder(self.path.parent)
            finally:
                self._release()

    def _check_writer(self) -> None:
        assert self._owner == threading.get_ident(), "only the thread inside `writer` may write"

    def _take(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        if not self._mutex.acquire(timeout=min(max(wait_s, 0.0), threading.TIMEOUT_MAX)):
            raise LockedError(f"Another thread of this process is writing to {self.path}. Wait until it has finished.")
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
                os.close(self._lock_file)  # this releases the lock, and so does the end of the process
                self._lock_file = -1
        self._mutex.release()

    def _record_home(self) -> None:
        """Record the directory of the collection, which may have been moved or copied."""
        if self.items.home() != self._home:
            with suppress(StoreError):
                record_collection(self.path)
            with suppress(FullError), self.transaction():  # the next writer tries again
                self.items.set_home(self._home)

    def _remove_strays(self) -> None:
        """Create missing folders, and remove the files that are not part of the collection.

        This starts with a transaction, because before it a failed commit could take effect after a crash and refer to
        these files.
        """
        restore_folders(self.path)
        check_shared(self.path)
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
        with suppress(OSError):  # the reserve is optional
            free = shutil.disk_usage(self.path).free
            if not self._reserve.exists() and free * RESERVE_SHARE >= RESERVE_BYTES:
                with self._reserve.open("wb") as stream:
                    reserve(stream.fileno(), RESERVE_BYTES)

    def _strays(self) -> list[Path]:
        """List the files that are not part of the collection."""
        named = self.vectors.files()
        files = [file for folder in FOLDERS for file in (self.path / folder).iterdir() if file.is_file()]
        return [*(file for file in files if file not in named), *self.class_snapshot_file.parent.glob("*.part")]


def take_writer_lock(folder: Path, wait_s: float) -> int:
    """Take the writer lock of a collection; return a file descriptor that holds it until it is closed."""
    deadline = time.monotonic() + wait_s
    with file_errors(folder / "lock"):
        try:
            file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:
            raise ReadOnlyError(f"{folder} is not writable: you have no write permission.") from None
        try:
            while not try_lock(file):
                if time.monotonic() >= deadline:
                    holder = read_at(file, 20, 0).decode(errors="replace") or "unknown"
                    raise LockedError(
                        f"Another process (pid {holder}) is writing to {folder}. Try again later or use --wait SECONDS."
                    )
                time.sleep(POLL_S)
        except BaseException:
            os.close(file)
            raise
    with suppress(OSError):  # the pid is only for the message, and removing pictures must work on a full disk
        os.ftruncate(file, 0)
        write_at(file, str(os.getpid()).encode(), 0)
    return file


@contextmanager
def writer_lock(folder: Path, wait_s: float) -> Iterator[None]:
    """Hold the writer lock of a collection inside a block."""
    file = take_writer_lock(folder, wait_s)
    try:
        yield
    finally:
        os.close(file)


def _open_judgements(file: Path) -> Judgements | StoreError:
    """Return the judgements, or the error if their file is damaged. Other errors can be temporary and are raised."""
    try:
        check_not_empty(file)
        return Judgements(file)
    except (DamagedError, FormatError) as error:
        return error
