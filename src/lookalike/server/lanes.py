"""Threads for handlers that would block the event loop. Work is cancelled when its client disconnects.

Each kind of work has a lane, which limits its number of threads. Up to `Budget.waiting` requests wait for a lane;
further requests get status 503. The function of a handler gets a `Stop`. A long-running function uses `stop.progress`
as its progress callback, so that it ends soon after its client has disconnected.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from lookalike.collection import CORES
from lookalike.server.metrics import Metrics
from lookalike.server.problems import BUSY_S, Problem, RequestAbandoned
from lookalike.server.settings import Budget

T = TypeVar("T")

DESCRIBE_THREADS = 2
"""For requests that extract the features of many pictures or parts, which takes seconds."""
SEARCH_THREADS = min(3, CORES)
"""For searches. They compare vectors without the GIL, each on its own core."""
LARGE_THREADS = 1
"""For large pictures. Decoding one takes seconds."""
LEARN_THREADS = 1
"""For feedback rounds."""


class Stop:
    """Whether the work has started, and whether it is still needed."""

    def __init__(self) -> None:
        self.has_started = False
        self._event = threading.Event()

    def set(self) -> None:
        """Cancel the work."""
        self._event.set()

    def check(self) -> None:
        """Raise RequestAbandoned if the work was cancelled."""
        if self._event.is_set():
            raise RequestAbandoned

    def progress(self, stage: str, done: int, total: int | None) -> None:  # noqa: ARG002 — a `Progress`
        """Progress callback that raises RequestAbandoned if the work was cancelled."""
        self.check()


class Lanes:
    """The lanes of a service, each with its threads and its queue."""

    def __init__(self, budget: Budget, metrics: Metrics):
        self._budget = budget
        self._metrics = metrics
        threads = {
            "search": min(SEARCH_THREADS, budget.readers),
            "read": min(max(2, CORES), budget.readers),  # more would only wait for the GIL
            "decode": budget.decoders,
            "describe": DESCRIBE_THREADS,
            "large": LARGE_THREADS,
            "learn": LEARN_THREADS,
        }
        self._limiters = {lane: CapacityLimiter(n) for lane, n in threads.items()}
        self._closed = False
        for lane in threads:
            metrics.gauges[f"pending_{lane}"] = lambda lane=lane: self._pending(lane)  # type: ignore[misc]

    async def run(self, request: Request, function: Callable[[Stop], T], *, lane: str = "read") -> T:
        """Run a function in a thread of a lane and return its result.

        Raises Problem 503 if the queue of the lane is full or the function takes too long, and RequestAbandoned if the
        client disconnects.
        """
        if self._closed or self._limiters[lane].statistics().tasks_waiting >= self._budget.waiting:
            raise Problem(503, "The service is overloaded. Try again in a moment.", wait_s=BUSY_S)
        stop = Stop()

        def call() -> T:
            stop.has_started = True
            stop.check()
            return function(stop)

        work = asyncio.ensure_future(to_thread.run_sync(call, limiter=self._limiters[lane]))
        disconnect = asyncio.ensure_future(_disconnect(request))
        try:
            await asyncio.wait({work, disconnect}, timeout=self._budget.request_s, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            if disconnect.done():
                disconnect.result()  # raises if the remaining body is too large or too slow
                self._metrics.count("requests_left")
                raise RequestAbandoned
            raise Problem(503, "The request took too long and was stopped. Request less, or try again.", wait_s=BUSY_S)
        finally:
            stop.set()
            disconnect.cancel()
            if not stop.has_started:
                work.cancel()
            work.add_done_callback(_forget)

    def close(self) -> None:
        """Reject further work. Running functions finish."""
        self._closed = True

    def _pending(self, lane: str) -> int:
        """Return the number of requests that run or wait in a lane."""
        statistics = self._limiters[lane].statistics()
        return statistics.borrowed_tokens + statistics.tasks_waiting


async def _disconnect(request: Request) -> None:
    """Wait until the client disconnects; read and discard the rest of its body."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _forget(work: "asyncio.Future[T]") -> None:
    """Retrieve the exception of abandoned work; otherwise asyncio would log it."""
    if not work.cancelled():
        work.exception()
