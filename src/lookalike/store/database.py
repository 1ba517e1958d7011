"""The SQLite files of a collection: connections, transactions, errors, and ids in queries.

`Database` gives each thread its own connection. `connect` opens a file and migrates it to the latest format.
`create_database` creates a new file. `database_errors` converts SQLite's errors to those of `lookalike.errors`.
"""

import json
import operator
import os
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.atomic_files import FULL_DISK, file_errors, full_error, to_store_error
from lookalike.errors import (
    DamagedError,
    FormatError,
    FullError,
    InputError,
    LockedError,
    NewerFormatError,
    ReadOnlyError,
    StoreError,
)
from lookalike.store.schema import (
    DAMAGED_ROW,
    DAMAGED_VIEW,
    add_functions,
    digested_tables,
    find_faults,
    is_word_table_error,
    make_schema,
    read_schema,
    split_statements,
    stale_word_tables,
)
from lookalike.system import is_mounted_read_only, sync_folder
from lookalike.text import many
from lookalike.types import Ids

APPLICATION_ID = 0x4C4F4F4B  # "LOOK"
BUSY_TIMEOUT_S = 10.0
IDS_PER_QUERY = 5_000
"""Maximum number of ids in the JSON text of one query."""
VERSION = "SELECT version FROM state"
TEXT = "CAST(? AS TEXT)"
"""SQL for a value that was encoded by `text`."""
REAL = "printf('%!.17g', {})"
"""SQL that writes a number with full precision. SQLite's JSON has only 15 digits."""
EMPTY_LOG = "PRAGMA wal_checkpoint(TRUNCATE)"
"""Copies everything from SQLite's log to the database file, syncs it and empties the log."""
LEFT_OVER = ("-wal", "-shm", ".part", ".part-wal", ".part-shm")
"""Suffixes of files that can remain after a database is removed. SQLite would apply such a log to a new database."""
FROM_BACKUP = "Run: lookalike repair --from BACKUP"

_UNUSABLE = ("no such ", "vtable constructor failed", "invalid fts5 file format")
"""Starts of SQLite's messages about a missing or unusable table or view."""
_ON_FULL_DISK = "mode=ro&readonly_shm=1"
_NO_WRITE = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}


class Connection(sqlite3.Connection):
    """A connection that supports weak references, and the number of blocks that use it."""

    users = 0


