"""Adding pictures: list files, read those that are new or changed, extract their features, commit.

`Adding` has the operations: `add`, `refresh`, and extracting features again. `_Ingest` does one run over some sources:
a pool reads files, recognizes known pictures and extracts the features of the others; memory is bounded, and each
commit is final. Callers hold the writer lock.
"""

import queue
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain as concatenate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookalike.collection.chain import Chain, Prepare
from lookalike.collection.classes import Classes
from lookalike.collection.fitting import FIT_MIN, fit_features, update_spaces
from lookalike.collection.neighbours import load_graph, update_smoothed
from lookalike.collection.other_files import OtherFiles
from lookalike.collection.picture_text import read_texts
from lookalike.collection.space import Space, Spaces
from lookalike.collection.specs import feature_takes_labels
from lookalike.collection.watching import find_files
from lookalike.errors import (
    ClusterError,
    DamagedError,
    FormatError,
    InputError,
    MissingError,
    SourceError,
    StoreError,
)
from lookalike.images.sources import (
    DELETED,
    Entry,
    OnOtherFile,
    OnSkip,
    Within,
    describe_url,
    exists,
    folder_has_files,
    has_files,
    ignore,
    is_missing,
    is_under,
    is_url,
    locate,
    root_of,
    split_member,
    walk,
)
from lookalike.images.text_reader import TextReader
from lookalike.images.workers import Known, Outcome, Read, Skip
from lookalike.limits import collect_fewer
from lookalike.recipes import DEFAULT, FALLBACK
from lookalike.registry import create
from lookalike.scaled_rows import Rows, ScaledRows
from lookalike.store.directory import Store
from lookalike.store.items import Item, Seen
from lookalike.store.vectors import Pending
from lookalike.text import many
from lookalike.types import Ids, Progress, format_id

LIST_AHEAD = 100_000
"""Files listed ahead of reading; limits memory. The total of a smaller add is known early."""

CARRY_BYTES = 256 * 2**20
"""Bytes of archive members listed ahead of reading (members of compressed archives carry their bytes). Above it,
members are listed one at a time."""

LOOKUP_BATCH = 1_000
"""Files looked up in the catalogue at a time."""

KNOWN_IDS = 100_000
"""Maximum number of ids that the files of one lookup are compared with. If more pictures have the sizes of these files,
the features of some known pictures are extracted again, and discarded."""

REPORTED_FILES = 100
"""Maximum number of files that a report lists by name."""

UNKNOWN = -1, -1
"""Size and modification time of a skipped file that another attempt may be able to read."""

COMMIT_ROWS = 2_048
COMMIT_BYTES = 128 * 2**20
COMMIT_S = 5.0
"""Limits of one commit, whichever is reached first: pictures, bytes of their vectors, seconds since the last."""


@dataclass
class Report:
    """The result of an add or a refresh: what happened to the files."""

    added: int = 0  # new pictures
    known: int = 0  # unchanged since the last add
    copied: int = 0  # known pictures at an additional path
    moved: int = 0  # known pictures at a new path, whose old file is missing
    changed: int = 0  # files at a known path with a new picture
    gone: int = 0  # files that no longer exist
    skipped: dict[str, str] = field(default_factory=dict)  # path → why the file cannot be read; newly skipped files
    known_skipped: dict[str, str] = field(default_factory=dict)  # the same, for files that an earlier run skipped
    other_types: dict[str, int] = field(default_factory=dict)  # extension → number of files that are not read
    files: dict[str, str] = field(default_factory=dict)  # path → "added", "copied" or "changed"; at most REPORTED_FILES
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    predicted: dict[str, int] = field(default_factory=dict)  # new pictures with a predicted class, by class
    none: int = 0  # new pictures that match no class

    @property
    def has_changes(self) -> bool:
        """Whether a file was added, changed, moved, missing or newly skipped."""
        return bool(self.added or self.copied or self.moved or self.changed or self.gone or self.skipped)


