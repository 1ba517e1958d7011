"""NumPy and torch behind one door: namespace, checks, chunks.

In: any array with the array API (NumPy arrays, torch tensors). Out: the same kind. What the standard lacks and the
maths comes to need (top-k, triangular solves) belongs here, in a short closed list.
"""

from collections.abc import Iterator
from typing import Any

import array_api_compat
import numpy as np

from lookalike.errors import InputError
from lookalike.types import Array, Vectors

CHUNK_BYTES = 64 * 2**20
"""How much a loop over many rows may hold at a time, where nobody says otherwise."""


def namespace(*arrays: Array) -> Any:
    """The array API namespace of the arguments; plain sequences count as NumPy.

    >>> namespace(np.zeros(3)).__name__
    'array_api_compat.numpy'
    """
    known = [a for a in arrays if array_api_compat.is_array_api_obj(a)]
    return array_api_compat.array_namespace(*known) if known else array_api_compat.array_namespace(np.empty(0))


def check_rows(X: Array, *, dim: int | None = None, name: str = "X") -> Array:
    """`X` as a finite float matrix of its own namespace, (n, d); integers become float32.

    Raises InputError, with what is allowed and what came, for anything else.
    """
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


def to_numpy(X: Array) -> Vectors:
    """The same numbers as a NumPy float32 array, without a copy where none is needed."""
    if array_api_compat.is_torch_array(X):
        X = X.detach().cpu().numpy()
    return np.ascontiguousarray(X, dtype=np.float32)


def unit_rows(X: Array) -> Array:
    """Rows divided by their Euclidean length; a zero row stays zero."""
    xp = namespace(X)
    length = xp.sqrt(xp.sum(X * X, axis=1, keepdims=True))  # (n, 1)
    return X / xp.where(length > 0, length, xp.ones_like(length))


def _count_bad(xp: Any, X: Array) -> int:
    return int(xp.sum(xp.astype(xp.any(~xp.isfinite(X), axis=1), xp.int64)))
