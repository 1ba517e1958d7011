"""The tables of a collection, and the one way to open them.

In: the path of a SQLite file and its migrations. Out: connections that are durable at every commit and whose errors
are ours. A migration is a script that is never changed once released: what comes later is a script of its own.
"""

import errno
import os
import re
import sqlite3
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path

from lookalike.errors import DamagedError, FormatError, FullError, LockedError, ReadOnlyError, StoreError

ROW_DIGEST_BYTES = 8
DAMAGED_VIEW = "damaged_"
"""Prefix of the views that list the rows of a table that do not match their digest."""
DAMAGED_ROW = "damaged row in "
FROM_BACKUP = "Run: lookalike repair --from BACKUP"


def _add_row_digests(table: str, key: str, columns: str) -> str:
    """Return a script that adds a digest to each row of a table. Migrations use it, so never change it.

    Triggers write the digest of a new or changed row, and reject a change to a row that does not match its digest: no
    statement gives damaged values a valid digest. Names in `key` and `columns` are separated by spaces.
    """

    def digest(row: str) -> str:
        # Text is passed as a blob, because damaged text may not be valid UTF-8; its type is passed separately.
        parts = (
            f"typeof({name}), CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END"
            for name in (row + column for column in columns.split())
        )
        return f"row_digest({', '.join(parts)})"

    names = ", ".join(columns.split())
    same = " AND ".join(f"{name} = NEW.{name}" for name in key.split())
    write = f"UPDATE {table} SET digest = {digest('NEW.')} WHERE {same}"
    check = f"WHEN OLD.digest IS NOT {digest('OLD.')} BEGIN SELECT RAISE(ABORT, '{DAMAGED_ROW}{table}'); END"
    return f"""
    ALTER TABLE {table} ADD COLUMN digest BLOB;
    UPDATE {table} SET digest = {digest("")};
    CREATE TRIGGER {table}_digest_new AFTER INSERT ON {table} BEGIN {write}; END;
    CREATE TRIGGER {table}_digest_changed AFTER UPDATE OF {names} ON {table} BEGIN {write}; END;
    CREATE TRIGGER {table}_check_changed BEFORE UPDATE OF {names} ON {table} {check};
    CREATE TRIGGER {table}_check_removed BEFORE DELETE ON {table} {check};
    CREATE VIEW {DAMAGED_VIEW}{table} AS SELECT * FROM {table} WHERE digest IS NOT {digest("")};
    """


