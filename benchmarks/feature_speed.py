"""Images per second of `add` with each feature, as a fraction of the speed of the unavoidable work (the floor).

    python benchmarks/feature_speed.py --data ../shared/data [--features fisher,deep] [--rounds 3] [--json]

The floor is, on all cores: for local features, reading and OpenCV's SIFT; for networks, reading followed by inference;
for other features, reading and preparing. Vocabularies are fitted before the measurement starts.
"""

import argparse
import json
import os
import statistics
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import floors

from lookalike import Collection
from lookalike.collection.chain import DESCRIBE_BATCH, Prepare
from lookalike.images.sources import walk
from lookalike.images.workers import Read, ReadPool
from lookalike.recipes import RECIPES
from lookalike.registry import create

FEATURES = {
    "color": ("color()", "prepare"),
    "classic": (RECIPES["classic"][0], "prepare"),
    "vlad": ("vlad()", "sift"),
    "fisher": ("fisher()", "sift"),
    "fisher256": ("fisher(k=256)", "sift"),
    "opponent": ("fisher(local=['opponentsift()'])", "sift3"),
    "deep": ("efficientnet()", "network"),
    "spoc": ("efficientnet(pool='spoc')", "network"),
    "rmac": ("efficientnet(pool='rmac')", "network"),
    "deepvlad": ("vlad(local='efficientnetmaps()')", "network"),
}


def reading(folder, then, side, workers):
    """Return the pictures per second of the reading processes."""
    start = time.perf_counter()
    with ReadPool(then, side=side, workers=workers) as pool:
        count = sum(isinstance(r, Read) for r in pool.map(walk([folder], on_skip=print)))
    return count / (time.perf_counter() - start)


def inference(folder, workers):
    """Return the pictures per second of the default network, without reading."""
    feature = create("feature", "efficientnet()")
    with ReadPool(Prepare([feature]), side=feature.side, workers=workers) as pool:
        parts = [r.parts[0] for r in pool.map(walk([folder], on_skip=print)) if isinstance(r, Read)][:800]
    feature.describe(parts[:DESCRIBE_BATCH])
    start = time.perf_counter()
    for i in range(0, len(parts), DESCRIBE_BATCH):
        feature.describe(parts[i : i + DESCRIBE_BATCH])
    return len(parts) / (time.perf_counter() - start)


def floor(kind, spec, folder, workers):
    side = create("feature", spec).side
    match kind:
        case "network":
            return 1 / (1 / reading(folder, floors.decode, side, workers) + 1 / inference(folder, workers))
        case "prepare":
            return reading(folder, Prepare([create("feature", spec)]), side, workers)
        case _:
            return reading(folder, floors.Sift(3 if kind == "sift3" else 1), side, workers)


def adding(folder, first, spec, where, workers):
    """Return the pictures per second of an add, after a first add that fitted the vocabulary."""
    with Collection(where, create=True) as collection:
        collection.add(first, recipes=[f"it = {spec}"], workers=workers)
        start = time.perf_counter()
        report = collection.add(folder, workers=workers)
        assert not report.skipped
        return report.added / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--features", default=",".join(FEATURES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, first = Path(temporary, "corel1k"), Path(temporary, "first")
        with tarfile.open(options.data / "corel1k" / "corel1k.tar") as archive:
            archive.extractall(folder, filter="data")
        first.mkdir()
        for path in sorted(folder.rglob("*.jpg"))[::20]:
            path.rename(first / path.name)
        for name in options.features.split(","):
            spec, kind = FEATURES[name]
            rows = []
            for i in range(options.rounds):
                bound = floor(kind, spec, folder, options.workers)
                rate = adding(folder, first, spec, Path(temporary, f"{name}-{i}"), options.workers)
                rows.append({"feature": name, "floor_per_s": round(bound, 1), "add_per_s": round(rate, 1)})
                rows[-1]["share"] = round(rate / bound, 3)
                print(json.dumps(rows[-1]) if options.json else rows[-1], flush=True)
            print(f"{name}: median share {statistics.median(row['share'] for row in rows):.3f}", file=sys.stderr)


if __name__ == "__main__":
    main()
