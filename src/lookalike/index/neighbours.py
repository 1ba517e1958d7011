"""`NeighbourGraph`: the nearest neighbours of every row, kept up to date while rows are added and removed.

The neighbours of a small collection are exact. A large one is divided into cells by k-means, and a row is compared with
the rows of the cells around its own; `recall` measures the share of the true neighbours that this finds.

The work consists of independent tasks: find the nearest of some rows for each of some others (`find_nearest`). A
function like `map` can run them on many machines.
"""

import time
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.errors import DamagedError, StoreError
from lookalike.limits import NEIGHBOURS
from lookalike.types import Ids, Progress, Run, Vectors, silent

GRAPH_BYTES = 8 * NEIGHBOURS + 14
"""Bytes per row of a graph, in memory while it is updated and on disk: places and distances; id, cell and two flags."""

EXACT_MAX = 200_000
"""Maximum number of rows for exact neighbours; also of the rows that a task reads to compare others with."""

TASK_ROWS = 8_192
"""Maximum number of rows whose neighbours a task finds."""

BLOCK_ROWS = 4_096
"""Rows that are compared at a time. With faiss's default, 1,024, threads wait for each other so often that two of them
take twice as much CPU time on a busy machine."""

CELL_ROWS, MAX_CELLS = 1_000, 16_384
"""Rows per cell of a large collection, and the maximum number of cells, because the time of k-means grows with its
square: about 15 minutes of one core for 256 dimensions."""

PROBES = 32
"""The number of nearest cells whose rows a row is compared with, including its own. It is also compared with the cells
that have its own among their nearest ones: about 13 more."""

TRAINING_ROWS, ITERATIONS = 64, 10
"""Rows per cell that k-means uses, and its iterations."""

CHECKPOINT_S, CHECKPOINT_SHARE = 60.0, 0.1
"""Minimum seconds between checkpoints of a long update, and the maximum share of its time that they may take."""

RECALL_ROWS = 100
"""Rows whose neighbours `recall` compares with the true ones."""

Mask: TypeAlias = NDArray[np.bool_]

