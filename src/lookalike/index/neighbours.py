"""`NeighbourGraph`: the nearest neighbours of every row, kept up to date while rows are added and removed.

The neighbours of a small collection are exact. A large one is divided into cells by k-means, and a row is compared with
the rows of the cells around its own; `recall` measures the share of the true neighbours that this finds.
"""

import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.errors import DamagedError, StoreError
from lookalike.limits import NEIGHBOURS
from lookalike.types import Ids, Progress, Vectors, silent

GRAPH_BYTES = 8 * NEIGHBOURS + 14
"""Bytes per row of a graph, in memory while it is updated and on disk: places and distances; id, cell and two flags."""

EXACT_MAX = 200_000
"""Maximum number of rows for exact neighbours."""

CELL_ROWS, PROBES = 1_000, 32
"""Rows per cell of a large collection, and the number of cells that a row is compared with, including its own."""

FEW_PER_CELL = 4
"""If no more rows per cell than this are searched for, they are compared with all rows."""

TRAINING_ROWS, ITERATIONS = 64, 10
"""Rows per cell that k-means uses, and its iterations."""

BLOCK_ROWS, SAMPLED = 2_048, 8
"""Rows that are compared with each other at a time. Every eighth of them gives a first bound for an empty list."""

CHECKPOINT_S = 60.0
"""Seconds between checkpoints of a long update."""

RECALL_ROWS = 100
"""Rows whose neighbours `recall` compares with the true ones."""

Rows: TypeAlias = Callable[[Ids], Vectors]
"""Function that returns the rows (m, d) of ids (m,)."""


