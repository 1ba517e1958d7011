"""The classes of a collection in memory: an `OpenSet` that keeps in step with labels, pictures and spaces.

In: a store and its spaces. Out: the class of rows (n, d), how surely, and the runner-up. Labels and vectors are the
only truth: they are read once, and from then on each label or picture that comes or goes is one row added or taken
back, O(d) each, by this process or, from a copy on the disk, by the next. A refit of the space, or another setting,
begins anew.
"""

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.engine import class_snapshot
from lookalike.engine.class_roll import Pairs, Roll
from lookalike.engine.guesses import Guess, guess
from lookalike.engine.spaces import Spaces
from lookalike.errors import InputError
from lookalike.store.classes import Change
from lookalike.store.directory import Store
from lookalike.types import Ids, Vectors

if TYPE_CHECKING:  # loads scikit-learn: when there are classes
    from lookalike.classes.open_set import OpenSet

NONE = -1
"""What `OpenSet` says for none of these; classes are numbers from 0 on there, so that any text can be a name."""

MOVED = 0.01
"""The share of labels that must have come or gone before how sure to be, and when to say none of these, is chosen anew:
both are figures of all classes together, which one of them hardly moves."""

ROWS_BYTES = 256 * 2**20
"""What is held of the vectors of pictures that are put into classes at a time."""

