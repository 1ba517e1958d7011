"""Indexing speed and its bounds: images per second of `add`, of only reading and of only extracting features.

    python benchmarks/indexing_speed.py --data ../shared/data [--rounds 3] [--json]

Also measures adding the unchanged folder again with the command line, including its start-up, as a fraction of the time
of the first run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from lookalike import Collection
from lookalike.collection.chain import DESCRIBE_BATCH, Prepare
from lookalike.images.sources import walk
from lookalike.images.workers import Read, ReadPool
from lookalike.registry import create

FEATURE = "efficientnet()"


def reading(folder: Path, workers: int) -> float:
    feature = create("feature", FEATURE)
    start = time.perf_counter()
    with ReadPool(Prepare([feature]), side=feature.side, workers=workers) as pool:
        count = sum(isinstance(r, Read) for r in pool.map(walk([folder], on_skip=print)))
    return count / (time.perf_counter() - start)


def describing(folder: Path, workers: int) -> float:
    feature = create("feature", FEATURE)
    with ReadPool(Prepare([feature]), side=feature.side, workers=workers) as pool:
        parts = [r.parts[0] for r in pool.map(walk([folder], on_skip=print)) if isinstance(r, Read)][:1600]
    feature.describe(parts[:DESCRIBE_BATCH])
    start = time.perf_counter()
    for i in range(0, len(parts), DESCRIBE_BATCH):
        feature.describe(parts[i : i + DESCRIBE_BATCH])
    return len(parts) / (time.perf_counter() - start)


def adding(folder: Path, where: Path, workers: int) -> tuple[float, float]:
    with Collection(where, create=True) as collection:
        report = collection.add(folder, recipes=["deep", "thing"], workers=workers)
    return report.added / report.seconds, report.seconds


def adding_again(folder: Path, where: Path) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "lookalike", "--collection", str(where), "add", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "corel5k")
        with tarfile.open(options.data / "corel5k" / "corel5k.tar") as archive:
            archive.extractall(folder, filter="data")
        rows = []
        for i in range(options.rounds):
            where = Path(temporary, f"collection-{i}")
            read, describe = reading(folder, options.workers), describing(folder, options.workers)
            rate, seconds = adding(folder, where, options.workers)
            again = min(adding_again(folder, where) for _ in range(3))
            rows.append(
                {
                    "read_per_s": round(read, 1),
                    "describe_per_s": round(describe, 1),
                    "add_per_s": round(rate, 1),
                    "share_of_bound": round(rate / min(read, describe), 3),
                    "again_share": round(again / seconds, 4),
                }
            )
            print(json.dumps(rows[-1]) if options.json else rows[-1], flush=True)
        for key in ("share_of_bound", "again_share"):
            print(f"median {key}: {statistics.median(row[key] for row in rows):.3f}", file=sys.stderr)


if __name__ == "__main__":
    main()
