"""The time of a search by a word in a large collection, and the time that kinds add to the network.

    python benchmarks/words_speed.py [--pictures 1000000] [--data DIR] [--rounds 15]

Prints medians, with the fastest and the slowest round; other processes make the wall time longer, but hardly the CPU
time. The collection is synthetic: random ids and kinds, and paths such as `2024/03 Family/IMG_0012345.jpg`; one picture
in a hundred is in a folder named Beach. A search scans the kinds of all pictures and looks words up in a table of the
words in paths, which are also measured alone. With `--data`, the network runs on the pictures of corel1k
with and without the part that recognizes kinds, alternately; the time of a batch is the shortest of five. `add` also
reads pictures and writes, so it slows down less.
"""

import argparse
import sqlite3
import statistics
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import onnx
from onnx.utils import Extractor

from lookalike import Collection
from lookalike.classes import Words
from lookalike.collection.chain import DESCRIBE_BATCH, Prepare
from lookalike.features.efficientnet import build, find_weights
from lookalike.features.inference import open_session
from lookalike.features.kinds import encode_kinds
from lookalike.features.pth import read_pth
from lookalike.images.sources import walk
from lookalike.images.workers import Read, ReadPool
from lookalike.index.kinds import score_kinds
from lookalike.registry import create
from lookalike.store.items import Item
from lookalike.text import human_bytes, split_words

BATCH = 50_000
"""Pictures per segment and transaction."""
QUERIES = ("elephant", "beach", "mountain lake")
FOLDER = "/photos"
CLOCKS = ("wall time", "CPU time")


def main() -> None:
    """Run the cases given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=1_000_000, help="0 skips the search")
    parser.add_argument("--data", type=Path, help="folder with corel1k/corel1k.tar")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.pictures:
            searching(Path(folder) / "collection", options.pictures, options.rounds)
        if options.data:
            with tarfile.open(options.data / "corel1k/corel1k.tar") as archive:
                archive.extractall(Path(folder) / "pictures", filter="data")
            recognizing(Path(folder) / "pictures")


def searching(path: Path, n: int, rounds: int) -> None:
    """Time searches, and their parts."""
    with make_collection(path, n) as collection:
        store, kinds = collection._store, collection._spaces.kinds
        assert kinds is not None
        blocks = store.vectors.blocks(kinds.name)
        with closing(sqlite3.connect(path / "catalogue.sqlite")) as db:
            (size,) = db.execute("SELECT sum(length(block)) FROM path_words_data").fetchone()
        print(f"{n:,} pictures, table of the words in paths: {human_bytes(size)}, {size / n:.0f} bytes per picture")
        for query in QUERIES:
            terms = Words.load().read(query)
            weights = np.array([term.weights for term in terms], np.float32)
            parts: dict[str, Callable[[], object]] = {
                "search": lambda query=query: collection.search(words=query),  # type: ignore[misc]
                "kinds": lambda weights=weights: [score_kinds(block.X, weights) for block in blocks],  # type: ignore[misc]
                "paths": lambda terms=terms: [  # type: ignore[misc]
                    store.items.with_path_words([[word] for word in split_words(term.text)]) for term in terms
                ],
            }
            times = alternate(parts, rounds)
            for place, kind in enumerate(CLOCKS):
                taken = {name: [one[place] for one in them] for name, them in times.items()}
                print(f"{query}, {n:,} pictures, {len(blocks)} segments, {kind}: {show(taken)}", flush=True)


@contextmanager
def make_collection(path: Path, n: int) -> Iterator[Collection]:
    """Yield a collection of n pictures with random kinds, and without other vectors."""
    random = np.random.default_rng(0)
    some_kinds = encode_kinds(random.dirichlet(np.full(1000, 0.01), 5_000).astype(np.float32))
    with Collection(path, create=True) as collection:
        store = collection._store
        with store.writer():
            collection._spaces.create(["deep-plain"])
            assert collection._spaces.kinds is not None
            with store.transaction():
                store.items.add_source(FOLDER)
            for start in range(0, n, BATCH):
                ids = np.unique(random.integers(1, 2**63, min(BATCH, n - start)))
                rows = random.permutation(some_kinds)[np.arange(len(ids)) % len(some_kinds)]
                pending = store.vectors.write(collection._spaces.kinds.name, ids, rows)
                paths = [
                    f"{FOLDER}/{2000 + i % 25}/{1 + i % 12:02} {'Beach' if i % 100 == 0 else 'Family'}/IMG_{i:07}.jpg"
                    for i in range(start, start + len(ids))
                ]
                with store.transaction():
                    store.items.add([Item(i, [], 1, 1, 1, "jpeg", 0.0, None) for i in ids.tolist()])
                    store.items.link([(name, 1, 1, i) for name, i in zip(paths, ids.tolist(), strict=True)])
                    store.vectors.commit(pending)
        yield collection


def recognizing(folder: Path) -> None:
    """Time the network with and without kinds, on each batch of pictures."""
    feature = create("feature", "efficientnet()")
    with ReadPool(Prepare([feature]), side=feature.side) as pool:
        pictures = [one.parts[0] for one in pool.map(walk([folder], on_skip=print)) if isinstance(one, Read)]
    whole = onnx.load_from_string(build(read_pth(find_weights()), feature.pool, feature.p))
    session = open_session(Extractor(whole).extract_model(["pixels"], ["row"]).SerializeToString())
    times: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
    for start in range(0, len(pictures) - DESCRIBE_BATCH + 1, DESCRIBE_BATCH):
        batch = pictures[start : start + DESCRIBE_BATCH]
        parts: dict[str, Callable[[], object]] = {
            "without": lambda batch=batch: session.run(["row"], {"pixels": np.stack(batch)}),  # type: ignore[misc]
            "with": lambda batch=batch: feature.recognize(batch),  # type: ignore[misc, attr-defined]
        }
        for name, one in alternate(parts, 5, reverse=start // DESCRIBE_BATCH % 2 == 1).items():
            times[name].append((min(wall for wall, _ in one), min(cpu for _, cpu in one)))
    for place, kind in enumerate(CLOCKS):
        taken = {name: [one[place] for one in them] for name, them in times.items()}
        ratios = [b / a for a, b in zip(taken["without"], taken["with"], strict=True)]
        print(
            f"network, batches of {DESCRIBE_BATCH}, {kind}: {show(taken)}; median ratio {statistics.median(ratios):.3f}"
        )


def alternate(
    parts: dict[str, Callable[[], object]], rounds: int, *, reverse: bool = False
) -> dict[str, list[tuple[float, float]]]:
    """Wall and CPU seconds of each round, after a first one that does not count."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in parts}
    for number in range(rounds + 1):
        for name in sorted(parts, reverse=reverse):
            start, cpu = time.perf_counter(), time.process_time()
            parts[name]()
            if number:
                times[name].append((time.perf_counter() - start, time.process_time() - cpu))
    return times


def show(times: dict[str, list[float]]) -> str:
    """Return medians, minima and maxima as text, in milliseconds."""
    return ", ".join(
        f"{name} {1e3 * statistics.median(one):.1f} ms ({1e3 * min(one):.1f} to {1e3 * max(one):.1f})"
        for name, one in times.items()
    )


if __name__ == "__main__":
    main()
