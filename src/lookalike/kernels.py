"""Kernels, a table from name to functions: K(x, y) is the inner product of two rows in some feature space.

In: rows X (n, d) and Y (m, d), NumPy or torch, and the kernel's γ. Out: (n, m), and K(x, x) as (n,), at the
precision of X. Eq. 17 and 18, slem; §4, fsm-tree, for those of a distance, which take the L1 or the L2 norm.
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
"""Rows that a typical distance is taken from."""


class Kernel(NamedTuple):
    """A kernel's functions."""

    pairs: Callable[[Array, Array, float], Array]
    """X (n, d), Y (m, d), γ to K(x, y), (n, m)."""

    diagonal: Callable[[Array, float], Array]
    """X (n, d), γ to K(x, x), (n,)."""

    norm: int | None = None
    """1 or 2 where K(x, y) depends on ‖x − y‖ of that norm alone; None where it depends on inner products."""

    balanced: bool = False
    """Whether it is positive definite only for coefficients that add up to 0: then a vector Σ aᵢφ(xᵢ) has a length."""


def check_kernel(name: str, gamma: float, known: Collection[str] | None = None) -> Kernel:
    """The kernel of this name, one of those `known` (all, where None), after a look at its γ.

    >>> check_kernel("poly", 0.5).pairs(np.array([[2.0, 0.0]]), np.array([[1.0, 3.0]]), 0.5)
    array([[4.]])
    """
    if name not in (known or KERNELS):
        raise UnknownNameError("kernel", name, known or KERNELS)
    if not isinstance(gamma, int | float | np.number) or not 0 < gamma < float("inf"):
        raise InputError(f"gamma must be a number above 0. Got {gamma!r}.")
    return KERNELS[name]


def typical_gamma(name: str, X: Array) -> float:
    """The γ at which two typical rows of X (n, d) have the kernel e⁻¹, or "poly" two equal terms.

    A rule that needs no labels: one over the median distance, of a Gaussian the squared one, of "poly" over the median
    squared length; 1 for kernels without a scale, and where all rows are the same. From `TYPICAL` rows, evenly spread.

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
    """xᵀy."""
    return X @ Y.T


def gaussian(X: Array, Y: Array, gamma: float) -> Array:
    """exp(−γ‖x − y‖²): Eq. 17, slem. In place: a kernel matrix may be most of the memory there is."""
    xp = namespace(X)
    K = X @ Y.T  # (n, m)
    K *= 2 * gamma
    K -= gamma * _squares(X)[:, None]
    K -= gamma * _squares(Y)
    xp.minimum(K, _zero(K), out=K)  # rounding: no distance is below 0
    xp.exp(K, out=K)
    return K


def poly(X: Array, Y: Array, gamma: float) -> Array:
    """xᵀy + γ(xᵀy)²: Eq. 18, slem."""
    K = X @ Y.T  # (n, m)
    K += gamma * K * K
    return K


def gaussian_l1(X: Array, Y: Array, gamma: float) -> Array:
    """exp(−γ‖x − y‖₁²). Not positive definite: distances of its feature space can be those of no space."""
    D = distances(X, Y, 1)  # (n, m)
    return namespace(D).exp(-gamma * D * D)


def laplace(norm: int, X: Array, Y: Array, gamma: float) -> Array:
    """exp(−γ‖x − y‖): §4, fsm-tree."""
    D = distances(X, Y, norm)  # (n, m)
    D *= -gamma
    return namespace(D).exp(D)


def angular(norm: int, X: Array, Y: Array, gamma: float) -> Array:  # noqa: ARG001
    """−‖x − y‖, conditionally positive definite and without a scale: §4, fsm-tree."""
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
"""By name. A new kernel is its functions and a line here."""

TANGENTS: dict[str, Callable[[Array, float], tuple[Array, Array, Array]]] = {
    "gaussian": _tangent_gaussian,
    "linear": _tangent_linear,
    "poly": _tangent_poly,
}
"""Of the kernels that are positive definite and smooth in the inner product, those that kernel SLEM can use: X (n, d)
and γ to slopes, levels and falls, (n,) each, where K(x, y) ≈ slope(x) xᵀy + level(x) − fall(y) for y near x."""
