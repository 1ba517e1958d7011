"""A collection on a cluster gives the same answers as on one machine, even if workers are killed or hang."""

import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice, product

import dask
import numpy as np
import psutil
import pytest
from PIL import Image

from lookalike import Collection, Filter, cli
from lookalike.cluster import Cluster, connected, connection, describing, processes, run_worker, shards, started
from lookalike.collection import neighbours as collection_neighbours
from lookalike.collection import resolve
from lookalike.collection.chain import Prepare
from lookalike.collection.neighbours import load_graph
from lookalike.errors import ClusterError, InputError, MissingError, UnknownNameError
from lookalike.images import sources
from lookalike.images.sources import Entry, walk
from lookalike.images.workers import Read, Skip
from lookalike.index import HyperplaneQuery, PointQuery, neighbours
from lookalike.registry import create
from lookalike.store.items import Item
from lookalike.store.segments import StoredRows
from waiting import until

WORKERS = 3
DIM = 24
N = 3_000


@pytest.fixture(scope="module")
def address():
    with started(WORKERS) as address:
        yield address


@pytest.fixture
def cluster(address, monkeypatch):
    """A connection that uses the workers even for few rows, once all of them are there."""
    monkeypatch.setattr(connection, "HERE_MAX", 50)
    monkeypatch.setattr(shards, "HERE_MAX", 50)
    monkeypatch.setattr(connection, "REFRESH_S", 0.05)
    with Cluster(address) as cluster:
        until(lambda: len(cluster._readers()) == WORKERS)
        yield cluster


def pids(cluster):
    """Return the process ids of the workers by address."""
    return cluster._client.run(os.getpid)


