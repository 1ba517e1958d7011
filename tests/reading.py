"""Read pictures in the test process, because starting a reading process takes a quarter of a second.

For tests that are not about reading pictures. `test_workers.py` tests reading in other processes.
"""

import pickle
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Self
from unittest.mock import patch

from lookalike.collection import chain, duplicates, fitting, picture_text
from lookalike.images.files import LIMITS
from lookalike.images.sources import Entry
from lookalike.images.workers import Outcome, ReadPool, read_one


class ReadHere:
    """A replacement for `ReadPool`."""

    def __init__(self, then: Any, *, side: int | None, workers: int | None = None, timeout_s: float | None = None):
        self._then, self._side = pickle.loads(pickle.dumps(then)), side  # a copy, as in another process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def map(self, entries: Iterable[Entry]) -> Iterator[Outcome]:
        """Yield the outcome of each entry."""
        return (read_one(entry, self._then, self._side, LIMITS) for entry in entries)


def in_this_process() -> AbstractContextManager[None]:
    """Read pictures in this process, regardless of the number of workers."""
    return _read_with(ReadHere)


def in_other_processes() -> AbstractContextManager[None]:
    """Read pictures in other processes, inside a block that uses `in_this_process`."""
    return _read_with(ReadPool)


@contextmanager
def _read_with(pool: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for module in (chain, fitting, duplicates, picture_text):
            stack.enter_context(patch.object(module, "ReadPool", pool))
        yield
