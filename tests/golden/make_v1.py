"""Made `tests/golden/v1`, a collection of catalogue format 1, judgements format 1 and model format 1.

Kept to show what is in it. Never run it again on the same folder: files of a released format are loaded as they were
written, for ever. A new format gets a script and a folder of its own.
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
    """The row of the i-th item: i + j / 8 in column j; exact at half precision."""
    return np.arange(len(IDS))[:, None] + np.arange(dim) / 8


def make(folder: Path) -> None:
    """Five items: one dead, one with two paths, one with a name that is not Unicode; a fitted space; labels; a skip."""
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
