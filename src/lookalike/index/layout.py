"""Positions in the plane for rows, with neighbouring rows close together: the layout of the map.

`lay_out` is LargeVis (Tang et al., WWW 2016) with the neighbours of `NeighbourGraph`: stochastic gradient descent moves
each row towards its neighbours, and away from random rows. Its time is linear in the number of rows. `place` adds rows
to a layout without moving the others.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from lookalike.arrays import to_numpy
from lookalike.encode import PCA
from lookalike.index.neighbours import NeighbourGraph
from lookalike.types import Progress, Vectors, silent

COMPONENTS = 32
"""Number of principal components in which neighbours are searched: enough to find the right ones, but still fast."""

SAMPLE_ROWS = 5_000
"""Maximum number of rows from which the principal components are computed."""

MOVES, MIN_EPOCHS, MAX_EPOCHS = 20_000_000, 200, 500
"""Each row moves towards each neighbour once per epoch. Small layouts get more epochs, up to MOVES moves."""

NEGATIVES = 5
"""Random rows from which a row moves away whenever it moves towards a neighbour."""

REPULSION = 7.0
"""Weight γ of the moves away, relative to those towards a neighbour: that of the paper."""

START = 10.0
"""Width of the layout at the start; distances of about 1 are those of neighbours."""

MAX_STEP = 4.0
"""Maximum length of a coordinate's step, relative to the learning rate."""

PLACED_BY, NEAR = 3, 0.05
"""Neighbours whose positions are averaged to place a new row, and their maximum distance from the nearest one: if they
belong to different groups, their average would be in the empty space between these."""


def lay_out(X: Vectors, progress: Progress = silent) -> Vectors:
    """Compute positions (n, 2) in the unit square for rows (n, d); the same rows always get the same positions.

    >>> lay_out(np.eye(3, 8, dtype=np.float32)).shape
    (3, 2)
    """
    n = len(X)
    if n < 3:
        return np.linspace(0.25, 0.75, n, dtype=np.float32)[:, None].repeat(2, axis=1)
    with threadpool_limits(1):  # one thread, so that sums have a fixed order
        rows = to_numpy(fit_components(X).transform(X))  # (n, D)
    if not (rows - rows[0]).any():
        return np.full((n, 2), 0.5, np.float32)
    graph = NeighbourGraph()
    graph.update(np.arange(n), lambda numbers: rows[numbers], progress=progress)
    places = np.zeros((n, 2), np.float32)
    places[:, : rows.shape[1]] = rows[:, :2]
    places *= START / np.abs(places).max()
    random = np.random.default_rng(0)
    places += random.normal(scale=1e-3, size=places.shape).astype(np.float32)  # equal rows get different positions
    epochs = int(np.clip(MOVES // graph.places.size, MIN_EPOCHS, MAX_EPOCHS))
    state = random.integers(1, 2**63, 1, np.uint64)
    for epoch in range(epochs):
        progress("drawing a map", epoch, epochs)
        _move_all(places, graph.places, np.float32(1 - epoch / epochs), state)
    progress("drawing a map", epochs, epochs)
    low, high = places.min(axis=0), places.max(axis=0)
    positions: Vectors = ((places - low) / np.maximum(high - low, 1e-9)).astype(np.float32)
    return positions


def place(X: Vectors, others: Vectors, positions: Vectors) -> Vectors:
    """Compute positions (n, 2) for new rows (n, d) from their nearest neighbours among others (m, d), which stay.

    >>> place(np.array([[1.2]], np.float32), np.array([[1.0], [9.0]], np.float32), np.eye(2, dtype=np.float32)).round(2)
    array([[1., 0.]], dtype=float32)
    """
    import faiss

    if len(others) == 1:
        return positions.repeat(len(X), axis=0)
    with threadpool_limits(1):
        pca = fit_components(others)
        rows, known = (to_numpy(pca.transform(these)) for these in (X, others))
        D, near = faiss.knn(rows, known, min(PLACED_BY, len(others)))
    D = np.maximum(D, 0)
    weights = np.exp(1 - D / np.maximum(D[:, :1], 1e-9))  # (n, k): the nearest counts most
    weights[np.linalg.norm(positions[near] - positions[near[:, :1]], axis=2) > NEAR] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    placed: Vectors = (weights[:, :, None] * positions[near]).sum(axis=1).astype(np.float32)
    return placed


def fit_components(X: Vectors) -> PCA:
    """Fit the principal components of rows (n, d), from a sample."""
    return PCA(COMPONENTS).fit(X[:: max(1, len(X) // SAMPLE_ROWS)][:SAMPLE_ROWS])


@njit(cache=True, nogil=True, fastmath=True)
def _move_all(places: Any, near: NDArray[np.int32], rate: Any, state: Any) -> None:
    """Move all rows (n, 2) in place, towards their neighbours (n, k) and away from random rows; one epoch.

    `state` (1,) is that of the random numbers (xorshift).
    """
    n = np.uint64(len(places))
    bits = state[0]
    for i in range(len(places)):
        for j in near[i]:
            if j < 0:
                continue
            dx, dy = places[i, 0] - places[j, 0], places[i, 1] - places[j, 1]
            pull = np.float32(-2) / (np.float32(1) + dx * dx + dy * dy)  # gradient of log 1/(1 + distance²)
            sx, sy = _clip(pull * dx) * rate, _clip(pull * dy) * rate
            places[i, 0] += sx
            places[i, 1] += sy
            places[j, 0] -= sx
            places[j, 1] -= sy
            for _ in range(NEGATIVES):
                bits ^= bits << np.uint64(13)
                bits ^= bits >> np.uint64(7)
                bits ^= bits << np.uint64(17)
                other = ((bits >> np.uint64(32)) * n) >> np.uint64(32)
                dx, dy = places[i, 0] - places[other, 0], places[i, 1] - places[other, 1]
                D = dx * dx + dy * dy
                push = np.float32(2 * REPULSION) / ((np.float32(0.1) + D) * (np.float32(1) + D))
                places[i, 0] += _clip(push * dx) * rate
                places[i, 1] += _clip(push * dy) * rate
    state[0] = bits


@njit(cache=True, nogil=True, fastmath=True)
def _clip(step: Any) -> Any:
    return min(max(step, np.float32(-MAX_STEP)), np.float32(MAX_STEP))
