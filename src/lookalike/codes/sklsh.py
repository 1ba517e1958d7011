"""Binary codes from shift-invariant kernels: signs of random waves.

In: rows (n, d). Out: codes (n, bits / 8) uint8; the share of bits in which two rows differ depends on their Gaussian
kernel exp(−γ‖x − y‖² / 2) alone, in the mean. Raginsky & Lazebnik, "Locality-sensitive binary codes from
shift-invariant kernels", NIPS 2009, Eq. 2 and 6.
"""

from numbers import Real

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks, to_numpy
from lookalike.codes.signs import RowSummary
from lookalike.codes.waves import WaveCoder
from lookalike.limits import check_number
from lookalike.types import Array, Vectors


class Sklsh(WaveCoder):
    """Signs of cos(w·x + b) + t with random w, b and t. Any number of bits; nested as random waves go.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    random_state : seed of the waves.
    gamma : of the kernel; None is 1 over the mean squared distance of a row from the mean. Larger ones tell only near
        rows apart from far ones, smaller ones need more bits to tell anything.

    Attributes
    ----------
    W_ : (bits, d) float32, N(0, γ). b_ : (bits,) float32, from 0 to 2π. t_ : (bits,) float32, from -1 to 1.
    gamma_ : what γ was.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 16))
    >>> Sklsh(bits=32).fit(X).encode(X).shape
    (100, 4)

    """

    t_: Vectors
    gamma_: float

    def __init__(self, bits: int = 64, random_state: int = 0, gamma: float | None = None):
        self.bits = bits
        self.random_state = random_state
        self.gamma = gamma

    def _learn(
        self, X: Array, summary: RowSummary, random: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.gamma is None:
            self.gamma_ = 1 / (_spread(X, summary.mean) or 1.0)  # rows all alike are near each other at any γ
        else:
            check_number("gamma", self.gamma, Real, "None or a number above 0", np.nextafter(0, 1), np.inf)
            self.gamma_ = float(self.gamma)
        W = np.empty((self.bits, X.shape[1]))
        b, t = np.empty(self.bits), np.empty(self.bits)
        for bit in range(self.bits):  # one after the other, so that longer codes begin with the shorter ones
            W[bit] = random.normal(scale=self.gamma_**0.5, size=X.shape[1])
            b[bit], t[bit] = random.uniform(0, 2 * np.pi), random.uniform(-1, 1)
        self.t_ = t.astype(np.float32)
        return W, b


def _spread(X: Array, mean: NDArray[np.float64]) -> float:
    """The mean squared distance of the rows from their mean."""
    total = 0.0
    for part in chunks(X.shape[0], row_bytes=16 * X.shape[1]):
        centred = to_numpy(X[part]) - mean
        total += float(np.vecdot(centred, centred).sum())
    return total / int(X.shape[0])
