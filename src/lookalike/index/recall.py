"""How much of what an exact search finds a quicker one finds, too.

In: an index, and how a row of it is asked for. Out: recall, 0 to 1, over rows spread over the index.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lookalike.types import Query, Vectors

ASKED, K = 64, 10
"""Rows that recall is measured with, and how many others each of them looks for."""


def measure(index: Any, ask: Callable[[Vectors], Query], effort: float | str | None = None) -> float:
    """The share of the K nearest others that a search with this effort finds, the mean over ASKED rows of the index."""
    n = len(index)
    ids = index.ids[:: max(1, n // ASKED)][:ASKED]
    if n < 2:
        return 1.0
    query = ask(index.vectors(ids))
    sought = index.search(query, min(n, K + 1), effort="exact").ids  # (q, k + 1)
    found = index.search(query, min(n, K + 1), effort=effort).ids
    shares = [
        len(set(mine.tolist()) & set(true.tolist()) - {own}) / len(set(true.tolist()) - {own})
        for own, mine, true in zip(ids.tolist(), found, sought, strict=True)
    ]
    return float(np.mean(shares))
