"""The collection's directory: opening, the writer lock, transactions, killed writers, full disks, old formats."""

import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from disks import fill, remount
from forked import Forked
from lookalike import Collection
from lookalike.errors import (
    DamagedError,
    FullError,
    InputError,
    LockedError,
    NoCollectionError,
    StoreError,
    UnknownNameError,
)
from lookalike.scaled_rows import ScaledRows
from lookalike.store import models
from lookalike.store.derived import Recall
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item
from lookalike.store.schema import CATALOGUE, JOBS, JUDGEMENTS
from lookalike.types import Exif
from store_worker import DIM, add, do, rows_for, state_after
from waiting import TIMEOUT_S

HERE = Path(__file__).parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = Store(path, create=True)
    with store.writer(), store.transaction():
        store.vectors.create_space("deep", ["color()"])
    yield store
    store.close()


def check_whole(store: Store, expected: set[int]) -> None:
    """Check that nothing is damaged and that the store has exactly these items with their vectors."""
    assert store.verify() == []
    assert store.items.ids().tolist() == sorted(expected)
    for space in store.vectors.spaces():
        assert store.vectors.verify(space, lambda *step: None) == []
        assert store.vectors.live_ids(space).tolist() == sorted(expected)
        for block in store.vectors.blocks(space):
            np.testing.assert_array_equal(block.X, rows_for(block.ids))


def files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def run(code: str, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=TIMEOUT_S)
    return output


# Opening


def test_the_error_for_a_missing_collection_tells_how_to_create_one(path: Path) -> None:
    with pytest.raises(NoCollectionError, match=f"No collection at {path}. Create one with: lookalike -c {path} add"):
        Store(path)
    assert not path.exists()


def test_a_new_collection_is_empty_and_opens_again(path: Path) -> None:
    Store(path, create=True).close()
    Store(path, create=True).close()  # keeps existing data
    store = Store(path)
    assert (len(store.items), store.vectors.spaces(), len(store.judgements)) == (0, {}, 0)
    check_whole(store, set())
    store.close()
    assert files(path) == {"catalogue.sqlite", "judgements.sqlite", "lock"}


def test_a_missing_catalogue_is_an_error_if_there_are_vectors(store: Store, path: Path) -> None:
    with store.writer():
        add(store, [1])
    store.close()
    (path / "catalogue.sqlite").unlink()
    for create in (False, True):
        with pytest.raises(DamagedError, match=r"catalogue.sqlite is missing, but vectors exist.*lookalike repair"):
            Store(path, create=create)


def test_the_log_of_a_missing_catalogue_is_not_applied_to_a_new_one(path: Path) -> None:
    store = Store(path, create=True)
    with store.writer(), store.transaction():
        store.vectors.create_space("old", ["color()"])
    log = (path / "catalogue.sqlite-wal").read_bytes()
    store.close()
    (path / "catalogue.sqlite").unlink()
    (path / "catalogue.sqlite-wal").write_bytes(log)
    (path / "catalogue.sqlite.copy").write_bytes(b"somebody's backup")
    store = Store(path, create=True)
    assert store.vectors.spaces() == {}
    assert (path / "catalogue.sqlite.copy").exists()
    check_whole(store, set())
    store.close()


@pytest.mark.parametrize("harm", ["missing", "empty", "no database"])
def test_missing_judgements_are_an_error_only_when_they_are_needed(store: Store, path: Path, harm: str) -> None:
    with store.writer():
        add(store, [1])
    store.close()
    (path / "judgements.sqlite").unlink()
    if harm != "missing":
        (path / "judgements.sqlite").write_bytes(b"" if harm == "empty" else b"no database" * 500)
    for create in (False, True):
        store = Store(path, create=create)
        assert store.vectors.live_ids("deep").tolist() == [1, 2][: 1 + create]
        with store.writer():
            add(store, [2 + create])
        with pytest.raises(StoreError, match="lookalike repair --from BACKUP"):
            store.judgements.labels([1])
        store.close()


