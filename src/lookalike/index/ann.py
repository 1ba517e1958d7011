"""Approximate search for large collections: faiss proposes a shortlist, the vectors themselves decide.

In: ids (n,) and rows X (n, d), kept where they are in a `Flat`, and queries. Out: `Hits`, with true distances.
HNSW: Malkov and Yashunin 2018 (arXiv 1603.09320); IVF-PQ: Jégou, Douze, Schmid 2011, fast scan: André et al. 2016.
"""

from math import ceil
from pathlib import Path
from typing import Any, Self

import numpy as np

from lookalike.arrays import chunks
from lookalike.errors import DamagedError, InputError, UnknownNameError
from lookalike.index.beside import Beside
from lookalike.index.flat import Flat, check_search
from lookalike.index.ids import sort_ids, without
from lookalike.index.queries import PointQuery
from lookalike.index.structure import KINDS, Structure, distances
from lookalike.types import Hits, Ids, Progress, Query, Vectors

BREADTHS: dict[str, dict[str, int]] = {
    "hnsw": {"fast": 48, "balanced": 192},
    "ivfpq": {"fast": 16, "balanced": 64},
}
"""What an effort means: nodes that HNSW follows at a time (efSearch), lists that IVF-PQ reads (nprobe)."""

SHORTLIST: dict[str, tuple[int, int]] = {"hnsw": (1, 10), "ivfpq": (4, 100)}
"""(times, plus): k hits are chosen, by their exact scores, from times · k + plus proposals."""

EXACT_ROWS, EXACT_SHARE = 20_000, 0.02
"""A search among fewer rows, or a smaller share of them, looks at each one: that is faster, and exact."""

MIN_ROWS = 1_000
"""Fewer rows are not worth a structure."""

REBUILD_SHARE = 0.25
"""A structure with a larger share of removed rows is built anew, not extended."""


