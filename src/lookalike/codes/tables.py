"""Codes scored by tables: what each value of each byte adds to the score.

In: tables (q, bytes, 256) float32 and codes (n, bytes). Out: scores (q, n) float32. Product quantisers compare a vector
with codes this way (Jégou et al., IEEE TPAMI 2011, Eq. 13), and so does a Hamming distance whose bits have weights.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookalike.codes.bits import Codes, check_codes, unpack
from lookalike.types import Array, Vectors

VALUES = 256
"""Of a byte."""


class TableQuery:
    """What has the smallest sum of table entries.

    Parameters
    ----------
    tables : (q, bytes, 256) float32, what each value of each byte costs.

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
        """(n, bytes) to (q, n)."""
        codes = check_codes(X, self.dim)
        scores = np.empty((len(self.tables), len(codes)), np.float32)
        _score_all(self.tables, codes, scores)
        return scores


def weight_tables(codes: Codes, W: Vectors) -> NDArray[np.float32]:
    """The tables of a weighted Hamming distance to `codes` (q, bytes), W (q, bits): (q, bytes, 256)."""
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
