"""Opening SQLite files: formats, migrations, durability and errors."""

import errno
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from damage import flip_bits
from disks import fill, remount
from lookalike.errors import DamagedError, FormatError, FullError, LockedError, StoreError
from lookalike.store import database as database_module
from lookalike.store.database import Database, connect, database_errors, read_ids, text
from lookalike.store.schema import CATALOGUE, JOBS, JUDGEMENTS
from waiting import TIMEOUT_S

TABLE = ["CREATE TABLE words (word TEXT); CREATE INDEX by_word ON words (word)"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "words.sqlite"
    path.touch()
    return path


@pytest.mark.parametrize("migrations", [CATALOGUE, JUDGEMENTS])
def test_an_empty_file_becomes_a_durable_database_of_the_latest_format(file: Path, migrations: list[str]) -> None:
    with connect(file, migrations) as db:
        settings = {name: db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "journal_mode")}
        assert settings == {"user_version": len(migrations), "journal_mode": "wal"}
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL: a commit is durable
        assert db.execute("PRAGMA foreign_keys").fetchone()[0] == 1
    db.close()


def test_connecting_never_creates_a_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        connect(tmp_path / "absent.sqlite", TABLE)
    assert not list(tmp_path.iterdir())


def test_a_newer_format_is_rejected_with_both_numbers(file: Path) -> None:
    connect(file, [*TABLE, "SELECT 1", "SELECT 1"]).close()
    with pytest.raises(FormatError, match=r"newer Lookalike \(format 3, this one reads up to 1\)\. Update Lookalike"):
        connect(file, TABLE)


def test_an_older_format_is_migrated_and_keeps_its_rows(file: Path) -> None:
    db = connect(file, TABLE)
    db.execute("INSERT INTO words VALUES ('kept')")
    db.close()
    with pytest.raises(FormatError, match="old format 1"):
        connect(file, [*TABLE, "ALTER TABLE words ADD COLUMN count INTEGER DEFAULT 7"], readonly=True)
    db = connect(file, [*TABLE, "ALTER TABLE words ADD COLUMN count INTEGER DEFAULT 7"])
    assert db.execute("SELECT * FROM words").fetchall() == [("kept", 7)]
    db.close()


def test_a_migration_that_fails_leaves_the_old_format(file: Path) -> None:
    connect(file, TABLE).close()
    with pytest.raises(sqlite3.OperationalError):
        connect(file, [*TABLE, "CREATE TABLE half (x INTEGER); NONSENSE"])
    db = connect(file, TABLE)
    assert db.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall() == []
    db.close()


def test_a_database_of_another_program_is_rejected_and_not_changed(file: Path) -> None:
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE theirs (x INTEGER)")
    other.close()
    before = file.read_bytes()
    with pytest.raises(FormatError, match="not written by Lookalike"):
        connect(file, TABLE)
    assert file.read_bytes() == before


def test_a_file_that_is_not_a_database_is_rejected(file: Path) -> None:
    file.write_bytes(b"not a database, but long enough to have a header " * 10)
    with pytest.raises(FormatError, match="not written by Lookalike"):
        connect(file, TABLE)


