"""The classes of a collection in memory: an `OpenSet` that tracks changes to labels, pictures and spaces.

The model is computed from labels and vectors. They are read once; after that, each added or removed label or picture
is one update, O(d). A snapshot on disk spares the next process the first read; without a valid one, all labels and
vectors are read again. The same happens after a refit of the space or a change of settings.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.classes import Prediction, predict_from_distances
from lookalike.collection.space import Space, Spaces
from lookalike.errors import InputError, LookalikeError
from lookalike.registry import state_of
from lookalike.store import models
from lookalike.store.classes import Change
from lookalike.store.directory import Store
from lookalike.types import Ids, Vectors

if TYPE_CHECKING:  # loads scikit-learn
    from lookalike.classes import OpenSet

NONE = -1
"""The code that `OpenSet` predicts for "none of these". Classes have codes from 0, so any text can be a name."""

RECALIBRATE_SHARE = 0.01
"""Share of changed labels, or of changed pictures in the background, above which the temperature, the threshold and the
membership are computed again. All classes share them, so a single label hardly changes them."""

BACKGROUND = 1_000
"""Number of pictures with which distances to classes are compared: those with the smallest ids. Ids are digests, so
this is a random sample."""

ROWS_BYTES = 256 * 2**20
"""Memory limit for one batch of vectors that is added to the classes."""

SNAPSHOT_FORMAT = 2
"""Models of format 1 were calibrated without a background."""
SNAPSHOT_MIN = 1_000
"""Changed labels after which a snapshot is written, if they are also a tenth of all labels."""
SNAPSHOT_BYTES = 2**30
"""Larger models are not saved."""

NO_CLASSES = (
    "No class has pictures in the collection yet. Create one: lookalike classes add NAME IMAGE…, or lookalike"
    " label SOURCE"
)

Codes = NDArray[np.int64]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a collection predicts classes."""

    space: str | None = None  # default: the first
    kind: str = "ncm"
    reject: float = 0.05  # share of a class's own pictures that may be rejected as "none of these"
    on_add: bool = True  # predict the class of new pictures
    prior: float = 10.0  # weight of the parent class, in pictures


class ModelState(NamedTuple):
    """The state of the model that makes predictions."""

    space: str
    model: str  # the kind of classes, and the number of the last change to the labels
    can_reject: bool  # whether it can predict "none of these"
    has_probabilities: bool  # whether they were calibrated


