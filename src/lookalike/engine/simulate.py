"""A session with an emulated person, who knows which pictures are wanted and answers every question.

In: a beginning, and the items of a class. Out: round by round, how good the ranking was. §4.A, fsm-tree.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lookalike.engine import labels
from lookalike.engine.examples import Example, identity
from lookalike.engine.marks import Beginning, gather
from lookalike.engine.spaces import Spaces
from lookalike.errors import InputError, UnknownNameError
from lookalike.limits import check_count
from lookalike.store.directory import Store
from lookalike.types import Ids

if TYPE_CHECKING:  # learning loads scikit-learn: when it is first asked for
    from lookalike.feedback.estimate import Estimate


@dataclass(frozen=True, slots=True)
class SimulatedRound:
    """How a round went."""

    round: int  # 0 is after the first examples alone
    precision: float  # the share of the wanted among the first n of the ranking, n being how many are wanted
    marked: int  # pictures marked so far, the examples included
    found: int  # of them relevant, in the collection
    estimate: "Estimate | None"  # how many the session believes there are
    stop: bool  # whether it advises to stop
    seconds: float


def simulate(
    spaces: Spaces, begun: Beginning, relevant: Ids, *, rounds: int = 10, window: int = 9, among: Ids | None = None
) -> list[SimulatedRound]:
    """Play `rounds` rounds in which every question gets the right answer."""
    from lookalike.feedback.emulated_user import EmulatedUser, emulate
    from lookalike.feedback.round import run_round as play

    check_count("rounds", rounds, 0)
    check_count("window", window)
    index = spaces.hyperplanes(spaces.taught(begun.space))
    there = index.ids if among is None else np.intersect1d(index.ids, among)
    wanted = np.intersect1d(relevant, there)
    if not len(wanted):
        raise InputError("None of the wanted pictures is in the collection: there is nothing to look for.")
    user = EmulatedUser(there, wanted)
    first = gather(spaces, begun.space, begun.marks, begun.outsiders).marks
    session = emulate(
        user,
        index,
        first,
        rounds,
        lambda marks, turn: play(index, marks, k=len(wanted), window=window, among=among, turn=turn),
    )
    return [
        SimulatedRound(
            round=number,
            precision=user.precision(played.best),
            marked=len(marks.ids),
            found=played.found,
            estimate=played.estimate,
            stop=played.stop is not None,
            seconds=sum(played.seconds.values()),
        )
        for number, (marks, played) in enumerate(session)
    ]


def find_wanted(store: Store, examples: Sequence[Example], label: str | None, source: Path | None) -> Ids:
    """The items of a label, ascending: the label that is named, or the one of the first example.

    Labels are the collection's, or those of a source as `labels.read` takes it.
    """
    first = None if label is not None or not examples else identity(store, examples[0])
    if source is None:
        known = store.judgements.label_counts()
        names = [] if first is None else store.judgements.labels([first])[first]
    else:
        pairs, _ = labels.read(store.items, source)
        known = dict(Counter(name for _, name in pairs))
        names = [name for item, name in pairs if item == first]
    if label is None and len(names) != 1:
        said = f"The first example has {', '.join(names) or 'none'}" if examples else "There is no example"
        raise InputError(f"Say which label is wanted, with label (--label), or give an example that has one. {said}.")
    name = names[0] if label is None else label
    if name not in known:
        raise UnknownNameError("label", name, known)
    if source is None:
        return store.judgements.items_with(name)
    return np.unique(np.array([item for item, other in pairs if other == name], np.int64))
