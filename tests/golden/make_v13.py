"""Generated `tests/golden/v13` with the catalogue format that has the text in pictures and a table of its words.

This script documents the content. Never run it again on the same folder; see make_v1.py.
"""

import sys
from pathlib import Path

from lookalike.store.directory import Store
from lookalike.store.items import Item


def make(folder: Path) -> None:
    """Create three items: with text, without text, and one in which no text was looked for."""
    store = Store(folder, create=True)
    with store.writer(), store.transaction():
        store.items.add([Item(item, [], 100, 640, 480, "jpeg", 1.5e9, None) for item in (3, 141, 2**63 - 1)])
        store.items.link([(f"/photos/{item}.jpg", 100, 1, item) for item in (3, 141, 2**63 - 1)])
        store.items.set_texts({3: "Café du Marché\nopen 9-12", 141: ""})
        store.items.set_home("/golden/v13")
    store.close()
    for name in ("lock", "reserve"):
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
