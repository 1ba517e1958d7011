"""`Collection`: the application in one class, where algorithms and storage meet.

In: folders of pictures, and pictures to look for. Out: results, reports, files. The command line and the service
call this class and nothing below it.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TextIO

from lookalike.engine import calibration, export
from lookalike.engine import map as mapping
from lookalike.engine.calibration import CalibrationReport
from lookalike.engine.class_model import Settings
from lookalike.engine.classes import Classes, ClassSummary, ClassView, Predicted, Verdict
from lookalike.engine.compression import StepQuality, score_steps
from lookalike.engine.duplicates import Group, Tier
from lookalike.engine.evaluation import Evaluation
from lookalike.engine.examples import Crop, Example, listed, vectors
from lookalike.engine.explain import Push, explain, pooled
from lookalike.engine.feedback import Finished, Round, Session, login, rehearse, start_session
from lookalike.engine.guesses import Guess
from lookalike.engine.ingest import Report
from lookalike.engine.intake import Intake
from lookalike.engine.kept_groups import find_groups, known_groups, with_items
from lookalike.engine.labels import LabelReport, import_labels
from lookalike.engine.looks import Result, at_one_moment, items_of, select
from lookalike.engine.map import POINTS, Map
from lookalike.engine.marks import begin
from lookalike.engine.negatives import read_negatives
from lookalike.engine.pages import Page, Pages, read_item
from lookalike.engine.presence import ignore, root_of
from lookalike.engine.refit import refit, tried_spaces
from lookalike.engine.relative_paths import relative_to
from lookalike.engine.repair import RepairReport, repair
from lookalike.engine.search import SearchAnswer, search
from lookalike.engine.simulate import SimulatedRound, find_wanted, simulate
from lookalike.engine.space_fit import ensure_fit, extend_space, fit_space
from lookalike.engine.space_settle import settle
from lookalike.engine.spaces import Spaces
from lookalike.engine.stats import glance, speeds, stats
from lookalike.engine.upkeep import compact, verify, verify_pictures
from lookalike.engine.where import with_boxes
from lookalike.engine.why import Why
from lookalike.engine.words import absolute, find_item, resolve
from lookalike.errors import InputError, UnknownNameError
from lookalike.images.files import LIMITS, Limits
from lookalike.images.sources import walk
from lookalike.index.flat import Flat
from lookalike.store.backup import BackupReport, make_backup, restore_backup
from lookalike.store.classes import Prediction
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item, Order
from lookalike.store.sessions import Summary
from lookalike.types import Ids, Progress, Vectors, format_id, parse_id, silent

__all__ = [
    "BackupReport", "CalibrationReport", "ClassSummary", "ClassView", "Classes", "Collection", "Crop", "Evaluation",
    "Filter", "Finished", "Group", "Guess", "Item", "LabelReport", "Map", "Order", "Page", "Predicted", "Prediction",
    "Push", "RepairReport", "Report", "Result", "Round", "Session", "Settings", "SimulatedRound", "StepQuality",
    "Summary", "Tier", "Verdict", "Why", "format_id", "login", "parse_id",
]  # fmt: skip


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
        self.path = Path(absolute(path))
        self.wait_s = wait_s
        self._store = Store(self.path, create=create)
        self._spaces = Spaces(self._store)
        self._pages = Pages(self._store)
        self.classes = Classes(self._store, self._spaces)
        folders = None if within is None else [str(folder) for folder in within]
        self._intake = Intake(self._store, self._spaces, self.classes, folders)

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
        started = time.monotonic()
        paths = [absolute(source) for source in sources]
        walk(paths, on_skip=ignore)  # refuses what does not exist, before anything is remembered
        with self._store.writer(self.wait_s):
            report = self._intake.add(paths, recipes, progress or silent, workers)
        report.seconds = time.monotonic() - started
        return report

    def refresh(self, *roots: str | Path, progress: Progress | None = None, workers: int | None = None) -> Report:
        """Look again at what was added: new, changed, moved and gone files. Default: everything ever added.

        A source that is not there, or has become empty, is left alone and named in the notes: a disk that is not
        mounted must not cost the collection its pictures.
        """
        started = time.monotonic()
        paths = [absolute(root) for root in roots]
        self._intake.check_added(paths)
        with self._store.writer(self.wait_s):
            report = self._intake.refresh(paths, progress or silent, workers)
        report.seconds = time.monotonic() - started
        return report

    def remove_space(self, name: str) -> None:
        """Take a space out, with its vectors and what was fitted for it; its feature's too, where no other needs them.

        The pictures stay, and so does what people said about them.
        """
        with self._store.writer(self.wait_s):
            self._store.free_space(partial(self._spaces.remove, name))

    def remove(self, *which: int | str | Path, filter: Filter | None = None) -> int:
        """Take items out: by id or path (a folder means all below it), or by filter. Their files stay where they are.

        What people said about them stays too, and counts again if the same picture comes back.
        """
        if bool(which) == (filter is not None):
            raise InputError("Say what to remove by ids and paths or by a filter, one of the two.")
        with self._store.writer(self.wait_s):
            ids, paths = resolve(self._store.items, which)
            if filter is not None:
                ids.update(select(self._store, filter).tolist())

            def forget() -> int:
                with self._store.transaction():
                    for word in which:
                        self._store.items.remove_source(absolute(str(word)))
                    return self._store.remove(ids | set(self._store.items.unlink(paths)))

            return self._store.free_space(forget)

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
        with self._store.writer(self.wait_s), tried_spaces(self._spaces):
            return refit(
                self._spaces,
                self._intake,
                spaces,
                features=features,
                labels=bool(labels),
                negatives=negatives,
                progress=progress or silent,
                workers=workers,
            )

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
            more = read_negatives(self._spaces, name, source, progress or silent, workers)
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
            with tried_spaces(self._spaces):
                name = ensure_fit(self._spaces, space, calibration.GRID)
                pool = None if negatives is None else read_negatives(self._spaces, name, negatives, report, workers)
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
        wanted, unwanted = listed(examples), listed(without)

        def look() -> SearchAnswer:
            return search(self._store, self._spaces, wanted, unwanted, k=k, space=space, filter=filter, effort=effort)

        found = at_one_moment(self._store, look)
        if not where:
            return found.results
        return with_boxes(self._store, self._spaces.side(), found.results, found.query, found.chain, progress or silent)

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

    def rehearse(self, space: str | None = None) -> None:
        """Load what many searches are quicker with, and what the first round of feedback would have to wait for.

        A service does, before anybody asks. All collections of the process are searched so from then on.
        """
        Flat.compile()
        at_one_moment(self._store, lambda: rehearse(self._spaces, space))

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
        wanted, source = listed(examples), None if labels_from is None else Path(absolute(labels_from))

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
        return find_groups(
            self._store,
            self._spaces,
            tier,
            space=space,
            filter=filter,
            progress=progress or silent,
            workers=workers,
        )

    def known_duplicates(self, tier: Tier = "same", *, space: str | None = None) -> tuple[list[Group], bool] | None:
        """The groups that `duplicates` found last, at once, and whether they still stand; None where it never ran."""
        return known_groups(self._store, self._spaces, tier, space)

    def group_lines(
        self,
        tier: Tier = "same",
        format: Literal["json", "csv"] = "json",
        *,
        space: str | None = None,
        relative: bool = False,
    ) -> Iterator[str]:
        """The known groups (see `known_duplicates`) as text, piece by piece, with their items; see also `lines`."""
        if format not in ("json", "csv"):
            raise UnknownNameError("format", format, ["json", "csv"])
        groups, _ = self.known_duplicates(tier, space=space) or ([], False)
        found: Iterator[tuple[Group, Sequence[export.Row]]] = with_items(self._store, groups)
        if relative:
            make = partial(export.relative_row, self.relative_paths())
            found = ((group, list(map(make, rows))) for group, rows in found)
        return export.group_lines(found, format)

    def not_duplicates(self, items: Sequence[int], *, author: str | None = None) -> int:
        """Say, for good, that these are no duplicates of each other; returns how many pairs that was new of.

        One item alone: that it lies at several paths is as it should be. It outlives the pictures' removal.
        """
        known = self._store.items.get(items)
        if strangers := [format_id(int(item)) for item in items if int(item) not in known]:
            raise InputError(f"Nothing in the collection has the id {strangers[0]}.")
        return self._store.judgements.not_duplicates.add(items, author=author or login())

    def map(self, space: str | None = None, *, points: int = POINTS, progress: Progress | None = None) -> Map:
        """Places in a square for at most `points` pictures, so that those that are alike lie together.

        It is kept until the pictures on it or the space change, and need not be drawn again.
        """
        return mapping.make(self._store, self._spaces, space, points, progress or silent)

    def known_map(self, space: str | None = None, *, points: int = POINTS) -> tuple[Map, bool] | None:
        """The map that was drawn last, at once, and whether it still stands; None where there is none."""
        return mapping.read_kept(self._store, self._spaces, space, points)

    def items(self, filter: Filter | None = None) -> Iterator[Item]:
        """Every item, or those that pass the filter, in the order of their ids."""
        return items_of(self._store, filter)

    def get(self, ids: Sequence[int]) -> dict[int, Item]:
        """Those of the ids that are items, in the order asked."""
        return self._store.items.get(ids)

    def has(self, ids: Sequence[int]) -> bool:
        """Whether all of these are items."""
        return self._store.items.has(ids)

    def find(self, word: str) -> int | None:
        """The item that an id, or a path that is known, means; None where it means none."""
        return find_item(self._store.items, word)

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

    def relative_paths(self) -> Callable[[str], str]:
        """Return a function that makes a path relative to its source: /home/me/Pictures/a.jpg becomes Pictures/a.jpg.

        Of a path outside of all sources, such as one from a list of files, only the last name is left.
        """
        return relative_to(self.sources())

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
        return import_labels(self._store, Path(absolute(source)), author)

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

    def verify(self, progress: Progress | None = None, *, pictures: bool = False) -> list[str]:
        """Read every file of the collection and compare it with its digest; returns a sentence for each fault.

        `pictures`: also read the original pictures, and report those that are missing or have changed.
        """
        faults = verify(self._store, self._spaces, progress or silent)
        return [*faults, *verify_pictures(self._store, progress or silent)] if pictures else faults

    repair = staticmethod(repair)

    def check_open_files(self) -> list[str]:
        """Quarantine segments whose files were changed or truncated after this process opened them; returns the files.

        Long-running processes should call this often; it is cheap. Reading a truncated file ends the process.
        """
        if not self._store.vectors.find_changed():
            return []
        with self._store.writer():
            return self._store.vectors.quarantine_changed()

    def compact(self, progress: Progress | None = None) -> dict[str, int]:
        """Drop what is removed, join small files, give the room back."""
        with self._store.writer(self.wait_s):
            return self._store.free_space(partial(compact, self._store, self._spaces, progress or silent))

    def backup(self, target: str | Path, progress: Progress | None = None) -> BackupReport:
        """Make or update a backup of the collection in the directory `target`; other processes may write meanwhile.

        Files that the backup already has are not copied again; every file is read back and compared with its digest.
        """
        return make_backup(self.path, Path(absolute(target)), progress or silent)

    @staticmethod
    def restore(backup: str | Path, target: str | Path, progress: Progress | None = None) -> BackupReport:
        """Make a new collection at `target` from a backup; every file is compared with its digest."""
        return restore_backup(Path(absolute(backup)), Path(absolute(target)), progress or silent)

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
            return export.write_vectors(self._store, target, partial(self.vectors, space), filter)
        return export.write_items(self._store, target, format, filter)

    def lines(
        self,
        format: Literal["json", "csv", "paths", "coco"] = "json",
        *,
        filter: Filter | None = None,
        on_item: Callable[[Item], None] | None = None,
        relative: bool = False,
    ) -> Iterator[str]:
        """The text that `export` writes, piece by piece; with `relative`, with paths as `relative_paths` returns them.

        `on_item` is called with each item.
        """
        return export.item_lines(self._store, format, filter, on_item, relative=relative)