class Adding:
    """Operations that add pictures to one collection.

    `within` lists folders that links inside a source may point into, in addition to the sources; None: anywhere.
    """

    def __init__(self, spaces: Spaces, classes: Classes, within: Sequence[str] | None):
        self._store = spaces.store
        self._spaces = spaces
        self._classes = classes
        self._within = within

    def add(
        self, paths: Sequence[str], recipes: str | Sequence[str] | None, progress: Progress, workers: int | None
    ) -> Report:
        """Record these sources, and add their pictures."""
        report = Report()
        spaces = self._create_spaces(recipes, report)
        with self._store.transaction():
            for path in paths:
                self._store.items.add_source(path)
        with self._classifying(report, progress):
            self._ingest(paths, spaces, report, progress, workers)
        return report

    def refresh(self, roots: Sequence[str], progress: Progress, workers: int | None) -> Report:
        """Check these sources, or all if none is given, for new, changed, moved and missing files."""
        report, known = Report(), self._store.items.sources()
        sources = list(roots) or known
        known = [source for source in known if not is_url(source) or any(is_under(source, one) for one in sources)]
        if any(map(is_url, known)):
            progress("connecting", 0, None)
        absent = {source: why for source in {*sources, *known} if (why := _find_problem(self._store, source))}
        report.notes += [absent[source] for source in sources if source in absent]
        if roots and report.notes:
            raise SourceError(report.notes[0])
        present = [source for source in sources if source not in absent]
        listed = [source for source in present if has_files(source)]
        present = [source for source in present if source in listed or not is_url(source)]
        copied_items, at_urls = set[int](), set[str]()
        if listed:
            with self._classifying(report, progress):
                spaces = self._create_spaces(None, report)
                run = self._ingest(listed, spaces, report, progress, workers, complete=True)
                copied_items, at_urls = run.copied_items, run.at_urls
        _remove_missing(self._store, present, list(absent), copied_items, at_urls, report)
        if report.gone:
            update_smoothed(self._spaces, progress)
        return report

    def refresh_files(self, paths: Sequence[str], progress: Progress, workers: int | None) -> Report:
        """Check these files and folders, which can be new, changed or missing; they are inside of sources."""
        report = Report()
        local = [source for source in self._store.items.sources() if not is_url(source)]
        absent = [source for source in local if _find_problem(self._store, source)]
        present = [path for path in paths if not any(is_under(path, root_of(source)) for source in absent)]
        found = [path for path in find_files(present) if has_files(path)]
        copied_items = set[int]()
        if found:
            with self._classifying(report, progress):
                spaces = self._create_spaces(None, report)
                copied_items = self._ingest(found, spaces, report, progress, workers).copied_items
        _remove_missing(self._store, present, absent, copied_items, set(), report)
        if report.gone:
            update_smoothed(self._spaces, progress)
        return report

    def read_texts(
        self, reader: TextReader, sources: Sequence[str], progress: Progress, workers: int | None
    ) -> list[str]:
        """Read the text in the pictures of these sources, or of all if none is given; see `picture_text.read_texts`."""
        present = [source for source in sources or self._store.items.sources() if has_files(source)]
        entries = partial(walk, present, on_skip=ignore, within=self._allowed())
        return read_texts(self._store, reader, entries, progress, workers)

    def check_added(self, roots: Sequence[str]) -> None:
        """Raise SourceError for a path that was never added and is not inside an added one."""
        known = self._store.items.sources()
        for root in roots:
            if root not in known and next(self._store.items.paths_under(root), None) is None:
                raise SourceError(f"{root} was never added. Run: lookalike add {root}")

    def refit_features(self, progress: Progress, workers: int | None, spaces: Sequence[Space]) -> dict[str, int]:
        """Refit the features of these spaces, and extract the features of every picture again.

        Returns all spaces that use these features, with the number of pictures that each feature was fitted on. Raises
        SourceError if a source is missing, because its pictures would lose their vectors.
        """
        sources = self._store.items.sources()
        for source in sources:
            if not has_files(source) or _find_problem(self._store, source):
                raise SourceError(
                    f"Cannot refit the features: {source} is missing, so its pictures would lose their vectors. Is"
                    " its disk mounted?"
                )
        entries = partial(walk, sources, on_skip=ignore, within=self._allowed())
        fitted, failed = fit_features(spaces, entries, progress, workers, refit=True)
        if failed:
            raise InputError(next(iter(failed.values())))
        self._ingest(sources, list(self._spaces), Report(), progress, workers)
        return {space.name: fitted[space.specs[0]] for space in self._spaces if space.specs[0] in fitted}

    def describe_missing(self, progress: Progress, workers: int | None) -> int:
        """Compute the missing vectors of the spaces' features; return the number of pictures that now have one."""
        features = [space.feature.name for space in self._spaces if not space.is_imported]
        self._spaces.create_kinds()
        kinds = self._spaces.kinds
        names = {*features, *([] if kinds is None else [kinds.name])}
        missing = self._missing(names)
        paths = [path for item in self._store.items.get(sorted(missing)).values() for path in item.paths]
        sources = sorted({split_member(path)[0] for path in paths if exists(path)})
        if not sources:
            return 0
        self._ingest(sources, list(self._spaces), Report(), progress, workers, complete=True)
        return len(missing - self._missing(names))

    def _missing(self, names: Iterable[str]) -> set[int]:
        return {int(item) for name in names for item in self._store.vectors.missing(name)}

    def _create_spaces(self, recipes: str | Sequence[str] | None, report: Report) -> list[Space]:
        """The spaces that new pictures are added to: those of these recipes, and all existing ones."""
        existing = list(self._spaces)
        if recipes is not None or existing:
            requested = self._spaces.create([recipes] if isinstance(recipes, str) else recipes or [])
        else:
            try:
                requested = self._spaces.create(DEFAULT)
            except MissingError as error:
                report.notes.append(f"Lookalike uses the colour feature for now. {error}")
                requested = self._spaces.create(FALLBACK)
        return list(dict.fromkeys([*requested, *existing]))

    def _ingest(
        self,
        sources: Sequence[str],
        spaces: list[Space],
        report: Report,
        progress: Progress,
        workers: int | None,
        *,
        complete: bool = False,
    ) -> "_Ingest":
        """Read the sources into these spaces; return the run.

        With `complete`, known pictures without kinds or metadata are read again; those without vectors always are.
        """
        with collect_fewer() as fewer:
            fitted, failed = fit_features(spaces, partial(self._entries, sources), progress, workers)
        report.notes += fewer
        report.notes += [
            f"{feature} was fitted on only {many(n, 'picture')}. When you have more, run: lookalike fit --features"
            for feature, n in fitted.items()
            if n < FIT_MIN
        ]
        for feature, reason in failed.items():
            report.notes.append(reason if feature_takes_labels(feature) else f"{feature} is not fitted yet: {reason}")
        usable = [space for space in spaces if space.specs[0] not in failed and not space.is_imported]
        if not usable:
            raise InputError(next(iter(failed.values()), "All spaces have imported vectors. Add one: --recipe NAME."))
        chains = self._intact_chains(usable, report)
        smoothed = {space.smoothed_name: space for space in usable if space.has_smoothed_rows}
        in_graph = cache(lambda name: load_graph(smoothed[name]).ids if name in smoothed else np.empty(0, np.int64))
        run = _Ingest(self._spaces, chains, report, in_graph, complete=complete)
        run.run(sources, progress, workers, self._allowed())
        if report.added:
            report.notes += filter(None, map(_lacking_import, dict.fromkeys(space.feature for space in spaces)))
        if run.recognized:
            report.notes.append(f"The kinds of {many(run.recognized, 'known picture')} were recognized, for words.")
        if run.metadata_read:
            report.notes.append(
                f"The camera data of {many(run.metadata_read, 'known picture')} was read, for filters and facets."
            )
        to_update = [space for space in spaces if space not in usable or space.name in chains]
        update_spaces(to_update, progress, report.notes)
        return run

    def _intact_chains(self, spaces: Sequence[Space], report: Report) -> dict[str, Chain]:
        """The chains of the stored rows of these spaces, without spaces whose feature is damaged.

        A damaged model counts as not fitted.
        """
        chains, damage = {}, {}
        for space in spaces:
            try:
                chains[space.name] = space.intact_chain()
                if space.has_smoothed_rows:  # new pictures can be found before their rows are smoothed
                    chains[space.smoothed_name] = chains[space.name]
            except StoreError as error:
                damage[space.name] = error
        if not chains:
            raise next(iter(damage.values()))
        report.notes += [f"No pictures were added to space '{name}': {error}" for name, error in damage.items()]
        return chains

    @contextmanager
    def _classifying(self, report: Report, progress: Progress) -> Iterator[None]:
        """Predict the classes of the pictures that this block adds, if there are classes; errors become notes."""
        try:
            enabled = self._classes.watch()
        except (DamagedError, FormatError) as error:
            report.notes.append(f"New pictures were not classified: {error}")
            enabled = False
        yield
        if not enabled:
            return
        try:
            report.predicted, report.none = self._classes.predict_new(progress)
        except (InputError, DamagedError, FormatError) as error:
            report.notes.append(f"New pictures were not classified: {error}")

    def _entries(self, sources: Sequence[str]) -> Iterator[Entry]:
        """The entries of these sources, then those of all other sources that exist; listed only when iterated."""
        known = [source for source in self._store.items.sources() if has_files(source)]
        yield from walk([*sources, *known], on_skip=ignore, within=self._allowed())

    def _allowed(self) -> Within:
        """The folders that links may point into. If a source is a link, its target is not allowed."""
        if self._within is None:
            return None
        return [*self._within, *map(root_of, self._store.items.sources())]