class Database:
    """A SQLite file that several threads use. Each thread has its own connection.

    Parameters
    ----------
    path : the file, which must exist.
    migrations : the scripts that create its tables.

    """

    def __init__(self, path: Path, migrations: Sequence[str]):
        self.path = path
        self._migrations = migrations
        self._readonly = not os.access(path.parent, os.W_OK)
        self._local = threading.local()
        self._mutex = threading.RLock()  # protects `_all`, the `users` of connections, and closing
        self._all: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._closed = False
        self.in_doubt = False  # a commit failed, but SQLite may find it in its log after a crash
        self._identity = self._file()
        with self._held():
            pass

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read one consistent state inside the block, or that of the transaction which this thread is in."""
        with database_errors(self.path), self._held() as db:
            if db.in_transaction:
                yield db
                return
            try:
                db.execute("BEGIN")
                yield db
            finally:
                roll_back(db)

    def read_value(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Return the single value of a query. It needs no transaction.

        Python releases the GIL for every row and, under load, must wait to get it back. Frequent queries therefore
        return one row.
        """
        with database_errors(self.path), self._held() as db:
            return db.execute(query, values).fetchone()[0]

    def read_rows(self, query: str, ids: Iterable[int]) -> Iterator[Any]:
        """Yield the rows of a query that reads ids with `json_each` and returns one JSON array.

        Many ids are divided into several queries, because SQLite limits the length of a string. Each query can see a
        different commit.
        """
        for part in batches(ids, IDS_PER_QUERY):
            yield from json.loads(self.read_value(query, [part]))

    def version(self) -> int:
        """Return the number of commits to a catalogue."""
        return int(self.read_value(VERSION))

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit all changes of the block or none. They are on disk when the block ends."""
        self.check_not_replaced()  # changes to a file that was moved or removed would be lost
        with database_errors(self.path), self._held() as db:
            assert not db.in_transaction, "transactions do not nest"
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                self._commit(db)
            finally:
                roll_back(db)

    def writing(self) -> sqlite3.Connection:
        """Return the connection of the transaction that this thread is in."""
        db = self._connection()
        assert db.in_transaction, "writes happen inside a transaction"
        return db

    def in_transaction(self) -> bool:
        """Whether this thread is inside a transaction and therefore sees uncommitted changes."""
        with self._held() as db:
            return db.in_transaction

    def vacuum(self) -> None:
        """Free the disk space of deleted rows. This needs space for a copy, so it does nothing on a full disk."""
        for statement in ("VACUUM", EMPTY_LOG):
            with suppress(FullError), database_errors(self.path), self._held() as db:
                db.execute(statement)

    def verify(self) -> list[str]:
        """Return a sentence for each fault of the file: its structure, its tables and the digests of its rows."""
        try:
            with self.reading() as db:
                faults = find_faults(db, self._migrations)
        except DamagedError as error:
            return [str(error)]
        if faults:
            return [f"{self.path.name}: {fault}. Run: lookalike repair --from BACKUP" for fault in faults]
        counts = {table: len(rows) for table, rows in self.damaged_rows().items()}
        return [
            f"{self.path.name}: {many(n, 'row')} of {table} {'does' if n == 1 else 'do'} not match"
            f" {'its' if n == 1 else 'their'} digest. Run: lookalike repair"
            for table, n in counts.items()
        ]

    def verify_words(self) -> list[str]:
        """Return a sentence for each damaged word table. They can be rebuilt, so backups do not wait for this."""
        return [f"{self.path.name}: {table} is damaged. Run: lookalike repair" for table in self.stale_words()]

    def stale_words(self) -> list[str]:
        """Return the word tables that are damaged or do not match the texts that they were made from."""
        with self.reading() as db:
            return stale_word_tables(db)

    def damaged_rows(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows that do not match their digest, as dicts by column, for each table that has any."""
        found = {}
        with self.reading() as db:
            for table in digested_tables(db):
                cursor = db.execute(f"SELECT * FROM {DAMAGED_VIEW}{table}")
                names = [column[0] for column in cursor.description]
                if rows := [dict(zip(names, row, strict=True)) for row in cursor]:
                    found[table] = rows
        return found

    def check_not_replaced(self) -> None:
        """Raise StoreError if the file was replaced since it was opened."""
        if self._file() != self._identity:
            raise StoreError(f"The collection at {self.path.parent} was replaced while it was open. Open it again.")

    def connect(self) -> Connection:
        """Return a new connection, which the caller must close."""
        return connect(self.path, self._migrations, readonly=self._readonly)

    def reopen(self) -> None:
        """Open the file again in this thread, because a connection that was opened on a full disk can only read."""
        db: Connection | None = getattr(self._local, "db", None)
        with self._mutex:
            if db is not None and not db.users:
                db.close()
                self._local.db = None

    def close(self) -> None:
        """Close the connections of every thread without waiting. Those in use are closed when their block ends."""
        with self._mutex:
            self._closed = True
            for connection in list(self._all):
                if not connection.users:
                    connection.close()

    def _commit(self, db: Connection) -> None:
        """Commit the transaction.

        A commit that fails in the fsync of the log is rolled back, but its frames stay in the log. If the system
        crashed now, SQLite would find them there and treat the transaction as committed. The next commit overwrites
        them.
        """
        try:
            db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self.in_doubt |= error_code(error) == sqlite3.SQLITE_IOERR
            raise
        self.in_doubt = False

    @contextmanager
    def _held(self) -> Iterator[Connection]:
        """Yield the thread's connection. It stays open until the block ends, because closing it in use would crash."""
        db = self._connection()
        with self._mutex:
            self._all.add(db)
            db.users += 1
        try:
            self._check_open()  # it may have been closed in the meantime
            yield db
        finally:
            with self._mutex:
                db.users -= 1
                if self._closed and not db.users:
                    db.close()

    def _connection(self) -> Connection:
        self._check_open()
        db: Connection | None = getattr(self._local, "db", None)
        if db is None:
            self.check_not_replaced()
            db = self._local.db = self.connect()
        return db

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"The collection at {self.path.parent} is closed. Open it again.")

    def _file(self) -> tuple[int, int]:
        with file_errors(self.path):
            stat = self.path.stat()
        return stat.st_dev, stat.st_ino


