"""Calls that are the same on Linux and macOS: file locks, signals, processes and terminals."""

import fcntl
import os
import resource
import signal
import termios
import tty
from pathlib import Path
from typing import Any

READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags to open a file that another program may have replaced by a pipe: opening it does not wait."""

OWN_GROUP: dict[str, Any] = {"process_group": 0}
"""Arguments of `Popen` for a process that Ctrl-C in the terminal does not reach."""

IGNORE_SIGNALS = """import signal
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
"""
"""Start of a program that ends only with its parent process. It runs before the program can import anything."""


def try_lock(file: int, *, shared: bool = False) -> bool:
    """Lock an open file until it is closed; False if another process holds the lock. `shared`: a lock for readers."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(file: int) -> None:
    """Lock an open file until it is closed, after all other processes have unlocked it."""
    fcntl.flock(file, fcntl.LOCK_EX)


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that new names in it survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_at(file: int, size: int, offset: int) -> bytes:
    """Read from a place in an open file, without moving its position."""
    return os.pread(file, size, offset)


def write_at(file: int, data: bytes, offset: int) -> None:
    """Write to a place in an open file, without moving its position."""
    os.pwrite(file, data, offset)


def is_mounted_read_only(path: Path) -> bool:
    """Whether the file system of a path is mounted read-only."""
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def lower_priority(niceness: int) -> None:
    """Lower the priority of this process, at most to 19."""
    os.nice(niceness)


def inherit(descriptor: int) -> dict[str, Any]:
    """Arguments of `Popen` for a process that inherits an open file or connection under the same number."""
    return {"pass_fds": [descriptor]}


def limit_time(cpu_s: float, clock_s: float) -> None:
    """Let the system end this process after this CPU or wall-clock time, even inside a decoder; 0 removes the limit."""
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    signal.setitimer(signal.ITIMER_REAL, clock_s)


def ran_out_of_time(code: int) -> bool:
    """Whether a process with this exit code was ended by `limit_time`."""
    return -code in (signal.SIGALRM, signal.SIGPROF)


def was_killed(code: int) -> bool:
    """Whether a process with this exit code was killed, for example because memory was short."""
    return -code == signal.SIGKILL


def describe_end(code: int) -> str:
    """The name of the signal that ended a process with this negative exit code."""
    return signal.strsignal(-code) or f"signal {-code}"


def kill(pid: int) -> None:
    """End a process immediately; raises ProcessLookupError if it has ended."""
    os.kill(pid, signal.SIGKILL)


def block_interrupts() -> None:
    """Block SIGINT in this thread and in the processes that it starts."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def read_key(file: int) -> str:
    """Wait for a key in a terminal and return its character. Of an escape sequence, only the first one is returned."""
    before = termios.tcgetattr(file)
    try:
        tty.setcbreak(file, termios.TCSADRAIN)  # keeps typed-ahead keys, and Ctrl-C still works
        key = os.read(file, 1).decode(errors="replace")
        if key == "\033":  # start of an escape sequence, such as an arrow key
            termios.tcflush(file, termios.TCIFLUSH)
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
    return key


def children_seconds() -> float:
    """CPU seconds of the finished child processes of this process."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime
