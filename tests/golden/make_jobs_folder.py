"""Generated `tests/golden/jobs_folder`: the folder `jobs` of a collection in the format of services before 0.2.0.

The folder has one JSON file per job, and the lock. This script documents its content. It ran on commit 1133ef1; the
module that it imports no longer exists. Never run it again on the same folder; see make_v1.py.
"""

import sys
from pathlib import Path

FAILED = {"kind": "SpecError", "message": "No feature named 'größe \udcff'."}


def make(folder: Path) -> None:
    """Create a finished job, a failed job, a job that was running when its service was killed, and a waiting job."""
    from lookalike.server.job_store import Job, JobStore

    folder.mkdir()
    store = JobStore(folder)
    add = {"folder": "/photos/größe \udcff"}
    ended = {"started": 1.6e9, "ended": 1.6e9 + 60.25, "attempts": 1}
    store.write(Job(3, "add", add, "anna", 1.6e9, "done", **ended, message="4 added.", result={"added": 4}))
    store.write(Job(7, "fit", {"spec": "x"}, "ben", 1.7e9, "failed", **ended, message="No.", error=FAILED))
    store.write(Job(8, "refresh", {}, "größe \udcff", 1.7e9 + 1, "running", started=1.7e9 + 2, attempts=2))
    store.write(Job(12, "remove", {"items": ["0" * 16]}, "anna", 1.7e9 + 3))
    store.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