# Statements are separated by semicolons; inside one they may stand where SQLite wants them, in a trigger.
CATALOGUE = [
    """
    CREATE TABLE state (version INTEGER NOT NULL);
    INSERT INTO state VALUES (0);
    CREATE TABLE items (
        id INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
        format TEXT NOT NULL, added_at REAL NOT NULL, taken_at REAL
    );
    CREATE INDEX items_bytes ON items (bytes);
    CREATE TABLE paths (
        path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
        item INTEGER REFERENCES items ON DELETE CASCADE, reason TEXT,
        CHECK ((item IS NULL) <> (reason IS NULL))
    ) WITHOUT ROWID;
    CREATE INDEX paths_item ON paths (item, mtime_ns);
    CREATE TABLE sources (spec TEXT PRIMARY KEY);
    CREATE TABLE spaces (
        name TEXT PRIMARY KEY, chain TEXT NOT NULL, base TEXT REFERENCES spaces, dim INTEGER,
        model TEXT, fitted_on INTEGER, index_file TEXT, created_at REAL NOT NULL
    );
    CREATE TABLE segments (
        id INTEGER PRIMARY KEY AUTOINCREMENT, space TEXT NOT NULL REFERENCES spaces, file TEXT NOT NULL UNIQUE,
        rows INTEGER NOT NULL, dead INTEGER NOT NULL DEFAULT 0, dim INTEGER NOT NULL, dtype TEXT NOT NULL,
        digest BLOB NOT NULL
    );
    CREATE INDEX segments_space ON segments (space);
    CREATE TABLE dead (
        segment INTEGER NOT NULL REFERENCES segments ON DELETE CASCADE, row INTEGER NOT NULL,
        PRIMARY KEY (segment, row)
    ) WITHOUT ROWID
    """,
    "ALTER TABLE spaces ADD COLUMN model_digest BLOB",
    """
    CREATE TABLE pools (space TEXT NOT NULL REFERENCES spaces ON DELETE CASCADE, source TEXT, ids BLOB NOT NULL);
    CREATE INDEX pools_space ON pools (space)
    """,
    """
    CREATE TABLE structures (
        space TEXT NOT NULL REFERENCES spaces ON DELETE CASCADE, kind TEXT NOT NULL, file TEXT NOT NULL UNIQUE,
        recall REAL, PRIMARY KEY (space, kind)
    ) WITHOUT ROWID;
    INSERT INTO structures SELECT name, 'points', index_file, NULL FROM spaces WHERE index_file IS NOT NULL;
    ALTER TABLE spaces DROP COLUMN index_file
    """,
    """
    CREATE TABLE recalls (
        space TEXT PRIMARY KEY REFERENCES spaces ON DELETE CASCADE, recall REAL NOT NULL, rows INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    "ALTER TABLE state ADD COLUMN home TEXT",
    "ALTER TABLE segments ADD COLUMN damage TEXT;"  # why a segment is quarantined
    "ALTER TABLE structures ADD COLUMN digest BLOB;"  # of its file; null if an older format wrote it
    "ALTER TABLE items ADD COLUMN content BLOB;"  # the whole digest of a picture's bytes; null if unknown
    + _add_row_digests("items", "id", "id bytes width height format added_at taken_at content")
    + _add_row_digests("paths", "path", "path size mtime_ns item reason"),
]
JUDGEMENTS = [
    """
    CREATE TABLE labels (
        item INTEGER NOT NULL, label TEXT NOT NULL, author TEXT NOT NULL, source TEXT NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (item, label)
    ) WITHOUT ROWID;
    CREATE INDEX labels_label ON labels (label)
    """,
    """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, name TEXT, author TEXT NOT NULL, space TEXT NOT NULL, created_at REAL NOT NULL,
        finished_at REAL, CHECK (finished_at IS NULL OR name IS NOT NULL)
    ) WITHOUT ROWID;
    CREATE INDEX sessions_name ON sessions (name);
    CREATE TABLE outsiders (
        session TEXT NOT NULL REFERENCES sessions, number INTEGER NOT NULL, wanted INTEGER NOT NULL, item INTEGER,
        origin TEXT, feature TEXT, vector BLOB NOT NULL, PRIMARY KEY (session, number)
    ) WITHOUT ROWID;
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL REFERENCES sessions, step INTEGER NOT NULL,
        kind TEXT NOT NULL, item INTEGER NOT NULL, round INTEGER NOT NULL, position INTEGER, author TEXT NOT NULL,
        at REAL NOT NULL, undoes INTEGER REFERENCES events,
        CHECK (kind IN ('shown', 'relevant', 'irrelevant', 'skip', 'undo')),
        CHECK ((kind = 'undo') = (undoes IS NOT NULL))
    );
    CREATE INDEX events_session ON events (session, item);
    CREATE UNIQUE INDEX events_undoes ON events (undoes) WHERE undoes IS NOT NULL;
    CREATE VIEW clicks AS
        SELECT * FROM events AS event WHERE kind IN ('relevant', 'irrelevant', 'skip')
        AND NOT EXISTS (SELECT 1 FROM events WHERE undoes = event.id);
    CREATE VIEW marks AS
        SELECT max(id) AS event, session, item, kind, round, position, author, at FROM clicks GROUP BY session, item
    """,
    """
    CREATE TABLE changes (id INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER, label TEXT, added INTEGER);
    CREATE TABLE classes (name TEXT PRIMARY KEY, author TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
    CREATE TABLE parents (child TEXT NOT NULL, parent TEXT NOT NULL, PRIMARY KEY (child, parent)) WITHOUT ROWID;
    CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE predictions (
        item INTEGER PRIMARY KEY, label TEXT NOT NULL, probability REAL NOT NULL, space TEXT NOT NULL,
        model TEXT NOT NULL, at REAL NOT NULL
    );
    CREATE INDEX predictions_label ON predictions (label, probability);
    CREATE TABLE rejections (
        item INTEGER NOT NULL, label TEXT NOT NULL, author TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (item, label)
    ) WITHOUT ROWID;
    CREATE INDEX rejections_label ON rejections (label);
    CREATE TRIGGER labels_added AFTER INSERT ON labels BEGIN
        INSERT INTO changes (item, label, added) VALUES (NEW.item, NEW.label, 1);
        DELETE FROM predictions WHERE item = NEW.item;
        DELETE FROM rejections WHERE item = NEW.item AND label = NEW.label;
    END;
    CREATE TRIGGER labels_removed AFTER DELETE ON labels BEGIN
        INSERT INTO changes (item, label, added) VALUES (OLD.item, OLD.label, 0);
        DELETE FROM predictions WHERE label = OLD.label
            AND NOT EXISTS (SELECT 1 FROM labels WHERE label = OLD.label)
            AND NOT EXISTS (SELECT 1 FROM classes WHERE name = OLD.label);
    END;
    CREATE TRIGGER predictions_yield BEFORE INSERT ON predictions
        WHEN EXISTS (SELECT 1 FROM labels WHERE item = NEW.item)
        OR EXISTS (SELECT 1 FROM rejections WHERE item = NEW.item AND label = NEW.label)
        OR NOT EXISTS (
            SELECT 1 FROM labels WHERE label = NEW.label UNION ALL SELECT 1 FROM classes WHERE name = NEW.label
        )
    BEGIN
        SELECT RAISE(IGNORE);
    END
    """,
    """
    CREATE TABLE apart (
        first INTEGER NOT NULL, second INTEGER NOT NULL, author TEXT NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (first, second), CHECK (first <= second)
    ) WITHOUT ROWID
    """,
    _add_row_digests("labels", "item label", "item label author source at")
    + _add_row_digests("sessions", "id", "id name author space created_at finished_at")
    + _add_row_digests("outsiders", "session number", "session number wanted item origin feature vector")
    + _add_row_digests("events", "id", "id session step kind item round position author at undoes")
    + _add_row_digests("classes", "name", "name author at")
    + _add_row_digests("parents", "child parent", "child parent")
    + _add_row_digests("settings", "name", "name value")
    + _add_row_digests("rejections", "item label", "item label author at")
    + _add_row_digests("apart", "first second", "first second author at"),
]

APPLICATION_ID = 0x4C4F4F4B  # "LOOK"
BUSY_TIMEOUT_S = 10.0
TEXT = "CAST(? AS TEXT)"
"""How SQL takes what `text` gives."""
EMPTY_LOG = "PRAGMA wal_checkpoint(TRUNCATE)"
"""Copies everything from SQLite's log into the file itself, syncs it, and empties the log."""
_ON_FULL_DISK = "mode=ro&readonly_shm=1"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_WRITE = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}


