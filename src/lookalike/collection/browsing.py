"""Browsing: the number of pictures for each value of a facet, for each month, and in each folder."""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from lookalike.collection.resolve import select
from lookalike.images.sources import SEPARATOR, relative_to, split_member
from lookalike.store.directory import Store
from lookalike.store.items import NO_MONTH, Columns, Filter
from lookalike.types import Ids

FACETS = ("year", "camera", "lens", "place", "orientation", "file_format", "label", "labelled", "suggested")
"""The conditions of a `Filter` whose values are counted."""

Mask: TypeAlias = npt.NDArray[np.bool_]
T = TypeVar("T")
Counts: TypeAlias = dict[Any, int]
"""Number of pictures by value."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder or an archive. `path` is relative to the source and is the value of `Filter.folder`."""

    path: str
    name: str
    items: int  # number of items that pass the filter, at any depth
    has_folders: bool


Tree: TypeAlias = dict[tuple[str, ...], Ids]
"""The items directly in each folder, by the parts of its path: ("Pictures", "/", "old.zip", "::", "1999")."""


class _Cached(Generic[T]):
    """A cached value that is read again when the catalogue has changed."""

    def __init__(self, store: Store):
        self._store = store
        self._lock = threading.Lock()
        self._cached: tuple[int, T] | None = None  # with the version of the catalogue

    def get(self, read: Callable[[], T]) -> T:
        """The value in the version being read."""
        version = self._store.vectors.version()
        with self._lock:  # after a commit one thread reads, and the others wait for it
            if self._cached is None or self._cached[0] != version:
                self._cached = version, read()
            return self._cached[1]


class Browsing:
    """Counts of the items of a store. Thread-safe.

    The columns and the folders of all items are cached until the catalogue changes.
    """

    def __init__(self, store: Store):
        self._store = store
        self._all_columns: _Cached[Columns] = _Cached(store)
        self._trees: _Cached[Tree] = _Cached(store)

    def facets(self, filter: Filter) -> dict[str, Counts]:
        """For each facet, the number of items per value that pass the other conditions; most first, but newest year."""
        with self._store.reading():
            columns = self._columns()
            passing = self._mask(columns, filter)
            return {name: self._count(columns, name, filter, passing) for name in FACETS}

    def timeline(self, filter: Filter) -> dict[str | None, int]:
        """The number of items of each month, such as "2024-05"; newest first, then None for an unknown time."""
        with self._store.reading():
            columns = self._columns()
            months, counts = np.unique(columns.months[self._mask(columns, filter)], return_counts=True)
        return {
            None if month == NO_MONTH else str(np.datetime64(month, "M")): n
            for month, n in zip(months[::-1].tolist(), counts[::-1].tolist(), strict=True)
        }

    def folders(self, parent: str | None, filter: Filter, *, nested: bool) -> list[Folder]:
        """The folders in a folder, by default the sources; see `Collection.folders`."""
        with self._store.reading():
            columns = self._columns()
            passing = self._mask(columns, replace(filter, folder=None))
            if parent is not None:
                parent = self._relative_folder()(parent.rstrip("/")) if parent.startswith("/") else parent.rstrip("/")
            if parent == "":  # outside all sources
                return []
            above = _split(parent) if parent else ()
            below: dict[tuple[str, ...], list[Ids]] = {}
            have_folders = set()
            for parts, items in self._tree().items():
                if len(parts) > len(above) and parts[: len(above)] == above:
                    first = len(above) + 2 if above else 1
                    for depth in range(first, len(parts) + 1 if nested else first + 1, 2):
                        child = parts[:depth]
                        below.setdefault(child, []).append(items)
                        if len(parts) > depth:
                            have_folders.add(child)
        counts = {child: np.count_nonzero(passing & columns.mask(np.concatenate(ids))) for child, ids in below.items()}
        return [
            Folder("".join(child), child[-1], int(n), child in have_folders)
            for child, n in sorted(counts.items(), key=lambda row: row[0][-1].casefold())
            if n
        ]

    def _relative_folder(self) -> Callable[[str], str]:
        """Return a function that makes a folder relative to its source; "" for a folder outside all sources."""
        relative = relative_to(self._store.items.sources())
        return lambda folder: relative(f"{folder}/x")[: -len("/x")]

    def _tree(self) -> Tree:
        """The folders that contain items themselves, in the version being read."""

        def read() -> Tree:
            folders: dict[str, list[int]] = {}
            for path, item in self._store.items.paths():
                archive, member = split_member(path) if SEPARATOR in path else (path, "")
                folder = archive if member and "/" not in member else path.rpartition("/")[0]
                folders.setdefault(folder, []).append(item)
            relative = self._relative_folder()
            tree: dict[tuple[str, ...], list[int]] = {}
            for folder, items in folders.items():
                if shown := relative(folder):
                    tree.setdefault(_split(shown), []).extend(items)  # two sources can have the same name
            return {parts: np.array(items, np.int64) for parts, items in tree.items()}

        return self._trees.get(read)

    def _columns(self) -> Columns:
        """The columns in the version being read."""
        return self._all_columns.get(self._store.items.columns)

    def _mask(self, columns: Columns, filter: Filter) -> Mask:
        """Which items pass a filter, (n,)."""
        if filter == Filter():
            return np.ones(len(columns.ids), np.bool_)
        return columns.mask(select(self._store, filter))

    def _count(self, columns: Columns, name: str, filter: Filter, passing: Mask) -> Counts:
        """The counts of one facet. `passing`: the items that pass the whole filter."""
        if getattr(filter, name) is not None:
            passing = self._mask(columns, replace(filter, **{name: None}))  # type: ignore[arg-type]
        judgements = self._store.judgements
        if name == "year":
            years, counts = np.unique(columns.months[passing & (columns.months != NO_MONTH)] // 12, return_counts=True)
            return {1970 + year: n for year, n in zip(years[::-1].tolist(), counts[::-1].tolist(), strict=True)}
        if name == "labelled":
            n_labelled = int(np.count_nonzero(passing & columns.mask(judgements.labelled())))
            counts_by_value: Counts = {True: n_labelled, False: int(np.count_nonzero(passing)) - n_labelled}
        elif name in columns.codes:
            values, codes = columns.codes[name]
            numbers = np.bincount(codes[passing] + 1, minlength=len(values) + 1)[1:]  # code -1 is unknown
            counts_by_value = dict(zip(values, numbers.tolist(), strict=True))
        else:
            groups = judgements.items_by_label() if name == "label" else judgements.predictions.items_by_label()
            counts_by_value = {
                label: int(np.count_nonzero(passing & columns.mask(np.asarray(items, np.int64))))
                for label, items in groups.items()
            }
        return dict(sorted(((v, n) for v, n in counts_by_value.items() if n), key=lambda row: (-row[1], str(row[0]))))


def _split(folder: str) -> tuple[str, ...]:
    """Divide the path of a folder into names and separators."""
    return tuple(re.split(f"(/|{SEPARATOR})", folder))
