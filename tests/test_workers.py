import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

import hostile
from hostile import encode, picture, png, write_corpus
from lookalike.errors import InputError, LookalikeError
from lookalike.images import workers
from lookalike.images.decoding import digest_content, identify, read
from lookalike.images.files import Limits
from lookalike.images.sources import Entry, walk
from lookalike.images.workers import Known, Read, ReadPool, Skip
from waiting import TIMEOUT_S, until

BLACK = encode(Image.new("RGB", (32, 32)), "PNG")


def entries_of(folder):
    return list(walk([folder], on_skip=pytest.fail))


def children():
    """The child processes, without the permanent trackers of Python and joblib."""
    alive = [child for child in psutil.Process().children() if is_alive(child.pid)]
    return [child for child in alive if not any("resource_tracker" in word for word in child.cmdline())]


def is_alive(pid):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def have_ended(pids):
    """Return whether all these processes end."""
    return until(lambda: not any(map(is_alive, pids)))


@pytest.fixture
def good(tmp_path):
    """Twenty good pictures."""
    for i in range(20):
        (tmp_path / f"{i:02}.jpg").write_bytes(encode(picture(np.random.default_rng(i), (60 + i, 40)), "JPEG"))
    return entries_of(tmp_path)


@pytest.fixture
def with_black(good, tmp_path):
    """The good pictures and a black one, on which the functions of `hostile` misbehave."""
    (tmp_path / "05-black.png").write_bytes(BLACK)
    return entries_of(tmp_path)


def test_every_picture_is_read_once_with_the_result_of_the_function(good):
    with ReadPool(hostile.shape, side=None, workers=2) as pool:
        results = {result.entry: result for result in pool.map(good)}
    assert set(results) == set(good)
    for entry, result in results.items():
        picture_ = read(entry.path)
        assert isinstance(result, Read)
        assert result.id == identify(Path(entry.path).read_bytes())
        assert (result.width, result.height, result.format) == (picture_.width, picture_.height, "jpeg")
        assert result.parts == picture_.pixels.shape
    assert children() == []


def test_a_file_with_a_known_id_is_not_decoded(good, tmp_path):
    data = b"the bytes of a picture"
    (tmp_path / "known.jpg").write_bytes(data)
    known = [replace(entry, known=np.array([7, identify(data)])) for entry in entries_of(tmp_path)]
    with ReadPool(hostile.shape, side=None, workers=1) as pool:
        results = {result.entry: result for result in pool.map(known)}
    outcome = results.pop(Entry(str(tmp_path / "known.jpg"), len(data), (tmp_path / "known.jpg").stat().st_mtime_ns))
    assert isinstance(outcome, Known)
    assert (outcome.id, outcome.content) == (identify(data), digest_content(data))
    assert set(results) == set(good)
    assert all(isinstance(result, Read) and result.entry.known is None for result in results.values())


def test_arrays_are_returned_unchanged_and_writable(good):
    with ReadPool(np.copy, side=None, workers=1) as pool:
        for result in pool.map(good[:3]):
            assert np.array_equal(result.parts, read(result.entry.path).pixels)
            result.parts[:] = 0


def test_hostile_files_are_reported_and_good_files_are_read(tmp_path):
    good, bad = write_corpus(tmp_path)
    assert len(bad) >= 200
    reported = {}
    entries = list(walk([tmp_path], on_skip=reported.__setitem__))
    with ReadPool(hostile.shape, side=224, workers=2, timeout_s=TIMEOUT_S) as pool:
        results = list(pool.map(entries))
    read_ = {Path(result.entry.path) for result in results if isinstance(result, Read)}
    reported |= {result.entry.path: result.reason for result in results if isinstance(result, Skip)}
    assert read_ == set(good)
    assert {Path(path) for path in reported} == set(bad)
    assert all(0 < len(reason) < 200 and "\n" not in reason for reason in reported.values())


@pytest.mark.parametrize(
    ("then", "reason", "lasting"),
    [
        (hostile.crash, "it crashed the decoder (Segmentation fault)", True),
        (hostile.fail, "ValueError: black", False),
        (hostile.leave, "the worker process ended unexpectedly", False),
        (hostile.return_function, "return_function.<locals>", False),
    ],
)
def test_a_picture_that_breaks_a_process_is_the_only_one_skipped(with_black, then, reason, lasting):
    with ReadPool(then, side=None, workers=1) as pool:
        results = list(pool.map(with_black))
    (skip,) = [result for result in results if isinstance(result, Skip)]
    assert Path(skip.entry.path).name == "05-black.png"
    assert reason in skip.reason
    assert skip.lasting is lasting
    assert {result.entry for result in results} == set(with_black)