def test_an_empty_catalogue_is_reported_as_damage(path: Path) -> None:
    path = path.with_name("with a space")
    store = Store(path, create=True)
    with store.writer(), store.transaction():
        store.vectors.create_space("deep", ["color()"])
    with store.writer():
        add(store, [1])
    store.judgements.add_labels([(1, "cat")], author="a", source="hand")
    store.close()
    catalogue = path / "catalogue.sqlite"
    data = catalogue.read_bytes()
    catalogue.write_bytes(b"")
    for create in (False, True):
        with pytest.raises(DamagedError, match=r"catalogue.sqlite is missing or empty. Run: lookalike repair"):
            Store(path, create=create)
    catalogue.write_bytes(data)
    store = Store(path)
    check_whole(store, {1})
    store.close()


def test_vectors_survive_when_an_open_catalogue_is_emptied(store: Store, path: Path) -> None:
    with store.writer():
        add(store, [1])
    (path / "catalogue.sqlite").write_bytes(b"")
    with pytest.raises(DamagedError, match="is missing or empty"), store.writer():
        pass
    assert (path / "vectors" / "deep-1.npy").exists()


def test_a_path_that_cannot_be_a_collection_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        Store(tmp_path / "file", create=True)
    with pytest.raises(StoreError):
        Store(tmp_path / "file" / "below", create=True)


def test_opening_reads_little_and_loads_nothing_heavy(store: Store, path: Path) -> None:
    with store.writer():
        add(store, range(5_000))
    code = (
        "import sys, psutil; from pathlib import Path; from lookalike.store.directory import Store\n"
        "count = lambda: psutil.Process().io_counters().read_chars\n"
        "before = count(); store = Store(Path(sys.argv[1])); store.vectors.blocks('deep'); read = count() - before\n"
        "heavy = {'torch', 'sklearn', 'scipy', 'faiss', 'numba', 'cv2', 'onnxruntime', 'PIL'} & set(sys.modules)\n"
        "print(read, heavy)"
    )
    read, heavy = finish(run(code, path)).split(maxsplit=1)
    assert heavy == "set()\n"
    assert int(read) < 5_000 * DIM * 4 / 8  # bytes; vectors are memory-mapped and read on demand


def test_using_a_closed_store_is_an_error(store: Store) -> None:
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        len(store.items)


# The writer lock


HOLD = (
    "import sys; from pathlib import Path; from lookalike.store.directory import Store\n"
    "with Store(Path(sys.argv[1])).writer(): print('ready', flush=True); sys.stdin.read()"
)


def test_a_second_writer_gets_the_pid_of_the_first_or_waits(store: Store, path: Path) -> None:
    other = run(HOLD, path)
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    with pytest.raises(LockedError, match=rf"\(pid {other.pid}\) is writing to {path}. Try again later or use --wait"):
        store.writer().__enter__()
    assert len(store.items) == 0  # reading still works
    later = threading.Timer(0.2, other.communicate)
    later.start()
    with store.writer(wait_s=TIMEOUT_S):
        add(store, [1])
    later.join()
    check_whole(store, {1})


def test_a_killed_writer_releases_the_lock_immediately(store: Store, path: Path) -> None:
    other = run(HOLD, path)
    assert other.stdout is not None
    other.stdout.readline()
    other.kill()
    other.communicate()
    with store.writer():
        add(store, [1])


def test_a_writer_interrupted_while_waiting_can_try_again(store: Store, path: Path) -> None:
    other = Store(path)
    with other.writer(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            store.writer(wait_s=60).__enter__()
    with store.writer():
        add(store, [1])
    other.close()


def test_the_writer_lock_is_reentrant_and_blocks_other_threads(store: Store) -> None:
    errors: list[Exception] = []

    def write() -> None:
        try:
            with store.writer(wait_s=0.05):
                pass
        except LockedError as error:
            errors.append(error)

    with store.writer():
        with store.writer():
            add(store, [1])
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        add(store, [2])
    assert "Another thread of this process" in str(errors[0])
    write()
    assert len(errors) == 1


def test_writing_without_the_lock_raises_an_assertion_error(store: Store) -> None:
    with pytest.raises(AssertionError), store.transaction():
        pass
    failed: list[bool] = []

    def write() -> None:
        try:
            with store.transaction():
                pass
        except AssertionError:
            failed.append(True)

    with store.writer():
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert failed == [True]


def test_two_writers_in_two_processes_lose_nothing(store: Store, path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[3]); from store_worker import Store, add\n"
        "store = Store(Path(sys.argv[1])); first = int(sys.argv[2])\n"
        "for i in range(first, first + 15):\n"
        "    with store.writer(wait_s=60): add(store, [i]); store.vectors.merge('deep')\n"
    )
    others = [run(code, path, first, HERE) for first in (100, 200)]
    for other in others:
        finish(other)
        assert other.returncode == 0
    check_whole(store, {*range(100, 115), *range(200, 215)})


