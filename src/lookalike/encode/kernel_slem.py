"""Kernel SLEM: every row becomes the square-loss classifier that tells it from a fixed pool of negatives.

In: (n, d) rows, NumPy or torch. Out: (n, D) float32 rows of the same kind, and a query that compares them. Rezende et
al., "Kernel Square-Loss Exemplar Machines for Image Retrieval", CVPR 2017 (`slem`): Eq. 6, 12, 16–18, §5.
"""

from numbers import Integral
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import check_rows, chunks, like, namespace, solve_lower
from lookalike.encode.check import check_matrix, float32_out
from lookalike.encode.factor import FACTORS, ccd
from lookalike.encode.slem_query import SlemQuery, shortlist
from lookalike.errors import InputError, UnknownNameError
from lookalike.kernels import TANGENTS, check_kernel
from lookalike.limits import check_number
from lookalike.types import Array, OneOf, Vectors

LARGEST = 1e6
"""The largest number in a row whose kernels still fit into float32."""
NOTHING = 1e-12
"""A classifier with a square length below this share of K(x, x) is rounding: the row is the pool's mean."""


class Machines(NamedTuple):
    """Exemplars' classifiers h, each divided by its α₀: ⟨h, h'⟩ = K(x, x') − p − p' − zᵀz'. float64."""

    y: Array  # (m, r): v − μ along the pool's principal axes; at full rank g = M⁻¹k̃, (m, n)
    z: Array  # (m, R): R = r, or 2n at full rank
    p: Array  # (m,)
    s: Array  # (m,): ⟨h, h⟩


