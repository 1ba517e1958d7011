"""Cost of the map, and how well it preserves neighbourhoods.

    python benchmarks/map_speed.py --data DIR [--points 1000,5000]

Each line of output has the number of points, the CPU seconds on one core, and the share of pictures whose nearest
neighbour has the same class, on the map and in the 1,280 dimensions of the network. The pictures are from Corel-5k,
which has 50 classes.
"""

import argparse
import io
import tarfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.neighbors import NearestNeighbors

from lookalike.index.layout import lay_out
from lookalike.registry import create


def main() -> None:
    """Print one line per number of points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--points", default="1000,5000")
    options = parser.parse_args()
    numbers = [int(number) for number in options.points.split(",")]
    X, y = read(Path(options.data) / "corel5k" / "corel5k.tar", max(numbers))
    for n in numbers:
        began = time.process_time()
        places = lay_out(X[:n])
        seconds = time.process_time() - began
        print(f"{n}  {seconds:.1f} s  map {kept(places, y[:n]):.3f}  network {kept(X[:n], y[:n]):.3f}", flush=True)


def read(path: Path, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and classes of n random pictures."""
    feature = create("feature", "efficientnet()")
    with tarfile.open(path) as archive:
        members = [member for member in archive if member.name.lower().endswith((".jpg", ".jpeg"))]
        chosen = np.random.default_rng(0).permutation(len(members))[:n]
        rows, labels = [], [Path(members[i].name).parent.name for i in chosen]
        for start in range(0, len(chosen), 32):
            files = [archive.extractfile(members[i]) for i in chosen[start : start + 32]]
            pictures = [Image.open(io.BytesIO(file.read())).convert("RGB") for file in files if file is not None]
            rows.append(feature.extract([np.asarray(picture) for picture in pictures]))
    return np.concatenate(rows), np.array(labels)


def kept(X: np.ndarray, y: np.ndarray) -> float:
    """The share of rows whose nearest other row has the same label."""
    nearest = NearestNeighbors(n_neighbors=2).fit(X).kneighbors(X, return_distance=False)[:, 1]
    return float((y[nearest] == y).mean())


if __name__ == "__main__":
    main()