def _find_problem(store: Store, source: str) -> str | None:
    """Why a source cannot be refreshed; None if it can. If all its files are missing, its disk is probably too."""
    root = root_of(source)
    known = store.items.paths_under(root)
    first = None if is_url(root) else next(known, None)
    if is_url(root):
        found = describe_url(root)
        if found is None:
            return None
        problem = found
    elif not exists(root):
        problem = f"{source} does not exist."
    elif first is not None and not any(exists(path) for path, _ in concatenate([first], known)):
        problem = f"All known files of {source} are missing. Is its disk mounted?"
    else:
        return None
    return f"{problem} Its pictures were kept. To remove them, run: lookalike remove {source}"


def _remove_missing(
    store: Store,
    sources: Sequence[str],
    absent: Sequence[str],
    copied_items: set[int],
    at_urls: Container[str],
    report: Report,
) -> None:
    """Remove the paths of these sources whose file no longer exists, and items without any path.

    Paths are kept in doubtful cases: files of an absent source inside this one, members of an archive that is being
    written, files of a list whose folder is missing or empty. `at_urls` are the URLs that were listed.
    """
    listed, problems = store.items.seen(list(report.skipped)), report.skipped | report.known_skipped
    known = {path: seen for path, seen in listed.items() if folder_has_files(path)}
    for source in sources:
        known.update(store.items.paths_under(root_of(source)))
    absent_roots = [root_of(source) for source in absent]
    unlisted_urls = [path for path, reason in problems.items() if is_url(path) and reason != DELETED]
    missing = []
    for path, seen in known.items():
        archive, member = split_member(path)
        kept = (member and archive in problems) or any(is_under(path, root) for root in absent_roots)
        if seen.item is None and path in problems:  # such as a broken link
            kept = True
        if is_url(path):
            is_gone = path not in at_urls and not any(is_under(path, url) for url in unlisted_urls)
        else:
            is_gone = not kept and is_missing(path, seen.mtime_ns)
        if is_gone and not kept:
            missing.append(path)
    with store.transaction():
        store.remove(store.items.unlink(missing))
    for path in missing:
        report.skipped.pop(path, None)
        if known[path].item in copied_items:  # it was moved
            copied_items.discard(known[path].item or 0)
            report.copied -= 1
            report.moved += 1
        else:
            report.gone += 1


