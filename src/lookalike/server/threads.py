"""One thread a product of matrices: the service does several things at a time, each on its own core. Who goes first.

In: nothing. Out: the environment that BLAS and OpenMP read when they are loaded. With a thread a core for each product,
two searches at once wait for each other's threads, spinning: under load, they took five times as long.
"""

import os

NAMES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")

ROUND_NICE, JOB_NICE = 5, 10
"""How far rounds of feedback and jobs stand back where others want the processor. With 10, rounds, which somebody waits
for, take a sixth longer under load, and searches are no quicker for it."""

_ours: set[str] = set()


def limit() -> None:
    """One thread for whatever is loaded from now on, unless somebody has said otherwise."""
    for name in NAMES:
        if name not in os.environ:
            os.environ[name] = "1"
            _ours.add(name)


def unlimited() -> dict[str, str]:
    """The environment as it was, for processes that do one thing at a time."""
    return {name: value for name, value in os.environ.items() if name not in _ours}