def rows_of(ids):
    """Return unit vectors in six clusters."""
    middles = np.random.default_rng(7).normal(size=(6, DIM))
    X = middles[ids % 6] + 0.7 * np.array([np.random.default_rng(i).normal(size=DIM) for i in ids.tolist()])
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def put(collection, ids):
    """Store items with vectors and labels, as an add does."""
    store = collection._store
    with store.writer():
        collection._spaces.create(["color"])
        pending = store.vectors.write("color()", ids, rows_of(ids))
        with store.transaction():
            store.items.add([Item(int(i), [], 1, 1, 1, "jpeg", 0.0, None) for i in ids])
            store.vectors.commit(pending)
    store.judgements.add_labels([(int(i), f"kind {i % 6}") for i in ids[::3]], author="anna", source="hand")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A collection of vectors in several segments, some of them removed, with a space of codes."""
    path = tmp_path_factory.mktemp("made") / "collection"
    with Collection(path, create=True) as collection:
        for part in np.array_split(np.random.default_rng(0).permutation(N), 5):
            put(collection, np.sort(part))
        collection.fit("itq(bits=32)")
        collection.remove(*range(100, 160))
    return path


@pytest.fixture
def both(made, cluster, tmp_path):
    """The same collection on one machine and on the cluster."""
    path = shutil.copytree(made, tmp_path / "collection")
    with Collection(path) as here, Collection(path, cluster=cluster) as there:
        yield here, there


def found(results):
    return [(result.id, result.score) for result in results]


@pytest.mark.parametrize(
    ("space", "options"),
    [
        *product(
            ["color", "itq"],
            [{}, {"effort": "exact"}, {"k": 500}, {"without": [7]}, {"filter": Filter(label="kind 2")}],
        ),
        ("color", {"rerank": True}),
    ],
)
def test_a_search_gives_the_same_ids_and_scores(both, space, options):
    here, there = both
    for example in (0, [1, 2, 3], rows_of(np.array([N]))[0]):
        assert found(there.search(example, space=space, **options)) == found(
            here.search(example, space=space, **options)
        )


def test_queries_filters_and_removed_rows_give_the_same_hits(both):
    here, there = (collection.space("color").feedback_index for collection in both)
    assert isinstance(there, shards.ShardedIndex)
    assert (len(there), there.dim, there.ids.tolist()) == (len(here), here.dim, here.ids.tolist())
    random = np.random.default_rng(1)
    a = random.normal(size=20)
    plane = HyperplaneQuery(rows_of(np.arange(20)), a - a.mean(), 0.1, kernel="gaussian", gamma=1.0)
    some, few = np.sort(random.choice(here.ids, 900, replace=False)), here.ids[:7]
    for query in (PointQuery(rows_of(np.arange(3))), plane, plane.of_kind("maximum")):
        for filters in ({}, {"exclude": some}, {"among": some}, {"among": some, "exclude": few}, {"among": few}):
            one, other = here.search(query, 40, **filters), there.search(query, 40, **filters)
            assert one.ids.tolist() == other.ids.tolist()
            np.testing.assert_allclose(other.scores, one.scores, rtol=0, atol=1e-6)


def test_a_feedback_session_and_classes_give_the_same_answers(both):
    here, there = both
    played = [
        [replace(row, seconds=0) for row in collection.simulate(0, label="kind 0", space="color", rounds=3)]
        for collection in both
    ]
    assert played[0] == played[1]
    session = there.session([0, 6], without=[1])
    assert found(session.best(k=30)) == found(here.session(id=session.id).best(k=30))
    ids = list(range(1, 30))
    assert there.classes.classify(ids) == here.classes.classify(ids)


def test_shards_follow_every_change_of_the_collection(both):
    here, there = both
    put(there, np.arange(N, N + 300))
    assert found(there.search(N + 5, k=50)) == found(here.search(N + 5, k=50))
    there.remove(N + 5, N + 6)
    assert found(there.search(3, k=2_000)) == found(here.search(3, k=2_000))
    there.compact()  # the old segments no longer exist
    assert found(there.search(3, k=2_000)) == found(here.search(3, k=2_000))


def test_verify_finds_damage_on_the_workers(both):
    _, there = both
    assert there.verify() == []
    file = next((there.path / "vectors").glob("color-*[0-9].npy"))
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    (fault,) = there.verify()
    assert f"{file} does not match its digest" in fault


@pytest.fixture
def graphs(made, cluster, tmp_path, monkeypatch):
    """Two copies of a collection with a space to smooth: one on one machine, one on the cluster, with small tasks."""
    monkeypatch.setattr(neighbours, "TASK_ROWS", 200)
    monkeypatch.setattr(collection_neighbours, "AVERAGED_BYTES", 2**16)
    with (
        Collection(shutil.copytree(made, tmp_path / "here")) as here,
        Collection(shutil.copytree(made, tmp_path / "there"), cluster=cluster) as there,
    ):
        for collection in (here, there):
            with collection._store.writer():
                collection._spaces.create(["soft = color() | l2() | smooth(k=3)"])
        yield here, there


def check_same_graph(here, there):
    one, other = (load_graph(collection.space("soft")) for collection in (here, there))
    assert one.is_exact == other.is_exact
    assert (one.ids.tolist(), one.is_complete, other.is_complete) == (other.ids.tolist(), True, True)
    np.testing.assert_allclose(other.distances, one.distances, atol=1e-5)
    assert (one.places == other.places).mean() > 0.999  # rounding can exchange neighbours at equal distances
    np.testing.assert_allclose(there.vectors("soft")[1], here.vectors("soft")[1], atol=1e-5)
    assert there.verify() == []


def test_the_neighbour_graph_and_smoothed_rows_are_computed_on_the_workers(graphs, monkeypatch):
    here, there = graphs
    here.fit("soft")
    with monkeypatch.context() as patch:
        patch.setattr(StoredRows, "__call__", None)  # no row is read here
        there.fit("soft")
    check_same_graph(here, there)
    for collection in (here, there):
        put(collection, np.arange(N, N + 300))
        collection.compact()
        collection.remove(*range(200, 1_000, 3))
    check_same_graph(here, there)


def test_a_graph_with_cells_is_the_same_on_the_workers(graphs, monkeypatch):
    monkeypatch.setattr(neighbours, "EXACT_MAX", 500)
    monkeypatch.setattr(neighbours, "CELL_ROWS", 100)
    monkeypatch.setattr(neighbours, "PROBES", 8)
    here, there = graphs
    here.fit("soft")
    there.fit("soft")
    check_same_graph(here, there)
    recalls = [collection.space("soft").neighbour_recall for collection in graphs]
    assert recalls[0] == pytest.approx(recalls[1], abs=0.01)


def test_workers_killed_while_they_find_neighbours_do_not_change_the_graph(graphs, cluster):
    here, there = graphs
    here.fit("soft")
    killed = []

    def kill_once(stage, done, total):
        if stage == "finding neighbours" and done and not killed:
            killed.extend(list(pids(cluster).values())[:2])
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    there.fit("soft", progress=kill_once)
    assert killed
    check_same_graph(here, there)
    until(lambda: len(cluster._readers()) == WORKERS)


def test_neighbours_are_found_here_with_a_warning_if_workers_do_not_see_the_vectors(graphs, caplog, monkeypatch):
    here, there = graphs
    reduce = StoredRows.__reduce__

    def hide(rows):
        function, (segments,) = reduce(rows)
        return function, (tuple(("/nowhere.npy", *rest) for _, *rest in segments),)

    monkeypatch.setattr(StoredRows, "__reduce__", hide)
    here.fit("soft")
    there.fit("soft")
    check_same_graph(here, there)
    (warning,) = {record.message for record in caplog.records if "so this process runs it" in record.message}
    assert "/nowhere" in warning
    assert "lookalike cluster share DIR" in warning


def test_workers_are_known_while_dask_reads_its_own_summary(address, monkeypatch):
    monkeypatch.setattr(connection, "REFRESH_S", 0)
    with dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}), Cluster(address) as cluster:
        assert {len(cluster.workers()) for _ in range(300)} == {WORKERS}


def test_a_killed_worker_does_not_change_an_answer(both, cluster):
    here, there = both
    expected = [found(here.search(example, k=60)) for example in range(20)]
    for _ in range(2):
        os.kill(next(iter(pids(cluster).values())), signal.SIGKILL)
        assert [found(there.search(example, k=60)) for example in range(20)] == expected
        until(lambda: len(cluster._readers()) == WORKERS)  # dask has started a new worker
    os.kill(next(iter(pids(cluster).values())), signal.SIGKILL)
    session = there.session(0)
    session.mark(relevant=[6, 12], irrelevant=[1])
    assert found(session.best(k=60)) == found(here.session(id=session.id).best(k=60))
    assert (there.verify(), len(session.marks)) == ([], 4)


def kill(cluster, worker):
    os.kill(pids(cluster)[worker], signal.SIGKILL)


def close(cluster, worker):
    """End a worker as if it had lost the scheduler; dask does not start it again."""

    async def close_there(dask_worker):
        await dask_worker.close()

    cluster._client.run(close_there, workers=[worker], wait=False)


@pytest.mark.parametrize("end", [kill, close])
def test_a_worker_is_replaced_however_it_ended(cluster, monkeypatch, end):
    monkeypatch.setattr(processes, "RETRY_S", 0.0)
    before = set(cluster.workers())
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "0 s"}):  # as if the new worker started too late
        end(cluster, min(before))
        until(lambda: len(cluster._readers()) == WORKERS and before != set(cluster.workers()))


def test_ctrl_c_does_not_interrupt_workers(cluster):
    masks = cluster._client.run(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, []))
    assert all(signal.SIGINT in blocked for blocked in masks.values())  # a terminal sends it to all processes


def test_a_hung_worker_delays_one_answer_and_is_used_again_later(both, cluster, monkeypatch):
    monkeypatch.setattr(shards, "LATE_S", 0.3)
    here, there = both
    expected = found(here.search(0, k=60))
    assert found(there.search(0, k=60)) == expected
    worker, pid = next(iter(pids(cluster).items()))
    os.kill(pid, signal.SIGSTOP)
    try:
        assert found(there.search(0, k=60)) == expected
        assert cluster._calls._late == {worker}
        assert found(there.search(0, k=60)) == expected
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: not cluster._calls._late)
    assert found(there.search(0, k=60)) == expected
    assert worker in cluster._calls._homes.values()  # it has its shard again


def test_workers_that_join_later_get_a_shard(made, monkeypatch, tmp_path):
    monkeypatch.setattr(connection, "HERE_MAX", 50)
    monkeypatch.setattr(connection, "REFRESH_S", 0.05)
    path = shutil.copytree(made, tmp_path / "collection")
    joined, stop = threading.Event(), threading.Event()
    with started(1) as address, Cluster(address) as cluster, Collection(path, cluster=cluster) as there:
        expected = found(there.search(0, k=60))
        thread = threading.Thread(target=run_worker, args=(address, 1, lambda _: joined.set(), stop.is_set))
        thread.start()
        try:
            assert joined.wait(120)
            until(lambda: len(cluster._readers()) == 2)
            assert found(there.search(0, k=60)) == expected
            assert len(set(cluster._calls._homes.values())) == 2
        finally:
            stop.set()
            thread.join()


def test_without_any_worker_the_rows_are_searched_here(both, cluster, monkeypatch):
    here, there = both
    monkeypatch.setattr(cluster._calls, "readers", dict)
    assert found(there.search(0, k=60)) == found(here.search(0, k=60))


def test_files_that_workers_do_not_see_are_searched_here_with_a_warning(both, cluster, caplog, monkeypatch):
    here, there = both
    cut = shards.cut_shards

    def cut_hidden(blocks, n):
        return [(tuple(replace(part, file="/nowhere.npy") for part in shard), rows) for shard, rows in cut(blocks, n)]

    monkeypatch.setattr(shards, "cut_shards", cut_hidden)
    for _ in range(3):
        assert found(there.search(0, k=60)) == found(here.search(0, k=60))
    warnings = [
        record.message for record in caplog.records if "Cannot read /nowhere.npy: No such file" in record.message
    ]
    assert 1 <= len(warnings) <= WORKERS  # one per worker
    assert "lookalike cluster share DIR" in warnings[0]


@pytest.fixture(scope="module")
def added(pictures, tmp_path_factory):
    path = tmp_path_factory.mktemp("added") / "collection"
    with Collection(path, create=True) as collection:
        collection.add(pictures, recipes=["small = color() | pca(dim=8)"], workers=1)
        collection.fit("small")
    return path


def state(path):
    """Return the content of a collection in a form that can be compared."""
    with Collection(path) as collection:
        assert collection.verify() == []
        ids, X = collection.vectors("small")
        return {item.id: item.paths for item in collection.items()}, ids.tobytes(), X.tobytes()


def test_an_add_on_the_cluster_gives_the_same_collection(pictures, added, cluster, tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "text.jpg").write_text("no picture")
    with Collection(tmp_path / "c", create=True, cluster=cluster) as collection:
        report = collection.add(pictures, tmp_path / "bad", recipes=["small = color() | pca(dim=8)"])
        assert report.added == len(state(added)[0])
        assert "text" in report.skipped[str(tmp_path / "bad" / "text.jpg")]
        collection.fit("small")
    assert state(tmp_path / "c") == state(added)


def test_workers_killed_during_an_add_lose_nothing(pictures, added, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(describing, "BATCH", 4)
    killed = []

    def kill_once(stage, done, total):
        if stage == "reading" and done >= 8 and not killed:
            killed.extend(list(pids(cluster).values())[:2])
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    with Collection(tmp_path / "c", create=True, cluster=cluster) as collection:
        report = collection.add(pictures, recipes=["small = color() | pca(dim=8)"], progress=kill_once)
        assert killed
        assert report.skipped == {}
        collection.fit("small")
    assert state(tmp_path / "c") == state(added)
    until(lambda: len(cluster._readers()) == WORKERS)


def test_files_are_classified_on_the_workers(pictures, added, cluster, tmp_path, monkeypatch):
    path = shutil.copytree(added, tmp_path / "collection")
    with Collection(path) as here, Collection(path, cluster=cluster) as there:
        for kind in ("fish", "house"):
            here.classes.add(kind, sorted((pictures / kind).iterdir())[:3])
        copies = shutil.copytree(pictures, tmp_path / "copies")
        expected = here.classify(copies)
        monkeypatch.setattr(resolve, "MANY_FILES", 1)
        monkeypatch.setattr(resolve, "_read_file", None)  # nothing is read here
        assert there.classify(copies) == expected


def test_a_worker_that_cannot_write_files_still_works(both, cluster, pictures, tmp_path):
    here, there = both
    for pid in pids(cluster).values():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))  # like a full disk
    assert found(there.search(0, k=60)) == found(here.search(0, k=60))
    with Collection(tmp_path / "c", create=True, cluster=cluster) as collection:
        assert collection.add(pictures, recipes=["color"]).skipped == {}


def test_the_head_reads_no_picture_of_an_add(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "read_bytes", None)  # reading in this process would be an error
    folder = tmp_path / "folder"

    def draw(*colors):
        for color in colors:
            Image.new("RGB", (40, 30), color).save(folder / f"{color}.bmp")

    folder.mkdir()
    draw("red", "green", "blue")
    with Collection(tmp_path / "c", create=True, cluster=cluster) as collection:
        assert collection.add(folder, recipes=["color"]).added == 3
        draw("white", "black")  # of the same size in bytes
        shutil.copy(folder / "red.bmp", folder / "copy.bmp")
        report = collection.add(folder)
        assert (report.known, report.copied, report.added, report.skipped) == (3, 1, 2, {})


def test_a_missing_picture_is_skipped_with_the_name_of_the_worker_if_the_head_sees_it(
    cluster, pictures, tmp_path, monkeypatch
):
    (tmp_path / "here.jpg").touch()
    monkeypatch.chdir(tmp_path)  # the workers have another current directory
    entries = [*islice(walk([pictures], on_skip=print), 3), Entry("here.jpg", 10, 0), Entry("/nowhere/a.jpg", 10, 0)]
    with cluster.describe_pool(Prepare([create("feature", "color()")]), 64, None) as pool:
        outcomes = list(pool.map(entries))
    assert sum(isinstance(outcome, Read) for outcome in outcomes) == 3
    skips = {outcome.entry.path: outcome for outcome in outcomes if isinstance(outcome, Skip)}
    assert skips["here.jpg"].reason.startswith("it does not exist on worker tcp://127.0.0.1:")
    assert skips["/nowhere/a.jpg"].reason == "it no longer exists"
    assert not any(skip.lasting for skip in skips.values())


def test_map_yields_results_in_order_and_reads_few_values_ahead(cluster):
    taken = []
    results = cluster.map(str, (taken.append(i) or i for i in range(1_000)))
    assert [next(results) for _ in range(100)] == [str(i) for i in range(100)]
    assert len(taken) <= 100 + connection.AHEAD * WORKERS
    results.close()


def test_map_raises_the_errors_of_the_function(cluster):
    def fail(value):
        if value == 2:
            raise UnknownNameError("process", os.getpid(), ["main"])
        return value

    def divide(value):
        return 1 // value, os.getpid()

    results = cluster.map(fail, range(5))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(UnknownNameError, match="No process named '") as caught:
        next(results)
    assert re.search(r"'(\d+)'", str(caught.value))[1] in map(str, pids(cluster).values())
    results = cluster.map(divide, [1, 0])
    assert next(results)[1] in pids(cluster).values()
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_without_an_address_no_cluster_is_needed(monkeypatch):
    monkeypatch.setattr("lookalike.cluster.find_spec", lambda name: None)  # as without dask
    monkeypatch.delattr("lookalike.cluster.Cluster", raising=False)  # it is cached
    with connected(None) as cluster:
        assert cluster is None
    with pytest.raises(MissingError, match=r"pip install 'lookalike\[cluster\]'"):
        connected("tcp://127.0.0.1:8786")


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("head:8786", "must be like tcp://127.0.0.1:8786"),
        ("tcp://head", "must be like"),
        ("http://127.0.0.1:8786", "must be like"),
        ("tcp://127.0.0.1:port", "must be like"),
        ("tcp://192.0.2.1:8786", "is not encrypted"),
        ("tcp://0.0.0.0:8786", "is not encrypted"),
        ("tls://head:8786", "needs TLS certificates"),
    ],
)
def test_addresses_that_are_malformed_or_unsafe_are_rejected(address, reason):
    with pytest.raises(InputError, match=reason):
        Cluster(address)


def test_a_missing_scheduler_and_a_cluster_without_workers_are_clear_errors(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(connection, "CONNECT_S", 0.5)
        with pytest.raises(ClusterError, match=r"Cannot connect to tcp://127.0.0.1:9: .* run: lookalike cluster start"):
            Cluster("tcp://127.0.0.1:9")
        with (
            socket.create_server(("127.0.0.1", 0)) as mute,  # accepts connections but never answers
            pytest.raises(ClusterError, match="Cannot connect to"),
        ):
            Cluster(f"tcp://127.0.0.1:{mute.getsockname()[1]}")
    monkeypatch.setattr(connection, "CONNECT_S", 2.0)  # the scheduler must answer in time on a busy machine
    with (
        started(0) as address,
        pytest.raises(ClusterError, match=r"has no workers\. Start some: lookalike cluster worker"),
    ):
        Cluster(address)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_addresses_of_other_machines_use_tls(tmp_path):
    key, cert = str(tmp_path / "cluster.key"), str(tmp_path / "cluster.crt")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=lookalike"]
    subprocess.run([*words, "-keyout", key, "-out", cert], check=True, capture_output=True)
    tls = {"distributed.comm.tls.ca-file": cert}
    for part in ("scheduler", "worker", "client"):
        tls |= {f"distributed.comm.tls.{part}.cert": cert, f"distributed.comm.tls.{part}.key": key}
    with dask.config.set(tls), started(1, host="127.0.0.2") as address:
        assert address.startswith("tls://127.0.0.2:")
        with Cluster(address) as cluster:
            assert [worker[:6] for worker in cluster.workers()] == ["tls://"]


@contextmanager
def command(*words):
    """Run a command of the command line in another process; yield the process."""
    script = "import sys; from lookalike.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()


def read_line(process, beginning):
    """Read the output of a process up to a line; return the rest of that line."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(beginning):
            return line.removeprefix(beginning).strip()
    raise AssertionError(f"the process ended: {lines}")


