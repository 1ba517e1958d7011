"""`NeighbourGraph`: the nearest neighbours of every row, kept up to date while rows are added and removed.

The neighbours of a small collection are exact. A large one is divided into cells by k-means, and a row is compared with
the rows of the cells around its own; `recall` measures the share of the true neighbours that this finds.
"""

import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.errors import DamagedError, StoreError
from lookalike.types import Ids, Progress, Vectors, silent

LISTED = 10
"""Neighbours per row: twice as many as `smooth` uses, so that removals rarely require a new search."""

EXACT_MAX = 200_000
"""Maximum number of rows for exact neighbours."""

CELL_ROWS, PROBES = 1_000, 32
"""Rows per cell of a large collection, and the number of cells that a row is compared with, including its own."""

TRAINING_ROWS, ITERATIONS = 64, 10
"""Rows per cell that k-means uses, and its iterations."""

QUERY_ROWS = 4_096
"""Rows that are searched for together."""

CHECKPOINT_S = 60.0
"""Seconds between checkpoints of a long update."""

RECALL_ROWS = 100
"""Rows whose neighbours `recall` compares with the true ones."""

Rows: TypeAlias = Callable[[Ids], Vectors]
"""Function that returns the rows (m, d) of ids (m,)."""


class NeighbourGraph:
    """The nearest neighbours of rows by Euclidean distance: 93 bytes per row.

    Attributes
    ----------
    ids : (n,) ascending.
    places : (n, LISTED) int32, the places in `ids` of the neighbours of each row, nearest first; -1: none.
    distances : (n, LISTED) float32, their squared distances; infinity: none.
    changed : (n,) the rows whose neighbours have changed; the user of the graph resets it.

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
        self.places = np.empty((0, LISTED), np.int32)
        self.distances = np.empty((0, LISTED), np.float32)
        self.changed = np.empty(0, np.bool_)
        self._cells = np.empty(0, np.int32)  # the cell of each row; -1: not assigned
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
        return len(self) < 2 or not bool(np.isinf(self.distances[:, 0]).any())

    def update(
        self,
        ids: Ids,
        rows: Rows,
        *,
        least: int = LISTED // 2,
        progress: Progress = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> None:
        """Make this the graph of the rows with these ids (n,), ascending.

        New rows get neighbours and become neighbours. A row that has lost neighbours is searched for again if fewer
        than `least` are left. `checkpoint` is called every minute; an interrupted update continues from there.
        """
        if min(len(self), len(ids)) <= LISTED:  # the lists contain all other rows
            self._clear()
        self._set_ids(ids, least)
        searched = np.isfinite(self.distances[:, 0])
        to_search = np.flatnonzero(~searched)
        self._divide(rows)
        saved_at, done = time.monotonic(), 0
        for cell in np.unique(self._cells[to_search]).tolist():
            new = to_search[self._cells[to_search] == cell]
            around = np.flatnonzero(np.isin(self._cells, self._nearest_cells(cell)))
            X = rows(self.ids[around])  # (m, d)
            before = np.flatnonzero(searched[around])
            X_before = X[before]
            for part in chunks(len(new), 1, QUERY_ROWS):
                progress("finding neighbours", done, len(to_search))
                Q = X[np.searchsorted(around, new[part])]  # (q, d)
                self._set_neighbours(new[part], around, *_nearest(Q, X, LISTED + 1))
                if len(before):
                    self._offer(around[before], new[part], *_nearest(X_before, Q, LISTED))
                done += part.stop - part.start
                if checkpoint is not None and time.monotonic() > saved_at + CHECKPOINT_S:
                    checkpoint()
                    saved_at = time.monotonic()
        progress("finding neighbours", len(to_search), len(to_search))

    def recall(self, rows: Rows) -> float:
        """Measure the share, 0 to 1, of the true neighbours in the graph, on rows spread over it."""
        sample = np.arange(0, len(self), max(1, len(self) // RECALL_ROWS))[:RECALL_ROWS]
        Q = rows(self.ids[sample])
        best = np.full((len(sample), LISTED), np.inf, np.float32), np.full((len(sample), LISTED), -1)
        for part in chunks(len(self), 4 * Q.shape[1], 2**27):
            D, places = _nearest(Q, rows(self.ids[part]), LISTED + 1)
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
                graph._cells, graph._centres = file["cells"], file["centres"]
            n = len(graph)
            shapes = [graph.places.shape, graph.distances.shape, graph.changed.shape, graph._cells.shape]
            if shapes != [(n, LISTED), (n, LISTED), (n,), (n,)] or graph.places.max(initial=-1) >= n:
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
        short = np.isinf(distances[:, min(least, LISTED) - 1])
        distances[short], places[short] = np.inf, -1
        at = new_places[kept]
        changed, cells = self.changed[kept] | lost.any(axis=1), self._cells[kept]
        n = len(ids)
        self.ids = ids
        self.places, self.distances = np.full((n, LISTED), -1, np.int32), np.full((n, LISTED), np.inf, np.float32)
        self.changed, self._cells = np.ones(n, np.bool_), np.full(n, -1, np.int32)
        self.places[at], self.distances[at], self.changed[at], self._cells[at] = places, distances, changed, cells

    def _divide(self, rows: Rows) -> None:
        """Assign every row to a cell; a small collection has one."""
        n = len(self)
        if n <= EXACT_MAX and self.is_exact:
            self._cells[:] = 0
            return
        if 2 * CELL_ROWS * len(self._centres) < n:  # the cells have become too large
            wanted = n // CELL_ROWS
            random = np.random.default_rng(0)
            sample = np.sort(random.choice(n, min(n, TRAINING_ROWS * wanted), replace=False))
            X = rows(self.ids[sample])
            means = _faiss().Kmeans(X.shape[1], wanted, niter=ITERATIONS, seed=0, max_points_per_centroid=TRAINING_ROWS)
            means.train(X)
            self._centres = means.centroids
            self._cells[:] = -1
        unassigned = np.flatnonzero(self._cells < 0)
        for part in chunks(len(unassigned), 4 * self._centres.shape[1], 2**26):
            _, cells = _nearest(rows(self.ids[unassigned[part]]), self._centres, 1)
            self._cells[unassigned[part]] = cells[:, 0]

    def _nearest_cells(self, cell: int) -> NDArray[np.intp]:
        if self.is_exact:
            return np.zeros(1, np.intp)
        distances = ((self._centres - self._centres[cell]) ** 2).sum(axis=1)
        return np.argsort(distances, kind="stable")[:PROBES]

    def _set_neighbours(self, new: Ids, around: Ids, D: Vectors, found: NDArray[Any]) -> None:
        """Set the lists of rows to those found (q, LISTED + 1) among the places `around`."""
        places = np.where(found >= 0, around[found], -1)
        D[(places == new[:, None]) | (places < 0)] = np.inf
        D, places = _best(D, places)
        self.distances[new], self.places[new], self.changed[new] = D, places, True

    def _offer(self, existing: Ids, new: Ids, D: Vectors, found: NDArray[Any]) -> None:
        """Insert new rows into the lists of existing rows, for which they were found (m, LISTED), if they are near."""
        places = np.where(found >= 0, new[found], -1)
        known = self.places[existing]  # (m, LISTED)
        distances = self.distances[existing]
        # A list that has lost neighbours is complete only up to its last one.
        last = np.where(np.isfinite(distances), distances, -np.inf).max(axis=1, keepdims=True)
        D[(places < 0) | (last <= D) | (places[:, :, None] == known[:, None, :]).any(axis=2)] = np.inf
        better = np.isfinite(D).any(axis=1)
        merged = _best(np.hstack([distances, D])[better], np.hstack([known, places])[better])
        self.distances[existing[better]], self.places[existing[better]] = merged
        self.changed[existing[better]] = True


def _nearest(Q: Vectors, X: Vectors, k: int) -> tuple[Vectors, NDArray[Any]]:
    """The k nearest rows of X (m, d) to each row of Q (q, d): squared distances (q, k) and row numbers; -1: none."""
    D, found = _faiss().knn(np.ascontiguousarray(Q), np.ascontiguousarray(X), k)
    return np.where(found >= 0, np.maximum(D, 0), np.inf).astype(np.float32), found


def _faiss() -> Any:
    """The library, whose type stubs are incomplete; loaded when it is needed, because that takes a moment."""
    import faiss

    return faiss


def _best(D: Vectors, places: NDArray[Any]) -> tuple[Vectors, NDArray[Any]]:
    """The LISTED nearest of each row, nearest first; places at distance infinity become -1."""
    order = np.argsort(D, axis=1, kind="stable")[:, :LISTED]
    D, places = np.take_along_axis(D, order, axis=1), np.take_along_axis(places, order, axis=1)
    return D, np.where(np.isinf(D), -1, places).astype(np.int32)
