"""The tables of a collection's databases, as migrations, and the comparison of a database with them.

A released migration is never changed. A later change to the schema is a new script after it.
"""

import os
import re
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import reduce
from hashlib import blake2b
from operator import xor

from lookalike.text import split_words

ROW_DIGEST_BYTES = 8
DAMAGED_VIEW = "damaged_"
"""Prefix of the views that list the rows of a table which do not match their digest."""
DAMAGED_ROW = "damaged row in "
"""Start of the error message of the triggers that reject a change to a damaged row."""


def _add_row_digests(table: str, key: str, columns: str) -> str:
    """Return a script that adds a digest to each row of a table. Migrations use it, so never change it.

    Triggers write the digest of a new or changed row, and reject changes to a row that does not match its digest. No
    statement can therefore give damaged values a valid digest. Names in `key` and `columns` are separated by spaces.
    """

    def digest(row: str) -> str:
        # Text is passed as a blob, because damaged text can be invalid UTF-8. Its type is passed separately.
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


RECORDED = {
    "labels": ("item label author source at", 2, False),
    "classes": ("name author at", 1, False),
    "parents": ("child parent", 2, False),
    "rejections": ("item label author at", 2, False),
    "apart": ("first second author at", 2, False),
    "sessions": ("id name finished_at", 1, True),
    "predictions": ("item label probability space model at", 1, False),
}
"""The tables whose changes are recorded as actions: their columns, the number of columns in the key, and whether rows
are only updated. Migrations use it, so never change it."""


def _record_changes(table: str) -> str:
    """Return a script with triggers that copy each changed row to `action_rows` while an action is recorded."""
    columns, _, update = RECORDED[table]
    names = columns.split()

    def copy(row: str) -> str:
        values = ", ".join(f"{row}.{name}" for name in names)
        return (
            f"INSERT INTO action_rows (action, name, added, {', '.join('abcdef'[: len(names)])})"
            f" SELECT action, '{table}', {int(row == 'NEW')}, {values} FROM recording;"
        )

    when = "WHEN EXISTS (SELECT 1 FROM recording) BEGIN"
    changed = f"CREATE TRIGGER {table}_recorded_changed AFTER UPDATE OF {', '.join(names)} ON {table} {when}"
    script = f"{changed} {copy('OLD')} {copy('NEW')} END;"
    if not update:
        script += f"CREATE TRIGGER {table}_recorded_new AFTER INSERT ON {table} {when} {copy('NEW')} END;"
        script += f"CREATE TRIGGER {table}_recorded_removed AFTER DELETE ON {table} {when} {copy('OLD')} END;"
    return script


WORD_TABLES = {"path_words": ("paths", "path", "mtime_ns, path"), "text_words": ("texts", "text", "item")}
"""The tables that find items by words (see `store.word_tables`): a table with a column `item`, its column with texts,
and the columns that order the texts of an item, no two alike. Migrations use it, so never change it."""
MAX_TEXTS = 100
"""Number of texts per item that are in a word table. Without a limit, each copy of a picture would slow down the next.
Migrations use it, so never change it."""


def _select_words(column: str, rows: str) -> str:
    """Return a query for items and their words. Migrations use it, so never change it."""
    return f"SELECT item, words_of(CAST(group_concat({column}, '/') AS BLOB)) AS words FROM ({rows}) GROUP BY item"


def _select_all_words(name: str) -> str:
    """Return a query for all items of a word table and their words. Migrations use it, so never change it."""
    table, column, order = WORD_TABLES[name]
    number = f"row_number() OVER (PARTITION BY item ORDER BY {order}) AS number"
    numbered = f"SELECT item, {column}, {number} FROM {table} WHERE item IS NOT NULL"
    return _select_words(column, f"SELECT * FROM ({numbered}) WHERE number <= {MAX_TEXTS}")


