"""Queries for codes: they score codes (m, bits / 8) uint8, (q, m) float32; smaller is better.

`CodeQuery` scores by Hamming distance, plain or weighted, `SphericalQuery` by spherical Hamming distance, `TableQuery`
by a table per byte. Every index of codes answers all of them; a `CodeQuery` without weights is the fastest.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lookalike.codes.bits import Codes, check_codes, check_weights, hamming, popcount, unpack
from lookalike.compiler import njit
from lookalike.types import Array, Vectors

VALUES = 256
"""Values of a byte."""


class CodeQuery:
    """Hamming distance: the number of bits that differ from these codes, or the sum of their weights.

    Parameters
    ----------
    codes : (q, bits / 8) uint8, one code per row.
    weights : None counts bits; weights (bits,) or (q, bits), such as margins, are summed over the bits that differ.

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
        self._tables = None if self.weights is None else TableQuery(_weight_tables(self.codes, self.weights))

    @property
    def dim(self) -> int:
        """Bytes of a code."""
        return int(self.codes.shape[1])

    def score(self, X: Array) -> Vectors:
        """Score codes (m, bytes): (q, m)."""
        return hamming(self.codes, X).astype(np.float32) if self._tables is None else self._tables.score(X)


class SphericalQuery:
    """Spherical Hamming distance: bits that differ over bits that are 1 in both (Heo et al., CVPR 2012, Eq. 5).

    Codes that share no 1 with the query come after all others, ordered by the number of bits that differ.

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
        """Score codes (m, bytes): (q, m)."""
        differ = hamming(self.codes, X)  # (q, m)
        # |a| + |b| = |a xor b| + 2 |a and b|
        common: Any = (popcount(self.codes)[:, None] + popcount(X) - differ) // 2
        none = np.where(differ > 0, 8 * self.dim + differ, 0)  # above any quotient; 0 for two equal codes of zeros
        scores: Vectors = np.where(common > 0, differ / np.maximum(common, 1), none).astype(np.float32)
        return scores


class TableQuery:
    """The sum of one table entry per byte of a code.

    Product quantisers compare a vector with codes this way (Jégou et al., IEEE TPAMI 2011, Eq. 13); a weighted Hamming
    distance is also computed this way.

    Parameters
    ----------
    tables : (q, bytes, 256) float32, the cost of each value of each byte.

    Examples
    --------
    >>> tables = np.zeros((1, 2, 256), np.float32)
    >>> tables[0, 1, 7] = 0.5
    >>> TableQuery(tables).score(np.array([[0, 7], [7, 0]], np.uint8))
    array([[0.5, 0. ]], dtype=float32)

    """

    def __init__(self, tables: NDArray[np.float32]):
        self.tables = np.ascontiguousarray(tables, np.float32)  # (q, bytes, 256)

    @property
    def dim(self) -> int:
        """Bytes of a code."""
        return int(self.tables.shape[1])

    def score(self, X: Array) -> Vectors:
        """Score codes (m, bytes): (q, m)."""
        codes = check_codes(X, self.dim)
        scores = np.empty((len(self.tables), len(codes)), np.float32)
        _score_all(self.tables, codes, scores)
        return scores


def _weight_tables(codes: Codes, W: Vectors) -> NDArray[np.float32]:
    """Tables (q, bytes, 256) of the Hamming distance to `codes` (q, bytes) with weights W (q, bits)."""
    q, n_bytes = codes.shape
    values = unpack(np.arange(VALUES, dtype=np.uint8)[:, None])  # (256, 8): the bits of every byte
    differ = unpack(codes).reshape(q, n_bytes, 1, 8) != values  # (q, bytes, 256, 8)
    tables: NDArray[np.float32] = np.einsum("qbvi,qbi->qbv", differ, W.reshape(q, n_bytes, 8), dtype=np.float32)
    return tables


@njit(cache=True, nogil=True)
def _score(table: Any, codes: Any, out: Any) -> None:
    for i in range(len(codes)):
        total = np.float32(0)
        for b in range(codes.shape[1]):
            total += table[b, codes[i, b]]
        out[i] = total


@njit(cache=True, nogil=True)
def _score_all(tables: Any, codes: Any, out: Any) -> None:
    for j in range(len(tables)):
        _score(tables[j], codes, out[j])
