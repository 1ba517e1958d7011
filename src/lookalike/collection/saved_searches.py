"""Saved searches: run them again, and find the new results.

An example in the collection is stored as its id. Any other one, such as another file or a part of a picture, is stored
as the vector of its feature, so neither its file nor an upload is needed again. New results are those that were added
to the collection after the user last looked at the search.
"""

import base64
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

import numpy as np

from lookalike.collection.likelihood import check_cutoff
from lookalike.collection.resolve import (
    Crop,
    Example,
    as_list,
    as_texts,
    check_vector,
    example_name,
    is_vector,
    item_of,
    vectors,
)
from lookalike.collection.searching import Results
from lookalike.collection.sessions import login
from lookalike.collection.space import Space, Spaces
from lookalike.errors import FormatError, InputError
from lookalike.limits import check_count
from lookalike.store.items import Filter
from lookalike.store.saved_searches import StoredSearch, StoredSearches
from lookalike.text import many
from lookalike.types import Box, Vectors, check_box, format_id, parse_id


@dataclass(frozen=True, slots=True)
class SavedExample:
    """An example of a saved search: a picture in the collection, or a vector."""

    item: int | None  # the picture, or that of which it is a part; it may have been removed
    box: Box | None  # the part of the picture; None for the whole picture
    name: str | None  # of an example that was not in the collection, for display
    vector: Vectors | None = field(default=None, repr=False, compare=False)  # (d,); None if the id is enough
    feature: str | None = None  # the feature that computed the vector; None for a vector of the space itself


@dataclass(frozen=True, slots=True)
class SavedQuery:
    """The parameters of `Collection.search` that a saved search repeats."""

    positive: list[SavedExample]
    words: list[str]
    negative: list[SavedExample]
    without_words: list[str]
    space: str | None
    filter: Filter | None
    k: int
    within: float | None
    likely: float | None
    rerank: bool

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions of the filter that are set, by name."""
        values = {} if self.filter is None else asdict(self.filter)
        return {
            one.name: values[one.name] for one in fields(Filter) if values.get(one.name, one.default) != one.default
        }

    @property
    def summary(self) -> str:
        """What it searches for, in a few words.

        >>> filter = Filter(label="park", since=1e9, min_side=800)
        >>> SavedQuery([], ["dog"], [], ["cat"], None, filter, 50, None, 0.8, False).summary
        '“dog”, not “cat”; label park; since 2001-09-09; min side 800; the 50 best; at least 80 % likely'
        """
        wanted = [f"“{text}”" for text in self.words]
        wanted += [many(len(self.positive), "picture")] if self.positive else []
        wanted += [f"not “{text}”" for text in self.without_words]
        wanted += [f"not {many(len(self.negative), 'picture')}"] if self.negative else []
        parts = [", ".join(wanted), *(_describe(*pair) for pair in self.conditions.items() if pair[0] != "relative")]
        parts.append(f"the {self.k:,} best")
        parts += [] if self.within is None else [f"score up to {self.within:g}"]
        parts += [] if self.likely is None else [f"at least {100 * self.likely:g} % likely"]
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A saved search."""

    id: str
    name: str
    author: str
    query: SavedQuery
    created_at: float  # POSIX seconds
    seen_at: float  # when its author last looked at the results
    newest: float  # results that were added to the collection after this time are new


@dataclass(frozen=True, slots=True)
class SavedRun:
    """The results of a saved search."""

    search: SavedSearch
    results: Results
    new: list[int]  # the results that are new, best first
    newest: float  # the time up to which added pictures were searched, for `SavedSearches.mark_seen`
    notes: list[str]  # about examples that were left out


