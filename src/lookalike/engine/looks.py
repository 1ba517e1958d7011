"""Looking at a collection: at one moment, through a filter, as results.

In: a store and something to look at. Out: what was seen, all of it from the same state of the store.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from lookalike.engine.relative_paths import matcher, relative_to
from lookalike.errors import InputError, StoreError
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item
from lookalike.types import Box, Ids

T = TypeVar("T")

TRIES = 5
"""How often a reader looks again when a writer has changed the collection under it."""

BATCH = 1_000
"""Items that are read from the catalogue at a time."""


@dataclass(frozen=True, slots=True)
class Result:
    """One picture that a search found."""

    id: int
    path: str | None
    score: float  # smaller is better: a squared distance, 0 for the same picture; in a session minus how far it is in
    box: Box | None = None  # the part of the picture that is most like what was looked for, where that was asked
    item: Item | None = field(default=None, repr=False, compare=False)  # what the catalogue said of it


def make_result(item: Item, score: float) -> Result:
    """A picture that was found."""
    return Result(item.id, next(iter(item.paths), None), score, item=item)


def at_one_moment(store: Store, look: Callable[[], T]) -> T:
    """What `look` sees of the store while nobody changes it: a refit between two looks would mix two spaces."""
    for _ in range(TRIES):
        version = store.vectors.version()  # as it is: a look within a look has to notice, too
        try:
            with store.at_version(version):
                seen = look()
        except StoreError:
            if store.vectors.version() == version:
                raise
            continue
        if store.vectors.version() == version:
            return seen
    return look()


def items_of(store: Store, filter: Filter | None) -> Iterator[Item]:
    """Every item, or those that pass the filter, in the order of their ids."""
    ids = select(store, filter or Filter()).tolist()
    for start in range(0, len(ids), BATCH):
        yield from store.items.get(ids[start : start + BATCH]).values()


def select(store: Store, filter: Filter) -> Ids:
    """The items that pass a filter, ascending."""
    if not isinstance(filter, Filter):
        raise InputError(f"filter must be a Filter, such as Filter(label='beach'). Got {filter!r:.80}.")
    ids = store.items.select(filter)
    if filter.path is not None and filter.relative:
        ids = _match_relative(store, ids, filter.path)
    if filter.label is None:
        return ids
    label = store.judgements.classes.canonical_names([filter.label])[filter.label]
    return np.intersect1d(ids, store.judgements.items_with(label), assume_unique=True)


def _match_relative(store: Store, ids: Ids, pattern: str) -> Ids:
    """Those of the ids that `Items.select` found with a path that also matches relative to its source."""
    relative, matches = relative_to(store.items.sources()), matcher(pattern)
    return np.unique(
        np.array([item for item, path in store.items.paths_of(ids.tolist()) if matches(relative(path))], np.int64)
    )
