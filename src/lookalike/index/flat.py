"""Exact search by looking at every vector: the truth that other indexes are measured against.

In: ids (n,) and rows X (n, d), kept where they are (a memory map stays one), and queries. Out: `Hits`.
A search costs about one pass over the memory that holds the vectors.
"""

from collections.abc import Callable, Iterator
from math import inf, sqrt
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.errors import InputError, UnknownNameError
from lookalike.index.blocks import Blocks, Chunk, float32
from lookalike.index.ids import sort_ids, without
from lookalike.index.queries import PointQuery
from lookalike.index.topk import TopK, Which
from lookalike.limits import check_count
from lookalike.types import Hits, Ids, Query, Vectors

EFFORTS = ("exact", "balanced", "fast")
"""The names that `effort` may have, in every index; a number above 0 may stand for a name."""

POINTS_AT_ONCE = 256
"""Queries that share a pass over the vectors."""

GATHER = 8
"""Rows picked one by one cost about so many times as much as rows in a row."""


class Flat:
    """Every vector, compared with every query.

    Searches may run side by side in threads; `add` and `remove` want to be alone.

    Examples
    --------
    >>> import numpy as np
    >>> index = Flat()
    >>> index.add(np.array([10, 20]), np.eye(2, dtype=np.float32))
    >>> index.search(PointQuery([[0.0, 1.0]]), k=1).ids
    array([[20]])

    """

    _candidates: ClassVar[Callable[..., tuple[Ids, Vectors]] | None] = None  # see `compile`

    def __init__(self) -> None:
        self._blocks = Blocks()

    def __len__(self) -> int:
        return int(np.count_nonzero(self._blocks.alive))

    def __contains__(self, item: int) -> bool:
        return item in self._blocks.table

    @property
    def dim(self) -> int | None:
        """d, once something was added."""
        return self._blocks.dim

    @property
    def ids(self) -> Ids:
        """The ids of all vectors, ascending."""
        return self._blocks.table.ids()

    def add(self, ids: Ids, X: Vectors) -> None:
        """Add rows X (n, d) under new ids (n,).

        float32 (or float16) rows are referred to, not copied: do not change them afterwards. A memory map is not read
        either; that its numbers are finite is left to whoever wrote it.
        """
        self._blocks.add(ids, X)

    def copy(self) -> "Flat":
        """The same vectors, which are not copied, to be added to and removed from while this one answers somebody."""
        made = Flat()
        made._blocks = self._blocks.copy()
        return made

    def extends(self, other: "Flat") -> bool:
        """Whether this one has all that another has, under the same row numbers, and perhaps more."""
        return self._blocks.extends(other._blocks)

    def inherit(self, other: "Flat") -> None:
        """Take over what another has worked out about the very same rows."""
        self._blocks.inherit(other._blocks)

    def remove(self, ids: Ids) -> int:
        """Forget these ids; returns how many of them were there. Their rows stay in memory as long as the index."""
        return self._blocks.remove(ids)

    def vectors(self, ids: Ids) -> Vectors:
        """The rows of these ids, (m, d) float32."""
        return self._blocks.gather(self._blocks.table.find(ids))

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """The k best, exactly, whatever the effort. `scored` counts a row once for every query it is compared with."""
        check_search(query, k, effort, self.dim)
        among = None if among is None else sort_ids(among, "among")
        exclude = None if exclude is None else sort_ids(exclude, "exclude")
        if not isinstance(query, PointQuery):
            return self._search_any(query, k, among, exclude)
        if len(query.vectors) <= POINTS_AT_ONCE:
            return self._search_points(query, k, among, exclude)
        parts = [
            self._search_points(PointQuery(query.vectors[start : start + POINTS_AT_ONCE]), k, among, exclude)
            for start in range(0, len(query.vectors), POINTS_AT_ONCE)
        ]
        ids = np.concatenate([part.ids for part in parts])
        scores = np.concatenate([part.scores for part in parts])
        return Hits(ids, scores, sum(part.scored for part in parts))

    def rows(self, ids: Ids) -> Ids:
        """The number of the row of each id, (m,), -1 where there is none: a row keeps its number."""
        return self._blocks.table.rows(ids)

    def find(self, rows: Ids) -> Iterator[tuple[NDArray[Any], Ids, Any]]:
        """Where these rows are in memory; see `Blocks.find`."""
        return self._blocks.find(rows)

    def score_rows(self, query: PointQuery, which: Which, rows: Ids) -> Vectors:
        """The exact score of each row for the query of the number beside it, (m,): for whoever has a shortlist."""
        parts = chunks(len(rows), row_bytes=8 * query.dim, max_bytes=2**20)
        scores = [query.score_pairs(self._blocks.gather(rows[part]), which[part]) for part in parts]
        return np.concatenate(scores or [np.empty(0, np.float32)])

    def _search_any(self, query: Query, k: int, among: Ids | None, exclude: Ids | None) -> Hits:
        dim: int = getattr(query, "dim", 0) if self.dim is None else self.dim
        nothing = np.empty((0, dim), np.float32)
        best = TopK(len(query.score(nothing)), k)
        scored = 0
        for chunk in self._chunks(among, exclude, row_bytes=4 * dim):
            found = [query.score(float32(X)) for X in chunk.parts]
            scores = np.concatenate(found, axis=1, dtype=np.float32)  # (q, m); a copy, to be written to
            if chunk.keep is not None:
                np.copyto(scores, np.inf, where=~chunk.keep)
            best.add(scores, chunk.ids)
            scored += scores.size
        return Hits(*best.result(), scored)

    @classmethod
    def compile(cls) -> None:
        """Have the nearest to one point found by compiled code from now on, in every index of the process.

        It is no quicker for who is alone, but beside other threads waits for Python's lock a third as often.
        """
        from lookalike.index.one_point import candidates  # numba takes a second to load

        cls._candidates = staticmethod(candidates)

    def _search_points(self, query: PointQuery, k: int, among: Ids | None, exclude: Ids | None) -> Hits:
        """Rough scores by a matrix product, ‖x‖² − 2 x·q; exact ones for what they cannot decide."""
        q, d = query.vectors.shape
        factors = -2.0 * query.vectors
        lengths = np.sqrt(np.einsum("ij,ij->i", query.vectors, query.vectors))  # (q,)
        best = TopK(q, k, settle=lambda which, ids: self.score_rows(query, which, self.rows(ids)))
        space = np.empty(0, np.float32)  # for scores, used again and again: fresh memory is slow
        scored = 0
        with np.errstate(over="ignore", invalid="ignore"):  # too long a row is infinitely far: never an answer
            for chunk in self._chunks(among, exclude, row_bytes=4 * q):
                m, squares = len(chunk.ids), chunk.squares()
                # A sum of d products is off by at most d roundings of the product of the lengths (Higham, 3.5).
                slack = (d + 8) * np.finfo(np.float32).eps * (lengths + sqrt(squares.longest)) ** 2  # (q,)
                scored += m * q
                if q == 1 and self._candidates is not None and chunk.is_float32:
                    rows, near = self._candidates(chunk.parts, factors[0], squares.each, chunk.keep, k, slack[0])
                    best.add(near[None], chunk.ids[rows], slack)
                    continue
                space = space if space.size >= m * q else np.empty(m * q, np.float32)
                scores = space[: m * q].reshape(m, q)
                chunk.products(factors, out=scores)
                scores += squares.each[:, None]
                if chunk.keep is not None:
                    scores[~chunk.keep] = np.inf
                best.add(scores.T, chunk.ids, slack)
        return Hits(*best.result(), scored)

    def _chunks(self, among: Ids | None, exclude: Ids | None, row_bytes: int) -> Iterator[Chunk]:
        """What the search has to look at: few rows are picked, many are scanned with the others left out."""
        blocks = self._blocks
        keep = blocks.alive
        if among is not None:
            ids = among if exclude is None else without(among, exclude)
            rows = blocks.table.rows(ids)
            ids, rows = ids[rows >= 0], rows[rows >= 0]
            if len(rows) * GATHER < len(keep):
                return blocks.pick(ids, rows)
            keep = np.zeros_like(keep)
            keep[rows] = True
        elif exclude is not None:
            rows = blocks.table.rows(exclude)
            keep = keep.copy()
            keep[rows[rows >= 0]] = False
        return blocks.scan(keep, row_bytes)


def check_search(query: Query, k: int, effort: object, dim: int | None) -> None:
    """Raises InputError where these arguments of `search` cannot be right."""
    check_count("k", k)
    if isinstance(effort, str) and effort not in EFFORTS:
        raise UnknownNameError("effort", effort, EFFORTS)
    if not isinstance(effort, str | None) and not (isinstance(effort, Real) and 0 < float(effort) < inf):
        raise InputError(f"effort must be a number above 0, or one of {', '.join(EFFORTS)}. Got {effort!r}.")
    query_dim = getattr(query, "dim", None)
    if None not in (dim, query_dim) and dim != query_dim:
        raise InputError(f"The query has {query_dim} dimensions, the index {dim}. Use the same space for both.")