def test_the_command_line_starts_a_cluster_and_shows_its_state(capsys, monkeypatch, made, tmp_path):
    with command("cluster", "start", "--workers", 1, "--port", 0) as scheduler:
        address = read_line(scheduler, "The cluster is at ")
        assert cli.run(["cluster", "status", address]) == 0
        assert "tcp://127.0.0.1:" in capsys.readouterr().out
        path = shutil.copytree(made, tmp_path / "collection")
        monkeypatch.setattr(connection, "HERE_MAX", 50)
        words = ["-c", str(path), "search", f"{3:016x}", "-k", "40", "--json"]
        assert cli.run(["--cluster", address, *words]) == 0
        answer = capsys.readouterr().out
        assert cli.run(words) == 0
        assert capsys.readouterr().out == answer
        assert cli.run(["--cluster", address, "-c", str(path), "search", "kind", "-k", "40", "--json"]) == 0
        # The head searches by words: those of the labels "kind 0" to "kind 5".
        assert len(json.loads(capsys.readouterr().out)) == 40
        monkeypatch.setenv("LOOKALIKE_CLUSTER", address)
        assert cli.run(["cluster", "status", "--json"]) == 0
        assert '"rows": 3000' in capsys.readouterr().out  # the worker has opened the shard
    assert scheduler.returncode == 0
    assert cli.run(["cluster", "status", address]) == 2
    assert "To start a cluster, run: lookalike cluster start" in capsys.readouterr().err


