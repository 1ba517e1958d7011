"""Long work, one at a time, in a process of its own, and not lost when anything dies.

In: what somebody asks for. Out: jobs that are queued, run, end; each change has a number, by which those who watch tell
what is new. What writes the collection waits in one queue, what only computes in another. A job that was under way when
its process or the service was killed begins again: every verb goes on from what it has committed.
"""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from lookalike.errors import LockedError, StoreError
from lookalike.server.ledger import Job, Ledger
from lookalike.server.threads import unlimited

log = logging.getLogger("lookalike.server")

Lane: TypeAlias = Literal["write", "look"]

LANES: dict[str, Lane] = {
    "add": "write",
    "refresh": "write",
    "remove": "write",
    "fit": "write",
    "map": "look",
    "duplicates": "look",
    "classify": "look",
    "backup": "look",
}
"""The kinds of jobs, and the queue of each."""

ATTEMPTS = 3
"""How often a job is begun whose process dies: the third time it is not by accident."""

QUEUED = 100
"""Jobs that may wait, at most."""

AGAIN_S = 60.0
"""Before what was computed, or could not be, is computed again because somebody looks."""

END_S = 5.0
"""What a process that is asked to end has to do so."""

_START = "import sys; sys.path[:] = sys.argv[1:]; from lookalike.server.worker import main; main()"
"""What a process runs. `multiprocessing` would run the caller's main script again."""


