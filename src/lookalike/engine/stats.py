"""A collection at a glance.

In: a store, its spaces and classes. Out: numbers by name, as the command line and the service show them.
"""

import statistics
import time
from collections.abc import Sequence
from typing import Any

from lookalike.engine.classes import ClassSummary
from lookalike.engine.machine import measure
from lookalike.engine.plan import search_seconds
from lookalike.engine.space_sample import fitted_which
from lookalike.engine.spaces import Spaces
from lookalike.registry import parse
from lookalike.store.directory import Store

K, ASKED = 10, 9
"""How many are looked for, and how often, where a search is timed."""


def glance(store: Store, spaces: Spaces) -> dict[str, Any]:
    """Counts, and a row for each space that somebody asked for: what costs a few queries, however much there is."""
    known, searched = spaces.all(), {name: spaces.searched(name) for name in spaces.recipes()}
    return {
        "items": len(store.items),
        "labels": len(store.judgements),
        "classes": len(store.judgements.classes.counts()),
        "spaces": [
            {"name": name, "chain": known[name].chain, "dim": known[held].dim, "rows": store.vectors.rows(held)}
            for name, held in searched.items()
        ],
    }


def stats(store: Store, spaces: Spaces, classes: Sequence[ClassSummary]) -> dict[str, Any]:
    """The same, with bytes, fits, indexes and predictions: walks the directory."""
    vectors, known, told = store.vectors, spaces.all(), glance(store, spaces)
    rows = []
    for row in told["spaces"]:
        name = row["name"]
        space, searched = known[name], spaces.searched(name)
        coded = spaces.is_coded(name)
        state = "ready" if len(space.chain) == 1 else "fitted" if space.model is not None else "raw"
        rows.append(
            row
            | {
                "bits": 8 * (row["dim"] or 0) if coded else None,
                "state": state,
                "fitted_on": space.fitted_on,
                "fitted_which": fitted_which(spaces, name),
                "feature_fitted_on": known[space.chain[0]].fitted_on,
                "bytes": vectors.bytes(searched),
                "bytes_per_picture": vectors.row_bytes(searched),
                "index": getattr(spaces.index(searched), "kind", "flat"),
                "index_recall": spaces.recall(searched),
            }
        )
    return told | {
        "path": str(store.path),
        "paths": store.items.n_paths(),
        "skipped": len(store.items.skipped()),
        "predictions": sum(one.predicted for one in classes),
        "bytes": store.bytes(),
        "quarantined": [f"vectors/{file}" for name in known for file in vectors.quarantined(name)],
        "spaces": rows,
        "index": {row["name"]: row["index"] for row in rows},
    }


def speeds(spaces: Spaces) -> list[dict[str, Any]]:
    """What a search takes in each space that has rows, measured, and beside it what `plan` predicts for this machine.

    By pictures of the collection: describing another one is not counted, nor is the first search, which reads what the
    others find in memory.
    """
    machine = measure()
    rows = []
    for name in spaces.recipes():
        searched = spaces.searched(name)
        index, chain = spaces.index(searched), spaces.chain(name)
        n = len(index)
        if not n:
            continue
        ids = index.ids[:: max(1, n // ASKED)][:ASKED]
        queries = [chain.query(index.vectors(ids[i : i + 1])) for i in range(len(ids))]
        times = []
        for query in [queries[0], *queries]:
            start = time.perf_counter()
            index.search(query, min(n, K))  # type: ignore[arg-type]
            times.append(time.perf_counter() - start)
        coder = parse(chain.specs[-1]).name if spaces.is_coded(name) else None
        kind = getattr(index, "kind", "flat") if coder is None else "pq" if coder == "pq" else "itq"
        width = (spaces.all()[searched].dim if coder else index.dim) or 1
        rows.append(
            {
                "name": name,
                "rows": n,
                "index": getattr(index, "kind", "flat"),
                "search_ms": 1e3 * statistics.median(times[1:]),
                "predicted_ms": 1e3 * search_seconds(kind, n, width, machine),
            }
        )
    return rows
