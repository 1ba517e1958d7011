"""Repair the databases of a collection: restore a file from a backup, or restore or remove its damaged rows.

`repair_jobs` repairs the job ledger of the service without a backup: it keeps every row that can be read.

Damaged data is never deleted: a damaged file is renamed, and damaged rows are written to a JSON file.
"""

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from lookalike.atomic_files import atomic_write, damaged_name, file_errors
from lookalike.errors import DamagedError, FormatError, NewerFormatError, StoreError
from lookalike.store.backup import Backup
from lookalike.store.database import APPLICATION_ID, EMPTY_LOG, Database, connect, database_errors, roll_back
from lookalike.store.directory import writer_lock
from lookalike.store.jobs import WRITE_JOB, jobs_lock
from lookalike.store.schema import (
    DAMAGED_VIEW,
    DATABASES,
    JOBS,
    JOBS_FILE,
    find_faults,
    make_schema,
    read_schema,
    rebuild_word_tables,
    row_digest,
)
from lookalike.text import many

LOGS = ("-wal", "-shm")
ACCEPTED = ("sessions", "events")
"""Tables whose damaged rows are kept if they are not in a backup, because other rows refer to them."""


def repair_databases(
    path: Path, backup: Backup | None, *, without_backup: bool = False, wait_s: float = 0.0
) -> list[str]:
    """Make both databases of a collection usable; return a sentence per repair. Needs the writer lock.

    `without_backup`: replace a damaged database that the backup cannot restore by an empty one. Raises DamagedError if
    a database is damaged and cannot be repaired with these options.
    """
    done = []
    with writer_lock(path, wait_s):
        for name, migrations in DATABASES.items():
            file = path / name
            for part in path.glob(f".{name}.*.part"):  # files left by a killed repair
                part.unlink(missing_ok=True)
            done += _set_format(file, migrations) or _rebuild_indexes(file, migrations)
            problem = _problem(file, migrations)
            if problem is None:
                continue
            copy = None if backup is None else backup.file(name)
            if copy is None and not without_backup:
                raise DamagedError(
                    f"{problem.split(' Run: ')[0]} To restore it from a backup: lookalike repair --from BACKUP. If you"
                    f" have none, `lookalike repair --without-backup` replaces it with an empty {file.stem} and"
                    " keeps the"
                    " damaged file."
                )
            damaged = _rename_damaged(file)
            with atomic_write(file) as part:
                if copy is not None:
                    shutil.copyfile(copy, part)
                else:
                    part.touch()
                    connect(part, migrations).close()
            source = "restored from the backup" if copy is not None else "replaced by an empty one"
            done.append(f"{name} was {source}." + (f" The damaged file is kept as {damaged.name}." if damaged else ""))
    return done


def repair_rows(database: Database, backup: Path | None) -> list[str]:
    """Restore the rows that do not match their digest from the copy in a backup, or remove them.

    Returns a sentence per repair. The damaged values are first written to a JSON file next to the database.
    """
    damaged = database.damaged_rows()
    if not damaged:
        return []
    saved = database.path.with_name(f"damaged-rows-{time.strftime('%Y%m%d-%H%M%S')}-{database.path.stem}.json")
    with atomic_write(saved) as part:
        part.write_text(json.dumps(damaged, default=bytes.hex, indent=1))
    done = []
    with database_errors(database.path), closing(database.connect()) as db:
        if backup is not None:
            db.execute("ATTACH ? AS backup", [f"{backup.absolute().as_uri()}?mode=ro&immutable=1"])
        db.execute("BEGIN IMMEDIATE")
        try:
            for table, rows in damaged.items():
                restored = _repair_table(db, table, from_backup=backup is not None)
                rest = "kept unchanged" if table in ACCEPTED else "removed"
                words = [f"{many(restored, 'row')} restored from the backup"] if restored else []
                words += [f"{many(len(rows) - restored, 'row')} {rest}"] if restored < len(rows) else []
                done.append(
                    f"{database.path.name}, {table}: {', '.join(words)}. The damaged values were saved to {saved.name}."
                )
            db.execute("COMMIT")
        finally:
            roll_back(db)
    return done


def repair_words(database: Database) -> list[str]:
    """Fill the word tables again if one is damaged; return a sentence if so.

    This must come before `repair_rows`, because triggers change the word tables with the rows.
    """
    stale = database.stale_words()
    if not stale:
        return []
    with database.transaction() as db:
        rebuild_word_tables(db)
    return [f"{database.path.name}: {' and '.join(stale)} was rebuilt."]


def repair_jobs(path: Path, backup: Backup | None) -> list[str]:
    """Repair the job ledger of a collection, if it has one; return a sentence per repair.

    A damaged file is replaced by one with the jobs that can be read and those of the backup. This needs the lock of the
    service. Raises LockedError if a service is running.
    """
    file = path / JOBS_FILE
    if not file.exists():
        return []
    copy = None if backup is None else backup.file(JOBS_FILE)
    if _problem(file, JOBS) is None:
        with closing(Database(file, JOBS)) as database:
            return repair_rows(database, copy)
    with jobs_lock(path), atomic_write(file) as part:
        for unfinished in path.glob(f".{JOBS_FILE}.*.part*"):  # files left by a killed repair
            unfinished.unlink()
        recovered = _recover_jobs(file)
        part.write_bytes(b"" if copy is None else copy.read_bytes())
        with closing(connect(part, JOBS)) as db, database_errors(file):
            db.execute("BEGIN")
            db.executemany(WRITE_JOB, recovered.items())
            db.execute("COMMIT")
            restored = db.execute("SELECT count(*) FROM jobs").fetchone()[0] - len(recovered)
            db.execute(EMPTY_LOG)
        damaged = _rename_damaged(file)
    found = [f"{many(len(recovered), 'job')} recovered"] if recovered else []
    found += [f"{many(restored, 'job')} restored from the backup"] if restored else []
    kept = f" The damaged file is kept as {damaged.name}." if damaged else ""
    if not found:
        return [f"{JOBS_FILE} was replaced by an empty one; the jobs are lost.{kept}"]
    return [f"{JOBS_FILE}: {', '.join(found)}; any others are lost.{kept}"]


