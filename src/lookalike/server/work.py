"""Work that would hold the event loop up, done by threads; left where the client goes away.

In: a request and a function. Out: what the function returns. Each kind of work has a lane with its own threads; as many
as `Budget.waiting` may wait in it, and one more is told that the service is busy. The lane `read`, for whatever has
none of its own, lets searches go first. The function is given a `Stop`: what takes long passes `stop.progress` on, and
so ends soon after its client has gone.
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

from lookalike.index.threads import CORES
from lookalike.server.metrics import Metrics
from lookalike.server.problems import BUSY_S, Left, Problem
from lookalike.server.settings import Budget
from lookalike.server.threads import ROUND_NICE

T = TypeVar("T")

DECODERS = 2
"""Threads that wait for the processes that decode uploads: a slow picture holds nobody else up."""
DESCRIBERS = 2
"""Threads for what describes pictures anew, part by part: it takes seconds, and those who only look need not wait."""

SEARCHERS = min(3, CORES)
"""Threads for searches: they wait for each other, and for nobody who looks at pages and pictures. They compare without
Python's lock, each on its own core."""

LARGE = 1
"""Threads for large pictures, which are decoded one at a time, in seconds each."""

LEARNERS = 1
"""Threads for rounds of feedback: those who only look need not wait for many."""

LAST = 19
"""The lowest priority that there is."""

GIVE_WAY_S = 0.025
"""For so long, at most, pages, thumbnails, marks and the like wait for searches: side by side both need Python's lock
and a core. Under load the slowest searches take a sixth to a fifth less, the slowest of the others some 20 ms more."""

WATCH_S = 0.05
"""After so long somebody looks whether the client is still there."""


class Elsewhere(Exception):  # noqa: N818 — nothing is wrong
    """What was begun is for another lane."""

    def __init__(self, lane: str):
        super().__init__(lane)
        self.lane = lane


class Stop:
    """Whether anybody still waits, and in which lane the work is done."""

    def __init__(self, lane: str) -> None:
        self._lane = lane
        self._event = threading.Event()

    def set(self) -> None:
        """Nobody does."""
        self._event.set()

    def check(self) -> None:
        """Raise `Left` where nobody does."""
        if self._event.is_set():
            raise Left

    def go(self, lane: str) -> None:
        """Raise `Elsewhere`, by which the function is called again in that lane, unless it is there."""
        if lane != self._lane:
            raise Elsewhere(lane)

    def progress(self, stage: str, done: int, total: int | None) -> None:  # noqa: ARG002 — a `Progress`
        """To be passed on as a progress callback."""
        self.check()


class Work:
    """The threads of the service."""

    def __init__(self, budget: Budget, metrics: Metrics):
        self._budget = budget
        self._metrics = metrics
        self._lanes = {
            "search": ThreadPoolExecutor(min(SEARCHERS, budget.readers), "search"),
            "read": ThreadPoolExecutor(budget.readers, "read"),
            "decode": ThreadPoolExecutor(DECODERS, "decode"),
            "describe": ThreadPoolExecutor(DESCRIBERS, "describe"),
            "large": ThreadPoolExecutor(LARGE, "large"),
            "learn": ThreadPoolExecutor(LEARNERS, "learn", initializer=_stand_back),
        }
        self._pending = dict.fromkeys(self._lanes, 0)
        self._calm: asyncio.Future[None] | None = None  # done when nobody searches any more; none where nobody does
        self._closed = False
        for lane in self._lanes:
            metrics.gauges[f"pending_{lane}"] = lambda lane=lane: self._pending[lane]  # type: ignore[misc]

    async def run(
        self, request: Request, function: Callable[[Stop], T], *, lane: str = "read", timeout_s: float | None = None
    ) -> T:
        """What the function returns; Problems where it is not begun, not done in time, or not wanted any more."""
        try:
            return await self._run(request, function, lane, timeout_s)
        except Elsewhere as other:
            return await self._run(request, function, other.lane, timeout_s)

    def close(self) -> None:
        """Begin nothing more; what runs, ends."""
        self._closed = True
        for pool in self._lanes.values():
            pool.shutdown(wait=False, cancel_futures=True)

    async def _run(self, request: Request, function: Callable[[Stop], T], lane: str, timeout_s: float | None) -> T:
        self._check_room(lane)
        if lane == "read" and self._calm is not None:
            await self._give_way(self._calm)
        loop, stop = asyncio.get_running_loop(), Stop(lane)
        done: asyncio.Future[T] = loop.create_future()
        late = Problem(503, "This took too long and was stopped. Ask for less, or try again.", wait_s=BUSY_S)
        future = self._submit(lane, function, stop, done)
        timer = loop.call_later(timeout_s or self._budget.request_s, _fail, done, late)
        watch = _Watch(request, done)
        watching = loop.call_later(WATCH_S, watch.begin)
        try:
            return await done
        except Left:
            self._metrics.count("requests_left")
            raise
        finally:
            stop.set()
            future.cancel()  # where it has not begun
            timer.cancel()
            watching.cancel()
            await watch.end()

    def _check_room(self, lane: str) -> None:
        if self._closed or self._pending[lane] >= self._budget.waiting + self._budget.readers:
            raise Problem(503, "The service has too much to do. Try again in a moment.", wait_s=BUSY_S)

    async def _give_way(self, calm: "asyncio.Future[None]") -> None:
        """Wait in the lane `read` until nobody searches, but not for long."""
        self._pending["read"] += 1
        try:
            await asyncio.wait([calm], timeout=GIVE_WAY_S)
        finally:
            self._pending["read"] -= 1
        self._check_room("read")  # the service may be about to end

    def _submit(self, lane: str, function: Callable[[Stop], T], stop: Stop, done: "asyncio.Future[T]") -> "Future[T]":
        """Have a thread call the function, and then the loop tell of it: once, as each time costs it a wake-up."""
        loop = asyncio.get_running_loop()

        def task() -> T:
            stop.check()
            return function(stop)

        def ended(future: "Future[T]") -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._end, lane, future, done)

        future = self._lanes[lane].submit(task)
        self._pending[lane] += 1
        if lane == "search" and self._calm is None:
            self._calm = loop.create_future()
        future.add_done_callback(ended)
        return future

    def _end(self, lane: str, future: "Future[T]", done: "asyncio.Future[T]") -> None:
        self._pending[lane] -= 1
        if lane == "search" and not self._pending[lane]:
            assert self._calm is not None
            self._calm.set_result(None)
            self._calm = None
        error = Left() if future.cancelled() else future.exception()
        if error is not None:
            _fail(done, error)
        elif not done.done():
            done.set_result(future.result())


class _Watch:
    """Somebody who sees a client go away; begun late, for most are answered before one could."""

    def __init__(self, request: Request, done: "asyncio.Future[Any]"):
        self._request, self._done = request, done
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.ensure_future(self._look())

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _look(self) -> None:
        """Fail when the client goes away; what is left of its body is read and forgotten."""
        try:
            while (await self._request.receive())["type"] != "http.disconnect":
                pass
        except Problem as problem:  # too much of it, or too slowly
            _fail(self._done, problem)
        _fail(self._done, Left())


def _stand_back() -> None:
    """Let other threads go first; on Linux, where threads have priorities of their own."""
    if sys.platform == "linux":
        own = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, own, min(LAST, os.getpriority(os.PRIO_PROCESS, own) + ROUND_NICE))


def _fail(done: "asyncio.Future[Any]", error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
