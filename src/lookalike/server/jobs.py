"""The job queues: long-running tasks that run in separate processes and survive crashes.

Jobs that write to the collection wait in one queue, all others in a second one. Each queue runs one job at a time.
Every change of a job has a number, so that clients can request newer changes. If the process of a job or the service is
killed, the job starts again and resumes from its last commit.

Jobs run at the lowest priority and with half of the threads, so that they do not slow down searches.
"""

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from lookalike.collection import CORES, JobLedger
from lookalike.errors import LockedError, StoreError
from lookalike.server.settings import job_environment
from lookalike.system import OWN_GROUP

log = logging.getLogger("lookalike.server")

Queue: TypeAlias = Literal["write", "read"]

QUEUES: dict[str, Queue] = {
    "add": "write",
    "refresh": "write",
    "remove": "write",
    "undo": "write",
    "fit": "write",
    "map": "read",
    "duplicates": "read",
    "classify": "read",
    "evaluate": "read",
    "backup": "read",
}
"""The queue of each kind of job."""

State: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled")

MAX_ENDED = 200
"""Maximum number of stored jobs that have ended; older ones are removed."""
ATTEMPTS = 3
"""Maximum number of times that a job is started if its process is killed."""
MAX_QUEUED = 100
REPEAT_S = 60.0
"""Time during which `ensure` returns a job that has ended, instead of starting it again."""
END_S = 5.0
"""Time after which a terminated process is killed."""

_START = "import sys; sys.path[:] = sys.argv[1:]; from lookalike.server.job_worker import main; main()"
"""The code that a job's process runs. `multiprocessing` would run the caller's main script again."""


@dataclass
class Job:
    """A job and its state."""

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
        """Whether the job has ended."""
        return self.state in ENDED

    def fields(self) -> dict[str, Any]:
        """Return the fields to store. Progress is not stored: after a restart, a job resumes from its last commit."""
        return {name: value for name, value in vars(self).items() if name not in NOT_STORED}

    @staticmethod
    def read(id: int, fields: dict[str, Any]) -> "Job | None":
        """Return the job with these stored fields; None if they are not those of a job."""
        try:
            job = Job(id, **fields)
        except TypeError:
            return None
        return job if isinstance(job.arguments, dict) and isinstance(job.kind, str) else None


NOT_STORED = ("id", "stage", "done", "total", "eta_s", "change")


