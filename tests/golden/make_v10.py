"""Generated `tests/golden/v10` with the catalogue format that has the metadata of cameras.

This script documents the content. Never run it again on the same folder; see make_v1.py.
"""

import sys
from pathlib import Path

from lookalike.store.directory import Store
from lookalike.store.items import Item
from lookalike.types import Exif

FULL = Exif("Canon EOS 5D", "größe", 0.005, 2.8, 400, 50.0, -33.865143, 151.2099)


def make(folder: Path) -> None:
    """Create four items: all metadata, some, none, and metadata that was never read."""
    store = Store(folder, create=True)
    with store.writer(), store.transaction():
        store.items.add([Item(item, [], 100, 640, 480, "jpeg", 1.5e9, None) for item in (3, 141, 142, 2**63 - 1)])
        store.items.link([(f"/photos/{item}.jpg", 100, 1, item) for item in (3, 141, 142, 2**63 - 1)])
        store.items.set_exif({3: FULL, 141: Exif(camera="Pixel 8"), 142: Exif()})
        store.items.set_home("/golden/v10")
    store.close()
    for name in ("lock", "reserve"):
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