NO_CLASSES = (
    "There is no class with a picture of the collection yet. Make one: lookalike classes add NAME IMAGE…, or lookalike"
    " label SOURCE"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a collection tells its classes apart."""

    space: str | None = None  # default: the first
    kind: str = "ncm"
    reject: float = 0.05  # share of a class's own pictures that may be called none of these
    on_add: bool = True  # classify new pictures
    prior: float = 10.0  # pictures that what the hierarchy lends a class counts for


class ModelState(NamedTuple):
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
            names = {place: self._roll.names[code] for place, code in enumerate(model.classes_.tolist())}
            places = {name: place for place, name in names.items()}
            guesses: list[Guess] = []
            for part in chunks(len(X), 32 * len(names)):
                far = np.asarray(model.distances(X[part]), np.float64)  # (m, C)
                for row, classes in enumerate((rejected or [()] * len(X))[part]):
                    far[row, [places[name] for name in classes if name in places]] = np.inf
                guesses += guess(far, names, model.temperature_, model.threshold_)
            return guesses

    def state(self) -> ModelState:
        """By what the next picture is classified."""
        with self._lock:
            model = self._ready()
            return ModelState(self._name, f"{self._given.kind} {self._seen}", bool(np.isfinite(model.threshold_)))

    @property
    def settings(self) -> Settings:
        """As they are set now."""
        known = {field.name for field in fields(Settings)}
        kept = self._store.judgements.classes.settings()
        return Settings(**{name: value for name, value in kept.items() if name in known})

    @property
    def name(self) -> str:
        """The space that classes are told apart in."""
        return self._find(self.settings)

    def rows(self, ids: Ids) -> tuple[Ids, Vectors]:
        """Those of the ids that have a row in the space that classes are of, and it (m, d)."""
        index = self._spaces.index(self._spaces.taught(self.name))
        there = ids[np.isin(ids, index.ids)]
        return there, index.vectors(there)

    def _find(self, settings: Settings) -> str:
        if settings.space is not None and settings.space not in self._spaces.all():
            raise InputError(
                f"Classes are told apart in the space '{settings.space}', which was removed. Choose another: lookalike"
                f" classes use --space {self._spaces.find(None)}"
            )
        return self._spaces.find(settings.space)

    def _forget(self) -> None:
        self._made_of: Any = None
        self._seen = -1  # the last change of labels that is in it
        self._name = ""
        self._index: Any = None
        self._model: OpenSet | None = None
        self._roll = Roll.of(())
        self._moved: int | None = None  # labels that came or went since it was calibrated
        self._looked = 0  # and since it was kept on the disk

    def _ready(self) -> "OpenSet":
        """The model, in step and calibrated."""
        self._follow()
        counted = int(np.count_nonzero(self._roll.here))
        if self._model is None or not counted:
            raise InputError(NO_CLASSES)
        unsure = self._moved and not np.isfinite(self._model.threshold_)  # there may be enough now to tell
        if self._moved is None or self._moved > MOVED * counted or unsure:
            pairs = self._roll.counted(self._model.sizes(), self._model.classes_, self._model.most_held())
            self._model.recalibrate(*self._examples(pairs, self._index))
            self._moved = 0
        self._keep(counted)
        return self._model

    def _follow(self) -> None:
        """Bring the model in step with the store."""
        book = self._store.judgements.classes
        # Before the settings: what comes between is heard again.
        seen, changes = book.changes(self._seen) if self._seen >= 0 else (book.last_change(), None)
        if changes is None or any(item is None for item, _, _ in changes):
            self._look_at_settings()
        name = self._find(self._given)
        taught = self._spaces.taught(name)
        spaces, index = self._spaces.all(), self._spaces.index(taught)
        made_of = taught, spaces[taught].model, spaces[spaces[name].chain[0]].model, self._given, self._parents
        changes = changes if made_of == self._made_of else None
        if changes is not None and index is self._index and seen == self._seen:
            return
        try:
            if changes is None:
                done = self._take_up(made_of, index)
            else:
                done = self._move(changes, index, anew=index is not self._index)
            if not done:
                self._read(index)
        except BaseException:  # it may be half done
            self._forget()
            raise
        self._made_of, self._seen, self._name, self._index = made_of, seen, name, index

    def _look_at_settings(self) -> None:
        self._given = self.settings
        self._parents = tuple(self._store.judgements.classes.parents())
        self._named = self._store.judgements.classes.named()

    def _read(self, index: Any) -> None:
        """Begin with every label and its vector."""
        self._forget()
        self._roll = Roll.of(self._store.judgements.classes.all_labels()[1])
        self._move([], index, anew=True)

    def _take_up(self, made_of: Any, index: Any) -> bool:
        """Begin with what is kept on the disk and what has changed since; False where that cannot be done."""
        self._forget()
        kept = class_snapshot.load(self._store, start(self._given, (), self._roll.code))
        book = self._store.judgements.classes
        if kept is None or kept.about["made_of"] != _plain(made_of):
            return False
        changes = book.changes(kept.about["seen"])[1]
        if changes is None or _plain(book.change(kept.about["seen"])) != kept.about["last"]:
            return False  # they are forgotten, or of another file of judgements
        self._model, self._roll, self._moved = kept.model, kept.roll, kept.about["moved"]
        anew = kept.about["rows"] != self._store.vectors.fingerprint(made_of[0])
        return self._move(changes, index, anew=anew) and len(self._roll) == len(self._store.judgements)

    def _keep(self, counted: int) -> None:
        """Write a copy to the disk where that saves the next process enough."""
        worth = max(class_snapshot.LEAST, counted // 10)
        if self._looked < worth or self._model is None or self._given.kind == "ncmc":  # whose cells are found anew
            return
        version = self._store.vectors.version()  # as it is, whatever moment is looked at
        about = {
            "made_of": _plain(self._made_of),
            "seen": self._seen,
            "last": _plain(self._store.judgements.classes.change(self._seen)),
            "rows": self._store.vectors.fingerprint(self._made_of[0]),
            "moved": self._moved,
        }
        if self._spaces.index(self._made_of[0]) is self._index and self._store.vectors.version() == version:
            class_snapshot.save(self._store, self._model, self._roll, about)
            self._looked = 0

    def _move(self, changes: Iterable[Change], index: Any, *, anew: bool) -> bool:
        """Put what is new into the model and take out what is no more; False where its rows are nowhere any more.

        `anew`: pictures have come or gone, too.
        """
        unsaid = self._roll.hear(changes)
        come, gone = self._roll.look(index.ids, anew)
        out = Pairs(*(np.concatenate(both) for both in zip(unsaid, gone, strict=True)))
        before = index if self._index is None else self._index  # as it was, it still has what has gone
        if not np.isin(out.items, before.ids).all():
            return False
        taken = self._examples(out, before) if len(out) else None
        whole = self._given.kind == "ncmc"  # the first rows of a class say where its cells are
        for part in chunks(len(come), 4 * (index.dim or 1), 2**62 if whole else ROWS_BYTES):
            if self._model is None:
                self._model = start(self._given, self._parents, self._roll.code)
            self._model.partial_fit(*self._examples(Pairs(come.items[part], come.codes[part]), index))
        if self._model is None:
            return True
        if taken is not None:
            self._model.remove(*taken)
        wanted = self._roll.said().union(map(self._roll.code, self._named))
        have = set(self._model.classes_.tolist())
        for code in sorted(wanted - have):
            self._model.add_class(code)
        for code in sorted(have - wanted):
            self._model.delete(code)
        moved = max(len(come) + len(out), len(wanted ^ have))
        self._moved = None if self._moved is None else self._moved + moved
        self._looked += moved
        return True

    def _examples(self, pairs: Pairs, index: Any) -> tuple[Vectors, NDArray[np.int64]]:
        """Rows (n, d) and classes (n,) of items that are in an index."""
        return index.vectors(pairs.items), pairs.codes


def _plain(value: Any) -> Any:
    """As JSON gives it back."""
    return json.loads(json.dumps(value, default=astuple))


def start(settings: Settings, parents: Sequence[tuple[str, str]], code: Callable[[str], int]) -> "OpenSet":
    """A model without classes yet, with what it knows of their hierarchy; `code` is the number of a name."""
    from lookalike.classes.open_set import OpenSet

    model = OpenSet(settings.kind, reject=settings.reject, none_label=NONE)
    if parents:
        model.use_hierarchy([(str(code(child)), str(code(parent))) for child, parent in parents], settings.prior)
    return model
