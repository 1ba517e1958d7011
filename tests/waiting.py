"""Wait for a state, never for a fixed time, because a busy machine is slow."""

import time

TIMEOUT_S = 240
"""Time after which a wait fails. Waits that succeed are much shorter."""


def until(condition, limit_s=TIMEOUT_S):
    """Wait until a condition returns a true value; return that value."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "timed out waiting for a condition"
        time.sleep(0.01)
    return found
