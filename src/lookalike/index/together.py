"""Calls of several threads, done together: whoever comes while others are served waits, and shares the next turn.

In: a function from a list of what is asked to a list of answers. Out: something that each thread calls with its own. A
search among many vectors reads all of them: several at once read them once.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from lookalike.index.threads import CORES

A = TypeVar("A")
R = TypeVar("R")

TURNS = max(1, CORES // 2)
"""Turns at a time: the other cores are for all else."""
AT_ONCE = 32
"""Calls that share a turn at most."""


class Together(Generic[A, R]):
    """A function of one, out of a function of many.

    >>> double = Together(lambda several: [2 * one for one in several])
    >>> double(21)
    42
    """

    def __init__(self, serve: Callable[[Sequence[A]], Sequence[R]], turns: int = TURNS):
        self._serve = serve
        self._free = turns
        self._lock = threading.Lock()
        self._waiting: list[_Call[A, R]] = []

    def __call__(self, asked: A) -> R:
        """The answer, or what was raised in its place."""
        mine = _Call[A, R](asked)
        with self._lock:
            if self._free:
                self._free -= 1
                mine.turn = [mine]
            else:
                self._waiting.append(mine)
        if not mine.turn:
            mine.called.wait()
        if mine.turn:
            self._take_turn(mine.turn)
        if mine.error is not None:
            raise mine.error
        return mine.answer

    def _take_turn(self, calls: "list[_Call[A, R]]") -> None:
        """Serve these calls, then give the turn to those who wait; the first of them takes it."""
        try:
            for call, answer in zip(calls, self._serve([call.asked for call in calls]), strict=True):
                call.answer = answer
        except BaseException as error:  # noqa: BLE001 — raised by whoever asked
            for call in calls:
                call.error = error
        with self._lock:
            following, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            if following:
                following[0].turn = following
            else:
                self._free += 1
        for call in (*calls[1:], *following[:1]):
            call.called.set()


class _Call(Generic[A, R]):
    """What one thread asks."""

    answer: R

    def __init__(self, asked: A):
        self.asked = asked
        self.error: BaseException | None = None
        self.turn: list[_Call[A, R]] = []  # the calls that this one serves, itself first
        self.called = threading.Event()  # it was served, or it is its turn
