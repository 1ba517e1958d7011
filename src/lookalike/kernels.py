"""Kernels by name. A kernel K(x, y) is the inner product of two vectors in some feature space.

X (n, d) and Y (m, d) are NumPy arrays or torch tensors; results have the precision of X. The kernels are Eq. 17 and 18,
slem (Rezende et al.), and the distance-based ones of fsm-tree, §4 (Crucianu et al.), with the L1 or L2 norm.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

import array_api_compat
import numpy as np

from lookalike.arrays import as_numpy, distances, namespace
from lookalike.errors import InputError, UnknownNameError
from lookalike.types import Array

TYPICAL = 300
"""Number of rows used to estimate a typical distance."""


class Kernel(NamedTuple):
    """The functions and properties of a kernel."""

    pairs: Callable[[Array, Array, float], Array]
    """Maps X (n, d), Y (m, d) and γ to K(x, y), (n, m)."""

    diagonal: Callable[[Array, float], Array]
    """Maps X (n, d) and γ to K(x, x), (n,)."""

    norm: int | None = None
    """1 or 2 if K(x, y) depends only on ‖x − y‖ in that norm; None if it depends on inner products."""

    balanced: bool = False
    """Whether it is only conditionally positive definite: ‖Σ aᵢφ(xᵢ)‖ is defined if the coefficients aᵢ sum to 0."""


def check_kernel(name: str, gamma: float, known: Collection[str] | None = None) -> Kernel:
    """Return the kernel of this name after checking its γ; `known` are the allowed names, None: all.

    >>> check_kernel("poly", 0.5).pairs(np.array([[2.0, 0.0]]), np.array([[1.0, 3.0]]), 0.5)
    array([[4.]])
    """
    if name not in (known or KERNELS):
        raise UnknownNameError("kernel", name, known or KERNELS)
    if not isinstance(gamma, int | float | np.number) or not 0 < gamma < float("inf"):
        raise InputError(f"gamma must be a number above 0. Got {gamma!r}.")
    return KERNELS[name]


def typical_gamma(name: str, X: Array) -> float:
    """Return the γ at which the kernel of two typical rows of X (n, d) is e⁻¹, or the two terms of "poly" are equal.

    No labels are needed. γ is 1 / (median distance), for Gaussians 1 / (median distance)², and for "poly" 1 / (median
    squared length). It is 1 for kernels without a scale and if all rows are equal. The medians are estimated from
    `TYPICAL` evenly spaced rows.

    >>> typical_gamma("laplace", np.array([[0.0], [4.0]]))
    0.25
    """
    shape, norm = name.partition("-")[0], check_kernel(name, 1.0).norm
    rows = X[:: max(1, -(-X.shape[0] // TYPICAL))]
    if shape == "poly":
        typical = float(np.median(as_numpy(_squares(rows))))
    elif shape in ("gaussian", "laplace") and rows.shape[0] > 1:
        D = as_numpy(distances(rows, rows, norm or 2))
        typical = float(np.median(D[np.triu_indices(len(D), 1)]))
        typical = typical**2 if shape == "gaussian" else typical
    else:
        return 1.0
    return 1 / typical if 1e-30 < typical < 1e30 else 1.0


def linear(X: Array, Y: Array, gamma: float) -> Array:  # noqa: ARG001 (every kernel takes γ)
    """Linear kernel: xᵀy."""
    return X @ Y.T


def gaussian(X: Array, Y: Array, gamma: float) -> Array:
    """Gaussian kernel: exp(−γ‖x − y‖²), Eq. 17, slem. Computed in place, because the matrix can be very large."""
    xp = namespace(X)
    K = X @ Y.T  # (n, m)
    K *= 2 * gamma
    K -= gamma * _squares(X)[:, None]
    K -= gamma * _squares(Y)
    xp.minimum(K, _zero(K), out=K)  # rounding can make squared distances negative
    xp.exp(K, out=K)
    return K


def poly(X: Array, Y: Array, gamma: float) -> Array:
    """Polynomial kernel: xᵀy + γ(xᵀy)², Eq. 18, slem."""
    K = X @ Y.T  # (n, m)
    K += gamma * K * K
    return K


def gaussian_l1(X: Array, Y: Array, gamma: float) -> Array:
    """Gaussian of the L1 distance: exp(−γ‖x − y‖₁²). Not positive definite, so it may not define a feature space."""
    D = distances(X, Y, 1)  # (n, m)
    return namespace(D).exp(-gamma * D * D)


def laplace(norm: int, X: Array, Y: Array, gamma: float) -> Array:
    """Laplace kernel: exp(−γ‖x − y‖), §4, fsm-tree."""
    D = distances(X, Y, norm)  # (n, m)
    D *= -gamma
    return namespace(D).exp(D)


def angular(norm: int, X: Array, Y: Array, gamma: float) -> Array:  # noqa: ARG001
    """Angular kernel: −‖x − y‖, conditionally positive definite and without a scale, §4, fsm-tree."""
    return -distances(X, Y, norm)


def _zero(X: Array) -> Array:
    return namespace(X).zeros((), dtype=X.dtype, device=array_api_compat.device(X))


def _zeros(X: Array, gamma: float) -> Array:  # noqa: ARG001
    return namespace(X).zeros_like(X[:, 0])


def _squares(X: Array) -> Array:
    return namespace(X).linalg.vecdot(X, X)  # (n,)


def _ones(X: Array, gamma: float) -> Array:  # noqa: ARG001
    return namespace(X).ones_like(X[:, 0])


def _diagonal_linear(X: Array, gamma: float) -> Array:  # noqa: ARG001
    return _squares(X)


def _diagonal_poly(X: Array, gamma: float) -> Array:
    squares = _squares(X)  # (n,)
    return squares + gamma * squares * squares


def _tangent_gaussian(X: Array, gamma: float) -> tuple[Array, Array, Array]:
    falls = gamma * _squares(X)  # exp(−t) ≈ 1 − t, t = γ‖x‖² + γ‖y‖² − 2γxᵀy
    return 2 * gamma + 0 * falls, 1 - falls, falls


def _tangent_linear(X: Array, gamma: float) -> tuple[Array, Array, Array]:
    ones = _ones(X, gamma)
    return ones, 0 * ones, 0 * ones


def _tangent_poly(X: Array, gamma: float) -> tuple[Array, Array, Array]:
    squares = _squares(X)  # t + γt² ≈ (1 + 2γt₀)t − γt₀², t₀ = ‖x‖²
    return 1 + 2 * gamma * squares, -gamma * squares * squares, 0 * squares


KERNELS: dict[str, Kernel] = {
    "angular": Kernel(partial(angular, 1), _zeros, norm=1, balanced=True),
    "angular-l2": Kernel(partial(angular, 2), _zeros, norm=2, balanced=True),
    "gaussian": Kernel(gaussian, _ones, norm=2),
    "gaussian-l1": Kernel(gaussian_l1, _ones, norm=1),
    "laplace": Kernel(partial(laplace, 1), _ones, norm=1),
    "laplace-l2": Kernel(partial(laplace, 2), _ones, norm=2),
    "linear": Kernel(linear, _diagonal_linear),
    "poly": Kernel(poly, _diagonal_poly),
}
"""Kernels by name. To add a kernel, add its functions and a line here."""

TANGENTS: dict[str, Callable[[Array, float], tuple[Array, Array, Array]]] = {
    "gaussian": _tangent_gaussian,
    "linear": _tangent_linear,
    "poly": _tangent_poly,
}
"""Linear approximations of the kernels that kernel SLEM can use: positive definite and smooth in the inner product.
Maps X (n, d) and γ to slopes, levels and falls, (n,) each: K(x, y) ≈ slope(x) xᵀy + level(x) − fall(y) for y near x."""