def test_the_version_changes_exactly_with_commits_of_any_process(store: Store, path: Path) -> None:
    other = Store(path)
    before = store.version()
    assert store.version() == other.version() == before
    with other.writer():
        add(other, [1])
    assert store.version() != before
    before = store.version()
    with other.writer(), pytest.raises(RuntimeError), other.transaction():
        raise RuntimeError
    other.judgements.add_labels([(1, "cat")], author="a", source="hand")
    assert store.version() == before
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(store.version()))
    thread.start()
    thread.join()
    assert seen == [before]
    other.close()


def test_unreferenced_files_are_removed_by_the_next_writer_not_by_a_reader(store: Store, path: Path) -> None:
    with store.writer():
        add(store, [1])
        store.vectors.write("deep", np.array([2]), rows_for(np.array([2])))
    (path / "models" / "left.npz").touch()
    (path / "indexes" / "left.faiss.part").touch()
    with_orphans = files(path)
    reader = Store(path)
    check_whole(reader, {1})
    assert files(path) == with_orphans
    with reader.writer():
        assert {name for name in files(path) if "/" in name} == {"vectors/deep-1.npy", "vectors/deep-1.ids.npy"}
    check_whole(reader, {1})
    reader.close()


def test_a_collection_that_replaces_an_open_one_is_not_changed(store: Store, path: Path) -> None:
    with store.writer():
        add(store, [1])
    path.rename(path.with_name("moved"))
    other = Store(path, create=True)
    with other.writer():
        with other.transaction():
            other.vectors.create_space("deep", ["color()"])
        add(other, [2])
        add(other, [3])
    message = f"The collection at {path} was replaced while it was open. Open it again."
    with pytest.raises(StoreError, match=message), store.writer():
        pass
    check_whole(other, {2, 3})
    other.close()


def test_a_collection_that_replaces_one_being_written_is_not_changed(store: Store, path: Path) -> None:
    with store.writer():
        add(store, [1])
        path.rename(path.with_name("moved"))
        other = Store(path, create=True)
        with other.writer():
            with other.transaction():
                other.vectors.create_space("deep", ["color()"])
            add(other, [2])
        with pytest.raises(StoreError, match="was replaced"), store.transaction():
            store.vectors.drop_space("deep")
    check_whole(other, {2})
    other.close()


def test_a_writer_that_fails_leaves_no_file_behind(store: Store, path: Path) -> None:
    with suppress(RuntimeError), store.writer():
        store.vectors.write("deep", np.array([2]), rows_for(np.array([2])))
        raise RuntimeError
    assert not list((path / "vectors").iterdir())


def test_threads_can_read_while_another_writes_and_merges(store: Store) -> None:
    stop = threading.Event()
    troubles: list[object] = []

    def read() -> None:
        last = 0
        while not stop.is_set():
            ids = store.vectors.live_ids("deep")
            if len(ids) < last or len(np.unique(ids)) != len(ids):
                troubles.append(ids)
            last = len(ids)
            len(store.items)

    def guarded() -> None:
        try:
            read()
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a failure)
            troubles.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(3)]
    for thread in threads:
        thread.start()
    with store.writer():
        for i in range(40):
            add(store, [2 * i, 2 * i + 1])
            store.vectors.merge("deep", everything=i % 5 == 0)
    stop.set()
    for thread in threads:
        thread.join()
    assert troubles == []
    check_whole(store, set(range(80)))


def test_bytes_is_the_size_of_the_directory_and_vacuum_reduces_it(store: Store, path: Path) -> None:
    with store.writer():
        add(store, range(3_000))
        full = store.bytes()
        assert full > 3_000 * DIM * 4
        with store.transaction():
            store.items.remove(range(3_000))
            store.vectors.remove(range(3_000))
        store.vectors.merge("deep", everything=True)
        store.vacuum()
    assert store.bytes() < full - 3_000 * DIM * 4
    assert store.bytes() == sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    check_whole(store, set())


# Killed writers


