"""Kernel SLEM: each row becomes the square-loss classifier that separates it from a fixed pool of negatives.

Rezende et al., "Kernel Square-Loss Exemplar Machines for Image Retrieval", CVPR 2017 (slem): Eq. 6, 12, 16–18, §5. The
encoder `KernelSlem`, the query that compares its rows, and the factors of the pool's kernel matrix that `fit` is built
on: incomplete Cholesky, kernel PCA and the full Cholesky (§5.1 and §5.2, slem; Musco & Musco, NIPS 2015).
"""

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Annotated, NamedTuple, Self

import array_api_compat
import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import check_rows, cholesky, chunks, held_bytes, like, namespace, solve_lower, to_numpy
from lookalike.encode.check import check_matrix, float32_out
from lookalike.errors import InputError, UnknownNameError
from lookalike.kernels import TANGENTS, Kernel, check_kernel
from lookalike.limits import check_number, report_fewer
from lookalike.types import Array, OneOf, Vectors

LARGEST = 1e6
"""The largest value in a row for which kernel values still fit into float32."""
NOTHING = 1e-12
"""A squared length of a classifier below this share of K(x, x) is rounding error: the row is the pool's mean."""
BLOCK_BYTES = 4 * 2**20
"""Size of the blocks of kernel values that `SlemQuery.score` computes: blocks that fit into the cache are fastest."""
BLOCK_ROWS = 256
"""The minimum number of stored rows in a block, for any number of queries."""
LEAST_PIVOT = 1e-12
"""Incomplete Cholesky stops if no row has more than this share of the largest K(x, x) left to explain."""
LEAST_VALUE = 1e-10
"""Kernel PCA drops eigenvalues below this share of the largest: they are rounding errors."""
KRYLOV_DEPTH = 6
"""Number of products with K in kernel PCA's subspace: few, because each block is wider than the rank."""
KRYLOV_SPARE = 8
"""Columns of a block in addition to the rank."""
KPCA_BYTES = 2 * 2**30
"""The largest kernel matrix that kernel PCA keeps; a larger one is computed again, in chunks, for every product."""
ICD_BYTES = 2**20
"""Size of the chunks of rows that incomplete Cholesky works on: chunks that fit into the cache are fastest."""
NO_ROWS = "X must have a row with K(x, x) above 0. Got only zero rows."


