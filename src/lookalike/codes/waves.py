"""Coders whose bits are the signs of waves: cos(w·x + b) + t.

In: rows (n, d). Out: as `Unsupervised`. Spectral hashing has long waves along principal directions, SKLSH random ones.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.codes.signs import Unsupervised
from lookalike.types import Vectors


class WaveCoder(Unsupervised):
    """Signs of cos(XWᵀ + b) + t; t is 0 where a subclass has no `t_`."""

    t_: Vectors  # (bits,)

    def _bend(self, Y: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:  # noqa: ARG002 (as in Unsupervised)
        np.cos(Y, out=Y)
        Y += self.t_
        return Y

    def _bend_one(
        self, Y: NDArray[np.float64], X: NDArray[np.float64], bit: NDArray[np.intp]  # noqa: ARG002
    ) -> NDArray[np.float64]:  # fmt: skip
        bent: NDArray[np.float64] = np.cos(Y) + self.t_[bit]
        return bent
