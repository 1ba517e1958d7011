"""Code for NumPy arrays and torch tensors alike: namespaces, checks, chunks, and linear algebra.

Functions take any array with the array API and return the same kind. The linear algebra is what the standard lacks:
factors, triangular solves, exact distances, principal components. SciPy takes a third of a second to import, so it is
imported on first use.
"""

from collections.abc import Iterator
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError
from lookalike.types import Array, Vectors

CHUNK_BYTES = 64 * 2**20
"""Default size of a chunk in loops over many rows."""

CACHE_BYTES = 2 * 2**20
"""Size of a chunk in loops that use the same numbers several times: what stays in a processor's cache."""

GPU_BYTES = 256 * 2**20
"""Size of a chunk on a GPU, which needs much work at a time."""


def namespace(*arrays: Array) -> Any:
    """The array API namespace of the arguments; plain sequences count as NumPy.

    >>> namespace(np.zeros(3)).__name__
    'array_api_compat.numpy'
    """
    known = [a for a in arrays if array_api_compat.is_array_api_obj(a)]
    return array_api_compat.array_namespace(*known) if known else array_api_compat.array_namespace(np.empty(0))


def check_rows(X: Array, *, dim: int | None = None, name: str = "X") -> Array:
    """`X` as a finite float matrix of its own namespace, (n, d), integers as float32; InputError if it is not one."""
    xp = namespace(X)
    if not array_api_compat.is_array_api_obj(X):
        try:
            X = np.asarray(X)
        except ValueError as error:
            raise InputError(f"{name} must be a matrix of numbers. Got {type(X).__name__}: {error}.") from None
    if getattr(X.dtype, "kind", "f") not in "fiub":
        raise InputError(f"{name} must hold real numbers. Got dtype {X.dtype}.")
    if X.ndim != 2:
        raise InputError(f"{name} must have two dimensions, one row per item. Got shape {tuple(X.shape)}.")
    if dim is not None and X.shape[1] != dim:
        raise InputError(f"{name} must have {dim} columns. Got {X.shape[1]}.")
    if not xp.isdtype(X.dtype, "real floating") or X.dtype == getattr(xp, "float16", None):
        X = xp.astype(X, xp.float32)
    if not bool(xp.all(xp.isfinite(X))):
        raise InputError(f"{name} must be finite. Got NaN or infinity in {_count_bad(xp, X)} of {X.shape[0]} rows.")
    return X


def chunks(n: int, row_bytes: int, max_bytes: int = CHUNK_BYTES) -> Iterator[slice]:
    """Slices that cover `range(n)`, each of at most `max_bytes` (and at least one row).

    >>> list(chunks(5, row_bytes=4, max_bytes=8))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, max_bytes // max(1, row_bytes))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def held_bytes(X: Array, on_cpu: int = CACHE_BYTES) -> int:
    """The size of a chunk of rows like X: `on_cpu`, or GPU_BYTES if X is on a GPU."""
    return on_cpu if str(array_api_compat.device(X)) == "cpu" else GPU_BYTES


def to_numpy(X: Array) -> Vectors:
    """X as a NumPy float32 array; copies only if necessary."""
    if array_api_compat.is_torch_array(X):
        X = X.detach().cpu().numpy()
    return np.ascontiguousarray(X, dtype=np.float32)


def as_numpy(X: Array) -> NDArray[Any]:
    """X as a NumPy array of its own precision."""
    return np.asarray(X.detach().cpu() if array_api_compat.is_torch_array(X) else X)


def like(X: Array, values: Array) -> Array:
    """The values, at their own precision, as an array of the kind and on the device of X."""
    xp, device = namespace(X), array_api_compat.device(X)
    if array_api_compat.is_torch_array(values) and array_api_compat.is_torch_array(X):
        return values.to(device)
    return xp.asarray(as_numpy(values), device=device)


def unit_rows(X: Array) -> Array:
    """Rows divided by their Euclidean length; a zero row stays zero."""
    xp = namespace(X)
    length = xp.sqrt(xp.sum(X * X, axis=1, keepdims=True))  # (n, 1)
    return X / xp.where(length > 0, length, xp.ones_like(length))


def principal(X: Array, D: int) -> tuple[Array, Array, Array]:
    """The D directions of largest variance of rows X (n, d), 2 ≤ n, D ≤ min(n, d): Pearson, 1901.

    Returns the mean (d,), the directions (D, d) and the variances along them (D,), all float64: orthonormal rows, by
    decreasing variance, the largest entry of each positive. A memory-mapped X is read twice in chunks, never copied
    whole; besides the chunks, this holds a few matrices of the shorter side squared and of D × d.

    >>> mean, components, variances = principal(np.array([[0.0, 0.0], [2.0, 4.0]]), 1)
    >>> mean.tolist(), (components[0] * 5**0.5).round(6).tolist(), variances.round(6).tolist()
    ([1.0, 2.0], [1.0, 2.0], [10.0])
    """
    xp = namespace(X)
    mean, components, variances = (_from_covariance if X.shape[1] <= X.shape[0] else _from_gram)(xp, X, D)
    extremes = xp.argmax(xp.abs(components), axis=1)  # (D,)
    signs = xp.sign(xp.take_along_axis(components, extremes[:, None], axis=1))  # (D, 1)
    return mean, components * signs, xp.clip(variances, 0.0, None)


def cholesky(A: Array) -> Array:
    """The lower factor L of a symmetric positive definite A = LLᵀ, (n, n) float64. Overwrites A if it is NumPy's.

    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    problem = "The matrix must be positive definite; it is not, to working precision."
    if array_api_compat.is_torch_array(A):
        L, failed = namespace(A).linalg.cholesky_ex(A)
        if int(failed):
            raise InputError(problem)
        return L
    import scipy.linalg

    try:  # LAPACK stores columns: the upper factor of the transpose is the lower factor, without a copy
        return scipy.linalg.cholesky(A.T, lower=False, overwrite_a=True, check_finite=False).T
    except scipy.linalg.LinAlgError:
        raise InputError(problem) from None


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """L⁻¹B, or L⁻ᵀB, for a lower triangular L (n, n) and B (n, m).

    >>> solve_lower(np.array([[2.0, 0.0], [1.0, 2.0]]), np.array([[4.0], [6.0]])).tolist()
    [[2.0], [2.0]]
    """
    if array_api_compat.is_torch_array(L):
        return namespace(L).linalg.solve_triangular(L.T if transposed else L, B, upper=transposed)
    import scipy.linalg

    return scipy.linalg.solve_triangular(L, B, lower=True, trans=int(transposed), check_finite=False)


