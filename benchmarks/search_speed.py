"""Compare the speed of the indexes with faiss and with the limit of the machine, in one run.

    [chrt -f 10] python benchmarks/search_speed.py --sizes 100k,1M --ann 100k --json

Prints one line per case, with medians in milliseconds, their spread, and ratios (ours / theirs; below 1 means that ours
is faster). Exact search is compared with faiss's flat indexes at their best setting, approximate search with direct
searches of the same faiss structure, with and without re-ranking by exact distances. If the machine is not idle, `chrt`
(as root) keeps other processes off the cores during a search.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from lookalike.index.ann import KINDS, Ann
from lookalike.index.flat import Flat
from lookalike.index.queries import PointQuery
from lookalike.types import Vectors

Run = Callable[[], object]


def main() -> None:
    """Run the cases given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sizes", type=sizes, default="100k,1M", help="numbers of vectors for exact search, such as 100k,1M"
    )
    parser.add_argument(
        "--ann", type=sizes, default="100k", help="numbers of vectors for approximate search; building takes minutes"
    )
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--structures", type=Path, help="folder that stores the built structures for later runs")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for n in options.sizes:
            X, points = mapped(Path(folder) / "rows.npy", n, options.dim)
            for row in exact(X, points, options.repeats):
                show(row, options.json)
        for n in options.ann:
            X, points = mapped(Path(folder) / "rows.npy", n, options.dim)
            for kind in options.kinds.split(","):
                for row in approximate(kind, X, points, options.repeats, options.structures or Path(folder)):
                    show(row, options.json)


def exact(X: Vectors, points: Vectors, repeats: int) -> Iterator[dict[str, Any]]:
    """Compare `Flat` over a memory map with faiss's flat indexes in all settings."""
    index = Flat()
    start = time.perf_counter()
    index.add(np.arange(len(X)), X)
    opened = time.perf_counter() - start
    start = time.perf_counter()
    index.search(PointQuery(points[:1]), 10)
    first = time.perf_counter() - start
    yield {"case": f"flat {len(X):,}", "open ms": 1e3 * opened, "first search ms": 1e3 * first}
    rivals = {"L2": faiss.IndexFlatL2(X.shape[1]), "IP": faiss.IndexFlatIP(X.shape[1])}
    for rival in rivals.values():
        rival.add(X)
    for q, k in product((1, 64), (10, 100)):
        query = PointQuery(points[:q])
        settings = {
            f"{name}, {threads} thr, blas from {blas}": faiss_run(rivals[name], points[:q], k, threads, blas)
            for name, threads, blas in product(rivals, (1, 2), (1, 20, 1_000))
        }
        best = fastest(settings, "L2", 2) | fastest(settings, "IP", 2)
        ours: Run = lambda query=query, k=k: index.search(query, k)  # noqa: E731
        times = interleave({"ours": ours, "bound": product_run(X, points[:q]), **best}, repeats)
        winner = min(best, key=lambda name: statistics.median(times[name]))
        same = np.mean(index.search(query, k).ids == rivals["L2"].search(points[:q], k)[1])
        yield {
            "case": f"flat {len(X):,} q={q} k={k}",
            **summary("ours", times["ours"]),
            **summary("bound", times["bound"]),
            **summary("faiss", times[winner]),
            "faiss setting": winner,
            "ours/faiss": ratio(times["ours"], times[winner]),
            "ours/bound": ratio(times["ours"], times["bound"]),
            "same ids": float(same),
        }


