"""Generated `tests/golden/v3` with judgements format 3: classes, a hierarchy, predictions and rejections.

This script documents the content. Never run it again on the same folder; see make_v1.py.
"""

import sys
from pathlib import Path

from lookalike.store.directory import Store

LAST = 2**63 - 1
NAME = "größe \udcff"


def make(folder: Path) -> None:
    """Create judgements, with an empty catalogue."""
    store = Store(folder, create=True)
    said = store.judgements
    said.add_labels([(3, "cat"), (LAST, NAME)], author="anna", source="csv")
    said.classes.add("cat", [141], author="ben")
    said.classes.add("fox", [], author="ben")
    said.classes.set_parents([("cat", "animal"), ("fox", "animal")])
    said.classes.update_settings(kind="second", reject=0.1)
    said.predictions.add([(7, "cat", 0.75), (8, NAME, 0.5), (9, "cat", 0.25)], space="small", model="second 6")
    said.predictions.confirm("cat", [9], author="anna")
    said.predictions.reject("cat", [7], author="anna")
    store.close()
    (folder / "lock").unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
