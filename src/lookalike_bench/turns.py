"""Two ways of doing the same, timed in turns: whatever else the machine does hits both alike.

In: ours and theirs as functions of what is asked, and how good an answer is. Out: a `Compared`, seconds as ratios.
Everybody has one thread, and seconds are those it worked: who else uses the cores does not count.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import faiss as _faiss
from threadpoolctl import threadpool_limits

from lookalike.index import threads

faiss: Any = _faiss  # its stubs know only a part of it

Asked = TypeVar("Asked")
Timed = Callable[[Asked], tuple[float, Any]]
"""What is asked, to the seconds it took and the answer."""
TICK_S = time.get_clock_info("process_time").resolution
"""What took no time by the clock took this at most."""


class Compared(NamedTuple):
    """What came of it: a number a turn in each list."""

    speed: list[float]
    """Their seconds over ours: above 1 we are faster."""
    ours: list[float]
    """How good our answers are, and theirs: shares, 1 is perfect."""
    theirs: list[float]


def clocked(call: Callable[[Asked], Any]) -> Timed[Asked]:
    """The same function, with the seconds it takes.

    >>> clocked(len)("four")[1]
    4
    """

    def timed(asked: Asked) -> tuple[float, Any]:
        start = time.process_time()
        answer = call(asked)
        return time.process_time() - start, answer

    return timed


def in_turns(
    ours: Timed[Asked], theirs: Timed[Asked], asked: Sequence[Asked], good: Callable[[Asked, Any], float]
) -> Compared:
    """Both sides for each member of `asked`, who comes first changing from turn to turn; `good(asked, answer)` judges.

    Whatever has to be compiled or read for the first time is for the caller to do before.
    """
    result = Compared([], [], [])
    for turn, one in enumerate(asked):
        if turn % 2:
            (theirs_s, their_answer), (ours_s, our_answer) = theirs(one), ours(one)
        else:
            (ours_s, our_answer), (theirs_s, their_answer) = ours(one), theirs(one)
        result.speed.append(max(theirs_s, TICK_S) / max(ours_s, TICK_S))
        result.ours.append(good(one, our_answer))
        result.theirs.append(good(one, their_answer))
    return result


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for our loops, for faiss, and for the linear algebra of all; as it was afterwards."""
    cores, lanes = threads.CORES, faiss.omp_get_max_threads()
    try:
        with threadpool_limits(1):
            threads.CORES = 1
            faiss.omp_set_num_threads(1)
            yield
    finally:
        threads.CORES = cores
        faiss.omp_set_num_threads(lanes)
