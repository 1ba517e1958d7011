"""Builds of `Leaves` into a file that are interrupted or killed, and resume; damaged and stale files."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from lookalike import mapped_arrays
from lookalike.errors import DamagedError, FullError, InputError
from lookalike.index import leaf_codes, leaf_recall, leaves
from lookalike.index.flat import Flat
from lookalike.index.leaf_codes import Build
from lookalike.index.leaves import Leaves
from lookalike.types import silent
from waiting import TIMEOUT_S

N, D = 5_200, 20
STAGES = ["checking vectors", "finding cells", "assigning cells", "writing cells", "sorting into leaves"]


def small_parts(set_value):
    """Make builds of few rows have several cells and parts."""
    set_value(leaf_codes, "CELL", 200)
    set_value(leaf_codes, "CHUNK_BYTES", 2**15)
    set_value(leaf_codes, "WRITE_BYTES", 2**15)
    set_value(leaf_codes, "CELLS_AT_ONCE", 8)
    set_value(leaf_recall, "QUERIES", 4)
    set_value(leaves, "ALL", 0)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    small_parts(monkeypatch.setattr)


def rows(n=N):
    """Clustered rows with ids that are not in order."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, D))[random.integers(0, 60, n)] + 0.3 * random.normal(size=(n, D))
    truth = Flat()
    truth.add(random.permutation(50_000)[:n].astype(np.int64), X.astype(np.float16))
    return truth


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The bytes of builds that are not interrupted: with a calibration, and of few rows without one."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        small_parts(patch.setattr)
        for n in (N, 3_000):
            path = tmp_path_factory.mktemp("whole") / "leaves"
            Leaves(32).build(rows(n), path=path)
            found[n] = path.read_bytes()
    return found


class Stop:
    """A progress function that interrupts at a call of a stage."""

    def __init__(self, stage=None, call=0):
        self.stage, self.call, self.calls = stage, call, []

    def __call__(self, stage, done, total):
        self.calls.append((stage, done))
        if stage == self.stage and len(self.starts(stage)) > self.call:
            raise KeyboardInterrupt

    def starts(self, stage):
        """The numbers with which a stage was reported."""
        return [done for name, done in self.calls if name == stage]


def interrupt(path, stage, call=0, n=3_000):
    """Interrupt a build; return its progress."""
    stop = Stop(stage, call)
    with pytest.raises(KeyboardInterrupt):
        Leaves(32).build(rows(n), stop, path)
    with pytest.raises(DamagedError, match=r"incomplete|No such file"):
        Leaves.load(path, rows(n))
    return stop


@pytest.mark.parametrize(("stage", "call"), [(stage, 0) for stage in STAGES] + [(stage, 1) for stage in STAGES[2:]])
def test_an_interrupted_build_resumes_where_it_was_and_writes_the_same_bytes(tmp_path, uninterrupted, stage, call):
    path, again = tmp_path / "leaves", Stop()
    first = interrupt(path, stage, call)
    Leaves(32).build(rows(3_000), again, path)
    assert path.read_bytes() == uninterrupted[3_000]
    assert [file.name for file in tmp_path.iterdir()] == ["leaves"]
    finished = STAGES[1 : STAGES.index(stage)]
    assert not any(again.starts(done) for done in finished)
    assert again.starts(stage)[0] == first.starts(stage)[-1]
    assert (again.starts(stage)[0] > 0) == (call > 0)


def test_a_measurement_of_recall_resumes_after_the_last_query(tmp_path, uninterrupted, monkeypatch):
    scans, f = [], leaf_codes.LeafCodes.f

    def count(codes, chosen, plane):
        scans.append(len(chosen) == len(codes.counts))
        return f(codes, chosen, plane)

    monkeypatch.setattr(leaf_codes.LeafCodes, "f", count)
    path = tmp_path / "leaves"
    interrupt(path, "measuring recall", 6, n=N)  # of 8 queries
    assert scans.count(True) == 6
    searched = scans.count(False)
    assert searched > 0  # the limits of the first kernel
    scans.clear()
    Leaves(32).build(rows(), path=path)
    assert scans.count(True) == 2
    assert path.read_bytes() == uninterrupted[N]
    resumed = scans.count(False)
    scans.clear()
    Leaves(32).build(rows(), path=tmp_path / "other")
    assert scans.count(False) == searched + resumed