def create_database(path: Path, migrations: Sequence[str]) -> None:
    """Create an empty database. It gets its name when it is complete, and is on disk when this returns."""
    left_over = [path.with_name(path.name + ending) for ending in LEFT_OVER]
    for found in left_over:
        found.unlink(missing_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.touch()
    with closing(connect(part, migrations)) as db:
        db.execute(EMPTY_LOG)  # closing would also do this, but reports no error; the log is not renamed
    part.rename(path)
    for found in left_over:
        found.unlink(missing_ok=True)
    sync_folder(path.parent)


def check_not_empty(path: Path) -> None:
    """Raise DamagedError if a database is missing or empty. SQLite would create a new one."""
    if not path.exists() or path.stat().st_size == 0:
        raise DamagedError(f"{path} is missing or empty. {FROM_BACKUP}")


def connect(path: Path, migrations: Sequence[str], *, readonly: bool = False) -> Connection:
    """Open an existing file, which can be empty, and migrate it to the latest format unless `readonly`.

    Readers share a small file, `-shm`, with the writers. The first process creates it. If it cannot be created because
    the file system is mounted read-only, no process can change the database, so it is opened as immutable.
    """
    with database_errors(path):
        if not readonly:
            return _open_to_write(path, migrations)
        try:
            return _open(path, "mode=ro", migrations)
        except sqlite3.OperationalError as error:
            if error_code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise StoreError(
                f"{path} was not closed properly, and its folder is read-only. Open it once with write permission."
            )
        if is_mounted_read_only(path):
            return _open(path, "immutable=1", migrations)
        raise StoreError(
            f"{path} cannot be read without write permission for its folder, unless a user with that permission has it"
            f" open. Get write permission, ask the owner to open the collection, or copy {path.parent}."
        )


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Convert errors of SQLite and of the operating system to a StoreError that names `path`."""
    try:
        yield
    except BrokenPipeError:
        raise  # an error of the caller's output, not of our disk
    except UnicodeDecodeError as error:  # SQLite's message quotes damaged text
        raise DamagedError(f"{path} is damaged: it contains text that is not UTF-8. {FROM_BACKUP}") from error
    except OSError as error:
        raise to_store_error(path, error) from error
    except sqlite3.DatabaseError as error:
        found = _to_store_error(path, error)
        if found is None:
            raise
        raise found from error


def error_code(error: sqlite3.Error) -> int:
    """Return the primary SQLite code of an error, such as `sqlite3.SQLITE_IOERR`."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def roll_back(db: sqlite3.Connection) -> None:
    """Roll back uncommitted changes, unless SQLite has already done so."""
    if db.in_transaction:
        db.execute("ROLLBACK")


def text(value: str) -> bytes:
    """Return a string as bytes to bind with `TEXT`. File names that are not valid Unicode are preserved."""
    return os.fsencode(value)


def check_text(value: str, what: str = "An author") -> bytes:
    """Return a string as bytes to bind with `TEXT`. Raises InputError, which calls it `what`, if it is not text."""
    try:
        if isinstance(value, str):
            return text(value)
    except UnicodeEncodeError:  # a lone surrogate
        pass
    raise InputError(f"{what} must be text. Got {value!r:.80}.")


def read_version(db: sqlite3.Connection) -> int:
    """Return the number of commits to a catalogue."""
    return int(db.execute(VERSION).fetchone()[0])


def as_ids(ids: Iterable[int]) -> list[int]:
    """Return ids of any integer type as Python integers. Raises InputError if one is not an integer."""
    try:
        return [operator.index(item) for item in ids]
    except TypeError:
        raise InputError(f"Ids must be a list of integers. Got {ids!r:.80}.") from None


def write_ids(ids: Iterable[int]) -> str:
    """Return ids as JSON text for SQLite's `json_each`."""
    return json.dumps(as_ids(ids))


def batches(ids: Iterable[int], size: int) -> Iterator[str]:
    """Yield ids as JSON texts of at most `size` ids.

    >>> list(batches([1, 2, 3], 2))
    ['[1, 2]', '[3]']
    """
    listed = as_ids(ids)
    for start in range(0, len(listed), size):
        yield json.dumps(listed[start : start + size])


def unhex(text: str) -> str:
    """Decode text that was encoded by SQLite's `hex`. SQLite's JSON cannot represent text that is not UTF-8.

    >>> unhex("C3A9")
    'é'
    """
    return os.fsdecode(bytes.fromhex(text))


def read_ids(db: sqlite3.Connection, query: str, values: Sequence[Any] = (), *, as_they_come: bool = False) -> Ids:
    """Return the ids that a query selects, (n,) int64, ascending, or in query order with `as_they_come`."""
    try:
        # One string is three times faster than one row per id.
        joined = f"WITH found (id) AS ({query}) SELECT coalesce(group_concat(id), '') FROM found"
        ids = np.fromstring(db.execute(joined, values).fetchone()[0], np.int64, sep=",")
    except sqlite3.DataError:  # tens of millions of ids exceed the maximum length of a string
        ids = np.fromiter((item for (item,) in db.execute(query, values)), np.int64)
    return ids if as_they_come else np.sort(ids)


def read_groups(db: sqlite3.Connection, query: str) -> Iterator[tuple[str, Ids]]:
    """Yield each distinct value that a query selects as `value`, with the ids that it selects as `item`."""
    for value, items in db.execute(f"SELECT value, group_concat(item) FROM ({query}) GROUP BY value"):
        yield value, np.fromstring(items, np.int64, sep=",")


def _open_to_write(path: Path, migrations: Sequence[str]) -> Connection:
    """Open a file for writing, or only for reading if the disk is full and `-shm` cannot grow."""
    new = path.exists() and path.stat().st_size == 0  # a non-empty file without tables may be damaged
    try:
        return _open(path, "mode=rw", migrations, new=new)
    except sqlite3.OperationalError as error:
        if error_code(error) != sqlite3.SQLITE_IOERR or not _is_full(path.parent):
            raise
    path.with_name(path.name + "-shm").touch()
    return _open(path, _ON_FULL_DISK, migrations, new=new)


def _open(path: Path, mode: str, migrations: Sequence[str], *, new: bool = False) -> Connection:
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
    )
    try:
        add_functions(db)
        db.text_factory = os.fsdecode
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA cache_size = -16000")
        version = _read_format(db, path, migrations, new=new)
        if version < len(migrations):
            if mode == _ON_FULL_DISK:
                raise FullError(
                    f"No disk space left to migrate {path} from format {version}. Free disk space and open it again."
                )
            if mode != "mode=rw":
                raise FormatError(f"{path} has the old format {version}. Open it once with write permission.")
            _migrate(db, path, migrations, new=new)
    except BaseException:
        db.close()
        raise
    return db


