"""The hyperplane of an SVM as a query: what it is least sure of, or surest of.

In: the support vectors, their coefficients and the bias. Out: scores of rows, distances to the hyperplane in the
kernel's feature space. Crucianu, Estevez, Oria, Tarel, "Speeding up active relevance feedback with approximate kNN
retrieval for hyperplane queries" (fsm-tree), Eq. 3 and 4.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, chunks, to_numpy
from lookalike.errors import InputError, NoDirectionError, UnknownNameError
from lookalike.kernels import check_kernel
from lookalike.types import Array, Vectors

Kind = Literal["frontier", "maximum"]
BLOCK_BYTES = 2**20
"""What `distance` holds of kernels at a time: as much as stays in a processor's cache is quickest."""
BALANCED = 1e-6
"""How far from 0 the sum of the coefficients may be, as a share of their size, where a kernel asks for 0."""


class HyperplaneQuery:
    """Rows by their distance to f(p) = Σ aᵢK(p, xᵢ) + b = 0: |f| / ‖w‖ (frontier) or −f / ‖w‖ (maximum).

    Parameters
    ----------
    X : (m, d) support vectors.
    a : (m,) their coefficients αᵢyᵢ. For the angular kernels their sum must be 0, as an SVM with a bias has it:
        otherwise ‖w‖ is not defined.
    b : the bias.
    kernel, gamma : see `lookalike.kernels`.
    kind : "frontier", the most ambiguous rows first, or "maximum", the most positive first.

    Attributes
    ----------
    length : ‖w‖, with ‖w‖² = ΣΣ aᵢaⱼK(xᵢ, xⱼ). Eq. 4, fsm-tree.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [-1.0, 0.0]])
    >>> rows = np.array([[0.5, 9.0], [3.0, 0.0]], np.float32)
    >>> HyperplaneQuery(X, [0.5, -0.5], 0.0, kernel="linear", kind="maximum").score(rows)
    array([[-0.5, -3. ]], dtype=float32)

    """

    def __init__(
        self,
        X: Array,
        a: Array,
        b: float,
        *,
        kernel: str = "laplace",
        gamma: float = 1.0,
        kind: Kind = "frontier",
    ):
        functions = check_kernel(kernel, gamma)
        if kind not in get_args(Kind):
            raise UnknownNameError("kind", kind, get_args(Kind))
        self.X: Vectors = to_numpy(check_rows(X, name="support vectors"))  # (m, d)
        self.a: NDArray[np.float64] = np.asarray(a, np.float64)  # (m,)
        if self.a.shape != (len(self.X),) or not np.all(np.isfinite(self.a)) or not np.isfinite(b):
            raise InputError(f"a must be one finite number a support vector, ({len(self.X)},), and b one more.")
        if functions.balanced and abs(self.a.sum()) > BALANCED * np.abs(self.a).sum():
            raise InputError(f"For the {kernel} kernel the coefficients must add up to 0. Got {self.a.sum():g}.")
        self.b, self.kernel, self.gamma, self.kind = float(b), kernel, float(gamma), kind
        rows = self.X.astype(np.float64)
        square = float(self.a @ functions.pairs(rows, rows, self.gamma) @ self.a)
        if not 0 < square < np.inf:
            raise NoDirectionError(f"The hyperplane has no direction: its ‖w‖² is {square:g}, not above 0.")
        self.length = square**0.5

    @property
    def dim(self) -> int:
        """d."""
        return int(self.X.shape[1])

    def of_kind(self, kind: Kind) -> "HyperplaneQuery":
        """The same hyperplane, asked the other way."""
        return HyperplaneQuery(self.X, self.a, self.b, kernel=self.kernel, gamma=self.gamma, kind=kind)

    def distance(self, X: Vectors) -> NDArray[np.float64]:
        """f / ‖w‖ of rows X (m, d), (m,): positive on the side of what is wanted. Eq. 3, fsm-tree."""
        pairs = check_kernel(self.kernel, self.gamma).pairs
        f: NDArray[np.float64] = np.full(len(X), self.b)
        mine = self.X.astype(np.float64)
        for part in chunks(len(X), row_bytes=8 * max(self.dim, len(mine)), max_bytes=BLOCK_BYTES):
            f[part] += pairs(X[part].astype(np.float64), mine, self.gamma) @ self.a
        f /= self.length
        return f

    def score(self, X: Vectors) -> Vectors:
        """(m, d) to (1, m) float32, smaller is better."""
        distance = self.distance(X)
        return (np.abs(distance) if self.kind == "frontier" else -distance)[None, :].astype(np.float32)
