"""Compiled loops over scaled rows.

numba takes half a second to load, so only searches of many rows import this module.
"""

from functools import partial
from typing import Any

import numpy as np

from lookalike.compiler import njit
from lookalike.index.threads import share
from lookalike.scaled_rows import GROUP, ScaledRows
from lookalike.types import Vectors

LEAST = 2**12
"""Minimum number of rows per thread."""


def products(X: ScaledRows, points: Vectors, out: Vectors) -> None:
    """Write the inner products of scaled rows (m, d) with points (q, d) to `out` (m, q)."""
    share(partial(_products, _bytes(X), X.scales, np.ascontiguousarray(points), out), len(X), LEAST)


def decode(X: ScaledRows) -> Vectors:
    """Decode scaled rows: the same values as `X.decode()`."""
    out = np.empty(X.shape, np.float32)
    share(partial(_decode, _bytes(X), X.scales, out), len(X), LEAST)
    return out


def _bytes(X: ScaledRows) -> Any:
    """The bytes of whole rows, with their scales, because compiled loops are faster if rows are consecutive."""
    return np.ascontiguousarray(X.data).view(np.int8)


# The loops over 64 columns have a constant length, which makes them several times faster.


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _products(rows: Any, scales: Any, points: Any, out: Any, start: Any, stop: Any) -> None:
    q, d = points.shape
    whole = d // GROUP
    for i in range(start, stop):
        for j in range(q):
            total = np.float32(0)
            for g in range(whole):
                row, point = rows[i, GROUP * g : GROUP * g + GROUP], points[j, GROUP * g : GROUP * g + GROUP]
                part = np.float32(0)
                for c in range(GROUP):
                    part += np.float32(row[c]) * point[c]
                total += part * scales[i, g]
            part = np.float32(0)
            for c in range(GROUP * whole, d):
                part += np.float32(rows[i, c]) * points[j, c]
            out[i, j] = total + (part * scales[i, whole] if d > GROUP * whole else np.float32(0))


@njit(cache=True, nogil=True)
def _decode(rows: Any, scales: Any, out: Any, start: Any, stop: Any) -> None:
    d = out.shape[1]
    whole = d // GROUP
    for i in range(start, stop):
        for g in range(whole):
            row, decoded = rows[i, GROUP * g : GROUP * g + GROUP], out[i, GROUP * g : GROUP * g + GROUP]
            scale = scales[i, g]
            for c in range(GROUP):
                decoded[c] = np.float32(row[c]) * scale
        for c in range(GROUP * whole, d):
            out[i, c] = np.float32(rows[i, c]) * scales[i, whole]