class Jobs:
    """The jobs of a collection; `start` resumes unfinished ones.

    Parameters
    ----------
    collection : Directory of the collection.
    roots : Allowed folders.
    sources : Folders that were added before. Links are followed only into the real folders of `roots` and `sources`.
    backup_dir : Directory for backups; None: backup jobs fail.
    cluster : Address of the cluster that jobs use; None: this machine.
    device : Device that jobs use: auto, cpu or cuda.
    """

    def __init__(
        self,
        collection: Path,
        roots: Sequence[Path] = (),
        sources: Sequence[str] = (),
        backup_dir: Path | None = None,
        cluster: str | None = None,
        device: str = "auto",
    ):
        self._collection = collection
        self._cluster, self._device = cluster, device
        self._roots = [str(root) for root in roots]
        self._within = [*self._roots, *sources]
        self._backup_dir = backup_dir
        self._ledger: JobLedger | None = None
        self._error: StoreError | None = None  # why jobs are disabled
        self._jobs: dict[int, Job] = {}
        self._changed = threading.Condition()  # its lock protects all attributes
        self._change = time.time_ns() // 1_000  # increases across restarts, for clients that reconnect
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._threads: list[threading.Thread] = []
        self._closing = False

    def start(self) -> None:
        """Load the stored jobs and start the queues. If jobs cannot be stored, `submit` raises the reason."""
        try:
            self._ledger = JobLedger(self._collection, lambda fields: Job.read(0, fields) is not None)
            stored = self._ledger.read()
        except StoreError as error:
            self._error = error
            log.warning("Jobs are disabled: %s", error)
            return
        for fault in self._ledger.faults:
            log.warning("%s", fault)
        for number, fields in stored.items():
            job = Job.read(number, fields)
            if job is None or job.kind not in QUEUES:  # stored by a later version
                continue
            if not job.is_over:
                job.state = "queued"
                job.message = "The job was interrupted and will resume." if job.attempts else ""
            self._jobs[job.id] = job
            self._announce(job)
        for queue in dict.fromkeys(QUEUES.values()):
            thread = threading.Thread(target=self._work, args=(queue,), name=f"jobs-{queue}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def submit(self, kind: str, arguments: dict[str, Any], author: str) -> Job:
        """Store and queue a job, and return it. If an equal job is already queued, return that one."""
        with self._changed:
            return self._submit(kind, arguments, author)

    def ensure(self, kind: str, arguments: dict[str, Any], author: str) -> Job | None:
        """Like `submit`, but also return an equal job that is running or has just ended; None if jobs are disabled.

        This is for requests that only read, which must also work if the collection is read-only.
        """
        with self._changed:
            for job in reversed(self._jobs.values()):
                recent = job.ended is not None and time.time() - job.ended < REPEAT_S
                if (job.kind, job.arguments) == (kind, arguments) and (not job.is_over or recent):
                    return job
            try:
                return self._submit(kind, arguments, author)
            except StoreError:
                return None

    def cancel(self, id: int) -> Job | None:
        """Cancel a job; None if it does not exist. A job that has ended does not change."""
        with self._changed:
            job = self._jobs.get(id)
            if job is not None and not job.is_over:
                self._end(job, "cancelled", "The job was cancelled. Committed changes are kept.")
                process = self._processes.get(id)
                if process is not None:
                    process.terminate()
            return job

    def get(self, id: int) -> Job | None:
        """Return the job with this id; None if it does not exist."""
        return self._jobs.get(id)

    def all(self) -> list[Job]:
        """Return all jobs, newest first."""
        with self._changed:
            return list(reversed(self._jobs.values()))

    @property
    def last(self) -> int:
        """Number of the last change."""
        return self._change

    def changed(self, since: int) -> list[Job]:
        """Return the jobs that changed after the change with this number, in order."""
        if self._change <= since:
            return []
        with self._changed:
            return sorted((job for job in self._jobs.values() if job.change > since), key=lambda job: job.change)

    def counts(self) -> dict[str, int]:
        """Return the numbers of queued and running jobs."""
        states = [job.state for job in self.all()]
        return {state: states.count(state) for state in ("queued", "running")}

    def close(self) -> None:
        """Stop the queues and end the processes. Unfinished jobs resume when the service starts again."""
        with self._changed:
            self._closing = True
            for process in self._processes.values():
                process.terminate()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(2 * END_S)
        if self._ledger is not None:
            self._ledger.close()

    def _submit(self, kind: str, arguments: dict[str, Any], author: str) -> Job:
        if self._error is not None:
            raise self._error
        assert self._ledger is not None, "call start first"
        waiting = [job for job in self._jobs.values() if job.state == "queued"]
        for job in waiting:
            if (job.kind, job.arguments) == (kind, arguments):
                return job
        if len(waiting) >= MAX_QUEUED:
            raise LockedError(f"The queue is full ({MAX_QUEUED} jobs). Cancel a job, or try again later.")
        job = Job(0, kind, arguments, author, time.time())
        job.id = self._ledger.add(job.fields())
        self._jobs[job.id] = job
        self._remove_oldest(self._ledger)
        self._announce(job)
        return job

    def _remove_oldest(self, ledger: JobLedger) -> None:
        """Remove the oldest jobs that have ended if there are more than MAX_ENDED."""
        ended = [job.id for job in self._jobs.values() if job.is_over]
        oldest = ended[: max(0, len(ended) - MAX_ENDED)]
        try:
            if oldest:
                ledger.remove(oldest)
        except StoreError as error:  # the next job tries again
            log.warning("%s", error)
            return
        for number in oldest:
            del self._jobs[number]

    def _work(self, queue: Queue) -> None:
        """Run the jobs of a queue one after the other; runs in its own thread."""
        while True:
            with self._changed:
                while not self._closing and (job := self._next(queue)) is None:
                    self._changed.wait()
                if self._closing:
                    return
                assert job is not None
                job.attempts += 1
                job.state, job.started, job.message = "running", time.time(), ""
                self._save(job)
                self._announce(job)
                try:
                    process = self._spawn()
                except OSError as error:
                    self._end(job, "failed", f"Cannot start a process for the job: {error.strerror}.", kind="OSError")
                    continue
                self._processes[job.id] = process
            try:
                self._watch(job, process)
            finally:
                with self._changed:
                    del self._processes[job.id]

    def _next(self, queue: Queue) -> Job | None:
        return next((job for job in self._jobs.values() if job.state == "queued" and QUEUES[job.kind] == queue), None)

    def _spawn(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", _START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=job_environment(CORES),
            **OWN_GROUP,  # Ctrl-C reaches only the service, which then ends the process
        )

    def _watch(self, job: Job, process: "subprocess.Popen[str]") -> None:
        """Read the messages of a job's process until it ends, and update the job."""
        assert process.stdin is not None
        assert process.stdout is not None
        order = {
            "collection": str(self._collection),
            "within": self._within,
            "cluster": self._cluster,
            "device": self._device,
            "kind": job.kind,
            "arguments": self._arguments(job) | {"author": job.author},
        }
        message: dict[str, Any] = {}
        report = self._progress(job)
        try:
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()  # not closed: the process ends when its input closes
            for line in process.stdout:
                message = json.loads(line)
                if "stage" in message:
                    report(message)
        except (OSError, ValueError):  # the process was killed in the middle of a line
            message = {}
        self._wait(process)
        with self._changed:
            if job.is_over or self._closing:  # cancelled, or resumed by the next service
                return
            if "result" in message:
                job.result = message["result"]
                self._end(job, "done", message["message"])
            elif "error" in message:
                if "trace" in message:
                    log.error("Job %d: %s", job.id, message["trace"])
                self._end(job, "failed", message["error"]["message"], kind=message["error"]["kind"])
            elif job.attempts < ATTEMPTS:
                log.warning(
                    "Job %d: the process ended with exit code %s. The job will resume.", job.id, process.returncode
                )
                job.state, job.message = "queued", "The job's process was killed. The job will resume."
                self._save(job)
                self._announce(job)
            else:
                self._end(
                    job,
                    "failed",
                    f"The job's process was killed {ATTEMPTS} times. The machine may have too little memory.",
                    kind="Killed",
                )

    def _arguments(self, job: Job) -> dict[str, Any]:
        """Return the arguments of a job, with the folders that the service may use now."""
        if job.kind == "backup" and self._backup_dir is not None:
            return job.arguments | {"target": str(self._backup_dir)}
        if job.kind == "add" and not job.arguments.get("uploads"):
            return job.arguments | {"roots": self._roots}
        return job.arguments

    def _progress(self, job: Job) -> Callable[[dict[str, Any]], None]:
        """Return a function that updates a job from a progress message of its process."""
        started: dict[str, float] = {}

        def report(message: dict[str, Any]) -> None:
            stage, done, total = str(message["stage"]), int(message["done"]), message["total"]
            seconds = time.monotonic() - started.setdefault(stage, time.monotonic())
            with self._changed:
                job.stage, job.done, job.total = stage, done, total
                job.eta_s = (
                    round(seconds / done * (total - done), 1) if done and total is not None and seconds else None
                )
                if not job.is_over:
                    self._announce(job)

        return report

    def _end(self, job: Job, state: Any, message: str, *, kind: str | None = None) -> None:
        job.state, job.ended, job.message, job.eta_s = state, time.time(), message, None
        job.error = None if kind is None else {"kind": kind, "message": message}
        self._save(job)
        self._announce(job)

    def _save(self, job: Job) -> None:
        """Store the job. If that fails, only log the error: the job may run again after a restart."""
        assert self._ledger is not None
        try:
            self._ledger.write(job.id, job.fields())
        except StoreError as error:
            log.warning("Job %d: %s", job.id, error)

    def _announce(self, job: Job) -> None:
        """Give a change of a job its number, and wake waiting threads."""
        with self._changed:
            self._change += 1
            job.change = self._change
            self._changed.notify_all()

    def _wait(self, process: "subprocess.Popen[str]") -> None:
        """Wait until a process ends, and close its pipes."""
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # the process has ended without reading its input
                    continue
