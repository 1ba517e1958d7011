"""Extract the features of pictures on the workers of a cluster.

A task is a batch of entries. The worker reads the pictures in a separate process, which protects it from files that
break a decoder, and returns vectors; the caller writes them. A task can run twice without harm, because the caller
recognises a picture by its content.
"""

import os
import pickle
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache

from distributed import Future, get_worker
from distributed.scheduler import KilledWorker

from lookalike.collection.chain import PicturePool, Prepare, describe_pool
from lookalike.errors import ClusterError
from lookalike.images.sources import Entry
from lookalike.images.workers import THREADS_VARIABLE, Read, Skip, make_batches

BATCH = 64
BATCH_BYTES = 64 * 2**20
"""Pictures per task: BATCH, or fewer once their files total BATCH_BYTES. A task takes about a second."""

AHEAD = 3
"""Tasks in flight per worker, so that a worker never waits for the caller."""

LOST_S = 120.0
"""Seconds without any result after which the workers count as lost."""

_BUSY = threading.Lock()  # a worker with several threads still describes one batch at a time


class ClusterPool:
    """Implements `PicturePool` on a cluster.

    Parameters
    ----------
    submit : submits a task (function, *arguments) to the cluster.
    count : returns the number of workers.
    prepare : the features.
    side : required length of the shorter side in pixels.

    """

    def __init__(self, submit: Callable[..., Future], count: Callable[[], int], prepare: Prepare, side: int):
        self._submit, self._count = submit, count
        self._orders = pickle.dumps((prepare, side))

    def map(self, entries: Iterable[Entry]) -> Iterator[Read | Skip]:
        """Yield the outcome of each entry as soon as its task ends. Lost tasks are submitted again."""
        batches = make_batches(entries, BATCH, BATCH_BYTES)
        done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        running: dict[Future, list[Entry]] = {}
        last = time.monotonic()
        try:
            while True:
                while len(running) < AHEAD * max(1, self._count()) and (batch := next(batches, None)):
                    self._start(batch, running, done)
                if not running:
                    return
                try:
                    future = done.get(timeout=1)
                except queue.Empty:
                    if time.monotonic() - last > LOST_S:
                        raise ClusterError(
                            f"No worker has returned a result for {LOST_S:.0f} s. Committed pictures are safe. Run the"
                            " same command again to continue."
                        ) from None
                    continue
                last = time.monotonic()
                yield from self._collect(future, running, done)
        finally:
            for future in running:  # the caller left the loop early
                future.cancel()

    def _start(self, batch: list[Entry], running: dict[Future, list[Entry]], done: "queue.SimpleQueue[Future]") -> None:
        future = self._submit(describe, self._orders, batch)
        running[future] = batch
        future.add_done_callback(done.put)

    def _collect(
        self, future: Future, running: dict[Future, list[Entry]], done: "queue.SimpleQueue[Future]"
    ) -> Sequence[Read | Skip]:
        """The outcomes of a finished task; none if it was lost, for example with the scheduler, and runs again."""
        batch = running.pop(future)
        try:
            outcomes: Sequence[Read | Skip] = future.result()
        except CancelledError:
            self._start(batch, running, done)
            return []
        except KilledWorker:
            reason = "the workers that read this batch of pictures were killed"
            return [Skip(replace(entry, data=None), reason) for entry in batch]
        return outcomes


def describe(orders: bytes, entries: Sequence[Entry]) -> list[Read | Skip]:
    """Read pictures and extract their features; runs on a worker."""
    with _BUSY:
        return [_with_worker(outcome) for outcome in _open_pool(orders).map(entries)]


@lru_cache(maxsize=1)
def _open_pool(orders: bytes) -> PicturePool:
    """The pool of this worker; its process ends with the worker, or when the cache drops the pool."""
    os.environ.setdefault(THREADS_VARIABLE, str(get_worker().state.nthreads))  # other workers use the other cores
    prepare, side = pickle.loads(orders)  # noqa: S301 — dask's own messages are pickled, too
    return ExitStack().enter_context(describe_pool(prepare, side=side, workers=1))


def _with_worker(outcome: Read | Skip) -> Read | Skip:
    """Name the worker in the reason if it does not see the file."""
    if isinstance(outcome, Read) or os.path.exists(outcome.entry.archive or outcome.entry.path):
        return outcome
    return replace(outcome, reason=f"it does not exist on worker {get_worker().address}", lasting=False)
