"""What was asked to be done, on the disk: one small JSON file a job, in COLLECTION/jobs.

In: jobs as they change. Out: the same after a restart. A file is written beside, fsynced and renamed, so that a job is
there as soon as its request is answered, and whole whatever happens. One service at a time keeps the ledger.
"""

import errno
import fcntl
import json
import os
import threading
from collections.abc import Container
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from lookalike.errors import FullError, LockedError, ReadOnlyError, StoreError

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
            self.folder.mkdir(exist_ok=True)
            self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise LockedError(f"Another service looks after the jobs of {collection}. Ask that one.") from None
        except OSError as error:
            self.close()
            raise translate(self.folder, error) from None

    def read(self, kinds: Container[str]) -> list[Job]:
        """Every job of these kinds that is on the disk, in the order they were asked for; the rest is passed over."""
        jobs = []
        for file in self.folder.glob("*.json"):
            try:
                job = Job(**json.loads(file.read_bytes()))
            except (OSError, ValueError, TypeError):
                continue
            ours = isinstance(job.id, int) and isinstance(job.arguments, dict) and job.kind in kinds
            if ours and file.name == f"{job.id}.json":
                jobs.append(job)
        return sorted(jobs, key=lambda job: job.id)

    def write(self, job: Job) -> None:
        """Have a job on the disk as it is now."""
        told = asdict(job)
        write_whole(self.folder / f"{job.id}.json", json.dumps({name: told[name] for name in KEPT}).encode())

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


def write_whole(target: Path, data: bytes) -> None:
    """A file that is complete and on the disk, or not there; its name outlasts a power cut, too."""
    part = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        try:
            with part.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            part.rename(target)
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise translate(target, error) from None


def translate(path: Path, error: OSError) -> StoreError:
    """An error of the disk, in our words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return FullError(f"No space left for {path}. What was there is safe. Free some space and try again.")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ReadOnlyError(f"{path} cannot be written: {error.strerror}. The collection can only be read here.")
    return StoreError(f"{path}: {error.strerror}.")