class _Ingest:
    """One run over some sources.

    Parameters
    ----------
    spaces : the collection's spaces.
    chains : the chain of each set of rows that new pictures are added to, by the name of a stored space.
    report : receives counts and skipped files.
    in_graph : returns the items in the neighbour graph of a set of smoothed rows, none for other rows. If such an item
        has lost its smoothed row, `update_smoothed` must compute it again, so no row is added here.
    complete : whether known pictures without kinds or metadata are read again.
    """

    def __init__(
        self,
        spaces: Spaces,
        chains: dict[str, Chain],
        report: Report,
        in_graph: Callable[[str], Ids],
        *,
        complete: bool,
    ):
        self.spaces = spaces
        self.store = spaces.store
        self.in_graph = in_graph
        self.chains = chains
        self.report = report
        self.features = {chain.specs[0]: chain.feature for chain in chains.values()}
        self.rows: list[Read | Known] = []
        self.rows_bytes = 0
        self.skips: list[tuple[str, int, int, str]] = []
        self.unlisted: dict[str, str] = {}  # files and folders that cannot be listed, with reasons
        self.others = OtherFiles()
        kinds = spaces.kinds
        self.kinds = kinds if kinds is not None and kinds.base in self.features else None
        self.recognized = 0  # known pictures whose kinds were recognized
        required = [*self.features, *([self.kinds.name] if complete and self.kinds is not None else [])]
        self.undescribed = {int(item) for name in required for item in self.store.vectors.missing(name)}
        self.without_exif = set(self.store.items.without_exif().tolist() if complete else [])
        self.metadata_read = 0  # known pictures whose metadata was read
        self.copied_items: set[int] = set()  # known items that were found at a new path
        self.at_urls: set[str] = set()  # files at URLs that were listed
        self.to_read_again: list[str] = []  # files whose known item was removed before they were linked
        self.done = 0
        self.committed_at = time.monotonic()

    def run(
        self, sources: Sequence[str | Path], progress: Progress, workers: int | None, within: Within = None
    ) -> None:
        """Add all pictures of the sources; links are followed only into `within`, if given."""
        listing = _Listing(sources, self.unlisted.__setitem__, self.others.count, within)
        try:
            unread = self._unread(listing, progress)
            first = next(unread, None)
            if first is not None:
                recognizer = None if self.kinds is None else self.features[self.kinds.chain[0]]
                prepare = Prepare(list(self.features.values()), recognizer)
                with self.spaces.executor.describe_pool(prepare, self.spaces.read_side(), workers) as pool:
                    for outcome in pool.map(concatenate([first], unread)):
                        self._handle(outcome)
                        progress("reading", self.done, listing.total)
                    self._commit()
                    for outcome in pool.map(filter(None, map(locate, self.to_read_again))):
                        self._handle(outcome)
        except (KeyboardInterrupt, ClusterError):
            self._commit()  # the next add reads the pictures that have no features yet
            raise
        finally:
            listing.close()
        self.at_urls = listing.urls
        self._skip_unlisted()
        self._commit()
        self._forget_solved(sources)
        self.report.other_types = self.others.totals()
        self.others.save(self.store, map(str, sources))
        progress("reading", self.done, self.done)

    def _unread(self, entries: Iterable[Entry], progress: Progress) -> Iterator[Entry]:
        """Yield the entries that must be read, with the ids of the pictures that they can be; count the others."""
        entries = iter(entries)
        while batch := _next_batch(entries):
            seen = self.store.items.seen([entry.path for entry in batch])
            unread = [entry for entry in batch if not self._unchanged(entry, seen.get(entry.path))]
            known = self.store.items.ids_by_size({entry.size for entry in unread}, KNOWN_IDS)
            if self.undescribed:
                known = {size: self._described(ids) for size, ids in known.items()}
            self.done += len(batch) - len(unread)
            yield from (replace(entry, known=known.get(entry.size)) for entry in unread)
            progress("reading", self.done, None)

    def _described(self, ids: Ids) -> Ids:
        """Those of these items that have all vectors."""
        return np.array([item for item in ids.tolist() if item not in self.undescribed], np.int64)

    def _unchanged(self, entry: Entry, before: Seen | None) -> bool:
        if before is None or (before.size, before.mtime_ns) != (entry.size, entry.mtime_ns):
            return False
        if before.item is None:
            self.report.known_skipped[entry.path] = before.reason or ""
            return True
        unchanged = before.item not in self.undescribed and before.item not in self.without_exif
        self.report.known += unchanged
        return unchanged

    def _handle(self, outcome: Outcome) -> None:
        self.done += 1
        if isinstance(outcome, Skip):
            entry, before = outcome.entry, self.store.items.seen([outcome.entry.path]).get(outcome.entry.path)
            # Without a size, the file never counts as unchanged, so the next add tries it again.
            size, mtime_ns = (entry.size, entry.mtime_ns) if outcome.lasting else UNKNOWN
            self._report_skip(entry.path, outcome.reason, (size, mtime_ns), before)
            if outcome.lasting or before is None or before.item is None:
                self.skips.append((entry.path, size, mtime_ns, outcome.reason))
        else:
            self.rows.append(outcome)
            if isinstance(outcome, Read):
                self.rows_bytes += sum(row.nbytes for row in outcome.parts)
        overdue = time.monotonic() - self.committed_at > COMMIT_S
        if overdue or len(self.rows) >= COMMIT_ROWS or self.rows_bytes >= COMMIT_BYTES:
            self._commit()

    def _commit(self) -> None:
        """Add all files that were read to the collection, in one transaction."""
        self.committed_at = time.monotonic()
        if not (self.rows or self.skips):
            return
        existing = self.store.items.get(list({row.id for row in self.rows}))
        self._drop_removed(existing)
        self._skip_collisions(existing)
        reads = {row.id: row for row in self.rows if isinstance(row, Read)}  # the same picture twice is one item
        to_write = {item: read for item, read in reads.items() if item not in existing or item in self.undescribed}
        pendings = [*self._write(to_write), *self._write_kinds(to_write, existing)]
        before = self.store.items.seen([row.entry.path for row in self.rows])
        counted = set(existing)
        for row in self.rows:
            self._count(row.entry.path, row.id, before.get(row.entry.path), new=row.id not in counted)
            counted.add(row.id)
        links = [(row.entry.path, row.entry.size, row.entry.mtime_ns, row.id) for row in self.rows]
        with self.store.transaction():
            self.store.items.add([_item(read) for item, read in reads.items() if item not in existing])
            self.store.items.set_exif({row.id: row.exif for row in self.rows})
            pathless = [*self.store.items.link(links), *self.store.items.skip(self.skips)]
            for pending in pendings:
                self.store.vectors.commit(pending)
            self.store.remove(pathless)  # a changed file is a new item; no file has the old content
        self.undescribed.difference_update(to_write)
        completed = self.without_exif.intersection(counted)
        self.metadata_read += len(completed)
        self.without_exif -= completed
        self.rows, self.rows_bytes, self.skips = [], 0, []
        for space in {*self.features, *self.chains, *([] if self.kinds is None else [self.kinds.name])}:
            self.store.vectors.merge(space)

    def _drop_removed(self, existing: dict[int, Item]) -> None:
        """Drop known pictures that an earlier commit has removed, because their last file had changed."""
        removed = [row.entry.path for row in self.rows if isinstance(row, Known) and row.id not in existing]
        if removed:
            self.to_read_again += removed
            self.done -= len(removed)
            self.rows = [row for row in self.rows if isinstance(row, Read) or row.id in existing]

    def _skip_collisions(self, existing: dict[int, Item]) -> None:
        """Skip files that have the id of another file, known or read earlier, but different bytes."""
        contents = {item: known.content for item, known in existing.items()}
        kept = []
        for row in self.rows:
            expected = contents.setdefault(row.id, row.content)
            if expected is None or expected == row.content:
                kept.append(row)
                continue
            reason = f"the id {format_id(row.id)} belongs to a different picture (a hash collision); re-encode this one"
            self.report.skipped[row.entry.path] = reason
            self.skips.append((row.entry.path, row.entry.size, row.entry.mtime_ns, reason))
        self.rows = kept

    def _write(self, reads: dict[int, Read]) -> list[Pending]:
        """Write segments for every space; a commit makes them part of the collection."""
        if not reads:
            return []
        ids = np.array(list(reads), np.int64)
        pendings = []
        for i, spec in enumerate(self.features):
            X = np.stack([read.parts[i] for read in reads.values()])  # (n, d)
            lacks_vector = np.isin(ids, self.store.vectors.live_ids(spec), invert=True)
            if not lacks_vector.any():
                continue
            own_chains = {name: chain for name, chain in self.chains.items() if chain.specs[0] == spec}
            searched = any(len(chain.specs) == 1 for chain in own_chains.values())
            # Scaled bytes are precise enough if no space searches the feature: fits and transforms tolerate rounding.
            stored: Rows = X[lacks_vector] if searched else ScaledRows.encode(X[lacks_vector])
            pendings.append(self.store.vectors.write(spec, ids[lacks_vector], stored))
            for name, chain in own_chains.items():
                if len(chain.specs) > 1 and chain.fitted:
                    lacks_row = self._lack_row(name, ids[lacks_vector])
                    if lacks_row.any():
                        pendings.append(
                            self.store.vectors.write(
                                name, ids[lacks_vector][lacks_row], chain.encode(stored[lacks_row].astype(np.float32))
                            )
                        )
        return pendings

    def _write_kinds(self, reads: dict[int, Read], existing: Container[int]) -> list[Pending]:
        """Write a segment with the kinds of those pictures that have none."""
        if self.kinds is None or not reads:
            return []
        ids = np.array(list(reads), np.int64)
        lack = np.isin(ids, self.store.vectors.live_ids(self.kinds.name), invert=True)
        if not lack.any():
            return []
        self.recognized += sum(item in existing for item in ids[lack].tolist())
        rows = np.stack([read.parts[-1] for read in reads.values()])  # (n, 48)
        return [self.store.vectors.write(self.kinds.name, ids[lack], rows[lack])]

    def _lack_row(self, name: str, ids: Ids) -> NDArray[np.bool_]:
        """A mask (n,) of the items that have no row in a space."""
        lack = np.isin(ids, self.in_graph(name), invert=True)
        if self.undescribed.isdisjoint(ids.tolist()):
            return lack
        return lack & np.isin(ids, self.store.vectors.live_ids(name), invert=True)

    def _count(self, path: str, item: int, before: Seen | None, *, new: bool) -> None:
        """Count a file in the report."""
        if before is not None and before.item not in (None, item):
            outcome = "changed"
        elif new:
            outcome = "added"
        elif before is None or before.item is None:
            outcome = "copied"
            self.copied_items.add(item)
        else:
            outcome = "known"
        setattr(self.report, outcome, getattr(self.report, outcome) + 1)
        if outcome != "known" and len(self.report.files) < REPORTED_FILES:
            self.report.files[path] = outcome

    def _report_skip(self, path: str, reason: str, file: tuple[int, int], before: Seen | None) -> None:
        """Report a file of this size and time that cannot be read: as known if an earlier run reported the same."""
        is_known = before == Seen(*file, None, reason)
        (self.report.known_skipped if is_known else self.report.skipped)[path] = reason

    def _skip_unlisted(self) -> None:
        """Report and store the files and folders that cannot be listed."""
        seen = self.store.items.seen(list(self.unlisted))
        for path, reason in self.unlisted.items():
            before = seen.get(path)
            self._report_skip(path, reason, UNKNOWN, before)
            if before is None or before.item is None:
                self.skips.append((path, *UNKNOWN, reason))

    def _forget_solved(self, sources: Sequence[str | Path]) -> None:
        """Remove the skipped files and folders that an earlier run could not list, but this one could."""
        roots = [str(source) for source in sources if is_url(str(source)) or Path(source).is_dir()]
        problems = self.report.skipped.keys() | self.report.known_skipped.keys()
        paths = [
            path
            for path in self.store.items.skipped()
            if path not in problems and any(is_under(path, root) for root in roots)
        ]
        solved = [path for path, seen in self.store.items.seen(paths).items() if (seen.size, seen.mtime_ns) == UNKNOWN]
        if solved:
            with self.store.transaction():
                self.store.items.unlink(solved)