class Jobs:
    """The jobs of a collection; `start` goes on with those that were not done.

    Parameters
    ----------
    collection : the collection's directory.
    roots : folders below which pictures may be added.
    sources : folders that were added before. Both are real folders, into which links may lead, and no farther.
    backup_dir : directory for backups; None: backup jobs fail.
    """

    def __init__(
        self,
        collection: Path,
        roots: Sequence[Path] = (),
        sources: Sequence[str] = (),
        backup_dir: Path | None = None,
    ):
        self._collection = collection
        self._roots = [str(root) for root in roots]
        self._within = [*self._roots, *sources]
        self._backup_dir = backup_dir
        self._ledger: Ledger | None = None
        self._trouble: StoreError | None = None  # why there are no jobs
        self._jobs: dict[int, Job] = {}
        self._changed = threading.Condition()  # and the lock of everything here
        self._change = time.time_ns() // 1_000  # goes on where an earlier service was, for those who reconnect
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._threads: list[threading.Thread] = []
        self._closing = False

    def start(self) -> None:
        """Read the ledger, queue what was not done, and begin. Where it cannot be kept, asking for a job says why."""
        try:
            self._ledger = Ledger(self._collection)
        except StoreError as error:
            self._trouble = error
            log.warning("There will be no jobs: %s", error)
            return
        for job in self._ledger.read(LANES):
            if not job.is_over:
                job.state = "queued"
                job.message = "It was interrupted, and goes on." if job.attempts else ""
            self._jobs[job.id] = job
            self._note(job)
        for lane in dict.fromkeys(LANES.values()):
            thread = threading.Thread(target=self._work, args=(lane,), name=f"jobs-{lane}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def submit(self, kind: str, arguments: dict[str, Any], author: str) -> Job:
        """Ask for a job; it is on the disk when this returns. One that waits already, and is the same, is returned."""
        with self._changed:
            return self._submit(kind, arguments, author)

    def ensure(self, kind: str, arguments: dict[str, Any], author: str) -> Job | None:
        """As `submit`, but one that runs, or ended a short while ago, will do, too; None where there can be none.

        For those who only look: that a collection can only be read must not keep them from reading it.
        """
        with self._changed:
            for job in reversed(self._jobs.values()):
                recent = job.ended is not None and time.time() - job.ended < AGAIN_S
                if (job.kind, job.arguments) == (kind, arguments) and (not job.is_over or recent):
                    return job
            try:
                return self._submit(kind, arguments, author)
            except StoreError:
                return None

    def cancel(self, id: int) -> Job | None:
        """Take a job back, or end it where it stands; None where there is none. One that has ended stays as it is."""
        with self._changed:
            job = self._jobs.get(id)
            if job is not None and not job.is_over:
                self._end(job, "cancelled", "It was cancelled. What was committed stays.")
                process = self._processes.get(id)
                if process is not None:
                    process.terminate()
            return job

    def get(self, id: int) -> Job | None:
        """One job."""
        return self._jobs.get(id)

    def all(self) -> list[Job]:
        """Every job that is known, the newest first."""
        with self._changed:
            return list(reversed(self._jobs.values()))

    @property
    def last(self) -> int:
        """The number of the last change."""
        return self._change

    def changed(self, since: int) -> list[Job]:
        """The jobs that have changed since the change of this number, the last changed last."""
        if self._change <= since:
            return []
        with self._changed:
            return sorted((job for job in self._jobs.values() if job.change > since), key=lambda job: job.change)

    def counts(self) -> dict[str, int]:
        """How many are in each state that is not an end."""
        states = [job.state for job in self.all()]
        return {state: states.count(state) for state in ("queued", "running")}

    def pause(self) -> bool:
        """Have the processes, and all that they have started, stand still; whether there are any."""
        return self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have them go on."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Begin nothing more, and end the processes; what is not done goes on with the next start."""
        with self._changed:
            self._closing = True
            for process in self._processes.values():
                process.terminate()
            self._changed.notify_all()
        self.resume()
        for thread in self._threads:
            thread.join(2 * END_S)
        if self._ledger is not None:
            self._ledger.close()

    def _submit(self, kind: str, arguments: dict[str, Any], author: str) -> Job:
        if self._trouble is not None:
            raise self._trouble
        assert self._ledger is not None, "start comes first"
        waiting = [job for job in self._jobs.values() if job.state == "queued"]
        for job in waiting:
            if (job.kind, job.arguments) == (kind, arguments):
                return job
        if len(waiting) >= QUEUED:
            raise LockedError(f"{QUEUED} jobs are waiting. Cancel some, or try again when some are done.")
        job = Job(max(self._jobs, default=0) + 1, kind, arguments, author, time.time())
        self._ledger.write(job)
        self._jobs[job.id] = job
        for old in self._ledger.forget(list(self._jobs.values())):
            del self._jobs[old.id]
        self._note(job)
        return job

    def _work(self, lane: Lane) -> None:
        """What the thread of a queue does."""
        while True:
            with self._changed:
                while not self._closing and (job := self._next(lane)) is None:
                    self._changed.wait()
                if self._closing:
                    return
                assert job is not None
                job.attempts += 1
                job.state, job.started, job.message = "running", time.time(), ""
                self._keep(job)
                self._note(job)
                try:
                    process = self._spawn()
                except OSError as error:
                    self._end(job, "failed", f"A process could not be started: {error.strerror}.", kind="OSError")
                    continue
                self._processes[job.id] = process
            try:
                self._watch(job, process)
            finally:
                with self._changed:
                    del self._processes[job.id]

    def _next(self, lane: Lane) -> Job | None:
        return next((job for job in self._jobs.values() if job.state == "queued" and LANES[job.kind] == lane), None)

    def _spawn(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", _START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            process_group=0,  # signalled together; and Ctrl-C is for the service, which ends its processes itself
            env=unlimited(),
        )

    def _watch(self, job: Job, process: "subprocess.Popen[str]") -> None:
        """Listen to a process until it ends, and note how."""
        assert process.stdin is not None
        assert process.stdout is not None
        order = {
            "collection": str(self._collection),
            "within": self._within,
            "kind": job.kind,
            "arguments": self._arguments(job),
        }
        said: dict[str, Any] = {}
        follow = self._follow(job)
        try:
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()  # and left open: its end is how a process learns that we have died
            for line in process.stdout:
                said = json.loads(line)
                if "stage" in said:
                    follow(said)
        except (OSError, ValueError):  # it died in the middle of a word
            said = {}
        self._wait(process)
        with self._changed:
            if job.is_over or self._closing:  # cancelled; or goes on with the next start
                return
            if "result" in said:
                job.result = said["result"]
                self._end(job, "done", said["message"])
            elif "error" in said:
                if "trace" in said:
                    log.error("Job %d: %s", job.id, said["trace"])
                self._end(job, "failed", said["error"]["message"], kind=said["error"]["kind"])
            elif job.attempts < ATTEMPTS:
                log.warning("Job %d: its process ended with %s. It begins again.", job.id, process.returncode)
                job.state, job.message = "queued", "Its process was killed; it goes on."
                self._keep(job)
                self._note(job)
            else:
                self._end(
                    job, "failed", f"Its process was killed {ATTEMPTS} times. Is there enough memory?", kind="Killed"
                )

    def _signal(self, number: signal.Signals) -> bool:
        """Without the lock, under which a job may be written to the disk: the event loop does not wait."""
        running = [process for process in list(self._processes.values()) if process.poll() is None]
        for process in running:
            _signal_group(process, number)
        return bool(running)

    def _arguments(self, job: Job) -> dict[str, Any]:
        """The arguments of the verb. Folders that the service may read or write are looked up when a job starts."""
        if job.kind == "backup" and self._backup_dir is not None:
            return job.arguments | {"target": str(self._backup_dir)}
        if job.kind == "add" and not job.arguments.get("uploads"):
            return job.arguments | {"roots": self._roots}
        return job.arguments

    def _follow(self, job: Job) -> Callable[[dict[str, Any]], None]:
        began: dict[str, float] = {}

        def follow(said: dict[str, Any]) -> None:
            stage, done, total = str(said["stage"]), int(said["done"]), said["total"]
            seconds = time.monotonic() - began.setdefault(stage, time.monotonic())
            with self._changed:
                job.stage, job.done, job.total = stage, done, total
                job.eta_s = (
                    round(seconds / done * (total - done), 1) if done and total is not None and seconds else None
                )
                if not job.is_over:
                    self._note(job)

        return follow

    def _end(self, job: Job, state: Any, message: str, *, kind: str | None = None) -> None:
        job.state, job.ended, job.message, job.eta_s = state, time.time(), message, None
        job.error = None if kind is None else {"kind": kind, "message": message}
        self._keep(job)
        self._note(job)

    def _keep(self, job: Job) -> None:
        """On the disk, where there is room: what is not kept is only done once more after a restart."""
        assert self._ledger is not None
        try:
            self._ledger.write(job)
        except StoreError as error:
            log.warning("Job %d: %s", job.id, error)

    def _note(self, job: Job) -> None:
        """Number a change, and wake those who wait."""
        with self._changed:
            self._change += 1
            job.change = self._change
            self._changed.notify_all()

    def _wait(self, process: "subprocess.Popen[str]") -> None:
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _signal_group(process, signal.SIGCONT)  # those that read for it end when they find it gone
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # what was not read by a dead process
                    continue


def _signal_group(process: "subprocess.Popen[str]", number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left, or only whom nobody has waited for
        os.killpg(process.pid, number)
