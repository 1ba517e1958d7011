"""Read many pictures in separate processes, which protect the caller from files that break a decoder.

`ReadPool` applies a function to each picture and yields a `Read`, `Known` or `Skip` for each entry, in any order. A
file that crashes a decoder, hangs it or exhausts the memory ends one process and is skipped; a new process reads the
next file.

A process runs `serve`. It receives (then, side, limits, timeout_s), then lists of entries. For each entry it sends the
outcome.
"""

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import ForkingPickler
from typing import Any, Self, TypeAlias

from lookalike.errors import ImageError, InputError, LookalikeError, MissingError
from lookalike.images.decoding import content_id, digest_content, read, read_exif
from lookalike.images.files import LIMITS, Limits
from lookalike.images.sources import Entry
from lookalike.system import (
    IGNORE_SIGNALS,
    count_cores,
    describe_end,
    inherit,
    limit_memory,
    limit_time,
    ran_out_of_time,
    was_killed,
)
from lookalike.types import Exif, Pixels

MAX_WORKERS = 8
"""Maximum default number of processes. The default is one per core."""

BATCH = 8
BATCH_BYTES = 8 * 2**20
"""Files sent to a process at a time: BATCH, or fewer once they total BATCH_BYTES."""

AHEAD = 3
"""Batches in flight per process: few enough to limit memory, enough to keep processes busy while the caller works."""

CARRY_BYTES = 256 * 2**20
"""Bytes that entries in flight can carry (members of compressed archives do). Above it, one batch at a time."""

MAX_STARTS = 3
"""Number of times in a row that a process can be killed while it starts before reading fails."""

START_S = 60.0
END_S = 5.0
"""Seconds to wait for a process to start or to end."""

SPARE_BYTES = 512 * 2**20
PIXEL_BYTES = 12
"""Memory limit of a process: SPARE_BYTES plus twice `max_bytes` plus PIXEL_BYTES times `max_pixels`."""

CLOCK_FACTOR = 6
"""Wall-clock limit per file, as a multiple of the CPU time limit: disks can be slow, and jobs of the service have a low
priority."""

THREADS_VARIABLE = "LOOKALIKE_THREADS"
"""Environment variable with the number of cores that a network or a search uses; by default all."""

_START = f"""{IGNORE_SIGNALS}
import sys
sys.path[:] = sys.argv[2:]
from lookalike.images.workers import serve
serve(int(sys.argv[1]))"""
"""Program of a process. `multiprocessing` would run the caller's main script again, which would need a guard."""

_ENVIRONMENT = {
    "OPENCV_FOR_THREADS_NUM": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "PILLOW_BLOCKS_MAX": "4",
}
"""One thread per process. Pillow keeps memory blocks instead of freeing them after every picture."""


@dataclass(frozen=True, slots=True)
class Read:
    """A picture that was read, with the result of the function."""

    entry: Entry
    content: bytes  # the digest of the file's bytes
    width: int
    height: int
    format: str
    taken_at: float | None
    exif: Exif
    parts: Any  # the return value of the function

    @property
    def id(self) -> int:
        """The item's id."""
        return content_id(self.content)


@dataclass(frozen=True, slots=True)
class Known:
    """A file that was not decoded, because its id is one of `Entry.known`."""

    entry: Entry
    content: bytes  # the digest of the file's bytes
    exif: Exif

    @property
    def id(self) -> int:
        """The item's id."""
        return content_id(self.content)


@dataclass(frozen=True, slots=True)
class Skip:
    """A file that was skipped. `lasting`: the reason is in its bytes, so another attempt would fail as well."""

    entry: Entry
    reason: str
    lasting: bool = False


Outcome: TypeAlias = Read | Known | Skip
"""The result for one entry, which is `Entry.bare`."""

_Done: TypeAlias = "queue.SimpleQueue[Outcome | BaseException | int]"
"""Outcomes; after each batch, the number of bytes that it carried; or an exception to raise in the caller's thread."""

_Work: TypeAlias = "queue.SimpleQueue[tuple[list[Entry], _Done] | None]"


