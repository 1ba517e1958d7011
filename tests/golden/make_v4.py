"""Generated `tests/golden/v4` with judgements format 4: pictures marked as not duplicates of each other.

This script documents the content. Never run it again on the same folder; see make_v1.py.
"""

import sys
from pathlib import Path

from lookalike.store.directory import Store

LAST = 2**63 - 1


def make(folder: Path) -> None:
    """Create judgements, with an empty catalogue."""
    store = Store(folder, create=True)
    said = store.judgements
    said.add_labels([(3, "cat")], author="anna", source="csv")
    said.not_duplicates.add([LAST, 3, 141], author="größe \udcff")
    said.not_duplicates.add([7], author="ben")
    store.close()
    (folder / "lock").unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
