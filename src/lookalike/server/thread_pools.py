"""Thread pools for handlers that would block the event loop; work is cancelled when its client disconnects.

Each kind of work has a lane: a pool with its own threads, in which `Budget.waiting` requests may wait; further requests
get a 503. The default lane, `read`, gives searches priority. A function gets a `Stop`; a long one passes
`stop.progress` on as its progress callback, and so ends soon after its client has disconnected.
"""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.requests import Request

from lookalike.collection import CORES
from lookalike.server.metrics import Metrics
from lookalike.server.problems import BUSY_S, ClientGone, Problem
from lookalike.server.settings import Budget

T = TypeVar("T")

DESCRIBE_THREADS = 2
"""For requests that describe pictures part by part, which takes seconds."""
SEARCH_THREADS = min(3, CORES)
"""For searches. They compare vectors without the GIL, each on its own core."""
LARGE_THREADS = 1
"""For large pictures: they are decoded one at a time, in seconds each."""
LEARN_THREADS = 1
"""For feedback rounds."""

LEARN_NICE = 5
"""Niceness of feedback rounds. With 10, rounds take a sixth longer under load, and searches are not faster."""
MAX_NICE = 19

YIELD_S = 0.025
"""The longest time that the lane `read` waits for searches: both need the GIL and a core. Under load, the slowest
searches take a sixth to a fifth less time, the slowest of the other requests 20 ms more."""

WATCH_S = 0.05
"""Delay before a request is watched for a disconnect; most are answered sooner."""


class OtherLane(Exception):  # noqa: N818 — not an error
    """The function must run in another lane."""

    def __init__(self, lane: str):
        super().__init__(lane)
        self.lane = lane


class Stop:
    """Whether the work is still needed, and the lane in which it runs."""

    def __init__(self, lane: str) -> None:
        self._lane = lane
        self._event = threading.Event()

    def set(self) -> None:
        """Cancel the work."""
        self._event.set()

    def check(self) -> None:
        """Raise `ClientGone` if the work was cancelled."""
        if self._event.is_set():
            raise ClientGone

    def move_to(self, lane: str) -> None:
        """Make the function run again in that lane, by raising `OtherLane`, unless it runs there already."""
        if lane != self._lane:
            raise OtherLane(lane)

    def progress(self, stage: str, done: int, total: int | None) -> None:  # noqa: ARG002 — a `Progress`
        """A progress callback that raises `ClientGone` if the work was cancelled."""
        self.check()


class ThreadPools:
    """The thread pools of the service."""

    def __init__(self, budget: Budget, metrics: Metrics):
        self._budget = budget
        self._metrics = metrics
        self._lanes = {
            "search": ThreadPoolExecutor(min(SEARCH_THREADS, budget.readers), "search"),
            "read": ThreadPoolExecutor(budget.readers, "read"),
            "decode": ThreadPoolExecutor(budget.decoders, "decode"),
            "describe": ThreadPoolExecutor(DESCRIBE_THREADS, "describe"),
            "large": ThreadPoolExecutor(LARGE_THREADS, "large"),
            "learn": ThreadPoolExecutor(LEARN_THREADS, "learn", initializer=_lower_priority),
        }
        self._pending = dict.fromkeys(self._lanes, 0)
        self._searches_done: asyncio.Future[None] | None = None  # None while no search runs
        self._closed = False
        for lane in self._lanes:
            metrics.gauges[f"pending_{lane}"] = lambda lane=lane: self._pending[lane]  # type: ignore[misc]

    async def run(
        self, request: Request, function: Callable[[Stop], T], *, lane: str = "read", timeout_s: float | None = None
    ) -> T:
        """Return what the function returns; Problem 503 if the queue is full or it takes too long; ClientGone."""
        try:
            return await self._run(request, function, lane, timeout_s)
        except OtherLane as other:
            return await self._run(request, function, other.lane, timeout_s)

    def close(self) -> None:
        """Start nothing more; functions that run end."""
        self._closed = True
        for pool in self._lanes.values():
            pool.shutdown(wait=False, cancel_futures=True)

    async def _run(self, request: Request, function: Callable[[Stop], T], lane: str, timeout_s: float | None) -> T:
        self._check_queue(lane)
        if lane == "read" and self._searches_done is not None:
            await self._yield_to_searches(self._searches_done)
        loop, stop = asyncio.get_running_loop(), Stop(lane)
        done: asyncio.Future[T] = loop.create_future()
        late = Problem(503, "This took too long and was stopped. Ask for less, or try again.", wait_s=BUSY_S)
        future = self._submit(lane, function, stop, done)
        timer = loop.call_later(timeout_s or self._budget.request_s, _fail, done, late)
        watch = _Watch(request, done)
        watching = loop.call_later(WATCH_S, watch.start)
        try:
            return await done
        except ClientGone:
            self._metrics.count("requests_left")
            raise
        finally:
            stop.set()
            future.cancel()  # if it has not started
            timer.cancel()
            watching.cancel()
            await watch.end()

    def _check_queue(self, lane: str) -> None:
        if self._closed or self._pending[lane] >= self._budget.waiting + self._budget.readers:
            raise Problem(503, "The service has too much to do. Try again in a moment.", wait_s=BUSY_S)

    async def _yield_to_searches(self, searches_done: "asyncio.Future[None]") -> None:
        """Wait until no search runs, at most `YIELD_S`."""
        self._pending["read"] += 1
        try:
            await asyncio.wait([searches_done], timeout=YIELD_S)
        finally:
            self._pending["read"] -= 1
        self._check_queue("read")  # the service may be shutting down

    def _submit(self, lane: str, function: Callable[[Stop], T], stop: Stop, done: "asyncio.Future[T]") -> "Future[T]":
        """Call the function in a thread, then wake the event loop once: each wake-up costs time."""
        loop = asyncio.get_running_loop()

        def task() -> T:
            stop.check()
            return function(stop)

        def ended(future: "Future[T]") -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._end, lane, future, done)

        future = self._lanes[lane].submit(task)
        self._pending[lane] += 1
        if lane == "search" and self._searches_done is None:
            self._searches_done = loop.create_future()
        future.add_done_callback(ended)
        return future

    def _end(self, lane: str, future: "Future[T]", done: "asyncio.Future[T]") -> None:
        self._pending[lane] -= 1
        if lane == "search" and not self._pending[lane]:
            assert self._searches_done is not None
            self._searches_done.set_result(None)
            self._searches_done = None
        error = ClientGone() if future.cancelled() else future.exception()
        if error is not None:
            _fail(done, error)
        elif not done.done():
            done.set_result(future.result())


class _Watch:
    """Watches for the disconnect of a client."""

    def __init__(self, request: Request, done: "asyncio.Future[Any]"):
        self._request, self._done = request, done
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._watch())

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        """Fail the request when the client disconnects; the rest of its body is read and discarded."""
        try:
            while (await self._request.receive())["type"] != "http.disconnect":
                pass
        except Problem as problem:  # the body is too large or too slow
            _fail(self._done, problem)
        _fail(self._done, ClientGone())


def _lower_priority() -> None:
    """Lower the priority of this thread; on Linux, where threads have priorities of their own."""
    if sys.platform == "linux":
        own = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, own, min(MAX_NICE, os.getpriority(os.PRIO_PROCESS, own) + LEARN_NICE))


def _fail(done: "asyncio.Future[Any]", error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
