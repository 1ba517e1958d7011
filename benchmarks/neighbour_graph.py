"""Measure the neighbour graph: time to build and to update it, recall, memory, and the cost relative to extraction.

    python benchmarks/neighbour_graph.py --data DIR --rows 100000
    python benchmarks/neighbour_graph.py --data DIR --rows 1000000 --keep patches.npy

The rows are real: patches of the network's last feature map, 49 per picture of tinyimagenet40, reduced to 256
dimensions as by the recipe `deep`. `--keep` stores them for later runs. Extraction is timed in the same run: the time
per picture of `efficientnet()`, without reading the pictures.
"""

import argparse
import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from lookalike.encode.whiten import L2, PCA
from lookalike.features.efficientnet import EfficientNet, EfficientNetMaps
from lookalike.index.neighbours import NeighbourGraph
from lookalike.types import Pixels, Vectors

FIT_PICTURES, BATCH, TIMED = 400, 64, 128


def main() -> None:
    """Run the measurement given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that contains tinyimagenet40/")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--new", type=int, default=1_000, help="rows added in the update that is timed")
    parser.add_argument("--keep", type=Path, help="file that stores the rows for later runs")
    options = parser.parse_args()
    if options.keep is not None and options.keep.exists():
        X = np.load(options.keep, mmap_mode="r")
    else:
        X = patches(options.data, options.rows + options.new)
        if options.keep is not None:
            np.save(options.keep, X)
    n, new = options.rows, options.new
    X = X[np.sort(np.random.default_rng(0).choice(len(X), n + new, replace=False))]
    per_picture = extraction_seconds(options.data)
    graph = NeighbourGraph()
    built = seconds(lambda: graph.update(np.arange(n), lambda ids: X[ids]))
    recall = graph.recall(lambda ids: X[ids])
    graph.changed[:] = False
    updated = seconds(lambda: graph.update(np.arange(n + new), lambda ids: X[ids]))
    with tempfile.TemporaryDirectory() as folder:
        graph.save(Path(folder) / "graph")
        size = (Path(folder) / "graph").stat().st_size
    print(f"rows {n:,}, exact {graph.is_exact}, recall {recall:.3f}, {size / len(graph):.0f} bytes per row")
    print(f"build: {built:.1f} s, {built / (per_picture * n):.1%} of the extraction of {n:,} pictures")
    print(f"adding {new:,}: {updated:.1f} s, {updated / (per_picture * new):.1%} of their extraction")
    print(f"rows whose neighbours changed: {np.count_nonzero(graph.changed):,}")


def patches(data: Path, n: int) -> Vectors:
    """Patches of pictures, (at least n, 256)."""
    local, pca, found, count = EfficientNetMaps(), None, [], 0
    images = pictures(data)
    while count < n:
        batch = [image for _, image in zip(range(FIT_PICTURES if pca is None else BATCH), images, strict=False)]
        if not batch:
            raise SystemExit(f"{data} has only {count:,} patches. Choose a smaller --rows.")
        X = np.concatenate([one.X for one in local.describe([local.prepare(image) for image in batch])])
        if pca is None:
            pca = PCA(dim=256).fit(X)
        found.append(L2().transform(pca.transform(X)))
        count += len(X)
    return np.concatenate(found)


def pictures(data: Path) -> Iterator[Pixels]:
    """The pictures of tinyimagenet40."""
    with tarfile.open(data / "tinyimagenet40" / "tinyimagenet40.tar") as archive:
        for member in archive:
            if member.name.lower().endswith((".jpg", ".jpeg")) and (file := archive.extractfile(member)):
                yield np.asarray(Image.open(io.BytesIO(file.read())).convert("RGB"))


def extraction_seconds(data: Path) -> float:
    """Seconds per picture of the default network."""
    feature = EfficientNet()
    prepared = [feature.prepare(image) for _, image in zip(range(TIMED), pictures(data), strict=False)]
    feature.describe(prepared[:16])
    return seconds(lambda: feature.describe(prepared)) / TIMED


def seconds(run: Callable[[], object]) -> float:
    """The time of a call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