class Connection(sqlite3.Connection):
    """A connection that can be referred to weakly, and the number of blocks that use it."""

    users = 0


def connect(path: Path, migrations: Sequence[str], *, readonly: bool = False) -> Connection:
    """Open an existing file (an empty one counts), brought to the latest format unless `readonly`.

    Readers share a small file with the writers, `-shm`, and the first to come makes it. Where it cannot be made because
    the file system is mounted read-only, nobody can be changing the database either, and it is opened as immutable.
    """
    with translated(path):
        if not readonly:
            return _open_to_write(path, migrations)
        try:
            return _open(path, "mode=ro", migrations)
        except sqlite3.OperationalError as error:
            if error_code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise StoreError(f"{path} was not closed, and its folder cannot be written. Open it once where it can.")
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return _open(path, "immutable=1", migrations)
        raise StoreError(
            f"{path} cannot be read without permission to write to its folder, unless somebody who may has it open."
            f" Ask for that permission, have its owner open it meanwhile, or copy {path.parent}."
        )


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Errors of SQLite and of the disk, turned into ours: the one place."""
    try:
        yield
    except BrokenPipeError:
        raise  # somebody's output, not our disk
    except UnicodeDecodeError as error:  # SQLite's message quotes damaged text
        raise DamagedError(f"{path} is damaged: it contains text that is not UTF-8. {FROM_BACKUP}") from error
    except OSError as error:
        if error.errno in _FULL:
            raise _full(path, error) from error
        if error.errno == errno.EROFS:
            raise ReadOnlyError(f"{path} can only be read: its disk is mounted so.") from error
        raise StoreError(f"{path}: {error}.") from error
    except sqlite3.DatabaseError as error:
        code = error_code(error)
        if code == sqlite3.SQLITE_FULL or (code in _NO_WRITE and _cannot_grow(path.parent)):
            raise _full(path, error) from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):  # not even to be read
            raise LockedError(f"{path} has been busy for {BUSY_TIMEOUT_S:.0f} s. Try again later.") from error
        if code == sqlite3.SQLITE_CANTOPEN and path.is_dir():
            raise DamagedError(f"{path} is damaged: it is a directory. {FROM_BACKUP}") from error
        if code == sqlite3.SQLITE_CORRUPT or str(error).startswith("no such "):  # a table or a view is gone
            raise DamagedError(f"{path} is damaged: {error}. {FROM_BACKUP}") from error
        if str(error).startswith(DAMAGED_ROW):
            raise DamagedError(f"{path} has a {error}. Nothing was changed. Run: lookalike repair") from error
        if code == sqlite3.SQLITE_NOTADB:
            raise FormatError(f"{path} was not written by Lookalike, or is damaged: {error}. {FROM_BACKUP}") from error
        if code == sqlite3.SQLITE_READONLY:
            problem = "can only be read: its disk was full or its folder not writable when it was opened"
            raise ReadOnlyError(f"{path} {problem}. Open it again when that is mended.") from error
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise StoreError(f"{path}: {error}.") from error
        raise


def error_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary code of an error, such as `sqlite3.SQLITE_IOERR`."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def roll_back(db: sqlite3.Connection) -> None:
    """Undo what is not committed; SQLite may have done so itself."""
    if db.in_transaction:
        db.execute("ROLLBACK")


def row_digest(*values: int | float | str | bytes | None) -> bytes:
    """Return the digest of a row's values. It depends on their types: 1, 1.0 and "1" differ."""
    digest = blake2b(digest_size=ROW_DIGEST_BYTES)
    for value in values:
        match value:
            case None:
                digest.update(b"n")
            case int():
                digest.update(b"i" + struct.pack("<q", value))
            case float():
                digest.update(b"f" + struct.pack("<d", value))
            case str():
                digest.update(b"s" + value.encode() + b"\0")
            case bytes():
                digest.update(b"b" + struct.pack("<q", len(value)) + value)
    return digest.digest()


