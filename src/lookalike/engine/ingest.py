"""From files to rows: list, recognise, read, describe, commit.

In: sources (folders, archives, files). Out: items, paths and vectors in the store, a `Report` of what was done.
Reading runs in guarded processes and overlaps with describing; what is in flight is bounded; each commit is a
point that nothing can take back.
"""

import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain as concatenate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.engine.calm import CALM
from lookalike.engine.chain import Chain, Prepare
from lookalike.errors import ImageError
from lookalike.images.decoding import content_id, digest_content
from lookalike.images.files import LIMITS
from lookalike.images.sources import Entry, Within, walk
from lookalike.images.workers import Read, ReadPool, Skip
from lookalike.store.directory import Store
from lookalike.store.items import Item, Seen
from lookalike.types import Ids, Progress, format_id

LIST_AHEAD = 100_000
"""Files listed before the reader has come to them: a bound on memory; below it the total is known early."""

CARRY_BYTES = 256 * 2**20
"""The same in bytes, for members of compressed archives, which carry their bytes; above it, one member at a time."""

LOOKUP = 1_000
"""Files looked up in the catalogue at a time."""

BATCH = 16
"""Pictures described at a time: measured best for the default network on two cores."""

NAMED = 100
"""Files of which a report says, one by one, what became of them."""

COMMIT_ROWS = 2_048
COMMIT_BYTES = 128 * 2**20
COMMIT_S = 5.0
"""A commit every so many pictures, bytes of their vectors or seconds, whichever comes first."""


@dataclass
class Report:
    """What an add or a refresh did with files."""

    added: int = 0  # new pictures
    known: int = 0  # unchanged, not read again
    copied: int = 0  # known pictures at a further path
    moved: int = 0  # known pictures at a new path, the old one gone
    changed: int = 0  # another picture at a known path
    gone: int = 0  # files that are no more
    skipped: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # the first NAMED: path → "added", "copied" or "changed"
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    predicted: dict[str, int] = field(default_factory=dict)  # new pictures that were classified, by class
    none: int = 0  # new pictures that are of no class


