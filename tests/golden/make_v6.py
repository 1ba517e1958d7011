"""Generated `tests/golden/v6` with catalogue format 6: the collection's path, and pictures inside and outside of it.

This script documents the content. Never run it again on the same folder; see make_v1.py.
"""

import sys
from pathlib import Path

import numpy as np

from lookalike.store.directory import Store
from lookalike.store.items import Item

IDS = np.array([3, 141, 2**63 - 1])
HOME = "/golden/v6"
"""A path that exists on no machine, so that the collection is detected as moved when it is opened."""


def make(folder: Path) -> None:
    """Create a space and three items: inside the collection, at a path with a similar prefix, inside and outside."""
    store = Store(folder, create=True)
    with store.writer():
        with store.transaction():
            store.vectors.create_space("color()", ["color()"])
        pending = store.vectors.write("color()", IDS, np.arange(12, dtype=np.float16).reshape(3, 4))
        with store.transaction():
            store.items.add([Item(int(item), [], 100, 640, 480, "jpeg", 1.5e9, None) for item in IDS])
            store.items.link([(f"{HOME}/sent/a \udcff.jpg", 100, 1, 3), (f"{HOME}2/b.jpg", 100, 1, 141)])
            store.items.link([(path, 100, 1, 2**63 - 1) for path in (f"{HOME}/sent/c.jpg", "/photos/c.jpg")])
            for source in (f"{HOME}/sent", "/photos"):
                store.items.add_source(source)
            store.vectors.commit(pending)
        with store.transaction():
            store.items.move(HOME)
    store.close()
    (folder / "lock").unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
