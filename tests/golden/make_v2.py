"""Generated `tests/golden/v2` with judgements format 2: a finished session and an unfinished one.

This script documents the content. Never run it again on the same folder; see make_v1.py.
"""

import sys
from pathlib import Path

import numpy as np

from lookalike.store.directory import Store
from lookalike.store.sessions import ExternalExample

LAST = 2**63 - 1
NAME = "größe \udcff"


def make(folder: Path) -> None:
    """Create judgements, with an empty catalogue."""
    store = Store(folder, create=True)
    log = store.judgements.sessions
    finished = log.start("small", author="anna", name=NAME, marks={3: "relevant"})
    log.mark(finished, {141: "irrelevant"}, author="anna")
    log.mark(finished, {LAST: "relevant"}, author="ben")
    store.judgements.finish(finished, NAME)
    outsider = ExternalExample(True, (np.arange(3) / 8).astype(np.float32), "color()", 7, "/x.jpg")
    begun = log.start("small", author="ben", name=None, marks={}, external_examples=[outsider])
    log.show(begun, [LAST], author="ben")
    log.mark(begun, {LAST: "relevant"}, author="ben")
    log.undo(begun, author="ben")
    log.mark(begun, {LAST: "skip"}, author="ben")
    store.close()
    (folder / "lock").unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
