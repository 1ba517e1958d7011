"""Indexes for measuring sessions: one that remembers distances, one that asks elsewhere than it ranks.

In: rows, as any index. Out: what `Flat` answers to hyperplane queries, quicker when most support vectors of a query
were those of an earlier one, as in the rounds of a session.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.index.flat import Flat
from lookalike.index.hyperplane import HyperplaneQuery
from lookalike.index.ids import sort_ids
from lookalike.kernels import KERNELS
from lookalike.linalg import distances
from lookalike.types import Hits, Ids, Query, Searchable, Vectors


class Memo(Flat):
    """A flat index over ids 0 … n − 1 that keeps the distances of every row to the support vectors it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: Vectors | None = None
        self.forget()

    def forget(self) -> None:
        """Drop what was kept: a new session has other support vectors."""
        self._columns: dict[tuple[int, bytes], Vectors] = {}
        self._last: tuple[Any, NDArray[np.float32]] | None = None

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """As `Flat`, in float32."""
        norm = KERNELS[query.kernel].norm if isinstance(query, HyperplaneQuery) else None
        if not isinstance(query, HyperplaneQuery) or norm is None or among is not None:
            return super().search(query, k, among=among, exclude=exclude, effort=effort)
        f = self._decide(query, norm)  # (n,)
        scores = np.abs(f) if query.kind == "frontier" else -f
        if exclude is not None:
            scores[sort_ids(exclude)] = np.inf
        k = min(k, len(scores))
        best = np.argpartition(scores, k - 1)[:k]
        best = best[np.lexsort([best, scores[best]])]
        best = best[np.isfinite(scores[best])]
        return Hits(best[None], scores[best][None], len(scores))

    def _decide(self, query: HyperplaneQuery, norm: int) -> NDArray[np.float32]:
        key = (query.X.tobytes(), query.a.tobytes(), query.b, query.kernel, query.gamma)
        if self._last is None or self._last[0] != key:
            if self._rows is None:
                self._rows = self.vectors(self.ids)  # (n, d)
            rows = self._rows
            f = np.full(len(rows), query.b, np.float32)
            for x, a in zip(query.X, query.a, strict=True):
                near = (norm, x.tobytes())
                if near not in self._columns:
                    self._columns[near] = distances(rows, x[None], norm)[:, 0].astype(np.float32)
                D = self._columns[near]
                if KERNELS[query.kernel].balanced:
                    f -= np.float32(a) * D
                else:
                    f += np.float32(a) * np.exp(-np.float32(query.gamma) * (D * D if "gauss" in query.kernel else D))
            self._last = key, f / np.float32(query.length)
        return self._last[1].copy()


class Split:
    """Ranks by one index and asks another about the frontier, with options of its own, and counts what that costs."""

    def __init__(self, ranking: Searchable, asking: Searchable, **options: Any):
        self.ranking, self.asking, self.options = ranking, asking, options
        self.asked = self.scored = 0

    def __len__(self) -> int:
        return len(self.ranking)

    @property
    def dim(self) -> int | None:
        """d."""
        return self.ranking.dim

    @property
    def ids(self) -> Ids:
        """Those that are ranked."""
        return self.ranking.ids

    def vectors(self, ids: Ids) -> Vectors:
        """The rows of these ids, (m, d)."""
        return self.ranking.vectors(ids)

    def share(self) -> float:
        """The part of all rows that a frontier query scored, in the mean since the last call; 1 where none was."""
        share = self.scored / self.asked / len(self) if self.asked else 1.0
        self.asked = self.scored = 0
        return share

    def search(self, query: Query, k: int, **options: Any) -> Hits:
        """Frontier queries go to `asking`."""
        if getattr(query, "kind", "maximum") != "frontier":
            return self.ranking.search(query, k, **options)
        hits = self.asking.search(query, k, **options, **self.options)
        self.asked += 1
        self.scored += hits.scored
        return hits
