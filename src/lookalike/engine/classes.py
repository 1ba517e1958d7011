"""`Classes`: what a person does with the classes of a collection, and what new pictures are taken for.

In: names and pictures. Out: classes with their members, guesses with probabilities, figures. A class is its labels:
whoever labels a picture, by any verb, puts it into the class of that name, and predictions are kept apart from that.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from math import inf
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lookalike.arrays import chunks
from lookalike.engine.class_inputs import files_in, pictures_of, read_hierarchy, rows_of
from lookalike.engine.class_model import ClassModel, Settings
from lookalike.engine.evaluation import Evaluation, evaluate
from lookalike.engine.examples import Example, listed
from lookalike.engine.feedback import Finished, Session, login
from lookalike.engine.guesses import Guess
from lookalike.engine.looks import at_one_moment
from lookalike.engine.spaces import Spaces
from lookalike.errors import InputError, UnknownNameError
from lookalike.store.classes import ClassNames, Membership, Prediction, Predictions, normalize_label
from lookalike.store.directory import Store
from lookalike.types import Ids, Progress, silent

PREDICTED_BYTES = 64 * 2**20
"""What is held of the vectors of pictures that are classified at a time."""


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """A class at a glance."""

    name: str
    pictures: int  # that somebody put into it, and that the collection has
    elsewhere: int  # the same, of pictures that it does not have now
    predicted: int
    parents: list[str]


@dataclass(frozen=True, slots=True)
class ClassView:
    """A class and its pictures."""

    name: str
    members: list[Membership]  # in the order in which it was said
    predicted: list[Prediction]  # the surest first
    parents: list[str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a picture is taken for."""

    id: int | None  # where it is a file or an item
    path: str | None
    labels: list[str]  # what people said it is
    guess: Guess


class Predicted(NamedTuple):
    """What came of a classification that was kept."""

    classes: dict[str, int]  # how many pictures of each
    none: int  # of none of these