class _Listing:
    """Entries of the sources, listed by a thread ahead of the reader; `total` is set once the listing is complete."""

    def __init__(self, sources: Sequence[str | Path], on_skip: OnSkip, on_other: OnOtherFile, within: Within):
        self.total: int | None = None
        self.urls: set[str] = set()  # files at URLs
        self._queue: queue.Queue[Entry | BaseException | None] = queue.Queue(LIST_AHEAD)
        self._stop = threading.Event()
        self._carried = 0  # bytes of the queued entries: added by the thread, subtracted by the reader
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._list, args=(sources, on_skip, on_other, within), daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Entry]:
        while (entry := self._queue.get()) is not None:
            if isinstance(entry, BaseException):
                raise entry
            self._carry(-len(entry.data or b""))
            yield entry

    def close(self) -> None:
        self._stop.set()
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.05)
            except queue.Empty:
                continue

    def _list(self, sources: Sequence[str | Path], on_skip: OnSkip, on_other: OnOtherFile, within: Within) -> None:
        count = 0
        try:
            for entry in walk(sources, on_skip=on_skip, on_other=on_other, within=within):
                while entry.data is not None and self._carried >= CARRY_BYTES and not self._stop.is_set():
                    time.sleep(0.01)
                if is_url(entry.path):
                    self.urls.add(entry.path)
                self._carry(len(entry.data or b""))
                self._queue.put(entry)
                count += 1
                if self._stop.is_set():
                    return
            self.total = count
            self._queue.put(None)
        except BaseException as error:  # noqa: BLE001 — raised again in the reader's thread
            self._queue.put(error)

    def _carry(self, n_bytes: int) -> None:
        with self._lock:
            self._carried += n_bytes


def _next_batch(entries: Iterator[Entry]) -> list[Entry]:
    """The next entries to look up in one batch: at most LOOKUP_BATCH, fewer if they carry CARRY_BYTES."""
    batch: list[Entry] = []
    carried = 0
    for entry in entries:
        batch.append(entry)
        carried += len(entry.data or b"")
        if len(batch) == LOOKUP_BATCH or carried >= CARRY_BYTES:
            break
    return batch


def _lacking_import(feature: Space) -> str:
    """A note about pictures without a vector of an imported feature; empty if there are none, or for others."""
    n = len(feature.store.vectors.missing(feature.name)) if feature.is_imported else 0
    if not n:
        return ""
    name = create("feature", feature.name).name
    have = "has" if n == 1 else "have"
    return (
        f"{many(n, 'picture')} {have} no vector in space '{name}', whose vectors are imported. To import them:"
        f" lookalike import FILE --space {name}"
    )


def _item(read: Read) -> Item:
    return Item(
        read.id, [], read.entry.size, read.width, read.height, read.format, time.time(), read.taken_at, read.content
    )