def test_a_picture_that_hangs_a_process_is_the_only_one_skipped(with_black):
    with ReadPool(hostile.hang, side=None, workers=1, timeout_s=0.5) as pool:  # the others take a few milliseconds
        results = list(pool.map(with_black))
    (skip,) = [result for result in results if isinstance(result, Skip)]
    assert Path(skip.entry.path).name == "05-black.png"
    assert (skip.reason, skip.lasting) == ("it took longer than 0.5 s to read", False)
    assert {result.entry for result in results} == set(with_black)


def test_a_picture_that_keeps_a_process_busy_is_stopped_by_the_timeout(with_black):
    with ReadPool(hostile.spin, side=None, workers=1, timeout_s=0.5) as pool:
        (skip,) = [result for result in pool.map(with_black) if isinstance(result, Skip)]
    assert (skip.reason, skip.lasting) == ("it took longer than 0.5 s to read", False)


def test_a_reason_is_lasting_only_if_the_bytes_are_the_cause(tmp_path):
    (tmp_path / "text.jpg").write_text("text")
    (tmp_path / "gone.jpg").write_bytes(BLACK)
    entries = entries_of(tmp_path)
    (tmp_path / "gone.jpg").unlink()
    with ReadPool(hostile.shape, side=None, workers=1) as pool:
        results = {Path(result.entry.path).name: result for result in pool.map(entries)}
    assert (results["text.jpg"].reason, results["text.jpg"].lasting) == ("it is text, not an image", True)
    assert (results["gone.jpg"].reason, results["gone.jpg"].lasting) == ("it no longer exists", False)


def test_limits_apply_in_the_processes(tmp_path):
    (tmp_path / "a.png").write_bytes(png(200, 200, rows=200))
    with ReadPool(hostile.shape, side=None, workers=1, limits=Limits(max_pixels=39_999)) as pool:
        (skip,) = pool.map(entries_of(tmp_path))
    assert skip.reason == "it has 200 × 200 pixels; the limit is 39999"


def test_memory_is_bounded_in_the_processes(with_black):
    with ReadPool(hostile.devour, side=None, workers=1, limits=Limits(max_bytes=10**6, max_pixels=10**6)) as pool:
        results = list(pool.map(with_black))
    (skip,) = [result for result in results if isinstance(result, Skip)]
    assert Path(skip.entry.path).name == "05-black.png"
    assert "Unable to allocate" in skip.reason
    assert not skip.lasting


def test_processes_end_when_the_caller_stops_early(good):
    pool = ReadPool(hostile.shape, side=None, workers=2)
    results = pool.map(good * 50)
    next(results)
    pids = [child.pid for child in children()]
    assert pids
    results.close()
    assert have_ended(pids)
    with pool:
        assert len(list(pool.map(good))) == 20  # the pool can be used again
    assert children() == []


def test_an_error_in_the_entries_of_the_caller_is_raised(good):
    def entries():
        yield from good
        raise KeyError("mine")

    with ReadPool(hostile.shape, side=None, workers=1) as pool, pytest.raises(KeyError, match="mine"):
        list(pool.map(entries()))
    assert children() == []


def test_only_a_limited_number_of_entries_is_read_ahead(good):
    taken = 0

    def entries():
        nonlocal taken
        for entry in good * 100:
            taken += 1
            yield entry

    with ReadPool(hostile.shape, side=None, workers=2) as pool:
        results = pool.map(entries())
        for _ in range(10):
            next(results)
        time.sleep(0.3)  # time in which it could read more
        assert taken <= 10 + 2 * workers.AHEAD * workers.BATCH + workers.BATCH


def test_the_bytes_read_ahead_are_limited_and_results_contain_none(good, monkeypatch):
    data = Path(good[0].path).read_bytes()
    monkeypatch.setattr(workers, "CARRY_BYTES", 2 * workers.BATCH * len(data))
    taken = returned = 0

    def entries():
        nonlocal taken
        for i in range(200):
            taken += 1
            assert taken - returned <= 3 * workers.BATCH
            yield Entry(str(i), len(data), 0, data=data)

    with ReadPool(hostile.shape, side=None, workers=2) as pool:
        for result in pool.map(entries()):
            assert isinstance(result, Read)
            assert result.entry.data is None
            returned += 1
    assert returned == 200


def test_large_files_end_their_batch():
    sizes = [1, 1, 1_000, 1_000, 1]
    batches = workers.make_batches([Entry(str(i), size, 0) for i, size in enumerate(sizes)], 8, 1_000)
    assert [[entry.size for entry in batch] for batch in batches] == [sizes[:3], sizes[3:4], sizes[4:]]