def _add_word_table(name: str) -> str:
    """Return a script that adds an FTS5 table with the words of each item. Migrations use it, so never change it.

    Triggers keep it consistent with the texts. FTS5 does not store the words, so to remove an item, a trigger passes
    its words again. `words_of` has split them, so the tokenizer must only split at spaces. `{name}_terms` lists the
    words with their items.
    """
    table, column, order = WORD_TABLES[name]
    columns = list(dict.fromkeys(["item", column, *order.split(", ")]))
    new_key = ", ".join(f"NEW.{name}" for name in order.split(", "))

    def select(condition: str) -> str:
        rows = f"SELECT item, {column} FROM {table} WHERE {condition} ORDER BY {order} LIMIT {MAX_TEXTS}"
        return _select_words(column, rows)

    def add(condition: str) -> str:
        return f"INSERT INTO {name} (rowid, words) {select(condition)};"

    def remove(condition: str) -> str:
        # FTS5 takes commands as inserts into a column with the name of the table.
        return f"INSERT INTO {name} ({name}, rowid, words) SELECT 'delete', item, words FROM ({select(condition)});"

    old, new = "item = OLD.item", "item = NEW.item AND NEW.item IS NOT OLD.item"
    changed = " OR ".join(f"OLD.{name} IS NOT NEW.{name}" for name in columns)
    update = f"UPDATE OF {', '.join(columns)} ON {table} WHEN {changed}"
    return f"""
    CREATE VIRTUAL TABLE {name} USING fts5(words, content='', columnsize=0, detail=none, tokenize='ascii');
    CREATE VIRTUAL TABLE {name}_terms USING fts5vocab({name}, instance);
    INSERT INTO {name} (rowid, words) {_select_all_words(name)};
    CREATE TRIGGER {name}_new AFTER INSERT ON {table}
    BEGIN {remove(f"item = NEW.item AND ({order}) <> ({new_key})")} {add("item = NEW.item")} END;
    CREATE TRIGGER {name}_before_change BEFORE {update} BEGIN {remove(old)} {remove(new)} END;
    CREATE TRIGGER {name}_after_change AFTER {update} BEGIN {add(old)} {add(new)} END;
    CREATE TRIGGER {name}_before_removal BEFORE DELETE ON {table} BEGIN {remove(old)} END;
    CREATE TRIGGER {name}_after_removal AFTER DELETE ON {table} BEGIN {add(old)} END;
    """


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
    """
    CREATE TABLE exif (
        item INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE, camera TEXT, lens TEXT, exposure_s REAL,
        aperture REAL, iso INTEGER, focal_length_mm REAL, latitude REAL, longitude REAL
    );
    CREATE INDEX exif_camera ON exif (camera) WHERE camera IS NOT NULL;
    CREATE INDEX exif_lens ON exif (lens) WHERE lens IS NOT NULL;
    CREATE INDEX exif_place ON exif (latitude, longitude) WHERE latitude IS NOT NULL;
    """  # an item whose metadata was never read has no row
    + _add_row_digests("exif", "item", "item camera lens exposure_s aperture iso focal_length_mm latitude longitude"),
    _add_word_table("path_words"),
    """
    CREATE TABLE texts (item INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE, text TEXT NOT NULL);
    """  # the text in a picture; an item in which no text was looked for has no row
    + _add_row_digests("texts", "item", "item text")
    + _add_word_table("text_words"),
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
    """
    CREATE TABLE actions (
        id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, label TEXT, target TEXT, items INTEGER NOT NULL,
        author TEXT NOT NULL, at REAL NOT NULL, undoes INTEGER, undone_by INTEGER, removed BLOB
    );
    CREATE TABLE action_rows (
        number INTEGER PRIMARY KEY, action INTEGER NOT NULL REFERENCES actions ON DELETE CASCADE, name TEXT NOT NULL,
        added INTEGER NOT NULL, a, b, c, d, e, f
    );
    CREATE INDEX action_rows_action ON action_rows (action, name);
    CREATE TABLE recording (action INTEGER NOT NULL);
    """
    + _add_row_digests("actions", "id", "id kind label target items author at undoes undone_by removed")
    + _add_row_digests("action_rows", "number", "number action name added a b c d e f")
    + "".join(map(_record_changes, RECORDED)),
    """
    CREATE TABLE saved_searches (
        id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, author TEXT NOT NULL, query TEXT NOT NULL,
        created_at REAL NOT NULL, seen_at REAL NOT NULL, newest REAL NOT NULL
    ) WITHOUT ROWID;
    """
    + _add_row_digests("saved_searches", "id", "id name author query created_at seen_at newest"),
]
JOBS = [
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, fields TEXT NOT NULL);"
    + _add_row_digests("jobs", "id", "id fields")
]
DATABASES = {"catalogue.sqlite": CATALOGUE, "judgements.sqlite": JUDGEMENTS}
"""The databases that every collection has, by file name, with their migrations."""
JOBS_FILE = "jobs.sqlite"
"""The database of the service, with the migrations `JOBS`."""