def test_a_damaged_database_is_a_damaged_error(file: Path) -> None:
    database = Database(file, TABLE)
    with database.transaction() as db:
        db.executemany("INSERT INTO words VALUES (?)", [[f"word {i}"] for i in range(2_000)])
    database.close()
    data = bytearray(file.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    file.write_bytes(data)
    database = Database(file, TABLE)
    with pytest.raises(DamagedError, match="lookalike repair --from BACKUP"), database.reading() as reader:
        reader.execute("SELECT sum(length(word)) FROM words").fetchall()
    assert database.verify()
    database.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_errors_of_a_full_disk_are_full_errors(tmp_path: Path, number: int) -> None:
    with pytest.raises(FullError, match="Committed changes are safe"), database_errors(tmp_path):
        raise OSError(number, os.strerror(number))


def test_other_disk_errors_are_store_errors_but_a_closed_pipe_is_not(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Input/output error"), database_errors(tmp_path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    with pytest.raises(BrokenPipeError), database_errors(tmp_path):
        raise BrokenPipeError


def test_a_transaction_that_does_not_fit_changes_nothing(file: Path) -> None:
    database = Database(file, TABLE)
    with database.transaction() as db:
        db.execute("INSERT INTO words VALUES ('kept')")
        pages = db.execute("PRAGMA page_count").fetchone()[0]
    with database.reading() as db:
        db.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(FullError), database.transaction() as db:
        db.executemany("INSERT INTO words VALUES (?)", [["x" * 2_000]] * 100)
    with database.reading() as db:
        assert db.execute("SELECT word FROM words").fetchall() == [("kept",)]
    assert database.verify() == []
    database.close()


def test_an_exhausted_quota_is_a_full_error_although_sqlite_reports_an_io_error(file: Path) -> None:
    database = Database(file, TABLE)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (32_768, limit[1]))
    try:
        with pytest.raises(FullError, match="disk I/O error"), database.transaction() as db:
            db.executemany("INSERT INTO words VALUES (?)", [["x" * 2_000]] * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    with database.reading() as db:
        assert db.execute("SELECT count(*) FROM words").fetchone() == (0,)
    database.close()


def test_a_busy_file_is_a_locked_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT_S", 0.05)
    one, two = Database(file, TABLE), Database(file, TABLE)
    with one.transaction(), pytest.raises(LockedError, match="Try again"), two.transaction():
        pass
    one.close()
    two.close()


def test_an_error_of_the_locking_protocol_is_a_locked_error(file: Path) -> None:
    error = sqlite3.OperationalError("locking protocol")
    error.sqlite_errorcode = sqlite3.SQLITE_PROTOCOL  # after ten seconds in which the file could not even be read
    with pytest.raises(LockedError, match="Try again"), database_errors(file):
        raise error


def test_an_error_inside_a_transaction_undoes_it(file: Path) -> None:
    database = Database(file, TABLE)
    with suppress(RuntimeError), database.transaction() as db:
        db.execute("INSERT INTO words VALUES ('gone')")
        raise RuntimeError
    with database.reading() as db:
        assert db.execute("SELECT count(*) FROM words").fetchone() == (0,)
    database.close()


def test_a_reader_sees_one_state_while_another_commits(file: Path) -> None:
    database = Database(file, TABLE)

    def write() -> None:
        with database.transaction() as db:
            db.execute("INSERT INTO words VALUES ('new')")

    with database.reading() as db:
        assert db.execute("SELECT count(*) FROM words").fetchone() == (0,)
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        assert db.execute("SELECT count(*) FROM words").fetchone() == (0,)
    with database.reading() as db:
        assert db.execute("SELECT count(*) FROM words").fetchone() == (1,)
    database.close()


def test_reading_a_closed_database_is_an_error(file: Path) -> None:
    database = Database(file, TABLE)
    database.close()
    with pytest.raises(StoreError, match="closed"), database.reading():
        pass


def test_closing_keeps_a_connection_open_until_its_block_ends(file: Path) -> None:
    database = Database(file, TABLE)
    with database.transaction() as db:
        db.executemany("INSERT INTO words VALUES (?)", [["one"], ["two"]])

    def words() -> Iterator[str]:
        with database.reading() as db:
            yield from (word for (word,) in db.execute("SELECT word FROM words"))

    started = words()
    assert next(started) == "one"
    database.close()  # does not wait for the block
    with pytest.raises(StoreError, match="closed"):
        next(words())
    assert list(started) == ["two"]
    assert not file.with_name("words.sqlite-wal").exists()  # the last connection is closed
    with pytest.raises(StoreError, match="closed"):
        database.in_transaction()


def test_threads_that_read_after_closing_get_an_error(file: Path) -> None:
    code = (
        "import sys, threading, time; from pathlib import Path; from lookalike.errors import StoreError\n"
        "from lookalike.store.database import Database\n"
        "def read():\n"
        "    try:\n"
        "        while True:\n"
        "            with database.reading() as db: list(db.execute('SELECT * FROM words'))\n"
        "    except StoreError as error: told.append(str(error))\n"
        "for _ in range(10):\n"
        "    database = Database(Path(sys.argv[1]), sys.argv[2:]); told = []\n"
        "    threads = [threading.Thread(target=read) for _ in range(6)]\n"
        "    for thread in threads: thread.start()\n"
        "    time.sleep(0.03); database.close()\n"
        "    for thread in threads: thread.join()\n"
        "    assert len(told) == 6 and all('is closed' in text for text in told), told\n"
    )
    db = connect(file, TABLE)
    db.execute("BEGIN")
    db.executemany("INSERT INTO words VALUES (?)", [[f"word {i}"] for i in range(2_000)])
    db.execute("COMMIT")
    db.close()
    result = subprocess.run(
        [sys.executable, "-c", code, file, *TABLE], capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert (result.returncode, result.stderr) == (0, b"")  # in another process, because a crash would end this one


def test_a_thread_does_not_open_a_file_that_replaced_the_database(file: Path) -> None:
    database = Database(file, TABLE)
    file.rename(file.with_name("moved"))
    file.touch()
    told: list[str] = []

    def read() -> None:
        try:
            with database.reading():
                pass
        except StoreError as error:
            told.append(str(error))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert told == [f"The collection at {file.parent} was replaced while it was open. Open it again."]
    database.close()
    assert file.stat().st_size == 0


def test_names_that_are_not_unicode_round_trip(file: Path) -> None:
    word = os.fsdecode(b"Z\xfcrich \xff\xc3\xa9")
    db = connect(file, TABLE)
    db.execute("INSERT INTO words VALUES (CAST(? AS TEXT))", [text(word)])
    assert db.execute("SELECT word FROM words WHERE word GLOB 'Z*'").fetchone() == (word,)
    db.close()


def test_any_number_of_ids_is_read_in_ascending_order(file: Path) -> None:
    ids = [2**63 - 1, 0, *range(1_000, 3_000)]
    db = connect(file, ["CREATE TABLE items (id INTEGER PRIMARY KEY)"])
    query = "SELECT id FROM items ORDER BY id DESC"
    assert read_ids(db, query).tolist() == []
    db.execute("BEGIN")
    db.executemany("INSERT INTO items VALUES (?)", [[item] for item in ids])
    db.execute("COMMIT")
    assert read_ids(db, query).tolist() == sorted(ids)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000)  # as if the ids were too long for one text
    assert read_ids(db, query).tolist() == sorted(ids)
    assert read_ids(db, "SELECT id FROM items WHERE id < ?", [1_002]).tolist() == [0, 1_000, 1_001]
    db.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def disk(mount_disk: Callable[[str], Path]) -> Path:
    return mount_disk("1m")


def _write_word(file: Path, word: str) -> sqlite3.Connection:
    file.touch()
    db = connect(file, TABLE)
    db.execute("INSERT INTO words VALUES (?)", [word])
    return db


def _read_without_rights(file: Path) -> subprocess.CompletedProcess[str]:
    """Read the file in a process without permission to write to the folder."""
    file.parent.chmod(0o555)
    code = (
        "import os, sys; from pathlib import Path; from lookalike.store.database import Database\n"
        "if os.getuid() == 0: os.setuid(65534)\n"  # root can write anywhere, the user 65534 cannot
        "database = Database(Path(sys.argv[1]), sys.argv[2:])\n"
        "with database.reading() as db: print(*db.execute('SELECT word FROM words').fetchone())"
    )
    command = [sys.executable, "-c", code, file, *TABLE]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_a_read_only_folder_can_be_read_while_its_owner_has_it_open(open_folder: Path) -> None:
    file = open_folder / "words.sqlite"
    db = _write_word(file, "found")
    result = _read_without_rights(file)
    assert (result.stdout, result.stderr) == ("found\n", "")
    open_folder.chmod(0o755)
    db.close()
    result = _read_without_rights(file)  # its owner could change it unnoticed at any time
    assert "StoreError" in result.stderr
    assert "Get write permission, ask the owner to open" in result.stderr


def test_a_disk_mounted_read_only_can_be_read(disk: Path) -> None:
    file = disk / "words.sqlite"
    _write_word(file, "found").close()
    remount(disk, "ro")
    database = Database(file, TABLE)
    with database.reading() as db:
        assert db.execute("SELECT word FROM words").fetchall() == [("found",)]
    database.close()


def test_a_full_disk_can_be_read_and_later_writes_are_seen(disk: Path) -> None:
    file = disk / "words.sqlite"
    _write_word(file, "one").close()
    filler = fill(disk)
    database = Database(file, TABLE)

    def words() -> list[str]:
        with database.reading() as db:
            return [word for (word,) in db.execute("SELECT word FROM words")]

    assert words() == ["one"]
    with pytest.raises(FullError), database.transaction() as db:
        db.execute("INSERT INTO words VALUES ('does not fit')")
    filler.unlink()
    code = (
        "import sys; from pathlib import Path; from lookalike.store.database import connect\n"
        "db = connect(Path(sys.argv[1]), sys.argv[3:]); db.execute('INSERT INTO words VALUES (?)', [sys.argv[2]])\n"
        "db.execute('PRAGMA wal_checkpoint(TRUNCATE)')"
    )
    for word in ("two", "three"):
        subprocess.run([sys.executable, "-c", code, file, word, *TABLE], check=True)
        assert words()[-1] == word
    with pytest.raises(StoreError, match="open it again"), database.transaction() as db:
        db.execute("INSERT INTO words VALUES ('four')")
    database.close()
    _write_word(file, "four").close()


def test_an_unfinished_log_in_a_read_only_folder_is_an_error(open_folder: Path) -> None:
    db = _write_word(open_folder / "words.sqlite", "only in the log")
    copy = open_folder / "copy"  # as after a killed writer: with a log but without shared memory
    copy.mkdir()
    for name in ("words.sqlite", "words.sqlite-wal"):
        shutil.copy(open_folder / name, copy / name)
    db.close()
    result = _read_without_rights(copy / "words.sqlite")
    assert "StoreError" in result.stderr
    assert "Open it once with write permission" in result.stderr


@pytest.mark.parametrize(
    ("name", "migrations", "every"),
    [("v13/catalogue", CATALOGUE, 30_011), ("v14/judgements", JUDGEMENTS, 30_011), ("v8/jobs", JOBS, 1_009)],
)
def test_no_flipped_bit_changes_a_value_undetected(
    tmp_path: Path, name: str, migrations: list[str], every: int
) -> None:
    """A sample; benchmarks/bit_flips.py flips more."""
    file = tmp_path / "copy.sqlite"
    shutil.copy(Path(__file__).parent / "golden" / f"{name}.sqlite", file)
    data = file.read_bytes()
    rows = [at for word in (b"jpeg", b"/photos/", b"anna", b"irrelevant", b"author") for at in find_all(data, word)]
    places = [*range(0, 8 * len(data), every), *(8 * (at + 1) + at % 8 for at in rows)]
    results = flip_bits(file, migrations, places)
    assert results["missed"] == []
    assert len(results["found"]) > 10


def find_all(data: bytes, word: bytes) -> Iterator[int]:
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + 1)


def test_a_newer_file_with_other_tables_is_rejected(file: Path) -> None:
    connect(file, ["CREATE TABLE theirs (x INTEGER)", "SELECT 1"]).close()
    with pytest.raises(FormatError, match=r"has the tables of another database\. Run: lookalike repair --from BACKUP"):
        connect(file, TABLE)
