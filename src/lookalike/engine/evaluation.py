"""How good the classes of a collection are: every picture judged by classes that do not hold it.

In: labels and vectors. Out: the share that is right, class by class, which classes are taken for each other, and how
well pictures of none of them are seen. Where the space itself learned from labels, it is fitted anew for every part.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.engine.chain import Labelled, fit
from lookalike.engine.class_model import NO_CLASSES, Settings, start
from lookalike.engine.looks import at_one_moment
from lookalike.engine.space_sample import sample_rows
from lookalike.engine.spaces import Spaces
from lookalike.errors import InputError
from lookalike.text import many
from lookalike.types import Ids, Progress, Vectors

Rows: TypeAlias = Callable[[NDArray[np.bool_]], Vectors | None]
"""From the examples that may be learned from, (n,), to the rows of all (n, d); None where these are too few."""

FOLDS = 10
"""One picture in so many of each class is judged at a time by the others: of small classes, one by one."""

LEARNED_FOLDS = 5
"""The same where a metric is fitted anew for each part."""

GROUPS = 5
"""Classes are left out in so many groups, to see whether their pictures are called none of these."""

PICTURES = 20_000
"""Pictures that are looked at, at most: those with the smallest ids, which are digests."""

PAIRS = 10
"""Pairs of classes that are listed as confused, at most."""


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """One class: what became of its pictures."""

    name: str
    pictures: int
    judged: int  # of these: a picture that is alone in its class cannot be
    right: float | None  # share
    none: float | None  # share that was called none of these
    mistaken_for: str | None  # most often


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All classes: shares of what was judged."""

    space: str
    kind: str
    pictures: int
    classes: int
    folds: int
    accuracy: float
    class_accuracy: float  # the mean over classes
    own_none: float  # called none of these, wrongly
    strangers_none: float | None  # of pictures whose class was left out: called none of these, rightly
    by_class: list[ClassFigures]  # the worst first
    confused: list[tuple[str, str, int]]  # a class, what it was taken for, how often; the most often first
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Examples:
    """What there is to judge."""

    ids: Ids  # (n,) ascending
    labels: list[list[str]]  # of each, the rarest first
    counts: Counter[str]

    @property
    def names(self) -> list[str]:
        """The classes, sorted."""
        return sorted(self.counts)


def evaluate(spaces: Spaces, name: str, settings: Settings, progress: Progress) -> Evaluation:
    """Cross-validate the classes of a collection in one of its spaces."""
    learned = spaces.taught(name) == name and spaces.wants_labels(name)

    def read() -> tuple[Examples, Rows, list[tuple[str, str]]]:
        found = _examples(spaces, name)
        rows = _refitted(spaces, name, found) if learned else _as_they_are(spaces, name, found)
        return found, rows, spaces.store.judgements.classes.parents()

    examples, rows, parents = at_one_moment(spaces.store, read)
    parts = _parts(examples, LEARNED_FOLDS if learned else FOLDS)
    if (parts < 0).all():
        raise InputError(
            f"No class has two pictures to judge one by the other. Known: {many(len(examples.ids), 'picture')} of"
            f" {many(len(examples.counts), 'class', 'classes')}. Add some: lookalike classes add NAME IMAGE"
        )
    groups = _groups(examples)
    judge = _Judge(examples, rows, parents, settings)
    rounds = int(parts.max()) + 1
    said: dict[int, str | None] = {}
    for part in range(rounds):
        progress("evaluating", part, rounds + GROUPS)
        said |= judge(parts != part, parts == part)
    if not said:  # where a space learns from labels, it was left with one class each time
        raise InputError(
            f"Space '{name}' learns from labels: two classes must be left when pictures are taken out to be judged."
            f" Known: {many(len(examples.ids), 'picture')} of {many(len(examples.counts), 'class', 'classes')}."
            " Add some: lookalike classes add NAME IMAGE"
        )
    strangers: list[str | None] = []
    for group in range(GROUPS if len(examples.counts) > 1 else 0):
        progress("evaluating", rounds + group, rounds + GROUPS)
        strangers += judge(groups[:, group] == 0, groups[:, group] == 2, strangers=True).values()
    progress("evaluating", rounds + GROUPS, rounds + GROUPS)
    return _report(name, settings, examples, said, strangers, rounds)


class _Judge:
    """Learns classes from some of the examples, and says what the others are."""

    def __init__(self, examples: Examples, rows: Rows, parents: list[tuple[str, str]], settings: Settings):
        self.examples = examples
        self.rows = rows
        self.parents = parents
        self.settings = settings
        tree = [name for pair in parents for name in pair]
        self.codes = {name: code for code, name in enumerate(dict.fromkeys([*examples.names, *tree]))}

    def __call__(
        self, train: NDArray[np.bool_], test: NDArray[np.bool_], strangers: bool = False
    ) -> dict[int, str | None]:
        """Place → the class of each example of `test` by the classes of `train`; None for none of these.

        Only of those that have a class there; of `strangers`, all.
        """
        X = self.rows(train) if train.any() and test.any() else None
        if X is None:
            return {}
        labels = self.examples.labels
        pairs = [(i, self.codes[name]) for i in np.flatnonzero(train).tolist() for name in labels[i]]
        places, y = (np.array(column) for column in zip(*pairs, strict=True))
        model = start(self.settings, self.parents, self.codes.__getitem__).fit(X[places], y)
        names = [*self.codes, None]  # the last is none of these
        known = {names[code] for code in y.tolist()}
        asked = [i for i in np.flatnonzero(test).tolist() if strangers or known.intersection(labels[i])]
        return {i: names[code] for i, code in zip(asked, model.predict(X[asked]).tolist(), strict=True)}


