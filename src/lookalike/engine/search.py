"""A search: the pictures of a collection that are most like some examples, and least like others.

In: examples, and which items may be found. Out: results, best first, with the query and the chain they were found by.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from lookalike.engine.chain import Chain
from lookalike.engine.examples import Example, combine
from lookalike.engine.looks import Result, make_result, select
from lookalike.engine.spaces import Spaces
from lookalike.errors import InputError
from lookalike.limits import check_count
from lookalike.store.directory import Store
from lookalike.store.items import Filter
from lookalike.types import Query


class SearchAnswer(NamedTuple):
    """What a search found, and by what."""

    results: list[Result]
    query: Query
    chain: Chain


def search(
    store: Store,
    spaces: Spaces,
    wanted: Sequence[Example],
    unwanted: Sequence[Example],
    *,
    k: int,
    space: str | None,
    filter: Filter | None,
    effort: float | str | None,
) -> SearchAnswer:
    """The k pictures nearest to what the examples make in a space."""
    check_count("k", k)
    name = spaces.find(space)
    index: Any = spaces.index(spaces.searched(name))
    if not len(index) and len(store.items):
        damaged = store.vectors.quarantined(spaces.searched(name))
        command = "lookalike repair" if damaged else "lookalike refresh"
        raise InputError(f"Space '{name}' has no vectors. Run: {command}")
    query, chain = combine(store, spaces, name, list(wanted), list(unwanted)), spaces.chain(name)
    among = None if filter is None else select(store, filter)
    hits = index.search(query, min(k, max(1, len(index))), among=among, effort=effort)
    scores = dict(zip(hits.ids[0].tolist(), hits.scores[0].tolist(), strict=True))
    items = store.items.get([item for item in scores if item >= 0])
    return SearchAnswer([make_result(item, scores[item.id]) for item in items.values()], query, chain)
