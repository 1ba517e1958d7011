"""A sample of the fault points of `faults.py`, and tests of the defects they found.

`benchmarks/fault_injection.py` runs all points.
"""

import sqlite3
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from faults import VERBS, Calls, Points, draw_pictures, prepare, scratch_folder
from lookalike.errors import FullError, StoreError
from lookalike.store import database, npy_files
from lookalike.store.directory import Store

STRIDES = {
    "create": 151,
    "add": 41,
    "remove": 11,
    "fit": 71,
    "mark": 10,
    "class": 13,
    "label": 2,
    "compact": 37,
    "map": 5,
    "remove space": 11,
    "backup": 83,
    "job": 17,
    "migrate jobs": 5,
    "repair": 131,
}
"""The sample has every k-th call of each verb."""


@pytest.fixture(scope="module")
def made():
    """A function that returns the points of a verb, for a collection with every kind of content."""
    with scratch_folder() as folder:
        pictures = draw_pictures(folder / "pictures")
        collection = prepare(folder / "work", pictures)
        yield lambda verb: Points(verb, folder / "work", collection, pictures)


def test_every_verb_has_a_sample():
    assert STRIDES.keys() == VERBS.keys()


@pytest.mark.parametrize("verb", VERBS)
def test_a_fault_at_any_call_loses_no_acknowledged_data(made, verb):
    points = made(verb)
    outcome = points.run(STRIDES[verb])
    assert outcome.problems == []
    assert min(outcome.points.values()) > 0
    assert {"BEGIN", "COMMIT"} <= {call.verb for call in points.calls} or verb in ("map", "backup")


def test_power_cuts_reveal_a_missing_sync(made):
    with patch.object(npy_files, "sync_folder", lambda folder: None):
        assert any("power cut" in problem for problem in made("add").run(stride=1_000).problems)


def write_rows(store: Store) -> None:
    """Write a segment and commit it."""
    pending = store.vectors.write("deep", np.array([1]), np.ones((1, 2), np.float32))
    with store.transaction():
        store.vectors.commit(pending)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "c", create=True)
    with store.writer(), store.transaction():
        store.vectors.create_space("deep", ["color()"])
    yield store
    store.close()


def failing(statement: str, code: int):
    """Make a statement fail with an error code of SQLite."""
    real = database.Connection.execute

    def execute(self, sql, *values):
        if sql == statement:
            error = sqlite3.OperationalError("injected")
            error.sqlite_errorcode = code
            raise error
        return real(self, sql, *values)

    return patch.object(database.Connection, "execute", execute)


def test_files_are_kept_while_a_failed_commit_may_refer_to_them(store):
    """After a crash, SQLite finds a commit whose fsync failed in its log, until the next commit overwrites it."""
    folder = store.path / "vectors"
    with failing("COMMIT", sqlite3.SQLITE_IOERR), pytest.raises(StoreError), store.writer():
        write_rows(store)
    assert len(list(folder.iterdir())) == 2
    with store.writer():
        pass
    assert list(folder.iterdir()) == []


def test_files_of_a_commit_that_was_not_written_are_removed_on_a_full_disk(store):
    with failing("COMMIT", sqlite3.SQLITE_FULL), pytest.raises(FullError), store.writer():
        write_rows(store)
    assert list((store.path / "vectors").iterdir()) == []


def test_a_new_database_is_renamed_only_after_its_log_is_empty(tmp_path):
    with failing("PRAGMA wal_checkpoint(TRUNCATE)", sqlite3.SQLITE_IOERR), pytest.raises(StoreError):
        Store(tmp_path / "new", create=True)
    store = Store(tmp_path / "new", create=True)
    assert store.verify() == []
    store.close()


def test_a_segment_whose_second_file_cannot_be_opened_leaves_no_file_open(store, tmp_path):
    def fail(call):
        if call.verb == "open" and call.path.endswith("1.npy.part"):
            raise OSError(5, "injected", call.path)

    with Calls(tmp_path, fail), pytest.raises(StoreError, match="injected"), store.writer():
        write_rows(store)
    assert list((store.path / "vectors").iterdir()) == []


def test_a_disk_error_while_opening_is_raised_and_closes_the_catalogue(store, tmp_path):
    """The error may be temporary. Only damage is reported later, when labels are first needed."""
    store.close()

    real = database.connect

    def connect(path, *given, **options):
        if path.name == "judgements.sqlite":
            raise StoreError("injected")
        return real(path, *given, **options)

    with patch("lookalike.store.database.connect", connect), pytest.raises(StoreError, match="injected"):
        Store(store.path)
    assert not Path(f"{store.path}/catalogue.sqlite-wal").exists()