def approximate(kind: str, X: Vectors, points: Vectors, repeats: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Compare `Ann` with direct searches of its faiss structure, with the same parameters and with faiss re-ranking."""
    truth = Flat()
    truth.add(np.arange(len(X)), X)
    path = folder / f"{kind}-{len(X)}-{X.shape[1]}.faiss"
    facts: dict[str, float] = {}
    if not path.exists():
        start = time.perf_counter()
        index = Ann(kind).build(truth)
        facts["build s"] = time.perf_counter() - start
        index.save(path)
    start = time.perf_counter()
    index = Ann.load(path, truth)
    facts["load s"] = time.perf_counter() - start
    yield {"case": f"{kind} {len(X):,}", "bytes/row": path.stat().st_size / len(X), **facts}
    structure = index._structure
    assert structure is not None
    raw = structure._inner
    refined = faiss.IndexRefineFlat(raw, faiss.swig_ptr(np.ascontiguousarray(X)))
    for effort, q, k in product(("fast", "balanced"), (1, 64), (10, 100)):
        shortlist, planned = index._plan(k, effort)
        breadth = ceil(planned)
        params = (
            faiss.SearchParametersHNSW(efSearch=max(breadth, shortlist))
            if kind == "hnsw"
            else faiss.SearchParametersIVF(nprobe=breadth)
        )
        refine = faiss.IndexRefineSearchParameters(k_factor=shortlist / k, base_index_params=params)
        batches = [points[i : i + q] for i in range(0, len(points) - q + 1, q)][:16]
        queries = [PointQuery(batch) for batch in batches]
        runs: dict[str, Run] = {
            "ours": lambda qs=queries, k=k, e=effort: [index.search(query, k, effort=e) for query in qs],
            "raw": lambda bs=batches, k=k, p=params: [raw.search(batch, k, params=p) for batch in bs],
            "refined": lambda bs=batches, k=k, p=refine: [refined.search(batch, k, params=p) for batch in bs],
        }
        times = {name: [t / len(batches) for t in found] for name, found in interleave(runs, repeats).items()}
        true = truth.search(PointQuery(points), k).ids
        yield {
            "case": f"{kind} {len(X):,} {effort} q={q} k={k}",
            **summary("ours", times["ours"]),
            **summary("raw", times["raw"]),
            **summary("refined", times["refined"]),
            "ours/raw": ratio(times["ours"], times["raw"]),
            "ours/refined": ratio(times["ours"], times["refined"]),
            "recall ours": recall(index.search(PointQuery(points), k, effort=effort).ids, true),
            "recall raw": recall(structure.ids[raw.search(points, k, params=params)[1]], true),
            "scored share": index.search(PointQuery(points), k, effort=effort).scored / len(points) / len(X),
        }


def mapped(path: Path, n: int, dim: int) -> tuple[Vectors, Vectors]:
    """Synthetic unit vectors around n / 200 centres, with the decreasing spectrum of a PCA; 512 more as queries."""
    random = np.random.default_rng(0)
    scale = ((1 + np.arange(dim)) ** -0.6).astype(np.float32)
    centres = scale * random.standard_normal((max(100, n // 200), dim), dtype=np.float32)
    file = np.lib.format.open_memmap(path, "w+", np.float32, (n, dim))

    def draw(m: int) -> Vectors:
        X = centres[random.integers(len(centres), size=m)] + 0.7 * scale * random.standard_normal((m, dim), np.float32)
        return X / np.linalg.norm(X, axis=1, keepdims=True)

    for start in range(0, n, 50_000):
        file[start : start + 50_000] = draw(min(50_000, n - start))
    file.flush()
    return np.load(path, mmap_mode="r"), draw(512)


def product_run(X: Vectors, points: Vectors) -> Run:
    """A lower bound of the time: every vector times every query, in chunks that fit into the cache."""
    factors, step = np.ascontiguousarray(points.T), 2**19 // len(points)
    scores = np.empty((step, len(points)), np.float32)

    def run() -> None:
        for start in range(0, len(X), step):
            rows = X[start : start + step]
            np.matmul(rows, factors, out=scores[: len(rows)])

    return run


def faiss_run(index: Any, points: Vectors, k: int, threads: int, blas: int) -> Run:
    """A faiss search with these global settings, which are restored afterwards."""

    def run() -> None:
        before = faiss.omp_get_max_threads(), faiss.cvar.distance_compute_blas_threshold
        faiss.omp_set_num_threads(threads)
        faiss.cvar.distance_compute_blas_threshold = blas
        index.search(points, k)
        faiss.omp_set_num_threads(before[0])
        faiss.cvar.distance_compute_blas_threshold = before[1]

    return run


def fastest(runs: dict[str, Run], prefix: str, count: int) -> dict[str, Run]:
    """The fastest settings, by the better of two runs."""
    times = {name: min(clock(run), clock(run)) for name, run in runs.items() if name.startswith(prefix)}
    return {name: runs[name] for name in sorted(times, key=lambda name: times[name])[:count]}


def interleave(runs: dict[str, Run], repeats: int) -> dict[str, list[float]]:
    """Seconds of each run. Runs alternate, so that other load on the machine affects all of them equally."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(clock(run))
    return times


def clock(run: Run) -> float:
    """Seconds of one call, followed by a pause of the same length for other processes."""
    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    time.sleep(min(0.2, seconds))
    return seconds


def summary(name: str, times: list[float]) -> dict[str, float]:
    """The median, the fastest and the slowest, in milliseconds."""
    return {
        f"{name} ms": 1e3 * statistics.median(times),
        f"{name} min": 1e3 * min(times),
        f"{name} max": 1e3 * max(times),
    }


def ratio(ours: list[float], theirs: list[float]) -> float:
    """The median of the ratios of paired runs."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def recall(found: np.ndarray, true: np.ndarray) -> float:
    """The share of the true neighbours that were found."""
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(true, found, strict=True)]))


def sizes(text: str) -> list[int]:
    """Parse `"100k,1M"` as `[100_000, 1_000_000]`."""
    units = {"k": 1_000, "M": 1_000_000}
    parts = [part for part in text.split(",") if part]
    return [int(float(part.rstrip("kM")) * units.get(part[-1], 1)) for part in parts]


def show(row: dict[str, Any], as_json: bool) -> None:
    """Print one line."""
    short = {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}
    if as_json:
        print(json.dumps(short), flush=True)
    else:
        line = "  ".join(
            f"{key} {value:.4g}" if isinstance(value, float) else f"{value}" for key, value in short.items()
        )
        print(line, flush=True)


if __name__ == "__main__":
    main()
