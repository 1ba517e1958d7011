"""The job ledger: rows that survive kills, folders of older versions, damage, and full or read-only disks."""

import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from damage import change_rows
from disks import fill, remount
from faults import Calls, Disk, Files, read_files, write_files, write_job_files
from lookalike.errors import DamagedError, FormatError, FullError, LockedError, ReadOnlyError, StoreError
from lookalike.server.jobs import Jobs
from lookalike.store.database import connect
from lookalike.store.jobs import JobLedger, verify_jobs
from lookalike.store.repair import repair_jobs
from lookalike.store.schema import JOBS, JUDGEMENTS

GOLDEN = Path(__file__).parent / "golden"
NAME = "größe \udcff"

OLD_SERVICE = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("ready", flush=True)
sys.stdin.read()
"""
"""Script that uses the folder `jobs` like a service of an older version."""


def make_job(number: int, ended: float | None = None) -> dict[str, Any]:
    return {"kind": "add", "arguments": {"number": number, "folder": "x" * 400}, "created": 1.0, "ended": ended}


def add_jobs(ledger: JobLedger, count: int) -> None:
    for number in range(count):
        ledger.add(make_job(number))


def open_ledger(folder: Path) -> closing[JobLedger]:
    return closing(JobLedger(folder, bool))


def read(folder: Path) -> dict[int, dict[str, Any]]:
    with open_ledger(folder) as ledger:
        return ledger.read()


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A folder whose ledger has forty jobs on several pages. Every fourth job is unfinished."""
    folder = tmp_path / "c"
    folder.mkdir()
    with open_ledger(folder) as ledger:
        for number in range(1, 41):
            assert ledger.add(make_job(number, None if number % 4 == 0 else 2.0)) == number
    return folder


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder with the jobs of an older version."""
    shutil.copytree(GOLDEN / "jobs_folder", tmp_path / "c")
    return tmp_path / "c"


# Rows


def test_jobs_are_read_back_unchanged_and_ids_increase(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        assert [ledger.add({"author": NAME, "ended": None}), ledger.add({"ended": 1.5})] == [1, 2]
        ledger.write(1, {"author": NAME, "ended": 0.1, "result": {"a": [1, None]}})
        ledger.remove([2])
    with open_ledger(tmp_path) as ledger:
        assert ledger.read() == {1: {"author": NAME, "ended": 0.1, "result": {"a": [1, None]}}}
        assert ledger.add({}) == 3  # ids are not reused, even if the last job was removed
        assert ledger.faults == []
    assert verify_jobs(tmp_path) == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["jobs.lock", "jobs.sqlite"]


def test_the_golden_ledger_of_format_1_can_be_read(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v8", tmp_path / "c")
    assert verify_jobs(tmp_path / "c") == []
    with open_ledger(tmp_path / "c") as ledger:
        made = {"kind": "add", "arguments": {"folder": f"/{NAME}"}, "author": NAME}
        assert ledger.read() == {2: {**made, "ended": 2.5}, 3: {**made, "ended": None}}
        assert ledger.add(made) == 4


def test_only_one_service_at_a_time_can_use_the_ledger(tmp_path: Path) -> None:
    with (
        open_ledger(tmp_path),
        pytest.raises(LockedError, match=f"^Another service is running the jobs of {tmp_path}. Use that one, "),
    ):
        JobLedger(tmp_path, bool)
    assert read(tmp_path) == {}


def test_an_added_job_survives_a_kill(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from lookalike.store.jobs import JobLedger\n"
        "ledger = JobLedger(Path(sys.argv[1]), bool); ledger.add({'n': 1}); ledger.write(1, {'n': 2})\n"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, tmp_path], check=False).returncode == -9
    assert read(tmp_path) == {1: {"n": 2}}


def test_an_unwritable_folder_raises_a_read_only_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ReadOnlyError, match="is not writable"):
        JobLedger(tmp_path, bool)


# Folders of older versions


def test_the_jobs_of_an_older_version_become_rows(old: Path) -> None:
    jobs = {int(file.stem): json.loads(file.read_text()) for file in (old / "jobs").glob("*.json")}
    with closing(Jobs(old)) as service:
        service.start()
        assert [job.id for job in service.all()] == [12, 8, 7, 3]
        done, failed = service.get(3), service.get(7)
    assert done is not None
    assert failed is not None
    assert (done.state, done.result, done.arguments) == ("done", {"added": 4}, {"folder": f"/photos/{NAME}"})
    assert (failed.state, failed.ended, failed.error) == ("failed", 1.6e9 + 60.25, jobs[7]["error"])
    assert not (old / "jobs").exists()
    assert verify_jobs(old) == []
    with open_ledger(old) as ledger:
        assert ledger.add({}) == 13


def test_unfinished_jobs_of_an_older_version_resume(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()
    monkeypatch.setattr(Jobs, "_spawn", lambda self: (started.set(), (_ for _ in ()).throw(OSError(0, "no process"))))
    with closing(Jobs(old)) as service:
        service.start()
        assert started.wait(60)
        job = service.get(8)
        assert job is not None
        assert (job.kind, job.author, job.attempts) == ("refresh", NAME, 3)


def test_damaged_files_of_an_older_version_are_logged_and_do_not_stop_the_service(
    old: Path, caplog: pytest.LogCaptureFixture
) -> None:
    valid = {"id": 20, "kind": "map", "arguments": {}, "author": "anna", "created": 1.0, "state": "done", "ended": 2.0}
    damaged = {
        "20.json": valid,
        "21.json": {**valid, "id": 22},
        "23.json": {"id": 23, "kind": "map"},
        "24.json": {**valid, "id": 24, "arguments": []},
        "25.json": [1],
        "x.json": {**valid, "id": "x"},
        f"{2**63}.json": {**valid, "id": 2**63},
        "True.json": {**valid, "id": True},
    }
    for name, content in damaged.items():
        (old / "jobs" / name).write_text(json.dumps(content))
    (old / "jobs" / "26.json").write_bytes(b'{"id": 26, \xff')
    with closing(Jobs(old)) as service:
        service.start()
        assert [job.id for job in service.all()] == [20, 12, 8, 7, 3]
    names = {*damaged, "26.json"} - {"20.json"}
    assert {record.getMessage() for record in caplog.records} >= {
        f"jobs/{name} was damaged; its job is lost." for name in names
    }
    assert not (old / "jobs").exists()


def test_jobs_are_not_migrated_while_a_service_of_an_older_version_runs(old: Path) -> None:
    before = read_files(old / "jobs")
    with subprocess.Popen(
        [sys.executable, "-c", OLD_SERVICE, old / "jobs" / "lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for _ in range(2):
            with pytest.raises(LockedError, match=f"A service of an older version .*{old}. Stop it"):
                JobLedger(old, bool)
        assert read_files(old / "jobs") == before
        process.stdin.close()
    assert list(read(old)) == [3, 7, 8, 12]


def test_later_jobs_of_an_older_version_get_a_new_id_if_theirs_is_taken(old: Path) -> None:
    """No job is lost or duplicated, although the older version starts again at id 1."""
    before = read(old)
    (old / "jobs").mkdir()
    for number in (3, 4):
        (old / "jobs" / f"{number}.json").write_text(json.dumps({"id": number, **make_job(number)}))
    expected = {**before, 4: make_job(4), 13: make_job(3)}
    again = read_files(old / "jobs")
    assert read(old) == expected
    write_files(old / "jobs", again)  # as if the service had been killed before it could remove them
    assert read(old) == expected


def crashes(folder: Path, verb: Callable[[], object]) -> Iterator[tuple[str, Files]]:
    """Run a verb; yield the files after a kill or power cut at each call that changes a file, then the final files."""
    left: list[tuple[str, Files]] = []
    disk = Disk(folder, trusts_sqlite=True)

    def note(where: str) -> None:
        left.append((f"kill before {where}", read_files(folder)))
        left.extend((f"power cut before {where}", disk.left(names=names)) for names in (True, False))

    with Calls(folder, lambda call: note(f"{call.verb} {call.path}"), disk):
        verb()
    note("return")
    yield from left


def test_a_migration_killed_at_any_step_does_not_lose_or_duplicate_jobs(old: Path) -> None:
    jobs = {int(file.stem): json.loads(file.read_text()) for file in (old / "jobs").glob("*.json")}
    expected = {number: {name: job[name] for name in job if name != "id"} for number, job in jobs.items()}
    steps = 0
    for where, files in list(crashes(old, lambda: read(old))):
        write_files(old, files)
        assert read(old) == expected, where
        assert not (old / "jobs").exists(), where
        with open_ledger(old) as ledger:
            assert ledger.add({}) == 13
        steps += 1
    assert steps > 60


def test_a_migration_on_a_full_disk_loses_nothing(mount_disk: Callable[[str], Path]) -> None:
    disk = mount_disk("1m")
    (disk / "c").mkdir()
    write_job_files(disk / "c")
    filler = fill(disk)
    for size in (0, 8_192, 16_384, 65_536):  # less than the migration needs
        with filler.open("r+b") as stream:
            stream.truncate(filler.stat().st_size - size)
        with suppress(FullError):
            JobLedger(disk / "c", bool).close()
            break
        assert {file.name for file in (disk / "c" / "jobs").glob("*.json")} == {"1.json", "3.json"}
        fill(disk)
    else:
        filler.unlink()
    assert list(read(disk / "c")) == [1, 3]
    assert not (disk / "c" / "jobs").exists()


# Full and read-only disks


def test_a_full_disk_rejects_jobs_until_there_is_space(mount_disk: Callable[[str], Path]) -> None:
    disk = mount_disk("1m")
    with open_ledger(disk) as ledger:
        ledger.add(make_job(1))
    filler = fill(disk)
    with open_ledger(disk) as ledger:  # opened on the full disk
        assert list(ledger.read()) == [1]
        with pytest.raises(FullError, match="No disk space left"):
            add_jobs(ledger, 1_000)  # some may fit into space that SQLite has allocated
        last = max(ledger.read())
        filler.unlink()
        assert ledger.add(make_job(0)) == last + 1
    assert list(read(disk)) == [*range(1, last + 2)]


def test_a_disk_without_space_for_a_ledger_raises_a_disk_full_error(mount_disk: Callable[[str], Path]) -> None:
    disk = mount_disk("1m")
    filler = fill(disk)
    with pytest.raises(FullError, match=r"No disk space left for .*jobs"):
        JobLedger(disk, bool)
    filler.unlink()
    assert read(disk) == {}


def test_a_read_only_disk_raises_a_read_only_error(mount_disk: Callable[[str], Path]) -> None:
    disk = mount_disk("1m")
    with open_ledger(disk) as ledger:
        ledger.add(make_job(1))
    remount(disk, "ro")
    with pytest.raises(ReadOnlyError, match="mounted read-only"):
        JobLedger(disk, bool)
    assert verify_jobs(disk) == []
    remount(disk, "rw")


# Damage


def damage_row(folder: Path, number: int) -> None:
    change_rows(folder / "jobs.sqlite", f"UPDATE jobs SET fields = '{{}}' WHERE id = {number}")


def test_damaged_rows_are_reported_skipped_and_removed_by_repair(filled: Path) -> None:
    jobs = read(filled)
    damage_row(filled, 40)
    fault = "jobs.sqlite: 1 row of jobs does not match its digest. Run: lookalike repair"
    assert verify_jobs(filled) == [fault]
    with open_ledger(filled) as ledger:
        assert ledger.faults == [fault]
        assert list(ledger.read()) == [*range(1, 40)]
        with pytest.raises(DamagedError, match=r"Nothing was changed\. Run: lookalike repair"):
            ledger.remove([39, 40])
        assert ledger.add(make_job(41)) == 41
        (done,) = repair_jobs(filled, None)  # while a service runs
        assert done.startswith("jobs.sqlite, jobs: 1 row removed. The damaged values were saved to damaged-rows-")
        assert ledger.add(make_job(42)) == 42
    assert verify_jobs(filled) == []
    assert read(filled) == {number: jobs[number] for number in range(1, 40)} | {n: make_job(n) for n in (41, 42)}
    assert repair_jobs(filled, None) == []


def zero_page(file: Path, page: int) -> None:
    data = bytearray(file.read_bytes())
    data[4096 * page : 4096 * (page + 1)] = bytes(4096)
    file.write_bytes(data)


def replace_database(file: Path) -> None:
    file.unlink()
    file.touch()
    connect(file, JUDGEMENTS).close()


def forget_application(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA application_id = 7")


def drop_trigger(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("DROP TRIGGER jobs_digest_new")


def make_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


HARMS: dict[str, tuple[Callable[[Path], object], int]] = {
    "a page of rows": (lambda file: zero_page(file, 5), 20),
    "the last page": (lambda file: os.truncate(file, file.stat().st_size - 4096), 1),
    "the first page": (lambda file: zero_page(file, 0), 0),
    "all but the start": (lambda file: os.truncate(file, 5_000), 0),
    "empty": (lambda file: os.truncate(file, 0), 0),
    "no database": (lambda file: file.write_bytes(b"?" * 5_000), 0),
    "another database": (replace_database, 0),
    "another application": (forget_application, 40),
    "a missing trigger": (drop_trigger, 40),
    "a directory": (make_directory, 0),
}
"""Damage to the ledger file, and the minimum number of recoverable jobs."""


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_file_disables_only_jobs_and_can_be_repaired(
    filled: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = read(filled)
    change, least = HARMS[harm]
    change(filled / "jobs.sqlite")
    (fault,) = verify_jobs(filled)[:1]
    assert str(filled / "jobs.sqlite") in fault or fault.startswith("jobs.sqlite: ")
    assert fault.endswith("un: lookalike repair")
    with closing(Jobs(filled)) as service:
        service.start()
        assert service.all() == []
        assert service.ensure("map", {}, "anna") is None
        with pytest.raises((DamagedError, FormatError), match=r"un: lookalike repair$"):
            service.submit("refresh", {}, "anna")
    assert "Jobs are disabled: " in caplog.text
    (done,) = repair_jobs(filled, None)
    left = read(filled)
    assert len(left) >= least
    assert all(jobs[number] == fields for number, fields in left.items())
    expected = f"jobs.sqlite: {len(left)} jobs recovered; any others are lost." if left else "the jobs are lost."
    assert expected in done
    (kept,) = [file for file in filled.glob("jobs.sqlite.damaged-*") if not file.name.endswith(("-wal", "-shm"))]
    assert done.endswith(f"The damaged file is kept as {kept.name}.")
    assert verify_jobs(filled) == repair_jobs(filled, None) == []
    with open_ledger(filled) as ledger:
        assert ledger.add({}) == max(left, default=0) + 1


def test_a_damaged_file_is_not_replaced_while_a_service_runs(filled: Path) -> None:
    with open_ledger(filled):
        zero_page(filled / "jobs.sqlite", 5)
        with pytest.raises(LockedError, match="Another service"):
            repair_jobs(filled, None)
    assert not list(filled.glob("*damaged*"))
    assert len(repair_jobs(filled, None)) == 1


def test_a_repair_killed_at_any_step_recovers_the_same_jobs(filled: Path) -> None:
    zero_page(filled / "jobs.sqlite", 5)
    damaged = read_files(filled)
    repair_jobs(filled, None)
    expected, steps = read(filled), 0
    write_files(filled, damaged)
    for where, files in list(crashes(filled, lambda: repair_jobs(filled, None))):
        write_files(filled, files)
        repair_jobs(filled, None)
        assert read(filled) == expected, where
        assert not list(filled.glob(".*")), where
        steps += 1
    assert steps > 20


def test_a_ledger_of_a_newer_version_is_rejected(filled: Path) -> None:
    with closing(connect(filled / "jobs.sqlite", [*JOBS, "SELECT 1"])):
        pass
    for verb in (
        lambda: JobLedger(filled, bool),
        lambda: verify_jobs(filled),
        lambda: repair_jobs(filled, None),
    ):
        with pytest.raises(FormatError, match="Update Lookalike"):
            verb()


def test_an_unreadable_file_of_an_older_version_is_kept(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk error can be temporary, so the file is not treated as damaged."""
    real = Path.read_bytes

    def fail(self: Path) -> bytes:
        if self.name == "7.json":
            raise OSError(5, "Input/output error", str(self))
        return real(self)

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(StoreError, match=r"7\.json"):
        JobLedger(old, bool)
    monkeypatch.undo()
    assert list(read(old)) == [3, 7, 8, 12]


def test_the_old_jobs_folder_is_removed_only_under_its_lock(old: Path) -> None:
    handle = os.open(old / "jobs" / "lock", os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with closing(Jobs(old)) as service:
        service.start()
        assert service.all() == []
        with pytest.raises(LockedError, match="older version"):
            service.submit("refresh", {}, "anna")
    os.close(handle)
    assert len(list((old / "jobs").glob("*.json"))) == 4
