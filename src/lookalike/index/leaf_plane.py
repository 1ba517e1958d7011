"""A hyperplane in the units of byte codes, ready for the loops of `scan`.

In: a query, and how rows were made bytes. Out: a `Plane`. Kernels of a distance become a table of values by distance.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookalike.index.byte_sums import GROUP
from lookalike.index.hyperplane import HyperplaneQuery
from lookalike.index.scan import L1, L2, PRODUCT, Plane
from lookalike.kernels import check_kernel
from lookalike.types import Vectors

TABLE = 8_192
"""Entries of a table of kernel values, about: it stays in the fastest cache."""

SAMPLE = 20_000
"""Rows that tell how large a step is."""

OUTSIDE = 0.0005
"""The share of a dimension's values, at either end, that may not fit into a byte."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Rows as bytes, one step size for every dimension: distances of codes are distances of rows, in steps.

    >>> steps = Steps.of(np.array([[0.0, 5.0], [255.0, 5.0]], np.float32))
    >>> steps.encode(np.array([[7.2, 5.0], [250.9, 5.0]], np.float32))[:, 0].tolist()
    [7, 251]
    """

    low: Vectors  # (d,) what byte 0 stands for
    step: float

    @classmethod
    def of(cls, sample: Vectors) -> "Steps":
        """Steps that fit nearly all values of a sample (n, d)."""
        first, last = np.quantile(sample, [OUTSIDE, 1 - OUTSIDE], axis=0)  # (d,) each
        step = float((last - first).max(initial=0.0)) / 255 or 1.0
        return cls(((first + last) / 2 - 127.5 * step).astype(np.float32), step)

    @property
    def wide(self) -> int:
        """d, filled up to whole groups."""
        return len(self.low) + -len(self.low) % GROUP

    def encode(self, X: Vectors) -> NDArray[np.uint8]:
        """Rows (n, d) as bytes (n, d filled up with zeros)."""
        codes = np.zeros((len(X), self.wide), np.uint8)
        codes[:, : len(self.low)] = np.clip(np.rint((X - self.low) / self.step), 0, 255)
        return codes

    def plane(self, query: HyperplaneQuery) -> Plane:
        """The query in these steps."""
        kernel = check_kernel(query.kernel, query.gamma)
        X, a, d = query.X, query.a / query.length, len(self.low)
        if query.kernel == "linear":  # the sum of the support vectors is one vector
            X, a = (a @ X.astype(np.float64))[None, :].astype(np.float32), np.ones(1)
        near, rows = np.zeros((len(X), self.wide), np.uint8), np.zeros((len(X), self.wide), np.float32)
        table, shift, scale, offsets = np.zeros(2, np.float32), 0, 0.0, np.zeros(len(X), np.float32)
        if kernel.norm is None:
            mode = PRODUCT
            rows[:, :d] = X * self.step
            offsets = (X.astype(np.float64) @ self.low).astype(np.float32)
            scale = query.gamma if query.kernel == "poly" else 0.0
        elif kernel.norm == 1:
            mode, most = L1, 255 * d
            near = self.encode(X)
            rows[:] = near
            shift = max(0, most // TABLE).bit_length()
            middles = np.arange((most >> shift) + 1) * 2.0**shift + (2**shift - 1) / 2  # of what is thrown together
            table = _by_distance(query, middles * self.step)
        else:
            mode = L2
            rows[:, :d] = (X - self.low) / self.step
            reach = float(np.sqrt((np.maximum(np.abs(rows), np.abs(rows - 255)) ** 2).sum(1).max(initial=1.0)))
            scale = TABLE / reach
            table = _by_distance(query, np.arange(TABLE + 2) / scale * self.step)
        b = float(np.float32(query.b / query.length))
        smooth = query.kernel == "gaussian"
        return Plane(mode, near, rows, a.astype(np.float32), b, table, shift, float(np.float32(scale)), offsets, smooth)


def _by_distance(query: HyperplaneQuery, distances: NDArray[np.float64]) -> Vectors:
    """The kernel's values at these distances: those of points on a line, where every norm is the same."""
    pairs = check_kernel(query.kernel, query.gamma).pairs
    table: Vectors = pairs(distances[:, None], np.zeros((1, 1)), query.gamma)[:, 0].astype(np.float32)
    return table
