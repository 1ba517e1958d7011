"""Queries: objects that score the rows of an index.

A query is any object with a method `score(X)` from rows (m, d) float32 to scores (q, m) float32, smaller is better.
Some indexes answer these classes faster, with the same result:

    PointQuery        the rows nearest to given points
    CodedQuery        the same, for an index of codes whose vectors are available
    WeightedQuery     a weighted sum of other queries
    HyperplaneQuery   the most ambiguous rows of an SVM, or the highest-scoring ones
    CentreQuery       the rows nearest to a point of a kernel's feature space

`check_search` checks the arguments of every index's `search`.
"""

from collections.abc import Iterator, Sequence
from math import inf
from numbers import Real
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, chunks, to_numpy
from lookalike.errors import InputError, NoDirectionError, UnknownNameError
from lookalike.index.ids import sort_ids
from lookalike.kernels import Kernel, check_kernel
from lookalike.limits import check_count
from lookalike.types import Array, Ids, Query, Vectors

Numbers: TypeAlias = NDArray[np.float64]

EFFORTS = ("exact", "balanced", "fast")
"""Names for `effort` in every index; a number above 0 is also allowed."""

MAX_LENGTH = 1e18
"""The longest vector whose squared distances still fit into float32."""

Kind = Literal["frontier", "maximum"]
"""Kind of a hyperplane query: the rows nearest to the hyperplane, or farthest on its positive side."""

BLOCK_BYTES = 2**20
"""Size of the kernel values computed at a time; fastest if they stay in the cache."""

BALANCED = 1e-6
"""Tolerance of the sum of coefficients, relative to their size."""


class PointQuery:
    """The rows nearest to given points, by squared Euclidean distance.

    Parameters
    ----------
    vectors : (q, d) array, one point per row
        Must be finite, with rows of length 1e18 or less.

    Examples
    --------
    >>> import numpy as np
    >>> PointQuery(np.eye(2)).score(np.zeros((1, 2), np.float32))
    array([[1.],
           [1.]], dtype=float32)

    """

    def __init__(self, vectors: Array):
        checked = check_rows(vectors, name="query")
        if getattr(checked, "dtype", None) == np.float32:
            self.vectors: Vectors = to_numpy(checked)  # (q, d)
        else:
            with np.errstate(over="ignore"):  # rows too long for float32 are rejected below
                self.vectors = to_numpy(checked)
        lengths = np.sqrt(np.einsum("ij,ij->i", self.vectors, self.vectors, dtype=np.float64))  # (q,)
        if lengths.max(initial=0.0) > MAX_LENGTH:
            raise InputError(
                f"query must have rows of length at most {MAX_LENGTH:g}. Got {lengths.max():g}; scale it down."
            )

    @property
    def dim(self) -> int:
        """The dimension of the points."""
        return int(self.vectors.shape[1])

    def score(self, X: Vectors) -> Vectors:
        """Return ‖x‖² + ‖q‖² − 2 x·q, (q, m) float32, at least 0; the error is about 1e-6 of (‖x‖ + ‖q‖)²."""
        scores = X @ (-2.0 * self.vectors.T)  # (m, q)
        scores += np.einsum("ij,ij->i", X, X)[:, None]
        scores += np.einsum("ij,ij->i", self.vectors, self.vectors)
        return np.maximum(scores, 0.0, out=scores).T

    def score_pairs(self, X: Vectors, which: NDArray[np.intp]) -> Vectors:
        """Score row i of X for query `which[i]`, (m,), from float64 differences: equal vectors score exactly 0."""
        differences = np.subtract(X, self.vectors[which], dtype=np.float64)  # (m, d)
        scores: Vectors = np.einsum("ij,ij->i", differences, differences).astype(np.float32)
        return scores


class CodedQuery(PointQuery):
    """The rows nearest to given points, with a query for the shortlist by codes. See `Coded`.

    Parameters
    ----------
    vectors : (q, d) array, one point per row
    codes : the coder's query for these points

    """

    def __init__(self, vectors: Array, codes: Query):
        super().__init__(vectors)
        self.codes = codes


class WeightedQuery:
    """A query whose score is the weighted sum of the scores of several queries.

    Parameters
    ----------
    query : a query with q rows of scores.
    weights : (q,), negative for negative examples.

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
        """The dimension of the queries; 0 if unknown."""
        return int(getattr(self.query, "dim", 0))

    def score(self, X: Vectors) -> Vectors:
        """Return the scores (1, m) of rows X (m, d)."""
        scores: Vectors = self.weights @ self.query.score(X)
        return scores


class _KernelSum:
    """Σ aᵢφ(xᵢ), a vector of a kernel's feature space: the base of `HyperplaneQuery` and `CentreQuery`."""

    def __init__(self, X: Array, a: Array, kernel: str, gamma: float, rows: str):
        self._functions: Kernel = check_kernel(kernel, gamma)
        self.X: Vectors = to_numpy(check_rows(X, name=rows))  # (m, d)
        self.a: Numbers = np.asarray(a, np.float64)  # (m,)
        if self.a.shape != (len(self.X),) or not np.all(np.isfinite(self.a)):
            raise InputError(
                f"a must have one finite number for each of the {rows}, ({len(self.X)},). Got shape {self.a.shape}."
            )
        self.kernel, self.gamma = kernel, float(gamma)

    @property
    def dim(self) -> int:
        """Dimension d of the rows."""
        return int(self.X.shape[1])

    def _square(self) -> float:
        """ΣΣ aᵢaⱼK(xᵢ, xⱼ)."""
        rows = self.X.astype(np.float64)
        return float(self.a @ self._functions.pairs(rows, rows, self.gamma) @ self.a)

    def _products(self, X: Vectors) -> Iterator[tuple[slice, Numbers, Numbers]]:
        """Iterate over parts of rows X (m, d): the part, its rows as float64 and Σ aᵢK(x, xᵢ) of each row."""
        mine = self.X.astype(np.float64)
        for part in chunks(len(X), row_bytes=8 * max(self.dim, len(mine)), max_bytes=BLOCK_BYTES):
            rows = X[part].astype(np.float64)
            yield part, rows, self._functions.pairs(rows, mine, self.gamma) @ self.a


