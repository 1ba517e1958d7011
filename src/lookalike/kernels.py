"""Kernels, a table from name to functions: K(x, y) is the inner product of two rows in some feature space.

In: rows X (n, d) and Y (m, d), NumPy or torch, and the kernel's γ. Out: (n, m), and K(x, x) as (n,), at the
precision of X. Eq. 17 and 18, slem.
"""

from collections.abc import Callable
from typing import NamedTuple

import array_api_compat
import numpy as np

from lookalike.arrays import namespace
from lookalike.errors import InputError, UnknownNameError
from lookalike.types import Array


class Kernel(NamedTuple):
    """A kernel's functions."""

    pairs: Callable[[Array, Array, float], Array]
    """X (n, d), Y (m, d), γ to K(x, y), (n, m)."""

    diagonal: Callable[[Array, float], Array]
    """X (n, d), γ to K(x, x), (n,)."""

    tangent: Callable[[Array, float], tuple[Array, Array, Array]]
    """X (n, d), γ to slopes, levels and falls, (n,) each: K(x, y) ≈ slope(x) xᵀy + level(x) − fall(y) for y near x."""


def check_kernel(name: str, gamma: float) -> Kernel:
    """The kernel of this name, after a look at its γ.

    >>> check_kernel("poly", 0.5).pairs(np.array([[2.0, 0.0]]), np.array([[1.0, 3.0]]), 0.5)
    array([[4.]])
    """
    if name not in KERNELS:
        raise UnknownNameError("kernel", name, KERNELS)
    if not isinstance(gamma, int | float | np.number) or not 0 < gamma < float("inf"):
        raise InputError(f"gamma must be a number above 0. Got {gamma!r}.")
    return KERNELS[name]


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
    zero = xp.zeros((), dtype=K.dtype, device=array_api_compat.device(K))
    xp.minimum(K, zero, out=K)  # rounding: no distance is below 0
    xp.exp(K, out=K)
    return K


def poly(X: Array, Y: Array, gamma: float) -> Array:
    """xᵀy + γ(xᵀy)²: Eq. 18, slem."""
    K = X @ Y.T  # (n, m)
    K += gamma * K * K
    return K


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
    "gaussian": Kernel(gaussian, _ones, _tangent_gaussian),
    "linear": Kernel(linear, _diagonal_linear, _tangent_linear),
    "poly": Kernel(poly, _diagonal_poly, _tangent_poly),
}
"""By name. A new kernel is its functions and a line here."""
