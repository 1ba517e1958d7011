"""Wait for a state, never for a fixed time, because a busy machine is slow."""

import time

TIMEOUT_S = 240
"""Time after which a wait fails. Waits that succeed are much shorter."""


def until(condition):
    """Wait until a condition returns a true value; return that value."""
    started = time.monotonic()
    while not (found := condition()):
        waited_s = time.monotonic() - started
        assert waited_s < TIMEOUT_S, "timed out waiting for a condition"
        time.sleep(min(0.05, 0.01 + waited_s / 20))  # frequent requests would slow down a job of low priority
    return found
