"""A cluster on this machine against one process: overhead of a search and a round, speed-up of add, killed workers.

    python benchmarks/cluster.py [--cases overhead,add,kills] [--rows 200000] [--dim 256] [--workers 4]
                                 [--pictures DIR | --per-kind 100] [--recipe deep-plain] [--kills 200] [--json]

`overhead` searches random rows: once in this process and once on the workers, alternately; medians. `empty` is a search
of so few rows that only messages count. `round` is a round of feedback with 20 marks. `add` adds a folder of pictures
(by default synthetic ones) in one process, which uses all cores, and with 1, 2, 4 and more workers; `ratio` is the
throughput relative to one process. A worker reads pictures in a second process, so it uses up to two cores. `kills`
kills a random worker during each search and counts the answers that differ from those of one process. It reports its
progress on stderr, and fails if a worker is not replaced within two minutes. `classes` predicts the classes of all rows
in this process, as on a cluster.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from lookalike import Collection
from lookalike.cluster import Cluster, connection, shards, started
from lookalike.images.demo import draw_folder
from lookalike.store.items import Item

REPEATS = 30

START_S = 120.0
"""Seconds for workers to start; then the benchmark fails."""

KILL_S = 0.02
"""A worker is killed at a random time until then after the start of a search, which takes about as long."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="overhead,add,kills")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--pictures")
    parser.add_argument(
        "--per-kind", type=int, default=100, help="Synthetic pictures of each kind, without --pictures."
    )
    parser.add_argument("--recipe", default="deep-plain")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--json", action="store_true", help="Print one JSON object per line.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = {"overhead": overhead, "add": add, "kills": kills, "classes": classes}
        for case in options.cases.split(","):
            for row in cases[case](options, Path(folder)):
                print(json.dumps(row) if options.json else "  ".join(f"{name} {value}" for name, value in row.items()))


@contextmanager
def connected(workers: int) -> Iterator[Cluster]:
    """Run a scheduler and workers, and connect to them."""
    with started(workers) as address, Cluster(address) as cluster:
        await_workers(cluster, workers)
        yield cluster


def await_workers(cluster: Cluster, count: int) -> None:
    """Wait until all workers are running; each that was killed is replaced."""
    deadline = time.monotonic() + START_S
    while len(cluster.workers()) < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"Only {len(cluster.workers())} of {count} workers are running after {START_S:.0f} s.")
        time.sleep(0.05)


