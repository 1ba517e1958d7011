"""Tests wait for a state, never for a time: a machine that is busy is slow, not wrong."""

import time

PATIENCE_S = 240
"""After so long without the state that is waited for, it will not come. Waits end much sooner when all is well."""


def until(condition, limit_s=PATIENCE_S):
    """What a condition gives as soon as it is true."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.01)
    return found
