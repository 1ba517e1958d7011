"""Generated `tests/golden/v14`: judgements of format 7, with a saved search. There is no catalogue.

This script documents the content. Never run it again on the same folder; see make_v1.py.
"""

import sys
from contextlib import closing
from pathlib import Path

from lookalike.store.database import create_database
from lookalike.store.judgements import Judgements
from lookalike.store.schema import JUDGEMENTS

NAME = "größe \udcff"
QUERY = {"words": ["größe"], "filter": {"path": f"*{NAME}*"}, "k": 50}


def make(folder: Path) -> None:
    """Save two searches, of which one was seen again."""
    folder.mkdir()
    file = folder / "judgements.sqlite"
    create_database(file, JUDGEMENTS)
    judgements = Judgements(file)
    with closing(judgements):
        judgements.saved_searches.add("empty", {}, newest=0.0, author="anna")
        saved = judgements.saved_searches.add(NAME, QUERY, newest=1.5, author=NAME)
        judgements.saved_searches.look(saved, 1e9)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
