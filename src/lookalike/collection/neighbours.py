"""The neighbour graph of a space, and the smoothed rows that are computed from it.

A space whose chain ends in `smooth` stores two sets of rows: its own, which feedback and classes use, and the smoothed
ones, which answer searches. Adding or removing pictures changes the neighbours of a few others;
`update_smoothed` rewrites only their smoothed rows. The executor of the space compares and averages rows; this process
divides them into cells and writes. Functions that write need the writer lock.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.collection.indexes import NEIGHBOURS_SUFFIX
from lookalike.collection.space import Space
from lookalike.errors import DamagedError
from lookalike.index.neighbours import NeighbourGraph
from lookalike.registry import create
from lookalike.scaled_rows import ScaledRows
from lookalike.store.segments import StoredRows
from lookalike.store.vectors import Pending
from lookalike.types import Ids, Progress, Vectors

if TYPE_CHECKING:  # scikit-learn is loaded when a graph is needed
    from lookalike.encode.smooth import Smooth

SEGMENT_ROWS = 262_144
AVERAGED_BYTES = 64 * 2**20
"""Maximum number of smoothed rows per segment, and bytes of the neighbours' rows in memory."""


def update_smoothed(spaces: Iterable[Space], progress: Progress) -> None:
    """Update the neighbour graphs and smoothed rows of those spaces that need them."""
    for space in spaces:
        if space.needs_smoothed_rows:
            _update(space, progress)


def load_graph(space: Space) -> NeighbourGraph:
    """The neighbour graph of a space; empty if it does not exist or is damaged."""
    structure = space.store.vectors.structures.get(space.name, "neighbours")
    if structure is not None:
        with suppress(DamagedError):
            return NeighbourGraph.load(space.store.path / "indexes" / structure.file)
    return NeighbourGraph()


def _update(space: Space, progress: Progress) -> None:
    vectors, smoothed = space.store.vectors, space.smoothed_name
    step: Smooth = create("transform", space.specs[-1])
    ids = space.row_ids()
    graph = load_graph(space)
    if smoothed not in vectors.spaces():
        with space.store.transaction():
            vectors.create_space(smoothed, space.specs, space.name)
    stored = vectors.live_ids(smoothed)
    same = np.array_equal(ids, graph.ids) and np.array_equal(ids, stored)
    if same and graph.is_complete and not graph.changed.any():
        return
    vectors.quarantine_damaged(space.name, progress=progress)
    ids, numbers, rows = space.stored_rows()
    run = space.executor.map

    def save() -> None:
        file = _write(space, graph)
        with space.store.transaction():
            vectors.structures.set(space.name, "neighbours", file)

    graph.update(ids, rows, keys=numbers, least=step.k, progress=progress, checkpoint=save, run=run)
    recall = None if graph.is_exact else graph.recall(rows, keys=numbers, run=run)
    stale = np.flatnonzero(graph.changed | ~np.isin(ids, stored, assume_unique=True))
    replaces_all = 2 * len(stale) > len(ids)
    places = np.arange(len(ids)) if replaces_all else stale
    pendings = list(_write_averages(space, graph, numbers, rows, places, progress))
    graph.changed[:] = False
    file = _write(space, graph)
    with space.store.transaction():
        if replaces_all:
            vectors.replace(smoothed, pendings, model=None, fitted_on=None)
        else:
            for pending in pendings:
                vectors.commit(pending, overwrite=True)
        vectors.structures.set(space.name, "neighbours", file, recall)
    vectors.merge(smoothed)


def _write(space: Space, graph: NeighbourGraph) -> str:
    target = space.store.vectors.new_file("indexes", NEIGHBOURS_SUFFIX)
    graph.save(target)
    return space.store.vectors.put_in_place(target)


def _write_averages(
    space: Space, graph: NeighbourGraph, numbers: NDArray[Any], rows: StoredRows, places: Ids, progress: Progress
) -> Iterator[Pending]:
    """Write segments with the smoothed rows at these places of the graph, ascending."""
    step: Smooth = create("transform", space.specs[-1])
    row_bytes = 4 * (step.k + 2) * rows.dim
    parts = [places[part] for part in chunks(len(places), row_bytes, AVERAGED_BYTES)]
    near = graph.places[:, : step.k]  # (n, k)
    tasks = ((numbers[part], np.where(near[part] >= 0, numbers[near[part]], -1)) for part in parts)
    averages = space.executor.map(partial(average, step, rows), tasks)
    done = 0
    for segment in chunks(len(parts), 1, max(1, SEGMENT_ROWS * row_bytes // AVERAGED_BYTES)):
        found: list[Vectors] = []
        for part in parts[segment]:
            progress(f"smoothing {space.name}", done, len(places))
            found.append(next(averages))
            done += len(part)
        ids = graph.ids[np.concatenate(parts[segment])]
        yield space.store.vectors.write(space.smoothed_name, ids, ScaledRows.encode(np.concatenate(found)))
    progress(f"smoothing {space.name}", len(places), len(places))


def average(step: "Smooth", rows: StoredRows, numbers: tuple[NDArray[Any], NDArray[Any]]) -> Vectors:
    """Average rows with their neighbours, given by numbers (m,) and (m, k), where -1 is none; can run on a worker."""
    own, near = numbers
    listed = near >= 0
    unique, inverse = np.unique(near[listed], return_inverse=True)
    neighbours = np.zeros((*near.shape, rows.dim), np.float32)  # (m, k, d)
    neighbours[listed] = rows(unique)[inverse]
    return step.average(rows(own), neighbours)