class HyperplaneQuery(_KernelSum):
    """Query by the distance to f(p) = Σ aᵢK(p, xᵢ) + b = 0: |f| / ‖w‖ (frontier) or −f / ‖w‖ (maximum).

    Crucianu, Estevez, Oria, Tarel, "Hyperplane queries in a feature-space M-tree for speeding up active learning"
    (fsm-tree), Eq. 3 and 4.

    Parameters
    ----------
    X : (m, d) support vectors.
    a : (m,) coefficients αᵢyᵢ. For the angular kernels, their sum must be 0, as in an SVM with a bias; otherwise ‖w‖ is
        not defined.
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
        super().__init__(X, a, kernel, gamma, "support vectors")
        if kind not in get_args(Kind):
            raise UnknownNameError("kind", kind, get_args(Kind))
        if not np.isfinite(b):
            raise InputError(f"b must be a finite number. Got {b}.")
        if self._functions.balanced and abs(self.a.sum()) > BALANCED * np.abs(self.a).sum():
            raise InputError(f"For the {kernel} kernel, the coefficients must add up to 0. Got {self.a.sum():g}.")
        self.b, self.kind = float(b), kind
        square = self._square()
        if not 0 < square < np.inf:
            raise NoDirectionError(f"The hyperplane has no direction: ‖w‖² must be above 0. Got {square:g}.")
        self.length = square**0.5

    def of_kind(self, kind: Kind) -> "HyperplaneQuery":
        """Return a query of another kind for the same hyperplane."""
        return HyperplaneQuery(self.X, self.a, self.b, kernel=self.kernel, gamma=self.gamma, kind=kind)

    def distance(self, X: Vectors) -> Numbers:
        """Return f / ‖w‖ of rows X (m, d), (m,), positive on the side of positive examples. Eq. 3, fsm-tree."""
        f: Numbers = np.full(len(X), self.b)
        for part, _, products in self._products(X):
            f[part] += products
        f /= self.length
        return f

    def score(self, X: Vectors) -> Vectors:
        """Return the scores (1, m) float32 of rows X (m, d); smaller is better."""
        distance = self.distance(X)
        return (np.abs(distance) if self.kind == "frontier" else -distance)[None, :].astype(np.float32)


class CentreQuery(_KernelSum):
    """Query by the distance to c = Σ aᵢφ(xᵢ): √(K(p, p) − 2 Σ aᵢK(p, xᵢ) + ΣΣ aᵢaⱼK(xᵢ, xⱼ)).

    c can be a row, a mean of rows or the centre of an SVDD: Tax and Duin, "Support vector data description" (2004),
    Eq. 15; distances as in §3 of fsm-tree.

    Parameters
    ----------
    X : (m, d) rows; one row with a = [1] is that row itself.
    a : (m,) weights. The sum must be 1, so that the distance is defined for the angular kernels, too.
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
        super().__init__(X, a, kernel, gamma, "rows of the centre")
        if abs(self.a.sum() - 1) > BALANCED * max(1.0, np.abs(self.a).sum()):
            raise InputError(f"The weights of a centre must add up to 1. Got {self.a.sum():g}.")
        self.square = self._square()

    def distance(self, X: Vectors) -> Numbers:
        """The distance of rows X (m, d), (m,), never below 0."""
        squares: Numbers = np.full(len(X), self.square)
        for part, rows, products in self._products(X):
            squares[part] += self._functions.diagonal(rows, self.gamma)
            squares[part] -= 2 * products
        np.maximum(squares, 0.0, out=squares)  # rounding, and gaussian-l1, whose squares can be below 0
        return np.sqrt(squares, out=squares)

    def score(self, X: Vectors) -> Vectors:
        """Return the scores (1, m) float32 of rows X (m, d); smaller is better."""
        return self.distance(X)[None, :].astype(np.float32)


def check_search(
    query: Query, k: int, among: Ids | None, exclude: Ids | None, effort: object, dim: int | None
) -> tuple[Ids | None, Ids | None]:
    """Check the arguments of `search` for an index of this dimension; return `among` and `exclude`, sorted."""
    check_count("k", k)
    if isinstance(effort, str) and effort not in EFFORTS:
        raise UnknownNameError("effort", effort, EFFORTS)
    if not isinstance(effort, str | None) and not (isinstance(effort, Real) and 0 < float(effort) < inf):
        raise InputError(f"effort must be a number above 0, or one of {', '.join(EFFORTS)}. Got {effort!r}.")
    query_dim = getattr(query, "dim", None)
    if None not in (dim, query_dim) and dim != query_dim:
        raise InputError(f"The query has {query_dim} dimensions, the index {dim}. Use the same space for both.")
    return (
        None if among is None else sort_ids(among, "among"),
        None if exclude is None else sort_ids(exclude, "exclude"),
    )
