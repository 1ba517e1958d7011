"""Generated `tests/golden/v11`: judgements of format 6, with actions. There is no catalogue.

This script documents the content. Never run it again on the same folder; see make_v1.py.
"""

import sys
from contextlib import closing
from pathlib import Path

from lookalike.store.actions import Removed
from lookalike.store.database import create_database
from lookalike.store.judgements import Judgements
from lookalike.store.schema import JUDGEMENTS

NAME = "größe \udcff"


def make(folder: Path) -> None:
    """Create three actions: one that can be undone, one that was undone, and a removal. The fourth is an undo."""
    folder.mkdir()
    file = folder / "judgements.sqlite"
    create_database(file, JUDGEMENTS)
    judgements = Judgements(file)
    with closing(judgements):
        judgements.classes.add(NAME, [3, 2**63 - 1], author=NAME)
        deleted = judgements.classes.delete(NAME, author=NAME).action
        table = {"columns": ["id", "content"], "rows": [[141, {"hex": "ff"}]]}
        judgements.actions.record_removal(Removed({"items": table}, [f"/{NAME}"]), 1, author=NAME)
        judgements.actions.undo(deleted, author=NAME)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
