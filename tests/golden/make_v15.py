"""Generated `tests/golden/v15` with the catalogue format that has scaled rows.

This script documents the content. Never run it again on the same folder; see make_v1.py.
"""

import sys
from pathlib import Path

import numpy as np

from lookalike.scaled_rows import ScaledRows
from lookalike.store.directory import Store
from lookalike.store.items import Item

IDS = np.array([3, 141, 2**63 - 1])


def rows() -> ScaledRows:
    """Return three rows of 100 columns, of which the first is zero: two groups of columns per row."""
    return ScaledRows.encode(np.outer([0.0, 1.0, -3.0], np.arange(100) - 20.5).astype(np.float32))


def make(folder: Path) -> None:
    """Create three items with scaled rows, of which one is dead, and one more with half precision."""
    store = Store(folder, create=True)
    with store.writer(), store.transaction():
        store.items.add([Item(item, [], 100, 640, 480, "jpeg", 1.5e9, None) for item in (*IDS.tolist(), 7)])
        store.vectors.create_space("color()", ["color()"])
        store.vectors.commit(store.vectors.write("color()", IDS, rows()))
        store.vectors.remove([141])
        store.vectors.commit(store.vectors.write("color()", np.array([7]), np.ones((1, 100), np.float16)))
        store.items.set_home("/golden/v15")
    store.close()
    for name in ("lock", "reserve"):
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
