"""Read the text in the pictures of a collection, on request, because it takes about a second per picture.

Texts are stored during the run, even empty ones, so a later run reads only the other pictures.
"""

import time
from collections.abc import Callable, Iterable, Iterator

from lookalike.images.sources import Entry
from lookalike.images.text_reader import SIDE, TextReader
from lookalike.images.workers import Read, ReadPool, Skip, make_batches
from lookalike.store.directory import Store
from lookalike.text import many, printable
from lookalike.types import Progress

LOOKUP_BATCH, LOOKUP_BYTES = 1_000, 256 * 2**20
"""Files looked up in the catalogue at a time, and the limit of their size."""

COMMIT_S = 5.0
"""Seconds after which texts are stored."""

TIMEOUT_S = 120.0
"""CPU time limit per picture."""


def read_texts(
    store: Store,
    reader: TextReader,
    entries: Callable[[], Iterable[Entry]],
    progress: Progress,
    workers: int | None,
) -> list[str]:
    """Read the text in those known pictures among the entries that have not been read; return notes for the user.

    `entries` lists them; it is called twice. If the run is interrupted, the texts that were read are stored.
    """
    unread = set(store.items.without_text().tolist())
    chosen = {item for item, _ in _find(store, entries(), unread)}
    if not chosen:
        return []
    run = _Run(store, chosen)
    try:
        with ReadPool(reader, side=SIDE, workers=workers, timeout_s=TIMEOUT_S) as pool:
            for outcome in pool.map(entry for _, entry in _find(store, entries(), set(chosen))):
                match outcome:
                    case Read():
                        run.keep(outcome.id, outcome.parts)
                    case Skip():
                        run.failed[outcome.entry.path] = outcome.reason
                progress("reading text", run.done, len(chosen))
    finally:
        run.commit()
    progress("reading text", len(chosen), len(chosen))
    return run.describe()


def _find(store: Store, entries: Iterable[Entry], wanted: set[int]) -> Iterator[tuple[int, Entry]]:
    """Yield the wanted items with an entry each, and remove them from `wanted`."""
    for batch in make_batches(iter(entries), LOOKUP_BATCH, LOOKUP_BYTES):
        if not wanted:
            return
        seen = store.items.seen([entry.path for entry in batch])
        for entry in batch:
            item = seen[entry.path].item if entry.path in seen else None
            if item in wanted:
                wanted.remove(item)
                yield item, entry


class _Run:
    """The texts that a run has read."""

    def __init__(self, store: Store, chosen: set[int]):
        self.failed: dict[str, str] = {}
        self._store = store
        self._chosen = chosen
        self._texts: dict[int, str] = {}
        self._read = self._with_text = 0
        self._committed_at = time.monotonic()

    @property
    def done(self) -> int:
        return self._read + len(self.failed)

    def keep(self, item: int, text: str) -> None:
        if item not in self._chosen:  # the file has changed since it was added
            return
        self._texts[item] = text
        self._read += 1
        self._with_text += bool(text)
        if time.monotonic() - self._committed_at > COMMIT_S:
            self.commit()

    def commit(self) -> None:
        if self._texts:
            with self._store.transaction():
                self._store.items.set_texts(self._texts)
        self._texts = {}
        self._committed_at = time.monotonic()

    def describe(self) -> list[str]:
        notes = [f"Read {many(self._read, 'picture')} and found text in {self._with_text:,}."]
        for path, reason in list(self.failed.items())[:1]:
            notes.append(
                f"Text could not be read in {many(len(self.failed), 'picture')}, such as {printable(path)}: {reason}."
                " The next --ocr tries again."
            )
        return notes
