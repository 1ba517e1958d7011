"""Speed and memory of the tiers "same" and "edited": CPU time per picture, and the size of the process.

    python benchmarks/duplicates_speed.py --vectors X.npz FOLDER [--vectors Y.npz FOLDER …] [--tier same|edited]
    python benchmarks/duplicates_speed.py --synthetic 100000

Vectors are .npz files with `X` (n, d), the rows of `efficientnet()`, and `names` (n,), the paths in the folder. The
space is `thing`, fitted on all of them. CPU time includes the processes that read pictures. On a busy machine it is
more reliable than elapsed time, which is also printed.

--synthetic writes no pictures. It makes random unit vectors in 256 dimensions around n / 10 centres, and a random
smooth thumbnail for each; every tenth picture is a copy of another. It measures the search for candidates and the
comparison of thumbnails, not the time to read pictures and to align copies.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

import cv2
import numpy as np

from lookalike.arrays import unit_rows
from lookalike.collection.duplicates import (
    MAX_MISSES,
    SAME_RADIUS,
    PhotoComparison,
    choose_search,
    find_clusters,
    typical_distance,
)
from lookalike.images.decoding import content_id, digest_content
from lookalike.images.thumbnails import SIDE, find_places
from lookalike.registry import create


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", nargs=2, action="append", metavar=("NPZ", "FOLDER"), default=[])
    parser.add_argument("--tier", choices=["same", "edited"], default="same")
    parser.add_argument("--synthetic", type=int, default=0, metavar="N")
    parser.add_argument("--workers", type=int, default=None)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    run = synthetic(options.synthetic) if options.synthetic else real(options.vectors, options.tier, options.workers)
    print(json.dumps(run))


def real(sources: list[tuple[str, str]], tier: str, workers: int | None) -> dict[str, object]:
    """Find the groups of real pictures."""
    loaded = [(np.load(file), Path(folder)) for file, folder in sources]
    paths = [str(folder / name) for arrays, folder in loaded for name in arrays["names"].tolist()]
    X = np.concatenate([arrays["X"] for arrays, _ in loaded])
    X = unit_rows(create("transform", "pca(dim=256, whiten=1.0)").fit(X).transform(X)).astype(np.float32)
    known = {content_id(digest_content(Path(path).read_bytes())): i for i, path in enumerate(paths)}
    ids = np.array(sorted(known), np.int64)
    order = np.array([known[item] for item in ids.tolist()])
    largest_first = ids[np.argsort([-Path(paths[i]).stat().st_size for i in order], kind="stable")]

    def rows(some):
        return X[order[np.searchsorted(ids, some)]]

    start, cpu = time.perf_counter(), sum(os.times()[:4])
    near = choose_search(ids, rows, SAME_RADIUS * typical_distance(ids, rows))
    with PhotoComparison(
        ids, lambda some: {i: paths[known[i]] for i in some}, workers, edited=tier == "edited"
    ) as photos:
        groups = list(find_clusters(largest_first, near, photos.confirm, set(), prepare=photos.prepare))
    names = [[paths[known[item]] for item in (group.centre, *group.members)] for group in groups]
    return report(len(ids), start, cpu) | {"groups": len(groups), "first": names[:5]}


def synthetic(n: int) -> dict[str, object]:
    """Find the groups of random thumbnails with random vectors."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n // 10, 256)).astype(np.float32)
    X = unit_rows(np.repeat(centres, 10, axis=0) + 0.8 * rng.normal(size=(n // 10 * 10, 256)).astype(np.float32))
    thumbnails = np.empty((len(X), SIDE, SIDE), np.uint8)
    for i in range(len(X)):
        if i % 10 == 9:  # a copy of the previous picture
            thumbnails[i], X[i] = thumbnails[i - 1], X[i - 1]
        else:
            coarse = rng.integers(0, 256, (8, 8), np.uint8)
            thumbnails[i] = cv2.resize(coarse, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
    ids, compared = rng.permutation(len(X)).astype(np.int64), 0
    places: dict[tuple[int, int], bool] = {}

    def prepare(pairs):
        nonlocal compared
        both = [(centre, other) for centre, others in pairs for other in others[:MAX_MISSES].tolist()]
        places.clear()
        for first in range(0, len(both), 256):
            some = np.array(both[first : first + 256])
            ones = np.ones(len(some), np.float32)
            found = find_places(thumbnails[some[:, 0]], thumbnails[some[:, 1]], ones, ones)
            places.update({pair: place is not None for pair, place in zip(both[first:], found, strict=False)})
        compared += len(both)

    def confirm(centre, others, distances):
        return [(i, d) for i, d in zip(others.tolist(), distances.tolist(), strict=True) if places.get((centre, i))]

    start, cpu = time.perf_counter(), sum(os.times()[:4])
    near = choose_search(ids, X.__getitem__, SAME_RADIUS * typical_distance(ids, X.__getitem__))
    groups = sum(1 for _ in find_clusters(ids, near, confirm, set(), prepare=prepare))
    return report(len(X), start, cpu) | {"groups": groups, "expected": len(X) // 10, "pairs": compared}


def report(n: int, start: float, cpu: float) -> dict[str, object]:
    """Return the time since `start`, the CPU time since `cpu`, and the memory of the process."""
    used = sum(os.times()[:4]) - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "pictures": n,
        "elapsed_s": round(time.perf_counter() - start, 1),
        "cpu_s": round(used, 1),
        "cpu_ms_per_picture": round(1e3 * used / n, 2),
        "per_second_on_2_cores": round(2 * n / used),
        "memory_mb": round(memory),
    }


if __name__ == "__main__":
    main()
