"""Jobs stand still while somebody searches: what they do on one core, at whatever priority, slows every other.

In: searches that begin and end. Out: the processes of jobs, stopped and continued. Used by the event loop alone. They
stand still for `STILL_S` at most, and then have `MOVE_S` at least: no job starves, and nobody waits long for what one
of them has locked.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from lookalike.server.jobs import Jobs

STILL_S = 0.25
MOVE_S = 0.05


class Courtesy:
    """What jobs owe to those who search."""

    def __init__(self, jobs: Jobs):
        self._jobs = jobs
        self._searches = 0
        self._free = 0.0  # until when they may not be stopped
        self._timer: asyncio.TimerHandle | None = None  # runs while they stand still

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Somebody waits for a search in this block."""
        self._searches += 1
        self._stop()
        try:
            yield
        finally:
            self._searches -= 1
            if not self._searches and self._timer is not None:
                self._go_on()

    def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._searches and self._timer is None and loop.time() >= self._free and self._jobs.pause():
            self._timer = loop.call_later(STILL_S, self._move)

    def _move(self) -> None:
        """They have stood still for long enough, whoever searches."""
        self._go_on()
        loop = asyncio.get_running_loop()
        self._free = loop.time() + MOVE_S
        loop.call_at(self._free, self._stop)

    def _go_on(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._timer = None
        self._jobs.resume()
