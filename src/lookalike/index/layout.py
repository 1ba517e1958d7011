"""Positions in the plane for rows, with neighbouring rows close together: the layout of the map.

`lay_out` is LargeVis (Tang et al., WWW 2016) with the neighbours of `NeighbourGraph`: stochastic gradient descent moves
each row towards its neighbours, and away from random rows. Its time is linear in the number of rows. `place` adds rows
to a layout without moving the others.
"""

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from lookalike import encode
from lookalike.arrays import to_numpy
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
    for epoch in range(epochs):
        progress("drawing a map", epoch, epochs)
        _move_all(places.view(np.complex64)[:, 0], graph.places, np.float32(1 - epoch / epochs), random)
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


def fit_components(X: Vectors) -> "encode.PCA":
    """Fit the principal components of rows (n, d), from a sample."""
    sample = X[:: max(1, len(X) // SAMPLE_ROWS)][:SAMPLE_ROWS]
    return encode.PCA(max(1, min(COMPONENTS, len(sample) - 1, X.shape[1]))).fit(sample)


def _move_all(
    places: NDArray[np.complex64], near: NDArray[np.int32], rate: np.float32, random: np.random.Generator
) -> None:
    """Move all rows (n,) in place, towards their neighbours (n, k) and away from random rows; one epoch.

    Positions are complex numbers x + iy. All rows move at the same time, towards one of their neighbours after another.
    """
    n, k = near.shape
    others = random.integers(0, n, (k, NEGATIVES, n), np.int32)
    for j in range(k):
        rows = np.flatnonzero(near[:, j] >= 0)  # (m,); rows without a j-th neighbour stay
        to = near[rows, j]
        D = places[rows] - places[to]  # (m,)
        pull = _limit(D * (np.float32(-2) / (1 + _squares(D))), rate)  # gradient of log 1/(1 + distance²)
        own = places[rows] + pull
        D = own - places[others[j].take(rows, axis=1)]  # (NEGATIVES, m)
        squares = _squares(D)
        D *= np.float32(2 * REPULSION) / ((np.float32(0.1) + squares) * (1 + squares))
        places[rows] = own + _limit(D, rate).sum(axis=0)
        for part, steps in ((places.real, pull.real), (places.imag, pull.imag)):
            part -= np.bincount(to, steps, n).astype(np.float32)  # the neighbours move as well


def _squares(D: NDArray[np.complex64]) -> Vectors:
    squares: Vectors = D.real**2 + D.imag**2
    return squares


def _limit(steps: NDArray[np.complex64], rate: np.float32) -> NDArray[np.complex64]:
    """Limit the coordinates of steps to MAX_STEP and multiply them by the learning rate, in place."""
    coordinates = steps.view(np.float32)
    np.clip(coordinates, -MAX_STEP, MAX_STEP, out=coordinates)
    coordinates *= rate
    return steps