def distances(X: Array, Y: Array, norm: int) -> Array:
    """‖x − y‖ of the L1 or the L2 norm, (n, m), at the precision of X: summed differences, exactly 0 for equal rows.

    >>> distances(np.zeros((1, 2)), np.array([[3.0, 4.0]]), 1)
    array([[7.]])
    """
    if array_api_compat.is_torch_array(X):
        exactly = "donot_use_mm_for_euclid_dist"
        return namespace(X).cdist(X, Y, p=float(norm), compute_mode=exactly)
    from scipy.spatial.distance import cdist

    return cdist(X, Y, "cityblock" if norm == 1 else "euclidean").astype(X.dtype, copy=False)


def _from_covariance(xp: Any, X: Array, D: int) -> tuple[Array, Array, Array]:
    """Few columns: the eigenvectors of the covariance, (d, d)."""
    n, d = X.shape
    device = array_api_compat.device(X)
    total = xp.zeros((d,), dtype=xp.float64, device=device)
    for part in chunks(n, row_bytes=8 * d):
        total += xp.sum(xp.astype(check_rows(X[part]), xp.float64), axis=0)
    mean = total / n
    scatter = xp.zeros((d, d), dtype=xp.float64, device=device)
    for part in chunks(n, row_bytes=8 * d):  # a second pass: subtracting the mean first preserves small variances
        centred = xp.astype(X[part], xp.float64) - mean  # (m, d)
        scatter += centred.T @ centred
    values, vectors = xp.linalg.eigh(scatter / (n - 1))  # (d,) rising, (d, d) in columns
    return mean, xp.flip(vectors[:, d - D :], axis=1).T, xp.flip(values[d - D :])


def _from_gram(xp: Any, X: Array, D: int) -> tuple[Array, Array, Array]:
    """More columns than rows: the eigenvectors of the rows' inner products, (n, n), read column by column."""
    n, d = X.shape
    device = array_api_compat.device(X)
    mean = xp.empty((d,), dtype=xp.float64, device=device)
    gram = xp.zeros((n, n), dtype=xp.float64, device=device)
    for part in chunks(d, row_bytes=8 * n):
        columns = xp.astype(check_rows(X[:, part]), xp.float64)  # (n, m)
        mean[part] = xp.mean(columns, axis=0)
        columns = columns - mean[part]
        gram += columns @ columns.T
    values, vectors = xp.linalg.eigh(gram / (n - 1))  # (n,) rising, (n, n) in columns
    top = xp.flip(vectors[:, n - D :], axis=1)  # (n, D)
    directions = xp.empty((d, D), dtype=xp.float64, device=device)
    for part in chunks(d, row_bytes=8 * n):
        directions[part] = (xp.astype(X[:, part], xp.float64) - mean[part]).T @ top
    # They are orthogonal up to rounding, and a direction without variance is nothing but rounding: QR repairs it.
    return mean, xp.linalg.qr(directions)[0].T, xp.flip(values[n - D :])


def _count_bad(xp: Any, X: Array) -> int:
    return int(xp.sum(xp.astype(xp.any(~xp.isfinite(X), axis=1), xp.int64)))
