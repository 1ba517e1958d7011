"""A point of a kernel's feature space as a query: what lies nearest to a row, to a mean of rows, to an SVDD's centre.

In: rows (m, d) and their weights, which add up to 1. Out: scores of rows, distances to the point Σ aᵢφ(xᵢ). Tax and
Duin, "Support vector data description" (2004), Eq. 15; distances as in §3 of fsm-tree.
"""

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, chunks, to_numpy
from lookalike.errors import InputError
from lookalike.index.hyperplane import BALANCED, BLOCK_BYTES
from lookalike.kernels import check_kernel
from lookalike.types import Array, Vectors


class CentreQuery:
    """Rows by their distance to c = Σ aᵢφ(xᵢ): √(K(p, p) − 2 Σ aᵢK(p, xᵢ) + ΣΣ aᵢaⱼK(xᵢ, xⱼ)).

    Parameters
    ----------
    X : (m, d) rows; one row with a = [1] is that row itself.
    a : (m,) their weights. The sum must be 1: only then is the distance defined for the angular kernels too.
    kernel, gamma : see `lookalike.kernels`.

    Attributes
    ----------
    square : ‖c‖² = ΣΣ aᵢaⱼK(xᵢ, xⱼ).

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [-1.0, 0.0]])
    >>> rows = np.array([[0.0, 3.0], [4.0, 0.0]], np.float32)
    >>> CentreQuery(X, [0.5, 0.5], kernel="linear").score(rows)
    array([[3., 4.]], dtype=float32)

    """

    def __init__(self, X: Array, a: Array, *, kernel: str = "laplace", gamma: float = 1.0):
        functions = check_kernel(kernel, gamma)
        self.X: Vectors = to_numpy(check_rows(X, name="rows of the centre"))  # (m, d)
        self.a: NDArray[np.float64] = np.asarray(a, np.float64)  # (m,)
        if self.a.shape != (len(self.X),) or not np.all(np.isfinite(self.a)):
            raise InputError(f"a must be one finite number a row, ({len(self.X)},). Got shape {self.a.shape}.")
        if abs(self.a.sum() - 1) > BALANCED * max(1.0, np.abs(self.a).sum()):
            raise InputError(f"The weights of a centre must add up to 1. Got {self.a.sum():g}.")
        self.kernel, self.gamma = kernel, float(gamma)
        rows = self.X.astype(np.float64)
        self.square = float(self.a @ functions.pairs(rows, rows, self.gamma) @ self.a)

    @property
    def dim(self) -> int:
        """d."""
        return int(self.X.shape[1])

    def distance(self, X: Vectors) -> NDArray[np.float64]:
        """The distance of rows X (m, d), (m,), never below 0."""
        functions = check_kernel(self.kernel, self.gamma)
        squares: NDArray[np.float64] = np.full(len(X), self.square)
        mine = self.X.astype(np.float64)
        for part in chunks(len(X), row_bytes=8 * max(self.dim, len(mine)), max_bytes=BLOCK_BYTES):
            rows = X[part].astype(np.float64)
            squares[part] += functions.diagonal(rows, self.gamma)
            squares[part] -= 2 * functions.pairs(rows, mine, self.gamma) @ self.a
        np.maximum(squares, 0.0, out=squares)  # rounding; and gaussian-l1, whose squares may really be below 0
        return np.sqrt(squares, out=squares)

    def score(self, X: Vectors) -> Vectors:
        """(m, d) to (1, m) float32, smaller is better."""
        return self.distance(X)[None, :].astype(np.float32)