def _examples(spaces: Spaces, name: str) -> Examples:
    """The labelled pictures that have a row in the space."""
    _, pairs = spaces.store.judgements.classes.all_labels()
    found: dict[int, list[str]] = {}
    for item, label in pairs:
        found.setdefault(item, []).append(label)
    ids = np.array(sorted(found), np.int64)
    ids = ids[np.isin(ids, spaces.index(spaces.taught(name)).ids)][:PICTURES]
    counts = Counter(label for item in ids.tolist() for label in found[item])
    if not len(ids):
        raise InputError(NO_CLASSES)
    return Examples(
        ids, [sorted(found[item], key=lambda label: (counts[label], label)) for item in ids.tolist()], counts
    )


def _parts(examples: Examples, folds: int) -> NDArray[np.int64]:
    """The part in which each picture is judged, (n,); −1 for one that is alone in its classes."""
    rank: Counter[str] = Counter()
    parts = np.full(len(examples.ids), -1)
    for i, labels in enumerate(examples.labels):
        shared = [label for label in labels if examples.counts[label] > 1]
        if shared:
            parts[i] = rank[shared[0]] % folds
            rank[shared[0]] += 1
    return parts


def _groups(examples: Examples) -> NDArray[np.int64]:
    """For each picture, whether none (0), some (1) or all (2) of its classes are in each group, (n, GROUPS)."""
    group = {name: place % GROUPS for place, name in enumerate(examples.names)}
    found = np.zeros((len(examples.ids), GROUPS), np.int64)
    for i, labels in enumerate(examples.labels):
        mine = {group[label] for label in labels}
        found[i, list(mine)] = 2 if len(mine) == 1 else 1
    return found


def _as_they_are(spaces: Spaces, name: str, examples: Examples) -> Rows:
    X = spaces.index(spaces.taught(name)).vectors(examples.ids)
    return lambda _: X


def _refitted(spaces: Spaces, name: str, examples: Examples) -> Rows:
    """Rows of a space that has learned from none of the labels that are to be judged."""
    chain = spaces.chain(name).specs
    sample, X = sample_rows(spaces, chain[0])[1], spaces.index(chain[0]).vectors(examples.ids)
    alone = np.array([len(labels) == 1 for labels in examples.labels])
    y = np.array([labels[0] for labels in examples.labels])

    def rows(train: NDArray[np.bool_]) -> Vectors | None:
        mine = train & alone
        if len(np.unique(y[mine])) < 2:
            return None
        return fit(chain, sample, None, Labelled(examples.ids[mine], X[mine], y[mine])).transform(X)

    return rows


def _report(
    name: str,
    settings: Settings,
    examples: Examples,
    said: dict[int, str | None],
    strangers: list[str | None],
    rounds: int,
) -> Evaluation:
    by_class: dict[str, list[tuple[bool, str | None]]] = {label: [] for label in examples.names}
    confused: Counter[tuple[str, str]] = Counter()
    for i, guess in said.items():
        right = guess in examples.labels[i]
        for label in examples.labels[i]:
            by_class[label].append((right, guess))
        if not right and guess is not None:
            confused[examples.labels[i][0], guess] += 1
    figures = [_figures(label, examples.counts[label], judged) for label, judged in by_class.items()]
    figures.sort(key=lambda figure: (figure.right is None, figure.right, figure.name))
    shares = [figure.right for figure in figures if figure.right is not None]
    alone = sum(figure.judged == 0 for figure in figures)
    return Evaluation(
        space=name,
        kind=settings.kind,
        pictures=len(said),
        classes=len(figures),
        folds=rounds,
        accuracy=float(np.mean([guess in examples.labels[i] for i, guess in said.items()])),
        class_accuracy=float(np.mean(shares)),
        own_none=float(np.mean([guess is None for guess in said.values()])),
        strangers_none=float(np.mean([guess is None for guess in strangers])) if strangers else None,
        by_class=figures,
        confused=[(truth, guess, n) for (truth, guess), n in confused.most_common(PAIRS)],
        notes=[f"{alone} of the classes have one picture each, which cannot be judged."] if alone else [],
    )


def _figures(name: str, pictures: int, judged: list[tuple[bool, str | None]]) -> ClassFigures:
    if not judged:
        return ClassFigures(name, pictures, 0, None, None, None)
    wrong = Counter(guess for right, guess in judged if not right and guess is not None)
    return ClassFigures(
        name,
        pictures,
        len(judged),
        float(np.mean([right for right, _ in judged])),
        float(np.mean([guess is None for _, guess in judged])),
        wrong.most_common(1)[0][0] if wrong else None,
    )