class Ingest:
    """One run over some sources. The caller holds the writer lock.

    Parameters
    ----------
    store : where the rows go.
    chains : space → chain, for every space that new pictures get a vector in.
    side : the shorter side that pictures are read at.
    """

    def __init__(self, store: Store, chains: dict[str, Chain], side: int, report: Report):
        self.store = store
        self.chains = chains
        self.side = side
        self.report = report
        self.features = {chain.specs[0]: chain.feature for chain in chains.values()}
        self.prepare = Prepare(list(self.features.values()))
        self.waiting: list[Read] = []
        self.rows: list[tuple[Read, list[NDArray[Any]]]] = []
        self.rows_bytes = 0
        self.links: list[tuple[str, int, int, int]] = []
        self.skips: list[tuple[str, int, int, str]] = []
        self.lacking = {int(item) for base in self.features for item in store.vectors.missing(base)}
        self.again: set[int] = set()  # known items that were met at a new path
        self.done = 0
        self.committed_at = time.monotonic()

    def run(
        self, sources: Sequence[str | Path], progress: Progress, workers: int | None, within: Within = None
    ) -> None:
        """Bring everything the sources hold into the store; links are followed into `within` only, where given."""
        listing = _Listing(sources, self._skip_unlisted, within)
        try:
            fresh = self._unknown(listing, progress)
            first = next(fresh, None)
            if first is not None:
                with CALM, ReadPool(self.prepare, side=self.side, workers=workers) as pool:
                    for result in pool.map(concatenate([first], fresh)):
                        self._take(result)
                        progress("reading", self.done, listing.total)
        except KeyboardInterrupt:
            self.waiting.clear()  # described pictures are worth keeping, the rest is read again
            self._commit()
            raise
        finally:
            listing.close()
        self._describe()
        self._commit()
        progress("reading", self.done, self.done)

    def _unknown(self, entries: Iterable[Entry], progress: Progress) -> Iterator[Entry]:
        """The entries that must be read; the others are accounted for here."""
        entries = iter(entries)
        while batch := _next_batch(entries):
            seen = self.store.items.seen([entry.path for entry in batch])
            sizes = self.store.items.known_sizes({entry.size for entry in batch})
            for entry in batch:
                before = seen.get(entry.path)
                unchanged = before is not None and self._unchanged(entry, before)
                if unchanged or (entry.size in sizes and self._recognised(entry, before)):
                    self.done += 1
                else:
                    yield entry
            progress("reading", self.done, None)

    def _unchanged(self, entry: Entry, before: Seen) -> bool:
        if (before.size, before.mtime_ns) != (entry.size, entry.mtime_ns):
            return False
        if before.item is None:
            self.report.skipped[entry.path] = before.reason or ""
            return True
        self.report.known += before.item not in self.lacking
        return before.item not in self.lacking

    def _recognised(self, entry: Entry, before: Seen | None) -> bool:
        """Whether a file's bytes are those of a known item: a moved or copied file costs a digest, not a decode."""
        try:
            content = digest_content(entry.read(LIMITS))
        except ImageError:
            return False  # the reading process finds out again, and says why
        item = content_id(content)
        known = self.store.items.get([item]).get(item)
        if known is None or item in self.lacking or known.content not in (None, content):
            return False
        self._link(entry, item, before)
        return True

    def _take(self, result: Read | Skip) -> None:
        if isinstance(result, Skip):
            entry = result.entry
            self.report.skipped[entry.path] = result.reason
            self.done += 1
            # Without a size a skip is never taken for unchanged: what was only for now is tried again.
            size, mtime_ns = (entry.size, entry.mtime_ns) if result.lasting else (-1, -1)
            if result.lasting or self._item_at(entry.path) is None:
                self.skips.append((entry.path, size, mtime_ns, result.reason))
        else:
            self.waiting.append(result)
            if len(self.waiting) >= BATCH:
                self._describe()
        late = time.monotonic() - self.committed_at > COMMIT_S
        if late or len(self.rows) >= COMMIT_ROWS or self.rows_bytes >= COMMIT_BYTES:
            self._commit()

    def _describe(self) -> None:
        """Vectors of the waiting pictures, one array a feature."""
        if not self.waiting:
            return
        reads, self.waiting = self.waiting, []
        parts = self.prepare.finish([read.parts for read in reads])
        self.rows.extend((read, [X[i] for X in parts]) for i, read in enumerate(reads))
        self.rows_bytes += sum(X.nbytes for X in parts)
        self.done += len(reads)

    def _commit(self) -> None:
        """Everything described so far becomes part of the collection, at once or not at all."""
        self.committed_at = time.monotonic()
        if not (self.rows or self.links or self.skips):
            return
        have = self.store.items.get(list({read.id for read, _ in self.rows}))
        self._refuse_collisions(have)
        rows = {read.id: (read, parts) for read, parts in self.rows}  # the same picture twice is one item
        wanted = {item: row for item, row in rows.items() if item not in have or item in self.lacking}
        pendings = self._write(wanted)
        before = self.store.items.seen([read.entry.path for read, _ in self.rows])
        counted = set(have)
        for read, _ in self.rows:
            self._link(read.entry, read.id, before.get(read.entry.path), new=read.id not in counted)
            counted.add(read.id)
        with self.store.transaction():
            self.store.items.add([_item(read) for item, (read, _) in rows.items() if item not in have])
            pathless = [*self.store.items.link(self.links), *self.store.items.skip(self.skips)]
            for pending in pendings:
                self.store.vectors.commit(pending)
            self.store.remove(pathless)  # a changed file is a new item: the old content is nowhere any more
        self.lacking.difference_update(wanted)
        self.rows, self.rows_bytes, self.links, self.skips = [], 0, [], []
        for space in {*self.features, *self.chains}:
            self.store.vectors.merge(space)

    def _refuse_collisions(self, have: dict[int, Item]) -> None:
        """Skip files that have the id of another file, known or read earlier, but different bytes."""
        contents = {item: known.content for item, known in have.items()}
        kept = []
        for read, parts in self.rows:
            expected = contents.setdefault(read.id, read.content)
            if expected is None or expected == read.content:
                kept.append((read, parts))
                continue
            reason = f"another picture happens to have the same id, {format_id(read.id)}; re-encode this one to add it"
            self.report.skipped[read.entry.path] = reason
            self.skips.append((read.entry.path, read.entry.size, read.entry.mtime_ns, reason))
        self.rows = kept

    def _write(self, rows: dict[int, tuple[Read, list[NDArray[Any]]]]) -> list[Any]:
        """Segments for every space, on the disk but not yet part of the collection."""
        if not rows:
            return []
        ids = np.array(list(rows), np.int64)
        pendings = []
        for i, spec in enumerate(self.features):
            X = np.stack([parts[i] for _, parts in rows.values()])  # (n, d)
            fresh = np.isin(ids, self.store.vectors.live_ids(spec), invert=True)
            if not fresh.any():
                continue
            mine = {name: chain for name, chain in self.chains.items() if chain.specs[0] == spec}
            searched = any(len(chain.specs) == 1 for chain in mine.values())
            # A base that nobody searches is kept at half precision: it is there to fit and to transform.
            stored: NDArray[Any] = X[fresh] if searched else X[fresh].astype(np.float16)
            pendings.append(self.store.vectors.write(spec, ids[fresh], stored))
            for name, chain in mine.items():
                if len(chain.specs) > 1 and chain.fitted:
                    new = self._without_row(name, ids[fresh])
                    if new.any():
                        pendings.append(self.store.vectors.write(name, ids[fresh][new], chain.store(stored[new])))
        return pendings

    def _without_row(self, name: str, ids: Ids) -> NDArray[np.bool_]:
        """Which of these items have no row in a space. New items have none."""
        if self.lacking.isdisjoint(ids.tolist()):
            return np.ones(len(ids), bool)
        return np.isin(ids, self.store.vectors.live_ids(name), invert=True)

    def _link(self, entry: Entry, item: int, before: Seen | None, *, new: bool = False) -> None:
        self.links.append((entry.path, entry.size, entry.mtime_ns, item))
        if before is not None and before.item not in (None, item):
            outcome = "changed"
        elif new:
            outcome = "added"
        elif before is None or before.item is None:
            outcome = "copied"
            self.again.add(item)
        else:
            outcome = "known"
        setattr(self.report, outcome, getattr(self.report, outcome) + 1)
        if outcome != "known" and len(self.report.files) < NAMED:
            self.report.files[entry.path] = outcome

    def _item_at(self, path: str) -> int | None:
        before = self.store.items.seen([path]).get(path)
        return None if before is None else before.item

    def _skip_unlisted(self, path: str, reason: str) -> None:
        self.report.skipped[path] = reason