def _recover_jobs(file: Path) -> dict[int, str]:
    """Return the jobs of a damaged ledger that can be read and match their digest, as JSON fields by id."""
    found = {}
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as db:
        db.execute("PRAGMA writable_schema = ON")  # allows reading a truncated file
        for order in ("ASC", "DESC"):  # a scan ends at a damaged page, so read from both ends
            with suppress(sqlite3.DatabaseError):
                rows = db.execute(f"SELECT id, CAST(fields AS BLOB), digest FROM jobs ORDER BY id {order}")
                for number, fields, digest in rows:
                    if row_digest("integer", number, "text", fields) == digest:
                        found[number] = fields.decode()
    return found


def _repair_table(db: sqlite3.Connection, table: str, *, from_backup: bool) -> int:
    """Repair the damaged rows of one table; return how many were restored from the backup. Needs a transaction."""
    info = db.execute(f"PRAGMA table_info({table})").fetchall()
    key = ", ".join(name for _, name, *_, place in info if place)
    others = ", ".join(name for _, name, *_, place in info if not place and name != "digest")
    checks = db.execute("SELECT name, sql FROM sqlite_master WHERE name GLOB ?", [f"{table}_check_*"]).fetchall()
    for name, _ in checks:
        db.execute(f"DROP TRIGGER {name}")
    damaged = f"({key}) IN (SELECT {key} FROM {DAMAGED_VIEW}{table})"
    restored = 0
    if from_backup and others:
        same = f"({key}) = ({', '.join(f'mine.{name.strip()}' for name in key.split(','))})"
        found = f"FROM backup.{table} WHERE {same}"
        update = f"UPDATE {table} AS mine SET ({others}) = (SELECT {others} {found}) WHERE {damaged}"
        restored = db.execute(f"{update} AND EXISTS (SELECT 1 {found})").rowcount
    first = key.split(",")[0]
    accept = f"UPDATE {table} SET {first} = {first} WHERE {damaged}"  # a trigger writes the digest
    db.execute(accept if table in ACCEPTED else f"DELETE FROM {table} WHERE {damaged}")
    for _, sql in checks:
        db.execute(sql)
    return restored


def _is_missing(file: Path) -> bool:
    return not file.exists() or file.stat().st_size == 0


def _problem(file: Path, migrations: Sequence[str]) -> str | None:
    """Return the reason why a database cannot be used, or None if it can."""
    if _is_missing(file):
        return f"{file} is missing or empty."
    try:
        with closing(connect(file, migrations)) as db, database_errors(file):
            faults = find_faults(db, migrations)
    except NewerFormatError:
        raise
    except (DamagedError, FormatError) as error:
        return str(error)
    return f"{file} is damaged: {faults[0]}." if faults else None


def _set_format(file: Path, migrations: Sequence[str]) -> list[str]:
    """Accept a database restored from its `.dump`, which has our tables but no format version or application id."""
    if _is_missing(file):
        return []
    try:
        with closing(sqlite3.connect(file, isolation_level=None)) as db:
            if any(db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")):
                return []
            found = read_schema(db)
            for version in range(len(migrations), 0, -1):
                if found and make_schema(migrations[:version]) == found:
                    db.execute(f"PRAGMA user_version = {version}")
                    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    db.execute("PRAGMA journal_mode = WAL")
                    return [f"{file.name} has the tables of format {version}; its format version was set."]
    except sqlite3.DatabaseError:
        pass  # `_problem` reports it
    return []


def _rebuild_indexes(file: Path, migrations: Sequence[str]) -> list[str]:
    """Rebuild SQLite's own indexes; return a sentence if that repaired the file."""
    if _is_missing(file) or _problem(file, migrations) is None:  # connecting to an empty file would make it valid
        return []
    try:
        with closing(connect(file, migrations)) as db:
            db.execute("REINDEX")
            db.execute("BEGIN IMMEDIATE")
            rebuild_word_tables(db)
            db.execute("COMMIT")
    except (StoreError, sqlite3.Error, OSError):
        return []
    return [f"{file.name}: its indexes were rebuilt."] if _problem(file, migrations) is None else []


def _rename_damaged(file: Path) -> Path | None:
    """Rename a damaged database and its logs; return the new path, or None if there was no file."""
    damaged = damaged_name(file)
    with file_errors(file):
        for ending in LOGS:
            log = file.with_name(file.name + ending)
            if log.exists():
                log.rename(damaged.with_name(damaged.name + ending))
        if not file.exists():
            return None
        try:
            os.link(file, damaged)  # the caller replaces the file, so it is never missing
        except OSError:  # it is a directory, or the file system has no links
            os.replace(file, damaged)
    return damaged
