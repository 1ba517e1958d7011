"""Entries in, what a function makes of their pictures out, read by guarded processes.

In: `Entry`s, and a function of one picture. Out: `Read` or `Skip`, in no particular order. A file that crashes a
decoder, hangs it or fills the memory costs one of our processes and is skipped; the next file finds a new process.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Pipe
from multiprocessing.reduction import ForkingPickler
from typing import Any, Self, TypeAlias

from lookalike.errors import ImageError, InputError, LookalikeError
from lookalike.images.process import receive
from lookalike.images.read import LIMITS, Limits, content_id
from lookalike.images.sources import Entry
from lookalike.types import Pixels

MAX_WORKERS = 8
"""Processes where nobody says how many: one a core, at most so many."""

BATCH = 8
BATCH_BYTES = 8 * 2**20
"""Files sent to a process at a time: so many, fewer where they have more bytes than this together."""

AHEAD = 3
"""Batches in flight for each process: a bound on memory, and enough to do while the caller is busy."""

CARRY_BYTES = 256 * 2**20
"""Bytes that the entries in flight may carry, as those of compressed archives do; above it, one batch at a time."""

MAX_STARTS = 3
"""How often in a row a process is started that is killed before it is ready."""

START_S = 60.0
END_S = 5.0
"""A process that is not ready, or not gone, by then never will be."""

_START = """import signal, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)  # such as Ctrl-C: they are for the caller, and this ends with it
sys.path[:] = sys.argv[2:]
from lookalike.images.process import serve
serve(int(sys.argv[1]))"""
"""What a process runs. `multiprocessing` would run the caller's main script again, and need a guard in it."""

_ENVIRONMENT = {
    "OPENCV_FOR_THREADS_NUM": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "PILLOW_BLOCKS_MAX": "4",
}
"""One thread for each process; and Pillow keeps its memory instead of giving it back after every picture."""


@dataclass(frozen=True, slots=True)
class Read:
    """A picture that was read."""

    entry: Entry
    content: bytes  # the digest of the file's bytes
    width: int
    height: int
    format: str
    taken_at: float | None
    parts: Any  # what the function returned

    @property
    def id(self) -> int:
        """The item's id."""
        return content_id(self.content)


@dataclass(frozen=True, slots=True)
class Skip:
    """A file that was not read. `lasting`: the reason lies in its bytes, so it will be the same next time."""

    entry: Entry
    reason: str
    lasting: bool = False


_Done: TypeAlias = "queue.SimpleQueue[Read | Skip | BaseException | int]"
"""Results; after each batch, the bytes that it carried; or an exception to raise in the caller's thread."""

_Work: TypeAlias = "queue.SimpleQueue[tuple[list[Entry], _Done] | None]"


class ReadPool:
    """Processes that read pictures. They start when there is something to read, and end with the context.

    Parameters
    ----------
    then : what is done with each picture, in the process that read it; a picklable function of (h, w, 3) uint8 pixels.
    side : the shorter side, in pixels, that suffices (see `read`).
    workers : how many processes.
    timeout_s : how long one file may take, in the processor's time; by the clock `process.CLOCK` times as long.
    limits : what is refused.

    """

    def __init__(
        self,
        then: Callable[[Pixels], Any],
        *,
        side: int | None,
        workers: int | None = None,
        timeout_s: float = 30.0,
        limits: Limits = LIMITS,
    ):
        if workers is not None and workers < 1:
            raise InputError(f"workers must be at least 1. Got {workers}.")
        if timeout_s <= 0:
            raise InputError(f"timeout_s must be more than 0. Got {timeout_s}.")
        try:
            self._orders = bytes(ForkingPickler.dumps((then, side, limits, timeout_s)))
        except Exception as error:  # noqa: BLE001 — pickling runs the object's own code
            raise InputError(f"then must be picklable, such as a function of a module. Got {then!r}: {error}") from None
        self.workers = workers or min(MAX_WORKERS, count_cores())
        self.timeout_s = timeout_s
        self._feeders: list[_Feeder] = []
        self._work: _Work = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def map(self, entries: Iterable[Entry]) -> Iterator[Read | Skip]:
        """The result for each entry, as soon as it is known. The entry of a result no longer carries its bytes."""
        done: _Done = queue.SimpleQueue()
        batches = _batches(entries)
        running = carried = 0
        try:
            while True:
                while (
                    running < self.workers * AHEAD
                    and (running == 0 or carried < CARRY_BYTES)
                    and (batch := next(batches, None))
                ):
                    self._give(batch, done)
                    running += 1
                    carried += _carried(batch)
                if running == 0:
                    return
                match done.get():
                    case int() as n_bytes:
                        running -= 1
                        carried -= n_bytes
                    case Read() | Skip() as outcome:
                        yield outcome
                    case BaseException() as error:
                        raise error
        finally:
            if running > 0:  # left early: nobody wants the rest
                self.close()

    def read(self, name: str, data: bytes) -> Read:
        """What a picture in memory gives; ImageError with the reason why not."""
        found = list(self.map([Entry(name, len(data), 0, data=data)]))
        if not found:
            raise ImageError("the process that reads was ended")
        if isinstance(found[0], Skip):
            raise ImageError(found[0].reason)
        return found[0]

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        feeders, work = self._feeders, self._work
        self._feeders, self._work = [], queue.SimpleQueue()
        for feeder in feeders:
            feeder.closing.set()
            work.put(None)
        for feeder in feeders:
            feeder.close()

    def _give(self, batch: list[Entry], done: _Done) -> None:
        if len(self._feeders) < self.workers:
            self._feeders.append(_Feeder(self._orders, self.timeout_s, self._work))
        self._work.put((batch, done))