def make_collection(path: Path, rows: int, dim: int) -> None:
    """Create a collection of random unit vectors."""
    rng = np.random.default_rng(0)
    with Collection(path, create=True) as collection:
        store = collection._store
        with store.writer():
            collection._spaces.create(["color"])
            for ids in np.array_split(np.arange(rows), max(1, rows // 100_000)):
                X = rng.normal(size=(len(ids), dim)).astype(np.float32)
                X /= np.linalg.norm(X, axis=1, keepdims=True)
                pending = store.vectors.write("color()", ids, X)
                with store.transaction():
                    store.items.add([Item(int(i), [], 1, 1, 1, "jpeg", 0.0, None) for i in ids])
                    store.vectors.commit(pending)


def alternate(here: Callable[[int], object], there: Callable[[int], object]) -> tuple[float, float]:
    """Call both functions alternately; return the median seconds of each, without the first calls."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(REPEATS + 3):
        for function, taken in zip((here, there), times, strict=True):
            start = time.perf_counter()
            function(number)
            taken.append(time.perf_counter() - start)
    return statistics.median(times[0][3:]), statistics.median(times[1][3:])


def overhead(options: Any, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the time of searches and rounds, here and on the workers."""
    for name, rows in (("empty", 1_000), ("search", options.rows)):
        path = folder / name
        make_collection(path, rows, options.dim)
        connection.HERE_MAX = shards.HERE_MAX = min(shards.HERE_MAX, rows - 1)
        with (
            connected(options.workers) as cluster,
            Collection(path) as here,
            Collection(path, cluster=cluster) as there,
        ):
            one, many = alternate(lambda n: here.search(n, k=50), lambda n: there.search(n, k=50))
            yield row(name, rows, options.workers, one, many)
            marks = {"relevant": list(range(10)), "irrelevant": list(range(10, 20))}
            session = here.session(0)
            session.mark(**marks)
            sessions = session, there.session(id=session.id)
            sessions[1].round()  # workers begin to build leaves
            one, many = alternate(lambda _: sessions[0].round(), lambda _: sessions[1].round())  # noqa: B023
            yield row(f"round ({name})", rows, options.workers, one, many)


def row(name: str, rows: int, workers: int, one: float, many: float) -> dict[str, Any]:
    times = {"one process ms": round(1e3 * one, 1), "cluster ms": round(1e3 * many, 1)}
    return {"case": name, "rows": rows, "workers": workers} | times | {"ratio": round(many / one, 2)}


def add(options: Any, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the throughput of add in one process that uses all cores, then with a growing number of workers."""
    pictures = Path(options.pictures or folder / "pictures")
    if options.pictures is None:
        draw_folder(pictures, options.per_kind)
    one = time_add(pictures, folder / "one", options.recipe, None)
    yield {"case": "add", "workers": "one process", "pictures/s": round(one, 1), "ratio": 1.0}
    for workers in [2**i for i in range(options.workers.bit_length()) if 2**i <= options.workers]:
        with connected(workers) as cluster:
            time_add(pictures, folder / f"first-{workers}", options.recipe, cluster)  # the workers load the network
            rate = time_add(pictures, folder / f"added-{workers}", options.recipe, cluster)
        yield {"case": "add", "workers": workers, "pictures/s": round(rate, 1), "ratio": round(rate / one, 2)}


def time_add(pictures: Path, path: Path, recipe: str, cluster: Cluster | None) -> float:
    """Add pictures to a new collection; return the number of pictures per second."""
    with Collection(path, create=True, cluster=cluster) as made:
        report = made.add(pictures, recipes=[recipe])
    return report.added / report.seconds


def worker_processes() -> list[psutil.Process]:
    """The processes of the workers, which are children of this one."""
    running = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in running if "spawn_main" in " ".join(child.cmdline())]


def kills(options: Any, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the number of wrong answers among searches, each while a worker is killed."""
    path = folder / "kills"
    make_collection(path, 30_000, 64)
    connection.HERE_MAX = shards.HERE_MAX = 1_000
    connection.REFRESH_S = 0.2  # the next worker is killed soon after a new one has joined
    chance, wrong, slowest, began = random.Random(0), 0, 0.0, time.perf_counter()
    with connected(options.workers) as cluster, Collection(path) as here, Collection(path, cluster=cluster) as there:
        for number in range(options.kills):
            expected = [(found.id, found.score) for found in here.search(number, k=50)]
            await_workers(cluster, options.workers)
            killer = threading.Timer(chance.uniform(0, KILL_S), chance.choice(worker_processes()).kill)
            start = time.perf_counter()
            killer.start()
            answer = [(found.id, found.score) for found in there.search(number, k=50)]
            slowest = max(slowest, time.perf_counter() - start)
            wrong += answer != expected
            killer.join()
            if number % 10 == 9:
                print(f"{number + 1} kills, {wrong} wrong, {time.perf_counter() - began:.0f} s", file=sys.stderr)
        await_workers(cluster, options.workers)
        faults = there.verify()
    counts = {"kills": options.kills, "wrong": wrong, "faults": len(faults)}
    yield {"case": "kills"} | counts | {"slowest s": round(slowest, 2), "s": round(time.perf_counter() - began)}


def classes(options: Any, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the number of rows per second, and per second of CPU time, whose classes are predicted."""
    path, count, examples = folder / "classes", 50, 40
    make_collection(path, options.rows, options.dim)
    with Collection(path) as collection:
        for number in range(count):
            collection.classes.add(f"class {number}", list(range(number * examples, (number + 1) * examples)))
        collection.classes.predict()  # fits the model
        start, used = time.perf_counter(), time.process_time()
        collection.classes.predict()
        rates = options.rows / (time.perf_counter() - start), options.rows / (time.process_time() - used)
    yield {"case": "classes", "rows": options.rows, "rows/s": round(rates[0]), "rows/CPU s": round(rates[1])}


if __name__ == "__main__":
    main()
