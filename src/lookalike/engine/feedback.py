"""`Session`: rounds of questions and answers in a collection, kept from the first click.

In: examples of what is wanted and unwanted, then marks. Out: each round, the best pictures so far, the next questions,
and how many there may be. The log is the session: whoever opens it by its id, after a kill too, goes on from there.
What a round does with the marks is in `feedback.round`.
"""

import getpass
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lookalike.arrays import check_count
from lookalike.engine.examples import Example, identity, listed
from lookalike.engine.looks import Result, at_one_moment, make_result, select
from lookalike.engine.marks import begin, gather, origin, say
from lookalike.engine.spaces import Spaces
from lookalike.engine.why import Why, explain_rank
from lookalike.errors import InputError
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item
from lookalike.store.sessions import KINDS, Event, Kind, Summary
from lookalike.text import many

if TYPE_CHECKING:  # learning loads scikit-learn: when it is first asked for
    from lookalike.feedback.estimate import Estimate
    from lookalike.feedback.round import Marks
    from lookalike.feedback.round import Round as Played


@dataclass(frozen=True, slots=True)
class Round:
    """What a round shows."""

    number: int
    best: list[Result]  # most wanted first
    questions: list[Item]  # what to mark next, in the order to show it
    found: int  # marked relevant, of what is ranked
    estimate: "Estimate | None"  # how many there are in all
    stop: str | None  # a sentence, where more clicks will not help
    scored: int
    seconds: dict[str, float]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Finished:
    """What a finished session left."""

    name: str
    labelled: int  # pictures that got the label
    relevant: int  # those that had it, too
    irrelevant: int  # kept in the session as known negatives
    contradicted: list[int]  # called irrelevant, but somebody has given them the label


