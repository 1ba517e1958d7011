"""Reading and describing pictures in several processes.

`PicturePool` is the protocol of what reads pictures; `read_pool` makes the default one, processes on this machine.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from lookalike.images.sources import Entry
from lookalike.images.workers import Read, ReadPool, Skip
from lookalike.registry import restore, spec_of, state_of
from lookalike.types import Feature, Pixels, Prepared, Vectors

DESCRIBE_BATCH = 16
"""Pictures that are described at a time: measured best for the default network on two cores."""


class PicturePool(Protocol):
    """Reads pictures and prepares each one, on this machine or on others."""

    def map(self, entries: Iterable[Entry]) -> Iterator[Read | Skip]:
        """The outcome of each entry, in any order: a picture with its prepared parts, or why it was skipped."""
        ...


@contextmanager
def read_pool(prepare: Any, *, side: int, workers: int | None) -> Iterator[PicturePool]:
    """Processes that read pictures at a shorter side of at least `side` and call `prepare` on each.

    Meanwhile BLAS uses one thread in this process: its waiting threads spin, and would take the cores from the readers.
    """
    with SINGLE_BLAS_THREAD, ReadPool(prepare, side=side, workers=workers) as pool:
        yield pool


class Prepare:
    """The part of extraction that runs in the reading processes, for several features at once.

    This is `prepare`, and also `describe` if a feature describes pictures one by one. A feature is sent to a process as
    its spec and its learned arrays.
    """

    def __init__(self, features: Sequence[Feature]):
        self._features = list(features)

    def __call__(self, image: Pixels) -> list[Prepared]:
        """For each feature, what `finish` needs of a picture."""
        prepared = [feature.prepare(image) for feature in self._features]
        return [
            feature.describe([part])[0] if feature.by_picture else part
            for feature, part in zip(self._features, prepared, strict=True)
        ]

    def finish(self, parts: Sequence[Sequence[Prepared]]) -> list[Vectors]:
        """Run the rest in the calling process: n prepared pictures to (n, dim) for each feature."""
        columns = zip(*parts, strict=True)
        return [
            np.stack(column) if feature.by_picture else feature.describe(column)
            for feature, column in zip(self._features, columns, strict=True)
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_prepare, ([(spec_of(feature), state_of(feature)) for feature in self._features],)


def _restore_prepare(made_of: list[tuple[str, dict[str, NDArray[Any]]]]) -> Prepare:
    return Prepare([restore("feature", spec, state) for spec, state in made_of])


class _SingleBlasThread:
    """A context in which BLAS uses one thread. The limit belongs to the process, so nested contexts are counted."""

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


SINGLE_BLAS_THREAD = _SingleBlasThread()
"""The only instance: several threads may be inside at once."""
