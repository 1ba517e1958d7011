"""Coders whose bits are the signs of waves: cos(w·x + b) + t.

In: rows (n, d). Out: as `Unsupervised`. Spectral hashing has long waves along principal directions, SKLSH random ones.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookalike.codes.signs import MOST, Unsupervised, mark_unclear, settle
from lookalike.types import Vectors

TURN = np.float32(2 * np.pi)


class WaveCoder(Unsupervised):
    """Signs of cos(XWᵀ + b) + t; t is 0 where a subclass has no `t_`."""

    t_: Vectors  # (bits,)

    def _sizes(self, longest: float) -> NDArray[Any]:
        return super()._sizes(longest) + TURN  # the roundings of t, and of angles within a turn

    def _settle(self, Y: Vectors, rows: Vectors, places: NDArray[np.int64]) -> int:  # noqa: ARG002 (as in SignCoder)
        Y += self.b_
        np.cos(Y, out=Y)
        return int(settle(Y, self.t_, np.zeros(len(Y), np.float32), self.noise_, places))

    def _settle_signs(self, Y: Vectors, rows: Vectors, places: NDArray[np.int64]) -> int:  # noqa: ARG002
        # cos(y) + t > 0 where y is no farther than arccos(−t) from a whole turn: no cosine is needed for that.
        reach = np.arccos(np.clip(-self.t_.astype(np.float64), -1, 1)).astype(np.float32)
        return int(_fold(Y, self.b_, reach, self.noise_, places))

    def _bend(
        self, Y: NDArray[np.float64], rows: Vectors, row: NDArray[np.intp], bit: NDArray[np.intp]  # noqa: ARG002
    ) -> NDArray[np.float64]:  # fmt: skip
        bent: NDArray[np.float64] = np.cos(Y) + self.t_[bit]
        return bent


@njit(cache=True, nogil=True)
def _fold(Y: Any, b: Any, reach: Any, noise: Any, places: Any) -> Any:
    """As `settle`, but Y becomes how much nearer than `reach` each Y + b is to a whole turn."""
    n, bits = Y.shape
    count = 0
    for i in range(n):
        unclear = np.int32(0)
        for bit in range(bits):
            turns = (Y[i, bit] + b[bit]) / TURN
            value = reach[bit] - abs(turns - np.floor(turns + np.float32(0.5))) * TURN
            Y[i, bit] = value
            unclear |= np.int32(not (noise[bit] < abs(value) <= MOST))
        if unclear:
            count = mark_unclear(Y, noise, i, places, count)
    return count
