"""Damage to the files of a collection, as disks and people do it."""

import sqlite3
from contextlib import closing
from pathlib import Path


def change_rows(file: Path, *statements: str) -> None:
    """Run statements on a SQLite file without the triggers that keep the digests of its rows."""
    with closing(sqlite3.connect(file)) as db, db:
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            db.execute(statement)
        for _, sql in triggers:
            db.execute(sql)
