"""Generated `tests/golden/v8`: a job ledger of format 1. The catalogue and the judgements have the formats of v7.

This script documents the content. Never run it again on the same folder; see make_v1.py.
"""

import sys
from contextlib import closing
from pathlib import Path

from lookalike.store.jobs import JobLedger

NAME = "größe \udcff"


def make(folder: Path) -> None:
    """Create three jobs. The first was removed, and the last has not ended."""
    folder.mkdir()
    with closing(JobLedger(folder, bool)) as ledger:
        for ended in (1.0, 2.5, None):
            ledger.add({"kind": "add", "arguments": {"folder": f"/{NAME}"}, "author": NAME, "ended": ended})
        ledger.remove([1])
    (folder / "jobs.lock").unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
