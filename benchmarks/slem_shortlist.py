"""Compare the shortlist of kernel SLEM with the exact scan: recall, speed-up and build time.

    python benchmarks/slem_shortlist.py [--rows 100000] [--dim 128] [--kernels gaussian,poly] [--rank 32] [--kind hnsw]
                                        [--repeats 5] [--json]

The vectors are synthetic: clustered, of unit length. Prints one line per kernel and effort: recall@10 of queries that
are not in the index, relative to the scan; the median milliseconds of one query by scan and by shortlist, and their
ratio. Scans and shortlists alternate, so that other load on the machine affects both equally.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

from lookalike.encode.kernel_slem import KernelSlem
from lookalike.index.ann import Shortlisted
from lookalike.types import Vectors

QUERIES, K = 50, 10
EFFORTS: tuple[str | float, ...] = ("fast", "balanced", 100)


def main() -> None:
    """Run the measurements given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--kernels", default="gaussian,poly")
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--kind", default="hnsw")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    centres = random.normal(size=(options.rows // 100, options.dim))
    X, pool, asked = (clustered(centres, n, random) for n in (options.rows, 5_000, QUERIES))
    for kernel in options.kernels.split(","):
        slem = KernelSlem(kernel, gamma=1.0, lam=1e-3, rank=options.rank).fit(pool)
        index = Shortlisted(options.kind)
        index.add(np.arange(options.rows), slem.transform(X))
        seconds = timed(lambda index=index, slem=slem: index.build(encoder=slem))  # type: ignore[misc]
        query = slem.query(asked)
        true = index.search(query, K, effort="exact").ids
        for effort in EFFORTS:
            found = index.search(query, K, effort=effort).ids
            recall = np.mean([len({*a} & {*b}) / K for a, b in zip(found.tolist(), true.tolist(), strict=True)])
            scan, short = take_turns(index, slem, asked[: options.repeats], effort)
            line = {
                "kernel": kernel,
                "rows": options.rows,
                "effort": effort,
                "recall": round(float(recall), 4),
                "recall_at_build": round(index.recall(slem, effort), 4),
                "scan_ms": round(1e3 * scan, 2),
                "shortlist_ms": round(1e3 * short, 2),
                "times_faster": round(scan / short, 1),
                "build_s": round(seconds, 1),
            }
            show(line, as_json=options.json)


def take_turns(index: Shortlisted, slem: KernelSlem, asked: Vectors, effort: str | float) -> tuple[float, float]:
    """Median seconds of one query by scan and by shortlist."""
    scans, shorts = [], []
    for row in asked:
        query = slem.query(row[None])
        scans.append(timed(lambda query=query: index.search(query, K, effort="exact")))  # type: ignore[misc]
        shorts.append(timed(lambda query=query: index.search(query, K, effort=effort)))  # type: ignore[misc]
    return statistics.median(scans), statistics.median(shorts)


def clustered(centres: Vectors, n: int, random: np.random.Generator) -> Vectors:
    """n synthetic unit vectors around the centres (c, d), about a hundred per centre."""
    X = centres[random.integers(len(centres), size=n)] + 0.5 * random.normal(size=(n, centres.shape[1]))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def timed(run: Callable[[], object]) -> float:
    """Seconds of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def show(line: dict[str, object], *, as_json: bool) -> None:
    """Print one line."""
    print(json.dumps(line) if as_json else "  ".join(f"{name} {value}" for name, value in line.items()), flush=True)


if __name__ == "__main__":
    main()