class ClassModel:
    """The classes of one collection. Thread-safe."""

    def __init__(self, spaces: Spaces):
        self._store = spaces.store
        self._spaces = spaces
        self._lock = threading.RLock()
        self._model_settings = Settings()
        self._parents: tuple[tuple[str, str], ...] = ()
        self._named_classes: list[str] = []
        self._clear()

    def predict(self, X: Vectors, rejected: Sequence[Iterable[str]] | None = None) -> list[Prediction]:
        """Predict the class of each row (n, d) like `Space.rows`; `rejected` lists classes to exclude for each row."""
        with self._lock:
            model = self._ready()
            names = {place: self._table.names[code] for place, code in enumerate(model.classes_.tolist())}
            places = {name: place for place, name in names.items()}
            found: list[Prediction] = []
            for part in chunks(len(X), 32 * len(names)):
                distances = np.asarray(model.distances(X[part]), np.float64)  # (m, C)
                typical = model.typical_distances(X[part])  # (m,)
                for row, classes in enumerate((rejected or [()] * len(X))[part]):
                    distances[row, [places[name] for name in classes if name in places]] = np.inf
                found += predict_from_distances(
                    distances, names, model.temperature_, model.threshold_, model.membership(), typical
                )
            return found

    def state(self) -> ModelState:
        """The state of the model for the next prediction."""
        with self._lock:
            model = self._ready()
            name = f"{self._model_settings.kind} {self._last_change}"
            can_reject, calibrated = bool(np.isfinite(model.threshold_)), bool(np.isfinite(model.membership().offset))
            return ModelState(self._name, name, can_reject, calibrated)

    @property
    def settings(self) -> Settings:
        """The current settings."""
        known = {field.name for field in fields(Settings)}
        stored = self._store.judgements.classes.settings()
        return Settings(**{name: value for name, value in stored.items() if name in known})

    @property
    def space(self) -> Space:
        """The space that classes use."""
        return self._find(self.settings)

    def rows(self, ids: Ids) -> tuple[Ids, Vectors]:
        """The ids that have a row in the space, and their rows (m, d)."""
        index = self.space.rows
        present = ids[np.isin(ids, index.ids)]
        return present, index.vectors(present)

    def _find(self, settings: Settings) -> Space:
        if settings.space is not None and settings.space not in self._spaces:
            raise InputError(
                f"Classes use the space '{settings.space}', which was removed. Choose another: lookalike classes use"
                f" --space {self._spaces.find(None).name}"
            )
        return self._spaces.find(settings.space)

    def _clear(self) -> None:
        self._inputs: Any = None
        self._last_change = -1  # number of the last change to labels in the model
        self._name = ""
        self._index: Any = None
        self._model: OpenSet | None = None
        self._table = LabelTable.from_pairs(())
        self._uncalibrated_changes: int | None = None  # None: never calibrated
        self._background = np.empty(0, np.int64)  # ids
        self._unsaved_changes = 0

    def _ready(self) -> "OpenSet":
        """Return the model, up to date and calibrated."""
        self._update()
        n = int(np.count_nonzero(self._table.in_model))
        if self._model is None or not n:
            raise InputError(NO_CLASSES)
        changes = self._uncalibrated_changes
        no_threshold = changes and not np.isfinite(self._model.threshold_)  # there may be enough labels now
        background = self._index.ids[:BACKGROUND]
        moved = len(np.setxor1d(background, self._background)) > RECALIBRATE_SHARE * len(background)
        if changes is None or changes > RECALIBRATE_SHARE * n or no_threshold or moved:
            labelled = np.isin(background, self._table.items[self._table.in_model])
            self._model.use_background(self._index.vectors(background), unlabelled=~labelled)
            pairs = self._table.sample(self._model.sizes(), self._model.classes_, self._model.most_held())
            self._model.recalibrate(*_examples(pairs, self._index))
            self._uncalibrated_changes, self._background = 0, background
        self._save_snapshot(n)
        return self._model

    def _update(self) -> None:
        """Update the model to the current state of the store."""
        names = self._store.judgements.classes
        # Read before the settings: a change in between is then applied the next time.
        last_change, changes = (
            names.changes(self._last_change) if self._last_change >= 0 else (names.last_change(), None)
        )
        if changes is None or any(item is None for item, _, _ in changes):
            self._model_settings = self.settings
            self._parents = tuple(names.parents())
            self._named_classes = names.named()
        space = self._find(self._model_settings)
        index = space.rows
        inputs = *space.rows_version, self._model_settings, self._parents
        changes = changes if inputs == self._inputs else None
        if changes is not None and index is self._index and last_change == self._last_change:
            return
        try:
            if changes is None:
                done = self._load_snapshot(inputs, index, space.rows_fingerprint())
            else:
                done = self._apply(changes, index, pictures_changed=index is not self._index)
            if not done:
                self._rebuild(index)
        except BaseException:  # the model may be partly updated
            self._clear()
            raise
        self._inputs, self._last_change, self._name, self._index = inputs, last_change, space.name, index

    def _rebuild(self, index: Any) -> None:
        """Compute the model from all labels and their vectors."""
        self._clear()
        self._table = LabelTable.from_pairs(self._store.judgements.classes.all_labels()[1])
        self._apply([], index, pictures_changed=True)

    def _load_snapshot(self, inputs: Any, index: Any, fingerprint: str) -> bool:
        """Load the snapshot and apply all later changes; False if that is not possible."""
        self._clear()
        snapshot = load_snapshot(self._store, make_model(self._model_settings, (), self._table.code))
        names = self._store.judgements.classes
        if snapshot is None or snapshot.header["made_of"] != _as_json(inputs):
            return False
        changes = names.changes(snapshot.header["seen"])[1]
        if changes is None or _as_json(names.change(snapshot.header["seen"])) != snapshot.header["last"]:
            return False  # the changes are no longer stored, or the label file was replaced
        self._model, self._table = snapshot.model, snapshot.table
        self._uncalibrated_changes = snapshot.header["moved"]
        self._background = snapshot.background
        changed = snapshot.header["rows"] != fingerprint
        return self._apply(changes, index, pictures_changed=changed) and len(self._table) == len(self._store.judgements)

    def _save_snapshot(self, n: int) -> None:
        """Write a snapshot if it saves the next process enough time."""
        needed = max(SNAPSHOT_MIN, n // 10)
        refits_cells = self._model_settings.kind == "ncmc"  # a snapshot would save no time
        if self._unsaved_changes < needed or self._model is None or refits_cells:
            return
        version = self._store.vectors.version()  # the current version, even inside a consistent read
        space = self._spaces.find(self._name)
        header = {
            "made_of": _as_json(self._inputs),
            "seen": self._last_change,
            "last": _as_json(self._store.judgements.classes.change(self._last_change)),
            "rows": space.rows_fingerprint(),
            "moved": self._uncalibrated_changes,
        }
        if space.rows is self._index and self._store.vectors.version() == version:
            save_snapshot(self._store, Snapshot(self._model, self._table, self._background, header))
            self._unsaved_changes = 0

    def _apply(self, changes: Iterable[Change], index: Any, *, pictures_changed: bool) -> bool:
        """Update the model with changed labels and pictures; False if rows that must be removed from it are missing."""
        unlabelled = self._table.apply(changes)
        added, removed = self._table.match(index.ids, everything=pictures_changed)
        dropped = Pairs(*(np.concatenate(both) for both in zip(unlabelled, removed, strict=True)))
        before = index if self._index is None else self._index  # still has the removed rows
        if not np.isin(dropped.items, before.ids).all():
            return False
        dropped_rows = _examples(dropped, before) if len(dropped) else None
        in_one_batch = self._model_settings.kind == "ncmc"  # the first rows of a class determine its cells
        for part in chunks(len(added), 4 * (index.dim or 1), 2**62 if in_one_batch else ROWS_BYTES):
            if self._model is None:
                self._model = make_model(self._model_settings, self._parents, self._table.code)
            self._model.partial_fit(*_examples(Pairs(added.items[part], added.codes[part]), index))
        if self._model is None:
            return True
        if dropped_rows is not None:
            self._model.remove(*dropped_rows)
        expected = self._table.classes().union(map(self._table.code, self._named_classes))
        current = set(self._model.classes_.tolist())
        for code in sorted(expected - current):
            self._model.add_class(code)
        for code in sorted(current - expected):
            self._model.delete(code)
        n = max(len(added) + len(dropped), len(expected ^ current))
        if self._uncalibrated_changes is not None:
            self._uncalibrated_changes += n
        self._unsaved_changes += n
        return True


def make_model(settings: Settings, parents: Sequence[tuple[str, str]], code: Callable[[str], int]) -> "OpenSet":
    """Create a model without classes, with its hierarchy; `code` returns the code of a name."""
    from lookalike.classes import OpenSet

    model = OpenSet(settings.kind, reject=settings.reject, none_label=NONE)
    if parents:
        model.use_hierarchy([(str(code(child)), str(code(parent))) for child, parent in parents], settings.prior)
    return model


class Pairs(NamedTuple):
    """Pairs of item and class, one per row."""

    items: Ids
    codes: Codes

    def __len__(self) -> int:
        return len(self.items)


class LabelTable:
    """All labels as sorted arrays, with a flag for those in the model, whose pictures have a row.

    Arrays are cheap to change and to save, even with a million labels.

    Parameters
    ----------
    items, codes : (n,) int64 each, items and codes of classes; sorted, each pair once.
    in_model : (n,) bool, whether the pair is in the model.
    names : names of classes and of other nodes of the hierarchy by code; a code is never reused.

    Examples
    --------
    >>> table = LabelTable.from_pairs([(7, "owl"), (3, "cat"), (7, "cat")])
    >>> table.items.tolist(), [table.names[code] for code in table.codes]
    ([3, 7, 7], ['cat', 'owl', 'cat'])
    >>> table.apply([(3, "cat", False), (9, "fox", True), (9, "fox", True)])  # (3, cat) was not in the model
    Pairs(items=array([], dtype=int64), codes=array([], dtype=int64))
    >>> table.items.tolist()
    [7, 7, 9]

    """

    def __init__(self, items: Ids, codes: Codes, in_model: NDArray[np.bool_], names: Sequence[str]):
        self.items = items
        self.codes = codes
        self.in_model = in_model
        self.names = list(names)
        self._numbers = {name: code for code, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.items)

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[int, str]]) -> Self:
        """Create a table of pairs (item, name), none of them in the model."""
        empty = np.empty(0, np.int64)
        table = cls(empty, empty, np.empty(0, bool), [])
        table._insert([(item, table.code(name)) for item, name in pairs])
        return table

    def code(self, name: str) -> int:
        """The code of a class, or of a name of the hierarchy; it never changes."""
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]

    def classes(self) -> set[int]:
        """The codes of the classes that have a label, whether or not its picture has a row."""
        return set(np.flatnonzero(np.bincount(self.codes)).tolist())

    def sample(self, sizes: Codes, classes: Codes, max_pairs: int) -> Pairs:
        """A sample of the pairs in the model, of classes with two pictures or more: the first `max_pairs` by id.

        `sizes` are those of `classes`. Ids are digests, so every process gets the same random sample. If no class has
        two pictures, the sample is a single pair.
        """
        rows = np.flatnonzero(self.in_model & np.isin(self.codes, classes[sizes > 1]))
        rows = rows if len(rows) else np.flatnonzero(self.in_model)[:1]
        rows = rows[self.items[rows] <= self.items[rows[:max_pairs][-1]]]  # all pairs of the last item, for their order
        # By name, because the code of a class differs between processes.
        rows = np.array(
            sorted(rows.tolist(), key=lambda row: (self.items[row], self.names[self.codes[row]]))[:max_pairs]
        )
        return Pairs(self.items[rows], self.codes[rows])

    def apply(self, changes: Iterable[tuple[int | None, str | None, bool]]) -> Pairs:
        """Add and remove labels in order; return the removed pairs that were in the model. New pairs are not in it."""
        is_added = {(item, self.code(label)): added for item, label, added in changes if item is not None and label}
        rows = {pair: self._find(*pair) for pair in is_added}
        removed = np.array(sorted(row for pair, row in rows.items() if row >= 0 and not is_added[pair]), np.int64)
        in_model = removed[self.in_model[removed]]
        left_model = Pairs(self.items[in_model], self.codes[in_model])
        kept = np.ones(len(self), bool)
        kept[removed] = False
        self.items, self.codes, self.in_model = self.items[kept], self.codes[kept], self.in_model[kept]
        self._insert([pair for pair, row in rows.items() if row < 0 and is_added[pair]])
        return left_model

    def match(self, ids: Ids, *, everything: bool) -> tuple[Pairs, Pairs]:
        """Return the pairs to add to the model and to remove from it; `ids`, ascending, are all pictures with rows.

        Unless `everything` is set, only labels that are not in the model are checked.
        """
        has_row = self.in_model.copy()
        rows = np.arange(len(self)) if everything else np.flatnonzero(~has_row)
        positions = np.minimum(np.searchsorted(ids, self.items[rows]), max(len(ids) - 1, 0))
        has_row[rows] = ids[positions] == self.items[rows] if len(ids) else False
        added, removed = np.flatnonzero(has_row & ~self.in_model), np.flatnonzero(self.in_model & ~has_row)
        self.in_model = has_row
        return Pairs(self.items[added], self.codes[added]), Pairs(self.items[removed], self.codes[removed])

    def _find(self, item: int, code: int) -> int:
        """The position of a pair; −1 if it is not in the table."""
        low, high = (int(np.searchsorted(self.items, item, side)) for side in ("left", "right"))
        matches = np.flatnonzero(self.codes[low:high] == code)
        return low + int(matches[0]) if len(matches) else -1

    def _insert(self, pairs: Sequence[tuple[int, int]]) -> None:
        new = np.array(pairs, np.int64).reshape(-1, 2)
        items, codes = np.concatenate([self.items, new[:, 0]]), np.concatenate([self.codes, new[:, 1]])
        in_model = np.concatenate([self.in_model, np.zeros(len(new), bool)])
        if len(new):
            order = np.argsort(items, kind="stable")
            items, codes, in_model = items[order], codes[order], in_model[order]
        self.items, self.codes, self.in_model = items, codes, in_model