def starting(process):
    """Wait until a worker of the process imports dask, seconds before it joins."""
    parent = psutil.Process(process.pid)

    def importing(child):
        return "spawn_main" in " ".join(child.cmdline()) and "asyncio" in str(child.memory_maps())

    until(lambda: any(map(importing, parent.children())))


def printed(beginning):
    return lambda process: read_line(process, beginning)


@pytest.mark.parametrize(
    ("verb", "moment", "send", "number"),
    [
        ("start", printed("Starting a scheduler"), os.killpg, signal.SIGINT),
        ("start", starting, os.killpg, signal.SIGINT),
        ("start", starting, os.kill, signal.SIGTERM),
        ("start", printed("The cluster is at"), os.killpg, signal.SIGTERM),
        ("worker", starting, os.killpg, signal.SIGTERM),
        ("worker", printed("1 worker joined"), os.killpg, signal.SIGINT),
    ],
)
def test_a_signal_ends_a_command_and_its_workers_at_any_moment(address, verb, moment, send, number):
    words = ["start", "--port", 0] if verb == "start" else ["worker", address]
    with command("cluster", *words, "--workers", 1) as process:
        moment(process)
        children = psutil.Process(process.pid).children(recursive=True)
        send(process.pid, number)  # Ctrl-C in a terminal and systemd signal the whole group
        output = process.stdout.read()
        assert process.wait() == 0
    assert output.endswith("Stopped.\n")
    assert "Traceback" not in output
    until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children))


