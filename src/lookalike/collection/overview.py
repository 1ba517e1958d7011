"""Overview of a collection: pages of items, the map, counts, sizes and measured speeds."""

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lookalike.collection.classes import ClassSummary
from lookalike.collection.fitting import fit_summary, fitted_on_which
from lookalike.collection.other_files import stored_totals
from lookalike.collection.planning import measure, search_seconds
from lookalike.collection.resolve import select
from lookalike.collection.space import Space, Spaces
from lookalike.errors import InputError
from lookalike.limits import check_count
from lookalike.registry import parse
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item, Order
from lookalike.types import Ids, Progress, Vectors, format_id, parse_id

POINTS = 5_000
"""Maximum number of pictures on a map; computing it takes about 20 seconds on one core."""

COMPONENTS = 32
"""Principal components that t-SNE uses: enough to find the neighbours, but still fast."""

PERPLEXITY = 30.0
"""Perplexity of t-SNE: about the number of neighbours that attract a picture."""

STEPS = 500
"""Iterations of t-SNE; more would change little."""

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
                ids = self._ordered(order)
                if ids is not None:
                    if filter is not None:
                        ids = ids[np.isin(ids, select(self._store, filter), assume_unique=True)]
                    shown = ids[offset : offset + limit].tolist()
                    return Page(len(ids), offset, list(self._store.items.get(shown).values()))

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


@dataclass(frozen=True, slots=True)
class Map:
    """Positions of pictures: `x` and `y` (n,) float32 in 0 … 1, of `ids` (n,)."""

    space: str
    ids: Ids
    x: Vectors
    y: Vectors
    total: int  # pictures in the space, of which these are a sample


def make_map(space: Space, points: int, progress: Progress) -> Map:
    """Compute the map of a space, with similar pictures close together, or read it from the cache if it is current.

    Principal components, then t-SNE (van der Maaten and Hinton, JMLR 2008; Barnes-Hut: van der Maaten, JMLR 2014). The
    pictures are those with the smallest ids. Ids are digests, so this is a random sample that changes little over time.
    """
    check_count("points", points)
    if points > POINTS:
        raise InputError(f"points must be at most {POINTS:,}. Got {points:,}.")
    key = _map_key(space, points)
    cached = known_map(space, points)
    if cached is not None and cached[1]:
        return cached[0]

    def draw() -> Map:
        all_ids = space.row_ids()
        ids = all_ids[:points]
        progress("drawing a map", 0, None)
        positions = lay_out(space.rows.vectors(ids)) if len(ids) else np.empty((0, 2), np.float32)  # (n, 2)
        return Map(space.name, ids, positions[:, 0], positions[:, 1], len(all_ids))

    drawn = space.store.read_consistently(draw)
    value = {
        "ids": [format_id(item) for item in drawn.ids.tolist()],
        "x": [round(position, 5) for position in drawn.x.tolist()],
        "y": [round(position, 5) for position in drawn.y.tolist()],
        "total": drawn.total,
    }
    space.store.derived.write("map", space.name, str(points), version=key, value=value)
    return drawn


def known_map(space: Space, points: int) -> tuple[Map, bool] | None:
    """The cached map, and whether it is up to date; None if there is none."""
    cached = space.store.derived.read("map", space.name, str(points))
    if cached is None:
        return None
    value = cached.value
    ids = np.array([parse_id(item) for item in value["ids"]], np.int64)
    x, y = np.array(value["x"], np.float32), np.array(value["y"], np.float32)
    return Map(space.name, ids, x, y, int(value["total"])), cached.version == _map_key(space, points)


def lay_out(X: Vectors) -> Vectors:
    """Compute positions (n, 2) in the unit square for rows (n, d); the same rows always get the same positions.

    >>> lay_out(np.eye(3, 8, dtype=np.float32)).shape
    (3, 2)
    """
    from sklearn.decomposition import PCA  # half a second to load
    from sklearn.manifold import TSNE

    if len(X) < 3:
        return np.linspace(0.25, 0.75, len(X), dtype=np.float32)[:, None].repeat(2, axis=1)
    with threadpool_limits(1):  # one thread, so that sums have a fixed order
        if not (X - X[0]).any():
            return np.full((len(X), 2), 0.5, np.float32)
        n_components = min(COMPONENTS, *X.shape)
        rows = PCA(n_components, random_state=0, svd_solver="covariance_eigh").fit_transform(
            X.astype(np.float64)
        )  # (n, n_components)
        start = rows[:, :2] / rows[:, 0].std() * 1e-4
        if start.shape[1] < 2:
            start = np.hstack([start, np.zeros_like(start)])
        perplexity = min(PERPLEXITY, (len(X) - 1) / 3)
        layout = TSNE(2, perplexity=perplexity, init=start, max_iter=STEPS, random_state=0, n_jobs=1).fit_transform(
            rows
        )
    low, high = layout.min(axis=0), layout.max(axis=0)
    positions: Vectors = ((layout - low) / np.maximum(high - low, 1e-9)).astype(np.float32)
    return positions


def glance(spaces: Spaces) -> dict[str, Any]:
    """Counts, and an entry for each space; fast at any size."""
    store = spaces.store
    return {
        "items": len(store.items),
        "labels": len(store.judgements),
        "classes": len(store.judgements.classes.counts()),
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


def _map_key(space: Space, points: int) -> str:
    return space.cache_key(COMPONENTS, PERPLEXITY, STEPS, first=points)


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
        "smoothed": space.has_smoothed_rows,
        "neighbour_recall": space.neighbour_recall,
    }
