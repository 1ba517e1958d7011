"""Work on a range of numbers, shared among threads: for loops that numba compiled with `nogil`.

In: a function of (start, stop) and how many there are. Out: nothing, once all are done. Not numba's own threads: its
OpenMP layer changes the number of threads of everybody's OpenMP, its workqueue ends the process when two searches run
side by side, and TBB is one more thing to install.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

PIECES = 4
"""Pieces a core: one that is late has less to finish."""


CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""Those that this process may use."""


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, CORES - 1), thread_name_prefix="lookalike-scan")


def share(work: Callable[[int, int], object], n: int, least: int = 1) -> None:
    """Call `work(start, stop)` for pieces that cover 0 … n - 1, each of at least `least`; the caller works, too.

    >>> done = []
    >>> share(lambda start, stop: done.append(stop - start), 10)
    >>> sum(done)
    10
    """
    piece = max(least, -(-n // (PIECES * CORES)))
    starts = iter(range(0, n, piece))  # next() of a range is one step: no two threads get the same

    def help_out() -> None:
        for start in starts:
            work(start, min(start + piece, n))

    others = [_helpers().submit(help_out) for _ in range(min(CORES, -(-n // piece)) - 1)]
    help_out()
    for other in others:
        other.result()
