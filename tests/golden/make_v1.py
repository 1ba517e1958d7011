"""Generated `tests/golden/v1`, a collection with catalogue format 1, judgements format 1 and model format 1.

This script documents the content of the collection. Never run it again on the same folder: files of a released
format must stay readable exactly as they were written. Add a new script and a new folder for a new format.
"""

import sys
from pathlib import Path

import numpy as np

from lookalike.encode.whiten import L2, PCA
from lookalike.store import models
from lookalike.store.directory import Store
from lookalike.store.items import Item

IDS = np.array([3, 141, 59_265, 2**62 + 1, 2**63 - 1])


def rows(dim: int) -> np.ndarray:
    """Return one row per item: i + j / 8 in column j of row i, which is exact at half precision."""
    return np.arange(len(IDS))[:, None] + np.arange(dim) / 8


def make(folder: Path) -> None:
    """Create five items, a fitted space, labels and a skipped file.

    One item is removed, one has two paths, and one has a name that is not valid Unicode.
    """
    store = Store(folder, create=True)
    with store.writer():
        with store.transaction():
            store.vectors.create_space("color()", ["color()"])
            store.vectors.create_space("small", ["color()", "pca(dim=2)", "l2()"], base="color()")
            store.items.add_source("/photos")
        for part in (slice(0, 3), slice(3, 5)):
            pending = store.vectors.write("color()", IDS[part], rows(6)[part].astype(np.float16))
            with store.transaction():
                store.items.add([_item(i) for i in range(len(IDS))[part]])
                store.vectors.commit(pending)
        X = np.random.default_rng(1).normal(size=(20, 6)).astype(np.float32)
        pca = PCA(dim=2).fit(X)
        temp = store.vectors.new_file("models", ".npz")
        models.save(temp, pca, L2())
        small = store.vectors.write("small", IDS, L2().transform(pca.transform(rows(6).astype(np.float32))))
        index = store.vectors.new_file("indexes", ".faiss")
        index.write_bytes(b"not a real index")
        with store.transaction():
            model = store.vectors.put_in_place(temp)
            store.vectors.replace("small", [small], model=model, fitted_on=20)
            store.vectors.structures.set("small", "points", store.vectors.put_in_place(index, "hnsw-1.faiss"))
            store.items.link([(f"/photos/{i}.jpg", 100 + i, 10**18 + i, int(IDS[i])) for i in range(len(IDS))])
            store.items.link([("/photos/copy \udcff.jpg", 100, 10**18, int(IDS[0]))])
            store.items.skip([("/photos/broken.jpg", 7, 8, "truncated")])
        with store.transaction():
            store.items.remove([int(IDS[2])])
            store.vectors.remove(IDS[2:3])
    store.judgements.add_labels([(int(IDS[0]), "cat"), (int(IDS[4]), "größe")], author="anna", source="csv")
    store.close()
    (folder / "lock").unlink()


def _item(i: int) -> Item:
    return Item(int(IDS[i]), [], 100 + i, 640 + i, 480, "jpeg", 1.5e9 + i, 1.4e9 if i == 1 else None)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
