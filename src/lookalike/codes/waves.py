"""Unsupervised coders whose bits are signs of waves, cos(w·x + b) + t: `Spectral` and `Sklsh`.

Spectral hashing uses long waves along principal directions, SKLSH random ones.
"""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, chunks, principal, to_numpy
from lookalike.codes.signs import MOST, RowSummary, UnsupervisedCoder, add_bias, list_unclear
from lookalike.compiler import njit
from lookalike.limits import check_number
from lookalike.types import Array, Vectors

TURN = np.float32(2 * np.pi)
LEAST_SIDE = 1e-6
"""Sides of the box of `Spectral` below this share of the longest one are rounding errors and get no waves."""


class WaveCoder(UnsupervisedCoder):
    """Signs of cos(XWᵀ + b) + t."""

    t_: Vectors  # (bits,)

    def _magnitudes(self, longest: float) -> NDArray[Any]:
        return super()._magnitudes(longest) + TURN  # the rounding of t, and of angles within a turn

    def _finish(self, Y: Vectors, rows: Vectors, unclear: NDArray[np.int64]) -> int:  # noqa: ARG002
        Y += self.b_
        np.cos(Y, out=Y)
        return int(add_bias(Y, self.t_, np.zeros(len(Y), np.float32), self.noise_, unclear))

    def _finish_signs(self, Y: Vectors, rows: Vectors, unclear: NDArray[np.int64]) -> int:  # noqa: ARG002
        # cos(y) + t > 0 if y is within arccos(−t) of a multiple of 2π: no cosine per score is needed.
        reach = np.arccos(np.clip(-self.t_.astype(np.float64), -1, 1)).astype(np.float32)
        return int(_compare_angles(Y, self.b_, reach, self.noise_, unclear))

    def _finish_exact(
        self, Y: NDArray[np.float64], rows: Vectors, row: NDArray[np.intp], bit: NDArray[np.intp]  # noqa: ARG002
    ) -> NDArray[np.float64]:  # fmt: skip
        scores: NDArray[np.float64] = np.cos(Y) + self.t_[bit]
        return scores