def _read_format(db: sqlite3.Connection, path: Path, migrations: Sequence[str], *, new: bool) -> int:
    """Return the format of an open file. Raises FormatError if the file is not ours or is too new."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID and not new:
        raise FormatError(f"{path} was not written by Lookalike. If it is damaged, run: lookalike repair --from BACKUP")
    if version > len(migrations):
        if not make_schema(migrations[:1]).keys() <= read_schema(db).keys():
            raise FormatError(f"{path} has the tables of another database. {FROM_BACKUP}")
        raise NewerFormatError.of(path, version, len(migrations))
    return version


def _migrate(db: sqlite3.Connection, path: Path, migrations: Sequence[str], *, new: bool) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")
    try:
        for number in range(_read_format(db, path, migrations, new=new), len(migrations)):
            for statement in split_statements(migrations[number]):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number + 1}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if "already exists" not in str(error):
            raise
        raise DamagedError(f"{path} does not match its format version: {error}. {FROM_BACKUP}") from error
    finally:
        roll_back(db)


def _to_store_error(path: Path, error: sqlite3.DatabaseError) -> StoreError | None:
    """Return the StoreError for an error of SQLite, or None for an error of the program, such as wrong SQL."""
    code = error_code(error)
    if code == sqlite3.SQLITE_FULL or (code in _NO_WRITE and _is_full(path.parent)):
        return full_error(path, error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        return LockedError(f"{path} has been busy for {BUSY_TIMEOUT_S:.0f} s. Try again later.")
    if code == sqlite3.SQLITE_CANTOPEN and path.is_dir():
        return DamagedError(f"{path} is damaged: it is a directory. {FROM_BACKUP}")
    if "no such module" in str(error):
        return StoreError(
            f"Cannot open {path}: SQLite {sqlite3.sqlite_version} of this Python has no FTS5. Use a Python whose SQLite"
            " has it, such as that of python.org, Debian or conda."
        )
    if is_word_table_error(error):
        return DamagedError(f"A table of words in {path} is damaged. Run: lookalike repair")
    if code == sqlite3.SQLITE_CORRUPT or str(error).startswith(_UNUSABLE):
        return DamagedError(f"{path} is damaged: {error}. {FROM_BACKUP}")
    if str(error).startswith(DAMAGED_ROW):
        return DamagedError(f"{path} has a {error}. Nothing was changed. Run: lookalike repair")
    if code == sqlite3.SQLITE_NOTADB:
        return FormatError(f"{path} was not written by Lookalike, or is damaged: {error}. {FROM_BACKUP}")
    if code == sqlite3.SQLITE_READONLY:
        problem = "is not writable, because its disk was full or its folder was not writable when it was opened"
        return ReadOnlyError(f"{path} {problem}. Fix this and open it again.")
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreError(f"Cannot access {path}: {error}.")
    return None


def _is_full(folder: Path) -> bool:
    """Whether the disk is full, so a file cannot be written. SQLite reports an exhausted quota as an I/O error."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(65_536))
            probe.flush()
    except OSError as error:
        return error.errno in FULL_DISK
    return False
