"""The classes of a collection in memory: an `OpenSet` that keeps in step with labels, pictures and spaces.

In: a store and its spaces. Out: the class of rows (n, d), how surely, and the runner-up. Labels and vectors are the
only truth: opening reads them once, and from then on each label or picture that comes or goes is one row added or
taken back, O(d) each. A refit of the space, or another setting, begins anew.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.engine.spaces import Spaces
from lookalike.errors import InputError
from lookalike.store.directory import Store
from lookalike.types import Ids, Vectors

if TYPE_CHECKING:  # loads scikit-learn: when there are classes
    from lookalike.classes.open_set import OpenSet

NONE = -1
"""What `OpenSet` says for none of these; classes are numbers from 0 on there, so that any text can be a name."""

CALIBRATED_ON = 20_000
"""Pictures, at most, that choose how sure to be and when to say none of these."""

NO_CLASSES = (
    "There is no class with a picture of the collection yet. Make one: lookalike classes add NAME IMAGE…, or lookalike"
    " label SOURCE"
)

EMPTY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Settings:
    """How a collection tells its classes apart."""

    space: str | None = None  # default: the first
    kind: str = "ncm"
    reject: float = 0.05  # share of a class's own pictures that may be called none of these
    on_add: bool = True  # classify new pictures
    prior: float = 10.0  # pictures that what the hierarchy lends a class counts for


@dataclass(frozen=True, slots=True)
class Guess:
    """The class of a picture, None for none of these, and the next best; probabilities given that it is of a class."""

    label: str | None
    probability: float
    nearest: str | None  # the class it would be, were it of one
    runner_up: str | None
    runner_up_probability: float


class State(NamedTuple):
    """What classes were told apart by."""

    space: str
    model: str  # the kind of classes, and after how many changes of labels
    can_refuse: bool  # whether it can say none of these


class ClassModel:
    """The classes of one collection. Safe to use from several threads."""

    def __init__(self, store: Store, spaces: Spaces):
        self._store = store
        self._spaces = spaces
        self._lock = threading.RLock()
        self._given = Settings()
        self._parents: tuple[tuple[str, str], ...] = ()
        self._named: list[str] = []
        self._forget()

    def classify(self, X: Vectors, rejected: Sequence[Iterable[str]] | None = None) -> list[Guess]:
        """The class of each row (n, d) of the space; `rejected` are classes that a row is not of."""
        with self._lock:
            model = self._ready()
            names = {place: self._names[code] for place, code in enumerate(model.classes_.tolist())}
            places = {name: place for place, name in names.items()}
            guesses: list[Guess] = []
            for part in chunks(len(X), 32 * len(names)):
                far = np.asarray(model.distances(X[part]), np.float64)  # (m, C)
                for row, classes in enumerate((rejected or [()] * len(X))[part]):
                    far[row, [places[name] for name in classes if name in places]] = np.inf
                guesses += _guess(far, names, model.temperature_, model.threshold_)
            return guesses

    def state(self) -> State:
        """By what the next picture is classified."""
        with self._lock:
            model = self._ready()
            return State(self._name, f"{self._given.kind} {self._seen}", bool(np.isfinite(model.threshold_)))

    @property
    def settings(self) -> Settings:
        """As they are set now."""
        known = {field.name for field in fields(Settings)}
        kept = self._store.judgements.classes.settings()
        return Settings(**{name: value for name, value in kept.items() if name in known})

    @property
    def name(self) -> str:
        """The space that classes are told apart in."""
        return self._spaces.find(self.settings.space)

    def rows(self, ids: Ids) -> tuple[Ids, Vectors]:
        """Those of the ids that have a row in the space that classes are of, and it (m, d)."""
        index = self._spaces.index(self._spaces.taught(self.name))
        there = ids[np.isin(ids, index.ids)]
        return there, index.vectors(there)

    def _forget(self) -> None:
        self._made_of: Any = None
        self._seen = -1  # the last change of labels that is in it
        self._name = ""
        self._index: Any = None
        self._model: OpenSet | None = None
        self._calibrated = False
        self._said: dict[int, set[str]] = {}  # what people said, of pictures that are there or not
        self._counted: dict[int, frozenset[str]] = {}  # what is in the model
        self._tally: Counter[str] = Counter()
        self._codes: dict[str, int] = {}
        self._names: list[str] = []

    def _ready(self) -> "OpenSet":
        """The model, in step and calibrated."""
        self._follow()
        if self._model is None or not self._counted:
            raise InputError(NO_CLASSES)
        if not self._calibrated:
            items = np.array(sorted(self._counted)[:CALIBRATED_ON], np.int64)
            X, y = self._examples([(item, name) for item in items.tolist() for name in sorted(self._counted[item])])
            self._model.recalibrate(X, y)
            self._calibrated = True
        return self._model

    def _follow(self) -> None:
        """Bring the model in step with the store."""
        book = self._store.judgements.classes
        seen, changes = book.changes(self._seen) if self._seen >= 0 else (-1, None)
        if changes is None or any(item is None for item, _, _ in changes):
            self._look_at_settings()
        name = self._spaces.find(self._given.space)
        taught = self._spaces.taught(name)
        spaces, index = self._spaces.all(), self._spaces.index(taught)
        made_of = taught, spaces[taught].model, spaces[spaces[name].chain[0]].model, self._given, self._parents
        if changes is None or made_of != self._made_of:
            self._forget()
            seen, pairs = book.all()
            changes = [(item, label, True) for item, label in pairs]
        if index is self._index and seen == self._seen:
            return
        try:
            touched = self._hear(changes)
            if index is not self._index:  # pictures have come or gone
                touched |= self._come_and_gone(index)
            self._move(touched, index)
        except BaseException:  # it may be half done
            self._forget()
            raise
        self._made_of, self._seen, self._name, self._index = made_of, seen, name, index

    def _look_at_settings(self) -> None:
        self._given = self.settings
        self._parents = tuple(self._store.judgements.classes.parents())
        self._named = self._store.judgements.classes.named()

    def _hear(self, changes: Iterable[tuple[int | None, str | None, bool]]) -> set[int]:
        """Take in what was said; the items that it is about."""
        touched = set()
        for item, label, added in changes:
            if item is None or label is None:
                continue
            labels = self._said.setdefault(item, set())
            if added != (label in labels):
                (labels.add if added else labels.discard)(label)
                self._tally[label] += 1 if added else -1
                touched.add(item)
        return touched

    def _come_and_gone(self, index: Any) -> set[int]:
        """The labelled items that are in the model and not in the index, or the other way round."""
        labelled = np.fromiter(self._said, np.int64, len(self._said))
        there = set(labelled[np.isin(labelled, index.ids)].tolist())
        return there ^ self._counted.keys()

    def _move(self, touched: Iterable[int], index: Any) -> None:
        """Put what is new into the model and take out what is no more."""
        items = np.array(sorted(touched), np.int64)
        there = set(items[np.isin(items, index.ids)].tolist())
        come: list[tuple[int, str]] = []
        gone: list[tuple[int, str]] = []
        for item in items.tolist():
            before = self._counted.get(item, EMPTY)
            after = frozenset(self._said.get(item, EMPTY)) if item in there else EMPTY
            come += [(item, name) for name in sorted(after - before)]
            gone += [(item, name) for name in sorted(before - after)]
            if after:
                self._counted[item] = after
            else:
                self._counted.pop(item, None)
        out = self._examples(gone) if gone else None  # from the index as it was: it still has what has gone
        self._index = index
        if come:
            X, y = self._examples(come)
            if self._model is None:
                self._model = start(self._given, self._parents, self._code)
            self._model.partial_fit(X, y)
        if self._model is None:
            return
        if out is not None:
            self._model.remove(*out)
        wanted = {self._code(name) for name in (*self._named, *(name for name, n in self._tally.items() if n > 0))}
        have = set(self._model.classes_.tolist())
        for code in sorted(wanted - have):
            self._model.add_class(code)
        for code in sorted(have - wanted):
            self._model.delete(code)
        self._calibrated = self._calibrated and not (come or gone or wanted != have)

    def _examples(self, pairs: Sequence[tuple[int, str]]) -> tuple[Vectors, NDArray[np.int64]]:
        """Rows (n, d) and classes (n,) of items that are in the index."""
        ids = np.array([item for item, _ in pairs], np.int64)
        return self._index.vectors(ids), np.array([self._code(name) for _, name in pairs], np.int64)

    def _code(self, name: str) -> int:
        """The number of a class, or of a name of the hierarchy; the same for good."""
        if name not in self._codes:
            self._codes[name] = len(self._names)
            self._names.append(name)
        return self._codes[name]


def start(settings: Settings, parents: Sequence[tuple[str, str]], code: Callable[[str], int]) -> "OpenSet":
    """A model without classes yet, with what it knows of their hierarchy; `code` is the number of a name."""
    from lookalike.classes.open_set import OpenSet

    model = OpenSet(settings.kind, reject=settings.reject, none_label=NONE)
    if parents:
        model.use_hierarchy([(str(code(child)), str(code(parent))) for child, parent in parents], settings.prior)
    return model


def _guess(far: NDArray[np.float64], names: dict[int, str], temperature: float, threshold: float) -> list[Guess]:
    """From squared distances (m, C), infinite where a class cannot be, to guesses."""
    scores = -0.5 * (far - np.min(far, axis=1, keepdims=True, initial=np.finfo(np.float64).max)) / temperature
    chances = np.exp(scores)  # (m, C); Eq. 5, given that it is of one of the classes
    chances /= np.maximum(chances.sum(axis=1, keepdims=True), 1.0)
    best = np.argmin(far, axis=1)  # (m,)
    others = far.copy()
    np.put_along_axis(others, best[:, None], np.inf, axis=1)
    second = np.argmin(others, axis=1)
    guesses = []
    for row, (one, two) in enumerate(zip(best.tolist(), second.tolist(), strict=True)):
        nearest = names[one] if np.isfinite(far[row, one]) else None
        runner_up = names[two] if np.isfinite(others[row, two]) else None
        guesses.append(
            Guess(
                nearest if far[row, one] <= threshold else None,
                0.0 if nearest is None else float(chances[row, one]),
                nearest,
                runner_up,
                0.0 if runner_up is None else float(chances[row, two]),
            )
        )
    return guesses
