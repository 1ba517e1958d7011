"""Measure the constants of `lookalike plan --machines`, and check its model with 2 and 4 shards.

    python benchmarks/cluster_shards.py [--cases shards,fanout,head,add,check] [--rows 100000,300000,1000000,10000000]
                                        [--dim 256] [--leaves-max 1000000] [--folder DIR] [--seed 0]

Every line is JSON; `load` is the load average when the case started.

    shards   seconds of 20 different searches in one shard through `ShardReader`, in a process that is pinned to one
             core: a point query, and a hyperplane query without 50 marked rows, as in a feedback round
    fanout   seconds of a search of 1,000 rows, by number of shards, and CPU seconds of the head alone. There are at
             most 4 workers, which share the cores of this machine, so many shards take longer than on a cluster; the
             CPU seconds of the head are the same
    head     CPU seconds of the head for a mask of allowed rows, and for a feedback round without its searches
    add      CPU seconds of the head per added picture
    check    searches and rounds of clusters with 2 and 4 shards, measured, and predicted by the model from the times of
             single shards in one process per core, in turn

DIR keeps the vectors (1 kB per row) and the leaves, which take minutes to build; a second run reuses them.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import dask
import numpy as np

from lookalike import Collection
from lookalike.cluster import Cluster, shards
from lookalike.collection.planning import measure, slowest_seconds
from lookalike.feedback.learners import Svm
from lookalike.feedback.round import Marks, run_round
from lookalike.index import Flat, HyperplaneQuery, Leaves, PointQuery
from lookalike.store.npy_files import RowWriter, map_rows
from lookalike.store.segments import Block
from lookalike.types import Hits

K, QUERIES, MARKS, ROUNDS = 50, 20, 50, 5
CLUSTERS, SPREAD, PART = 1_000, 1.5, 250_000
"""The vectors are those of `lookalike bench run hyperplane`: samples of Gaussian clusters."""
FANOUT_ROWS = 1_000
"""Few rows, so that a search is mostly fan-out."""
PICTURES = 3_000
READER = shards.ShardReader()


def main() -> None:
    """Run the cases and print their results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="shards,fanout,head,add,check")
    parser.add_argument("--rows", default="100000,300000,1000000,10000000")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--leaves-max", type=int, default=1_000_000, help="rows of the largest shard with leaves")
    parser.add_argument("--check-rows", type=int, default=600_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, value in dask.config.get("distributed.nanny.pre-spawn-environ").items():
        os.environ[name] = str(value)  # for other processes, as for the workers of dask: one thread, and malloc
    options.rows = [int(rows) for rows in options.rows.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        options.folder = options.folder or Path(temporary)
        file = write_rows(options)
        for case in options.cases.split(","):
            CASES[case](file, options)


def show(case: str, **row: Any) -> None:
    """Print one line."""
    print(json.dumps({"case": case, **row, "load": round(os.getloadavg()[0], 1)}), flush=True)


def write_rows(options: argparse.Namespace) -> Path:
    """Write a segment of the largest number of rows, unless it exists."""
    n, d = max(options.rows), options.dim
    file: Path = options.folder / f"rows-{n}-{d}-{options.seed}.npy"
    if file.exists():
        return file
    random = np.random.default_rng(options.seed)
    centres = random.standard_normal((CLUSTERS, d), np.float32)
    shares = np.exp(random.normal(0, 1, CLUSTERS))
    writer = RowWriter(file, n, d, np.dtype(np.float32))
    for start in range(0, n, PART):
        ids = np.arange(start, min(n, start + PART))
        y = random.choice(CLUSTERS, len(ids), p=shares / shares.sum())
        writer.add(ids, SPREAD * random.standard_normal((len(ids), d), np.float32) + centres[y])
    writer.close()
    return file


def shard_of(file: Path, rows: int, dim: int) -> shards.Shard:
    """The first rows of the segment as one shard."""
    n = int(file.stem.split("-")[1])
    return (shards.Slice(str(file), (n, dim), "float32", b"", 0, rows),)


def add_leaves(shard: shards.Shard) -> float:
    """Load the leaves of a shard, or build and save them; return the seconds."""
    (part,) = shard
    saved = Path(part.file).with_suffix(f".{part.stop}.leaves")
    flat: Any = shards.open_shard(shard)
    start = time.perf_counter()
    if saved.exists():
        leaves = Leaves.load(saved, flat)
    else:
        leaves = Leaves().build(flat)
        leaves.save(saved)
    ready: Future[Leaves] = Future()
    ready.set_result(leaves)
    shards._LEAVES[shard] = ready
    return time.perf_counter() - start


def make_queries(X: Any, seed: int) -> tuple[list[PointQuery], list[HyperplaneQuery]]:
    """Rows as points, and the SVMs of 10 rows near a row against 40 others."""
    random = np.random.default_rng([seed, 1])
    points, planes = [], []
    for number in range(QUERIES):
        chosen = X[np.sort(random.integers(0, len(X), 41))]
        near = chosen[:1] + 0.5 * random.standard_normal((10, X.shape[1]), np.float32)
        svm = Svm().fit(np.vstack([near, chosen[1:]]), np.repeat([1, -1], [10, 40]).astype(np.int8))
        points.append(PointQuery(chosen[:1]))
        planes.append(svm.best() if number % 2 else svm.unsure())
    return points, planes


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Elapsed and CPU seconds of a call."""
    start, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - cpu


def pinned(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function in a new process on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})  # the new process inherits it
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        future = pool.submit(function, *arguments)
        os.sched_setaffinity(0, before)
        return future.result()


def time_shard(shard: shards.Shard, with_leaves: bool, seed: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds of different searches in one shard, by kind of query."""
    reader, flat = shards.ShardReader(), shards.open_shard(shard)
    (part,) = shard
    _, X = map_rows(Path(part.file), part.shape, part.dtype)
    points, planes = make_queries(X[: part.stop], seed)
    marked = np.unique(np.random.default_rng(seed).choice(flat.row_ids, MARKS))
    reader.search(shard, points[0], K, None, None, None)  # reads the files
    found = {"point": [timed(lambda q=q: reader.search(shard, q, K, None, None, None)) for q in points]}
    if with_leaves:
        add_leaves(shard)
        for kind in ("maximum", "frontier"):
            reader.search(shard, planes[0].of_kind(kind), K, None, marked, None)  # compiles
        found["plane"] = [timed(lambda q=q: reader.search(shard, q, K, None, marked, None)) for q in planes]
    return found


def measure_shards(file: Path, options: argparse.Namespace) -> None:
    """Time one shard of each size."""
    show("machine", **asdict(pinned(measure)))
    for rows in sorted(options.rows):
        shard = shard_of(file, rows, options.dim)
        large = shards.LEAVES_MIN <= rows <= options.leaves_max
        if large:
            show("leaves", rows=rows, build_or_load_s=add_leaves(shard))
            shards._LEAVES.clear()
        for kind, times in pinned(time_shard, shard, large, options.seed).items():
            wall, cpu = np.array(times).T
            ratios = np.sort(wall / np.median(wall))
            show(
                "shards",
                kind=kind,
                rows=rows,
                dim=options.dim,
                wall_ms=round(1e3 * float(np.median(wall)), 2),
                cpu_ms=round(1e3 * float(np.median(cpu)), 2),
                ratios=ratios.round(2).tolist(),
                cpu_ratios=np.sort(cpu / np.median(cpu)).round(2).tolist(),
            )


@contextmanager
def connected(workers: int) -> Iterator[Cluster]:
    """A connection to a cluster in other processes, so the CPU seconds of this one are those of the head."""
    words = ["cluster", "start", "--workers", str(workers), "--port", "0"]
    with subprocess.Popen([sys.executable, "-m", "lookalike", *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            with Cluster(process.stdout.readline().split()[-1]) as cluster:
                while len(cluster._readers()) < workers:
                    time.sleep(0.1)
                yield cluster
        finally:
            process.terminate()


def open_block(file: Path, rows: int, options: argparse.Namespace) -> tuple[Flat, Block]:
    """The first rows as an index of the head; writes them to their own segment, because a shard is part of one."""
    target: Path = options.folder / f"part-{rows}-{options.dim}-{options.seed}.npy"
    if not target.exists():
        _, X = map_rows(file, (max(options.rows), options.dim), "float32")
        writer = RowWriter(target, rows, options.dim, np.dtype(np.float32))
        for start in range(0, rows, PART):
            stop = min(rows, start + PART)
            writer.add(np.arange(start, stop), X[start:stop])
        writer.close()
    ids, X = map_rows(target, (rows, options.dim), "float32")
    flat = Flat()
    flat.add(ids, X)
    return flat, Block(ids, X, None, 0, str(target).encode(), file=target)


def sharded(flat: Flat, block: Block, n: int, cluster: Cluster) -> shards.ShardedIndex:
    """An index with n shards, which can be more than there are workers."""
    cluster._calls._most = n
    return shards.ShardedIndex(flat, [block], cluster._calls)


def measure_fanout(file: Path, options: argparse.Namespace) -> None:
    """Time searches of a few rows."""
    flat, block = open_block(file, FANOUT_ROWS, options)
    points, planes = make_queries(block.X, options.seed)
    found: dict[str, list[tuple[int, float, float]]] = {"point": [], "plane": []}
    for workers, counts in ((2, [2]), (4, [4, 16, 64])):
        with connected(workers) as cluster:
            for n in counts:
                index = sharded(flat, block, n, cluster)
                for kind, queries, exclude in (("point", points, None), ("plane", planes, np.arange(MARKS))):
                    index.search(queries[0], K, exclude=exclude)
                    times = [timed(lambda i=index, q=q, e=exclude: i.search(q, K, exclude=e)) for q in queries]
                    wall, cpu = (1e3 * np.median(times, axis=0)).tolist()
                    found[kind].append((n, wall, cpu))
                    show(
                        "fanout",
                        kind=kind,
                        workers=workers,
                        shards=n,
                        search_ms=round(wall, 2),
                        fastest_ms=round(1e3 * min(times)[0], 2),
                        head_cpu_ms=round(cpu, 2),
                    )
    for kind, rows in found.items():
        counts, wall, cpu = zip(*rows, strict=True)
        for name, milliseconds in (("search", wall), ("head cpu", cpu)):
            each, fixed = np.polyfit(counts, milliseconds, 1)
            show("fanout", kind=kind, fit=name, fixed_ms=round(float(fixed), 2), each_ms=round(float(each), 2))


class Counted(shards.ShardedIndex):
    """Counts its searches."""

    searches = 0

    def search(self, *arguments: Any, **options: Any) -> Hits:
        self.searches += 1
        return super().search(*arguments, **options)


class Canned:
    """An index that answers at once with random rows, and reads no vectors: what remains is the work of the head."""

    def __init__(self, flat: Flat):
        self._flat, self._random, self.dim = flat, np.random.default_rng(0), flat.dim
        self.read = 0  # vectors

    def __len__(self) -> int:
        return len(self._flat)

    @property
    def ids(self) -> Any:
        return self._flat.ids

    def vectors(self, ids: Any) -> Any:
        self.read += len(ids)
        return self._random.standard_normal((len(ids), self.dim), np.float32)

    def search(self, query: Any, k: int, **filters: Any) -> Hits:  # noqa: ARG002 — an index
        ids = np.unique(self._random.integers(0, len(self), 2 * k))[:k]
        return Hits(self._random.permutation(ids)[None], np.linspace(-1, 1, len(ids), dtype=np.float32)[None], k)


class NoCalls:
    """Stands for the workers: prepares every message, and sends none."""

    def __init__(self, n: int):
        self._n = n

    def readers(self) -> dict[str, Any]:
        return {"worker": None}

    def most_workers(self, now: int) -> int:  # noqa: ARG002 — as `ShardCalls`
        return self._n

    def gather(self, n: int, ask: Any, search_here: Any, readers: Any) -> list[Hits]:  # noqa: ARG002 — as `ShardCalls`
        hits = Hits(np.arange(K)[None], np.zeros((1, K), np.float32), 0)

        class Reader:
            def search(self, *_: Any) -> Hits:
                return hits

        return [ask(Reader(), number) for number in range(n)]


def make_marks(X: Any, seed: int) -> Marks:
    """Marks as after five rounds."""
    random = np.random.default_rng([seed, 2])
    ids = np.unique(random.integers(0, len(X), MARKS))
    y = np.where(np.arange(len(ids)) % 5, -1, 1).astype(np.int8)
    rows = np.array(X[ids])
    rows[y > 0] = rows[0] + 0.5 * random.standard_normal((int((y > 0).sum()), X.shape[1]), np.float32)
    return Marks(ids, rows, y)


def measure_head(file: Path, options: argparse.Namespace) -> None:
    """Time the work of the head that grows with the number of rows."""
    for row in pinned(time_head, file, options):
        show("head", **row)


def time_head(file: Path, options: argparse.Namespace) -> list[dict[str, float]]:
    """CPU milliseconds of the head by number of rows."""
    n, found = max(options.rows), []
    ids, X = map_rows(file, (n, options.dim), "float32")
    for rows in sorted({n // 10, n}):
        flat = Flat()
        flat.add(ids[:rows], X[:rows])
        marks = make_marks(X[:rows], options.seed)
        canned = Canned(flat)
        run_round(canned, marks)
        canned.read = 0
        rounds = [timed(lambda i=i, c=canned, m=marks: run_round(c, m, seed=i)) for i in range(ROUNDS)]
        block = Block(ids[:rows], X[:rows], None, 0, b"", file=file)
        index = shards.ShardedIndex(flat, [block], NoCalls(64))  # type: ignore[arg-type]
        point = PointQuery(X[:1])
        masks = [timed(lambda i=index, m=marks, p=point: i.search(p, K, exclude=m.ids)) for _ in range(5)]
        plain = [timed(lambda i=index, p=point: i.search(p, K)) for _ in range(5)]
        times = {"round_cpu_ms": rounds, "mask_cpu_ms": masks, "search_cpu_ms": plain}
        cpu = {name: round(1e3 * float(np.median(some, axis=0)[1]), 3) for name, some in times.items()}
        found.append({"rows": rows, "vectors_read": canned.read / ROUNDS, **cpu})
    return found


def measure_add(file: Path, options: argparse.Namespace) -> None:  # noqa: ARG001
    """Time the head while workers read small pictures."""
    with tempfile.TemporaryDirectory() as temporary, connected(2) as cluster:
        noise = np.random.default_rng(options.seed)
        for i in range(PICTURES):
            small = noise.integers(0, 256, (4, 4, 3), np.uint8)
            cv2.imwrite(f"{temporary}/{i}.jpg", cv2.resize(small, (64, 64), interpolation=cv2.INTER_CUBIC))
        with Collection(Path(temporary) / "made", create=True, cluster=cluster) as collection:
            wall, cpu = timed(lambda: collection.add(temporary, recipes=["color"]))
        show("add", pictures=PICTURES, wall_ms=1e3 * wall / PICTURES, head_cpu_ms=1e3 * cpu / PICTURES)


def check_model(file: Path, options: argparse.Namespace) -> None:
    """Compare predicted and measured searches and rounds; both are measured in turn, because the load varies."""
    cores, rows = len(os.sched_getaffinity(0)), options.check_rows
    few, few_block = open_block(file, FANOUT_ROWS, options)
    flat, block = open_block(file, rows, options)
    points, planes = make_queries(block.X, options.seed)
    marked, marks = np.arange(MARKS), make_marks(block.X, options.seed)
    for n in (2, 4):
        shard = shards.cut_shards([block], n)[0][0]
        add_leaves(shard)  # saves them for the other processes
        with (
            connected(n) as cluster,
            ProcessPoolExecutor(min(n, cores), mp_context=multiprocessing.get_context("spawn")) as pool,
        ):
            index = Counted(flat, [block], cluster._calls)
            fanout = sharded(few, few_block, n, cluster)
            index.search(planes[0], K, exclude=marked)  # starts to build leaves
            while not all(cluster._client.run(leaves_ready).values()):
                time.sleep(2)
            predicted = {}
            for kind, queries, exclude in (("point", points, None), ("plane", planes, marked)):
                samples, overhead, measured = [], [], []
                for number in [0, 1, 2, 3, *range(QUERIES)]:  # the first four open files and compile
                    order = shard, rows, options.seed, kind, number
                    samples.append([*pool.map(time_one, *zip(*[order] * min(n, cores), strict=True))])
                    for one, times in ((fanout, overhead), (index, measured)):
                        times.append(timed(lambda i=one, q=queries[number], e=exclude: i.search(q, K, exclude=e))[0])
                seconds = np.ravel(samples[4:]).tolist()
                predicted[kind] = slowest_seconds(seconds, n, cores, options.seed) + float(np.median(overhead[4:]))
                _show_check(kind, n, rows, predicted[kind], measured[4:])
            index.searches, rounds, head = 0, [], []
            for seed in range(ROUNDS):
                rounds.append(timed(lambda i=index, s=seed: run_round(i, marks, seed=s))[0])
                head.append(timed(lambda s=seed: run_round(Canned(flat), marks, seed=s))[0])
            searches, head_s = index.searches / ROUNDS, float(np.median(head))
            show("check", kind="round", shards=n, searches=searches, head_ms=round(1e3 * head_s, 1))
            _show_check("round", n, rows, head_s + searches * predicted["plane"], rounds)


def _show_check(kind: str, n: int, rows: int, predicted: float, times: list[float]) -> None:
    measured = float(np.median(times))
    show(
        "check",
        kind=kind,
        shards=n,
        rows_per_shard=rows // n,
        predicted_ms=round(1e3 * predicted, 1),
        measured_ms=round(1e3 * measured, 1),
        ratio=round(predicted / measured, 2),
    )


def leaves_ready() -> bool:
    """Whether this worker has built its leaves."""
    return bool(shards._LEAVES) and all(built.done() for built in shards._LEAVES.values())


@cache
def open_queries(shard: shards.Shard, rows: int, seed: int) -> dict[str, list[Any]]:
    """The queries of `check_model`, in a process that searches one shard with leaves."""
    (part,) = shard
    add_leaves(shard)
    points, planes = make_queries(map_rows(Path(part.file), part.shape, part.dtype)[1][:rows], seed)
    return {"point": points, "plane": planes}


def time_one(shard: shards.Shard, rows: int, seed: int, kind: str, number: int) -> float:
    """Seconds of one query in one shard."""
    query = open_queries(shard, rows, seed)[kind][number]
    exclude = np.arange(MARKS) if kind == "plane" else None
    return timed(lambda: READER.search(shard, query, K, None, exclude, None))[0]


CASES = {
    "shards": measure_shards,
    "fanout": measure_fanout,
    "head": measure_head,
    "add": measure_add,
    "check": check_model,
}


if __name__ == "__main__":
    main()