class KernelSlem(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Exemplar classifiers in a kernel's feature space; the rows it is fitted on are the negatives. θ = 1/n.

    The paper's score (Eq. 16) depends on β̂ and v only through A's eigenvectors: with y = Uᵀ(v − μ), A = U(σ² + λ)Uᵀ,

        s(x, x') / α₀α₀' = K(x, x') − vᵀv' + λ²β̂ᵀβ̂' = K(x, x') − p − p' − zᵀz',
        z = y · sqrt(1 − (λ / (σ² + λ))²),   p = μᵀv − μᵀμ / 2,

    so a stored row is [x, z, p, s(x, x)^-½]: D = d + r + 2 instead of the paper's d + 2r. At full rank,
    M = HKH + nλI = RRᵀ and k̃ the centred kernels with the pool, zᵀz' is k̃ᵀM⁻¹k̃' + nλ k̃ᵀM⁻²k̃': one Cholesky, no jitter,
    D = d + 2n + 2. float32 rows limit the accuracy of scores to about 1e-7 · K(x, x) / s(x, x).

    Parameters
    ----------
    kernel : "gaussian", "poly" or "linear".
    gamma : the kernel's γ, above 0.
    lam : λ of Eq. 1, above 0: a smaller value gives more weight to directions that are rare in the pool.
    factor : "icd" (any number of negatives) or "kpca" (the best factor of its rank; up to about 20,000 negatives).
    rank : r; smaller, with a warning, if the negatives span fewer dimensions. None: full rank.

    Attributes
    ----------
    Arrays have the type and the device of the rows in `fit`, because a factor of full rank takes longer to copy from a
    GPU than to compute there. `transform` accepts rows of any type.

    negatives_ : the size of the pool, n.
    landmarks_ : (m, d) float64: the pool's rows that new rows are compared with, r pivots or all n.
    projection_ : (m, r) float64, from kernel values with the landmarks to y + Uᵀμ; at full rank R, (n, n), lower.
    offset_ : (r,) float64, Uᵀμ; at full rank the mean of each row of K, (n,).
    variances_ : (r,) float64, σ²; at full rank empty.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> pool, X = random.normal(size=(200, 8)), random.normal(size=(5, 8))
    >>> slem = KernelSlem(gamma=0.1, rank=16).fit(pool)
    >>> rows = slem.transform(X)
    >>> rows.shape
    (5, 26)
    >>> slem.query(X[2:3]).score(rows).argmin()
    np.int64(2)

    """

    negatives = True  # fit expects a pool of negatives

    negatives_: int
    landmarks_: Array
    projection_: Array
    offset_: Array
    variances_: Array

    def __init__(
        self,
        kernel: Annotated[str, OneOf(TANGENTS)] = "gaussian",
        gamma: float = 1.0,
        lam: float = 0.01,
        factor: Annotated[str, OneOf(("icd", "kpca"))] = "icd",
        rank: int | None = 32,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.lam = lam
        self.factor = factor
        self.rank = rank

    def fit(self, X: Array, y: Array | None = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Learn the pool of negatives, X (n, d), n ≥ 2. With the factor "icd", a memory-mapped X is not copied."""
        functions = check_kernel(self.kernel, self.gamma, TANGENTS)
        if not isinstance(self.lam, int | float | np.number) or not 0 < self.lam < np.inf:
            raise InputError(f"lam must be above 0, otherwise a classifier has no unique solution. Got {self.lam!r}.")
        if self.factor not in FACTORS:
            raise UnknownNameError("factor", self.factor, FACTORS)
        if self.rank is not None:
            check_number("rank", self.rank, Integral, "None (full) or a whole number of at least 1", 1, np.inf)
        X = check_matrix(self, X, reset=True, min_rows=2)
        xp, n = namespace(X), X.shape[0]
        for part in chunks(n, row_bytes=16 * X.shape[1]):
            _check_values(X[part])
        if self.rank is None:
            projection, offset = ccd(X, functions, self.gamma, n * self.lam)
            landmarks, variances = xp.astype(X, xp.float64), offset[:0]
        else:
            B, landmarks, projection = FACTORS[self.factor](X, functions, self.gamma, self.rank)
            r = int(B.shape[1])
            report_fewer("rank", self.rank, r, f"{n} negatives span {r} dimensions of the kernel's space")
            mean = xp.mean(B, axis=0)  # (r,)
            B = B - mean
            variances, axes = xp.linalg.eigh(B.T @ B / n)  # A = U(σ² + λ)Uᵀ, §4.2, slem
            variances = xp.clip(variances, 0.0, None)
            projection, offset = projection @ axes, mean @ axes  # (m, r), (r,)
        self.negatives_ = n
        self.landmarks_, self.projection_, self.offset_, self.variances_ = landmarks, projection, offset, variances
        return self

    def transform(self, X: Array) -> Array:
        """Encode rows (n, d) as (n, D) float32: [x, z, p, s(x, x)^-½]. For the pool's mean, the last column is 0."""
        return self._encode(X)

    def _encode(self, X: Array) -> Array:
        """Return `transform` as an array, without the container of `set_output`."""

        def row(X: Array, made: "Machines", scale: Array) -> Array:
            return namespace(X).concat([X, made.z, made.p[:, None], scale[:, None]], axis=1)

        return self._each(X, row)

    def query(self, Y: Array) -> "SlemQuery":
        """Return a query for the encoded rows nearest to Y (q, d)."""
        return self.compare(self._encode(Y))

    def compare(self, rows: Array) -> "SlemQuery":
        """Return a query for the encoded rows nearest to rows (q, D), which are already encoded."""
        return SlemQuery(rows, kernel=self.kernel, gamma=self.gamma, d=self.n_features_in_)

    def shortlist(self, rows: Array, length: float | None = None) -> Vectors:
        """Convert encoded rows (m, D) to (m, D + 1) float32 for an inner-product or Euclidean index.

        Their inner products with `SlemQuery.shortlist` approximate the order of the scores: the kernel is replaced by
        its tangent at identical rows, which is accurate for near rows and too low or too high for far ones. So search
        for several times k and score those exactly. The last column gives all rows the same length, so that the nearest
        rows have the largest inner products. `length` is that length, by default that of the longest of these rows. Use
        the same length for rows added later; a longer row keeps its length and appears slightly farther away.
        """
        x, z, p, scale = _split(to_numpy(rows), self.n_features_in_)
        _, _, fall = TANGENTS[self.kernel](x, self.gamma)
        vectors = scale[:, None] * np.hstack([x, z, _columns(p + fall, np.ones_like(p))])  # (m, D)
        squares = np.vecdot(vectors, vectors)  # (m,)
        most = squares.max(initial=0.0) if length is None else np.float32(length) ** 2
        return np.hstack([vectors, _columns(np.sqrt(np.maximum(most - squares, 0.0)))])

    def pushes(self, X: Array, negatives: Array) -> Array:
        """Influence (n, m) float32 of each of the pool's rows `negatives` (m, d) on the classifier of each row of X.

        X is (n, d). The influence is −n α_i / α₀, where the classifier is h = α₀ φ(x) + Σ α_i φ(x_i). The mean over the
        pool is 1. A negative that the classifier confuses with the row has more; one with a value below 0 attracts it.
        """
        check_is_fitted(self)
        Y = _check_values(check_matrix(self, negatives, reset=False, min_rows=0))  # (m, d)
        theirs = self._solve(Y)

        def row(X: Array, made: "Machines", _: Array) -> Array:
            if self.rank is None:
                K = check_kernel(self.kernel, self.gamma).pairs(X, Y, self.gamma)
                t = slice(0, self.negatives_)
                K = K - made.p[:, None] - theirs.p - made.z[:, t] @ theirs.z[:, t].T  # λ δᵀA⁻¹δᵢ, (rows, m)
                return 1 + K / self.lam
            variances = like(X, self.variances_)
            return 1 + (made.y / (variances + self.lam)) @ theirs.y.T

        return self._each(X, row)

    def _solve(self, X: Array) -> "Machines":
        """The classifiers of rows X (m, d), float64."""
        xp = namespace(X)
        functions = check_kernel(self.kernel, self.gamma)
        learned = self.landmarks_, self.projection_, self.offset_, self.variances_
        landmarks, projection, offset, variances = (like(X, a) for a in learned)
        k = functions.pairs(X, landmarks, self.gamma)  # (m, landmarks)
        if self.rank is None:
            means, mean = xp.mean(k, axis=1), xp.mean(offset)  # (m,), ()
            t = solve_lower(projection, (k - means[:, None] - offset + mean).T)  # (n, m): R⁻¹k̃
            y = solve_lower(projection, t, transposed=True).T  # (m, n): M⁻¹k̃
            z = xp.concat([t.T, (self.negatives_ * self.lam) ** 0.5 * y], axis=1)  # (m, 2n)
            p = means - mean / 2
        else:
            y = k @ projection - offset  # (m, r)
            z = y * xp.sqrt(variances * (variances + 2 * self.lam)) / (variances + self.lam)
            p = y @ offset + offset @ offset / 2
        s = functions.diagonal(X, self.gamma) - 2 * p - xp.sum(z * z, axis=1)
        return Machines(y, z, p, s)

    def _each(self, X: Array, row: Callable[[Array, "Machines", Array], Array]) -> Array:
        """Apply `row(X, machines, scale)` to rows X in chunks; return float32."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        xp = namespace(X)
        parts = []
        # An X without rows is one empty chunk, so that the result has the right number of columns.
        for part in chunks(max(1, X.shape[0]), row_bytes=48 * len(self.landmarks_) + 24 * X.shape[1]):
            rows = _check_values(X[part])
            made = self._solve(rows)
            real = made.s > NOTHING * check_kernel(self.kernel, self.gamma).diagonal(rows, self.gamma)
            scale = xp.where(real, xp.where(real, made.s, xp.ones_like(made.s)) ** -0.5, xp.zeros_like(made.s))
            parts.append(xp.astype(row(rows, made, scale), xp.float32))
        return xp.concat(parts)

    @property
    def _n_features_out(self) -> int:
        z = 2 * self.negatives_ if self.rank is None else len(self.variances_)
        return int(self.n_features_in_) + z + 2

    def __sklearn_tags__(self) -> Tags:
        return float32_out(super().__sklearn_tags__())


class SlemQuery:
    """Query for encoded rows by their classifiers: 1 − ⟨h, h'⟩ / ‖h‖‖h'‖, from 0 to 2 (Eq. 16, slem, normalised).

    Parameters
    ----------
    rows : (q, D), as returned by `KernelSlem.transform`.
    kernel, gamma : those of the `KernelSlem`.
    d : the number of columns of its input.

    """

    def __init__(self, rows: Array, *, kernel: str, gamma: float, d: int):
        self.rows = to_numpy(check_rows(rows, name="query"))  # (q, D)
        self.kernel = kernel
        self.gamma = gamma
        self.d = d

    @property
    def dim(self) -> int:
        """Dimension D of the encoded rows."""
        return int(self.rows.shape[1])

    def score(self, X: Vectors) -> Vectors:
        """Scores (q, m) float32 of encoded rows X (m, D), smaller is better."""
        scores = np.empty((len(self.rows), len(X)), np.float32)
        pairs = check_kernel(self.kernel, self.gamma).pairs
        for mine in chunks(len(self.rows), row_bytes=4 * BLOCK_ROWS, max_bytes=BLOCK_BYTES):
            x, z, p, scale = _split(self.rows[mine], self.d)
            for part in chunks(len(X), row_bytes=4 * len(x), max_bytes=BLOCK_BYTES):
                x_, z_, p_, scale_ = _split(X[part], self.d)
                block = pairs(x, x_, self.gamma)  # (q, m) of the block
                block -= z @ z_.T
                block -= p[:, None]
                block -= p_
                block *= scale[:, None]
                block *= -scale_
                block += 1
                np.clip(block, 0.0, 2.0, out=scores[mine, part])
        return scores

    def shortlist(self) -> Vectors:
        """Query points (q, D + 1) float32 for an index of `KernelSlem.shortlist` vectors."""
        x, z, p, _ = _split(self.rows, self.d)
        slope, level, _ = TANGENTS[self.kernel](x, self.gamma)
        return np.hstack([slope[:, None] * x, -z, _columns(-np.ones_like(p), level - p, np.zeros_like(p))])


class Machines(NamedTuple):
    """Classifiers h of exemplars, each divided by its α₀: ⟨h, h'⟩ = K(x, x') − p − p' − zᵀz'. float64."""

    y: Array  # (m, r): v − μ along the pool's principal axes; at full rank g = M⁻¹k̃, (m, n)
    z: Array  # (m, R): R = r, or 2n at full rank
    p: Array  # (m,)
    s: Array  # (m,): ⟨h, h⟩


class Factor(NamedTuple):
    """A factor K ≈ BBᵀ of rank r. A new row has v = K(x, landmarks) @ projection, (r,): B⁺k₀ of Eq. 12, slem."""

    B: Array  # (n, r)
    landmarks: Array  # (m, d): m = r pivots, or all n rows
    projection: Array  # (m, r)


def icd(X: Array, kernel: Kernel, gamma: float, rank: int) -> Factor:
    """Factor K by greedy incomplete Cholesky: O(nr²) time, O(nr) memory, without forming K.

    Each step adds the row with the largest unexplained K(x, x). It stops early if nothing is left, so r ≤ rank.
    """
    xp, device, n = namespace(X), array_api_compat.device(X), X.shape[0]
    B = xp.zeros((n, min(rank, n)), dtype=xp.float64, device=device)
    left = xp.concat([kernel.diagonal(X64, gamma) for X64 in _float64(X)])  # (n,): K − BBᵀ, on the diagonal
    least = LEAST_PIVOT * float(xp.max(left))
    pivots: list[int] = []
    for step in range(B.shape[1]):
        pivot = int(xp.argmax(left))
        if float(left[pivot]) <= least:
            break
        chosen = xp.astype(X[pivot : pivot + 1], xp.float64)  # (1, d)
        column = xp.concat([kernel.pairs(X64, chosen, gamma)[:, 0] for X64 in _float64(X)])  # (n,)
        column -= B[:, :step] @ B[pivot, :step]
        column /= float(left[pivot]) ** 0.5
        B[:, step] = column
        left -= column * column
        pivots.append(pivot)
        left[xp.asarray(pivots, device=device)] = 0.0  # explained, regardless of rounding
    if not pivots:
        raise InputError(NO_ROWS)
    B = B[:, : len(pivots)]
    L = xp.take(B, xp.asarray(pivots, device=device), axis=0)  # (r, r), lower triangular: K = LLᵀ on the pivots
    identity = xp.eye(len(pivots), dtype=xp.float64, device=device)
    landmarks = xp.astype(xp.take(X, xp.asarray(pivots, device=device), axis=0), xp.float64)
    return Factor(B, landmarks, solve_lower(L, identity).T)


def kpca(X: Array, kernel: Kernel, gamma: float, rank: int) -> Factor:
    """Find the best K ≈ BBᵀ of rank r ≤ rank: eigenvectors times the roots of their eigenvalues. O(n²r) time.

    Exact unless r is small compared with n; in that case it uses a block Krylov subspace.
    """
    xp, n = namespace(X), X.shape[0]
    X = xp.astype(X, xp.float64)
    exact = 3 * KRYLOV_DEPTH * (rank + KRYLOV_SPARE) > n
    K = kernel.pairs(X, X, gamma) if exact or 8 * n * n <= KPCA_BYTES else None  # (n, n)

    def product(Y: Array) -> Array:
        if K is not None:
            return K @ Y
        return xp.concat([kernel.pairs(X[part], X, gamma) @ Y for part in chunks(n, row_bytes=16 * n)])

    if exact:
        values, vectors = xp.linalg.eigh(K)  # (n,) increasing, (n, n) in columns
    else:
        Q = _krylov(product, X, rank + KRYLOV_SPARE)  # (n, b)
        values, inner = xp.linalg.eigh(Q.T @ product(Q))  # (b,), (b, b)
        vectors = Q @ inner
    values, vectors = xp.flip(values[-rank:]), xp.flip(vectors[:, -rank:], axis=1)
    if float(values[0]) <= 0:
        raise InputError(NO_ROWS)
    r = int(xp.sum(xp.astype(values > LEAST_VALUE * float(values[0]), xp.int64)))
    roots, vectors = xp.sqrt(values[:r]), vectors[:, :r]
    return Factor(vectors * roots, X, vectors / roots)


def ccd(X: Array, kernel: Kernel, gamma: float, ridge: float) -> tuple[Array, Array]:
    """Return the Cholesky factor R of HKH + ridge·I = RRᵀ, (n, n), and the mean of each row of K, (n,).

    H subtracts the mean. A ridge above 0 makes the matrix positive definite, so the paper's jitter ε is not needed.
    """
    xp, n = namespace(X), X.shape[0]
    X = xp.astype(X, xp.float64)
    K = kernel.pairs(X, X, gamma)  # (n, n), changed in place below: it can take most of the memory
    means = xp.mean(K, axis=1)  # (n,)
    K -= (means - xp.mean(means))[:, None]
    K -= means
    diagonal = xp.arange(n, device=array_api_compat.device(X))
    K[diagonal, diagonal] += ridge
    return cholesky(K), means


FACTORS = {"icd": icd, "kpca": kpca}
"""Low-rank factors by name: the values of the option `factor`."""


def _check_values(X: Array) -> Array:
    """Check that X is finite and not too large for kernels; return float64."""
    xp = namespace(X)
    X = xp.astype(check_rows(X), xp.float64)
    largest = float(xp.max(xp.abs(X))) if X.shape[0] else 0.0
    if largest > LARGEST:
        raise InputError(f"X must have values of at most {LARGEST:g}. Got {largest:g}; scale it down.")
    return X


def _columns(*values: Vectors) -> Vectors:
    return np.stack(values, axis=1)


def _split(rows: Vectors, d: int) -> tuple[Vectors, Vectors, Vectors, Vectors]:
    """x (m, d), z (m, R), p (m,) and scale (m,) of stored rows."""
    return rows[:, :d], rows[:, d:-2], rows[:, -2], rows[:, -1]


def _krylov(product: Callable[[Array], Array], X: Array, width: int) -> Array:
    """An orthonormal basis, (n, KRYLOV_DEPTH · width), of the images of random columns under K, K², …"""
    xp, start = namespace(X), np.random.default_rng(0).normal(size=(X.shape[0], width))
    block = xp.asarray(start, device=array_api_compat.device(X))
    basis = xp.empty((X.shape[0], 0), dtype=xp.float64, device=array_api_compat.device(X))
    for _ in range(KRYLOV_DEPTH):
        block = xp.linalg.qr(product(block))[0]
        for _ in range(2):  # twice, because what remains after the first can be small
            block = xp.linalg.qr(block - basis @ (basis.T @ block))[0]
        basis = xp.concat([basis, block], axis=1)
    return basis


def _float64(X: Array) -> Iterator[Array]:
    """Iterate over X in chunks of float64 rows."""
    xp = namespace(X)
    for part in chunks(X.shape[0], row_bytes=16 * X.shape[1], max_bytes=held_bytes(X, ICD_BYTES)):
        yield xp.astype(X[part], xp.float64)
