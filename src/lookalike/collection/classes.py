"""`Classes`: the classes of a collection, predictions for new pictures, and label files.

A class is a label and the pictures that have it: labelling a picture adds it to the class of that name. Predictions
are stored separately from labels. Labels are imported from a CSV file, or from a folder with one subfolder per class.
"""

import os
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
from lookalike.classes import Prediction
from lookalike.collection import html
from lookalike.collection.class_model import ClassModel, Settings
from lookalike.collection.evaluation import Evaluation, evaluate
from lookalike.collection.label_formats import FORMATS, find_format
from lookalike.collection.label_readers import name_folders
from lookalike.collection.picture_names import match_names
from lookalike.collection.resolve import Example, as_list, files_in, items_named, rows_of
from lookalike.collection.sessions import Finished, Session, login
from lookalike.collection.space import Spaces
from lookalike.errors import InputError, UnknownNameError
from lookalike.store.actions import Changed
from lookalike.store.classes import ClassNames, Membership, Predictions, StoredPrediction, normalize_label
from lookalike.store.directory import Store
from lookalike.store.items import Items
from lookalike.text import many
from lookalike.types import Ids, Progress, silent

PREDICT_BYTES = 64 * 2**20
"""Memory limit for the vectors of one batch of pictures to classify."""


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """A summary of a class."""

    name: str
    pictures: int  # with its label, in the collection
    elsewhere: int  # with its label, but no longer in the collection
    predicted: int
    parents: list[str]


@dataclass(frozen=True, slots=True)
class ClassView:
    """A class and its pictures."""

    name: str
    members: list[Membership]  # in the order in which they were labelled
    predicted: list[StoredPrediction]  # most probable first
    parents: list[str]


class PredictionCounts(NamedTuple):
    """The number of stored predictions."""

    classes: dict[str, int]  # by class
    none: int  # pictures that match no class


@dataclass(frozen=True, slots=True)
class LabelReport:
    """The result of an import of labels."""

    labelled: int
    unknown: list[str]  # paths or ids that are not in the collection


