"""k-means by faiss, the start of every vocabulary.

In: (n, d) rows, NumPy or torch. Out: (k, d) float32 centres and the mean squared distance to them.
Lloyd, "Least squares quantization in PCM", IEEE Trans. Information Theory 1982.
"""

from typing import Any

import faiss as _faiss
import numpy as np

from lookalike.arrays import namespace, to_numpy
from lookalike.errors import InputError
from lookalike.types import Array, Vectors

faiss: Any = _faiss  # its stubs know only a part of it

ROWS_PER_CENTRE = 256
"""More rows than this move a centre by little: what is beyond is left out by lot."""
ITERATIONS = 25


def kmeans(X: Array, k: int, random_state: int = 0, iterations: int = ITERATIONS) -> tuple[Vectors, float]:
    """k centres of rows X (n, d), n ≥ k: the same bytes for the same rows, seed and number of threads.

    >>> centres, distance = kmeans(np.array([[0.0], [2.0], [10.0], [12.0]]), 2)
    >>> sorted(centres.ravel().tolist()), distance
    ([1.0, 11.0], 1.0)
    """
    n, d = X.shape
    if n < k:
        raise InputError(f"k must be at most {n} (the number of rows). Got {k}.")
    random = np.random.default_rng(random_state)
    if n > k * ROWS_PER_CENTRE:
        xp = namespace(X)
        X = X[xp.asarray(np.sort(random.choice(n, k * ROWS_PER_CENTRE, replace=False)))]
    rows = to_numpy(X)
    found = faiss.Kmeans(
        d,
        k,
        niter=iterations,
        seed=int(random.integers(2**31)),
        min_points_per_centroid=1,  # it would print a warning
        max_points_per_centroid=ROWS_PER_CENTRE,
    )
    found.train(rows)
    return np.asarray(found.centroids, np.float32).reshape(k, d), float(found.obj[-1]) / len(rows)
