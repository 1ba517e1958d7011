"""The neighbour graph of a space, and the smoothed rows that are computed from it.

A space whose chain ends in `smooth` stores two sets of rows: its own, which feedback and classes use, and the smoothed
ones, which answer searches. Adding or removing pictures changes the neighbours of a few others;
`update_smoothed` rewrites only their smoothed rows. Functions that write need the writer lock.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from lookalike.arrays import chunks
from lookalike.collection.indexes import NEIGHBOURS_SUFFIX
from lookalike.collection.space import Space
from lookalike.errors import DamagedError
from lookalike.index.neighbours import NeighbourGraph
from lookalike.registry import create
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
    ids, rows = space.row_ids(), space.rows.vectors

    def save() -> None:
        file = _write(space, graph)
        with space.store.transaction():
            vectors.structures.set(space.name, "neighbours", file)

    graph.update(ids, rows, least=step.k, progress=progress, checkpoint=save)
    recall = None if graph.is_exact else graph.recall(rows)
    stale = graph.ids[graph.changed | ~np.isin(graph.ids, stored, assume_unique=True)]
    replaces_all = 2 * len(stale) > len(ids)
    pendings = list(_average(space, step, graph, ids if replaces_all else stale, progress))
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


def _average(space: Space, step: "Smooth", graph: NeighbourGraph, ids: Ids, progress: Progress) -> Iterator[Pending]:
    """Write segments with the smoothed rows of these ids, ascending."""
    rows = space.rows.vectors
    done = 0
    for segment in chunks(len(ids), 1, SEGMENT_ROWS):
        parts: list[Vectors] = []
        for part in chunks(segment.stop - segment.start, 4 * (step.k + 2) * (space.rows.dim or 1), AVERAGED_BYTES):
            progress(f"smoothing {space.name}", done, len(ids))
            some = ids[segment][part]
            places = graph.places[np.searchsorted(graph.ids, some), : step.k]  # (m, k)
            near, inverse = np.unique(places[places >= 0], return_inverse=True)
            neighbours = np.zeros((*places.shape, space.rows.dim or 1), np.float32)  # (m, k, d)
            neighbours[places >= 0] = rows(graph.ids[near])[inverse]
            parts.append(step.average(rows(some), neighbours))
            done += len(some)
        yield space.store.vectors.write(space.smoothed_name, ids[segment], np.concatenate(parts))
    progress(f"smoothing {space.name}", len(ids), len(ids))