class Classes:
    """The classes of a collection; `Collection.classes` is one."""

    def __init__(self, store: Store, spaces: Spaces):
        self._store = store
        self._spaces = spaces
        self._model = ClassModel(store, spaces)

    @property
    def _book(self) -> ClassNames:
        return self._store.judgements.classes

    @property
    def _predictions(self) -> Predictions:
        return self._store.judgements.predictions

    def all(self) -> list[ClassSummary]:
        """Every class, sorted by name."""
        items, counts, parents = set(self._store.items.ids().tolist()), self._book.counts(), self._parents()
        here = Counter(name for item, name in self._book.all_labels()[1] if item in items)
        guessed = {name: sum(item in items for item in ids) for name, ids in self._predictions.items_by_label().items()}
        return [
            ClassSummary(name, here[name], max(0, n - here[name]), guessed.get(name, 0), parents.get(name, []))
            for name, n in counts.items()
        ]

    def show(self, name: str) -> ClassView:
        """One class: who put what into it, and what is predicted to be of it; of pictures that are there."""
        name = self._one(name)
        self._book.check(name)
        members, predicted = self._book.members(name), self._predictions.of(name)
        here = self._store.items.get([said.item for said in members] + [guess.item for guess in predicted])
        return ClassView(
            name,
            [member for member in members if member.item in here],
            [prediction for prediction in predicted if prediction.item in here],
            self._parents().get(name, []),
        )

    def add(self, name: str, pictures: Example | Iterable[Example] = (), *, author: str | None = None) -> int:
        """Put pictures of the collection into a class, by id, path or folder; returns how many were not in it.

        The class may be new. One without pictures is chosen only where the hierarchy lends it a mean.
        """
        return self._book.add(self._one(name, new=True), pictures_of(self._store, pictures), author=author or login())

    def add_session(self, session: str, name: str | None = None) -> Finished:
        """Make a feedback session a class: it is finished, under its own name or another."""
        return Session(self._store, self._spaces, session).finish(name)

    def remove(self, name: str, pictures: Example | Iterable[Example]) -> int:
        """Take pictures out of a class again; returns how many were in it. A class that was named here stays."""
        name = self._one(name)
        self._book.check(name)
        return self._store.judgements.remove_labels([(item, name) for item in pictures_of(self._store, pictures)])

    def rename(self, old: str, new: str) -> int:
        """Give a class another name; returns its pictures."""
        before, after = self._one(old), self._one(new, new=True)
        return self._book.rename(before, normalize_label(new) if after == before else after)

    def merge(self, *names: str, into: str) -> int:
        """Make one class of several, with a new name or one of theirs; returns its pictures."""
        return self._book.merge([self._one(name) for name in names], self._one(into, new=True))

    def split(self, name: str, new: str, pictures: Example | Iterable[Example], *, author: str | None = None) -> int:
        """Make some pictures of a class a class of their own; returns how many they are."""
        items = pictures_of(self._store, pictures)
        return self._book.split(self._one(name), self._one(new, new=True), items, author=author or login())

    def delete(self, name: str) -> int:
        """Forget a class, its labels and what was predicted; returns how many labels. The pictures stay."""
        return self._book.delete(self._one(name))

    def confirm(
        self,
        name: str,
        pictures: Example | Iterable[Example] | None = None,
        *,
        at_least: float | None = None,
        author: str | None = None,
    ) -> int:
        """What is predicted is right: from now on somebody said so. Returns how many.

        Of these pictures; or of all whose probability is `at_least` so much: 0 for whatever is predicted.
        """
        if (pictures is None) == (at_least is None):
            raise InputError("Say what to confirm: pictures, or at_least with a probability; one of the two.")
        name = self._one(name)
        if at_least is not None:
            if not _is_number(at_least) or not 0 <= at_least <= 1:
                raise InputError(f"at_least must be a probability from 0 to 1. Got {at_least!r}.")
            pictures = [guess.item for guess in self.show(name).predicted if guess.probability >= at_least]
        self._book.check(name)
        assert pictures is not None
        return self._predictions.confirm(name, pictures_of(self._store, pictures), author=author or login())

    def reject(self, name: str, pictures: Example | Iterable[Example], *, author: str | None = None) -> int:
        """Pictures are not of a class: it is never predicted for them again. Returns how many predictions went."""
        name = self._one(name)
        self._book.check(name)
        return self._predictions.reject(name, pictures_of(self._store, pictures), author=author or login())

    def classify(
        self,
        pictures: Example | Iterable[Example],
        *,
        on_skip: Callable[[str, str], None] | None = None,
        progress: Progress | None = None,
    ) -> list[Verdict]:
        """The class of pictures, of the collection or not, as `search` takes them, or of all in a folder.

        Nothing is kept. What somebody has rejected for a picture is not said of it. With `on_skip`, one that cannot be
        read is told there, with the reason, and left out.
        """
        wanted = files_in(listed(pictures), on_skip)

        def look() -> list[Verdict]:
            asked, X, ids = rows_of(self._store, self._spaces, self._model.name, wanted, on_skip, progress or silent)
            known = [item for item in ids if item is not None]
            rejected, labels = self._predictions.rejected(known), self._store.judgements.labels(known)
            guesses = self._model.classify(X, [() if item is None else rejected.get(item, ()) for item in ids])
            paths = self._store.items.first_paths(known)
            verdicts = []
            for example, item, guess in zip(asked, ids, guesses, strict=True):
                path = None if item is None else paths.get(item)
                if path is None and isinstance(example, Path | str):
                    path = str(example)
                verdicts.append(Verdict(item, path, [] if item is None else labels[item], guess))
            return verdicts

        return at_one_moment(self._store, look)

    def can_refuse(self) -> bool:
        """Whether there is enough to tell what is none of these: a class with two pictures."""
        return at_one_moment(self._store, self._model.state).can_refuse

    def predict(self, progress: Progress | None = None) -> Predicted:
        """Classify every picture that nobody labelled, and keep that instead of what was predicted before."""
        everything = self._spaces.index(self._spaces.taught(self._model.name)).ids
        return self._keep(everything, progress or silent, instead=True)

    def predict_new(self, progress: Progress | None = None) -> Predicted:
        """Classify what was added since this was last done, and keep it. After a kill, the next call does it."""
        began = time.time()
        since = self._book.settings().get("classified_until", began)
        ids = self._store.items.added_since(since)
        if not len(ids):
            return Predicted({}, 0)
        found = self._keep(ids, progress or silent, instead=False)
        self._book.update_settings(classified_until=began)
        return found

    def watch(self) -> bool:
        """Whether new pictures are to be classified: there are classes, and nobody said no. From now on, all are."""
        if not self._model.settings.on_add or not self._book.counts():
            return False
        if "classified_until" not in self._book.settings():
            self._book.update_settings(classified_until=time.time())
        return True

    @property
    def settings(self) -> Settings:
        """How classes are told apart: space, kind, reject, on_add, prior."""
        return self._model.settings

    def use(self, **settings: Any) -> Settings:
        """Set some of `settings`: space, kind, reject, on_add, prior."""
        names = [field.name for field in fields(Settings)]
        for name in settings:
            if name not in names:
                raise UnknownNameError("setting of classes", name, names)
        known = _checked(replace(self._model.settings, **settings))
        if settings.get("space") is not None:
            self._spaces.find(known.space)
        self._book.update_settings(**{name: getattr(known, name) for name in settings})
        return known

    def hierarchy(self) -> list[tuple[str, str]]:
        """Which class is a kind of which: (child, parent) each."""
        return self._book.parents()

    def set_hierarchy(self, source: str | Path | Iterable[tuple[str, str]]) -> int:
        """Which class is a kind of which, for classes with few pictures or none; returns how many pairs.

        From a CSV file of child,parent, a folder (each one in it is a kind of the one it is in), or pairs; none clears
        what there was.
        """
        pairs = read_hierarchy(source)
        spelled = self._book.canonical_names(name for pair in pairs for name in pair)
        pairs = read_hierarchy([(spelled[child], spelled[parent]) for child, parent in pairs])  # circles show now
        self._book.set_parents(pairs)
        return len(pairs)

    def evaluate(
        self, *, space: str | None = None, kind: str | None = None, progress: Progress | None = None
    ) -> Evaluation:
        """How good the classes are: each picture judged by classes without it; in another space, or of another kind."""
        settings = self._model.settings
        settings = _checked(replace(settings, kind=kind or settings.kind, space=space or settings.space))
        return evaluate(self._spaces, self._spaces.find(settings.space), settings, progress or silent)

    def _keep(self, ids: Ids, progress: Progress, *, instead: bool) -> Predicted:
        """Classify those of these items that nobody labelled, and keep that, `instead` of all that was predicted."""
        ids = ids[~np.isin(ids, self._store.judgements.labelled())]
        if not instead and not len(ids):
            return Predicted({}, 0)
        state = at_one_moment(self._store, self._model.state)
        if not state.can_refuse:
            raise InputError(
                "No class has two pictures yet: what is none of these cannot be told. Add some: lookalike classes add"
            )
        rows: list[tuple[int, str, float]] = []
        seen = 0
        d = self._spaces.index(self._spaces.taught(state.space)).dim or 1
        for part in chunks(len(ids), row_bytes=4 * d, max_bytes=PREDICTED_BYTES):
            progress("classifying", part.start, len(ids))

            def look(mine: Ids = ids[part]) -> tuple[Ids, list[Guess]]:
                there, X = self._model.rows(mine)
                rejected = self._predictions.rejected(there.tolist())
                return there, self._model.classify(X, [rejected.get(item, ()) for item in there.tolist()])

            there, guesses = at_one_moment(self._store, look)
            seen += len(there)
            for item, guess in zip(there.tolist(), guesses, strict=True):
                if guess.label is not None:
                    rows.append((item, guess.label, guess.probability))
        progress("classifying", len(ids), len(ids))
        found = self._predictions.add(rows, space=state.space, model=state.model, replace_all=instead)
        return Predicted(found, seen - sum(found.values()))

    def _one(self, name: str, *, new: bool = False) -> str:
        """A name as it is written in the collection; `new`: which may become a class."""
        return self._book.canonical_names([name], new=new)[name]

    def _parents(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for child, parent in self._book.parents():
            found.setdefault(child, []).append(parent)
        return found


def _checked(settings: Settings) -> Settings:
    """Settings that classes can be told apart by, with plain numbers in them."""
    from lookalike.classes.verbs import KINDS

    if not isinstance(settings.space, str | None):
        raise InputError(f"space must be the name of a space, or None for the first. Got {settings.space!r}.")
    if settings.kind not in KINDS:
        raise UnknownNameError("kind of classes", str(settings.kind), KINDS)
    if not isinstance(settings.on_add, bool):
        raise InputError(f"on_add must be True or False. Got {settings.on_add!r}.")
    if not _is_number(settings.reject) or not 0 < settings.reject < 1:
        raise InputError(f"reject must be a share above 0 and below 1. Got {settings.reject!r}.")
    if not _is_number(settings.prior) or not 0 < settings.prior < inf:
        raise InputError(f"prior must be a number of pictures above 0. Got {settings.prior!r}.")
    return replace(settings, reject=float(settings.reject), prior=float(settings.prior))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
