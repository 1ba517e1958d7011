"""Measure the neighbour graph: time to build and to update it, recall, memory, and the cost relative to extraction.

    python benchmarks/neighbour_graph.py --data DIR --rows 100000
    python benchmarks/neighbour_graph.py --data DIR --rows 1000000 --keep patches.npy
    python benchmarks/neighbour_graph.py --rows 250000 --dim 128 --cluster tcp://127.0.0.1:8786

With `--data`, the rows are real: patches of the network's last feature map, 49 per picture of tinyimagenet40, reduced
to 256 dimensions as by the recipe `deep`. `--keep` stores them for later runs. Extraction is timed in the same run: the
time per picture of `efficientnet()`, without reading the pictures. Otherwise, the rows are random unit vectors in
clusters of 100, near a subspace of 16 dimensions.

With `--cluster`, the graph is also built on the workers of a cluster, and rows are averaged with their neighbours. The
time of the head is its CPU time.
"""

import argparse
import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from lookalike.arrays import chunks
from lookalike.cluster import Cluster
from lookalike.collection.neighbours import AVERAGED_BYTES, average
from lookalike.encode.smooth import Smooth
from lookalike.encode.whiten import L2, PCA
from lookalike.features.efficientnet import EfficientNet, EfficientNetMaps
from lookalike.index.neighbours import NeighbourGraph
from lookalike.store.npy_files import RowWriter, map_rows
from lookalike.store.segments import StoredRows
from lookalike.types import Pixels, Run, Vectors

FIT_PICTURES, BATCH, TIMED = 400, 64, 128
CLUSTER_ROWS, LATENT = 100, 16


def main() -> None:
    """Run the measurement given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that contains tinyimagenet40/")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=128, help="dimensions of random rows")
    parser.add_argument("--new", type=int, default=1_000, help="rows added in the update that is timed")
    parser.add_argument("--keep", type=Path, help="file that stores the rows for later runs")
    parser.add_argument("--cluster", help="address of a scheduler")
    options = parser.parse_args()
    n, new = options.rows, options.new
    if options.keep is not None and options.keep.exists():
        X = np.load(options.keep, mmap_mode="r")
    elif options.data is not None:
        X = patches(options.data, n + new)
        if options.keep is not None:
            np.save(options.keep, X)
    else:
        X = clusters(n + new, options.dim)
    X = X[np.sort(np.random.default_rng(0).choice(len(X), n + new, replace=False))]
    with tempfile.TemporaryDirectory() as folder:
        rows = store(X, Path(folder) / "rows.npy")
        graph = NeighbourGraph()
        built, used = seconds(lambda: graph.update(np.arange(n), rows))
        print(f"rows {n:,}, exact {graph.is_exact}, recall {graph.recall(rows):.3f}")
        print(f"build: {built:.1f} s, CPU time {used:.1f} s", flush=True)
        if options.cluster:
            with Cluster(options.cluster) as cluster:
                compare(graph, rows, cluster, built)
            return
        graph.changed[:] = False
        updated, _ = seconds(lambda: graph.update(np.arange(n + new), rows))
        graph.save(Path(folder) / "graph")
        size = (Path(folder) / "graph").stat().st_size
    print(f"adding {new:,}: {updated:.1f} s; rows whose neighbours changed: {np.count_nonzero(graph.changed):,}")
    print(f"{size / len(graph):.0f} bytes per row")
    if options.data is not None:
        per_picture = extraction_seconds(options.data)
        shares = built / (per_picture * n), updated / (per_picture * new)
        print(f"share of the time to extract features: build {shares[0]:.1%}, adding {new:,} {shares[1]:.1%}")


def compare(graph: NeighbourGraph, rows: StoredRows, cluster: Cluster, built: float) -> None:
    """Print times of the cluster next to those of this process, and whether the graphs are equal."""
    other, workers = NeighbourGraph(), len(cluster.workers())
    there, head = seconds(lambda: other.update(graph.ids, rows, keys=graph.ids.astype(np.int32), run=cluster.map))
    equal = np.mean(np.isclose(graph.distances, other.distances, atol=1e-5))
    print(f"{workers} workers: build {there:.1f} s, {built / there:.2f} times as fast; head {head:.1f} s")
    print(f"distances that are equal: {equal:.4%}")
    here, _ = seconds(lambda: averages(graph, rows, map))
    there, head = seconds(lambda: averages(graph, rows, cluster.map))
    print(f"averages: {here:.1f} s; {workers} workers {there:.1f} s, head {head:.1f} s")


def averages(graph: NeighbourGraph, rows: StoredRows, run: Run) -> None:
    """Average all rows with their neighbours."""
    step = Smooth()
    parts = chunks(len(graph), 4 * (step.k + 2) * rows.dim, AVERAGED_BYTES)
    for _ in run(partial(average, step, rows), ((graph.ids[part], graph.places[part, : step.k]) for part in parts)):
        pass


def store(X: Vectors, target: Path) -> StoredRows:
    """Write rows to a file, as a segment with the ids 0, 1, …."""
    writer = RowWriter(target, *X.shape, X.dtype)
    writer.add(np.arange(len(X)), X)
    writer.close()
    return StoredRows([(str(target), map_rows(target, X.shape, X.dtype.name)[1])])


def clusters(n: int, dim: int) -> Vectors:
    """Unit vectors (n, dim) in clusters near a subspace of LATENT dimensions, as vectors of pictures are."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(n // CLUSTER_ROWS + 1, LATENT)).astype(np.float32)
    Z = centres[random.integers(0, len(centres), n)] + 0.5 * random.normal(size=(n, LATENT)).astype(np.float32)
    X = Z @ random.normal(size=(LATENT, dim)).astype(np.float32) + random.normal(size=(n, dim)).astype(np.float32)
    return L2().transform(X)


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
    return seconds(lambda: feature.describe(prepared))[0] / TIMED


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    """The time of a call, and the CPU time of this process."""
    start, used = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start, time.process_time() - used


if __name__ == "__main__":
    main()
