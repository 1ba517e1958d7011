"""Spherical hashing: a bit says whether a row lies inside a ball.

In: rows (n, d). Out: codes (n, bits / 8) uint8, compared by the spherical Hamming distance (`SphericalQuery`). Heo,
Lee, He, Chang & Yoon, "Spherical hashing", CVPR 2012: every ball holds half of the rows, every two share a quarter (Eq.
3, 4, Algorithm 1).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.codes.queries import CodeQuery, SphericalQuery
from lookalike.codes.signs import RowSummary, Unsupervised, draw_rows, settle
from lookalike.limits import COUNT, check_number
from lookalike.types import Array, Query, Vectors

ROWS = 10_000
"""Rows, drawn by lot, that the balls are moved over: each iteration compares all of them with all centres."""
START = 10
"""Rows whose mean is the first place of a centre: near the middle, as §3.3 wants it."""
OVERLAP, SPREAD = 0.10, 0.15
"""When to stop: the mean distance of overlaps from a quarter, and their spread, as shares of a quarter (§3.3)."""


class Spherical(Unsupervised):
    """Balls with equal shares of the rows and equal overlaps. Any number of bits; not nested.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    random_state : seed of the sample and of the first centres.
    iterations : at most so many; fewer where the overlaps are even before.

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
        """By spherical Hamming distance; weighted: the margins of the bits that differ, as other coders do."""
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
            # Two balls that share too much push each other away, by half of the excess (Eq. 7): the mean of all.
            centres += (shared.sum(axis=1)[:, None] * centres - shared @ centres) / (2 * self.bits)
        radii = np.median(_distances(rows, centres), axis=0)  # (bits,) squared
        centres += summary.mean
        return 2 * centres, radii - np.square(centres).sum(axis=1)

    def _sizes(self, longest: float) -> NDArray[Any]:
        return super()._sizes(longest) + longest**2

    def _settle(self, Y: Vectors, rows: Vectors, places: NDArray[np.int64]) -> int:
        # r² − ‖x − c‖² = 2c·x + r² − ‖c‖² − ‖x‖²
        return int(settle(Y, self.b_, np.vecdot(rows, rows), self.noise_, places))

    def _bend(
        self, Y: NDArray[np.float64], rows: Vectors, row: NDArray[np.intp], bit: NDArray[np.intp]  # noqa: ARG002
    ) -> NDArray[np.float64]:  # fmt: skip
        X = rows[row].astype(np.float64)
        bent: NDArray[np.float64] = Y - np.vecdot(X, X)
        return bent


def _distances(rows: Vectors, centres: NDArray[np.float64]) -> Vectors:
    """‖x − c‖², (m, bits) float32."""
    squares: Vectors = rows @ (-2 * centres.T).astype(np.float32)
    squares += np.vecdot(rows, rows)[:, None]
    squares += np.square(centres).sum(axis=1).astype(np.float32)
    return squares
