"""`Collection`: the application in one class, where algorithms and storage meet.

In: folders of pictures, and pictures to look for. Out: results, reports, files. The command line and the service
call this class and nothing below it.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self, TextIO

import numpy as np

from lookalike.arrays import check_count
from lookalike.engine import calibration, duplicates, export, labels
from lookalike.engine import map as mapping
from lookalike.engine.calibration import CalibrationReport
from lookalike.engine.chain import Chain, feature_takes_labels, takes_negatives
from lookalike.engine.class_model import Settings
from lookalike.engine.classes import Classes, ClassSummary, ClassView, Predicted, Verdict
from lookalike.engine.compression import StepQuality, score_steps
from lookalike.engine.duplicates import Group, Tier, check_tier
from lookalike.engine.evaluation import Evaluation
from lookalike.engine.examples import Crop, Example, combine, listed, vectors
from lookalike.engine.explain import Push, explain, pooled
from lookalike.engine.feedback import Finished, Round, Session, login, start_session
from lookalike.engine.gone import forget_gone, problem
from lookalike.engine.guesses import Guess
from lookalike.engine.ingest import Ingest, Report
from lookalike.engine.looks import Result, at_one_moment, make_result, select
from lookalike.engine.map import POINTS, Map, check_points
from lookalike.engine.marks import begin
from lookalike.engine.negatives import read_negatives
from lookalike.engine.pages import Page, Pages, read_item
from lookalike.engine.presence import has_files, ignore, root_of
from lookalike.engine.simulate import SimulatedRound, find_wanted, simulate
from lookalike.engine.space_fit import ensure_fit, extend_space, fit_space, learning
from lookalike.engine.space_sample import Pool
from lookalike.engine.space_settle import FIT_MIN, settle
from lookalike.engine.spaces import Spaces
from lookalike.engine.stats import glance, speeds, stats
from lookalike.engine.verify import verify
from lookalike.engine.vocabulary import fit_features
from lookalike.engine.where import with_boxes
from lookalike.engine.why import Why
from lookalike.errors import InputError, MissingError, SourceError, UnknownNameError
from lookalike.images.folders import Within
from lookalike.images.read import LIMITS, Limits
from lookalike.images.sources import Entry, walk
from lookalike.recipes import DEFAULT, FALLBACK
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item, Order
from lookalike.store.judgements import Saying
from lookalike.store.predictions import Prediction
from lookalike.store.sessions import Summary
from lookalike.types import Ids, Progress, Query, Vectors, format_id, parse_id, silent

__all__ = [
    "CalibrationReport", "ClassSummary", "ClassView", "Classes", "Collection", "Crop", "Evaluation", "Filter",
    "Finished", "Group", "Guess", "Item", "LabelReport", "Map", "Order", "Page", "Predicted", "Prediction", "Push",
    "Report", "Result", "Round", "Session", "Settings", "SimulatedRound", "StepQuality", "Summary", "Tier", "Verdict",
    "Why", "format_id", "login", "parse_id",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class LabelReport:
    """What an import of labels did."""

    labelled: int
    unknown: list[str]


class Collection:
    """Pictures, their vectors, and what people said about them, in one directory.

    Opening one reads; the first verb that writes takes the writer's lock for as long as it runs. `classes` has verbs of
    its own.

    Parameters
    ----------
    path : the collection's directory.
    create : make it where it does not exist.
    wait_s : how long a writing verb waits for another writer to finish.
    within : folders that links below a source may lead into, besides the sources themselves; None: anywhere. For
        those who add on behalf of others.

    Examples
    --------
    >>> collection = Collection("photos.lookalike", create=True)  # doctest: +SKIP
    >>> collection.add("~/Pictures")  # doctest: +SKIP
    >>> collection.search("beach.jpg", k=5)  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool = False,
        wait_s: float = 0.0,
        within: Sequence[str | Path] | None = None,
    ):
        self.path = Path(_absolute(path))
        self.wait_s = wait_s
        self._within = None if within is None else [str(folder) for folder in within]
        self._store = Store(self.path, create=create)
        self._spaces = Spaces(self._store)
        self._pages = Pages(self._store)
        self.classes = Classes(self._store, self._spaces)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._store.items)

    def close(self) -> None:
        """Let go of the files."""
        self._store.close()

    def add(
        self,
        *sources: str | Path,
        recipes: str | Sequence[str] | None = None,
        progress: Progress | None = None,
        workers: int | None = None,
    ) -> Report:
        """Index folders, archives, lists or single files; what is known and unchanged costs a stat.

        `recipes` are names (see `lookalike.recipes`) or pipelines of one's own, `"name = spec | spec"`; by default the
        collection's own, or those of a new collection. Killed at any moment, the same call goes on where it stopped.
        """
        if not sources:
            raise InputError("Nothing to add. Give at least one folder, archive or picture.")
        report, started = Report(), time.monotonic()
        paths = [_absolute(source) for source in sources]
        walk(paths, on_skip=ignore)  # refuses what does not exist, before anything is remembered
        with self._store.writer(self.wait_s):
            names = self._recipes(recipes, report)
            with self._store.transaction():
                for path in paths:
                    self._store.items.add_source(path)
            with self._classified(report, progress or silent):
                self._ingest(paths, names, report, progress or silent, workers)
        report.seconds = time.monotonic() - started
        return report

    def refresh(self, *roots: str | Path, progress: Progress | None = None, workers: int | None = None) -> Report:
        """Look again at what was added: new, changed, moved and gone files. Default: everything ever added.

        A source that is not there, or has become empty, is left alone and named in the notes: a disk that is not
        mounted must not cost the collection its pictures.
        """
        report, started = Report(), time.monotonic()
        known = self._store.items.sources()
        sources = [_absolute(root) for root in roots] or known
        for root in sources:
            if root not in known and next(self._store.items.paths_under(root), None) is None:
                raise SourceError(f"{root} was never added. Run: lookalike add {root}")
        with self._store.writer(self.wait_s):
            absent = {source: why for source in {*sources, *known} if (why := problem(self._store, source))}
            report.notes += [absent[source] for source in sources if source in absent]
            if roots and report.notes:
                raise SourceError(report.notes[0])
            present = [source for source in sources if source not in absent]
            listed = [source for source in present if has_files(source)]
            again: set[int] = set()
            if listed:
                with self._classified(report, progress or silent):
                    again = self._ingest(listed, self._recipes(None, report), report, progress or silent, workers)
            forget_gone(self._store, present, list(absent), again, report)
        report.seconds = time.monotonic() - started
        return report

    def remove_space(self, name: str) -> None:
        """Take a space out, with its vectors and what was fitted for it; its feature's too, where no other needs them.

        The pictures stay, and so does what people said about them.
        """
        with self._store.writer(self.wait_s), self._store.transaction():
            found = self._spaces.all()[self._spaces.find(name)]
            self._store.vectors.drop_space(found.name)
            if not any(space.base == found.base for space in self._store.vectors.spaces().values()):
                self._store.vectors.drop_space(found.chain[0])

    def remove(self, *which: int | str | Path, filter: Filter | None = None) -> int:
        """Take items out: by id or path (a folder means all below it), or by filter. Their files stay where they are.

        What people said about them stays too, and counts again if the same picture comes back.
        """
        if bool(which) == (filter is not None):
            raise InputError("Say what to remove by ids and paths or by a filter, one of the two.")
        with self._store.writer(self.wait_s):
            ids, paths = self._resolve(which)
            if filter is not None:
                ids.update(select(self._store, filter).tolist())
            with self._store.transaction():
                for word in which:
                    self._store.items.remove_source(_absolute(str(word)))
                ids.update(self._store.items.unlink(paths))
                return self._store.remove(ids)

    def fit(
        self,
        *spaces: str,
        features: bool = False,
        negatives: str | Path | None = None,
        labels: bool | str | Path = False,
        progress: Progress | None = None,
        workers: int | None = None,
    ) -> dict[str, int]:
        """Fit spaces anew on what the collection holds now; returns how many rows each was fitted on.

        A space may be new: a pipeline, `"name = spec | spec"`, or a step alone, `"slem(lam=0.001)"`, `"itq(bits=64)"`,
        which makes a space of its name on the first space's feature; `"codes(bits=64)"` is `tsvm` where at least two
        labels have 10 pictures, or `labels` are given, and `itq` elsewhere. `negatives` is another collection or
        pictures, for transforms that tell rows from a pool; where None, the collection itself is their pool. Steps that
        learn from labels are fitted on the pictures with exactly one (`dfk` on all that have any); `labels`, as
        `import_labels` takes them, are imported first. A feature that learns from labels does so where `labels` or
        `features` are asked for, and where it never did; every picture is then described again.
        `features`: the vocabularies of features that learn are made anew first, and every picture is described again;
        stopped on the way, `refresh` goes on.
        """
        if not isinstance(labels, bool):
            self.import_labels(labels)
        with self._store.writer(self.wait_s), self._tried_spaces():
            names = [ensure_fit(self._spaces, name, labels=bool(labels)) for name in spaces]
            taught = [name for name in names if self._spaces.feature_wants_labels(name)]
            wanting = {*taught, *(name for name in names if self._spaces.wants_labels(name))}
            if useless := [name for name in names if labels and name not in wanting]:
                chain = " | ".join(self._spaces.all()[useless[0]].chain)
                raise InputError(
                    f"Space '{useless[0]}' has no use for labels: its chain is {chain}. Those that have: ncmml, lmnn,"
                    " fda, tsvm … With --calibrate, labels can choose lam and gamma."
                )
            fitted: dict[str, int] = {}
            if features:
                fitted = self._fit_features_anew(names or self._spaces.recipes(), progress or silent, workers)
                names = [name for name in {**dict.fromkeys(names), **fitted} if name in learning(self._spaces)]
            elif taught := [name for name in taught if labels or not self._spaces.described(name)]:
                fitted = self._fit_features_anew(taught, progress or silent, workers)
                names = [name for name in names if name not in taught or name in learning(self._spaces)]
            if not spaces:
                names = learning(self._spaces)
            for name in names:
                pool = self._negatives(name, negatives, progress or silent, workers)
                fitted[name] = fit_space(self._spaces, name, progress or silent, pool)
            settle(self._spaces, names, progress or silent)
        return fitted

    def score_steps(self, space: str) -> list[StepQuality]:
        """What each step of a space's chain leaves of retrieval by labels, such as PCA or codes after `dfk`.

        The chain is fitted anew without three in ten of the labelled pictures (at most 1,000), which then look for
        their like among each other. Nothing is written.
        """
        return at_one_moment(self._store, lambda: score_steps(self._spaces, self._spaces.find(space)))

    def add_negatives(
        self,
        space: str,
        source: str | Path,
        *,
        progress: Progress | None = None,
        workers: int | None = None,
    ) -> int:
        """Add another collection, or pictures, to what a fitted `slem` tells pictures from; returns how many they are.

        As if it had been fitted on both, without another look at the first ones. Every picture is encoded anew.
        """
        with self._store.writer(self.wait_s):
            name = self._spaces.find(space)
            more = self._negatives(name, source, progress or silent, workers)
            assert more is not None
            n = extend_space(self._spaces, name, more, progress or silent)
            settle(self._spaces, [name], progress or silent)
        return n

    def calibrate(
        self,
        space: str,
        *,
        labels: bool | str | Path = False,
        negatives: str | Path | None = None,
        progress: Progress | None = None,
        workers: int | None = None,
    ) -> CalibrationReport:
        """Choose λ (and γ) of a space's last transform on the collection itself, write them down, and fit the space.

        `space` as for `fit`. About 200 pictures are altered (crops, a flip, light, recompression), and the best
        parameters are those with which altered pictures find their own; `labels`, as for `fit`: those with which
        pictures find the others of their label. The pool is `negatives`, as for `fit`, or what else the collection has.
        """
        report = progress or silent
        if not isinstance(labels, bool):
            self.import_labels(labels)
        with self._store.writer(self.wait_s):
            with self._tried_spaces():
                name = ensure_fit(self._spaces, space, calibration.GRID)
                pool = self._negatives(name, negatives, report, workers)
                chosen = calibration.choose(self._spaces, name, pool, bool(labels), report, workers)
                rows = fit_space(self._spaces, name, report, pool, chosen.chain)
            settle(self._spaces, [name], report)
        return replace(chosen, fitted_on=rows)

    def search(
        self,
        examples: Example | Sequence[Example],
        *,
        without: Example | Sequence[Example] = (),
        k: int = 20,
        space: str | None = None,
        filter: Filter | None = None,
        effort: float | str | None = None,
        where: bool = False,
        progress: Progress | None = None,
    ) -> list[Result]:
        """The k pictures most like the examples and least like `without`, best first.

        An example is a path, a file's bytes, an id, pixels, a `Crop` of one of these, or a vector. A picture of the
        collection finds itself. `where`: each result also says in which part of the picture the match is, which takes
        reading and describing it again.
        """

        def look() -> tuple[list[Result], Query, Chain]:
            check_count("k", k)
            query, index, chain = self._query(space, listed(examples), listed(without))
            among = None if filter is None else select(self._store, filter)
            hits = index.search(query, min(k, max(1, len(index))), among=among, effort=effort)
            items = self._store.items.get([item for item in hits.ids[0].tolist() if item >= 0])
            scores = dict(zip(hits.ids[0].tolist(), hits.scores[0].tolist(), strict=True))
            return [make_result(item, scores[item.id]) for item in items.values()], query, chain

        results, query, chain = at_one_moment(self._store, look)
        if not where:
            return results
        return with_boxes(self._store, self._spaces.side(), results, query, chain, progress or silent)

    def explain(self, example: Example, *, space: str | None = None, k: int = 5) -> list[Push]:
        """The k negatives that push a picture away most, in a space that tells pictures from a pool; hardest first.

        The space is by default the first such one. A picture that is in the pool pushes itself, too.
        """

        def look() -> list[Push]:
            name = pooled(self._spaces) if space is None else self._spaces.find(space)
            X = vectors(self._store, self._spaces, self._spaces.all()[name].chain[0], [example])  # (1, d)
            return explain(self._spaces, name, X, k)

        return at_one_moment(self._store, look)

    def session(
        self,
        examples: Example | Sequence[Example] = (),
        *,
        without: Example | Sequence[Example] = (),
        label: str | None = None,
        space: str | None = None,
        name: str | None = None,
        author: str | None = None,
        id: str | None = None,
    ) -> Session:
        """Start a feedback session from examples, as `search` takes them, or from a label; or open the one named `id`.

        Every click is kept at once: a session of a process that was killed is opened again by its id. `author` is who
        clicks, by default who is logged in.
        """
        wanted, unwanted = listed(examples), listed(without)
        if id is None:
            return start_session(
                self._store, self._spaces, wanted, unwanted, label=label, space=space, author=author, name=name
            )
        if wanted or unwanted or label or space or name:
            raise InputError("A session that is opened by its id has its examples, space and name. Give the id alone.")
        return Session(self._store, self._spaces, id, author)

    def classify(
        self,
        pictures: Example | Sequence[Example],
        *,
        on_skip: Callable[[str, str], None] | None = None,
        progress: Progress | None = None,
    ) -> list[Verdict]:
        """The class of pictures, of the collection or not, with its probability and the runner-up, or none of these.

        A folder stands for all pictures in it. Nothing is kept. Classes are made with `classes`; `on_skip` is told what
        cannot be read, which else is an error.
        """
        return self.classes.classify(pictures, on_skip=on_skip, progress=progress)

    def sessions(self) -> list[Summary]:
        """Every feedback session, the last touched first."""
        return self._store.judgements.sessions.all()

    def remove_session(self, id: str) -> None:
        """Forget a session that nobody goes on with, and what was said in it. A finished one stays, for its class."""
        self._store.judgements.sessions.remove(id)

    def simulate(
        self,
        examples: Example | Sequence[Example] = (),
        *,
        without: Example | Sequence[Example] = (),
        label: str | None = None,
        labels_from: str | Path | None = None,
        space: str | None = None,
        rounds: int = 10,
        window: int = 9,
        filter: Filter | None = None,
    ) -> list[SimulatedRound]:
        """A session with an emulated person who wants the pictures of one label; nothing is kept.

        The label is by default the first example's; without examples, the label's first picture is the example. The
        labels are the collection's, or those of a CSV file or folder as `import_labels` reads them.
        """
        wanted, source = listed(examples), None if labels_from is None else Path(_absolute(labels_from))

        def look() -> list[SimulatedRound]:
            relevant = find_wanted(self._store, wanted, label, source)
            begun = begin(self._store, self._spaces, wanted or relevant[:1].tolist(), listed(without), None, space)
            among = None if filter is None else select(self._store, filter)
            return simulate(self._spaces, begun, relevant, rounds=rounds, window=window, among=among)

        return at_one_moment(self._store, look)

    def duplicates(
        self,
        tier: Tier = "same",
        *,
        space: str | None = None,
        filter: Filter | None = None,
        progress: Progress | None = None,
        workers: int | None = None,
    ) -> list[Group]:
        """Groups of pictures that are there more than once, largest first; nothing is deleted.

        "identical": the same bytes at several paths. "same": the same photo re-encoded, resized or lightly cropped.
        "alike": neighbours nearer than usual in a space, by default `thing`. What `not_duplicates` was told is left
        out. Without a filter the groups are kept until pictures come or go, and need not be made again.
        """
        check_tier(tier)
        among = None if filter is None else select(self._store, filter)
        if tier == "identical":
            return self._told_apart(duplicates.identical(self._store, among))
        if not len(self._store.items):
            return []
        name = duplicates.choose_space(self._spaces, space)
        version = duplicates.version_of(self._store, self._spaces, name, tier)
        if among is None and (known := self.known_duplicates(tier, space=name)) is not None and known[1]:
            return known[0]
        groups = duplicates.find(self._store, self._spaces, tier, name, among, progress or silent, workers)
        if among is None:
            self._store.derived.write("duplicates", tier, name, version=version, value=duplicates.to_json(groups))
        return self._told_apart(groups)

    def known_duplicates(self, tier: Tier = "same", *, space: str | None = None) -> tuple[list[Group], bool] | None:
        """The groups that `duplicates` found last, at once, and whether they still stand; None where it never ran."""
        check_tier(tier)
        if tier == "identical" or not len(self._store.items):
            return self.duplicates(tier), True
        name = duplicates.choose_space(self._spaces, space)
        kept = self._store.derived.read("duplicates", tier, name)
        if kept is None:
            return None
        current = kept.version == duplicates.version_of(self._store, self._spaces, name, tier)
        return self._told_apart(duplicates.from_json(kept.value)), current

    def group_lines(
        self, tier: Tier = "same", format: Literal["json", "csv"] = "json", *, space: str | None = None
    ) -> Iterator[str]:
        """The groups that are known (see `known_duplicates`) as text, piece by piece, with their items."""
        if format not in ("json", "csv"):
            raise UnknownNameError("format", format, ["json", "csv"])
        groups, _ = self.known_duplicates(tier, space=space) or ([], False)
        return export.group_lines(self._grouped(groups), format)

    def _grouped(self, groups: Sequence[Group]) -> Iterator[tuple[Group, list[tuple[Item, list[Saying]]]]]:
        """Groups with their items, and what was said of these; without those that have gone meanwhile."""
        for group in groups:
            items, said = self.get(group.items), self._store.judgements.said(group.items)
            if left := group.among(items):
                yield left, [(item, said.get(item.id, [])) for item in items.values()]

    def not_duplicates(self, items: Sequence[int], *, author: str | None = None) -> int:
        """Say, for good, that these are no duplicates of each other; returns how many pairs that was new of.

        One item alone: that it lies at several paths is as it should be. It outlives the pictures' removal.
        """
        known = self._store.items.get(items)
        if strangers := [format_id(int(item)) for item in items if int(item) not in known]:
            raise InputError(f"Nothing in the collection has the id {strangers[0]}.")
        return self._store.judgements.apart.add(items, author=author or login())

    def map(self, space: str | None = None, *, points: int = POINTS, progress: Progress | None = None) -> Map:
        """Places in a square for at most `points` pictures, so that those that are alike lie together.

        It is kept until the pictures on it or the space change, and need not be drawn again.
        """
        check_points(points)
        name = self._spaces.find(space)
        version = mapping.version_of(self._store, self._spaces, name, points)
        known = self.known_map(name, points=points)
        if known is not None and known[1]:
            return known[0]
        drawn = at_one_moment(
            self._store, lambda: mapping.draw(self._store, self._spaces, name, points, progress or silent)
        )
        self._store.derived.write("map", name, str(points), version=version, value=mapping.to_json(drawn))
        return drawn

    def known_map(self, space: str | None = None, *, points: int = POINTS) -> tuple[Map, bool] | None:
        """The map that was drawn last, at once, and whether it still stands; None where there is none."""
        name = self._spaces.find(space)
        kept = self._store.derived.read("map", name, str(points))
        if kept is None:
            return None
        current = kept.version == mapping.version_of(self._store, self._spaces, name, points)
        return mapping.from_json(name, kept.value), current

    def _told_apart(self, groups: list[Group]) -> list[Group]:
        apart = self._store.judgements.apart.pairs()
        kept = [group.without(apart) for group in groups] if apart else groups
        return [group for group in kept if group is not None]

    def items(self, filter: Filter | None = None) -> Iterator[Item]:
        """Every item, or those that pass the filter, in the order of their ids."""
        ids = select(self._store, filter or Filter()).tolist()
        for start in range(0, len(ids), 1_000):
            yield from self._store.items.get(ids[start : start + 1_000]).values()

    def get(self, ids: Sequence[int]) -> dict[int, Item]:
        """Those of the ids that are items, in the order asked."""
        return self._store.items.get(ids)

    def has(self, ids: Sequence[int]) -> bool:
        """Whether all of these are items."""
        return self._store.items.has(ids)

    def find(self, word: str) -> int | None:
        """The item that an id, or a path that is known, means; None where it means none."""
        item = parse_id(word)
        if item is not None and self._store.items.get([item]):
            return item
        path = _absolute(word)
        seen = self._store.items.seen([path]).get(path)
        return None if seen is None else seen.item

    def page(self, filter: Filter | None = None, *, order: Order = "path", offset: int = 0, limit: int = 200) -> Page:
        """Some of the items that pass the filter, for somebody who scrolls; and how many pass in all."""
        return self._pages.page(filter, order, offset, limit)

    def read(self, item: int | Item, limits: Limits = LIMITS) -> bytes:
        """The bytes of an item's file, the very ones that were added; ImageError where no file holds them now."""
        return read_item(self._store, item, limits)

    def spaces(self) -> list[str]:
        """The names of the spaces that somebody asked for; the first is searched where nobody names one."""
        return self._spaces.recipes()

    def sources(self) -> list[str]:
        """What was added, in the order it was: what `refresh` looks at."""
        return self._store.items.sources()

    def real_sources(self) -> list[str]:
        """Where the sources are now, links followed: to be remembered, and given as `within` later."""
        return [os.path.realpath(root_of(source)) for source in self.sources()]

    def predictions(self, ids: Sequence[int]) -> dict[int, Prediction]:
        """What these items are taken for, where something was predicted and nobody said otherwise."""
        return self._store.judgements.predictions.get(ids)

    def vectors(self, space: str | None = None) -> tuple[Ids, Vectors]:
        """Ids (n,) and vectors (n, d) of a space, or codes (n, bits / 8), in memory, in the order of their ids."""

        def look() -> tuple[Ids, Vectors]:
            name = self._spaces.searched(self._spaces.find(space))
            index: Any = self._spaces.index(name)
            held = index.codes if self._spaces.is_coded(name) else index
            return held.ids, held.vectors(held.ids)

        return at_one_moment(self._store, look)

    def describe(self, pictures: Example | Sequence[Example], *, space: str | None = None) -> Vectors:
        """The vectors (n, d) of pictures, of the collection or not, by a space; nothing is kept."""
        return at_one_moment(
            self._store, lambda: vectors(self._store, self._spaces, self._spaces.find(space), listed(pictures))
        )

    def labels(self, ids: Sequence[int]) -> dict[int, list[str]]:
        """The labels of each of these items, sorted; an empty list where there are none."""
        return self._store.judgements.labels(ids)

    def label_counts(self) -> dict[str, int]:
        """How many items carry each label."""
        return self._store.judgements.label_counts()

    def import_labels(self, source: str | Path, *, author: str = "import") -> LabelReport:
        """Labels from a CSV file (`path,label` or `id,label`) or from a folder with one sub-folder a class."""
        path = Path(_absolute(source))
        pairs, unknown = labels.read(self._store.items, path)
        kind = "folder" if path.is_dir() else "csv"
        spelled = self._store.judgements.classes.spell((label for _, label in pairs), new=True)
        pairs = [(item, spelled[label]) for item, label in pairs]
        self._store.judgements.add_labels(pairs, author=author, source=kind)
        return LabelReport(len(pairs), unknown)

    def skipped(self) -> dict[str, str]:
        """The files that could not be read, with the reason."""
        return self._store.items.skipped()

    def glance(self) -> dict[str, Any]:
        """How many items, labels and classes there are, and the spaces: at once."""
        return at_one_moment(self._store, lambda: glance(self._store, self._spaces))

    def stats(self) -> dict[str, Any]:
        """All that there is to know about the collection in numbers."""
        return at_one_moment(self._store, lambda: stats(self._store, self._spaces, self.classes.all()))

    def speeds(self) -> list[dict[str, Any]]:
        """What a search takes in each space: measured now, and as `lookalike plan` predicts it for this machine."""
        return at_one_moment(self._store, lambda: speeds(self._spaces))

    def verify(self, progress: Progress | None = None) -> list[str]:
        """Read everything back and compare; a sentence for each fault, none where all is well."""
        return verify(self._store, self._spaces, progress or silent)

    def compact(self, progress: Progress | None = None) -> dict[str, int]:
        """Drop what is removed, join small files, give the room back."""
        with self._store.writer(self.wait_s):
            before = self._store.bytes(), self._store.vectors.n_segments()
            for name in self._spaces.all():
                self._store.vectors.merge(name, everything=True, progress=progress)
            settle(self._spaces, self._spaces.recipes(), progress or silent)
            self._store.vacuum()
            self._store.judgements.compact()
            after = self._store.bytes(), self._store.vectors.n_segments()
        return {
            "bytes_before": before[0],
            "bytes_after": after[0],
            "segments_before": before[1],
            "segments_after": after[1],
        }

    def export(
        self,
        target: str | Path | TextIO,
        *,
        format: Literal["json", "csv", "paths", "coco", "npz"] = "json",
        filter: Filter | None = None,
        space: str | None = None,
    ) -> int:
        """Write the items (JSON, CSV, paths, COCO) or the vectors of a space (npz) to a file; returns how many."""
        if format == "npz":
            if not isinstance(target, str | Path):
                raise InputError("Vectors are written to a file: give a path that ends in .npz.")
            ids, X = self.vectors(space)
            keep = np.isin(ids, select(self._store, filter)) if filter is not None else slice(None)
            return export.write_vectors(
                Path(target), ids[keep], X[keep], self._store.items.first_paths(ids[keep].tolist())
            )
        _check_format(format)  # before a file is opened
        if not isinstance(target, str | Path):
            if not hasattr(target, "write"):
                raise InputError(f"Items are written to a path, or to a text file that is open. Got {target!r:.80}.")
            return self._export(target, format, filter)
        with Path(target).open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return self._export(stream, format, filter)

    def lines(
        self,
        format: Literal["json", "csv", "paths", "coco"] = "json",
        *,
        filter: Filter | None = None,
        on_item: Callable[[Item], None] | None = None,
    ) -> Iterator[str]:
        """The text that `export` writes, piece by piece, for whoever sends it on; `on_item` is told of each item."""
        _check_format(format)
        parents: dict[str, list[str]] = {name: [] for name in self._store.judgements.classes.counts()}
        for child, parent in self._store.judgements.classes.parents():
            parents.setdefault(child, []).append(parent)
        return export.lines(self._said(filter, on_item), format, parents)

    def _query(self, space: str | None, wanted: list[Example], unwanted: list[Example]) -> tuple[Query, Any, Chain]:
        name = self._spaces.find(space)
        index = self._spaces.index(self._spaces.searched(name))
        if not len(index) and len(self._store.items):
            raise InputError(f"Space '{name}' has no vectors yet. Run: lookalike refresh")
        return combine(self._store, self._spaces, name, wanted, unwanted), index, self._spaces.chain(name)

    def _export(self, stream: TextIO, format: Any, filter: Filter | None) -> int:
        written: list[int] = []
        for text in self.lines(format, filter=filter, on_item=lambda item: written.append(item.id)):
            stream.write(text)
        return len(written)

    def _said(
        self, filter: Filter | None, on_item: Callable[[Item], None] | None
    ) -> Iterator[tuple[Item, list[Saying]]]:
        items = self.items(filter)
        while batch := list(islice(items, 1_000)):
            found = self._store.judgements.said([item.id for item in batch])
            for item in batch:
                if on_item is not None:
                    on_item(item)
                yield item, found.get(item.id, [])

    def _recipes(self, recipes: str | Sequence[str] | None, report: Report) -> list[str]:
        """The spaces that new pictures go into: those asked for, and all that the collection has."""
        own = self._spaces.recipes()
        if recipes is not None or own:
            asked = self._spaces.ensure([recipes] if isinstance(recipes, str) else recipes or [])
        else:
            try:
                asked = self._spaces.ensure(DEFAULT)
            except MissingError as error:
                report.notes.append(f"{error} Until then, the colour feature serves.")
                asked = self._spaces.ensure(FALLBACK)
        return list(dict.fromkeys([*asked, *own]))

    def _ingest(
        self, sources: Sequence[str | Path], names: list[str], report: Report, progress: Progress, workers: int | None
    ) -> set[int]:
        """Read the sources into these spaces; returns the known items that were met at a new path."""
        fitted, failed = fit_features(self._spaces, names, partial(self._entries, sources), progress, workers)
        report.notes += [
            f"{feature} was fitted on {n:,} pictures only. When there are more, run: lookalike fit --features"
            for feature, n in fitted.items()
            if n < FIT_MIN
        ]
        for feature, reason in failed.items():
            what = "to be asked" if feature_takes_labels(feature) else "for more pictures"
            report.notes.append(f"{feature} waits {what}: {reason}")
        chains = {name: self._spaces.chain(name) for name in names}
        chains = {name: chain for name, chain in chains.items() if chain.specs[0] not in failed}
        if not chains:
            raise InputError(next(iter(failed.values())))
        run = Ingest(self._store, chains, self._spaces.side(), report)
        run.run(sources, progress, workers, self._allowed())
        settle(self._spaces, names, progress)
        return run.again

    @contextmanager
    def _classified(self, report: Report, progress: Progress) -> Iterator[None]:
        """What this block adds is classified, where there are classes; what goes wrong with that is a note."""
        watched = self.classes.watch()
        yield
        if not watched:
            return
        try:
            report.predicted, report.none = self.classes.predict_new(progress)
        except InputError as error:
            report.notes.append(f"New pictures were not classified: {error}")

    def _entries(self, sources: Sequence[str | Path]) -> Iterator[Entry]:
        """What these sources hold, and all others that are there; none is looked at before somebody asks."""
        known = [source for source in self._store.items.sources() if has_files(source)]
        yield from walk([*sources, *known], on_skip=ignore, within=self._allowed())

    def _allowed(self) -> Within:
        """The folders that may be read. A source counts as it is written: where it is a link, that allows nothing."""
        if self._within is None:
            return None
        return [*self._within, *map(root_of, self._store.items.sources())]

    def _fit_features_anew(self, names: list[str], progress: Progress, workers: int | None) -> dict[str, int]:
        """New vocabularies for the features of these spaces, and their rows anew; the spaces that stand on them.

        Nothing is lost of pictures whose source is away: it is refused.
        """
        sources = self._store.items.sources()
        for source in sources:
            if not has_files(source) or problem(self._store, source):
                raise SourceError(f"{source} is not there: its pictures would lose their vectors. Is its disk mounted?")
        entries = partial(walk, sources, on_skip=ignore, within=self._allowed())
        fitted, failed = fit_features(self._spaces, names, entries, progress, workers, anew=True)
        if failed:
            raise InputError(next(iter(failed.values())))
        self._ingest(sources, self._spaces.recipes(), Report(), progress, workers)
        bases = {name: self._spaces.all()[name].chain[0] for name in self._spaces.recipes()}
        return {name: fitted[base] for name, base in bases.items() if base in fitted}

    @contextmanager
    def _tried_spaces(self) -> Iterator[None]:
        """Spaces that are made in this block go again where it fails."""
        known = set(self._spaces.recipes())
        try:
            yield
        except BaseException:
            for name in set(self._spaces.recipes()) - known:
                self.remove_space(name)
            raise

    def _negatives(self, name: str, source: str | Path | None, progress: Progress, workers: int | None) -> Pool | None:
        """The pool for a space, from outside, where one is wanted."""
        if source is None:
            return None
        chain = self._spaces.chain(name)
        if not any(takes_negatives(spec) for spec in chain.specs[1:]):
            raise InputError(f"Space '{name}' has no use for negatives: its chain is {' | '.join(chain.specs)}.")
        return read_negatives(_absolute(source), chain, progress, workers)

    def _resolve(self, which: Sequence[int | str | Path]) -> tuple[set[int], list[str]]:
        """The ids and the known paths that these words mean; InputError for one that means nothing."""
        ids: set[int] = set()
        paths: list[str] = []
        for word in which:
            item = word if isinstance(word, int) else parse_id(str(word))
            if item is not None and self._store.items.get([item]):
                ids.add(item)
                continue
            path = _absolute(str(word))
            under = [] if isinstance(word, int) else [known for known, _ in self._store.items.paths_under(path)]
            if not under and path not in self._store.items.sources():
                raise InputError(f"Nothing in the collection is named {str(word)!r}.")
            paths += under
        return ids, paths


def _check_format(format: str) -> None:
    if format not in ("json", "csv", "paths", "coco"):
        raise UnknownNameError("format", format, ["json", "csv", "paths", "coco", "npz"])


def _absolute(source: str | Path) -> str:
    if not isinstance(source, str | Path):
        raise InputError(f"A path must be text or a Path. Got {source!r:.80}.")
    return os.path.abspath(os.path.expanduser(source))