Rows: TypeAlias = Callable[[Ids], Vectors]
"""Function that returns the rows (m, d) of keys (m,), by default ids."""


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
        self._searched = np.empty(0, np.bool_)  # whether the list of a row is complete
        self._cells = np.empty(0, np.int32)  # the cell of each row; -1: not assigned
        self._centres: Vectors = np.empty((0, 0), np.float32)  # of the cells; empty: the neighbours are exact

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
        keys: Ids | None = None,
        least: int = NEIGHBOURS // 2,
        progress: Progress = silent,
        checkpoint: Callable[[], None] | None = None,
        run: Run = map,
    ) -> None:
        """Make this the graph of the rows with these ids (n,), ascending.

        New rows get neighbours and become neighbours. If a row has fewer than `least` neighbours after a removal, its
        neighbours are searched for again. `checkpoint` is called every minute; an interrupted update continues from
        there. `keys` (n,) are what `rows` takes for each id, by default the ids. `run` is like `map`; it can call
        `rows` in other processes.
        """
        keys = ids if keys is None else keys
        if min(len(self), len(ids)) <= NEIGHBOURS:  # the lists contain all other rows
            self._clear()
        self._set_ids(ids, least)
        self._assign_cells(rows, keys, run, progress)
        neighbourhoods = self._neighbourhoods()
        find = partial(self._find, rows, keys, run)
        new, done = ~self._searched, 0
        total = int(np.count_nonzero(new))
        progress("finding neighbours", done, total)
        # After an interruption, only the rows without a complete list count as new. So complete lists are compared with
        # all new rows first; otherwise they could miss those whose own lists were completed before the interruption.
        for _ in find(_cut(neighbourhoods, ~new, new)):
            progress("finding neighbours", done, total)
        saved_at, pause_s = time.monotonic(), CHECKPOINT_S
        for task in find(_cut(neighbourhoods, new, np.ones_like(new))):
            if task.is_last:
                self._searched[task.searched] = True
                done += len(task.searched)
            progress("finding neighbours", done, total)
            if checkpoint is not None and time.monotonic() > saved_at + pause_s:
                started = time.monotonic()
                checkpoint()
                saved_at = time.monotonic()
                pause_s = max(CHECKPOINT_S, (saved_at - started) / CHECKPOINT_SHARE)

    def recall(self, rows: Rows, *, keys: Ids | None = None, run: Run = map) -> float:
        """Measure the share, 0 to 1, of the true neighbours in the graph, on rows spread over it."""
        keys = self.ids if keys is None else keys
        sample = np.arange(0, len(self), max(1, len(self) // RECALL_ROWS))[:RECALL_ROWS]
        best = np.full((len(sample), NEIGHBOURS), np.inf, np.float32), np.full((len(sample), NEIGHBOURS), -1)
        parts = list(chunks(len(self), 1, EXACT_MAX))
        found = run(partial(find_nearest, rows), ((keys[sample], keys[part]) for part in parts))
        for part, (D, near) in zip(parts, found, strict=True):
            best = _best(np.hstack([best[0], D]), np.hstack([best[1], near + part.start]))
        true = best[1]
        hits = [np.isin(mine, own[own >= 0]).sum() for own, mine in zip(true, self.places[sample], strict=True)]
        return float(np.sum(hits) / max(1, np.count_nonzero(true >= 0)))

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

    def _assign_cells(self, rows: Rows, keys: Ids, run: Run, progress: Progress) -> None:
        """Assign every row to a cell; a small collection has one."""
        n = len(self)
        if n <= EXACT_MAX and self.is_exact:
            self._cells[:] = 0
            return
        cell_count = min(n // CELL_ROWS, MAX_CELLS)
        if 2 * len(self._centres) < cell_count:  # the cells have become too large
            progress("dividing rows into cells", 0, n)
            random = np.random.default_rng(0)
            sample = np.sort(random.choice(n, min(n, TRAINING_ROWS * cell_count), replace=False))
            X = rows(keys[sample])
            options = {"niter": ITERATIONS, "seed": 0, "max_points_per_centroid": TRAINING_ROWS}
            means = _faiss().Kmeans(X.shape[1], cell_count, **options)
            means.train(X)
            self._centres = means.centroids
            self._cells[:] = -1
        unassigned = np.flatnonzero(self._cells < 0)
        parts = [unassigned[part] for part in chunks(len(unassigned), 4 * self._centres.shape[1], 2**26)]
        run = run if len(parts) > 1 else map  # the centres are a large message
        found = run(partial(find_cells, rows, self._centres), (keys[part] for part in parts))
        for part, cells in zip(parts, found, strict=True):
            progress("dividing rows into cells", int(part[0]), n)
            self._cells[part] = cells

    def _neighbourhoods(self) -> list[tuple[Ids, list[Ids]]]:
        """The places in each cell, and those in each of the cells around it.

        The cells around a cell are its nearest ones, and those that have it among their nearest.
        """
        n = max(1, len(self._centres))
        probes = min(PROBES, n)
        near = np.zeros((1, 1), np.int64) if self.is_exact else _nearest(self._centres, self._centres, probes)[1]
        one, other = np.repeat(np.arange(n), near.shape[1]), near.ravel()
        one, other = np.divmod(np.unique(np.concatenate([one * n + other, other * n + one])), n)
        order = np.argsort(self._cells, kind="stable")
        members = np.split(order, np.searchsorted(self._cells[order], np.arange(1, n)))
        around = np.split(other, np.searchsorted(one, np.arange(1, n)))
        return [(own, [members[cell] for cell in cells]) for own, cells in zip(members, around, strict=True)]

    def _find(self, rows: Rows, keys: Ids, run: Run, tasks: Iterator["Task"]) -> Iterator["Task"]:
        """Run tasks, insert the rows that they find into the lists, and yield each finished one."""
        asked: deque[Task] = deque()

        def ask() -> Iterator[tuple[Ids, Ids]]:
            for task in tasks:
                asked.append(task)
                yield keys[task.searched], keys[task.others]

        for D, near in run(partial(find_nearest, rows), ask()):
            task = asked.popleft()
            self._insert(task, D, near)
            yield task

    def _insert(self, task: "Task", D: Vectors, near: NDArray[np.int32]) -> None:
        """Insert the found rows of a task into the lists of its searched rows, if they are nearer."""
        # The list of a complete row that has lost neighbours is only complete up to its last one.
        known = self.distances[task.searched]  # (q, NEIGHBOURS)
        last = np.where(np.isfinite(known), known, -np.inf).max(axis=1)
        limits = np.where(self._searched[task.searched], last, np.inf)[:, None]
        useful = np.flatnonzero(D[:, 0] <= limits[:, 0])
        searched, limits, D, near = task.searched[useful], limits[useful], D[useful], near[useful]
        distances, before = self.distances[searched], self.places[searched]
        found = np.where(near >= 0, task.others[near], -1)
        # An interrupted update can find a row twice.
        is_known = (found[:, :, None] == before[:, None, :]).any(axis=2)
        D = np.where(is_known | (limits < D), np.inf, D)
        self.distances[searched], now = _best(np.hstack([distances, D]), np.hstack([before, found]))
        self.places[searched] = now
        self.changed[searched] |= (before != now).any(axis=1)


class Task(NamedTuple):
    """Find the nearest of `others` for each of `searched`; both are places in a graph."""

    searched: Ids  # (q,)
    others: Ids  # (m,)
    is_last: bool  # whether `searched` have been compared with all rows around them afterwards


def find_cells(rows: Rows, centres: Vectors, keys: Ids) -> NDArray[np.int32]:
    """The nearest of the centres (cells, d) to each of the rows of keys (m,), as numbers (m,)."""
    return _nearest(rows(keys), centres, 1)[1][:, 0].astype(np.int32)


def find_nearest(rows: Rows, keys: tuple[Ids, Ids]) -> tuple[Vectors, NDArray[np.int32]]:
    """The nearest of the rows of the second keys (m,) for each row of the first (q,), except itself.

    Returns squared distances (q, NEIGHBOURS) and positions among the m, nearest first; -1 and infinity: none.
    """
    searched, others = keys
    D, near = _nearest(rows(searched), rows(others), NEIGHBOURS + 1)
    D[others[near] == searched[:, None]] = np.inf
    return _best(D, near)


def _cut(neighbourhoods: list[tuple[Ids, list[Ids]]], searched: Mask, others: Mask) -> Iterator[Task]:
    """Yield the tasks that compare some rows with some others around them, both given by masks (n,)."""
    for own, cells in neighbourhoods:
        if not (searched[own].any() and any(others[cell].any() for cell in cells)):
            continue
        around = np.concatenate(cells)
        own, around = own[searched[own]], around[others[around]]
        for some in chunks(len(own), 1, TASK_ROWS):
            for part in chunks(len(around), 1, EXACT_MAX):
                yield Task(own[some], around[part], part.stop == len(around))


def _nearest(Q: Vectors, X: Vectors, k: int) -> tuple[Vectors, NDArray[Any]]:
    """The k nearest rows of X (m, d) to each row of Q (q, d): squared distances (q, k) and row numbers; -1: none."""
    D, found = _faiss().knn(np.ascontiguousarray(Q), np.ascontiguousarray(X), k)
    return np.where(found >= 0, np.maximum(D, 0), np.inf).astype(np.float32), found


def _faiss() -> Any:
    """The library, whose type stubs are incomplete; loaded when it is needed, because that takes a moment."""
    import faiss

    faiss.cvar.distance_compute_blas_database_bs = BLOCK_ROWS
    return faiss


def _best(D: Vectors, places: NDArray[Any]) -> tuple[Vectors, NDArray[np.int32]]:
    """The NEIGHBOURS nearest of each row, nearest first; places at distance infinity become -1."""
    order = np.argsort(D, axis=1, kind="stable")[:, :NEIGHBOURS]
    D, places = np.take_along_axis(D, order, axis=1), np.take_along_axis(places, order, axis=1)
    return D, np.where(np.isinf(D), -1, places).astype(np.int32)