def test_workers_and_the_connection_survive_a_killed_scheduler(made, monkeypatch, tmp_path):
    monkeypatch.setattr(connection, "HERE_MAX", 50)
    monkeypatch.setattr(connection, "REFRESH_S", 0.05)
    path = shutil.copytree(made, tmp_path / "collection")
    with ExitStack() as stack:
        first = stack.enter_context(command("cluster", "start", "--workers", 0, "--port", 0))
        address = read_line(first, "The cluster is at ")
        worker = stack.enter_context(command("cluster", "worker", address, "--workers", 1))
        read_line(worker, "1 worker joined")
        here, cluster = stack.enter_context(Collection(path)), stack.enter_context(Cluster(address))
        there = stack.enter_context(Collection(path, cluster=cluster))
        expected = found(here.search(0, k=60))
        assert found(there.search(0, k=60)) == expected
        first.kill()
        assert [found(there.search(0, k=60)) for _ in range(3)] == [expected] * 3
        port = address.rpartition(":")[2]
        second = stack.enter_context(command("cluster", "start", "--workers", 0, "--port", port))
        read_line(second, "The cluster is at ")
        read_line(worker, "1 worker joined")
        until(lambda: cluster._readers())
        assert found(there.search(0, k=60)) == expected


def test_an_add_whose_process_was_killed_is_completed_by_the_next(address, cluster, pictures, added, tmp_path):
    path, recipe = tmp_path / "c", "small = color() | pca(dim=8)"
    with command("--cluster", address, "-c", path, "add", pictures, "--recipe", recipe) as head:
        until(lambda: (path / "catalogue.sqlite").exists())
        head.kill()
    with Collection(path, create=True, cluster=cluster) as collection:
        collection.add(pictures, recipes=[recipe])
        collection.fit("small")
    assert state(path) == state(added)