class SavedSearches:
    """The saved searches of a collection. Every user sees all of them. `id` can also be the name of a search.

    Parameters
    ----------
    spaces : the spaces of the collection.
    search : `Collection.search`.
    """

    def __init__(self, spaces: Spaces, search: Callable[..., Results]):
        self._spaces = spaces
        self._store = spaces.store
        self._search = search

    @property
    def _rows(self) -> StoredSearches:
        return self._store.judgements.saved_searches

    def all(self) -> list[SavedSearch]:
        """All saved searches, ordered by name."""
        return [_read(stored) for stored in self._rows.all()]

    def get(self, id: str) -> SavedSearch:
        """One saved search; raises UnknownNameError if it does not exist."""
        return _read(self._rows.get(id))

    def save(
        self,
        name: str,
        examples: Example | Sequence[Example] = (),
        *,
        words: str | Sequence[str] = (),
        without: Example | Sequence[Example] = (),
        without_words: str | Sequence[str] = (),
        k: int = 20,
        space: str | None = None,
        filter: Filter | None = None,
        within: float | None = None,
        likely: float | None = None,
        rerank: bool = False,
        author: str | None = None,
    ) -> SavedSearch:
        """Save a search under a new name. The parameters are those of `Collection.search`."""
        check_count("k", k)
        check_cutoff(within, likely)

        def read() -> tuple[SavedQuery, float]:
            chosen = self._spaces.find(space)
            query = SavedQuery(
                positive=[_save_example(chosen, example) for example in as_list(examples)],
                words=as_texts(words),
                negative=[_save_example(chosen, example) for example in as_list(without)],
                without_words=as_texts(without_words),
                space=space,
                filter=filter,
                k=int(k),
                within=None if within is None else float(within),
                likely=None if likely is None else float(likely),
                rerank=rerank,
            )
            if not query.positive and not query.words:
                raise InputError("A search needs at least one positive word or picture. Got none.")
            return query, self._store.items.last_added()

        query, newest = self._store.read_consistently(read)
        return self.get(self._rows.add(name, _to_json(query), newest=newest, author=author or login()))

    def run(self, id: str, **options: Any) -> SavedRun:
        """Run a saved search, with further parameters of `Collection.search`, such as `progress`."""
        search = self.get(id)
        query, space = search.query, self._spaces.find(search.query.space)
        newest = self._store.items.last_added()  # before the search, so that nothing is missed
        notes: list[str] = []
        positive, negative = (self._restore(space, given, notes) for given in (query.positive, query.negative))
        if not positive and not query.words:
            raise InputError(
                f"The saved search {search.name!r} has no positive example left: {' '.join(notes)} Delete it: lookalike"
                f" saved delete {search.id}"
            )
        results = self._search(
            positive,
            words=query.words,
            without=negative,
            without_words=query.without_words,
            k=query.k,
            space=query.space,
            filter=query.filter,
            within=query.within,
            likely=query.likely,
            rerank=query.rerank,
            **options,
        )
        new = [found.id for found in results if found.item is not None and found.item.added_at > search.newest]
        return SavedRun(search, results, new, newest, notes)

    def count_new(self, id: str) -> int:
        """The number of new results. Without new pictures in the collection, nothing is searched."""
        return len(self.run(id).new) if self._store.items.last_added() > self.get(id).newest else 0

    def mark_seen(self, id: str, until: float | None = None) -> None:
        """Mark the results of a run whose `newest` is `until` as seen; by default, all results."""
        newest = self._store.items.last_added()
        self._rows.mark_seen(self._rows.get(id).id, newest if until is None else min(until, newest))

    def rename(self, id: str, name: str) -> SavedSearch:
        """Rename a saved search; its id stays the same."""
        search = self.get(id)
        self._rows.rename(search.id, name)
        return self.get(search.id)

    def remove(self, *ids: str) -> None:
        """Remove saved searches; if one of them does not exist, none is removed."""
        for search in [self._rows.get(name).id for name in ids]:
            self._rows.remove(search)

    def _restore(self, space: Space, examples: Sequence[SavedExample], notes: list[str]) -> list[Example]:
        """The examples for `Collection.search`; `notes` gets a sentence for each one that can no longer be used."""
        present = self._store.items.get([one.item for one in examples if one.item is not None])
        restored: list[Example] = []
        for example in examples:
            if example.item in present and example.box is None:
                restored.append(example.item)
            elif example.vector is None:
                notes.append(f"The example {format_id(example.item or 0)} is no longer in the collection.")
            elif example.feature is None and len(example.vector) == space.index.dim:
                restored.append(example.vector)
            elif example.feature == space.feature_version:
                chain, X = space.chain, example.vector[None, :]  # (1, d)
                restored.append((chain.transform(X) if chain.fitted else X)[0])
            elif example.item in present and example.box is not None:
                restored.append(Crop(example.item, example.box))
            else:
                notes.append(f"The example {example.name} is ignored: another feature computed its vector.")
        return restored


def _save_example(space: Space, example: Example) -> SavedExample:
    if is_vector(example):
        return SavedExample(None, None, None, check_vector(example, space.index.dim)[0])
    box = check_box(example.box) if isinstance(example, Crop) else None
    item = item_of(space.store, example.picture if isinstance(example, Crop) else example)
    known = item is not None and bool(space.store.items.get([item]))
    if known and box is None:
        return SavedExample(item, None, None)
    X = vectors(space.feature, [example])  # (1, d)
    return SavedExample(item, box, None if known else example_name(example), X[0], space.feature_version)


def _to_json(query: SavedQuery) -> dict[str, Any]:
    return asdict(query) | {
        "positive": [_example_to_json(example) for example in query.positive],
        "negative": [_example_to_json(example) for example in query.negative],
        "filter": query.conditions,
    }


def _example_to_json(example: SavedExample) -> dict[str, Any]:
    vector = None if example.vector is None else base64.b64encode(np.asarray(example.vector, "<f4").tobytes()).decode()
    item = None if example.item is None else format_id(example.item)
    return {"item": item, "box": example.box, "name": example.name, "vector": vector, "feature": example.feature}


def _describe(name: str, value: Any) -> str:
    """A condition of a filter, in words; times in UTC, like the camera times of pictures."""
    if name in ("since", "until"):
        with suppress(ValueError, OverflowError, OSError):  # a year that `datetime` does not support
            value = f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d}"
    words = name.replace("_", " ")
    return f"{'' if value else 'not '}{words}" if isinstance(value, bool) else f"{words} {value}"


def _read(stored: StoredSearch) -> SavedSearch:
    try:
        query = _from_json(stored.query)
    except (TypeError, ValueError, KeyError) as error:
        raise FormatError(
            f"The saved search {stored.name!r} was written by a newer Lookalike, or is damaged: {error}. Update"
            f" Lookalike, or delete the search: lookalike saved delete {stored.id}"
        ) from None
    times = stored.created_at, stored.seen_at, stored.newest
    return SavedSearch(stored.id, stored.name, stored.author, query, *times)


def _from_json(values: dict[str, Any]) -> SavedQuery:
    conditions: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in (values["filter"] or {}).items()
    }
    return SavedQuery(
        **values
        | {
            "positive": [_example_from_json(example) for example in values["positive"]],
            "negative": [_example_from_json(example) for example in values["negative"]],
            "filter": Filter(**conditions) if conditions else None,
        }
    )


def _example_from_json(values: dict[str, Any]) -> SavedExample:
    item, box, vector = values["item"], values["box"], values["vector"]
    return SavedExample(
        item=None if item is None else parse_id(item),
        box=None if box is None else check_box(box),
        name=values["name"],
        vector=None if vector is None else np.frombuffer(base64.b64decode(vector), "<f4"),
        feature=values["feature"],
    )
