"""Reading pictures in the process of the test, because starting a reading process takes a quarter of a second.

For tests of what is done with the pictures. `test_workers.py` tests reading in other processes.
"""

import pickle
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Self
from unittest.mock import patch

from lookalike.collection import chain, duplicates, fitting
from lookalike.images.files import LIMITS
from lookalike.images.sources import Entry
from lookalike.images.workers import Read, ReadPool, Skip, read_one


class ReadHere:
    """Takes the place of `ReadPool`."""

    def __init__(self, then: Any, *, side: int | None, workers: int | None = None):
        self._then, self._side = pickle.loads(pickle.dumps(then)), side  # a copy, as another process has it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def map(self, entries: Iterable[Entry]) -> Iterator[Read | Skip]:
        """Yield the outcome of each entry."""
        for entry in entries:
            found = read_one(entry, self._then, self._side, LIMITS)
            bare = replace(entry, data=None)
            yield Skip(bare, *found) if len(found) == 2 else Read(bare, *found)


def in_this_process() -> AbstractContextManager[None]:
    """Read pictures in this process, whatever the number of workers."""
    return _read_with(ReadHere)


def in_other_processes() -> AbstractContextManager[None]:
    """Read pictures in other processes, as users do, inside a block that reads them in this one."""
    return _read_with(ReadPool)


@contextmanager
def _read_with(pool: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for module in (chain, fitting, duplicates):
            stack.enter_context(patch.object(module, "ReadPool", pool))
        yield
