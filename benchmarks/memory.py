"""Peak memory while many small pictures are added and while a large collection is searched.

    python benchmarks/memory.py [--pictures 100000] [--rows 1000000] [--recipe deep]

Peaks are the total resident set sizes of this process and its reading processes in MB, sampled every 50 ms. For the
search, memory-mapped pages count as shared, so private memory shows whether the vectors were copied.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import psutil

from lookalike import Collection
from lookalike.store.items import Item


class Peak:
    """The peak memory of this process and its children while the block runs."""

    def __enter__(self) -> "Peak":
        self.resident = self.private = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._stop.wait(0.05):
            resident = private = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    info = process.memory_info()
                except psutil.NoSuchProcess:
                    continue
                resident += info.rss
                private += info.rss - info.shared
            self.resident = max(self.resident, resident / 1e6)
            self.private = max(self.private, private / 1e6)


def draw(folder: Path, n: int) -> None:
    noise = np.random.default_rng(0)
    for i in range(n):
        part = folder / f"{i // 1000:04}"
        part.mkdir(parents=True, exist_ok=True)
        small = noise.integers(0, 256, (4, 4, 3), np.uint8)
        cv2.imwrite(str(part / f"{i:07}.jpg"), cv2.resize(small, (64, 64), interpolation=cv2.INTER_CUBIC))


def adding(where: Path, n: int, recipe: str) -> None:
    draw(where / "pictures", n)
    start = time.perf_counter()
    with Peak() as peak, Collection(where / "collection", create=True) as collection:
        added = collection.add(where / "pictures", recipes=[recipe]).added
    print(f"add {added} pictures ({recipe}): peak {peak.resident:.0f} MB, {time.perf_counter() - start:.0f} s")


def searching(where: Path, n: int, dim: int = 256) -> None:
    """Measure searches in a collection of n synthetic unit vectors, which are written directly to the store."""
    random = np.random.default_rng(0)
    Collection(where / "large", create=True).close()
    with Collection(where / "large") as collection:
        store = collection._store
        with store.writer():
            collection._spaces.create(["color"])
            for start in range(0, n, 100_000):
                ids = np.arange(start, min(n, start + 100_000), dtype=np.int64)
                X = random.normal(size=(len(ids), dim)).astype(np.float32)
                X /= np.linalg.norm(X, axis=1, keepdims=True)
                pending = store.vectors.write("color()", ids, X)
                with store.transaction():
                    store.items.add([Item(int(i), [], 1, 1, 1, "jpeg", 0.0, None) for i in ids])
                    store.vectors.commit(pending)
    with Collection(where / "large") as collection, Peak() as peak:
        for i in range(20):
            results = collection.search(i, k=10)
            assert results[0].id == i
    size = n * dim * 4 / 1e6
    print(f"search {n} × {dim} ({size:.0f} MB of vectors): private memory at most {peak.private:.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--recipe", default="deep")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        searching(Path(temporary), options.rows)
        adding(Path(temporary), options.pictures, options.recipe)
