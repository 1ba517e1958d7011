"""An emulated user who answers every question correctly, to measure feedback sessions.

Crucianu et al. (fsm-tree), §4.A: a session starts with one relevant example and ws − 1 random irrelevant ones, ws = 9.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError
from lookalike.feedback.round import Marks
from lookalike.index.ids import check_ids, sort_ids
from lookalike.types import Ids, Searchable

WINDOW = 9
"""Questions per round: ws."""


class EmulatedUser:
    """A user who marks the items of one class as positive and all others as negative.

    Parameters
    ----------
    ids : (n,) all items.
    relevant : (m,) the positive items, m ≥ 1.

    Examples
    --------
    >>> user = EmulatedUser(np.arange(100), np.arange(20))
    >>> user.answer(np.array([3, 50])).tolist()
    [1, -1]
    >>> first, signs = user.start(np.random.default_rng(0))
    >>> signs.tolist()
    [1, -1, -1, -1, -1, -1, -1, -1, -1]

    """

    def __init__(self, ids: Ids, relevant: Ids):
        self.relevant = sort_ids(relevant, "relevant")
        everything = check_ids(ids)
        self.irrelevant: Ids = everything[~np.isin(everything, self.relevant)]
        if not len(self.relevant) or not np.all(np.isin(self.relevant, everything)):
            raise InputError(
                f"relevant must contain at least one id, and only ids that are in ids. Got {relevant!r:.80}."
            )

    def start(self, random: np.random.Generator, window: int = WINDOW) -> tuple[Ids, NDArray[np.int8]]:
        """The first marks of a session: ids (window,) and signs, the relevant one first."""
        first = random.choice(self.relevant, 1)
        others = random.choice(self.irrelevant, min(window - 1, len(self.irrelevant)), replace=False)
        ids: Ids = np.concatenate([first, others])
        return ids, self.answer(ids)

    def answer(self, ids: Ids) -> NDArray[np.int8]:
        """Return +1 for relevant items and -1 for the others, (m,)."""
        return np.where(np.isin(ids, self.relevant), 1, -1).astype(np.int8)

    def precision(self, ranked: Any) -> float:
        """The share of relevant items among the first n of a ranking, for n relevant items (§4.A, fsm-tree).

        >>> EmulatedUser(np.arange(9), np.array([1, 2])).precision(np.array([2, 5, 1]))
        0.5
        """
        first = np.asarray(ranked)[: len(self.relevant)]
        return float(np.isin(first, self.relevant).sum() / len(self.relevant))


class HasQuestions(Protocol):
    """The part of a round that `emulate` uses."""

    @property
    def questions(self) -> Ids:
        """Ids of the items to ask about, (w,)."""
        ...


AnyRound = TypeVar("AnyRound", bound=HasQuestions)


def emulate(
    user: EmulatedUser, index: Searchable, marks: Marks, rounds: int, run: Callable[[Marks, int], AnyRound]
) -> Iterator[tuple[Marks, AnyRound]]:
    """Run a session; yield the marks so far and the result of `run(marks, turn)`, for each round.

    Round 0 has only the first marks, and up to `rounds` rounds follow. The session ends early if no questions are left.

    >>> from lookalike.feedback.round import run_round
    >>> from lookalike.index.flat import Flat
    >>> index, X = Flat(), np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    >>> index.add(np.arange(60), X)
    >>> user, first = EmulatedUser(index.ids, np.arange(20)), Marks(np.array([3]), X[3:4], np.array([1], np.int8))
    >>> session = emulate(user, index, first, 2, lambda marks, turn: run_round(index, marks, turn=turn))
    >>> [len(marks.y) for marks, _ in session]
    [1, 10, 19]
    """
    for turn in range(rounds + 1):
        result = run(marks, turn)
        yield marks, result
        asked = result.questions
        if not len(asked):
            return
        marks = Marks(
            ids=np.append(marks.ids, asked),
            X=np.concatenate([marks.X, index.vectors(asked)]),
            y=np.append(marks.y, user.answer(asked)),
        )
