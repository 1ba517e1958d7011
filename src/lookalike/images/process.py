"""What a reading process does: takes entries from a connection, answers with what became of each.

In: a connection from `workers`: first (then, side, limits, timeout_s), then lists of entries. Out: for each entry
either (content digest, width, height, format, taken_at, parts) or (reason, lasting).
"""

import contextlib
import os
import pickle
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

from lookalike.errors import ImageError, MissingError
from lookalike.images.read import Limits, digest_content, read
from lookalike.images.sources import Entry
from lookalike.types import Pixels

Reply: TypeAlias = tuple[bytes, int, int, str, float | None, Any] | tuple[str, bool]

SPARE_BYTES = 512 * 2**20
PIXEL_BYTES = 12
"""Memory for a file at the limits: its bytes twice, so many for each pixel, and some to spare."""
CLOCK = 6
"""How many times its time limit, which is of the processor's time, a file may take by the clock: disks can be slow, and
a job of the service stands still while somebody searches."""


def serve(descriptor: int) -> None:
    """Answer until the caller hangs up: it has closed its end of the connection, or died."""
    connection = Connection(descriptor)
    try:
        then, side, limits, timeout_s = connection.recv()
    except Exception as error:  # noqa: BLE001 — whatever it is, the caller wants to know
        connection.send(_describe(error))
        return
    _limit_memory(limits)
    connection.send(None)
    with contextlib.suppress(EOFError, OSError):
        while True:
            for entry in connection.recv():
                _limit_time(timeout_s)
                reply = read_one(entry, then, side, limits)
                _limit_time(0)
                _send(connection, reply)


def read_one(entry: Entry, then: Callable[[Pixels], Any], side: int | None, limits: Limits) -> Reply:
    """What becomes of one entry. A reason is lasting if it lies in the file's bytes."""
    try:
        data = entry.read(limits)
    except MemoryError:
        return "too large for the memory there is", False
    except ImageError as error:
        return str(error), False
    try:
        picture = read(data, side=side, limits=limits)
    except ImageError as error:
        return str(error), not isinstance(error.__cause__, MemoryError | MissingError)
    try:
        parts = then(picture.pixels)
    except Exception as error:  # noqa: BLE001 — one picture that a feature cannot describe does not stop the others
        return _describe(error), False
    return digest_content(data), picture.width, picture.height, picture.format, picture.taken_at, parts


def receive(connection: Connection) -> Any:
    """What `_send` sent, from the other end."""
    head, sizes = connection.recv()
    buffers = [bytearray(size) for size in sizes]
    for buffer in buffers:
        connection.recv_bytes_into(buffer)
    return pickle.loads(head, buffers=buffers)  # noqa: S301 — our own process wrote it


def _send(connection: Connection, reply: Reply) -> None:
    """Arrays go as they are, without the copies that pickling them takes."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(reply, protocol=5, buffer_callback=buffers.append)
    except Exception as error:  # noqa: BLE001 — what the function returned cannot be sent
        buffers.clear()
        head = pickle.dumps((_describe(error), False))
    parts = [buffer.raw() for buffer in buffers]
    connection.send((head, [part.nbytes for part in parts]))
    for part in parts:
        connection.send_bytes(part)


def _describe(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _limit_time(seconds: float) -> None:
    """The system ends us after so long, even inside a decoder; 0: it does not any more."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, CLOCK * seconds)


def _limit_memory(limits: Limits) -> None:
    """From here on only so much more address space: a decoder that wants more gets an error, not the machine."""
    with contextlib.suppress(OSError, ValueError):  # not on every system
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        most = used + SPARE_BYTES + 2 * limits.max_bytes + PIXEL_BYTES * limits.max_pixels
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
