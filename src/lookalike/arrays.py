"""Functions for both NumPy arrays and torch tensors: namespaces, checks, chunks and linear algebra.

The functions accept any array that supports the array API and return the same kind of array. The linear algebra covers
what the array API standard lacks: Cholesky factors, triangular solves, exact distances and principal components. SciPy
takes a third of a second to import, so it is imported on first use.
"""

from collections.abc import Iterator
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError
from lookalike.types import Array, Ids, Vectors

CHUNK_BYTES = 64 * 2**20
"""Default size of a chunk in loops over many rows."""

CACHE_BYTES = 2 * 2**20
"""Size of a chunk in loops that use the same data several times, so that it stays in the CPU cache."""

GPU_BYTES = 256 * 2**20
"""Size of a chunk on a GPU, which needs large batches."""


def namespace(*arrays: Array) -> Any:
    """Return the array API namespace of the arguments; plain sequences count as NumPy arrays.

    >>> namespace(np.zeros(3)).__name__
    'array_api_compat.numpy'
    """
    known = [a for a in arrays if array_api_compat.is_array_api_obj(a)]
    return array_api_compat.array_namespace(*known) if known else array_api_compat.array_namespace(np.empty(0))


def check_rows(X: Array, *, dim: int | None = None, name: str = "X") -> Array:
    """Return `X` as a float matrix (n, d) (integers as float32); raise InputError if it is not finite."""
    usual = type(X) is np.ndarray and X.dtype == np.float32 and X.ndim == 2 and dim in (None, X.shape[1])
    if usual and np.isfinite(X).all():
        return X  # the checks below take longer than a short search
    xp = namespace(X)
    if not array_api_compat.is_array_api_obj(X):
        try:
            X = np.asarray(X)
        except ValueError as error:
            raise InputError(f"{name} must be a matrix of numbers. Got {type(X).__name__}: {error}.") from None
    if getattr(X.dtype, "kind", "f") not in "fiub":
        raise InputError(f"{name} must contain real numbers. Got dtype {X.dtype}.")
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
    """Yield slices that cover `range(n)`, each of at most `max_bytes` and at least one row.

    >>> list(chunks(5, row_bytes=4, max_bytes=8))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, max_bytes // max(1, row_bytes))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def held_bytes(X: Array, on_cpu: int = CACHE_BYTES) -> int:
    """Return the chunk size for rows like X: `on_cpu`, or GPU_BYTES if X is on a GPU."""
    return on_cpu if str(array_api_compat.device(X)) == "cpu" else GPU_BYTES


def expand(first: Ids, sizes: Ids) -> Ids:
    """Numbers from each `first` on, as many as `sizes` (m,), one range after the other.

    >>> expand(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(sizes) - sizes
    numbers: Ids = np.arange(sizes.sum()) + np.repeat(first - before, sizes)
    return numbers


def to_numpy(X: Array) -> Vectors:
    """Return X as a NumPy float32 array; copies only if necessary."""
    if array_api_compat.is_torch_array(X):
        X = X.detach().cpu().numpy()
    return np.ascontiguousarray(X, dtype=np.float32)


def as_numpy(X: Array) -> NDArray[Any]:
    """Return X as a NumPy array with the same precision."""
    return np.asarray(X.detach().cpu() if array_api_compat.is_torch_array(X) else X)


def like(X: Array, values: Array) -> Array:
    """Return the values as an array of the same kind and on the same device as X; their precision does not change."""
    xp, device = namespace(X), array_api_compat.device(X)
    if array_api_compat.is_torch_array(values) and array_api_compat.is_torch_array(X):
        return values.to(device)
    return xp.asarray(as_numpy(values), device=device)


def unit_rows(X: Array) -> Array:
    """Return the rows divided by their Euclidean length; zero rows stay zero."""
    xp = namespace(X)
    length = xp.sqrt(xp.sum(X * X, axis=1, keepdims=True))  # (n, 1)
    return X / xp.where(length > 0, length, xp.ones_like(length))


def principal(X: Array, D: int) -> tuple[Array, Array, Array]:
    """Compute the D principal components of rows X (n, d), with 2 ≤ n and D ≤ min(n, d) (Pearson, 1901).

    Returns the mean (d,), the components (D, d) and the variances along them (D,), all float64. Components are
    orthonormal, ordered by decreasing variance, and the entry of largest magnitude in each is positive. X is read twice
    in chunks and can be memory-mapped. Besides the chunks, it needs memory for a few matrices of min(n, d)² and D × d.

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
    """Return the lower factor L of a symmetric positive definite A = LLᵀ, (n, n) float64. Overwrites a NumPy A.

    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    problem = "The matrix must be positive definite. It is not, to working precision."
    if array_api_compat.is_torch_array(A):
        L, failed = namespace(A).linalg.cholesky_ex(A)
        if int(failed):
            raise InputError(problem)
        return L
    import scipy.linalg

    try:  # LAPACK is column-major: the upper factor of the transpose needs no copy
        return scipy.linalg.cholesky(A.T, lower=False, overwrite_a=True, check_finite=False).T
    except scipy.linalg.LinAlgError:
        raise InputError(problem) from None


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """Return L⁻¹B, or L⁻ᵀB if `transposed`, for a lower triangular L (n, n) and B (n, m).

    >>> solve_lower(np.array([[2.0, 0.0], [1.0, 2.0]]), np.array([[4.0], [6.0]])).tolist()
    [[2.0], [2.0]]
    """
    if array_api_compat.is_torch_array(L):
        return namespace(L).linalg.solve_triangular(L.T if transposed else L, B, upper=transposed)
    import scipy.linalg

    return scipy.linalg.solve_triangular(L, B, lower=True, trans=int(transposed), check_finite=False)


def distances(X: Array, Y: Array, norm: int) -> Array:
    """Return the L1 or L2 distances ‖x − y‖, (n, m), at the precision of X; exactly 0 for equal rows.

    >>> distances(np.zeros((1, 2)), np.array([[3.0, 4.0]]), 1)
    array([[7.]])
    """
    if array_api_compat.is_torch_array(X):
        exactly = "donot_use_mm_for_euclid_dist"
        return namespace(X).cdist(X, Y, p=float(norm), compute_mode=exactly)
    from scipy.spatial.distance import cdist

    return cdist(X, Y, "cityblock" if norm == 1 else "euclidean").astype(X.dtype, copy=False)


def _from_covariance(xp: Any, X: Array, D: int) -> tuple[Array, Array, Array]:
    """Compute the components from the covariance (d, d), if there are few columns."""
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
    values, vectors = xp.linalg.eigh(scatter / (n - 1))  # (d,) ascending, (d, d) in columns
    return mean, xp.flip(vectors[:, d - D :], axis=1).T, xp.flip(values[d - D :])


def _from_gram(xp: Any, X: Array, D: int) -> tuple[Array, Array, Array]:
    """Compute the components from the Gram matrix (n, n), if there are more columns than rows."""
    n, d = X.shape
    device = array_api_compat.device(X)
    mean = xp.empty((d,), dtype=xp.float64, device=device)
    gram = xp.zeros((n, n), dtype=xp.float64, device=device)
    for part in chunks(d, row_bytes=8 * n):
        columns = xp.astype(check_rows(X[:, part]), xp.float64)  # (n, m)
        mean[part] = xp.mean(columns, axis=0)
        columns = columns - mean[part]
        gram += columns @ columns.T
    values, vectors = xp.linalg.eigh(gram / (n - 1))  # (n,) ascending, (n, n) in columns
    top = xp.flip(vectors[:, n - D :], axis=1)  # (n, D)
    directions = xp.empty((d, D), dtype=xp.float64, device=device)
    for part in chunks(d, row_bytes=8 * n):
        directions[part] = (xp.astype(X[:, part], xp.float64) - mean[part]).T @ top
    # QR restores orthogonality, because directions without variance consist of rounding errors.
    return mean, xp.linalg.qr(directions)[0].T, xp.flip(values[n - D :])


def _count_bad(xp: Any, X: Array) -> int:
    return int(xp.sum(xp.astype(xp.any(~xp.isfinite(X), axis=1), xp.int64)))
