"""Rate limits: one token bucket per client and kind of request.

Each kind stores the buckets of the last `CLIENTS` clients, so wrong credentials from many addresses only evict each
other.
"""

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from lookalike.server.problems import Problem
from lookalike.server.settings import Rates

CLIENTS = 10_000
WRONG_CREDENTIALS = ("login", "forged")
LINES = (0.2, 20)
"""Rate limit for log lines about rejected requests, per client: lines per second on average, and lines in a burst."""


class RateLimiter:
    """The buckets of all clients. Only the event loop uses them, so they need no lock."""

    def __init__(self, rates: Rates, clock: Callable[[], float] = time.monotonic):
        self._rates = {
            "work": rates.work,
            "read": rates.read,
            "login": rates.login,  # wrong credentials, by address
            "forged": rates.login,  # forged cookies, by the user they name
            "log": LINES,
        }
        self._clock = clock
        self._left: dict[str, OrderedDict[str, tuple[float, float]]] = {kind: OrderedDict() for kind in self._rates}

    def __len__(self) -> int:
        return sum(map(len, self._left.values()))

    def check(self, kind: str, client: str) -> None:
        """Take one token from the client's bucket; raise Problem 429 if the bucket is empty."""
        wait = self.take(kind, client)
        if wait:
            reason = "Too many wrong tokens were sent" if kind in WRONG_CREDENTIALS else "Too many requests"
            raise Problem(429, f"{reason}. Try again in {math.ceil(wait)} s.", wait_s=wait)

    def take(self, kind: str, client: str) -> float:
        """Take one token from the client's bucket and return 0. If it is empty, return the seconds to wait."""
        (rate, most), buckets = self._rates[kind], self._left[kind]
        now = self._clock()
        left, at = buckets.pop(client, (float(most), now))
        left = min(float(most), left + rate * (now - at))
        allowed = left >= 1
        buckets[client] = (left - 1 if allowed else left), now
        if len(buckets) > CLIENTS:
            buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / rate


def network(address: str) -> str:
    """Return the address that a limit applies to. For IPv6 it is the /64 network, which one client usually owns.

    >>> network("192.0.2.7"), network("2001:db8:1:2:aaaa::1")
    ('192.0.2.7', '2001:db8:1:2::')
    """
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return address
    return str(known.ipv4_mapped or ipaddress.IPv6Address(int(known) >> 64 << 64))
