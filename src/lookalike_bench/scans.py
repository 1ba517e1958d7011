"""A plain scan of float32 rows for the Laplace kernel, as quick as it can be: what quicker searches are measured by.

In: rows X (n, d) float32 and a hyperplane query. Out: f / ‖w‖ of every row, (n,). Eq. 3, fsm-tree. Fused: distances
and kernels of a row stay in registers, and every core works.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from lookalike.errors import InputError
from lookalike.index.hyperplane import HyperplaneQuery
from lookalike.index.threads import share
from lookalike.types import Vectors

TAYLOR = (0.0018775767, 0.0089893397, 0.055826318, 0.24015361, 0.69315308, 0.99999994)
"""2ˣ for 0 ≤ x < 1, highest power first."""


def scan_float32(X: Vectors, query: HyperplaneQuery) -> Vectors:
    """F / ‖w‖ of rows X (n, d), to float32's precision."""
    if query.kernel != "laplace":
        raise InputError(f"scan_float32 knows the kernel laplace alone. Got {query.kernel}.")
    a, b = (query.a / query.length).astype(np.float32), np.float32(query.b / query.length)
    out = np.empty(len(X), np.float32)
    share(lambda start, stop: _scan(X[start:stop], query.X, a, b, np.float32(query.gamma), out[start:stop]), len(X))
    return out


@njit(cache=True, fastmath=True, nogil=True)
def _scan(X: Any, S: Any, a: Any, b: Any, gamma: Any, out: Any) -> None:
    D = np.empty(len(S), np.float32)
    for p in range(len(X)):
        for i in range(len(S)):
            total = np.float32(0)
            for e in range(X.shape[1]):
                total += abs(X[p, e] - S[i, e])
            D[i] = total
        f = b
        for i in range(len(S)):
            f += a[i] * _exp(-gamma * D[i])
        out[p] = f


@njit(inline="always")
def _exp(x: Any) -> Any:
    """exp of float32 x ≤ 0: a polynomial, which the compiler turns into vector instructions; off by 1e-7."""
    x = max(x * np.float32(1.4426950408889634), np.float32(-126.0))
    whole = np.int32(math.floor(x))
    part = x - np.float32(whole)
    value = np.float32(TAYLOR[0])
    for i in range(1, len(TAYLOR)):
        value = value * part + np.float32(TAYLOR[i])
    return value * np.int32((whole + np.int32(127)) << np.int32(23)).view(np.float32)
