"""Calls that exist only on Linux: cores, memory, and hints about files."""

import contextlib
import os
import resource
from pathlib import Path

MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files with the memory limit of a container, in the two versions of control groups."""


def sync_file(file: int) -> None:
    """Sync an open file to disk, so that its content survives a power cut."""
    os.fsync(file)


def drop_cached(file: int) -> None:
    """Let the next reads of an open file come from the disk and not from memory, if the file system supports it."""
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def reserve(file: int, n_bytes: int) -> None:
    """Reserve disk space for an open file."""
    os.posix_fallocate(file, 0, n_bytes)


def boot_id() -> str:
    """The identifier of the current boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def usable_cores() -> list[int]:
    """The numbers of the cores that this process is allowed to use; the machine can have more."""
    return sorted(os.sched_getaffinity(0))


def use_cores(cores: list[int]) -> None:
    """Use only these cores in this process."""
    os.sched_setaffinity(0, cores)


def count_cores() -> int:
    """Return the number of cores that this process is allowed to use."""
    return len(os.sched_getaffinity(0))


def processor() -> str | None:
    """The model of the processor; None if it is unknown."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def installed_bytes() -> int:
    """The memory of this machine, or the limit of the container."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory, *(_read_limit(file, memory) for file in MEMORY_LIMITS))


def _read_limit(file: Path, memory: int) -> int:
    """Read a limit from a file; `memory` if it has none ("max", or not a number)."""
    try:
        limit = int(file.read_text())
    except (OSError, ValueError):
        return memory
    return limit if limit > 0 else memory


def limit_memory(more_bytes: int) -> None:
    """Limit the address space of this process to what it uses now and this many bytes more."""
    with contextlib.suppress(OSError, ValueError):  # a lower limit may apply already
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + more_bytes, used + more_bytes))


def reset_peak() -> None:
    """Start a new measurement of `peak_bytes`."""
    with contextlib.suppress(OSError):  # not in every container
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The largest amount of memory that this process has used at a time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 2**10