def find_faults(db: sqlite3.Connection, migrations: Sequence[str]) -> list[str]:
    """Return the faults that SQLite finds in an open file, and differences between its schema and the migrations.

    Rows are not compared with their digests.
    """
    faults = [text for (text,) in db.execute("PRAGMA integrity_check") if text != "ok"]
    strays = db.execute("PRAGMA foreign_key_check").fetchall()
    faults += [f"a row of {table} refers to no row of {parent}" for table, _, parent, _ in strays]
    expected, found = make_schema(migrations), read_schema(db)
    faults += [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    faults += [f"{name} does not match the schema" for name, made in expected.items() if found.get(name, made) != made]
    return faults


def make_schema(migrations: Sequence[str]) -> dict[str, str]:
    """Return the schema that these migrations make, as `read_schema` does."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        _prepare(fresh)
        for migration in migrations:
            fresh.executescript(migration)
        return read_schema(fresh)


def read_schema(db: sqlite3.Connection) -> dict[str, str]:
    """Return the statement that creates each table, index, view and trigger, with uniform blanks and quotes."""
    rows = db.execute("SELECT type, name, sql FROM sqlite_master")
    return {f"{kind} {name}": re.sub(r'[\s"]+', " ", str(sql or "")).strip() for kind, name, sql in rows}


def digested_tables(db: sqlite3.Connection) -> list[str]:
    """Return the tables whose rows have a digest."""
    views = db.execute("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name").fetchall()
    return [name.removeprefix(DAMAGED_VIEW) for (name,) in views if name.startswith(DAMAGED_VIEW)]


def text(value: str) -> bytes:
    """How a string is bound, as `TEXT`: names that are not Unicode come back as they were."""
    return os.fsencode(value)


def _open_to_write(path: Path, migrations: Sequence[str]) -> Connection:
    """On a full disk, to read: where `-shm` cannot grow, SQLite reads without it as long as it is there."""
    new = path.exists() and path.stat().st_size == 0  # a file without tables may be a damaged one
    try:
        return _open(path, "mode=rw", migrations, new=new)
    except sqlite3.OperationalError as error:
        if error_code(error) != sqlite3.SQLITE_IOERR or not _cannot_grow(path.parent):
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
        _prepare(db)
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA cache_size = -16000")
        version = _version(db, path, migrations, new=new)
        if version < len(migrations):
            if mode == _ON_FULL_DISK:
                raise FullError(f"No space left to migrate {path} from format {version}. Free some, and open it again.")
            if mode != "mode=rw":
                raise FormatError(f"{path} has the old format {version}. Open it once where it can be written.")
            _migrate(db, path, migrations, new=new)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection) -> None:
    """Set up a connection for the statements of our schemas."""
    db.create_function("row_digest", -1, row_digest, deterministic=True)
    db.text_factory = os.fsdecode


def _version(db: sqlite3.Connection, path: Path, migrations: Sequence[str], *, new: bool) -> int:
    """The format of an open file; refuses what is not ours or too new."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID and not new:
        raise FormatError(f"{path} was not written by Lookalike. If it is damaged, run: lookalike repair --from BACKUP")
    if version > len(migrations):
        if not make_schema(migrations[:1]).keys() <= read_schema(db).keys():
            raise FormatError(f"{path} has the tables of another database. {FROM_BACKUP}")
        raise FormatError(
            f"{path} was written by a newer Lookalike (format {version}, this one reads up to {len(migrations)}). "
            "Update Lookalike."
        )
    return version


def _migrate(db: sqlite3.Connection, path: Path, migrations: Sequence[str], *, new: bool) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")
    try:
        for number in range(_version(db, path, migrations, new=new), len(migrations)):
            for statement in _statements(migrations[number]):
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


def _statements(script: str) -> Iterator[str]:
    """The statements of a script. Not `executescript`: that would commit on its way."""
    statement = ""
    for part in script.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _full(path: Path, reason: Exception) -> FullError:
    return FullError(f"No space left for {path}: {reason}. What was committed is safe. Free some space and go on.")


def _cannot_grow(folder: Path) -> bool:
    """SQLite reports an exhausted quota as a bare I/O error: try for ourselves."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(65_536))
            probe.flush()
    except OSError as error:
        return error.errno in _FULL
    return False
