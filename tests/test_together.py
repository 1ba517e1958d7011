"""Calls of several threads share turns."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lookalike.index import together
from lookalike.index.together import Together
from waiting import PATIENCE_S


class Slow:
    """Serves when it is let; notes who was served together."""

    def __init__(self):
        self.go = threading.Event()
        self.served = []

    def __call__(self, several):
        self.served.append(list(several))
        assert self.go.wait(PATIENCE_S)
        if -1 in several:
            raise ValueError("not this one")
        return [10 * one for one in several]


def start(pool, called, slow, first, others):
    """The answers to come of one call that is being served, and of others that wait for it."""
    begun = pool.submit(called, first)
    wait_for(lambda: slow.served)
    answers = []
    for number, one in enumerate(others):
        answers.append(pool.submit(called, one))
        wait_for(lambda number=number: len(called._waiting) == number + 1)
    return [begun, *answers]


def wait_for(there):
    end = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_those_who_come_during_a_turn_share_the_next(monkeypatch):
    monkeypatch.setattr(together, "AT_ONCE", 3)
    slow = Slow()
    called = Together(slow, turns=1)
    with ThreadPoolExecutor(6) as pool:
        answers = start(pool, called, slow, 0, [1, 2, 3, 4, 5])
        slow.go.set()
        assert [answer.result() for answer in answers] == [0, 10, 20, 30, 40, 50]
    assert slow.served == [[0], [1, 2, 3], [4, 5]]
    assert called(7) == 70  # and the turn is free again


def test_as_many_turns_as_allowed_are_taken_at_once():
    slow = Slow()
    called = Together(slow, turns=2)
    with ThreadPoolExecutor(3) as pool:
        first = [pool.submit(called, 1), pool.submit(called, 2)]
        wait_for(lambda: len(slow.served) == 2)
        third = pool.submit(called, 3)
        wait_for(lambda: called._waiting)
        slow.go.set()
        assert [answer.result() for answer in (*first, third)] == [10, 20, 30]
    assert sorted(slow.served) == [[1], [2], [3]]


def test_an_error_reaches_all_who_shared_the_turn_and_nobody_after():
    slow = Slow()
    called = Together(slow, turns=1)
    with ThreadPoolExecutor(3) as pool:
        answers = start(pool, called, slow, 0, [-1, 2])
        slow.go.set()
        assert answers[0].result() == 0
        for answer in answers[1:]:
            with pytest.raises(ValueError, match="not this one"):
                answer.result()
        assert called(3) == 30
