"""The index for a number of vectors, the size of shortlists, and the recall of an index."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lookalike.types import Query, Vectors

FLAT_MAX, HNSW_MAX = 2_000_000, 5_000_000
"""Maximum number of rows for a plain scan (0.1 s at d = 256), and for a graph (2 GB of memory).

`benchmarks/search_speed.py` measures both.
"""

TIMES, PLUS = {"fast": 4, "balanced": 20}, 100
"""A shortlist for k hits has TIMES[effort] · k + PLUS rows."""

RECALL_QUERIES, RECALL_K = 64, 10
"""Number of query rows of `measure_recall`, and of neighbours per query."""

TIE = 1e-5
"""Scores count as equal up to this relative difference: a search can find any of many copies of a row."""


def choose(n: int) -> str:
    """The index for n vectors: "flat", or a kind of `Ann`, "hnsw" or "ivfpq"."""
    if n <= FLAT_MAX:
        return "flat"
    return "hnsw" if n <= HNSW_MAX else "ivfpq"


def shortlist_size(k: int, effort: float | str | None) -> int:
    """Size of the shortlist for k hits; a number as effort replaces `TIMES`.

    >>> shortlist_size(10, None), shortlist_size(10, "fast"), shortlist_size(10, 2.5)
    (300, 140, 125)
    """
    times = TIMES[effort or "balanced"] if isinstance(effort, str | None) else effort
    return int(times * k) + PLUS


def measure_recall(index: Any, ask: Callable[[Vectors], Query], effort: float | str | None = None) -> float:
    """Measure the share, 0 to 1, of the true nearest neighbours that a search with this effort finds.

    The result is the mean over rows spread over the index. Rows as near as the last of the true neighbours, such as
    copies of it, count as found. `ask` turns rows (q, d) into a query.
    """
    n = len(index)
    ids = index.ids[:: max(1, n // RECALL_QUERIES)][:RECALL_QUERIES]
    if n < 2:
        return 1.0
    query, k = ask(index.vectors(ids)), min(n - 1, RECALL_K)
    exact = index.search(query, k + 1, effort="exact")
    found = index.search(query, k + 1, effort=effort)
    kth = exact.scores[:, -1:]  # (q, 1)
    near = found.scores <= kth + TIE * np.abs(kth)  # (q, k + 1)
    near |= (found.ids[:, :, None] == exact.ids[:, None, :]).any(axis=2)  # even if rounding changes small scores
    near &= found.ids != ids[:, None]  # the row itself does not count
    return float(np.mean(np.minimum(np.count_nonzero(near, axis=1), k) / k))