class KernelSlem(TransformerMixin, BaseEstimator):
    """Rows as exemplar classifiers in a kernel's feature space, against the rows it is fitted on. θ = 1/n.

    β̂ and v of the paper enter its score (Eq. 16) only through A's eigenvectors: with y = Uᵀ(v − μ), A = U(σ² + λ)Uᵀ,

        s(x, x') / α₀α₀' = K(x, x') − vᵀv' + λ²β̂ᵀβ̂' = K(x, x') − p − p' − zᵀz',
        z = y · sqrt(1 − (λ / (σ² + λ))²),   p = μᵀv − μᵀμ / 2,

    so that [x, z, p, s(x, x)^-½] is all there is to store: D = d + r + 2 instead of the paper's d + 2r. At full rank,
    M = HKH + nλI = RRᵀ and k̃ the centred kernels with the pool, zᵀz' is k̃ᵀM⁻¹k̃' + nλ k̃ᵀM⁻²k̃': one Cholesky, no jitter,
    D = d + 2n + 2. float32 rows give scores to about 1e-7 · K(x, x) / s(x, x).

    Parameters
    ----------
    kernel : "gaussian", "poly" or "linear".
    gamma : the kernel's γ, above 0.
    lam : λ of Eq. 1, above 0: the smaller, the more a classifier heeds what is rare in the pool.
    factor : "icd" (any number of negatives) or "kpca" (the best of its rank; up to about 20,000 negatives).
    rank : r, at most. Fewer, or much the same, negatives span less: then r is what they span. None: full rank.

    Attributes
    ----------
    Arrays are of the kind, and on the device, of the rows it was fitted on: a factor of full rank takes longer to copy
    from a GPU than to compute there. `transform` takes rows of any kind.

    negatives_ : the size of the pool, n.
    landmarks_ : (m, d) float64: the pool's rows that new rows are compared with, r pivots or all n.
    projection_ : (m, r) float64, kernels with these to y + Uᵀμ; at full rank R, (n, n), lower.
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

    negatives = True  # what it is fitted on is a pool that rows are told from

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
        factor: Annotated[str, OneOf(FACTORS)] = "icd",
        rank: int | None = 32,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.lam = lam
        self.factor = factor
        self.rank = rank

    def fit(self, X: Array, y: Array | None = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Learn the pool of negatives, X (n, d), n ≥ 2. A memory-mapped X is not copied where factor is "icd"."""
        functions = check_kernel(self.kernel, self.gamma, TANGENTS)
        if not isinstance(self.lam, int | float | np.number) or not 0 < self.lam < np.inf:
            raise InputError(f"lam must be above 0, as without it a classifier has no one solution. Got {self.lam!r}.")
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
            mean = xp.mean(B, axis=0)  # (r,)
            B = B - mean
            variances, axes = xp.linalg.eigh(B.T @ B / n)  # A = U(σ² + λ)Uᵀ, §4.2, slem
            variances = xp.clip(variances, 0.0, None)
            projection, offset = projection @ axes, mean @ axes  # (m, r), (r,)
        self.negatives_ = n
        self.landmarks_, self.projection_, self.offset_, self.variances_ = landmarks, projection, offset, variances
        return self

    def transform(self, X: Array) -> Array:
        """(n, d) to (n, D) float32: [x, z, p, s(x, x)^-½]. A row that is the pool's mean has 0 there: like nothing."""

        def row(X: Array, made: Machines, scale: Array) -> Array:
            return namespace(X).concat([X, made.z, made.p[:, None], scale[:, None]], axis=1)

        return self._each(X, row)

    def query(self, Y: Array) -> SlemQuery:
        """What is nearest to rows Y (q, d) among rows that `transform` gave."""
        return self.compare(self.transform(Y))

    def compare(self, rows: Array) -> SlemQuery:
        """What is nearest to rows (q, D) that `transform` gave among others that it gave."""
        return SlemQuery(rows, kernel=self.kernel, gamma=self.gamma, d=self.n_features_in_)

    def shortlist(self, rows: Array, length: float | None = None) -> Vectors:
        """Rows that `transform` gave, (m, D), as (m, D + 1) for an ordinary index: see `slem_query.shortlist`."""
        return shortlist(rows, kernel=self.kernel, gamma=self.gamma, d=self.n_features_in_, length=length)

    def pushes(self, X: Array, negatives: Array) -> Array:
        """How much each of the pool's rows `negatives` (m, d) pushes each row of X (n, d) away, (n, m) float32.

        −n α_i / α₀, where the classifier is h = α₀ φ(x) + Σ α_i φ(x_i). Over the whole pool their mean is 1; a
        negative that the classifier takes for the row has more, one with less than 0 pulls.
        """
        check_is_fitted(self)
        Y = _check_values(check_matrix(self, negatives, reset=False, min_rows=0))  # (m, d)
        theirs = self._solve(Y)

        def row(X: Array, made: Machines, _: Array) -> Array:
            if self.rank is None:
                K = check_kernel(self.kernel, self.gamma).pairs(X, Y, self.gamma)
                t = slice(0, self.negatives_)
                K = K - made.p[:, None] - theirs.p - made.z[:, t] @ theirs.z[:, t].T  # λ δᵀA⁻¹δᵢ, (rows, m)
                return 1 + K / self.lam
            variances = like(X, self.variances_)
            return 1 + (made.y / (variances + self.lam)) @ theirs.y.T

        return self._each(X, row)

    def _solve(self, X: Array) -> Machines:
        """Rows X (m, d) float64 to their classifiers."""
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

    def _each(self, X: Array, row: Any) -> Array:
        """`row(X, machines, scale)` for rows X in chunks, float32."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        xp = namespace(X)
        parts = []
        # No rows are one empty chunk, so that they, too, come out with all their columns.
        for part in chunks(max(1, X.shape[0]), row_bytes=48 * len(self.landmarks_) + 24 * X.shape[1]):
            rows = _check_values(X[part])
            made = self._solve(rows)
            real = made.s > NOTHING * check_kernel(self.kernel, self.gamma).diagonal(rows, self.gamma)
            scale = xp.where(real, xp.where(real, made.s, xp.ones_like(made.s)) ** -0.5, xp.zeros_like(made.s))
            parts.append(xp.astype(row(rows, made, scale), xp.float32))
        return xp.concat(parts)

    def __sklearn_tags__(self) -> Tags:
        return float32_out(super().__sklearn_tags__())


def _check_values(X: Array) -> Array:
    """X as finite float64 rows of a size that kernels can be made of."""
    xp = namespace(X)
    X = xp.astype(check_rows(X), xp.float64)
    largest = float(xp.max(xp.abs(X))) if X.shape[0] else 0.0
    if largest > LARGEST:
        raise InputError(f"X must hold numbers of at most {LARGEST:g}. Got {largest:g}; scale it down.")
    return X
