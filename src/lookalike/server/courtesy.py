"""Jobs stand still while somebody searches: what they do on one core, at whatever priority, slows every other.

In: searches that begin and end. Out: the processes of jobs, stopped and continued. Used by the event loop alone. When
they have stood still for `STILL_S`, at once or in parts, they have `MOVE_S` without a stop: no job starves, and nobody
waits long for what one of them has locked. That may be the event loop itself, which has them go on: a thread sees to it
when it is late.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lookalike.server.jobs import Jobs

STILL_S = 0.25
MOVE_S = 0.05
LATE_S = 2 * STILL_S
"""They stand still for so long only where the event loop is held up."""


class Courtesy:
    """What jobs owe to those who search."""

    def __init__(self, jobs: Jobs):
        self._jobs = jobs
        self._searches = 0
        self._timer: asyncio.TimerHandle | None = None  # runs while they stand still, and while they may not
        self._still = threading.Event()  # set while they stand still, and at the end
        self._since = 0.0  # when they last stopped, or went on
        self._stood = 0.0  # for how long, since they last had MOVE_S
        self._watch = threading.Thread(target=self._look, name="courtesy", daemon=True)
        self._closed = False

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._still.set()

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Somebody waits for a search in this block."""
        self._searches += 1
        self._stop()
        try:
            yield
        finally:
            self._searches -= 1
            if self._still.is_set() and not self._searches:
                self._go_on()

    def _stop(self) -> None:
        """Have them stand still, where somebody searches and they have not done so for long enough."""
        if self._timer is not None or not self._searches or not self._jobs.pause():
            return
        loop = asyncio.get_running_loop()
        if loop.time() - self._since >= MOVE_S:
            self._stood = 0.0
        self._since = loop.time()
        self._still.set()
        if self._watch.ident is None:
            self._watch.start()
        self._timer = loop.call_later(max(0.0, STILL_S - self._stood), self._go_on)

    def _go_on(self) -> None:
        """Have them move; for a while in any case, where they have stood still for long enough."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        self._stood += loop.time() - self._since
        self._since, self._timer = loop.time(), None
        if not self._closed:
            self._still.clear()
        self._jobs.resume()
        if self._stood >= STILL_S:
            self._timer = loop.call_later(MOVE_S, self._rested)

    def _rested(self) -> None:
        self._timer, self._stood = None, 0.0
        self._stop()

    def _look(self) -> None:
        """Have them go on where the event loop has not, in a thread of its own."""
        while not self._closed:
            self._still.wait()
            since = self._since
            time.sleep(LATE_S)
            if self._still.is_set() and self._since == since:
                self._jobs.resume()
