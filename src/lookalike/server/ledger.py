"""What was asked to be done, on the disk: one small JSON file a job, in COLLECTION/jobs.

In: jobs as they change. Out: the same after a restart. A file is written beside, fsynced and renamed, so that a job is
there as soon as its request is answered, and whole whatever happens. One service at a time keeps the ledger.
"""

import json
import os
from collections.abc import Container
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from lookalike.atomic_files import atomic_write, remove_unfinished, try_lock, write_errors
from lookalike.errors import LockedError

State: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled")

FOLDER = "jobs"
KEEP = 200
"""Jobs that have ended and are still listed."""


@dataclass
class Job:
    """Something long that was asked for, and how it stands."""

    id: int
    kind: str
    arguments: dict[str, Any]
    author: str
    created: float  # POSIX seconds
    state: State = "queued"
    started: float | None = None
    ended: float | None = None
    attempts: int = 0
    message: str = ""
    error: dict[str, str] | None = None
    result: dict[str, Any] | None = None
    stage: str = ""
    done: int = 0
    total: int | None = None
    eta_s: float | None = None
    change: int = field(default=0, compare=False)  # the number of its last change, in this process

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ENDED


KEPT = [name for name in Job.__dataclass_fields__ if name not in ("stage", "done", "total", "eta_s", "change")]
"""What is on the disk: how far a job has come is not, it begins again from what it has committed."""


class Ledger:
    """The jobs of a collection. LockedError where another service keeps them."""

    def __init__(self, collection: Path):
        self.folder = collection / FOLDER
        self._lock = -1
        try:
            with write_errors(self.folder):
                self.folder.mkdir(exist_ok=True)
                self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
                if not try_lock(self._lock):
                    raise LockedError(f"Another service looks after the jobs of {collection}. Ask that one.")
                remove_unfinished(self.folder)
        except BaseException:
            self.close()
            raise

    def read(self, kinds: Container[str]) -> list[Job]:
        """Return every stored job of these kinds, sorted by number; damaged files are skipped."""
        jobs = [job for file in self.folder.glob("*.json") if (job := _read(file)) is not None and job.kind in kinds]
        return sorted(jobs, key=lambda job: job.id)

    def write(self, job: Job) -> None:
        """Have a job on the disk as it is now."""
        told = asdict(job)
        with atomic_write(self.folder / f"{job.id}.json") as part:
            part.write_text(json.dumps({name: told[name] for name in KEPT}))

    def forget(self, jobs: list[Job]) -> list[Job]:
        """Remove the oldest of those that have ended, beyond KEEP; returns them."""
        over = [job for job in jobs if job.is_over]
        gone = over[: max(0, len(over) - KEEP)]
        for job in gone:
            (self.folder / f"{job.id}.json").unlink(missing_ok=True)
        return gone

    def close(self) -> None:
        """Let another one keep it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def damaged_jobs(collection: Path) -> list[Path]:
    """Return the job files that cannot be read."""
    return [file for file in sorted((collection / FOLDER).glob("*.json")) if _read(file) is None]


def _read(file: Path) -> Job | None:
    try:
        job = Job(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    ours = isinstance(job.id, int) and isinstance(job.arguments, dict) and isinstance(job.kind, str)
    return job if ours and file.name == f"{job.id}.json" else None