def count_cores() -> int:
    """Cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Feeder:
    """A thread and its process. The thread asks and waits for answers, so that the caller need not."""

    def __init__(self, orders: bytes, timeout_s: float, work: _Work):
        self.orders = orders
        self.timeout_s = timeout_s
        self.work = work
        self.process: _Process | None = None
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def close(self) -> None:
        while self.thread.is_alive():
            process = self.process
            if process is not None:
                process.popen.kill()  # the thread hears of it, and tidies up
            self.thread.join(0.01)

    def _run(self) -> None:
        while (task := self.work.get()) is not None and not self.closing.is_set():
            batch, done = task
            n_bytes = _carried(batch)
            try:
                self._read(deque(batch), done)
            except BaseException as error:  # noqa: BLE001 — raised again in the caller's thread
                done.put(error)
            done.put(n_bytes)
        if self.process is not None:
            self.process.end()

    def _read(self, batch: deque[Entry], done: _Done) -> None:
        while batch and not self.closing.is_set():
            if self.process is None or self.process.popen.poll() is not None:
                self.process = _Process(self.orders)
            connection = self.process.connection
            try:
                connection.send(list(batch))
                while batch:
                    reply = receive(connection)
                    entry = replace(batch.popleft(), data=None)
                    done.put(Read(entry, *reply) if len(reply) > 2 else Skip(entry, *reply))
            except (EOFError, OSError):
                code, self.process = self.process.end(), None
                if not self.closing.is_set():
                    done.put(Skip(replace(batch.popleft(), data=None), *self._explain(code)))

    def _explain(self, code: int | None) -> tuple[str, bool]:
        """Why a process ended, from its exit code, and whether the same file would end it again."""
        if code is None or code >= 0:
            return "the reading process ended", False
        if -code in (signal.SIGALRM, signal.SIGPROF):
            return f"took longer than {self.timeout_s:g} s", False
        return f"the decoder crashed ({signal.strsignal(-code) or -code})", -code != signal.SIGKILL


class _Process:
    """A process that reads; the other end of the connection is in `process.serve`.

    A process that is killed while it starts, as by the system when memory is short, is started again. Other failures
    would happen again, so they are raised at once.
    """

    def __init__(self, orders: bytes):
        for _ in range(MAX_STARTS):
            code = self._start(orders)
            if code is None:
                return
            if code >= 0:
                raise LookalikeError(f"A reading process could not be started: it ended with exit code {code}.")
            reason = signal.strsignal(-code) or f"signal {-code}"
        raise LookalikeError(
            f"A reading process was killed {MAX_STARTS} times in a row while it started ({reason}). "
            "Look for the reason in the system's log; if memory is short, read with fewer workers."
        )

    def _start(self, orders: bytes) -> int | None:
        """Start the process and wait until it is ready; the exit code of one that ended instead."""
        self.connection, theirs = Pipe()
        try:
            with theirs:
                self.popen = self._open(theirs.fileno())
        except OSError as error:
            raise LookalikeError(f"A reading process could not be started: {error}.") from None
        try:
            self.connection.send_bytes(orders)
            answer = self.connection.recv() if self.connection.poll(START_S) else f"no answer within {START_S:g} s"
        except (EOFError, OSError):
            return self.end() or 0
        if answer is not None:
            self.end()
            raise LookalikeError(f"A reading process could not be started: {answer}.")
        return None

    @staticmethod
    def _open(descriptor: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-c", _START, str(descriptor), *sys.path],
            env=os.environ | _ENVIRONMENT,
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # decoders complain there
        )

    def end(self) -> int | None:
        """Its exit code, if it would end; negative: the signal."""
        self.connection.close()  # idle, it ends by that; crashed, it is about to end
        for _ in range(2):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.popen.wait(END_S)
            self.popen.kill()
        return None


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    n_bytes = 0
    for entry in entries:
        batch.append(entry)
        n_bytes += entry.size
        if len(batch) == BATCH or n_bytes >= BATCH_BYTES:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


def _carried(batch: Iterable[Entry]) -> int:
    return sum(len(entry.data or b"") for entry in batch)
