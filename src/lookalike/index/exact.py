"""Base classes of the indexes.

`ExactIndex` stores rows under ids and scores every row: `Flat` for vectors, `Hamming` for codes. `AcceleratedIndex` is
a structure over an exact index that proposes rows: `Ann`, `Leaves` and `MultiHash`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError
from lookalike.index.ids import IdTable, check_ids, sort_ids, without
from lookalike.index.queries import check_search
from lookalike.index.topk import TopK
from lookalike.scaled_rows import Rows
from lookalike.types import Array, Hits, Ids, Query

CHUNK_BYTES = 2**21
"""Size of the scores and the gathered or converted rows of a chunk: they stay in the cache until they are read."""

GATHER = 8
"""Gathering a single row takes about this many times longer than reading consecutive ones."""

Mask: TypeAlias = NDArray[np.bool_]


class Selection(NamedTuple):
    """The rows that pass the filters: `rows` if given, otherwise those of `keep`, otherwise all."""

    rows: Ids | None = None  # the numbers of a few rows
    keep: Mask | None = None  # (n,)


class Chunk(NamedTuple):
    """Rows that are scored together, m in all."""

    rows: slice | Ids  # their numbers
    parts: Sequence[Rows]  # the rows themselves, in the order of the numbers
    keep: Mask | None = None  # (m,) which of them pass the filters; None = all


class ExactIndex(ABC):
    """Rows under ids; a search scores every row that passes its filters. Subclasses store and score the rows.

    Rows are numbered from 0 in the order of `add`, and keep their numbers. A removed row stays in memory and is
    skipped. Searches are thread-safe while no other thread calls `add` or `remove`.

    Attributes
    ----------
    dim : the number of columns; None until the first `add`.
    row_ids : (n,) the id of each row.
    alive : (n,) False for removed rows.

    """

    dtype: ClassVar[type]  # of the rows that queries score

    def __init__(self) -> None:
        self.dim: int | None = None
        self.row_ids: Ids = np.empty(0, np.int64)
        self.alive: Mask = np.empty(0, np.bool_)
        self._table = IdTable()
        self._removed = 0

    def __len__(self) -> int:
        return len(self.alive) - self._removed

    def __contains__(self, item: int) -> bool:
        return item in self._table

    @property
    def ids(self) -> Ids:
        """All ids, ascending."""
        return self._table.ids()

    def add(self, ids: Ids, X: Array) -> None:
        """Add rows X (m, d) under new ids (m,)."""
        ids, X = check_ids(ids), self._check_rows(X)
        if len(ids) != len(X):
            raise InputError(f"ids and X must have the same length. Got {len(ids)} ids and {len(X)} rows.")
        self._table.add(ids, len(self.alive) + np.arange(len(ids)))
        self.dim = X.shape[1]
        self._append(ids, X)
        self.alive = np.concatenate([self.alive, np.ones(len(ids), np.bool_)])
        self.row_ids = np.concatenate([self.row_ids, ids])

    def remove(self, ids: Ids) -> int:
        """Remove these ids; return how many were present. Their rows stay in memory until the index is deleted."""
        rows = self._table.remove(sort_ids(ids))
        self.alive[rows] = False
        self._removed += len(rows)
        return len(rows)

    def copy(self) -> Self:
        """Return a copy that can be changed while this index answers searches."""
        made = copy(self)
        made.alive, made._table = self.alive.copy(), self._table.copy()
        return made

    def rows(self, ids: Ids) -> Ids:
        """The row number of each id, (m,); -1 for unknown ids."""
        return self._table.rows(ids)

    def vectors(self, ids: Ids) -> NDArray[Any]:
        """The rows of these ids, (m, d)."""
        return self.gather(self._table.find(ids))

    def allowed(self, exclude: Ids | None, among: Ids | None = None) -> Mask:
        """Mask (n,) of the rows that were not removed, are in `among` (None: all) and not in `exclude`."""
        if among is not None:
            rows = self.rows(among if exclude is None else without(among, exclude))
            keep = np.zeros_like(self.alive)
            keep[rows[rows >= 0]] = True
            return keep
        if exclude is None:
            return self.alive
        rows = self.rows(exclude)
        keep = self.alive.copy()
        keep[rows[rows >= 0]] = False
        return keep

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """Return the exact k best rows; `effort` is checked and ignored.

        `scored` counts a row once per query that it is compared with.
        """
        among, exclude = check_search(query, k, among, exclude, effort, self.dim)
        return self._search(query, k, self._select(among, exclude))

    def search_rows(self, query: Query, k: int, keep: Mask | None) -> Hits:
        """Return the exact k best of the rows in a mask (n,), even of removed ones; None: of all rows."""
        if keep is not None and np.count_nonzero(keep) * GATHER < len(keep):
            return self._search(query, k, Selection(rows=np.flatnonzero(keep)))
        return self._search(query, k, Selection(keep=keep))

    @abstractmethod
    def gather(self, rows: Ids) -> NDArray[Any]:
        """The rows with these row numbers, (m, d), in the given order."""

    @abstractmethod
    def _check_rows(self, X: Array) -> NDArray[Any]:
        """Convert X to the stored form. Raises InputError if that is not possible."""

    @abstractmethod
    def _append(self, ids: Ids, X: NDArray[Any]) -> None:
        """Store checked rows, before they are added to `alive` and `row_ids`."""

    @abstractmethod
    def _chunks(self, selection: Selection, row_bytes: int) -> Iterator[Chunk]:
        """Yield the selected rows, and possibly others between them; scoring a row needs `row_bytes` of memory."""

    def _search(self, query: Query, k: int, selection: Selection) -> Hits:
        """Return the k best of the selected rows by the query's score; subclasses answer some queries faster."""
        dim: int = getattr(query, "dim", 0) if self.dim is None else self.dim
        q = len(query.score(np.empty((0, dim), self.dtype)))
        best = TopK(q, k)
        scored = 0
        for chunk in self._chunks(selection, row_bytes=8 * q + 4 * dim):
            found = [query.score(X.astype(self.dtype, copy=False)) for X in chunk.parts]
            if len(found) == 1 and chunk.keep is None:
                scores = np.asarray(found[0], np.float32)  # (q, m)
            else:
                scores = np.concatenate(found, axis=1, dtype=np.float32)  # (q, m); a copy that can be changed
            if chunk.keep is not None:
                np.copyto(scores, np.inf, where=~chunk.keep)
            best.add(scores, self.row_ids[chunk.rows])
            scored += scores.size
        return Hits(*best.result(), scored)

    def _select(self, among: Ids | None, exclude: Ids | None) -> Selection:
        """The rows of a search with these filters, ascending: a few rows are gathered, many are scanned."""
        if among is None:
            return Selection(keep=self.allowed(exclude) if self._removed or exclude is not None else None)
        rows = self.rows(among if exclude is None else without(among, exclude))
        rows = rows[rows >= 0]
        if len(rows) * GATHER < len(self.alive):
            return Selection(rows=rows)
        keep = np.zeros_like(self.alive)
        keep[rows] = True
        return Selection(keep=keep)


