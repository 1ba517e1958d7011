"""A loop over a range, divided among threads, for functions that numba compiled with `nogil`.

numba's own threads are not used: its OpenMP layer changes the number of OpenMP threads of the whole process, its
workqueue aborts the process if two searches run at the same time, and TBB would be another dependency.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from lookalike.images.workers import THREADS_VARIABLE
from lookalike.system import count_cores

PIECES = 4
"""Pieces per core, so that a thread that starts late has less left to do."""

CORES = int(os.environ.get(THREADS_VARIABLE) or count_cores())
"""CPU cores that searches of this process use."""


def share(work: Callable[[int, int], object], n: int, least: int = 1) -> None:
    """Call `work(start, stop)` for pieces of at least `least` numbers that cover 0 … n - 1, in several threads.

    >>> done = []
    >>> share(lambda start, stop: done.append(stop - start), 10)
    >>> sum(done)
    10
    """
    piece = max(least, -(-n // (PIECES * CORES)))
    starts = iter(range(0, n, piece))  # next() of a range iterator is atomic, so each piece is taken once

    def take_pieces() -> None:
        for start in starts:
            work(start, min(start + piece, n))

    others = [_pool().submit(take_pieces) for _ in range(min(CORES, -(-n // piece)) - 1)]
    take_pieces()
    for other in others:
        other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, CORES - 1), thread_name_prefix="lookalike-scan")