@pytest.fixture
def workers() -> Iterator[Forked]:
    with Forked("store_worker") as forked:
        yield forked


def test_a_writer_killed_at_any_moment_loses_no_acknowledged_data(workers: Forked, tmp_path: Path) -> None:
    chance = random.Random(7)
    steps = orphans = merges = 0
    for kill in range(16):
        path = tmp_path / ("c" if kill >= 4 else f"fresh-{kill}")  # the first few die while creating the collection
        if kill <= 4:
            steps, promised = 0, set[int]()
        after = chance.randrange(3) if kill >= 4 else 0
        end = _die_in_step if kill % 4 == 3 else _kill_in_step
        acknowledged = steps + end(workers, path, after)
        promised |= set(range(steps, acknowledged))

        store = Store(path, create=True)
        steps = len(store.items.sources())
        assert acknowledged <= steps <= acknowledged + 1  # the interrupted step is complete or absent
        check_whole(store, state_after(steps))
        assert promised <= set(store.judgements.items_with("step").tolist()) <= set(range(steps))
        named = store.vectors.files()
        orphans += any(file not in named for file in path.glob("vectors/*"))
        merges += 2 * steps > store.vectors.n_segments()
        if steps:
            with store.writer():  # resumes where the worker stopped
                do(store, steps)
            promised.add(steps)
            steps += 1
            check_whole(store, state_after(steps))
        store.close()
    assert steps > 12
    assert orphans > 0  # some died between writing and committing, as intended
    assert merges > 0


def _kill_in_step(workers: Forked, path: Path, after: int) -> int:
    """Start a worker and kill it some time after `after` acknowledgements; return their number."""
    workers.start(str(path))
    assert workers.readline() == "ready\n"
    assert [workers.readline() for _ in range(after)] == ["done\n"] * after
    time.sleep(random.uniform(0, 0.06))
    os.kill(workers.pid, signal.SIGKILL)
    return after + workers.finish()[1].count("done")


def _die_in_step(workers: Forked, path: Path, after: int) -> int:
    """Start a worker that dies between writing and committing after `after` acknowledgements; return their number."""
    workers.start(str(path), after)
    return workers.finish()[1].count("done")


# Full disks


@pytest.fixture
def small_disk(mount_disk: Callable[[str], Path]) -> Path:
    return mount_disk("3m")


def test_a_full_disk_is_an_error_and_nothing_is_lost(small_disk: Path) -> None:
    store = Store(small_disk / "c", create=True)
    with store.writer(), store.transaction():
        store.vectors.create_space("deep", ["color()"])
    done: set[int] = set()

    def add_until_full() -> None:
        for first in range(0, 100_000, 500):
            add(store, range(first, first + 500))
            done.update(range(first, first + 500))

    with pytest.raises(FullError, match=r"No disk space left.*Committed changes are safe"), store.writer():
        add_until_full()
    assert len(done) >= 1_000
    check_whole(store, done)

    with store.writer():
        assert store.vectors.merge("deep", everything=True) == 0  # two copies do not fit, and no row was removed
    check_whole(store, done)

    fill(small_disk)  # now SQLite cannot write either
    with pytest.raises(FullError), store.writer(), store.transaction():
        store.items.skip([(f"/{i}" * 20, 1, 1, "x") for i in range(5_000)])
    with pytest.raises(FullError):
        store.judgements.add_labels([(i, "label") for i in range(20_000)], author="a", source="hand")
    check_whole(store, done)

    store.close()
    fill(small_disk)
    store = Store(small_disk / "c")  # a new process can read
    check_whole(store, done)
    store.close()

    remount(small_disk, "size=9m")
    store = Store(small_disk / "c")
    with store.writer():  # continues once there is space again
        with store.transaction():
            gone = sorted(done)[: len(done) // 2 + 1]
            store.items.remove(gone)
            store.vectors.remove(gone)
        add(store, [10**6])
    check_whole(store, (done - set(gone)) | {10**6})
    store.close()


def test_merging_on_a_nearly_full_disk_rewrites_the_segments_that_fit(small_disk: Path) -> None:
    store = Store(small_disk / "c", create=True)
    with store.writer(), store.transaction():
        store.vectors.create_space("deep", ["color()"])
    with store.writer():
        for first in range(0, 4_000, 1_000):  # a quarter of a megabyte each
            add(store, range(first, first + 1_000))
        with store.transaction():
            store.remove([*range(1_000), *range(1_900, 2_000)])
    store.close()
    store = Store(small_disk / "c")
    left = {*range(1_000, 1_900), *range(2_000, 4_000)}
    with fill(small_disk).open("r+b") as stream:
        stream.truncate(stream.seek(0, 2) - 2**18)  # space for the log, but not for a copy of everything
    with store.writer():
        assert store.vectors.merge("deep", everything=True) == 2
    assert [block.n_dead for block in store.vectors.blocks("deep")] == [0, 0, 0]
    check_whole(store, left)
    store.close()


def test_a_disk_without_free_inodes_is_full(small_disk: Path) -> None:
    Store(small_disk / "c", create=True).close()
    used = os.statvfs(small_disk).f_files - os.statvfs(small_disk).f_ffree
    remount(small_disk, f"nr_inodes={used}")
    with pytest.raises(FullError, match="unable to open database file"):
        Store(small_disk / "c")


def test_migrating_on_a_full_disk_is_a_full_error(small_disk: Path) -> None:
    shutil.copytree(HERE / "golden" / "v1", small_disk / "c")
    fill(small_disk)
    with pytest.raises(FullError, match="No disk space left to migrate"):
        Store(small_disk / "c")


def test_a_limit_on_file_size_is_an_error_and_nothing_is_lost(store: Store) -> None:
    with store.writer():
        add(store, [1])
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, limit[1]))
    try:
        with pytest.raises(FullError), store.writer():
            add(store, range(100, 100 + 2**13))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    check_whole(store, {1})
    with store.writer():
        add(store, [2])
    check_whole(store, {1, 2})