class NeighbourGraph:
    """The nearest neighbours of rows by Euclidean distance: 94 bytes per row.

    Attributes
    ----------
    ids : (n,) ascending.
    places : (n, NEIGHBOURS) int32, the places in `ids` of the neighbours of each row, nearest first; -1: none.
    distances : (n, NEIGHBOURS) float32, their squared distances; infinity: none.
    changed : (n,) the rows whose neighbours have changed; the caller resets it.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [5.0], [7.0]], np.float32)
    >>> graph = NeighbourGraph()
    >>> graph.update(np.arange(4), lambda ids: X[ids])
    >>> graph.places[:, 0].tolist(), graph.distances[:, 0].tolist()
    ([1, 0, 3, 2], [1.0, 1.0, 4.0, 4.0])

    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.ids: Ids = np.empty(0, np.int64)
        self.places = np.empty((0, NEIGHBOURS), np.int32)
        self.distances = np.empty((0, NEIGHBOURS), np.float32)
        self.changed = np.empty(0, np.bool_)
        self._cells = np.empty(0, np.int32)  # the cell of each row; -1: not assigned
        self._searched = np.empty(0, np.bool_)  # whether the list of a row is complete
        self._centres: Vectors = np.empty((0, 0), np.float32)  # empty: the neighbours are exact

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_exact(self) -> bool:
        """Whether all neighbours were found by comparing all rows."""
        return not len(self._centres)

    @property
    def is_complete(self) -> bool:
        """Whether every row has neighbours; otherwise an update was interrupted."""
        return bool(self._searched.all())

    def update(
        self,
        ids: Ids,
        rows: Rows,
        *,
        least: int = NEIGHBOURS // 2,
        progress: Progress = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> None:
        """Make this the graph of the rows with these ids (n,), ascending.

        New rows get neighbours and become neighbours. If a row has fewer than `least` neighbours after a removal, its
        neighbours are searched for again. `checkpoint` is called every minute; an interrupted update continues from
        there.
        """
        if min(len(self), len(ids)) <= NEIGHBOURS:  # the lists contain all other rows
            self._clear()
        self._set_ids(ids, least)
        to_search = np.flatnonzero(~self._searched)
        self._divide(rows)
        saved_at, done = time.monotonic(), 0
        # Each pair of rows is compared once, which updates the lists of both. So a block of rows is complete when it
        # has been compared with all rows around it, except those of earlier blocks.
        is_pending = np.ones(len(self), np.bool_)
        for new, around in self._groups(to_search):
            X = rows(self.ids[around]) if len(around) <= EXACT_MAX else None  # (m, d); None: too large
            for part in chunks(len(new), 1, BLOCK_ROWS):
                progress("finding neighbours", done, len(to_search))
                Q = rows(self.ids[new[part]])  # (q, d)
                pending = np.flatnonzero(is_pending[around])
                for some in chunks(len(pending), 1, BLOCK_ROWS):
                    others = around[pending[some]]
                    self._compare(new[part], Q, others, rows(self.ids[others]) if X is None else X[pending[some]])
                is_pending[new[part]] = False
                self._searched[new[part]] = True
                done += part.stop - part.start
                if checkpoint is not None and time.monotonic() > saved_at + CHECKPOINT_S:
                    checkpoint()
                    saved_at = time.monotonic()
        progress("finding neighbours", len(to_search), len(to_search))

    def recall(self, rows: Rows) -> float:
        """Measure the share, 0 to 1, of the true neighbours in the graph, on rows spread over it."""
        sample = np.arange(0, len(self), max(1, len(self) // RECALL_ROWS))[:RECALL_ROWS]
        Q = rows(self.ids[sample])
        best = np.full((len(sample), NEIGHBOURS), np.inf, np.float32), np.full((len(sample), NEIGHBOURS), -1)
        for part in chunks(len(self), 4 * Q.shape[1], 2**27):
            D, places = _nearest(Q, rows(self.ids[part]), NEIGHBOURS + 1)
            places = np.where(places >= 0, places + part.start, -1)
            D[places == sample[:, None]] = np.inf
            best = _best(np.hstack([best[0], D]), np.hstack([best[1], places]))
        true = best[1]
        found = [np.isin(mine, own[own >= 0]).sum() for own, mine in zip(true, self.places[sample], strict=True)]
        return float(np.sum(found) / max(1, np.count_nonzero(true >= 0)))

    def save(self, path: Path) -> None:
        """Write the graph to one file, for `load`."""
        try:
            with path.open("wb") as file:
                np.savez(
                    file,
                    ids=self.ids,
                    places=self.places,
                    distances=self.distances,
                    changed=self.changed,
                    searched=self._searched,
                    cells=self._cells,
                    centres=self._centres,
                )
        except OSError as error:
            raise StoreError(f"Cannot write {path}: {error}. Is the disk full?") from error

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a graph; raises DamagedError if the file was not written by `save`."""
        graph = cls()
        try:
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                graph.ids, graph.changed = file["ids"], file["changed"]
                graph.places, graph.distances = file["places"], file["distances"]
                graph._searched, graph._cells, graph._centres = file["searched"], file["cells"], file["centres"]
            n = len(graph)
            lists = graph.places.shape, graph.distances.shape
            flags = graph.changed.shape, graph._searched.shape, graph._cells.shape
            if {*lists} != {(n, NEIGHBOURS)} or {*flags} != {(n,)} or graph.places.max(initial=-1) >= n:
                raise ValueError(f"its arrays do not belong to {n} rows")
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DamagedError(f"Cannot read {path}: {error}. Delete it; it will be computed again.") from error
        return graph

    def _set_ids(self, ids: Ids, least: int) -> None:
        """Add and remove rows. New rows, and rows with fewer than `least` neighbours left, have empty lists."""
        kept = np.isin(self.ids, ids, assume_unique=True)
        new_places = np.searchsorted(ids, self.ids)  # only valid for kept rows
        places = np.where(self.places >= 0, new_places[self.places], -1)
        places[(self.places >= 0) & ~kept[self.places]] = -1
        places, distances = places[kept], self.distances[kept]
        lost = (places < 0) & np.isfinite(distances)
        distances[lost] = np.inf
        distances, places = _best(distances, places)
        unsearched = ~self._searched[kept] | np.isinf(distances[:, min(least, NEIGHBOURS) - 1])
        distances[unsearched], places[unsearched] = np.inf, -1
        at = new_places[kept]
        changed, cells = self.changed[kept] | lost.any(axis=1), self._cells[kept]
        n = len(ids)
        self.ids = ids
        self.places = np.full((n, NEIGHBOURS), -1, np.int32)
        self.distances = np.full((n, NEIGHBOURS), np.inf, np.float32)
        self.changed, self._searched = np.ones(n, np.bool_), np.zeros(n, np.bool_)
        self._cells = np.full(n, -1, np.int32)
        self.places[at], self.distances[at], self.changed[at], self._cells[at] = places, distances, changed, cells
        self._searched[at] = ~unsearched

    def _divide(self, rows: Rows) -> None:
        """Assign every row to a cell; a small collection has one."""
        n = len(self)
        if n <= EXACT_MAX and self.is_exact:
            self._cells[:] = 0
            return
        if 2 * CELL_ROWS * len(self._centres) < n:  # the cells have become too large
            cell_count = n // CELL_ROWS
            random = np.random.default_rng(0)
            sample = np.sort(random.choice(n, min(n, TRAINING_ROWS * cell_count), replace=False))
            X = rows(self.ids[sample])
            options = {"niter": ITERATIONS, "seed": 0, "max_points_per_centroid": TRAINING_ROWS}
            means = _faiss().Kmeans(X.shape[1], cell_count, **options)
            means.train(X)
            self._centres = means.centroids
            self._cells[:] = -1
        unassigned = np.flatnonzero(self._cells < 0)
        for part in chunks(len(unassigned), 4 * self._centres.shape[1], 2**26):
            _, cells = _nearest(rows(self.ids[unassigned[part]]), self._centres, 1)
            self._cells[unassigned[part]] = cells[:, 0]

    def _groups(self, to_search: Ids) -> Iterator[tuple[Ids, Ids]]:
        """Groups of places to search for, each with the places that they are compared with, all ascending.

        A few new rows are compared with all rows, which takes less time than reading the rows around each of them.
        """
        if len(to_search) <= FEW_PER_CELL * max(1, len(self._centres)) or self.is_exact:
            yield to_search, np.arange(len(self))
            return
        _, near = _nearest(self._centres, self._centres, PROBES)  # (cells, PROBES)
        is_near = np.zeros((len(near), len(near)), np.bool_)
        np.put_along_axis(is_near, near, True, axis=1)
        is_near |= is_near.T
        for cell in np.unique(self._cells[to_search]).tolist():
            yield to_search[self._cells[to_search] == cell], np.flatnonzero(is_near[cell][self._cells])

    def _compare(self, new: Ids, Q: Vectors, others: Ids, X: Vectors) -> None:
        """Update the lists of the places `new` (q,) and `others` (m,), whose rows are Q and X."""
        D = _distances(Q, X)
        _, own, theirs = np.intersect1d(new, others, assume_unique=True, return_indices=True)
        D[own, theirs] = np.inf  # no row is its own neighbour
        self._offer(new, others, D, axis=0)
        if len(theirs) < len(others):
            D[:, theirs] = np.inf  # pairs inside the block were offered in both orders
            self._offer(others, new, D, axis=1)

    def _offer(self, places: Ids, others: Ids, D: Vectors, *, axis: int) -> None:
        """Insert the places `others` (m,) into the lists of `places` (q,) if their distances are smaller.

        D is (q, m), or (m, q) with axis 1.
        """
        distances, known = self.distances[places], self.places[places]  # (q, NEIGHBOURS)
        # The list of a complete row that has lost neighbours is only complete up to its last one.
        last = np.where(np.isfinite(distances), distances, -np.inf).max(axis=1)
        limits = np.where(self._searched[places], last, distances[:, -1])  # (q,)
        if np.isinf(limits).any() and len(others) >= SAMPLED * NEIGHBOURS:  # a bound from a part of the others
            part = D[:, ::SAMPLED] if axis == 0 else D[::SAMPLED].T
            limits = np.minimum(limits, np.partition(part, NEIGHBOURS - 1, axis=1)[:, NEIGHBOURS - 1])
        hits = np.flatnonzero(np.expand_dims(limits, 1 - axis) >= D)
        offered = D.ravel()[hits]
        position = np.divmod(hits, D.shape[1])
        row, column = position[axis], position[1 - axis]
        # An interrupted update can offer a row twice.
        new = np.isfinite(offered) & ~(known[row] == others[column, None]).any(axis=1)
        row, column, offered = row[new], column[new], offered[new]
        order = np.lexsort((offered, row))
        row, column, offered = row[order], column[order], offered[order]
        rank = np.arange(len(row)) - np.searchsorted(row, row)  # within its row, nearest first
        row, column, offered, rank = (values[rank < NEIGHBOURS] for values in (row, column, offered, rank))
        lists = np.unique(row)
        near, where = np.full((len(lists), NEIGHBOURS), np.inf, np.float32), np.full((len(lists), NEIGHBOURS), -1)
        at = np.searchsorted(lists, row), rank
        near[at], where[at] = offered, others[column]
        before, now = known[lists], _best(np.hstack([distances[lists], near]), np.hstack([known[lists], where]))
        self.distances[places[lists]], self.places[places[lists]] = now
        self.changed[places[lists]] |= (before != now[1]).any(axis=1)


