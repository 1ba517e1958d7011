"""Matrix products that keep to one thread while other processes have the cores.

A thread of a product that waits for the others does not sleep, it spins: beside busy reading processes it would take
from them what it waits for. The limit is the whole process's, so it is counted: the last one out lifts it.
"""

import threading
from typing import Any

from threadpoolctl import threadpool_limits


class Calm:
    """A context in which BLAS uses one thread; several may overlap, in any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limits = threadpool_limits(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


CALM = Calm()
"""The one there is: the limit it sets is the process's."""
