"""How quick this machine is, in two numbers, and how much memory it has.

In: nothing. Out: bytes a second that it reads from memory, and operations a second in a product of matrices. All that a
search or a fit does is bound by one of the two (the roofline of Williams, Waterman & Patterson, CACM 2009).
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROWS, WIDTH = 2**17, 256
"""Of the matrix that is read: 128 MiB, more than most caches hold."""
SIDE, TURNS = 1024, 5
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where Linux tells a container how much memory it may have: control groups of version 2, and of version 1."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What work is divided by."""

    memory: float  # bytes a second, read in order
    product: float  # additions and multiplications of float32 a second


def measure(clock: Callable[[], float] = time.perf_counter) -> Machine:
    """What the threads that NumPy has now can do: the best of a few turns, half a second in all.

    >>> measure().product > 0
    True
    """
    X = np.ones((ROWS, WIDTH), np.float32)
    square, out = np.ones((SIDE, SIDE), np.float32), np.empty((SIDE, SIDE), np.float32)
    read = _best(lambda: X @ X[0], clock)
    multiplied = _best(lambda: np.matmul(square, square, out=out), clock)
    return Machine(X.nbytes / read, 2 * SIDE**3 / multiplied)


def installed_bytes() -> int:
    """The memory of this machine, or as much of it as the container that we are in may have."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory, *(_limit(file, memory) for file in LIMITS))


def _limit(file: Path, memory: int) -> int:
    """The limit in a file; all the memory where there is none ("max", or a number beyond any machine)."""
    try:
        limit = int(file.read_text())
    except (OSError, ValueError):
        return memory
    return limit if limit > 0 else memory


def _best(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds of the quickest of some calls: whatever else runs only makes it slower."""
    work()
    times = []
    for _ in range(TURNS):
        start = clock()
        work()
        times.append(clock() - start)
    return max(min(times), 1e-9)
