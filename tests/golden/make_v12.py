"""Generated `tests/golden/v12` with the catalogue format that has a table of the words in paths.

This script documents the content. Never run it again on the same folder; see make_v1.py.
"""

import sys
from pathlib import Path

from lookalike.store.directory import Store
from lookalike.store.items import Item


def make(folder: Path) -> None:
    """Create three items: with two paths, with a name that is not Unicode, and with the largest id."""
    paths = [("/photos/Strände/Größe 12.JPG", 3), ("/photos/copy.jpg", 3), ("/photos/a \udcff b.jpg", 141)]
    store = Store(folder, create=True)
    with store.writer(), store.transaction():
        store.items.add([Item(item, [], 100, 640, 480, "jpeg", 1.5e9, None) for item in (3, 141, 2**63 - 1)])
        store.items.link([(path, 100, 1, item) for path, item in [*paths, ("/photos/wolves.jpg", 2**63 - 1)]])
        store.items.skip([("/photos/broken.jpg", 5, 1, "truncated")])
        store.items.set_home("/golden/v12")
    store.close()
    for name in ("lock", "reserve"):
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