class _Listing:
    """Entries of the sources, listed ahead of the reader by a thread; `total` once the listing is complete."""

    def __init__(self, sources: Sequence[str | Path], on_skip: Any, within: Within):
        self.total: int | None = None
        self._queue: queue.Queue[Entry | BaseException | None] = queue.Queue(LIST_AHEAD)
        self._stop = threading.Event()
        self._carried = 0  # bytes of the queue's entries: added by the thread, subtracted by the reader
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._list, args=(sources, on_skip, within), daemon=True)
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

    def _list(self, sources: Sequence[str | Path], on_skip: Any, within: Within) -> None:
        count = 0
        try:
            for entry in walk(sources, on_skip=on_skip, within=within):
                while entry.data is not None and self._carried >= CARRY_BYTES and not self._stop.is_set():
                    time.sleep(0.01)
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
    """The next entries to look up together: at most LOOKUP, fewer if they carry CARRY_BYTES."""
    batch: list[Entry] = []
    carried = 0
    for entry in entries:
        batch.append(entry)
        carried += len(entry.data or b"")
        if len(batch) == LOOKUP or carried >= CARRY_BYTES:
            break
    return batch


def _item(read: Read) -> Item:
    return Item(
        read.id, [], read.entry.size, read.width, read.height, read.format, time.time(), read.taken_at, read.content
    )
