"""`Smooth`: average each stored vector with its nearest neighbours, so that searches rank by neighbourhoods.

"Database-side feature augmentation": Turcot & Lowe, "Better matching with fewer features", ICCV Workshops 2009; with
weights by similarity: Gordo et al., "End-to-end learning of deep visual representations for image retrieval", 2017.
"""

from numbers import Integral
from typing import Self

import numpy as np

from lookalike.arrays import to_numpy, unit_rows
from lookalike.encode.whiten import L2
from lookalike.limits import NEIGHBOURS, NOT_NEGATIVE, check_number
from lookalike.types import Array, Vectors


class Smooth(L2):
    """Averages of each stored vector with its nearest neighbours; must be the last step of a pipeline.

    A collection stores x + Σ max(0, ⟨x, xᵢ⟩)^alpha · xᵢ over the k nearest neighbours xᵢ of x, scaled to unit length
    (`average`). A new picture is not averaged: `transform` only scales rows to unit length, so a search takes as long
    as without this step.

    Parameters
    ----------
    k : number of neighbours, 1 to 10.
    alpha : exponent of the similarity: with 0 all neighbours have the same weight, with large values only very similar
        ones count.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0]], np.float32)
    >>> Smooth().average(X, np.array([[[0.8, 0.6], [-1.0, 0.0]]], np.float32)).round(3)
    array([[0.977, 0.213]], dtype=float32)

    """

    def __init__(self, k: int = 5, alpha: float = 3.0):
        self.k = k
        self.alpha = alpha

    def fit(self, X: Array, y: Array | None = None) -> Self:
        """Check the parameters and X; nothing is learned."""
        check_number("k", self.k, Integral, f"a whole number from 1 to {NEIGHBOURS}", 1, NEIGHBOURS)
        check_number("alpha", self.alpha, *NOT_NEGATIVE)
        return super().fit(X, y)

    def average(self, X: Vectors, neighbours: Vectors) -> Vectors:
        """Average rows of unit length, (n, d), with their neighbours, (n, k, d); rows of zeros have no weight."""
        weights = np.maximum(np.einsum("ij,ikj->ik", X, neighbours), 0) ** self.alpha  # (n, k)
        weights[~neighbours.any(axis=2)] = 0  # 0 to the power 0 is 1
        return to_numpy(unit_rows(X + np.einsum("ik,ikj->ij", weights, neighbours))).astype(np.float32)