ExactT = TypeVar("ExactT", bound=ExactIndex)


class AcceleratedIndex(ABC, Generic[ExactT]):
    """A structure over an exact index, `truth`, that stores the rows. Subclasses define the structure.

    The structure proposes rows and `truth` scores them. A search scans the rows added since `build` and never returns
    removed rows, so results are always correct; `build` makes the search fast again.
    """

    def __init__(self, truth: ExactT) -> None:
        self.truth = truth
        self._tail: Ids = np.empty(0, np.int64)  # the ids that are not in the structure, ascending

    def __len__(self) -> int:
        return len(self.truth)

    def __contains__(self, item: int) -> bool:
        return item in self.truth

    @property
    def dim(self) -> int | None:
        """The number of columns; None until the first `add`."""
        return self.truth.dim

    @property
    def ids(self) -> Ids:
        """All ids, ascending."""
        return self.truth.ids

    @property
    def stale(self) -> float:
        """Share of rows that were added or removed since `build`; 1 before the first `build`."""
        removed = self._n_removed()
        return (len(self._tail) + removed) / max(1, len(self) + removed)

    def add(self, ids: Ids, X: Array) -> None:
        """Add rows X (m, d) under new ids (m,)."""
        self.truth.add(ids, X)
        self._tail = np.sort(np.concatenate([self._tail, check_ids(ids)]))

    def remove(self, ids: Ids) -> int:
        """Remove these ids; return how many of them were present."""
        ids = sort_ids(ids)
        self._tail = without(self._tail, ids)
        self._forget(ids)
        return self.truth.remove(ids)

    def over(self, truth: ExactT) -> Self:
        """Return an index with the same structure over a `truth` with additional rows; this index does not change.

        `truth` must extend this index's truth (see `Flat.extends`). Both indexes share the structure, so do not remove
        rows from either.
        """
        grown = copy(self)
        grown.truth, grown._tail = truth, np.sort(np.concatenate([self._tail, without(truth.ids, self.truth.ids)]))
        return grown

    def vectors(self, ids: Ids) -> NDArray[Any]:
        """The rows of these ids, (m, d)."""
        return self.truth.vectors(ids)

    def _search_tail(self, query: Query, k: int, among: Ids | None, exclude: Ids | None) -> Hits:
        """The k best of the rows that are not in the structure; filters ascending."""
        tail = self._tail if among is None else np.intersect1d(self._tail, among, assume_unique=True)
        return self.truth.search(query, k, among=tail, exclude=exclude)

    @abstractmethod
    def _forget(self, ids: Ids) -> None:
        """Mark these ids, ascending, as removed from the structure. `truth` still has them; some can be unknown."""

    @abstractmethod
    def _n_removed(self) -> int:
        """Number of rows of the structure that were removed since it was built."""
