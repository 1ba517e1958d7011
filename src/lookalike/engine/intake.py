"""Bringing pictures in: what an add, a refresh, and a feature that is fitted anew have in common.

In: sources, and the recipes that somebody asked for. Out: a `Report`, spaces that have settled, and new pictures
classified where there are classes. The files themselves are the work of `ingest`. Needs the writer lock.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from lookalike.engine.chain import Chain
from lookalike.engine.classes import Classes
from lookalike.engine.gone import forget_gone, problem
from lookalike.engine.ingest import Ingest, Report
from lookalike.engine.presence import exists, has_files, ignore, root_of
from lookalike.engine.space_settle import FIT_MIN, settle
from lookalike.engine.spaces import Spaces
from lookalike.engine.specs import feature_takes_labels
from lookalike.engine.vocabulary import fit_features
from lookalike.errors import DamagedError, FormatError, InputError, MissingError, SourceError, StoreError
from lookalike.images.sources import Entry, Within, split_member, walk
from lookalike.recipes import DEFAULT, FALLBACK
from lookalike.store.directory import Store
from lookalike.text import many
from lookalike.types import Progress


class Intake:
    """The way in of one collection.

    `within` are folders that links below a source may lead into, besides the sources themselves; None: anywhere.
    """

    def __init__(self, store: Store, spaces: Spaces, classes: Classes, within: Sequence[str] | None):
        self._store = store
        self._spaces = spaces
        self._classes = classes
        self._within = within

    def add(
        self, paths: Sequence[str], recipes: str | Sequence[str] | None, progress: Progress, workers: int | None
    ) -> Report:
        """Remember these sources, and index what they hold."""
        report = Report()
        names = self._recipes(recipes, report)
        with self._store.transaction():
            for path in paths:
                self._store.items.add_source(path)
        with self._classified(report, progress):
            self._ingest(paths, names, report, progress, workers)
        return report

    def refresh(self, roots: Sequence[str], progress: Progress, workers: int | None) -> Report:
        """Look again at these, or at everything ever added where none is named."""
        report, known = Report(), self._store.items.sources()
        sources = list(roots) or known
        absent = {source: why for source in {*sources, *known} if (why := problem(self._store, source))}
        report.notes += [absent[source] for source in sources if source in absent]
        if roots and report.notes:
            raise SourceError(report.notes[0])
        present = [source for source in sources if source not in absent]
        listed = [source for source in present if has_files(source)]
        again: set[int] = set()
        if listed:
            with self._classified(report, progress):
                again = self._ingest(listed, self._recipes(None, report), report, progress, workers)
        forget_gone(self._store, present, list(absent), again, report)
        return report

    def check_added(self, roots: Sequence[str]) -> None:
        """Refuse what was never added, nor lies below what was."""
        known = self._store.items.sources()
        for root in roots:
            if root not in known and next(self._store.items.paths_under(root), None) is None:
                raise SourceError(f"{root} was never added. Run: lookalike add {root}")

    def fit_features_anew(self, names: Sequence[str], progress: Progress, workers: int | None) -> dict[str, int]:
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
        self, sources: Sequence[str], names: list[str], report: Report, progress: Progress, workers: int | None
    ) -> set[int]:
        """Read the sources into these spaces; returns the known items that were met at a new path."""
        fitted, failed = fit_features(self._spaces, names, partial(self._entries, sources), progress, workers)
        report.notes += [
            f"{feature} was fitted on {many(n, 'picture')} only. When there are more, run: lookalike fit --features"
            for feature, n in fitted.items()
            if n < FIT_MIN
        ]
        for feature, reason in failed.items():
            what = "to be asked" if feature_takes_labels(feature) else "for more pictures"
            report.notes.append(f"{feature} waits {what}: {reason}")
        able = [name for name in names if self._spaces.all()[name].chain[0] not in failed]
        if not able:
            raise InputError(next(iter(failed.values())))
        chains = self._chains(able, report)
        run = Ingest(self._store, chains, self._spaces.side(), report)
        run.run(sources, progress, workers, self._allowed())
        settle(self._spaces, [name for name in names if name not in able or name in chains], progress)
        return run.again

    def _chains(self, names: Sequence[str], report: Report) -> dict[str, Chain]:
        """The chains of these spaces, without spaces whose feature is damaged. A damaged model counts as not fitted."""
        chains, damage = {}, {}
        for name in names:
            try:
                chains[name] = self._spaces.without_damage(name)
            except StoreError as error:
                damage[name] = error
        if not chains:
            raise next(iter(damage.values()))
        report.notes += [f"Space '{name}' got no new pictures: {error}" for name, error in damage.items()]
        return chains

    def describe_missing(self, progress: Progress, workers: int | None) -> int:
        """Describe pictures again that have no vector in the feature of a space; returns how many now have one."""
        vectors, names = self._store.vectors, self._spaces.recipes()
        bases = {self._spaces.all()[name].chain[0] for name in names}
        missing = {int(item) for base in bases for item in vectors.missing(base)}
        paths = [path for item in self._store.items.get(sorted(missing)).values() for path in item.paths]
        sources = sorted({split_member(path)[0] for path in paths if exists(path)})
        if not sources:
            return 0
        self._ingest(sources, names, Report(), progress, workers)
        left = {int(item) for base in bases for item in vectors.missing(base)}
        return len(missing - left)

    @contextmanager
    def _classified(self, report: Report, progress: Progress) -> Iterator[None]:
        """What this block adds is classified, where there are classes; what goes wrong with that is a note."""
        try:
            watched = self._classes.watch()
        except (DamagedError, FormatError) as error:
            report.notes.append(f"New pictures were not classified: {error}")
            watched = False
        yield
        if not watched:
            return
        try:
            report.predicted, report.none = self._classes.predict_new(progress)
        except (InputError, DamagedError, FormatError) as error:
            report.notes.append(f"New pictures were not classified: {error}")

    def _entries(self, sources: Sequence[str]) -> Iterator[Entry]:
        """What these sources hold, and all others that are there; none is looked at before somebody asks."""
        known = [source for source in self._store.items.sources() if has_files(source)]
        yield from walk([*sources, *known], on_skip=ignore, within=self._allowed())

    def _allowed(self) -> Within:
        """The folders that may be read. A source counts as it is written: where it is a link, that allows nothing."""
        if self._within is None:
            return None
        return [*self._within, *map(root_of, self._store.items.sources())]