def row_digest(*values: int | float | str | bytes | None) -> bytes:
    """Return the digest of a row's values. It depends on their types: 1, 1.0 and "1" have different digests."""
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


def add_functions(db: sqlite3.Connection) -> None:
    """Add the SQL functions that our triggers and views call."""
    db.create_function("row_digest", -1, row_digest, deterministic=True)
    db.create_function("words_of", 1, _words_of, deterministic=True)


def _words_of(text: bytes) -> str:
    """Return the distinct words of a text, separated by spaces. It is passed as a blob, because it can be damaged."""
    return " ".join(dict.fromkeys(split_words(os.fsdecode(text))))


def stale_word_tables(db: sqlite3.Connection) -> list[str]:
    """Return the word tables that are damaged or do not have the words of the texts in their source."""
    return [name for name in _word_tables(db) if not _is_current(db, name)]


def rebuild_word_tables(db: sqlite3.Connection) -> None:
    """Create the word tables again, since FTS5 cannot empty every damaged table. Needs a transaction."""
    for name in _word_tables(db):
        (declaration,) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", [name]).fetchone()
        db.execute(f"DROP TABLE {name}")
        db.execute(declaration)
        db.execute(f"INSERT INTO {name} (rowid, words) {_select_all_words(name)}")


def _word_tables(db: sqlite3.Connection) -> list[str]:
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return [name for name in WORD_TABLES if name in names]


def _is_current(db: sqlite3.Connection, name: str) -> bool:
    found = db.execute(_select_all_words(name))
    expected = _fingerprint((item, word) for item, words in found for word in words.split())
    try:
        return _fingerprint(db.execute(f"SELECT doc, term FROM {name}_terms")) == expected
    except sqlite3.DatabaseError as error:
        if is_word_table_error(error):
            return False
        raise


def is_word_table_error(error: sqlite3.DatabaseError) -> bool:
    """Whether SQLite reports a damaged word table, and not a damaged file."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CORRUPT_VTAB


def _fingerprint(rows: Iterable[tuple[int, str]]) -> int:
    """Return a number that depends on the rows, but not on their order. It differs between processes."""
    return reduce(xor, map(hash, rows), 0)


def find_faults(db: sqlite3.Connection, migrations: Sequence[str]) -> list[str]:
    """Return the faults that SQLite finds in an open file, and differences between its schema and the migrations.

    Rows are not compared with their digests.
    """
    faults = [text for (text,) in db.execute("PRAGMA integrity_check") if text != "ok"]
    strays = db.execute("PRAGMA foreign_key_check").fetchall()
    faults += [f"a row of {table} refers to a missing row of {parent}" for table, _, parent, _ in strays]
    for name in _word_tables(db):
        try:
            db.execute(f"SELECT count(*) FROM (SELECT 1 FROM {name} WHERE {name} MATCH 'a' LIMIT 1)")
        except sqlite3.DatabaseError as error:
            if not is_word_table_error(error):  # `stale_word_tables` finds the others, which can be rebuilt
                faults.append(f"{name} cannot be read: {error}")
    expected, found = make_schema(migrations), read_schema(db)
    faults += [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    faults += [f"{name} does not match the schema" for name, made in expected.items() if found.get(name, made) != made]
    return faults


def make_schema(migrations: Sequence[str]) -> dict[str, str]:
    """Return the schema that these migrations create, in the form of `read_schema`."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        add_functions(fresh)
        for migration in migrations:
            fresh.executescript(migration)
        return read_schema(fresh)


def read_schema(db: sqlite3.Connection) -> dict[str, str]:
    """Return the statement that creates each table, index, view and trigger, with uniform whitespace and quotes."""
    rows = db.execute("SELECT type, name, sql FROM sqlite_master")
    return {f"{kind} {name}": re.sub(r'[\s"]+', " ", str(sql or "")).strip() for kind, name, sql in rows}


def digested_tables(db: sqlite3.Connection) -> list[str]:
    """Return the tables whose rows have a digest."""
    views = db.execute("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name").fetchall()
    return [name.removeprefix(DAMAGED_VIEW) for (name,) in views if name.startswith(DAMAGED_VIEW)]


def split_statements(script: str) -> Iterator[str]:
    """Yield the statements of a migration, to run them in one transaction. `executescript` would commit first."""
    statement = ""
    for part in script.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