# Old formats


def test_golden_v1(tmp_path: Path) -> None:
    shutil.copytree(HERE / "golden" / "v1", tmp_path / "c")
    store = Store(tmp_path / "c")
    assert store.verify() == []
    ids = [3, 141, 2**62 + 1, 2**63 - 1]
    assert store.items.ids().tolist() == ids
    assert store.items.get([3]) == {
        3: Item(3, ["/photos/0.jpg", "/photos/copy \udcff.jpg"], 100, 640, 480, "jpeg", 1.5e9, None)
    }
    assert store.items.get([141])[141].taken_at == 1.4e9
    assert store.items.skipped() == {"/photos/broken.jpg": "truncated"}
    assert store.items.sources() == ["/photos"]
    assert store.items.select(Filter(path="photos/[01].jpg")).tolist() == [3, 141]

    spaces = store.vectors.spaces()
    assert {name: (space.chain, space.base, space.dim, space.fitted_on) for name, space in spaces.items()} == {
        "color()": (["color()"], None, 6, None),
        "small": (["color()", "pca(dim=2)", "l2()"], "color()", 2, 20),
    }
    rows = {0: 3, 1: 141, 3: 2**62 + 1, 4: 2**63 - 1}
    X = np.array([i + np.arange(6) / 8 for i in rows], np.float32)
    blocks = store.vectors.blocks("color()")
    assert [block.X.dtype for block in blocks] == [np.float16, np.float16]
    live = [block.X if block.dead is None else block.X[~block.dead] for block in blocks]
    np.testing.assert_array_equal(np.concatenate(live), X)
    for space in spaces:
        assert store.vectors.live_ids(space).tolist() == ids
        assert store.vectors.verify(space, lambda *step: None) == []

    assert spaces["small"].model is not None
    pca, l2 = models.load(tmp_path / "c" / "models" / spaces["small"].model)
    (block,) = store.vectors.blocks("small")
    assert block.dead is not None
    np.testing.assert_allclose(l2.transform(pca.transform(X)), block.X[~block.dead], atol=1e-6)
    assert store.vectors.structures.get("small", "points").file == "hnsw-1.faiss"
    assert store.judgements.labels(ids) == {3: ["cat"], 141: [], 2**62 + 1: [], 2**63 - 1: ["größe"]}

    with store.writer():  # it is writable
        pending = store.vectors.write("color()", np.array([7]), np.ones((1, 6), np.float16))
        with store.transaction():
            store.items.add([Item(7, [], 1, 1, 1, "png", 0.0, None)])
            store.vectors.commit(pending)
        assert store.vectors.merge("color()", everything=True) == 3
    assert store.vectors.verify("color()", lambda *step: None) == []
    store.close()