class Spectral(WaveCoder):
    """Spectral hashing: signs of the longest cosine waves that fit into the box of the principal components.

    For rows spread evenly over a box, the graph Laplacian's eigenfunctions are cos(kπx / side) along each side. Long
    sides of the box get several bits. Any number of bits: if there are too few directions, shorter waves are used. Not
    nested: longer codes use more directions, whose waves come between the others.

    Weiss, Torralba & Fergus, "Spectral hashing", NIPS 2008, Eq. 7–8.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    random_state : ignored, as nothing is random; all coders accept it.

    Attributes
    ----------
    W_ : (bits, d) float32, directions over wavelengths. b_ : (bits,) float32: waves start at the smallest projection.
    t_ : (bits,) float32 zeros.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(size=(400, 2)) * [8, 1]
    >>> np.abs(Spectral(bits=8).fit(X).W_[:2]).round(1)  # half a wave over the long side, then a whole one
    array([[0.4, 0. ],
           [0.8, 0. ]], dtype=float32)

    """

    def __init__(self, bits: int = 64, random_state: int = 0):
        self.bits = bits
        self.random_state = random_state

    def _learn(
        self, X: Array, summary: RowSummary, random: np.random.Generator  # noqa: ARG002 (nothing is random)
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
        n, d = X.shape
        _, components, _ = map(as_numpy, principal(X, min(self.bits, d, n - 1)))  # (D, d)
        low, high = _box(X, components)  # (D,)
        sides = high - low
        longest = float(sides.max()) or 1.0  # if all rows are equal, any wave will do
        sides = np.where(sides > LEAST_SIDE * longest, sides, LEAST_SIDE * longest)
        # Frequencies kπ / side: the `bits` smallest of all, the longest waves, are chosen.
        frequencies = np.pi * np.arange(1, self.bits + 1) / sides[:, None]  # (D, bits)
        chosen = np.argsort(frequencies, axis=None, kind="stable")[: self.bits]
        side, frequency = chosen // self.bits, frequencies.ravel()[chosen]
        self.t_ = np.zeros(self.bits, np.float32)
        return components[side] * frequency[:, None], -low[side] * frequency


class Sklsh(WaveCoder):
    """Signs of cos(w·x + b) + t with random w, b and t: codes from a shift-invariant kernel.

    On average, the share of bits in which two rows differ depends only on their Gaussian kernel exp(−γ‖x − y‖² / 2).
    Any number of bits; nested.

    Raginsky & Lazebnik, "Locality-sensitive binary codes from shift-invariant kernels", NIPS 2009, Eq. 2 and 6.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    random_state : seed of the waves.
    gamma : γ of the kernel; None is 1 over the mean squared distance of a row from the mean. A larger γ separates
        only near rows from far ones; a smaller γ needs more bits.

    Attributes
    ----------
    W_ : (bits, d) float32, N(0, γ). b_ : (bits,) float32, from 0 to 2π. t_ : (bits,) float32, from -1 to 1.
    gamma_ : the γ used.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 16))
    >>> Sklsh(bits=32).fit(X).encode(X).shape
    (100, 4)

    """

    gamma_: float

    def __init__(self, bits: int = 64, random_state: int = 0, gamma: float | None = None):
        self.bits = bits
        self.random_state = random_state
        self.gamma = gamma

    def _learn(
        self, X: Array, summary: RowSummary, random: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.gamma is None:
            self.gamma_ = 1 / (_mean_square(X, summary.mean) or 1.0)  # if all rows are equal, any γ will do
        else:
            check_number("gamma", self.gamma, Real, "None or a number above 0", np.nextafter(0, 1), np.inf)
            self.gamma_ = float(self.gamma)
        W = np.empty((self.bits, X.shape[1]))
        b, t = np.empty(self.bits), np.empty(self.bits)
        for bit in range(self.bits):  # sampled bit by bit, so that longer codes start with the shorter ones
            W[bit] = random.normal(scale=self.gamma_**0.5, size=X.shape[1])
            b[bit], t[bit] = random.uniform(0, 2 * np.pi), random.uniform(-1, 1)
        self.t_ = t.astype(np.float32)
        return W, b


@njit(cache=True, nogil=True)
def _compare_angles(Y: Any, b: Any, reach: Any, noise: Any, unclear: Any) -> Any:
    """Like `add_bias`, but Y becomes `reach` minus the distance of Y + b from the nearest multiple of 2π."""
    n, bits = Y.shape
    count = 0
    for i in range(n):
        found = np.int32(0)
        for bit in range(bits):
            turns = (Y[i, bit] + b[bit]) / TURN
            value = reach[bit] - abs(turns - np.floor(turns + np.float32(0.5))) * TURN
            Y[i, bit] = value
            found |= np.int32(not (noise[bit] < abs(value) <= MOST))
        if found:
            count = list_unclear(Y, noise, i, unclear, count)
    return count


def _box(X: Array, components: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The smallest and the largest projection on each component, (D,)."""
    low, high = np.full(len(components), np.inf), np.full(len(components), -np.inf)
    for part in chunks(X.shape[0], row_bytes=8 * sum(components.shape)):
        Y = to_numpy(X[part]) @ components.T  # (m, D)
        low, high = np.minimum(low, Y.min(axis=0)), np.maximum(high, Y.max(axis=0))
    return low, high


def _mean_square(X: Array, mean: NDArray[np.float64]) -> float:
    """The mean squared distance of the rows from their mean."""
    total = 0.0
    for part in chunks(X.shape[0], row_bytes=16 * X.shape[1]):
        centred = to_numpy(X[part]) - mean
        total += float(np.vecdot(centred, centred).sum())
    return total / int(X.shape[0])