class ReadPool:
    """A pool of processes that read pictures. They start on demand and end with the context.

    Parameters
    ----------
    then : picklable function of (h, w, 3) uint8 pixels that runs in the process that read the picture.
    side : required length of the shorter side in pixels (see `read`).
    workers : number of processes; by default one per core, at most MAX_WORKERS.
    timeout_s : CPU time limit per file; the wall-clock limit is CLOCK_FACTOR times as long.
    limits : limits of files and pictures.

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
            raise InputError(f"timeout_s must be above 0. Got {timeout_s}.")
        try:
            self._orders = bytes(ForkingPickler.dumps((then, side, limits, timeout_s)))
        except Exception as error:  # noqa: BLE001 — pickling runs the object's own code
            raise InputError(
                f"then must be picklable, such as a module-level function. Got {then!r}: {error}"
            ) from None
        self.workers = workers or min(MAX_WORKERS, count_cores())
        self.timeout_s = timeout_s
        self._feeders: list[_Feeder] = []
        self._work: _Work = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def map(self, entries: Iterable[Entry]) -> Iterator[Outcome]:
        """Yield the outcome of each entry as soon as it is available."""
        done: _Done = queue.SimpleQueue()
        batches = make_batches(entries, BATCH, BATCH_BYTES)
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
                    carried += count_carried(batch)
                if running == 0:
                    return
                match done.get():
                    case int() as n_bytes:
                        running -= 1
                        carried -= n_bytes
                    case Read() | Known() | Skip() as outcome:
                        yield outcome
                    case BaseException() as error:
                        raise error
        finally:
            if running > 0:  # the caller left the loop early
                self.close()

    def read(self, name: str, data: bytes) -> Read:
        """Return the result for a picture in memory. Raises ImageError with the reason if it cannot be read."""
        found = list(self.map([Entry(name, len(data), 0, data=data)]))
        if not found:
            raise ImageError("the worker process was stopped")
        if isinstance(found[0], Skip):
            raise ImageError(found[0].reason)
        assert isinstance(found[0], Read), "no ids are known"
        return found[0]

    def close(self) -> None:
        """Stop the processes, even if they are busy."""
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


class _Feeder:
    """A thread and its process. The thread sends entries and waits for replies, so the caller is not blocked."""

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
                process.popen.kill()  # the thread notices and cleans up
            self.thread.join(0.01)

    def _run(self) -> None:
        while (task := self.work.get()) is not None and not self.closing.is_set():
            batch, done = task
            n_bytes = count_carried(batch)
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
                    outcome = _receive(connection)
                    batch.popleft()
                    done.put(outcome)
            except (EOFError, OSError):
                code, self.process = self.process.end(), None
                if not self.closing.is_set():
                    done.put(Skip(batch.popleft().bare(), *self._explain(code)))

    def _explain(self, code: int | None) -> tuple[str, bool]:
        """Return why a process ended, from its exit code, and whether the same file would end it again."""
        if code is None or code >= 0:
            return "the worker process ended unexpectedly", False
        if ran_out_of_time(code):
            return f"it took longer than {self.timeout_s:g} s to read", False
        return f"it crashed the decoder ({describe_end(code)})", not was_killed(code)


class _Process:
    """A process that runs `serve`, at the other end of a connection.

    A process that is killed while it starts, for example because memory is short, is started again. Other failures
    would happen again, so they are raised immediately.
    """

    def __init__(self, orders: bytes):
        for _ in range(MAX_STARTS):
            code = self._start(orders)
            if code is None:
                return
            if code >= 0:
                raise LookalikeError(f"Cannot start a worker process: it ended with exit code {code}.")
            reason = describe_end(code)
        raise LookalikeError(
            f"A worker process was killed {MAX_STARTS} times in a row while starting ({reason}). "
            "Check the system log for the reason. If memory is short, use fewer workers."
        )

    def _start(self, orders: bytes) -> int | None:
        """Start the process and wait until it is ready. Returns its exit code if it ended instead, otherwise None."""
        self.connection, theirs = Pipe()
        try:
            with theirs:
                self.popen = self._open(theirs.fileno())
        except OSError as error:
            raise LookalikeError(f"Cannot start a worker process: {error}.") from None
        try:
            self.connection.send_bytes(orders)
            answer = self.connection.recv() if self.connection.poll(START_S) else f"no reply within {START_S:g} s"
        except (EOFError, OSError):
            return self.end() or 0
        if answer is not None:
            self.end()
            raise LookalikeError(f"Cannot start a worker process: {answer}.")
        return None

    @staticmethod
    def _open(descriptor: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-c", _START, str(descriptor), *sys.path],
            env=os.environ | _ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # decoders write warnings there
            **inherit(descriptor),
        )

    def end(self) -> int | None:
        """End the process. Returns its exit code, which is negative for a signal, or None if it does not end."""
        self.connection.close()  # this ends an idle process
        for _ in range(2):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.popen.wait(END_S)
            self.popen.kill()
        return None


def make_batches(entries: Iterable[Entry], size: int, max_bytes: int) -> Iterator[list[Entry]]:
    """Yield lists of `size` entries, or fewer once their files total `max_bytes`."""
    batch: list[Entry] = []
    n_bytes = 0
    for entry in entries:
        batch.append(entry)
        n_bytes += entry.size
        if len(batch) == size or n_bytes >= max_bytes:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


def count_carried(batch: Iterable[Entry]) -> int:
    """Return the number of bytes that entries carry; members of compressed archives do."""
    return sum(len(entry.data or b"") for entry in batch)


def serve(descriptor: int) -> None:
    """Read entries until the caller closes its end of the connection or ends. Runs in a process of a `ReadPool`."""
    connection = Connection(descriptor)
    try:
        then, side, limits, timeout_s = connection.recv()
    except Exception as error:  # noqa: BLE001 — any error is reported to the caller
        connection.send(_describe(error))
        return
    limit_memory(SPARE_BYTES + 2 * limits.max_bytes + PIXEL_BYTES * limits.max_pixels)
    connection.send(None)
    with contextlib.suppress(EOFError, OSError):
        while True:
            for entry in connection.recv():
                limit_time(timeout_s, CLOCK_FACTOR * timeout_s)
                outcome = read_one(entry, then, side, limits)
                limit_time(0, 0)
                _send(connection, outcome)


def read_one(entry: Entry, then: Callable[[Pixels], Any], side: int | None, limits: Limits) -> Outcome:
    """Return the outcome of one entry."""
    bare = entry.bare()
    try:
        data = entry.read(limits)
    except MemoryError:
        return Skip(bare, "it needs more memory than is available")
    except ImageError as error:
        return Skip(bare, str(error))
    content = digest_content(data)
    if entry.known is not None and content_id(content) in entry.known:
        return Known(bare, content, read_exif(data))
    try:
        picture = read(data, side=side, limits=limits)
    except ImageError as error:
        return Skip(bare, str(error), lasting=not isinstance(error.__cause__, MemoryError | MissingError))
    try:
        parts = then(picture.pixels)
    except Exception as error:  # noqa: BLE001 — if the function fails for one picture, the others are still read
        return Skip(bare, _describe(error))
    size = picture.width, picture.height
    return Read(bare, content, *size, picture.format, picture.taken_at, picture.exif, parts)


def _receive(connection: Connection) -> Outcome:
    """Receive an outcome from `_send`."""
    head, sizes = connection.recv()
    buffers = [bytearray(size) for size in sizes]
    for buffer in buffers:
        connection.recv_bytes_into(buffer)
    outcome: Outcome = pickle.loads(head, buffers=buffers)  # noqa: S301 — our own process wrote it
    return outcome


def _send(connection: Connection, outcome: Outcome) -> None:
    """Send an outcome. Its arrays are sent without the copies that pickling makes."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(outcome, protocol=5, buffer_callback=buffers.append)
    except Exception as error:  # noqa: BLE001 — the return value of the function cannot be pickled
        buffers.clear()
        head = pickle.dumps(Skip(outcome.entry, _describe(error)))
    parts = [buffer.raw() for buffer in buffers]
    connection.send((head, [part.nbytes for part in parts]))
    for part in parts:
        connection.send_bytes(part)


def _describe(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
