"""Factors of the kernel matrix of a pool of rows: incomplete Cholesky, kernel PCA, and the full Cholesky.

In: rows X (n, d), NumPy or torch, a kernel and its γ. Out, in float64: K ≈ BBᵀ with what gives a new row its v = B⁺k₀
(Eq. 12, slem), or the Cholesky factor of the centred K with a ridge. §5.1 and §5.2, slem; Musco & Musco, NIPS 2015.
"""

from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from lookalike.arrays import cholesky, chunks, held_bytes, namespace, solve_lower
from lookalike.errors import InputError
from lookalike.kernels import Kernel
from lookalike.types import Array

LEAST_PIVOT = 1e-12
"""Incomplete Cholesky stops where no row has more than this share of the largest K(x, x) left to explain."""
LEAST_VALUE = 1e-10
"""Kernel PCA leaves out eigenvalues below this share of the largest: they are rounding."""
DEPTH = 6
"""Products with K that kernel PCA builds its subspace from: few, as each block is wider than the rank."""
SPARE = 8
"""Columns by which a block is wider."""
HELD_BYTES = 2 * 2**30
"""The largest kernel matrix that kernel PCA keeps; a larger one is computed anew, in chunks, for every product."""
CHUNK_BYTES = 2**20
"""What incomplete Cholesky holds of the rows at a time: as much as stays in a processor's cache is quickest."""
NO_ROWS = "X must have a row with K(x, x) above 0. Got none: every row is zero."


class Factor(NamedTuple):
    """K ≈ BBᵀ of rank r. A new row has v = K(x, landmarks) @ projection, (r,)."""

    B: Array  # (n, r)
    landmarks: Array  # (m, d): m = r pivots, or all n rows
    projection: Array  # (m, r)


def icd(X: Array, kernel: Kernel, gamma: float, rank: int) -> Factor:
    """Greedy incomplete Cholesky: O(nr²) time, O(nr) memory, K is never formed.

    Each step takes in the row of which most is left unexplained. Stops early where nothing is left: r ≤ rank.
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
        left[xp.asarray(pivots, device=device)] = 0.0  # explained, whatever the rounding says
    if not pivots:
        raise InputError(NO_ROWS)
    B = B[:, : len(pivots)]
    L = xp.take(B, xp.asarray(pivots, device=device), axis=0)  # (r, r), lower triangular: K = LLᵀ on the pivots
    identity = xp.eye(len(pivots), dtype=xp.float64, device=device)
    landmarks = xp.astype(xp.take(X, xp.asarray(pivots, device=device), axis=0), xp.float64)
    return Factor(B, landmarks, solve_lower(L, identity).T)


def kpca(X: Array, kernel: Kernel, gamma: float, rank: int) -> Factor:
    """The best K ≈ BBᵀ of rank r ≤ rank: eigenvectors by the roots of their eigenvalues. O(n²r) time.

    Exact where r is not small against n, by a block Krylov subspace elsewhere.
    """
    xp, n = namespace(X), X.shape[0]
    X = xp.astype(X, xp.float64)
    exact = 3 * DEPTH * (rank + SPARE) > n
    K = kernel.pairs(X, X, gamma) if exact or 8 * n * n <= HELD_BYTES else None  # (n, n)

    def product(Y: Array) -> Array:
        if K is not None:
            return K @ Y
        return xp.concat([kernel.pairs(X[part], X, gamma) @ Y for part in chunks(n, row_bytes=16 * n)])

    if exact:
        values, vectors = xp.linalg.eigh(K)  # (n,) rising, (n, n) in columns
    else:
        Q = _krylov(xp, product, X, rank + SPARE)  # (n, b)
        values, inner = xp.linalg.eigh(Q.T @ product(Q))  # (b,), (b, b)
        vectors = Q @ inner
    values, vectors = xp.flip(values[-rank:]), xp.flip(vectors[:, -rank:], axis=1)
    if float(values[0]) <= 0:
        raise InputError(NO_ROWS)
    r = int(xp.sum(xp.astype(values > LEAST_VALUE * float(values[0]), xp.int64)))
    roots, vectors = xp.sqrt(values[:r]), vectors[:, :r]
    return Factor(vectors * roots, X, vectors / roots)


def ccd(X: Array, kernel: Kernel, gamma: float, ridge: float) -> tuple[Array, Array]:
    """The complete Cholesky R of HKH + ridge·I = RRᵀ, (n, n), and the mean of each row of K, (n,).

    H takes the mean away: the maths of exemplars only ever meets centred rows, and a ridge above 0 makes the matrix
    positive definite, so that the paper's jitter ε is not needed.
    """
    xp, n = namespace(X), X.shape[0]
    X = xp.astype(X, xp.float64)
    K = kernel.pairs(X, X, gamma)  # (n, n), from here on in place: it may be most of the memory there is
    means = xp.mean(K, axis=1)  # (n,)
    K -= (means - xp.mean(means))[:, None]
    K -= means
    diagonal = xp.arange(n, device=array_api_compat.device(X))
    K[diagonal, diagonal] += ridge
    return cholesky(K), means


FACTORS = {"icd": icd, "kpca": kpca}
"""Low-rank factors by name."""


def _krylov(xp: Any, product: Any, X: Array, width: int) -> Array:
    """An orthonormal basis, (n, DEPTH · width), of what K, K², … make of random columns."""
    start = np.random.default_rng(0).normal(size=(X.shape[0], width))
    block = xp.asarray(start, device=array_api_compat.device(X))
    basis = xp.empty((X.shape[0], 0), dtype=xp.float64, device=array_api_compat.device(X))
    for _ in range(DEPTH):
        block = xp.linalg.qr(product(block))[0]
        for _ in range(2):  # once is not enough: what is left may be small
            block = xp.linalg.qr(block - basis @ (basis.T @ block))[0]
        basis = xp.concat([basis, block], axis=1)
    return basis


def _float64(X: Array) -> Any:
    """X in chunks of float64 rows."""
    xp = namespace(X)
    for part in chunks(X.shape[0], row_bytes=16 * X.shape[1], max_bytes=held_bytes(X, CHUNK_BYTES)):
        yield xp.astype(X[part], xp.float64)
