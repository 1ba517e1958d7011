"""Functions that damage the files of a collection."""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from lookalike.errors import StoreError
from lookalike.store.database import Database


def change_rows(file: Path, *statements: str) -> None:
    """Run statements on a SQLite file without the triggers that update the row digests."""
    with closing(sqlite3.connect(file)) as db, db:
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            db.execute(statement)
        for _, sql in triggers:
            db.execute(sql)


def flip_bits(file: Path, migrations: Sequence[str], places: Iterable[int]) -> dict[str, list[int]]:
    """Flip one bit at a time in a closed database; return the positions by outcome.

    A position is the number of a bit in the file. "found": opening or verifying the file reports damage. "harmless":
    no value of a table with row digests has changed. "missed": a value has changed, and no damage was reported.
    """
    data, before = file.read_bytes(), _values(file)
    results: dict[str, list[int]] = {"found": [], "harmless": [], "missed": []}
    for place in places:
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        file.write_bytes(flipped)
        results[_outcome(file, migrations, before)].append(place)
        for ending in ("-wal", "-shm"):
            file.with_name(file.name + ending).unlink(missing_ok=True)
    file.write_bytes(data)
    return results


def _outcome(file: Path, migrations: Sequence[str], before: list[Any]) -> str:
    try:
        with closing(Database(file, migrations)) as database:
            if database.verify():
                return "found"
    except (StoreError, sqlite3.Error):
        return "found"
    return "harmless" if _values(file) == before else "missed"


def _values(file: Path) -> list[Any]:
    """Return all rows of the tables with row digests, with raw types and bytes."""
    with closing(sqlite3.connect(f"{file.as_uri()}?immutable=1", uri=True)) as db:
        db.text_factory = lambda data: ("text", data)
        tables = [name.decode() for ((_, name),) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {table: [row[1][1] for row in db.execute(f"PRAGMA table_info({table})")] for table in tables}
        return [
            (table, sorted(map(repr, db.execute(f"SELECT * FROM {table}"))))
            for table in sorted(tables)
            if b"digest" in columns[table]
        ]