def test_no_process_is_started_for_no_entries():
    with ReadPool(hostile.shape, side=None) as pool:
        assert list(pool.map([])) == []
        assert children() == []


def test_a_function_that_cannot_be_pickled_is_rejected_immediately():
    with pytest.raises(InputError, match="then must be picklable"):
        ReadPool(lambda pixels: pixels, side=None)
    with pytest.raises(InputError, match="workers must be at least 1"):
        ReadPool(hostile.shape, side=None, workers=0)
    with pytest.raises(InputError, match="timeout_s must be above 0"):
        ReadPool(hostile.shape, side=None, timeout_s=0)


def test_a_function_that_a_process_cannot_import_raises_an_error(good, monkeypatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(Path(hostile.__file__).parent)])
    with ReadPool(hostile.shape, side=None) as pool, pytest.raises(LookalikeError, match="No module named 'hostile'"):
        list(pool.map(good))
    assert children() == []


def test_a_process_killed_while_idle_is_replaced(good):
    with ReadPool(hostile.shape, side=None, workers=1) as pool:
        assert len(list(pool.map(good))) == 20
        (child,) = children()
        child.kill()
        child.wait()
        assert all(isinstance(result, Read) for result in pool.map(good))


@pytest.fixture
def started(tmp_path_factory):
    """A folder with one file for each process that received `hostile.AtStart`."""
    return tmp_path_factory.mktemp("started")


def test_a_process_killed_while_it_starts_is_replaced(good, started):
    def kill():
        until(lambda: any(started.iterdir()))
        os.kill(int(next(started.iterdir()).name), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with ReadPool(hostile.AtStart(started, "hang"), side=None, workers=1) as pool:
        results = list(pool.map(good))
    killer.join()
    assert {result.entry for result in results if isinstance(result, Read)} == set(good)
    assert len(list(started.iterdir())) == 2
    assert children() == []


def test_a_process_that_is_always_killed_while_it_starts_raises_an_error(good, started):
    reason = r"killed 3 times in a row while starting \(Killed\)"
    with (
        ReadPool(hostile.AtStart(started, "killed"), side=None, workers=1) as pool,
        pytest.raises(LookalikeError, match=reason),
    ):
        list(pool.map(good[:1]))
    assert len(list(started.iterdir())) == 3
    assert children() == []


def test_a_process_that_exits_while_it_starts_raises_an_error_immediately(good, started):
    with (
        ReadPool(hostile.AtStart(started, "exit"), side=None, workers=1) as pool,
        pytest.raises(LookalikeError, match="it ended with exit code 3"),
    ):
        list(pool.map(good[:1]))
    assert len(list(started.iterdir())) == 1
    assert children() == []


def test_a_missing_interpreter_raises_an_error(good, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with ReadPool(hostile.shape, side=None) as pool, pytest.raises(LookalikeError, match="No such file or directory"):
        list(pool.map(good))


PARENT = """
import sys
import hostile
from lookalike.images.sources import walk
from lookalike.images.workers import ReadPool

entries = list(walk([sys.argv[1]], on_skip=print))
pool = ReadPool(getattr(hostile, sys.argv[2]), side=None, workers=2, timeout_s=float(sys.argv[3]))
count = 0
try:
    for result in pool.map(entries * 2000):
        count += 1
        if count == 5:
            print("reading", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def start_parent(folder, then, timeout_s):
    """Start a script without a main guard that reads pictures; return it and its reading processes."""
    path = os.pathsep.join([str(Path(hostile.__file__).parent), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), str(folder), then, str(timeout_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert parent.stdout.readline() == "reading\n"
    pids = [child.pid for child in psutil.Process(parent.pid).children()]
    assert pids
    return parent, pids


def test_processes_end_when_their_parent_is_killed(good, tmp_path):
    with_parent, pids = start_parent(tmp_path, "shape", 30)
    with with_parent:
        with_parent.kill()
    assert have_ended(pids)


def test_processes_that_hang_end_when_their_parent_is_killed(with_black, tmp_path):
    with_parent, pids = start_parent(tmp_path, "hang", 0.5)
    with with_parent:
        with_parent.kill()
    assert have_ended(pids)


def test_ctrl_c_ends_the_run_without_a_traceback(good, tmp_path):
    with_parent, pids = start_parent(tmp_path, "shape", 30)
    with with_parent:
        for pid in pids:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(pid, number)  # terminals and tools such as `timeout` signal the whole group
        with_parent.send_signal(signal.SIGINT)
        out, err = with_parent.communicate(timeout=TIMEOUT_S)
    assert (out, err, with_parent.returncode) == ("interrupted\n", "", 0)
    assert have_ended(pids)