def _distances(Q: Vectors, X: Vectors) -> Vectors:
    """Squared distances (q, m) of rows, by one product."""
    ones = np.ones((max(len(Q), len(X)), 1), np.float32)
    squares = (np.einsum("ij,ij->i", rows, rows)[:, None] for rows in (Q, X))
    left = np.hstack([-2 * Q, ones[: len(Q)], next(squares)])
    D: Vectors = left @ np.hstack([X, next(squares), ones[: len(X)]]).T
    np.maximum(D, 0, out=D)
    return D


def _nearest(Q: Vectors, X: Vectors, k: int) -> tuple[Vectors, NDArray[Any]]:
    """The k nearest rows of X (m, d) to each row of Q (q, d): squared distances (q, k) and row numbers; -1: none."""
    D, found = _faiss().knn(np.ascontiguousarray(Q), np.ascontiguousarray(X), k)
    return np.where(found >= 0, np.maximum(D, 0), np.inf).astype(np.float32), found


def _faiss() -> Any:
    """The library, whose type stubs are incomplete; loaded when it is needed, because that takes a moment."""
    import faiss

    return faiss


def _best(D: Vectors, places: NDArray[Any]) -> tuple[Vectors, NDArray[Any]]:
    """The NEIGHBOURS nearest of each row, nearest first; places at distance infinity become -1."""
    order = np.argsort(D, axis=1, kind="stable")[:, :NEIGHBOURS]
    D, places = np.take_along_axis(D, order, axis=1), np.take_along_axis(places, order, axis=1)
    return D, np.where(np.isinf(D), -1, places).astype(np.int32)
