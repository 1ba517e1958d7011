"""The functions of `linux` for macOS. Not tested yet."""

import fcntl
import os
import resource
import subprocess

F_FULLFSYNC, F_NOCACHE = 51, 48
"""Commands of `fcntl` in the header files of macOS; Python on other systems does not have their names."""


def sync_file(file: int) -> None:
    """Sync an open file to disk, so that its content survives a power cut."""
    fcntl.fcntl(file, F_FULLFSYNC)  # fsync leaves it in the memory of the disk


def drop_cached(file: int) -> None:
    """Let the next reads of an open file come from the disk and not from memory."""
    fcntl.fcntl(file, F_NOCACHE, 1)


def reserve(file: int, n_bytes: int) -> None:
    """Reserve disk space for an open file."""
    for _ in range(0, n_bytes, 2**20):  # a sparse file would reserve nothing
        os.write(file, bytes(2**20))


def boot_id() -> str:
    """The identifier of the current boot of the machine."""
    return subprocess.run(
        ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], stdout=subprocess.PIPE, check=True
    ).stdout.decode()


def usable_cores() -> list[int]:
    """The numbers of the cores of this machine."""
    return list(range(count_cores()))


def use_cores(cores: list[int]) -> None:
    """Does nothing: on macOS, a process cannot choose its cores."""


def count_cores() -> int:
    """Return the number of cores of this machine."""
    return os.cpu_count() or 1


def processor() -> str | None:
    """The model of the processor; None: unknown."""
    return None


def installed_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def limit_memory(more_bytes: int) -> None:
    """Does nothing: macOS does not enforce limits of the address space."""


def reset_peak() -> None:
    """Does nothing: on macOS, `peak_bytes` is that of the whole life of the process."""


def peak_bytes() -> int:
    """The largest amount of memory that this process has used at a time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