class Session:
    """One person's search for what they mean. Cheap to open; several may be open on the same log.

    Parameters
    ----------
    store, spaces : of the collection.
    id : of a session that was started.
    author : who clicks.
    """

    def __init__(self, store: Store, spaces: Spaces, id: str, author: str | None = None):
        self.id = id
        self.author = author or login()
        self._store = store
        self._spaces = spaces
        self._log = store.judgements.sessions
        self.space = self._log.get(id).space

    @property
    def summary(self) -> Summary:
        """Where the session stands."""
        return self._log.get(self.id)

    @property
    def marks(self) -> dict[int, Kind]:
        """Item → "relevant", "irrelevant" or "skip": the last word about each that was not undone."""
        return self._log.marks(self.id)

    @property
    def log(self) -> list[Event]:
        """Everything that was shown, said and undone, in order."""
        return self._log.log(self.id)

    def round(
        self, k: int = 50, window: int = 9, *, filter: Filter | None = None, effort: float | str | None = None
    ) -> Round:
        """Learn from the marks; the k best and `window` questions, which count as shown."""
        check_count("window", window)
        self._log.check_open(self.id)
        before = self.summary.rounds
        played, items, notes = self._play(k, window, filter, effort, turn=before)
        if played.presumed:
            drawn = many(played.presumed, "picture")
            notes.append(f"Presumed irrelevant, as few were called so: {drawn} drawn by lot.")
        questions = [items[item] for item in played.questions.tolist() if item in items]
        number = self._log.show(self.id, [item.id for item in questions], author=self.author) if questions else before
        return Round(
            number=number,
            best=_results(played, items),
            questions=questions,
            found=played.found,
            estimate=played.estimate,
            stop=played.stop,
            scored=played.scored,
            seconds=dict(played.seconds),
            notes=notes,
        )

    def best(self, k: int = 50, *, filter: Filter | None = None, effort: float | str | None = None) -> list[Result]:
        """The ranking of a session, open or finished, over what the collection holds now; nothing is asked or kept."""
        played, items, _ = self._play(k, 0, filter, effort, turn=0)
        return _results(played, items)

    def why(self, item: int, k: int = 5, *, box: bool = True) -> Why:
        """Why a picture stands where it does: its margin, the k nearest marked ones, the part that speaks for it."""
        check_count("k", k)

        def look() -> Why:
            played, marks = self._learn(1, 0, None, None, turn=0)[:2]
            return explain_rank(self._store, self._spaces, self.space, item, marks, played.ranking, k, box=box)

        return at_one_moment(self._store, look)

    def mark(
        self,
        relevant: Example | Iterable[Example] = (),
        irrelevant: Example | Iterable[Example] = (),
        skip: Example | Iterable[Example] = (),
    ) -> None:
        """Say what pictures of the collection are, by id or path; on the disk when it returns.

        One call is one step for `undo`. The last word about a picture counts.
        """
        said: dict[int, Kind] = {}
        for kind, given in zip(KINDS, (relevant, irrelevant, skip), strict=True):
            for example in listed(given):
                say(said, self._item(example), kind, example)
        if said:
            self._log.mark(self.id, said, author=self.author)

    def undo(self) -> dict[int, Kind]:
        """Take back the last step of this author; returns what it had said, an empty dict where none is left."""
        return self._log.undo(self.id, author=self.author)

    def finish(self, name: str | None = None) -> Finished:
        """Give what is relevant the label `name` (default: the session's name), and end the session.

        The labels say who clicked and when, and "session" as their source. What is irrelevant is found again by the
        session's name. Finishing again under the same name does nothing new.
        """
        name = name or self.summary.name
        if name is None:
            raise InputError("A session needs a name to be finished. Give one, such as finish('red cars').")
        name = self._store.judgements.classes.canonical_names([name], new=True)[name]
        marks = self.marks
        relevant = [item for item, kind in marks.items() if kind == "relevant"]
        irrelevant = [item for item, kind in marks.items() if kind == "irrelevant"]
        if not relevant:
            raise InputError(f"Nothing is marked relevant in session {self.id}: there is nothing to call {name!r}.")
        labelled = self._store.judgements.finish(self.id, name)
        labels = self._store.judgements.labels(irrelevant)
        contradicted = [item for item in irrelevant if name in labels[item]]
        return Finished(name, labelled, len(relevant), len(irrelevant), contradicted)

    def _play(
        self, k: int, window: int, filter: Filter | None, effort: float | str | None, turn: int
    ) -> tuple["Played", dict[int, Item], list[str]]:
        check_count("k", k)

        def look() -> tuple["Played", dict[int, Item], list[str]]:
            played, _, notes = self._learn(k, window, filter, effort, turn=turn)
            if filter is not None and not len(played.best):
                raise InputError("No picture passes the filter: there is nothing to rank or to ask about.")
            wanted = np.concatenate([played.best, played.questions])
            return played, self._store.items.get(wanted[wanted >= 0].tolist()), notes

        return at_one_moment(self._store, look)

    def _learn(
        self, k: int, window: int, filter: Filter | None, effort: float | str | None, turn: int
    ) -> tuple["Played", "Marks", list[str]]:
        """Play a round on what there is now; see `feedback.round.play`."""
        from lookalike.feedback.round import play

        if self.space not in self._spaces.all():
            known = ", ".join(self._spaces.recipes()) or "none"
            raise InputError(f"The space of the session, '{self.space}', was removed. There are: {known}.")
        index = self._spaces.hyperplanes(self._spaces.taught(self._spaces.find(self.space)))
        marks, skipped, notes = gather(self._spaces, self.space, self.marks, self._log.external_examples(self.id))
        if not (marks.y > 0).any():
            raise InputError(
                f"Session {self.id} has no wanted example in the collection. Mark a picture as relevant, or undo."
            )
        played = play(
            index,
            marks,
            k=min(k, max(1, len(index))),
            window=window,
            among=None if filter is None else select(self._store, filter),
            exclude=skipped,
            effort=effort,
            seed=int(self.id, 16),  # the same strangers are presumed unwanted in every round
            turn=turn,
        )
        return played, marks, notes

    def _item(self, example: Example) -> int:
        """The picture that a mark is about: one of the collection, or one that was shown and has gone since."""
        try:
            item = identity(self._store, example)
            if item is not None and self._store.items.get([item]):
                return item
        except InputError:
            if not isinstance(example, int) or example not in {event.item for event in self.log}:
                raise
            return example
        raise InputError(f"Only pictures of the collection can be marked, by id or path. Got {origin(example)}.")


def start_session(
    store: Store,
    spaces: Spaces,
    wanted: Sequence[Example],
    unwanted: Sequence[Example],
    *,
    label: str | None = None,
    space: str | None = None,
    author: str | None = None,
    name: str | None = None,
) -> Session:
    """A new session; see `engine.marks.begin` for what a label brings."""
    author = author or login()
    begun = at_one_moment(store, lambda: begin(store, spaces, wanted, unwanted, label, space))
    made = store.judgements.sessions.start(
        begun.space, author=author, name=name, marks=begun.marks, external_examples=begun.outsiders
    )
    return Session(store, spaces, made, author)


def rehearse(spaces: Spaces, space: str | None = None) -> None:
    """Play a round with two pictures that nobody marked, and keep nothing: it loads what the first round needs."""
    from lookalike.feedback.round import Marks, play

    index = spaces.hyperplanes(spaces.taught(spaces.find(space)))
    ids = index.ids[:2]
    if len(ids) == 2:
        play(index, Marks(ids, index.vectors(ids), np.array([1, -1], np.int8)), k=1, window=1)


def login() -> str:
    """The name of who is logged in, where that is known."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


def _results(played: "Played", items: dict[int, Item]) -> list[Result]:
    pairs = zip(played.best.tolist(), played.scores.tolist(), strict=True)
    return [make_result(items[item], score) for item, score in pairs if item in items]
