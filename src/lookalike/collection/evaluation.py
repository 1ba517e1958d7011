"""Evaluation with labels: the accuracy of classes, and the effect of each step of a chain.

`evaluate` cross-validates classes: every picture is predicted by a model without it. If the space itself learned from
labels, it is refitted for every fold. `score_steps` fits a chain without some of the labelled pictures and measures
retrieval among these.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.collection.chain import Labelled, fit
from lookalike.collection.class_model import BACKGROUND, NO_CLASSES, Settings, make_model
from lookalike.collection.fitting import labelled_rows, labels_of, sample_rows
from lookalike.collection.space import Space
from lookalike.collection.specs import is_coder, is_smooth, takes_labels
from lookalike.errors import InputError
from lookalike.learn.labels import join_names
from lookalike.learn.measures import alike, precisions
from lookalike.text import many
from lookalike.types import Ids, Progress, Vectors, format_id

Rows: TypeAlias = Callable[[NDArray[np.bool_]], tuple[Vectors, Vectors] | None]
"""A function from a mask (n,) of the training examples to the rows (n, d) of all, and those of the background; None if
the examples are too few."""

FOLDS = 10
"""Folds of the cross-validation; a class with fewer pictures has at most one per fold."""

LEARNED_FOLDS = 5
"""Folds if the space is refitted for each."""

CLASS_GROUPS = 5
"""Groups of classes that are left out in turn. Their pictures should be predicted as "none of these"."""

MAX_PICTURES = 20_000
"""Maximum number of pictures to use: those with the smallest ids. Ids are digests, so this is a random sample."""

MAX_CONFUSED, MAX_SHOWN = 10, 12
"""Maximum number of confused pairs of classes to list, and of pictures of each."""

HELD_OUT, HELD_OUT_MAX = 0.3, 1_000
"""Share and maximum number of labelled pictures that `score_steps` holds out; each searches all others."""

NEIGHBOURS = 10


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """The results of one class."""

    name: str
    pictures: int
    judged: int  # number of tested pictures; the only picture of a class cannot be tested
    right: float | None  # share
    none: float | None  # share that was predicted as "none of these"
    mistaken_for: str | None  # the most frequent wrong class


@dataclass(frozen=True, slots=True)
class Confusion:
    """Pictures of one class that were predicted as another one."""

    label: str
    predicted: str
    pictures: int
    ids: list[int]  # of some of them


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results of all classes, as shares of the tested pictures."""

    space: str
    kind: str
    pictures: int
    classes: int
    folds: int
    accuracy: float
    class_accuracy: float  # the mean over classes
    own_none: float  # wrongly predicted as "none of these"
    strangers_none: float | None  # share of the pictures of left-out classes, rightly predicted as "none of these"
    by_class: list[ClassFigures]  # the worst first
    confused: list[Confusion]  # most frequent first
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the results for JSON, with ids as text."""
        confused = [asdict(pair) | {"ids": [format_id(item) for item in pair.ids]} for pair in self.confused]
        return asdict(self) | {"confused": confused}


@dataclass(frozen=True, slots=True)
class Examples:
    """The labelled pictures to test."""

    ids: Ids  # (n,) ascending
    labels: list[list[str]]  # of each picture, rarest first
    counts: Counter[str]

    @property
    def names(self) -> list[str]:
        """The classes, sorted."""
        return sorted(self.counts)


def evaluate(space: Space, settings: Settings, progress: Progress) -> Evaluation:
    """Cross-validate the classes of a collection in one of its spaces."""
    store, learned = space.store, space.rows_learned_from_labels

    def read() -> tuple[Examples, Rows, list[tuple[str, str]]]:
        found = _examples(space)
        rows = _refitted_rows(space, found) if learned else _stored_rows(space, found)
        return found, rows, store.judgements.classes.parents()

    examples, rows, parents = store.read_consistently(read)
    fold_of = _assign_folds(examples, LEARNED_FOLDS if learned else FOLDS)
    if (fold_of < 0).all():
        raise InputError(
            "Evaluation needs a class with at least two pictures. The collection has"
            f" {many(len(examples.ids), 'labelled picture')} in {many(len(examples.counts), 'class', 'classes')}."
            " Add pictures: lookalike classes add NAME IMAGE…"
        )
    groups = _group_membership(examples)
    predict = _FoldModel(examples, rows, parents, settings)
    n_folds = int(fold_of.max()) + 1
    predicted: dict[int, str | None] = {}
    for fold in range(n_folds):
        progress("evaluating", fold, n_folds + CLASS_GROUPS)
        predicted |= predict(fold_of != fold, fold_of == fold)
    if not predicted:  # every fold of a space that learns from labels had too few classes
        raise InputError(
            f"Space '{space.name}' learns from labels, so every fold needs pictures of two classes for training. The"
            f" collection has {many(len(examples.ids), 'labelled picture')} in"
            f" {many(len(examples.counts), 'class', 'classes')}. Add pictures: lookalike classes add NAME IMAGE…"
        )
    strangers: list[str | None] = []
    for group in range(CLASS_GROUPS if len(examples.counts) > 1 else 0):
        progress("evaluating", n_folds + group, n_folds + CLASS_GROUPS)
        strangers += predict(groups[:, group] == 0, groups[:, group] == 2, strangers=True).values()
    progress("evaluating", n_folds + CLASS_GROUPS, n_folds + CLASS_GROUPS)
    return _make_evaluation(space.name, settings, examples, predicted, strangers, n_folds)


class _FoldModel:
    """Fits classes on some of the examples, and predicts the classes of others."""

    def __init__(self, examples: Examples, rows: Rows, parents: list[tuple[str, str]], settings: Settings):
        self.examples = examples
        self.rows = rows
        self.parents = parents
        self.settings = settings
        hierarchy_names = [name for pair in parents for name in pair]
        self.codes = {name: code for code, name in enumerate(dict.fromkeys([*examples.names, *hierarchy_names]))}

    def __call__(
        self, train: NDArray[np.bool_], test: NDArray[np.bool_], strangers: bool = False
    ) -> dict[int, str | None]:
        """Predict the class of each example of `test`, by position; None for "none of these".

        Examples whose classes are not in `train` are left out, unless `strangers` is set.
        """
        rows = self.rows(train) if train.any() and test.any() else None
        if rows is None:
            return {}
        X, background = rows
        labels = self.examples.labels
        pairs = [(i, self.codes[name]) for i in np.flatnonzero(train).tolist() for name in labels[i]]
        positions, y = (np.array(column) for column in zip(*pairs, strict=True))
        model = make_model(self.settings, self.parents, self.codes.__getitem__)
        model.use_background(background).fit(X[positions], y)
        names = [*self.codes, None]  # −1, the last, is "none of these"
        known = {names[code] for code in y.tolist()}
        tested = [i for i in np.flatnonzero(test).tolist() if strangers or known.intersection(labels[i])]
        return {i: names[code] for i, code in zip(tested, model.predict(X[tested]).tolist(), strict=True)}


def _examples(space: Space) -> Examples:
    """The labelled pictures that have a row in the space, at most MAX_PICTURES."""
    _, pairs = space.store.judgements.classes.all_labels()
    labels: dict[int, list[str]] = {}
    for item, label in pairs:
        labels.setdefault(item, []).append(label)
    ids = np.array(sorted(labels), np.int64)
    ids = ids[np.isin(ids, space.rows.ids)][:MAX_PICTURES]
    counts = Counter(label for item in ids.tolist() for label in labels[item])
    if not len(ids):
        raise InputError(NO_CLASSES)
    return Examples(
        ids, [sorted(labels[item], key=lambda label: (counts[label], label)) for item in ids.tolist()], counts
    )


def _assign_folds(examples: Examples, folds: int) -> NDArray[np.int64]:
    """The fold in which each picture is tested, (n,); −1 for the only picture of its classes."""
    rank: Counter[str] = Counter()
    fold_of = np.full(len(examples.ids), -1)
    for i, labels in enumerate(examples.labels):
        shared = [label for label in labels if examples.counts[label] > 1]
        if shared:
            fold_of[i] = rank[shared[0]] % folds
            rank[shared[0]] += 1
    return fold_of


def _group_membership(examples: Examples) -> NDArray[np.int64]:
    """For each picture, whether none (0), some (1) or all (2) of its classes are in each group, (n, CLASS_GROUPS)."""
    group = {name: position % CLASS_GROUPS for position, name in enumerate(examples.names)}
    membership = np.zeros((len(examples.ids), CLASS_GROUPS), np.int64)
    for i, labels in enumerate(examples.labels):
        own_groups = {group[label] for label in labels}
        membership[i, list(own_groups)] = 2 if len(own_groups) == 1 else 1
    return membership


def _stored_rows(space: Space, examples: Examples) -> Rows:
    index = space.rows
    rows = index.vectors(examples.ids), index.vectors(index.ids[:BACKGROUND])
    return lambda _: rows


def _refitted_rows(space: Space, examples: Examples) -> Rows:
    """The rows of a space that is refitted for each fold, without the labels under test."""
    sample, X = sample_rows(space)[1], space.feature_rows.vectors(examples.ids)
    has_one_label = np.array([len(labels) == 1 for labels in examples.labels])
    y = np.array([labels[0] for labels in examples.labels])

    def rows(train: NDArray[np.bool_]) -> tuple[Vectors, Vectors] | None:
        used = train & has_one_label
        if len(np.unique(y[used])) < 2:
            return None
        chain = fit(space.specs, sample, None, Labelled(examples.ids[used], X[used], y[used]))
        return chain.transform(X), chain.transform(sample[:BACKGROUND])

    return rows


def _make_evaluation(
    name: str,
    settings: Settings,
    examples: Examples,
    predicted: dict[int, str | None],
    strangers: list[str | None],
    n_folds: int,
) -> Evaluation:
    by_class: dict[str, list[tuple[bool, str | None]]] = {label: [] for label in examples.names}
    confused: dict[tuple[str, str], list[int]] = {}
    for i, label in predicted.items():
        right = label in examples.labels[i]
        for true_label in examples.labels[i]:
            by_class[true_label].append((right, label))
        if not right and label is not None:
            confused.setdefault((examples.labels[i][0], label), []).append(int(examples.ids[i]))
    figures = [_figures(label, examples.counts[label], judged) for label, judged in by_class.items()]
    figures.sort(key=lambda figure: (figure.right is None, figure.right, figure.name))
    accuracies = [figure.right for figure in figures if figure.right is not None]
    single = sum(figure.judged == 0 for figure in figures)
    most_frequent = sorted(confused.items(), key=lambda pair: -len(pair[1]))[:MAX_CONFUSED]
    return Evaluation(
        space=name,
        kind=settings.kind,
        pictures=len(predicted),
        classes=len(figures),
        folds=n_folds,
        accuracy=float(np.mean([label in examples.labels[i] for i, label in predicted.items()])),
        class_accuracy=float(np.mean(accuracies)),
        own_none=float(np.mean([label is None for label in predicted.values()])),
        strangers_none=float(np.mean([label is None for label in strangers])) if strangers else None,
        by_class=figures,
        confused=[Confusion(*pair, len(ids), ids[:MAX_SHOWN]) for pair, ids in most_frequent],
        notes=[f"Classes with only one picture, which cannot be tested: {single}."] if single else [],
    )


def _figures(name: str, pictures: int, judged: list[tuple[bool, str | None]]) -> ClassFigures:
    if not judged:
        return ClassFigures(name, pictures, 0, None, None, None)
    wrong = Counter(label for right, label in judged if not right and label is not None)
    return ClassFigures(
        name,
        pictures,
        len(judged),
        float(np.mean([right for right, _ in judged])),
        float(np.mean([label is None for _, label in judged])),
        wrong.most_common(1)[0][0] if wrong else None,
    )


@dataclass(frozen=True, slots=True)
class StepQuality:
    """The quality of a chain up to and including one step."""

    step: str
    numbers: int  # dimensions; for codes, bytes
    bytes: int  # per picture, as float32 vectors or as codes
    precision: float  # mean average precision by labels; each held-out picture searches the others
    recall: float  # share of the 10 nearest that are also nearest after the last step that learned from labels


def score_steps(space: Space, random_state: int = 0) -> list[StepQuality]:
    """Fit a space's chain without some of the labelled pictures, and measure retrieval among these. Nothing is stored.

    The step `smooth` is left out. The feature is not refitted. If it learned from labels, it may have seen the
    pictures, and only the differences between steps are meaningful.
    """
    labelled = labels_of(space, several=True)
    ids = np.array(sorted(labelled), np.int64)
    X = np.asarray(space.feature_rows.vectors(ids), np.float32)
    random = np.random.default_rng(random_state)
    held_out = np.zeros(len(ids), bool)
    held_out[random.permutation(len(ids))[: min(HELD_OUT_MAX, int(HELD_OUT * len(ids)))]] = True
    if held_out.sum() < 2:
        raise InputError(
            f"Comparing steps needs at least {int(np.ceil(2 / HELD_OUT))} labelled pictures. The collection has"
            f" {len(ids)}. Label pictures first: lookalike label SOURCE"
        )
    sample_ids, sample = sample_rows(space)
    sample = sample[~np.isin(sample_ids, ids[held_out])]
    specs = [spec for spec in space.specs if not is_smooth(spec)]  # needs the neighbours of the whole collection
    chain = fit(specs, sample, None, _without(labelled_rows(space), ids[held_out]))
    return _score_steps(specs, chain.steps, X[held_out], [labelled[item] for item in ids[held_out].tolist()])


def _without(labelled: Labelled | None, held_out: Ids) -> Labelled | None:
    """The labelled rows without the held-out ones."""
    if labelled is None:
        return None
    kept = ~np.isin(labelled.ids, held_out)
    return Labelled(labelled.ids[kept], labelled.X[kept], labelled.y[kept], labelled.unlabelled)


def _score_steps(specs: list[str], steps: Any, X: Vectors, labels: list[list[str]]) -> list[StepQuality]:
    y = join_names(labels)
    relevant = alike(y)
    learned = max((i for i, spec in enumerate(specs) if i and takes_labels(spec) and not is_coder(spec)), default=0)
    distances, sizes = [_distances(X)], [(X.shape[1], 4 * X.shape[1])]
    for spec, step in zip(specs[1:], steps, strict=True):
        if is_coder(spec):
            codes = step.encode(X)
            distances.append(np.asarray(step.query(X).score(codes), np.float64))
            sizes.append((codes.shape[1], codes.shape[1]))
        else:
            X = np.asarray(step.transform(X), np.float32)
            distances.append(_distances(X))
            sizes.append((X.shape[1], 4 * X.shape[1]))
    orders = [_order(D) for D in distances]
    return [
        StepQuality(spec, *size, _precision(order, relevant), _recall(order, orders[learned]))
        for spec, size, order in zip(specs, sizes, orders, strict=True)
    ]


def _distances(X: Vectors) -> NDArray[np.float64]:
    rows = X.astype(np.float64)
    squares = np.sum(rows * rows, axis=1)
    return np.asarray(squares[:, None] + squares[None, :] - 2 * rows @ rows.T)


def _order(D: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each row, the other rows, nearest first, (n, n - 1)."""
    D[np.arange(len(D)), np.arange(len(D))] = np.inf
    return np.asarray(np.argsort(D, axis=1, kind="stable")[:, :-1], np.int64)


def _precision(order: NDArray[np.int64], relevant: NDArray[np.bool_]) -> float:
    """Mean average precision; rows that share no label with another one are left out."""
    found = precisions(np.take_along_axis(relevant, order, axis=1))
    return float(found.mean()) if len(found) else 0.0


def _recall(order: NDArray[np.int64], reference: NDArray[np.int64]) -> float:
    k = min(NEIGHBOURS, order.shape[1])
    return float(
        np.mean([np.isin(nearest[:k], expected[:k]).mean() for nearest, expected in zip(order, reference, strict=True)])
    )
