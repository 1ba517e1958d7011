"""No committed data is lost: writers killed at random moments, full disks, two writers at the same time."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from disks import fill, free_bytes
from forked import Forked
from lookalike import Collection
from lookalike.errors import FullError, LockedError
from waiting import TIMEOUT_S, until

WRITER = Path(__file__).with_name("writer.py")
N = 48


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    noise = np.random.default_rng(0)
    for i in range(N):
        part = folder / ("odd" if i % 2 else "even")
        part.mkdir(exist_ok=True)
        Image.fromarray(noise.integers(0, 256, (24, 32, 3), np.uint8)).save(part / f"{i:02}.png")
    return folder


@pytest.fixture(scope="module")
def write(pictures):
    """A function that runs a writer in a process and returns its exit code and output lines."""
    with Forked("writer") as writers:

        def run(where, rounds, *death):
            writers.start(str(where), str(pictures), rounds, *death)
            return writers.finish()

        yield run


def state(where):
    """Return the content of a collection in a form that can be compared."""
    with Collection(where) as collection:
        items = {item.id: sorted(item.paths) for item in collection.items()}
        vectors = {name: collection.vectors(name) for name in ("color", "small")}
        return items, {name: (ids.tobytes(), X.tobytes()) for name, (ids, X) in vectors.items()}


@pytest.fixture(scope="module")
def expected(write, tmp_path_factory):
    """The state after a writer that is not killed."""
    where = tmp_path_factory.mktemp("unkilled") / "collection"
    assert write(where, 0) == (0, ["start add", "done all"])
    return state(where)


LONGEST_S = {"first add": 0.04, "remove": 0.02, "compact": 0.005, "add": 0.03}
"""Maximum CPU time of a writer in a phase before it dies: about the duration of the phase."""


def test_a_writer_killed_at_random_moments_loses_nothing(write, expected, tmp_path):
    where, chance = tmp_path / "collection", random.Random(0)
    everything = {path for paths in expected[0].values() for path in paths}
    even = {path for path in everything if "/even/" in path}
    before, ends = set(), set()
    for number in range(16):  # each phase four times: at its start, and at three random moments
        phase = list(LONGEST_S)[number % 4]
        code, lines = write(where, 1_000, phase, chance.uniform(0, LONGEST_S[phase]) if number >= 4 else 0)
        assert code in (-signal.SIGKILL, -signal.SIGPROF), "the writer was not killed"
        ends.add(lines[-1])
        with Collection(where) as collection:
            assert collection.verify() == []
            have = {path for item in collection.items() for path in item.paths}
        assert have <= everything
        if lines == ["start add"]:  # the first add resumes where the last writer was killed
            assert have >= before
        elif lines[-1] == "start add" or lines[-1] == "start remove":
            assert have >= even
        elif lines[-1] in ("start compact", "done remove", "done compact"):
            assert have == even
        else:
            assert lines[-1] == "done add"
            assert have == everything
        before = have
    assert ends >= {"start add", "start remove", "start compact"}
    assert write(where, 0) == (0, ["start add", "done all"])
    assert state(where) == expected


def test_workers_do_not_outlive_a_killed_writer(pictures, tmp_path):
    psutil = pytest.importorskip("psutil")
    command = [sys.executable, str(WRITER), str(tmp_path / "collection"), str(pictures), "1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        try:
            writer.stdout.readline()
            children = until(lambda: psutil.Process(writer.pid).children(recursive=True))
        finally:
            writer.kill()
    _, alive = psutil.wait_procs(children, timeout=TIMEOUT_S)
    assert not alive


def test_a_second_writer_gets_the_pid_of_the_first_or_waits(pictures, tmp_path):
    where = tmp_path / "collection"
    Collection(where, create=True).close()
    with Collection(where) as first, Collection(where) as second, Collection(where, wait_s=TIMEOUT_S) as patient:
        with first._store.writer(), pytest.raises(LockedError, match=f"pid {os.getpid()}"):
            second.add(pictures, recipes=["color"])
        assert patient.add(pictures, recipes=["color"], workers=1).added == N


def test_a_full_disk_is_a_clear_error_and_loses_no_data(pictures, mount_disk):
    disk = mount_disk("2m")
    with Collection(disk / "collection", create=True) as collection:
        assert collection.add(pictures / "even", recipes=["color"], workers=1).added == N // 2
        filler = fill(disk)
        with pytest.raises(FullError, match="full"):
            collection.add(pictures / "odd", recipes=["color"], workers=1)
        assert collection.verify() == []
        assert len(collection) == N // 2
        assert len(collection.search(pictures / "even" / "00.png", k=3)) == 3
        filler.unlink()
        assert collection.add(pictures / "odd", recipes=["color"], workers=1).added == N // 2
        assert collection.verify() == []


@pytest.mark.parametrize("verb", ["remove", "compact", "remove_space"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_commands_that_free_space_work_on_a_full_disk(pictures, mount_disk, verb, when):
    """They use a reserve, which is restored once there is space. `when`: opened before or after the disk is full."""
    disk = mount_disk("20m")
    collection = Collection(disk / "collection", create=True)
    collection.add(pictures, recipes=["color", "other = color()"], workers=1)
    collection.remove(pictures / "odd")
    if when == "before":
        filler = fill(disk)
    else:
        collection.close()
        filler = fill(disk)
        collection = Collection(disk / "collection")
    assert free_bytes(disk) == 0
    if verb == "remove":
        assert collection.remove(pictures / "even" / "00.png", pictures / "even" / "02.png") == 2
        assert len(collection) == N // 2 - 2
    elif verb == "compact":
        assert collection.compact()["bytes_after"] < 2**20
        assert len(collection.vectors()[0]) == len(collection) == N // 2
    else:
        collection.remove_space("other")
        assert [space.name for space in collection.spaces] == ["color"]
    assert collection.verify() == []
    collection.close()
    assert free_bytes(disk) > 0
    filler.unlink()
    with Collection(disk / "collection") as collection:
        assert collection.add(pictures, workers=1).added
        assert collection.verify() == []
    assert (disk / "collection" / "reserve").stat().st_size == 2**20
