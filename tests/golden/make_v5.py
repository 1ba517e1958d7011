"""Generated `tests/golden/v5` with catalogue format 5: measured recalls of codes, and pools and structures as before.

This script documents the content. Never run it again on the same folder; see make_v1.py.
"""

import sys
from pathlib import Path

import numpy as np

from lookalike.encode.whiten import L2
from lookalike.store import models
from lookalike.store.derived import Recall
from lookalike.store.directory import Store
from lookalike.store.items import Item

IDS = np.array([3, 141, 2**63 - 1])


def make(folder: Path) -> None:
    """Create three items, a space with a negative pool and an index, and a space of codes with its recall."""
    store = Store(folder, create=True)
    with store.writer():
        with store.transaction():
            store.vectors.create_space("color()", ["color()"])
            for name, step in (("told", "l2()"), ("codes", "itq(bits=16)")):
                store.vectors.create_space(name, ["color()", step], base="color()")
        X = np.arange(12, dtype=np.float32).reshape(3, 4)
        pending = store.vectors.write("color()", IDS, X.astype(np.float16))
        with store.transaction():
            store.items.add([Item(int(item), [], 100, 640, 480, "jpeg", 1.5e9, None) for item in IDS])
            store.vectors.commit(pending)
        temps = [store.vectors.new_file("models", ".npz") for _ in range(2)]
        for temp in temps:
            models.save(temp, L2())
        told = store.vectors.write("told", IDS, L2().transform(X))
        coded = store.vectors.write("codes", IDS, np.array([[1, 2], [3, 4], [5, 255]], np.uint8))
        index = store.vectors.new_file("indexes", ".faiss")
        index.write_bytes(b"not a real index")
        with store.transaction():
            pools = [("/others \udcff", np.array([7, 8])), (None, IDS[:1])]
            store.vectors.replace("told", [told], model=store.vectors.put_in_place(temps[0]), fitted_on=3, pools=pools)
            store.vectors.replace("codes", [coded], model=store.vectors.put_in_place(temps[1]), fitted_on=3)
            store.vectors.structures.set(
                "told", "points", store.vectors.put_in_place(index, "hnsw-5.faiss"), recall=0.75
            )
            store.vectors.structures.set_recall("codes", Recall(0.875, 3))
    store.close()
    (folder / "lock").unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
