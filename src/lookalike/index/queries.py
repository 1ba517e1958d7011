"""What an index can be asked: an object that scores rows.

In: rows X, (m, d) float32. Out: scores, (q, m) float32, smaller is better. Any object with such a `score` is a query;
an index may know a query's class and answer it faster, with the same result.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, to_numpy
from lookalike.errors import InputError
from lookalike.types import Array, Query, Vectors

MAX_LENGTH = 1e18
"""The longest vector whose squared distances still fit into float32."""


class PointQuery:
    """What lies nearest to these points, by squared Euclidean distance.

    Parameters
    ----------
    vectors : (q, d) array, one point per row
        Checked once, here: finite numbers, no row longer than 1e18.

    Examples
    --------
    >>> import numpy as np
    >>> PointQuery(np.eye(2)).score(np.zeros((1, 2), np.float32))
    array([[1.],
           [1.]], dtype=float32)

    """

    def __init__(self, vectors: Array):
        with np.errstate(over="ignore"):  # too long for float32: refused below, in words
            self.vectors: Vectors = to_numpy(check_rows(vectors, name="query"))  # (q, d)
        lengths = np.linalg.norm(self.vectors.astype(np.float64), axis=1)  # (q,)
        if not np.all(lengths <= MAX_LENGTH):
            raise InputError(f"query must have rows at most {MAX_LENGTH:g} long. Got {lengths.max():g}; scale it down.")

    @property
    def dim(self) -> int:
        """The dimension of the points."""
        return int(self.vectors.shape[1])

    def score(self, X: Vectors) -> Vectors:
        """(m, d) to (q, m): ‖x‖² + ‖q‖² − 2 x·q in float32, good to about 1e-6 of (‖x‖ + ‖q‖)², never below 0."""
        scores = X @ (-2.0 * self.vectors.T)  # (m, q)
        scores += np.einsum("ij,ij->i", X, X)[:, None]
        scores += np.einsum("ij,ij->i", self.vectors, self.vectors)
        return np.maximum(scores, 0.0, out=scores).T

    def score_pairs(self, X: Vectors, which: NDArray[np.intp]) -> Vectors:
        """Row i of X against query `which[i]`, (m,): differences in float64, so that equal vectors score exactly 0."""
        differences = np.subtract(X, self.vectors[which], dtype=np.float64)  # (m, d)
        scores: Vectors = np.einsum("ij,ij->i", differences, differences).astype(np.float32)
        return scores


class WeightedQuery:
    """Several queries as one: the sum of their scores, each by its weight.

    Parameters
    ----------
    query : asks q things at once.
    weights : (q,), negative for what is unwanted.

    Examples
    --------
    >>> WeightedQuery(PointQuery(np.eye(2)), [1.0, -0.5]).score(np.zeros((1, 2), np.float32))
    array([[0.5]], dtype=float32)

    """

    def __init__(self, query: Query, weights: Sequence[float]):
        self.query = query
        self.weights: Vectors = np.asarray(weights, np.float32)[None, :]  # (1, q)

    @property
    def dim(self) -> int:
        """That of the queries; 0 where they do not say."""
        return int(getattr(self.query, "dim", 0))

    def score(self, X: Vectors) -> Vectors:
        """(m, d) to (1, m)."""
        scores: Vectors = self.weights @ self.query.score(X)
        return scores
