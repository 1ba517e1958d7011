"""Overview of a collection: pages of items, counts, sizes and measured speeds."""

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.collection.classes import ClassSummary
from lookalike.collection.fitting import fit_summary, fitted_on_which
from lookalike.collection.other_files import stored_totals
from lookalike.collection.planning import measure, search_seconds
from lookalike.collection.resolve import select
from lookalike.collection.space import Space, Spaces
from lookalike.devices import device_names
from lookalike.limits import check_count
from lookalike.registry import parse
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item, Order
from lookalike.types import Ids

TIMED_K, TIMED_SEARCHES = 10, 9
"""Results per timed search, and number of timed searches."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the items that pass a filter."""

    total: int  # number of items that pass
    offset: int
    items: list[Item]


class Pages:
    """The items of a store, page by page. Thread-safe.

    The order of all items is cached until the catalogue changes, so the next page needs no sorting.
    """

    def __init__(self, store: Store):
        self._store = store
        self._lock = threading.Lock()
        self._orders: dict[Order, tuple[int, Ids]] = {}  # with the version of the catalogue

    def page(self, filter: Filter | None, order: Order, offset: int, limit: int) -> Page:
        """At most `limit` of the items that pass the filter, starting at position `offset`."""
        check_count("offset", offset, 0)
        check_count("limit", limit)

        while True:
            with self._store.reading():
                ids = self._passing(filter, order)
                if ids is not None:
                    shown = ids[offset : offset + limit].tolist()
                    return Page(len(ids), offset, list(self._store.items.get(shown).values()))

    def ids(self, filter: Filter | None, order: Order) -> Ids:
        """The ids of all items that pass the filter, in this order."""
        while True:
            with self._store.reading():
                ids = self._passing(filter, order)
                if ids is not None:
                    return ids

    def _passing(self, filter: Filter | None, order: Order) -> Ids | None:
        """The items that pass the filter, in this order; None if a later version is cached."""
        ids = self._ordered(order)
        if ids is None or filter is None:
            return ids
        return ids[np.isin(ids, select(self._store, filter), assume_unique=True)]

    def _ordered(self, order: Order) -> Ids | None:
        """All items in this order, in the version being read; None if a later version is cached."""
        version = self._store.vectors.version()
        cached = self._orders.get(order)
        if cached is None or cached[0] < version:
            with self._lock:  # after a commit one thread sorts, and the others wait for it
                cached = self._orders.get(order)
                if cached is None or cached[0] < version:
                    cached = self._orders[order] = version, self._store.items.ordered(order)
        return cached[1] if cached[0] == version else None


def glance(spaces: Spaces) -> dict[str, Any]:
    """Counts, and an entry for each space; fast at any size."""
    store = spaces.store
    return {
        "items": len(store.items),
        "labels": len(store.judgements),
        "classes": len(store.judgements.classes.counts()),
        "saved_searches": len(store.judgements.saved_searches),
        "not_indexed": store.items.n_skipped() + sum(stored_totals(store).values()),
        "spaces": [
            {"name": space.name, "chain": space.specs, "dim": space.dim, "rows": len(space)} for space in spaces
        ],
    }


def stats(spaces: Spaces, classes: Sequence[ClassSummary]) -> dict[str, Any]:
    """The result of `glance`, with bytes, fits, indexes and predictions; reads the whole directory."""
    store, counts = spaces.store, glance(spaces)
    rows = [row | _space_stats(spaces.get(row["name"])) for row in counts["spaces"]]
    quarantined = [file for space in spaces.with_features() for file in store.vectors.quarantined(space.name)]
    return counts | {
        "path": str(store.path),
        "device": device_names(spaces.gpu),
        "paths": store.items.n_paths(),
        "skipped": len(store.items.skipped()),
        "other_types": stored_totals(store),
        "predictions": sum(summary.predicted for summary in classes),
        "bytes": store.bytes(),
        "quarantined": [f"vectors/{file}" for file in quarantined],
        "spaces": rows,
        "index": {row["name"]: row["index"] for row in rows},
    }


def speeds(spaces: Spaces) -> list[dict[str, Any]]:
    """Measure the time of a search in each space that has rows, and predict it with `plan` for this machine.

    Queries are pictures in the collection, so no features are extracted. The first search is not timed, because it
    loads the data into memory.
    """
    machine = measure()
    rows = []
    for space in spaces:
        index: Any = space.index
        n = len(index)
        if not n:
            continue
        ids = index.ids[:: max(1, n // TIMED_SEARCHES)][:TIMED_SEARCHES]
        queries = [space.query(index.vectors(ids[i : i + 1])) for i in range(len(ids))]
        times = []
        for query in [queries[0], *queries]:
            start = time.perf_counter()
            index.search(query, min(n, TIMED_K))
            times.append(time.perf_counter() - start)
        coder = parse(space.specs[-1]).name if space.is_coded else None
        kind = getattr(index, "kind", "flat") if coder is None else "pq" if coder == "pq" else "itq"
        width = (space.dim if coder else index.dim) or 1
        rows.append(
            {
                "name": space.name,
                "rows": n,
                "index": getattr(index, "kind", "flat"),
                "search_ms": 1e3 * statistics.median(times[1:]),
                "predicted_ms": 1e3 * search_seconds(kind, n, width, machine),
            }
        )
    return rows


def _space_stats(space: Space) -> dict[str, Any]:
    return {
        "bits": 8 * (space.dim or 0) if space.is_coded else None,
        "state": space.state,
        "fitted_on": space.fitted_on,
        "fitted_which": fitted_on_which(space),
        "fit_summary": fit_summary(space),
        "feature_fitted_on": space.feature.fitted_on,
        "bytes": space.bytes,
        "bytes_per_picture": space.bytes_per_picture,
        "index": getattr(space.index, "kind", "flat"),
        "index_recall": space.recall,
        "feedback_recall": space.feedback_recall,
        "smoothed": space.has_smoothed_rows,
        "neighbour_recall": space.neighbour_recall,
    }
