"""The writer lock of a collection. One process at a time holds it; the kernel releases it when the process ends."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lookalike.errors import LockedError, ReadOnlyError
from lookalike.store.schema import translated

POLL_S = 0.02


def take_lock(folder: Path, wait_s: float) -> int:
    """Take the writer lock of a collection; returns a file descriptor that holds it until it is closed."""
    deadline = time.monotonic() + wait_s
    with translated(folder / "lock"):
        try:
            file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:
            raise ReadOnlyError(f"{folder} can only be read: you have no permission to write there.") from None
        try:
            while not try_lock(file):
                if time.monotonic() >= deadline:
                    holder = os.pread(file, 20, 0).decode(errors="replace") or "unknown"
                    raise LockedError(
                        f"Another process (pid {holder}) is writing to {folder}. Wait for it, or pass --wait SECONDS."
                    )
                time.sleep(POLL_S)
        except BaseException:
            os.close(file)
            raise
    with suppress(OSError):  # the pid is only for the message; on a full disk, pictures can still be removed
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
    return file


@contextmanager
def locked(folder: Path, wait_s: float) -> Iterator[None]:
    """Hold the writer lock of a collection within a block."""
    file = take_lock(folder, wait_s)
    try:
        yield
    finally:
        os.close(file)


def try_lock(file: int, *, shared: bool = False) -> bool:
    """Lock an open file until it is closed; False if another process has locked it. `shared`: with other readers."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
