"""Made `tests/golden/v4`, whose judgements have format 4: pictures that are no duplicates of each other.

Kept to show what is in it. Never run it again on the same folder; see make_v1.py.
"""

import sys
from pathlib import Path

from lookalike.store.directory import Store

LAST = 2**63 - 1


def make(folder: Path) -> None:
    """The catalogue is empty: judgements stand alone."""
    store = Store(folder, create=True)
    said = store.judgements
    said.add_labels([(3, "cat")], author="anna", source="csv")
    said.not_duplicates.add([LAST, 3, 141], author="größe \udcff")
    said.not_duplicates.add([7], author="ben")
    store.close()
    (folder / "lock").unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
