"""Spectral hashing: the longest waves that fit into the box of the principal components.

In: rows (n, d). Out: codes (n, bits / 8) uint8. Weiss, Torralba & Fergus, "Spectral hashing", NIPS 2008: for rows
spread evenly over a box, the graph Laplacian's eigenfunctions are cos(kπx / side) along each side (Eq. 7–8).
"""

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, chunks, principal, to_numpy
from lookalike.codes.signs import RowSummary
from lookalike.codes.waves import WaveCoder
from lookalike.types import Array

LEAST = 1e-6
"""A side below this share of the longest one is rounding: no wave goes along it."""


class Spectral(WaveCoder):
    """Signs of cosine waves along principal directions, long waves first: long sides of the box get several bits.

    Any number of bits: shorter and shorter waves make up for missing directions. Not nested: longer codes look at more
    directions, whose waves come in between.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    random_state : not used, as nothing is random; there for all coders to take the same options.

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
        longest = float(sides.max()) or 1.0  # rows all alike: any wave will do
        sides = np.where(sides > LEAST * longest, sides, LEAST * longest)
        # Frequencies kπ / side: `bits` along each side are enough to choose from; the smallest are the longest waves.
        frequencies = np.pi * np.arange(1, self.bits + 1) / sides[:, None]  # (D, bits)
        chosen = np.argsort(frequencies, axis=None, kind="stable")[: self.bits]
        side, frequency = chosen // self.bits, frequencies.ravel()[chosen]
        self.t_ = np.zeros(self.bits, np.float32)
        return components[side] * frequency[:, None], -low[side] * frequency


def _box(X: Array, components: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The smallest and the largest projection on each component, (D,)."""
    low, high = np.full(len(components), np.inf), np.full(len(components), -np.inf)
    for part in chunks(X.shape[0], row_bytes=8 * sum(components.shape)):
        Y = to_numpy(X[part]) @ components.T  # (m, D)
        low, high = np.minimum(low, Y.min(axis=0)), np.maximum(high, Y.max(axis=0))
    return low, high
