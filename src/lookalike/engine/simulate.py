"""A session with an emulated person, who knows which pictures are wanted and answers every question.

In: a beginning, and the items of a class. Out: round by round, how good the ranking was. §4.A, fsm-tree.
"""

from dataclasses import dataclass

import numpy as np

from lookalike.engine.marks import Beginning, gather
from lookalike.engine.spaces import Spaces
from lookalike.errors import InputError
from lookalike.types import Ids


@dataclass(frozen=True, slots=True)
class SimulatedRound:
    """How a round went."""

    round: int  # 0 is after the first examples alone
    precision: float  # the share of the wanted among the first n of the ranking, n being how many are wanted
    marked: int  # pictures marked so far, the examples included
    found: int  # of them relevant, in the collection
    estimate: tuple[float, float, float] | None  # low, likely, high: how many the session believes there are
    stop: bool  # whether it advises to stop
    seconds: float


def simulate(
    spaces: Spaces, begun: Beginning, relevant: Ids, *, rounds: int = 10, window: int = 9, among: Ids | None = None
) -> list[SimulatedRound]:
    """Play `rounds` rounds in which every question gets the right answer."""
    from lookalike.feedback.round import play
    from lookalike.feedback.user import EmulatedUser

    index = spaces.hyperplanes(spaces.taught(begun.space))
    there = index.ids if among is None else np.intersect1d(index.ids, among)
    wanted = np.intersect1d(relevant, there)
    if not len(wanted):
        raise InputError("None of the wanted pictures is in the collection: there is nothing to look for.")
    user = EmulatedUser(there, wanted)
    marks = dict(begun.marks)
    played = []
    for number in range(rounds + 1):
        gathered = gather(spaces, begun.space, marks, begun.outsiders)
        result = play(index, gathered.marks, k=len(wanted), window=window, among=among, seed=number)
        estimate = result.estimate
        played.append(
            SimulatedRound(
                round=number,
                precision=user.precision(result.best),
                marked=len(gathered.marks.ids),
                found=result.found,
                estimate=None if estimate is None else (estimate.low, estimate.likely, estimate.high),
                stop=result.stop is not None,
                seconds=sum(result.seconds.values()),
            )
        )
        if not len(result.questions):
            break
        answers = user.answer(result.questions).tolist()
        marks |= {
            item: "relevant" if answer > 0 else "irrelevant"
            for item, answer in zip(result.questions.tolist(), answers, strict=True)
        }
    return played
