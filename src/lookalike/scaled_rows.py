"""`ScaledRows`: vectors that are stored as bytes, at about a quarter of the size of float32.

A row has one int8 per column, and one float32 scale per 64 columns: value = byte · scale. The scale of a group of
columns is its largest magnitude / 127, so a few large columns do not affect the others, and rounding changes a value by
at most 1/254 of the largest magnitude in its group. The bytes of a row depend only on its vector, never on other rows.
So rows are copied and merged without another rounding, and always decode to the same values.
"""

from collections.abc import Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError
from lookalike.types import Vectors

GROUP = 64
"""Columns that share a scale."""

SCALED = "scaled-int8"
"""The name of the type of scaled rows, where the types of arrays have names such as "float32"."""

LARGEST = 127
"""The largest magnitude of a byte."""

AT_ONCE = 2048
"""Rows that `dot` converts at once: they stay in the cache."""


class ScaledRows:
    """Vectors (m, d) as bytes with scales. Slices and selections are views or copies of the bytes; `decode` decodes.

    Parameters
    ----------
    data : (m, d + 4 · ⌈d / 64⌉) uint8. Per row: the bytes of the columns, then the scales in little-endian order.
    dim : d.

    Examples
    --------
    >>> rows = ScaledRows.encode(np.array([[0.0, 1.0], [-2.0, 4.0]], np.float32))
    >>> rows.data.shape, rows.decode().round(1).tolist()
    ((2, 6), [[0.0, 1.0], [-2.0, 4.0]])

    """

    dtype = np.dtype(np.int8)
    ndim = 2

    def __init__(self, data: NDArray[np.uint8], dim: int):
        self.data = data
        self.shape = len(data), dim

    @classmethod
    def encode(cls, X: NDArray[Any]) -> Self:
        """Round vectors (m, d). Raises InputError if they are not finite."""
        m, d = X.shape
        data = np.empty((m, row_width(d)), np.uint8)
        codes = data[:, :d].view(np.int8)
        scales = np.empty((m, _n_groups(d)), "<f4")
        for g, columns in enumerate(_groups(d)):
            part = X[:, columns].astype(np.float32)  # (m, 64)
            scale = np.abs(part).max(axis=1) / np.float32(LARGEST)  # (m,)
            if not np.isfinite(scale).all():
                raise InputError("Vectors must be finite. Got NaN or infinity.")
            scale = np.minimum(scale, np.nextafter(np.finfo(np.float32).max / np.float32(LARGEST), np.float32(0)))
            part /= np.where(scale > 0, scale, np.float32(1))[:, None]
            codes[:, columns] = np.clip(np.rint(part), -LARGEST, LARGEST)
            scales[:, g] = scale
        data[:, d:] = scales.view(np.uint8)
        return cls(data, d)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, rows: Any) -> "ScaledRows":
        """Some of the rows, given by a slice, numbers or a mask."""
        return ScaledRows(self.data[rows], self.shape[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.astype(np.dtype(np.float32 if dtype is None else dtype))

    @property
    def nbytes(self) -> int:
        """Size in bytes, including the scales."""
        return self.data.nbytes

    @property
    def codes(self) -> NDArray[np.int8]:
        """The bytes of the columns, (m, d), without their scales."""
        return self.data[:, : self.shape[1]].view(np.int8)

    @property
    def scales(self) -> Vectors:
        """The scales, (m, ⌈d / 64⌉), as a copy."""
        scales: Vectors = np.ascontiguousarray(self.data[:, self.shape[1] :]).view("<f4").astype(np.float32, copy=False)
        return scales

    def decode(self) -> Vectors:
        """Return the vectors, (m, d) float32."""
        X, scales = self.codes.astype(np.float32), self.scales
        for g, columns in enumerate(_groups(self.shape[1])):
            X[:, columns] *= scales[:, g, None]
        return X

    def dot(self, points: Vectors, out: Vectors) -> None:
        """Write the inner products with points (q, d) to `out` (m, q). For few points, faster than decoding."""
        for start in range(0, len(self), AT_ONCE):
            part, sums = self[start : start + AT_ONCE], out[start : start + AT_ONCE]
            codes, scales = part.codes.astype(np.float32), part.scales
            sums[:] = 0
            for g, columns in enumerate(_groups(self.shape[1])):
                sums += (codes[:, columns] @ points[:, columns].T) * scales[:, g, None]  # (m, q)

    def astype(self, dtype: Any, copy: bool = True) -> NDArray[Any]:
        """Return the vectors as another type, like the method of an array."""
        return self.decode().astype(dtype, copy=copy)

    def take(self, rows: NDArray[Any], axis: int = 0) -> Vectors:
        """Return the vectors of the rows with these numbers, like the method of an array."""
        return ScaledRows(self.data.take(rows, axis=axis), self.shape[1]).decode()


Rows: TypeAlias = NDArray[Any] | ScaledRows
"""Stored rows: an array or scaled rows."""


def row_width(d: int) -> int:
    """Return the bytes of a scaled row of d columns."""
    return d + 4 * _n_groups(d)


def dtype_name(rows: Rows) -> str:
    """Return the name of the type of rows."""
    return SCALED if isinstance(rows, ScaledRows) else rows.dtype.name


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows. If some are scaled rows, the others are rounded, and the result is scaled rows."""
    if not any(isinstance(part, ScaledRows) for part in parts):
        return np.concatenate(parts)
    scaled = [part if isinstance(part, ScaledRows) else ScaledRows.encode(part) for part in parts]
    return ScaledRows(np.concatenate([part.data for part in scaled]), scaled[0].shape[1])


def as_stored(rows: Rows) -> NDArray[Any]:
    """Return the array that a file of these rows contains."""
    return rows.data if isinstance(rows, ScaledRows) else rows


def _n_groups(d: int) -> int:
    return -(-d // GROUP)


def _groups(d: int) -> list[slice]:
    return [slice(start, min(d, start + GROUP)) for start in range(0, d, GROUP)]