def test_a_consistent_read_is_repeated_after_a_commit(tmp_path):
    store = Store(tmp_path / "c", create=True)
    seen = []

    def look():
        seen.append(store.version())
        if len(seen) == 1:
            with store.writer(), store.transaction():
                pass
            assert store.version() == seen[0] != store.vectors.version()
        return store.version()

    assert store.read_consistently(look) == seen[1] == store.version() > seen[0]
    store.close()


def test_a_read_that_fails_during_a_commit_is_repeated(tmp_path):
    store = Store(tmp_path / "c", create=True)
    calls = []

    def read():
        calls.append(store.version())
        if len(calls) == 1:  # another thread removes a space that this thread has just found
            with store.writer(), store.transaction():
                pass
            raise UnknownNameError("space", "deep", [])
        return "found"

    assert store.read_consistently(read) == "found"

    def fail():
        calls.append(store.version())
        raise InputError("k must be at least 1.")

    calls.clear()
    with pytest.raises(InputError, match="k must be"):
        store.read_consistently(fail)
    assert len(calls) == 1  # without a commit, the error is the caller's
    store.close()


@pytest.mark.parametrize("copied", [True, False])
def test_labels_for_a_moved_collection_are_rejected(tmp_path, copied):
    store = Store(tmp_path / "c", create=True)
    (tmp_path / "c").rename(tmp_path / "old")
    if copied:
        shutil.copytree(tmp_path / "old", tmp_path / "c")
    with pytest.raises(StoreError):
        store.judgements.add_labels([(1, "sea")], author="anna", source="hand")
    store.close()


def test_golden_v5(tmp_path: Path) -> None:
    shutil.copytree(HERE / "golden" / "v5", tmp_path / "c")
    store = Store(tmp_path / "c")
    vectors = store.vectors
    assert store.verify() == []
    assert [fault for space in vectors.spaces() for fault in vectors.verify(space, lambda *_: None)] == []
    assert {name: (space.chain, space.base, space.fitted_on) for name, space in vectors.spaces().items()} == {
        "color()": (["color()"], None, None),
        "told": (["color()", "l2()"], "color()", 3),
        "codes": (["color()", "itq(bits=16)"], "color()", 3),
    }
    assert [(source, ids.tolist()) for source, ids in vectors.pools("told")] == [
        ("/others \udcff", [7, 8]),
        (None, [3]),
    ]
    assert vectors.structures.get("told", "points") == ("hnsw-5.faiss", 0.75, None)
    assert (vectors.structures.recall("codes"), vectors.structures.recall("told")) == ((0.875, 3), None)
    (block,) = vectors.blocks("codes")
    assert (block.X.dtype, block.X.tolist()) == (np.uint8, [[1, 2], [3, 4], [5, 255]])
    with store.writer(), store.transaction():  # it is writable
        vectors.structures.set_recall("codes", Recall(0.5, 3))
    assert vectors.structures.recall("codes") == (0.5, 3)
    store.close()


def test_golden_v6(tmp_path: Path) -> None:
    shutil.copytree(HERE / "golden" / "v6", tmp_path / "c")
    with closing(sqlite3.connect(tmp_path / "c" / "catalogue.sqlite")) as db:
        assert db.execute("SELECT home FROM state").fetchone() == ("/golden/v6",)
    store = Store(tmp_path / "c")  # it was moved
    home = os.path.realpath(tmp_path / "c")
    assert store.items.home() == home
    assert {item: found.paths for item, found in store.items.get([3, 141, 2**63 - 1]).items()} == {
        3: [f"{home}/sent/a \udcff.jpg"],
        141: ["/golden/v62/b.jpg"],
        2**63 - 1: sorted([f"{home}/sent/c.jpg", "/photos/c.jpg"]),
    }
    assert sorted(store.items.sources()) == sorted([f"{home}/sent", "/photos"])
    assert store.verify() == store.vectors.verify("color()", lambda *_: None) == []
    assert store.vectors.live_ids("color()").tolist() == [3, 141, 2**63 - 1]
    store.close()