class Classes:
    """The classes of a collection, as `Collection.classes`."""

    def __init__(self, spaces: Spaces):
        self._store = spaces.store
        self._spaces = spaces
        self._model = ClassModel(spaces)

    def __repr__(self) -> str:
        counts = self._names.counts()
        return f"<{many(len(counts), 'class', 'classes')}, {many(sum(counts.values()), 'label')}>"

    def _repr_html_(self) -> str:
        """HTML for notebooks: the first classes, with some of their pictures."""
        counts = self._names.counts()
        names = list(counts)[: html.MAX_GROUPS]
        each = max(1, html.MAX_PICTURES // max(1, len(names)))
        rows = []
        for name in names:
            items = self._store.items.get(self._store.judgements.items_with(name)[:each].tolist())
            tiles = [html.tile_of(self._store, item) for item in items.values()]
            rows.append((f"{name}: {many(counts[name], 'picture')}", tiles))
        more = f"… and {len(counts) - len(names):,} more" if len(counts) > len(names) else ""
        return html.page(repr(self)[1:-1], rows, more=more)

    @property
    def _names(self) -> ClassNames:
        return self._store.judgements.classes

    @property
    def _predictions(self) -> Predictions:
        return self._store.judgements.predictions

    def all(self) -> list[ClassSummary]:
        """Every class, sorted by name."""
        items, counts, parents = set(self._store.items.ids().tolist()), self._names.counts(), self._parents()
        counts_here = Counter(name for item, name in self._names.all_labels()[1] if item in items)
        predicted = {
            name: sum(item in items for item in ids) for name, ids in self._predictions.items_by_label().items()
        }
        return [
            ClassSummary(
                name, counts_here[name], max(0, n - counts_here[name]), predicted.get(name, 0), parents.get(name, [])
            )
            for name, n in counts.items()
        ]

    def show(self, name: str) -> ClassView:
        """One class, with its labelled and its predicted pictures in the collection."""
        name = self._canonical_name(name)
        self._names.check(name)
        members, predicted = self._names.members(name), self._predictions.of(name)
        existing = self._store.items.get(
            [member.item for member in members] + [prediction.item for prediction in predicted]
        )
        return ClassView(
            name,
            [member for member in members if member.item in existing],
            [prediction for prediction in predicted if prediction.item in existing],
            self._parents().get(name, []),
        )

    def add(self, name: str, pictures: Example | Iterable[Example] = (), *, author: str | None = None) -> Changed:
        """Add pictures in the collection to a class, by id, path or folder; return the number of pictures added.

        The class is created if it does not exist. A class without pictures is predicted only if the hierarchy gives it
        a mean.
        """
        items = items_named(self._store, pictures)
        return self._names.add(self._canonical_name(name, new=True), items, author=author or login())

    def add_session(self, session: str, name: str | None = None) -> Finished:
        """Turn a feedback session into a class: finish it under its own name, or under `name`."""
        return Session(self._spaces, session).finish(name)

    def remove(self, name: str, pictures: Example | Iterable[Example], *, author: str | None = None) -> Changed:
        """Remove pictures from a class; return the number removed. The class stays, even without pictures."""
        name = self._canonical_name(name)
        self._names.check(name)
        labels = [(item, name) for item in items_named(self._store, pictures)]
        return self._store.judgements.remove_labels(labels, author=author or login())

    def rename(self, old: str, new: str, *, author: str | None = None) -> Changed:
        """Rename a class; return the number of its pictures."""
        before, after = self._canonical_name(old), self._canonical_name(new, new=True)
        after = normalize_label(new) if after == before else after
        return self._names.rename(before, after, author=author or login())

    def merge(self, *names: str, into: str, author: str | None = None) -> Changed:
        """Merge classes into one, with a new name or one of theirs; return the number of its pictures."""
        merged = [self._canonical_name(name) for name in names]
        return self._names.merge(merged, self._canonical_name(into, new=True), author=author or login())

    def split(
        self, name: str, new: str, pictures: Example | Iterable[Example], *, author: str | None = None
    ) -> Changed:
        """Move pictures of a class to a new class; return the number of pictures moved."""
        items = items_named(self._store, pictures)
        return self._names.split(
            self._canonical_name(name), self._canonical_name(new, new=True), items, author=author or login()
        )

    def delete(self, name: str, *, author: str | None = None) -> Changed:
        """Delete a class with its labels and predictions; return the number of labels. The pictures stay."""
        return self._names.delete(self._canonical_name(name), author=author or login())

    def confirm(
        self,
        name: str,
        pictures: Example | Iterable[Example] | None = None,
        *,
        at_least: float | None = None,
        author: str | None = None,
    ) -> Changed:
        """Turn predictions into labels; return the number of new labels.

        Confirms the predictions of these pictures, or all with a probability of at least `at_least`; 0 confirms all.
        """
        if (pictures is None) == (at_least is None):
            raise InputError("To confirm predictions, give either pictures or at_least, a probability.")
        name = self._canonical_name(name)
        if at_least is not None:
            if not _is_number(at_least) or not 0 <= at_least <= 1:
                raise InputError(f"at_least must be a probability from 0 to 1. Got {at_least!r}.")
            pictures = [
                prediction.item for prediction in self.show(name).predicted if prediction.probability >= at_least
            ]
        self._names.check(name)
        assert pictures is not None
        return self._predictions.confirm(name, items_named(self._store, pictures), author=author or login())

    def reject(self, name: str, pictures: Example | Iterable[Example], *, author: str | None = None) -> Changed:
        """Reject a class for pictures, so that it is not predicted for them again.

        Returns the number of removed predictions.
        """
        name = self._canonical_name(name)
        self._names.check(name)
        return self._predictions.reject(name, items_named(self._store, pictures), author=author or login())

    def classify(
        self,
        pictures: Example | Iterable[Example],
        *,
        on_skip: Callable[[str, str], None] | None = None,
        progress: Progress | None = None,
    ) -> list[Prediction]:
        """Predict the class of pictures, in the collection or not, or of all pictures in a folder.

        Examples are given as for `Collection.search`. Nothing is stored. Classes that were rejected for a picture are
        not predicted for it. Probabilities are None if no class has two pictures, or if there is one class and no other
        picture to compare it with. If a picture cannot be read, `on_skip` is called with its name and the reason;
        without `on_skip`, that is an error.
        """
        examples = files_in(as_list(pictures), on_skip)

        def read() -> list[Prediction]:
            read_examples, X, ids = rows_of(self._model.space, examples, on_skip, progress or silent)
            known = [item for item in ids if item is not None]
            rejected, labels = self._predictions.rejected(known), self._store.judgements.labels(known)
            predicted = self._model.predict(X, [() if item is None else rejected.get(item, ()) for item in ids])
            paths = self._store.items.first_paths(known)
            if not self._model.state().has_probabilities:
                predicted = [replace(one, probability=None, runner_up_probability=None) for one in predicted]
            predictions = []
            for example, item, prediction in zip(read_examples, ids, predicted, strict=True):
                path = None if item is None else paths.get(item)
                if path is None and isinstance(example, Path | str):
                    path = str(example)
                item_labels = [] if item is None else labels[item]
                predictions.append(replace(prediction, id=item, path=path, labels=item_labels))
            return predictions

        return self._store.read_consistently(read)

    def can_reject(self) -> bool:
        """Whether "none of these" can be predicted, which requires a class with two pictures."""
        return self._store.read_consistently(self._model.state).can_reject

    def predict(self, progress: Progress | None = None) -> PredictionCounts:
        """Predict the class of every unlabelled picture, and replace all stored predictions."""
        return self._store_predictions(self._model.space.rows.ids, progress or silent, replace_all=True)

    def predict_new(self, progress: Progress | None = None) -> PredictionCounts:
        """Predict the class of pictures added since the last complete call, and store the predictions."""
        started = time.time()
        since = self._names.settings().get("classified_until", started)
        ids = self._store.items.added_since(since)
        if not len(ids):
            return PredictionCounts({}, 0)
        counts = self._store_predictions(ids, progress or silent, replace_all=False)
        self._names.update_settings(classified_until=started)
        return counts

    def watch(self) -> bool:
        """Start classifying new pictures; False if there are no classes or `on_add` is off."""
        if not self._model.settings.on_add or not self._names.counts():
            return False
        if "classified_until" not in self._names.settings():
            self._names.update_settings(classified_until=time.time())
        return True

    @property
    def settings(self) -> Settings:
        """The settings of predictions: space, kind, reject, on_add, prior."""
        return self._model.settings

    def use(self, **settings: Any) -> Settings:
        """Change some of `settings`: space, kind, reject, on_add, prior."""
        names = [field.name for field in fields(Settings)]
        for name in settings:
            if name not in names:
                raise UnknownNameError("class setting", name, names)
        checked = _check_settings(replace(self._model.settings, **settings))
        if settings.get("space") is not None:
            self._spaces.find(checked.space)
        self._names.update_settings(**{name: getattr(checked, name) for name in settings})
        return checked

    def hierarchy(self) -> list[tuple[str, str]]:
        """The hierarchy of classes as pairs (child, parent)."""
        return self._names.parents()

    def named_hierarchy(self) -> list[tuple[str, str]]:
        """WordNet's hierarchy above the classes that are named by nouns, as pairs (child, parent) for `set_hierarchy`.

        A name of several words counts as its last known noun: "red car" is a car.
        """
        from lookalike.classes import Words

        pairs = Words.load().hierarchy(self._names.counts()).pairs
        if not pairs:
            raise InputError("No class has a name that WordNet knows. Give a file or a folder with the hierarchy.")
        return pairs

    def set_hierarchy(self, source: str | Path | Iterable[tuple[str, str]]) -> int:
        """Set the hierarchy, which helps classes with few pictures or none; return the number of pairs.

        `source` is a CSV file of child,parent, a folder of nested folders, or pairs. No pairs remove the hierarchy.
        """
        pairs = read_hierarchy(source)
        canonical = self._names.canonical_names(name for pair in pairs for name in pair)
        pairs = read_hierarchy([(canonical[child], canonical[parent]) for child, parent in pairs])  # finds cycles
        self._names.set_parents(pairs, author=login())
        return len(pairs)

    def evaluate(
        self, *, space: str | None = None, kind: str | None = None, progress: Progress | None = None
    ) -> Evaluation:
        """Cross-validate the classes: each picture is predicted by a model without it.

        Space and kind are by default those of `settings`.
        """
        settings = self._model.settings
        settings = _check_settings(replace(settings, kind=kind or settings.kind, space=space or settings.space))
        return evaluate(self._spaces.find(settings.space), settings, progress or silent)

    def _store_predictions(self, ids: Ids, progress: Progress, *, replace_all: bool) -> PredictionCounts:
        """Predict the classes of the unlabelled items among these, and store the predictions."""
        ids = ids[~np.isin(ids, self._store.judgements.labelled())]
        if not replace_all and not len(ids):
            return PredictionCounts({}, 0)
        state = self._store.read_consistently(self._model.state)
        if not state.can_reject:
            raise InputError(
                "No class has two pictures yet, so Lookalike cannot predict “none of these”. Add pictures: lookalike"
                " classes add NAME IMAGE…"
            )
        rows: list[tuple[int, str, float]] = []
        n_predicted = 0
        d = self._spaces.find(state.space).rows.dim or 1
        for part in chunks(len(ids), row_bytes=4 * d, max_bytes=PREDICT_BYTES):
            progress("classifying", part.start, len(ids))

            def read(batch: Ids = ids[part]) -> tuple[Ids, list[Prediction]]:
                present, X = self._model.rows(batch)
                rejected = self._predictions.rejected(present.tolist())
                return present, self._model.predict(X, [rejected.get(item, ()) for item in present.tolist()])

            present, predictions = self._store.read_consistently(read)
            n_predicted += len(present)
            for item, prediction in zip(present.tolist(), predictions, strict=True):
                if prediction.label is not None:
                    assert prediction.probability is not None  # only `classify` omits it
                    rows.append((item, prediction.label, prediction.probability))
        progress("classifying", len(ids), len(ids))
        counts = self._predictions.add(rows, space=state.space, model=state.model, replace_all=replace_all)
        return PredictionCounts(counts, n_predicted - sum(counts.values()))

    def _canonical_name(self, name: str, *, new: bool = False) -> str:
        """A name in the spelling of the collection; `new`: the name can be that of a new class."""
        return self._names.canonical_names([name], new=new)[name]

    def _parents(self) -> dict[str, list[str]]:
        parents: dict[str, list[str]] = {}
        for child, parent in self._names.parents():
            parents.setdefault(child, []).append(parent)
        return parents


def import_labels(
    store: Store,
    source: Path,
    author: str,
    format: str | None = None,
    field: str | None = None,
    pictures: Path | None = None,
    progress: Progress = silent,
) -> LabelReport:
    """Label pictures of a collection from a file or a folder; see `read_labels`."""
    progress("reading labels", 0, None)
    chosen = find_format(source, format)
    pairs, unknown = read_labels(store.items, source, chosen, field, pictures, progress)
    progress("storing labels", 0, len(pairs))
    canonical = store.judgements.classes.canonical_names((label for _, label in pairs), new=True)
    pairs = [(item, canonical[label]) for item, label in pairs]
    store.judgements.add_labels(pairs, author=author, source="folder" if chosen == "imagefolder" else chosen)
    progress("storing labels", len(pairs), len(pairs))
    return LabelReport(len(pairs), unknown)


def read_labels(
    items: Items,
    source: Path,
    format: str | None = None,
    field: str | None = None,
    pictures: Path | None = None,
    progress: Progress = silent,
) -> tuple[list[tuple[int, str]], list[str]]:
    """Read pairs of item and label from a file or a folder; also returns names that are not in the collection.

    `format` is a name in `label_formats.FORMATS`, by default found by the name or the content. `field` is the column,
    key or field of the labels. `pictures` is the folder at which relative paths start, by default that of the source.
    """
    chosen = find_format(source, format)
    if chosen == "imagefolder" and (known := _read_folders(items, source)):
        return known, []
    found = FORMATS[chosen].read(source, field)
    names = [name for name, _ in found.pairs]
    anywhere = found.anywhere and pictures is None
    matched = match_names(items, names, pictures or found.folder, anywhere=anywhere, progress=progress)
    pairs = [(item, label) for item, (_, label) in zip(matched, found.pairs, strict=True) if item is not None]
    if chosen == "imagefolder" and not pairs:
        raise InputError(
            f"{source} has no subfolder with pictures in the collection. Labels are the names of subfolders."
        )
    return pairs, list(dict.fromkeys(name for name, item in zip(names, matched, strict=True) if item is None))


def read_hierarchy(source: str | Path | Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Read pairs (child, parent) from a CSV file, folders or an iterable; raise InputError if they form a cycle."""
    from lookalike.classes.hierarchy import Hierarchy

    if not isinstance(source, str | Path):
        return Hierarchy(source).pairs
    path = Path(source).expanduser()
    if path.is_dir():
        return Hierarchy(_nested_folders(path)).pairs
    try:
        pairs = Hierarchy.from_csv(path).pairs
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read a hierarchy from {source}: {error}.") from None
    if not pairs:
        raise InputError(
            f"{source} has no lines of the form child,parent. To remove the hierarchy, run: lookalike classes"
            " hierarchy --clear"
        )
    return pairs


def _check_settings(settings: Settings) -> Settings:
    """Convert settings to plain numbers; raise InputError if they are not valid."""
    from lookalike.classes.open_set import KINDS

    if not isinstance(settings.space, str | None):
        raise InputError(f"space must be the name of a space, or None for the first. Got {settings.space!r}.")
    if settings.kind not in KINDS:
        raise UnknownNameError("kind of class model", str(settings.kind), KINDS)
    if not isinstance(settings.on_add, bool):
        raise InputError(f"on_add must be True or False. Got {settings.on_add!r}.")
    if not _is_number(settings.reject) or not 0 < settings.reject < 1:
        raise InputError(f"reject must be above 0 and below 1. Got {settings.reject!r}.")
    if not _is_number(settings.prior) or not 0 < settings.prior < inf:
        raise InputError(f"prior must be a number of pictures above 0. Got {settings.prior!r}.")
    return replace(settings, reject=float(settings.reject), prior=float(settings.prior))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _read_folders(items: Items, folder: Path) -> list[tuple[int, str]]:
    """Known pictures in subfolders of a folder, and their labels; see `name_folders`."""
    root = os.path.abspath(folder)
    return name_folders(
        folder,
        (
            (seen.item, os.path.relpath(path, root).split(os.sep)[:-1])
            for path, seen in items.paths_under(root)
            if seen.item is not None
        ),
    )


def _nested_folders(folder: Path) -> list[tuple[str, str]]:
    """Pairs of each folder below a folder and its parent."""
    root = os.path.abspath(folder)
    pairs = [
        (name, os.path.basename(parent))
        for parent, names, _ in os.walk(root)
        for name in sorted(names)
        if parent != root
    ]
    if not pairs:
        raise InputError(f"A hierarchy needs nested folders. {folder} has none.")
    return pairs
