"""What codes can be asked.

In: codes X, (m, bits / 8) uint8. Out: scores, (q, m) float32, smaller is better. An index of codes answers any of them;
`CodeQuery` without weights is the one it is fastest at.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lookalike.codes.bits import Codes, check_codes, check_weights, hamming, popcount
from lookalike.codes.tables import TableQuery, weight_tables
from lookalike.types import Array, Vectors


class CodeQuery:
    """What differs from these codes in the fewest bits, or in those that weigh least.

    Parameters
    ----------
    codes : (q, bits / 8) uint8, one code per row
    weights : None counts bits; (bits,) or (q, bits) adds up the weights of those that differ, such as margins.

    Examples
    --------
    >>> X = np.array([[0b11], [0b01]], np.uint8)
    >>> CodeQuery(np.array([[0b10]], np.uint8)).score(X)
    array([[1., 2.]], dtype=float32)
    >>> CodeQuery(np.array([[0b10]], np.uint8), weights=[0, 0, 0, 0, 0, 0, 1, 9]).score(X)
    array([[ 9., 10.]], dtype=float32)

    """

    def __init__(self, codes: Codes, weights: ArrayLike | None = None):
        self.codes = check_codes(codes, name="query")
        self.weights = None if weights is None else check_weights(weights, *self.codes.shape)  # (q, bits)
        self._tables = None if self.weights is None else TableQuery(weight_tables(self.codes, self.weights))

    @property
    def dim(self) -> int:
        """Bytes of a code."""
        return int(self.codes.shape[1])

    def score(self, X: Array) -> Vectors:
        """(m, bytes) to (q, m)."""
        return hamming(self.codes, X).astype(np.float32) if self._tables is None else self._tables.score(X)


class SphericalQuery:
    """Spherical Hamming distance: bits that differ, over bits that are 1 in both (Heo et al., CVPR 2012, Eq. 5).

    Where no bit is 1 in both there is nothing in common: such rows come behind all others, by the bits that differ.

    Examples
    --------
    >>> SphericalQuery(np.array([[0b110]], np.uint8)).score(np.array([[0b111], [0b010], [0b001]], np.uint8))
    array([[ 0.5,  1. , 11. ]], dtype=float32)

    """

    def __init__(self, codes: Codes):
        self.codes = check_codes(codes, name="query")

    @property
    def dim(self) -> int:
        """Bytes of a code."""
        return int(self.codes.shape[1])

    def score(self, X: Array) -> Vectors:
        """(m, bytes) to (q, m)."""
        differ = hamming(self.codes, X)  # (q, m)
        # |a| + |b| = |a xor b| + 2 |a and b|
        common: Any = (popcount(self.codes)[:, None] + popcount(X) - differ) // 2
        none = np.where(differ > 0, 8 * self.dim + differ, 0)  # above any quotient; equal codes are equal
        scores: Vectors = np.where(common > 0, differ / np.maximum(common, 1), none).astype(np.float32)
        return scores
