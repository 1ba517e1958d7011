"""Spherical hashing: each bit shows whether a row is inside a ball.

Each ball contains half of the rows, and any two balls share a quarter. Codes are compared by the spherical Hamming
distance (`SphericalQuery`). Heo, Lee, He, Chang & Yoon, "Spherical hashing", CVPR 2012, Eq. 3, 4, Algorithm 1.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.codes.queries import CodeQuery, SphericalQuery
from lookalike.codes.signs import RowSummary, UnsupervisedCoder, add_bias, draw_rows
from lookalike.limits import COUNT, check_number
from lookalike.types import Array, Query, Vectors

ROWS = 10_000
"""Maximum size of the random sample that the balls are fitted to: each iteration compares it with all centres."""
START = 10
"""Number of rows whose mean is the initial position of a centre: near the middle, as §3.3 requires."""
OVERLAP, SPREAD = 0.10, 0.15
"""Stopping rule: the mean distance of overlaps from a quarter and their spread, as shares of a quarter (§3.3)."""


class Spherical(UnsupervisedCoder):
    """Spherical hashing: balls with equal shares of the rows and equal overlaps. Any number of bits; not nested.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    random_state : seed of the sample and of the first centres.
    iterations : maximum number of iterations; fitting stops earlier when the overlaps are even.

    Attributes
    ----------
    W_ : (bits, d) float32, twice the centres. b_ : (bits,) float32, radius² − ‖centre‖².

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(400, 16))
    >>> coder = Spherical(bits=8).fit(X)
    >>> (coder.project(X) > 0).mean(axis=0)
    array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])

    """

    def __init__(self, bits: int = 64, random_state: int = 0, iterations: int = 100):
        self.bits = bits
        self.random_state = random_state
        self.iterations = iterations

    def query(self, X: Array, *, weighted: bool = False) -> Query:
        """A query by spherical Hamming distance; `weighted` sums the margins of the bits that differ instead."""
        return CodeQuery(self.encode(X), np.abs(self.project(X))) if weighted else SphericalQuery(self.encode(X))

    def _learn(
        self, X: Array, summary: RowSummary, random: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        check_number("iterations", self.iterations, *COUNT)
        rows = draw_rows(X, random, ROWS) - summary.mean.astype(np.float32)  # (m, d) centred: less rounding
        starts = random.integers(0, len(rows), (self.bits, START))
        centres = np.array([rows[some].mean(axis=0) for some in starts], np.float64)  # (bits, d)
        for _ in range(self.iterations):
            squares = _distances(rows, centres)  # (m, bits)
            inside = (squares <= np.median(squares, axis=0)).astype(np.float32)
            shared = (inside.T @ inside).astype(np.float64) * 4 / len(rows) - 1  # (bits, bits) o_ij / (m / 4) − 1
            pairs = shared[np.triu_indices(self.bits, 1)]
            if np.abs(pairs).mean() <= OVERLAP and pairs.std() <= SPREAD:
                break
            np.fill_diagonal(shared, 0.0)
            # Eq. 7: two balls that share too much repel each other by half of the excess; a centre moves by the mean.
            centres += (shared.sum(axis=1)[:, None] * centres - shared @ centres) / (2 * self.bits)
        radii = np.median(_distances(rows, centres), axis=0)  # (bits,) squared
        centres += summary.mean
        return 2 * centres, radii - np.square(centres).sum(axis=1)

    def _magnitudes(self, longest: float) -> NDArray[Any]:
        return super()._magnitudes(longest) + longest**2

    def _finish(self, Y: Vectors, rows: Vectors, unclear: NDArray[np.int64]) -> int:
        # r² − ‖x − c‖² = 2c·x + r² − ‖c‖² − ‖x‖²
        return int(add_bias(Y, self.b_, np.vecdot(rows, rows), self.noise_, unclear))

    def _finish_exact(
        self, Y: NDArray[np.float64], rows: Vectors, row: NDArray[np.intp], bit: NDArray[np.intp]  # noqa: ARG002
    ) -> NDArray[np.float64]:  # fmt: skip
        X = rows[row].astype(np.float64)
        scores: NDArray[np.float64] = Y - np.vecdot(X, X)
        return scores


def _distances(rows: Vectors, centres: NDArray[np.float64]) -> Vectors:
    """‖x − c‖², (m, bits) float32."""
    squares: Vectors = rows @ (-2 * centres.T).astype(np.float32)
    squares += np.vecdot(rows, rows)[:, None]
    squares += np.square(centres).sum(axis=1).astype(np.float32)
    return squares
