"""`Executor`: where the expensive work of a collection runs. `LocalExecutor` uses this machine, `Cluster` many.

The catalogue, the labels and every write stay in the process that opened the collection. An executor only reads: it
extracts the features of pictures, searches stored rows, and runs checks of stored files.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from lookalike.collection.chain import PicturePool, Prepare, describe_pool
from lookalike.index.exact import ExactIndex
from lookalike.store.segments import Block
from lookalike.types import Searchable

T = TypeVar("T")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs the expensive work of a collection. Thread-safe."""

    def describe_pool(self, prepare: Prepare, side: int, workers: int | None) -> AbstractContextManager[PicturePool]:
        """Start a pool that reads pictures at a shorter side of at least `side` and extracts their features."""
        ...

    def shard(self, index: ExactIndex, blocks: Sequence[Block]) -> Searchable | None:
        """An index with the same rows, whose searches run elsewhere; None to search here.

        `index` has the rows of these blocks, in this order.
        """
        ...

    def map(self, function: Callable[[T], Result], values: Iterable[T]) -> Iterator[Result]:
        """Yield the result of a picklable function for each value, in order."""
        ...


class LocalExecutor:
    """The executor of a collection that uses one machine."""

    def describe_pool(self, prepare: Prepare, side: int, workers: int | None) -> AbstractContextManager[PicturePool]:
        """Start processes that read pictures."""
        return describe_pool(prepare, side=side, workers=workers)

    def shard(self, index: ExactIndex, blocks: Sequence[Block]) -> Searchable | None:  # noqa: ARG002 — protocol
        """None: indexes on this machine answer searches."""
        return None

    def map(self, function: Callable[[T], Any], values: Iterable[T]) -> Iterator[Any]:
        """Apply the function in this process."""
        return map(function, values)
