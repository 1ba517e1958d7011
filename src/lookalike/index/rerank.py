"""k-reciprocal re-ranking: a result that shares neighbours with the query is better than one that is only near it.

Zhong et al., "Re-ranking person re-identification with k-reciprocal encoding", CVPR 2017, with the paper's parameters.
"""

import numpy as np
from numpy.typing import NDArray

from lookalike.types import Vectors

NEIGHBOURS, EXPANSION = 20, 6
"""k1 and k2 of the paper: neighbours that must be reciprocal, and neighbours whose encodings are averaged."""

OVERLAP = 2 / 3
"""Share of a neighbour's reciprocal neighbours that must be those of the row, so that the others are added too."""

DISTANCE_WEIGHT = 0.3
"""λ of the paper: weight of the original distance."""


def rerank(query: Vectors, X: Vectors) -> NDArray[np.float64]:
    """Distances (m,), 0 to 1, of rows X (m, d) from a query (d,), by the neighbours that both share among X.

    >>> X = np.array([[0.1, 0], [0.3, 0], [5, 5]], np.float32)
    >>> rerank(np.zeros(2, np.float32), X).argsort().tolist()
    [0, 1, 2]
    """
    rows = np.concatenate([query[None], X]).astype(np.float64)  # (m + 1, d), the query first
    squares = np.einsum("ij,ij->i", rows, rows)
    D = np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0)  # (m + 1, m + 1)
    D /= np.maximum(D.max(axis=1, keepdims=True), 1e-30)
    rank = D.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")  # 0: usually the row itself
    reciprocal, half = (_reciprocal(rank, k) for k in (NEIGHBOURS, NEIGHBOURS // 2))
    # Add the closest reciprocal neighbours of a reciprocal neighbour if most of them are also those of the row.
    shared = reciprocal.astype(np.float32) @ half.T.astype(np.float32)  # (row, neighbour)
    accepted = reciprocal & (shared >= OVERLAP * half.sum(axis=1))
    expanded = reciprocal | (accepted.astype(np.float32) @ half.astype(np.float32) > 0)
    V = np.exp(-D) * expanded
    V /= V.sum(axis=1, keepdims=True)  # each row is its own reciprocal neighbour
    near = rank < EXPANSION
    V = near @ V / near.sum(axis=1, keepdims=True)
    common = np.minimum(V[0], V[1:]).sum(axis=1)
    jaccard = np.maximum(1 - common / (2 - common), 0)
    distances: NDArray[np.float64] = (1 - DISTANCE_WEIGHT) * jaccard + DISTANCE_WEIGHT * D[0, 1:]
    return distances


def _reciprocal(rank: NDArray[np.intp], k: int) -> NDArray[np.bool_]:
    """Which pairs of rows are among each other's k nearest; each row is paired with itself."""
    near = rank <= k
    np.fill_diagonal(near, True)
    return near & near.T
