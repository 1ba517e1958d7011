"""Extract the features of pictures on the workers of a cluster.

A task is a batch of entries. The worker reads the pictures in a separate process, which protects it from files that
break a decoder, and returns vectors; the caller writes them. A task can run twice without harm, because the caller
recognizes a picture by its content.
"""

import os
import pickle
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, suppress

from distributed import Future, get_worker
from distributed.scheduler import KilledWorker

from lookalike.collection.chain import PicturePool, Prepare, describe_pool
from lookalike.errors import ClusterError
from lookalike.images.sources import DELETED, Entry
from lookalike.images.workers import CARRY_BYTES, THREADS_VARIABLE, Outcome, Skip, count_carried, make_batches

BATCH = 64
BATCH_BYTES = 64 * 2**20
"""Pictures per task: BATCH, or fewer once their files total BATCH_BYTES. A task takes about a second."""

AHEAD = 3
"""Tasks in flight per worker, so that a worker never waits for the caller."""

LOST_S = 120.0
"""Seconds without any result after which the workers count as lost."""

_BUSY = threading.Lock()  # a worker with several threads still describes one batch at a time
_POOL: dict[bytes, tuple[ExitStack, PicturePool]] = {}  # of this worker: at most one, by the features


class ClusterPool:
    """Implements `PicturePool` on a cluster.

    Parameters
    ----------
    submit : submits a task (function, *arguments) to the cluster. Raises ClusterError if there is no connection.
    count : returns the number of workers.
    prepare : the features.
    side : required length of the shorter side in pixels.

    """

    def __init__(self, submit: Callable[..., Future], count: Callable[[], int], prepare: Prepare, side: int):
        self._submit, self._count = submit, count
        self._features = pickle.dumps((prepare, side))

    def map(self, entries: Iterable[Entry]) -> Iterator[Outcome]:
        """Yield the outcome of each entry as soon as its task ends. Lost tasks are submitted again."""
        batches = make_batches(entries, BATCH, BATCH_BYTES)
        lost: deque[list[Entry]] = deque()
        running: dict[Future, list[Entry]] = {}
        done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        heard_at = time.monotonic()
        try:
            while True:
                self._fill(running, lost, batches, done)
                if not running and not lost:
                    return
                try:
                    future = done.get(timeout=1)
                except queue.Empty:
                    lost += [running.pop(future) for future in [*running] if future.cancelled()]
                    if time.monotonic() - heard_at > LOST_S:
                        raise ClusterError(
                            f"No worker has returned a result for {LOST_S:.0f} s. Committed pictures are safe. Run the"
                            " same command again to continue."
                        ) from None
                    continue
                batch = running.pop(future, None)
                if batch is None:
                    continue
                try:
                    worker, outcomes = future.result()
                    yield from (_name_worker(outcome, worker) for outcome in outcomes)
                    heard_at = time.monotonic()
                except CancelledError:  # with the scheduler, for example
                    lost.append(batch)
                except KilledWorker:
                    reason = "the workers that read this batch of pictures were killed"
                    yield from [Skip(entry.bare(), reason) for entry in batch]
        finally:
            with suppress(Exception):  # if the connection is lost, there is nothing to cancel
                for future in running:  # the caller left the loop early
                    future.cancel()

    def _fill(
        self,
        running: dict[Future, list[Entry]],
        lost: deque[list[Entry]],
        batches: Iterator[list[Entry]],
        done: "queue.SimpleQueue[Future]",
    ) -> None:
        """Submit lost and new batches until every worker has AHEAD tasks, or they carry CARRY_BYTES."""
        carried = sum(map(count_carried, running.values()))
        while len(running) < AHEAD * max(1, self._count()) and (not running or carried < CARRY_BYTES):
            batch = lost.popleft() if lost else next(batches, None)
            if batch is None:
                return
            try:
                future = self._submit(describe, self._features, batch)
            except ClusterError:
                lost.append(batch)
                return
            running[future] = batch
            carried += count_carried(batch)
            future.add_done_callback(done.put)


def describe(features: bytes, entries: Sequence[Entry]) -> tuple[str, list[Outcome]]:
    """Read pictures and extract these features; runs on a worker. Returns its address and the outcomes."""
    with _BUSY:
        return get_worker().address, list(_open_pool(features).map(entries))


def _open_pool(features: bytes) -> PicturePool:
    """The pool of this worker for these features; the process of the previous pool ends."""
    if features not in _POOL:
        for stack, _ in _POOL.values():
            stack.close()
        _POOL.clear()
        os.environ.setdefault(THREADS_VARIABLE, str(get_worker().state.nthreads))  # other workers use the other cores
        prepare, side = pickle.loads(features)  # noqa: S301 — dask's own messages are pickled, too
        stack = ExitStack()
        _POOL[features] = stack, stack.enter_context(describe_pool(prepare, side=side, workers=1))
    return _POOL[features][1]


def _name_worker(outcome: Outcome, worker: str) -> Outcome:
    """Name the worker in the reason if it does not see a file that the head sees."""
    if isinstance(outcome, Skip) and outcome.reason == DELETED:
        entry = outcome.entry
        if os.path.exists(entry.archive or entry.path):
            return Skip(entry, f"it does not exist on worker {worker}")
    return outcome
