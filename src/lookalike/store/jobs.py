"""The job ledger: the jobs of the service, one row per job, in `jobs.sqlite`.

A row contains the id of a job and its fields as JSON. The store reads only one field, `ended`: the time at which the
job ended, or null. One process at a time can use the ledger. It holds the lock on `jobs.lock`.

Before 0.2.0, a job was a file in the folder `jobs`. `JobLedger` migrates such a folder.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from sqlite3 import Connection, Cursor
from typing import Any, TypeAlias

from lookalike.atomic_files import write_errors
from lookalike.errors import DamagedError, FormatError, LockedError, NewerFormatError, ReadOnlyError
from lookalike.store.database import Database, check_not_empty, create_database, database_errors
from lookalike.store.schema import JOBS, JOBS_FILE, find_faults
from lookalike.system import sync_folder, try_lock

Fields: TypeAlias = dict[str, Any]
"""The stored fields of a job, without its id."""

FOLDER = "jobs"
LOCK = "jobs.lock"
MAX_ID = 2**53
"""Largest id that is accepted in a file of an older version. A file with a larger id is damaged."""

WRITE_JOB = "INSERT INTO jobs (id, fields) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET fields = excluded.fields"


class JobLedger:
    """The stored jobs of a collection. Raises LockedError if another service uses them, DamagedError if unreadable.

    Parameters
    ----------
    collection : the collection's directory.
    is_job : function that returns whether fields stored by an older version are valid; if not, their file is damaged.

    Attributes
    ----------
    faults : one sentence per damaged row and per damaged file of an older version. Their jobs are not read.

    """

    def __init__(self, collection: Path, is_job: Callable[[Fields], bool]):
        file = collection / JOBS_FILE
        with _repaired_without_backup(), ExitStack() as stack:
            stack.enter_context(jobs_lock(collection))
            if not file.exists():
                with database_errors(file):
                    create_database(file, JOBS)
            check_not_empty(file)
            self._database = Database(file, JOBS)
            stack.callback(self._database.close)
            with self._database.reading() as db:
                if faults := find_faults(db, JOBS):
                    raise DamagedError(f"{file} is damaged: {faults[0]}. Run: lookalike repair")
            self.faults = self._database.verify() + self._migrate(collection, is_job)
            self._resources = stack.pop_all()

    def read(self) -> dict[int, Fields]:
        """Return the fields of every job by ascending id; damaged rows are skipped."""
        query = "SELECT id, fields FROM jobs WHERE id NOT IN (SELECT id FROM damaged_jobs) ORDER BY id"
        with _repaired_without_backup(), self._database.reading() as db:
            return {number: json.loads(fields) for number, fields in db.execute(query)}

    def add(self, fields: Fields) -> int:
        """Store a new job and return its id, which is larger than all earlier ids."""
        return int(self._commit(lambda db: db.execute(WRITE_JOB, [None, json.dumps(fields)])).lastrowid or 0)

    def write(self, id: int, fields: Fields) -> None:
        """Store the current fields of a job."""
        self._commit(lambda db: db.execute(WRITE_JOB, [id, json.dumps(fields)]))

    def remove(self, ids: Sequence[int]) -> None:
        """Remove jobs."""
        self._commit(lambda db: db.executemany("DELETE FROM jobs WHERE id = ?", [(number,) for number in ids]))

    def close(self) -> None:
        """Release the ledger for another service."""
        self._resources.close()

    def _commit(self, change: Callable[[Connection], Cursor]) -> Cursor:
        """Commit a change. It is on disk when this returns."""
        with _repaired_without_backup():
            try:
                with self._database.transaction() as db:
                    return change(db)
            except ReadOnlyError:  # this thread's connection was opened on a full disk
                self._database.reopen()
                with self._database.transaction() as db:
                    return change(db)

    def _migrate(self, collection: Path, is_job: Callable[[Fields], bool]) -> list[str]:
        """Move the jobs of an older version to the table; return a sentence for each damaged file.

        The rows are committed before the first file is removed, and no job changes before the last file is removed. A
        service that is killed in between leaves files with the same fields as rows. The next service ignores them.
        """
        folder = collection / FOLDER
        if not folder.is_dir():
            return []
        busy = f"A service of an older version is running the jobs of {collection}. Stop it, then restart this one."
        with _locked(folder / "lock", busy), write_errors(folder):
            found = {file.name: _read_file(file, is_job) for file in folder.glob("*.json")}
            known = self.read()
            new = [job for job in found.values() if job is not None and job[1] not in known.values()]
            # An older service that was started in between may have reused an id.
            rows = [(None if number in known else number, json.dumps(fields)) for number, fields in sorted(new)]
            self._commit(lambda db: db.executemany(WRITE_JOB, rows))
            for file in sorted(folder.iterdir(), key=lambda file: file.name == "lock"):  # the lock last
                file.unlink()
            folder.rmdir()
            sync_folder(collection)  # otherwise, files of jobs that have changed could reappear after a power failure
        return [f"{FOLDER}/{name} was damaged; its job is lost." for name, job in sorted(found.items()) if job is None]


def verify_jobs(collection: Path) -> list[str]:
    """Return a sentence for each fault of the job ledger, if the collection has one."""
    file = collection / JOBS_FILE
    if not file.exists():
        return []
    try:
        with _repaired_without_backup():
            check_not_empty(file)
            with closing(Database(file, JOBS)) as database:
                return [_without_backup(fault) for fault in database.verify()]
    except NewerFormatError:
        raise
    except (DamagedError, FormatError) as error:
        return [str(error)]


@contextmanager
def jobs_lock(collection: Path) -> Iterator[None]:
    """Hold the lock of the job ledger inside the block. Raises LockedError if another process holds it."""
    with _locked(
        collection / LOCK,
        f"Another service is running the jobs of {collection}. Use that one, or stop it and restart this one.",
    ):
        yield


@contextmanager
def _locked(file: Path, busy: str) -> Iterator[None]:
    """Hold a lock. Raises LockedError with the message `busy` if another process holds it."""
    with write_errors(file):
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not try_lock(handle):
            raise LockedError(busy)
        yield
    finally:
        os.close(handle)


def _read_file(file: Path, is_job: Callable[[Fields], bool]) -> tuple[int, Fields] | None:
    """Return the id and the fields of a job from a file of an older version, or None if the file is damaged."""
    try:
        fields = json.loads(file.read_bytes())
        number = int(fields.pop("id"))
        valid = file.name == f"{number}.json" and 0 < number <= MAX_ID and is_job(fields)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    return (number, fields) if valid else None


@contextmanager
def _repaired_without_backup() -> Iterator[None]:
    """Make errors suggest `lookalike repair`, which repairs the ledger without a backup."""
    try:
        yield
    except (DamagedError, FormatError) as error:
        raise type(error)(_without_backup(str(error))) from error


def _without_backup(sentence: str) -> str:
    return sentence.replace("lookalike repair --from BACKUP", "lookalike repair")