class Ann(Beside):
    """A structure of faiss over the vectors of a `Flat`.

    What was added since `build` is looked at row by row, what was removed is never proposed, so the answers are in step
    with `add` and `remove` all the time; `build` makes the search fast again.

    Parameters
    ----------
    kind : "hnsw" or "ivfpq"
        A graph over 8-bit rows (fastest, d + 144 bytes a row), or lists of 4-bit codes (smallest, d / 4 + 24 bytes).
    links : neighbours of a node in the graph
    breadth : how carefully the graph is built (efConstruction)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2_000, 8)).astype(np.float32)
    >>> index = Ann("hnsw")
    >>> index.add(np.arange(2_000), X)
    >>> index.build().search(PointQuery(X[7:8]), k=1).ids
    array([[7]])

    """

    extra = 0  # columns that the structure has on top of the vectors

    def __init__(self, kind: str = "hnsw", links: int = 16, breadth: int = 80):
        self.kind = kind
        self.links = links
        self.breadth = breadth
        super().__init__()
        self._structure: Structure | None = None
        self._rows: Ids = np.empty(0, np.int64)  # where the truth has what the structure has, position by position

    def build(self, truth: Flat | None = None, progress: Progress | None = None) -> Self:
        """Take the tail into the structure, or build it anew where too much has changed, or over another `truth`.

        Interrupted, it leaves an index that is right, and as fast as what was done by then.
        """
        if self.kind not in KINDS:
            raise UnknownNameError("kind of ann", self.kind, KINDS)
        if truth is not None:
            self.truth, self._structure, self._tail = truth, None, truth.ids
        old, total = self._structure, len(self._tail)
        if old is None or old.live < (1 - REBUILD_SHARE) * len(old) or total > len(old):
            self._structure, self._rows, self._tail, total = self._trained(), self._rows[:0], self.ids, len(self)
        if self._structure is None:
            return self
        for part in chunks(total, row_bytes=4 * self._structure.dim, max_bytes=2**23):
            if progress is not None:
                progress("indexing", part.start, total)
            ids = self._tail[: part.stop - part.start]
            self._structure.add(ids, self._encoded(ids))
            self._rows = np.concatenate([self._rows, self.truth.rows(ids)])
            self._tail = self._tail[len(ids) :]
        return self

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """The k best, as far as `effort` goes: "fast", "balanced" (None), "exact", or a breadth (see `BREADTHS`).

        Queries other than points, and searches among few rows, are answered by looking at each row.
        """
        check_search(query, k, effort, self.dim)
        among = None if among is None else sort_ids(among, "among")
        exclude = None if exclude is None else sort_ids(exclude, "exclude")
        structure = self._structure
        points = self._points(query)
        if structure is None or effort == "exact" or points is None:
            return self.truth.search(query, k, among=among, exclude=exclude)
        bits, count = structure.bits(among, exclude)
        if count < max(EXACT_ROWS, EXACT_SHARE * len(structure)):
            return self.truth.search(query, k, among=among, exclude=exclude)
        size, breadth = self._plan(k, effort)
        # Of the rows a walk comes across only this share counts, so it has to be so much longer.
        breadth = min(len(structure), ceil(breadth * len(structure) / count))
        positions, scored = structure.search(points, size, breadth, bits)  # (q, s)
        ids, scores = structure.ids[positions], self._scores(query, positions)  # (q, s)
        scored += ids.size
        missing = positions < 0
        if missing.any():  # fewer were found than asked for
            ids[missing], scores[missing] = -1, np.inf
            scored -= int(np.count_nonzero(missing))
        if len(self._tail):
            tail = self._tail if among is None else np.intersect1d(self._tail, among, assume_unique=True)
            news = self.truth.search(query, k, among=tail, exclude=exclude)
            ids, scores = np.hstack([ids, news.ids]), np.hstack([scores, news.scores])  # (q, s + k)
            scored += news.scored
        each = np.arange(len(ids))[:, None]
        if ids.shape[1] > 2 * k:  # a partition is cheaper than a sort
            near = np.argpartition(scores, k - 1, axis=1)[:, :k]
            ids, scores = ids[each, near], scores[each, near]
        best = each, np.lexsort((ids, scores))[:, :k]
        if (ids[best][:, : min(k, count)] < 0).any():  # the walk never came to where the filter's rows are
            return self.truth.search(query, k, among=among, exclude=exclude)
        return Hits(ids[best], scores[best], scored)

    def save(self, path: str | Path) -> None:
        """Write the structure to one file, for `load`. The vectors are not in it."""
        if self._structure is None:
            raise InputError(f"There is nothing to save: build the index first, over at least {MIN_ROWS} rows.")
        self._structure.save(Path(path))

    @classmethod
    def load(cls, path: str | Path, truth: Flat) -> Self:
        """A saved structure over the vectors as they are now, with whatever was added and removed since."""
        structure = Structure.load(Path(path))
        if truth.dim is not None and not 0 <= structure.dim - truth.dim - cls.extra <= 1:
            raise DamagedError(f"{path} is for {structure.dim} dimensions, the vectors have {truth.dim}. Delete it.")
        index = cls(structure.kind)
        index.truth, index._structure = truth, structure
        rows = truth.rows(structure.ids)
        structure.remove(structure.ids[rows < 0])
        index._rows = np.maximum(rows, 0)  # what was removed is never proposed: any row will do
        index._tail = without(truth.ids, np.sort(structure.ids))
        return index

    def _forget(self, ids: Ids) -> None:
        if self._structure is not None:
            self._structure.remove(ids)

    def _n_removed(self) -> int:
        return 0 if self._structure is None else len(self._structure) - self._structure.live

    def _encoded(self, ids: Ids) -> Vectors:
        """What the structure holds of these ids, (m, d + extra)."""
        return self.vectors(ids)

    def _points(self, query: Query) -> Vectors | None:
        """Where the walk goes to, (q, d + extra); None where a query cannot be answered by walking."""
        return query.vectors if isinstance(query, PointQuery) else None

    def _plan(self, k: int, effort: float | str | None) -> tuple[int, float]:
        """How many are proposed, and the breadth of the walk."""
        times, plus = SHORTLIST[self.kind]
        breadth = BREADTHS[self.kind][effort or "balanced"] if isinstance(effort, str | None) else effort
        return times * k + plus, breadth

    def _scores(self, query: Any, positions: Ids) -> Vectors:
        """Distances of proposed positions (q, s) by the vectors themselves, (q, s); of any row where there is none."""
        q, size = positions.shape
        which, rows = np.arange(q).repeat(size), self._rows[positions.ravel()]
        scores = np.empty(q * size, np.float32)
        for X, local, places in self.truth.find(rows):
            scores[places] = distances(query.vectors, which[places], X, local)
        return scores.reshape(q, size)

    def _trained(self) -> Structure | None:
        """A structure without rows, or none where there are too few to learn from."""
        n = len(self)
        if n < MIN_ROWS:
            return None
        size = min(n, max(65_536, int(64 * n**0.5)))
        sample = self._encoded(self.ids[:: n // size][:size])
        return Structure.train(self.kind, sample, n, self.links, self.breadth)
