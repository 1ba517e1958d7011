"""How often one client may ask: a bucket each that fills with time.

In: a kind of request and who makes it. Out: nothing, or a Problem that says when to come back. At most `CLIENTS` are
remembered, the last seen ones: the first of a long line of strangers is a stranger again.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from lookalike.server.problems import Problem
from lookalike.server.settings import Rates

CLIENTS = 10_000
LINES = (0.2, 20)
"""What the log says of refused requests of one client: lines a second, and at once."""


class Limiter:
    """The buckets of all clients. Used by the event loop alone, so without a lock."""

    def __init__(self, rates: Rates, clock: Callable[[], float] = time.monotonic):
        self._rates = {"work": rates.work, "look": rates.look, "login": rates.login, "log": LINES}
        self._clock = clock
        self._left: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def check(self, kind: str, client: str) -> None:
        """Take one from the client's bucket; 429 where it is empty."""
        wait = self.take(kind, client)
        if wait:
            raise Problem(429, f"Too many requests. Come back in {math.ceil(wait)} s.", wait_s=wait)

    def take(self, kind: str, client: str) -> float:
        """Take one from the client's bucket; the seconds until there is one, 0 where there was."""
        rate, most = self._rates[kind]
        now = self._clock()
        left, at = self._left.pop((kind, client), (float(most), now))
        left = min(float(most), left + rate * (now - at))
        allowed = left >= 1
        self._left[kind, client] = (left - 1 if allowed else left), now
        if len(self._left) > CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) / rate
