"""A collection at a glance.

In: a store, its spaces and classes. Out: numbers by name, as the command line and the service show them.
"""

from collections.abc import Sequence
from typing import Any

from lookalike.engine.classes import ClassSummary
from lookalike.engine.spaces import Spaces
from lookalike.store.directory import Store


def stats(store: Store, spaces: Spaces, classes: Sequence[ClassSummary]) -> dict[str, Any]:
    """Counts and bytes, and a row for each space that somebody asked for."""
    vectors, known = store.vectors, spaces.all()
    rows = []
    for name in spaces.recipes():
        space, searched = known[name], spaces.searched(name)
        coded = spaces.is_coded(name)
        state = "ready" if len(space.chain) == 1 else "fitted" if space.model is not None else "raw"
        rows.append(
            {
                "name": name,
                "chain": space.chain,
                "dim": known[searched].dim,
                "bits": 8 * (known[searched].dim or 0) if coded else None,
                "rows": vectors.rows(searched),
                "state": state,
                "fitted_on": space.fitted_on,
                "feature_fitted_on": known[space.chain[0]].fitted_on,
                "bytes": vectors.bytes(searched),
                "bytes_per_picture": vectors.row_bytes(searched),
                "index": getattr(spaces.index(searched), "kind", "flat"),
                "index_recall": spaces.recall(searched),
            }
        )
    return {
        "path": str(store.path),
        "items": len(store.items),
        "paths": store.items.n_paths(),
        "skipped": len(store.items.skipped()),
        "labels": len(store.judgements),
        "classes": len(classes),
        "predictions": sum(one.predicted for one in classes),
        "bytes": store.bytes(),
        "spaces": rows,
        "index": {row["name"]: row["index"] for row in rows},
    }