@pytest.mark.parametrize("times", [1, 2])
def test_cells_that_were_being_sorted_are_written_again_from_the_vectors(tmp_path, uninterrupted, monkeypatch, times):
    path, share, again, cells = tmp_path / "leaves", leaf_codes.share, Stop(), []

    def sort_half(work, n):
        work(0, n // 2)
        raise KeyboardInterrupt

    for _ in range(times):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            Leaves(32).build(rows(3_000), during("sorting into leaves", 8, sort_half, patch.setattr), path)
    monkeypatch.setattr(leaf_codes, "share", lambda work, n: cells.append(n) or share(work, n))
    Leaves(32).build(rows(3_000), again, path)
    assert path.read_bytes() == uninterrupted[3_000]
    assert again.calls == [("checking vectors", 0), ("sorting into leaves", 8)]
    assert cells == [7]  # of 15


def during(stage, done, share, set_value):
    """A progress function that replaces `share` at a report."""

    def progress(*told):
        if told[:2] == (stage, done):
            set_value(leaf_codes, "share", share)

    return progress


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import test_leaf_builds as builds
from lookalike.index import leaf_codes
from lookalike.index.leaves import Leaves

def sort_some(work, n):
    work(0, 5)
    os.kill(os.getpid(), signal.SIGKILL)

builds.small_parts(setattr)
progress = builds.during("sorting into leaves", 8, sort_some, setattr)
Leaves(32).build(builds.rows(3_000), progress, Path(sys.argv[1]))
"""


def test_a_killed_build_resumes(tmp_path, uninterrupted):
    path, again = tmp_path / "leaves", Stop()
    command = [sys.executable, "-c", KILLED, str(path), os.path.dirname(__file__)]
    assert subprocess.run(command, timeout=TIMEOUT_S, check=False).returncode == -signal.SIGKILL
    Leaves(32).build(rows(3_000), again, path)
    assert path.read_bytes() == uninterrupted[3_000]
    assert again.calls == [("checking vectors", 0), ("sorting into leaves", 8)]


def other_vector(truth):
    truth.blocks[0].X[7, 3] += 0.25


def other_id(truth):
    truth.row_ids[7] = 60_000


def fewer(truth):
    truth.remove(truth.row_ids[:1])


def other_boot(truth):
    mapped_arrays.boot_id = lambda: "after a restart"


def other_version(truth):
    leaf_codes.__version__ = "9"


@pytest.mark.parametrize("change", [other_vector, other_id, fewer, other_boot, other_version])
def test_an_unfinished_build_of_other_rows_is_discarded(tmp_path, monkeypatch, change):
    monkeypatch.setattr(mapped_arrays, "boot_id", mapped_arrays.boot_id)  # restored after the test
    monkeypatch.setattr(leaf_codes, "__version__", leaf_codes.__version__)
    path, again, truth = tmp_path / "leaves", Stop(), Flat()
    interrupt(path, "sorting into leaves", 1)
    changed = rows(3_000)
    change(changed)
    truth.add(changed.row_ids[changed.alive], changed.blocks[0].X[changed.alive])
    Leaves(32).build(truth if change is other_id else changed, again, path)
    assert [again.starts(stage)[0] for stage in STAGES] == [0] * 5
    Leaves(32).build(truth, path=tmp_path / "other")
    assert path.read_bytes() == (tmp_path / "other").read_bytes()


def test_an_unfinished_build_with_another_size_of_leaves_is_discarded(tmp_path):
    path, again = tmp_path / "leaves", Stop()
    interrupt(path, "sorting into leaves", 1)
    Leaves(16).build(rows(3_000), again, path)
    assert again.starts("finding cells") == [0]
    Leaves(16).build(rows(3_000), path=tmp_path / "other")
    assert path.read_bytes() == (tmp_path / "other").read_bytes()


def test_a_moved_folder_resumes_and_a_copy_that_was_made_while_it_changed_is_discarded(tmp_path, uninterrupted):
    (path := tmp_path / "before" / "leaves").parent.mkdir()
    interrupt(path, "writing cells", 2)
    early = path.read_bytes()
    path = path.parent.rename(tmp_path / "moved") / "leaves"
    again = interrupt(path, "sorting into leaves", 1)
    assert again.starts("writing cells")[0] > 0
    (copied := tmp_path / "copy" / "leaves").parent.mkdir()
    later = path.read_bytes()
    start = early.index(np.sort(rows(3_000).ids).tobytes())  # of the ids; the cells are before them
    copied.write_bytes(early[:start] + later[start:])
    copied.with_name("leaves.part").write_bytes(path.with_name("leaves.part").read_bytes())
    Leaves(32).build(rows(3_000), path=copied)
    assert copied.read_bytes() == uninterrupted[3_000]


def test_a_resumed_build_of_vectors_that_are_too_long_for_queries_does_not_report_damage(tmp_path):
    truth, random = Flat(), np.random.default_rng(0)
    truth.add(np.arange(N), (random.normal(size=(N, D)) * 1e18).astype(np.float32))
    for _ in range(2):
        with pytest.raises(InputError, match=r"length at most 1e\+18"):
            Leaves(32).build(truth, path=tmp_path / "leaves")


@pytest.mark.parametrize("name", ["leaves", "leaves.part"])
@pytest.mark.parametrize("damage", ["missing", "empty", "short", "long", "header", "complete"])
def test_a_damaged_unfinished_file_is_discarded(tmp_path, uninterrupted, name, damage):
    path, file, again = tmp_path / "leaves", tmp_path / name, Stop()
    interrupt(path, "sorting into leaves", 1)
    data = file.read_bytes()
    file.write_bytes(
        {
            "missing": b"",
            "empty": b"",
            "short": data[:-1],
            "long": data + b"\0",
            "header": data.replace(b"unfinished", b"unfinisheD", 1),
            "complete": uninterrupted[3_000],
        }[damage]
    )
    if damage == "missing":
        file.unlink()
    Leaves(32).build(rows(3_000), again, path)
    assert path.read_bytes() == uninterrupted[3_000]
    assert again.starts("writing cells")[0] == 0
    assert bool(again.starts("assigning cells")) == (name == "leaves.part")
    assert [one.name for one in tmp_path.iterdir()] == ["leaves"]


def damage(path, where, value, complete):
    """Write wrong numbers into the files of an unfinished build."""
    if where == "ids":
        (path.parent / "complete").write_bytes(complete)
        arrays = mapped_arrays.open_arrays(path.parent / "complete")[0]
        start, ids = (arrays[name].__array_interface__["data"][0] for name in ("low", "ids"))
        data = np.memmap(path, np.uint8, "r+")[mapped_arrays.HEADER_BYTES + ids - start :]
        data[: arrays["ids"].nbytes].view(np.int64)[1_000:1_010] = value
    else:
        numbers = getattr(Build(rows(3_000), 32, path, silent), where)
        numbers[-2] = value


@pytest.mark.parametrize(("where", "value"), [("ids", -1), ("ids", 2**60), ("cell", -1), ("cell", 2**30), ("done", 99)])
def test_damage_inside_an_unfinished_file_fails_one_build_and_not_the_next(tmp_path, uninterrupted, where, value):
    path = tmp_path / "leaves"
    interrupt(path, "sorting into leaves", 1)
    damage(path, where, value, uninterrupted[3_000])
    with pytest.raises(DamagedError, match=r"leaves is damaged\. Try again"):
        Leaves(32).build(rows(3_000), path=path)
    Leaves(32).build(rows(3_000), path=path)
    assert path.read_bytes() == uninterrupted[3_000]


def test_a_build_on_a_full_disk_resumes_when_there_is_space(tmp_path, uninterrupted, monkeypatch):
    path, again, reserve = tmp_path / "leaves", Stop(), mapped_arrays.reserve

    reserved = []

    def fail(file, n_bytes):
        reserve(file, n_bytes)
        reserved.append(n_bytes)
        if len(reserved) == 2:  # the leaves
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(mapped_arrays, "reserve", fail)
        with pytest.raises(FullError, match="No space left on device"):
            Leaves(32).build(rows(3_000), path=path)
    assert [file.name for file in tmp_path.iterdir()] == ["leaves.part"]
    Leaves(32).build(rows(3_000), again, path)
    assert [stage for stage, _ in again.calls[:2]] == ["checking vectors", "writing cells"]
    assert path.read_bytes() == uninterrupted[3_000]
