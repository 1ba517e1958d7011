"""Random hyperplanes: locality-sensitive hashing for angles.

In: rows (n, d). Out: codes (n, bits / 8) uint8; two rows differ in a share of the bits that is their angle over π, in
the mean. Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.
"""

import numpy as np
from numpy.typing import NDArray

from lookalike.codes.signs import RowSummary, Unsupervised
from lookalike.types import Array


class Lsh(Unsupervised):
    """Signs of products with random normals. Any number of bits; nested: longer codes begin with the shorter ones.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    random_state : seed of the normals.
    centre : whether the hyperplanes go through the mean of the rows, or through the origin. Rows without negative
        numbers all lie on one side of it: most bits through the origin are then nearly constant.

    Attributes
    ----------
    W_ : (bits, d) float32, the normals. b_ : (bits,) float32.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 16))
    >>> coder = Lsh(bits=64).fit(X)
    >>> coder.encode(X).shape, bool((coder.encode(X)[:, :4] == Lsh(bits=32).fit(X).encode(X)).all())
    ((100, 8), True)

    """

    def __init__(self, bits: int = 64, random_state: int = 0, centre: bool = True):
        self.bits = bits
        self.random_state = random_state
        self.centre = centre

    def _learn(
        self, X: Array, summary: RowSummary, random: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        W = random.normal(size=(self.bits, X.shape[1]))
        return W, -W @ summary.mean * bool(self.centre)