@dataclass(frozen=True)
class Snapshot:
    """A saved class model."""

    model: "OpenSet"
    table: LabelTable
    background: Ids  # pictures with which distances are compared
    header: dict[str, Any]  # the inputs it was computed from; see `ClassModel._save_snapshot`


def save_snapshot(store: Store, snapshot: Snapshot) -> None:
    """Save a model. Failures (a full disk, a folder without write permission) are only logged."""
    table = snapshot.table
    text = json.dumps({"format": SNAPSHOT_FORMAT, "names": table.names, **snapshot.header})
    arrays = {f"model_{name}": value for name, value in state_of(snapshot.model).items()}
    arrays |= {"items_": table.items, "codes_": table.codes, "here_": table.in_model}
    arrays["background_ids_"] = snapshot.background
    arrays["about_"] = np.frombuffer(text.encode(), np.uint8)  # ASCII: names may hold invalid Unicode
    if sum(value.nbytes for value in arrays.values()) > SNAPSHOT_BYTES:
        return
    try:
        store.class_snapshot_file.parent.mkdir(exist_ok=True)
        models.save_arrays(store.class_snapshot_file, arrays)
    except (LookalikeError, OSError) as error:
        logger.info("Cannot save a snapshot of the classes: %s", error)


def load_snapshot(store: Store, model: "OpenSet") -> Snapshot | None:
    """Load the snapshot into `model`, which has the right parameters; None if it cannot be used."""
    if not store.class_snapshot_file.exists():
        return None
    try:
        arrays = models.load_arrays(store.class_snapshot_file)
        header = json.loads(arrays["about_"].tobytes())
        if header.pop("format") != SNAPSHOT_FORMAT:
            return None
        for name, value in arrays.items():
            if name.startswith("model_"):
                setattr(model, name.removeprefix("model_"), value.item() if value.ndim == 0 else value)
        table = LabelTable(arrays["items_"], arrays["codes_"], arrays["here_"], header.pop("names"))
    except (LookalikeError, OSError, KeyError, TypeError, ValueError) as error:
        logger.info("Cannot use the snapshot of the classes: %s", error)
        return None
    return Snapshot(model, table, arrays["background_ids_"], header)


def _examples(pairs: Pairs, index: Any) -> tuple[Vectors, Codes]:
    """Rows (n, d) and classes (n,) of pairs whose items are in an index."""
    return index.vectors(pairs.items), pairs.codes


def _as_json(value: Any) -> Any:
    """Convert a value to the form that JSON returns."""
    return json.loads(json.dumps(value, default=astuple))
