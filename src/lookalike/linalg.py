"""What the array API lacks of linear algebra: factors, triangular solves and distances, NumPy or torch.

In: matrices. Out: the same kind. SciPy takes a third of a second to load, so it is loaded by the first who needs it.
"""

import array_api_compat

from lookalike.arrays import namespace
from lookalike.errors import InputError
from lookalike.types import Array


def cholesky(A: Array) -> Array:
    """The lower factor L of a symmetric positive definite A = LLᵀ, (n, n) float64. NumPy's A is overwritten by it.

    >>> import numpy as np
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

    try:  # LAPACK thinks in columns: the upper factor of the transpose is the lower factor, without a copy
        return scipy.linalg.cholesky(A.T, lower=False, overwrite_a=True, check_finite=False).T
    except scipy.linalg.LinAlgError:
        raise InputError(problem) from None


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """L⁻¹B, or L⁻ᵀB, for a lower triangular L (n, n) and B (n, m).

    >>> import numpy as np
    >>> solve_lower(np.array([[2.0, 0.0], [1.0, 2.0]]), np.array([[4.0], [6.0]])).tolist()
    [[2.0], [2.0]]
    """
    if array_api_compat.is_torch_array(L):
        return namespace(L).linalg.solve_triangular(L.T if transposed else L, B, upper=transposed)
    import scipy.linalg

    return scipy.linalg.solve_triangular(L, B, lower=True, trans=int(transposed), check_finite=False)


def distances(X: Array, Y: Array, norm: int) -> Array:
    """‖x − y‖ of the L1 or the L2 norm, (n, m), at the precision of X: sums of differences, exactly 0 for equal rows.

    >>> import numpy as np
    >>> distances(np.zeros((1, 2)), np.array([[3.0, 4.0]]), 1)
    array([[7.]])
    """
    if array_api_compat.is_torch_array(X):
        exactly = "donot_use_mm_for_euclid_dist"
        return namespace(X).cdist(X, Y, p=float(norm), compute_mode=exactly)
    from scipy.spatial.distance import cdist

    return cdist(X, Y, "cityblock" if norm == 1 else "euclidean").astype(X.dtype, copy=False)