def test_golden_v7(tmp_path: Path) -> None:
    shutil.copytree(HERE / "golden" / "v7", tmp_path / "c")
    store = Store(tmp_path / "c")
    last, name = 2**63 - 1, "größe \udcff"
    assert store.verify() == []
    found = store.items.get([3, 141, last])
    assert [item.content for item in found.values()] == [bytes(range(32)), None, b"\xff" * 32]
    assert found[3].paths == ["/photos/3 \udcff.jpg"]
    assert store.vectors.quarantined("color()") == {"color-1.npy": "does not hold what was written"}
    assert store.vectors.live_ids("color()").tolist() == [141, last]
    assert store.vectors.missing("color()").tolist() == [3]
    (fault,) = store.vectors.verify("color()", lambda *_: None)
    assert fault == "vectors/color-1.npy is quarantined: does not hold what was written. Run: lookalike repair"
    assert store.judgements.labels([3, last]) == {3: ["cat", name], last: [name]}
    (session,) = store.judgements.sessions.all()
    assert (session.name, session.relevant, session.irrelevant) == (name, 1, 1)
    assert store.judgements.not_duplicates.pairs() == {(3, 141)}
    with store.writer():  # it is writable
        pending = store.vectors.write("color()", np.array([3]), np.ones((1, 4), np.float16))
        with store.transaction():
            store.vectors.commit(pending)
        store.vectors.release_quarantined("color()")
    assert store.vectors.verify("color()", lambda *_: None) == []
    assert not (store.path / "vectors" / "color-1.npy").exists()
    assert store.judgements.classes.rename(name, "large") == 2
    assert store.verify() == []
    store.close()


def test_golden_v10(tmp_path: Path) -> None:
    shutil.copytree(HERE / "golden" / "v10", tmp_path / "c")
    store = Store(tmp_path / "c")
    assert store.verify() == []
    full = Exif("Canon EOS 5D", "größe", 0.005, 2.8, 400, 50.0, -33.865143, 151.2099)
    found = store.items.get([3, 141, 142, 2**63 - 1])
    assert [item.exif for item in found.values()] == [full, Exif(camera="Pixel 8"), Exif(), None]
    assert store.items.without_exif().tolist() == [2**63 - 1]
    with store.writer(), store.transaction():  # it is writable
        store.items.set_exif({3: Exif(), 2**63 - 1: full})
        store.remove([141])
    assert {item: one.exif for item, one in store.items.get([3, 2**63 - 1]).items()} == {3: full, 2**63 - 1: full}
    assert store.verify() == []
    store.close()


def test_golden_v15(tmp_path: Path) -> None:
    shutil.copytree(HERE / "golden" / "v15", tmp_path / "c")
    store = Store(tmp_path / "c")
    X = np.outer([0.0, 1.0, -3.0], np.arange(100) - 20.5)
    rows = store.vectors.blocks("color()")[0].X
    assert isinstance(rows, ScaledRows)
    decoded = rows.decode()
    np.testing.assert_allclose(decoded, X, atol=3 * 79.5 / 254)
    ids = [3, 7, 2**63 - 1]
    assert store.vectors.live_ids("color()").tolist() == ids
    assert store.verify() == []
    with store.writer():  # a merge copies the bytes, and rounds the rows that have half precision
        assert store.vectors.merge("color()", everything=True) == 2
    (block,) = store.vectors.blocks("color()")
    assert block.ids.tolist() == ids
    np.testing.assert_array_equal(block.X.take(np.arange(3)), [decoded[0], np.ones(100), decoded[2]])
    assert store.verify() == []
    store.close()


@pytest.mark.parametrize("version", ["v1", "v2", "v3", "v4", "v5", "v6"])
def test_verify_finds_nothing_in_collections_of_older_formats(version: str, tmp_path: Path) -> None:
    shutil.copytree(HERE / "golden" / version, tmp_path / "c")
    with Collection(tmp_path / "c") as collection:
        assert collection.verify() == []


@pytest.mark.parametrize(("file", "migrations"), [("catalogue", CATALOGUE), ("judgements", JUDGEMENTS), ("jobs", JOBS)])
def test_the_newest_format_has_a_golden_file(file: str, migrations: list[str]) -> None:
    """Otherwise the next version could not be tested for reading it."""
    versions = set()
    for path in (HERE / "golden").glob(f"v*/{file}.sqlite"):
        versions.add(int.from_bytes(path.read_bytes()[60:64], "big"))  # PRAGMA user_version
    assert max(versions) == len(migrations)
