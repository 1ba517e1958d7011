"""Coders whose bits are the signs of numbers: what all of them do alike.

In: rows (n, d), NumPy, torch or a memory map, read in chunks. Out: `project`, (n, bits) float32, and its signs as
codes, (n, bits / 8) uint8. A row has the same code alone and in a batch: where the rounding of a matrix product could
decide a sign, it is worked out again, row by row, in float64.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import check_rows, chunks, to_numpy
from lookalike.codes.bits import Codes, check_bits, pack
from lookalike.codes.queries import CodeQuery
from lookalike.encode.check import check_matrix
from lookalike.types import Array, Query, Vectors

SAMPLE = 100_000
"""Rows, drawn by lot, that a coder with several passes to make learns from, at most."""

PART_BYTES = 2**21
"""Projections that are worked on at a time: enough rows for a fast product, few enough to be near when it is done."""

EPS, MOST = np.finfo(np.float32).eps, np.finfo(np.float32).max


class RowSummary(NamedTuple):
    """What one pass over the rows tells."""

    mean: NDArray[np.float64]  # (d,)
    longest: float  # the length of the longest row


class BitCoder(BaseEstimator, ABC):
    """Bits are the signs of what `project` gives: 1 where it is above 0."""

    bits: int

    @abstractmethod
    def project(self, X: Array) -> Vectors:
        """(n, d) to (n, bits) float32: the numbers whose signs are the bits."""

    def encode(self, X: Array) -> Codes:
        """(n, d) to (n, bits / 8) uint8."""
        return pack(self.project(X) > 0)

    def query(self, X: Array, *, weighted: bool = False) -> Query:
        """What to ask an index of this coder's codes for the neighbours of rows X; weighted: bits by their margins."""
        return CodeQuery(self.encode(X), np.abs(self.project(X)) if weighted else None)


class SignCoder(BitCoder):
    """Bits are the signs of `_bend(XWᵀ + b)`: 1 where it is above 0.

    Subclasses learn W and b in `fit`, `_keep` them, and may bend the product, as by a cosine: all at once in `_settle`,
    and one by one in `_bend`.
    """

    n_features_in_: int
    W_: Vectors  # (bits, d)
    b_: Vectors  # (bits,)
    noise_: Vectors  # (bits,) below this, the rounding of the product could decide a sign

    def project(self, X: Array) -> Vectors:
        """(n, d) to (n, bits) float32: the numbers whose signs are the bits."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        found = np.empty((X.shape[0], self.bits), np.float32)
        for part, Y in self._parts(X, self._settle):
            found[part] = Y
        return found

    def encode(self, X: Array) -> Codes:
        """(n, d) to (n, bits / 8) uint8."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        codes = np.empty((X.shape[0], self.bits // 8), np.uint8)
        for part, Y in self._parts(X, self._settle_signs):
            codes[part] = pack(Y > 0)
        return codes

    def _keep(self, W: Array, b: Array, longest: float) -> Self:
        """Take on W and b, learned from rows no longer than `longest`."""
        self.W_, self.b_ = np.ascontiguousarray(W, np.float32), np.asarray(b, np.float32)
        # Roundings of a sum of d products add up as a random walk does (Higham & Mary, 2019): 4 √d are plenty.
        self.noise_ = (2 * (self.W_.shape[1] + 8) ** 0.5 * EPS * self._sizes(longest)).astype(np.float32)
        return self

    def _sizes(self, longest: float) -> NDArray[Any]:
        """How large the terms that are added up for a bit can be, (bits,)."""
        sizes: NDArray[Any] = np.linalg.norm(self.W_, axis=1) * longest + np.abs(self.b_)
        return sizes

    def _settle(self, Y: Vectors, rows: Vectors, places: NDArray[np.int64]) -> int:  # noqa: ARG002 (for subclasses)
        """Make of products Y = XWᵀ, (m, bits), what `project` gives, in place.

        Returns how many of them are not finite, or so near to 0 that rounding could decide their sign; `places` has
        them, as they are numbered in Y row by row.
        """
        return int(settle(Y, self.b_, np.zeros(len(Y), np.float32), self.noise_, places))

    def _settle_signs(self, Y: Vectors, rows: Vectors, places: NDArray[np.int64]) -> int:
        """The same, where only signs matter: for coders that have a quicker way to these."""
        return self._settle(Y, rows, places)

    def _parts(self, X: Array, settle: Callable[[Vectors, Vectors, NDArray[np.int64]], int]) -> Any:
        """Slices of the rows and what `settle` makes of their products."""
        places = np.empty(max(PART_BYTES // 4, self.bits), np.int64)
        for part in chunks(X.shape[0], row_bytes=4 * self.bits, max_bytes=PART_BYTES):
            with np.errstate(over="ignore", invalid="ignore"):  # looked at below
                rows = to_numpy(X[part])
                Y = rows @ self.W_.T  # (m, bits)
                count = settle(Y, rows, places)
            if count:
                row, bit = np.divmod(places[:count], self.bits)
                if not np.isfinite(Y[row, bit]).all():
                    check_rows(rows)  # only now: NaN in a row comes through to Y, which is quicker to look at
                Y[row, bit] = self._exact(rows, row, bit)
            yield part, Y

    def _exact(self, rows: Vectors, row: NDArray[np.intp], bit: NDArray[np.intp]) -> NDArray[np.float64]:
        """What `project` gives for pairs of a row and a bit, (m,), in float64 and in the same order for any batch."""
        rows = np.ascontiguousarray(rows)
        return self._bend(_products(rows, self.W_, row, bit) + self.b_[bit], rows, row, bit).clip(-MOST, MOST)

    def _bend(
        self, Y: NDArray[np.float64], rows: Vectors, row: NDArray[np.intp], bit: NDArray[np.intp]  # noqa: ARG002
    ) -> NDArray[np.float64]:  # fmt: skip
        """From x·w + b, (m,), of pairs of a row and a bit to what `project` gives for them."""
        return Y


class Unsupervised(SignCoder):
    """A sign coder that needs no labels; subclasses learn W and b in `_learn`."""

    random_state: int

    def fit(self, X: Array, y: Array | None = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Learn from rows X (n, d), n ≥ 2; labels are not used."""
        check_bits(self.bits)
        X = check_matrix(self, X, reset=True, min_rows=2)
        summary = summarise(X)
        return self._keep(*self._learn(X, summary, np.random.default_rng(self.random_state)), summary.longest)

    @abstractmethod
    def _learn(self, X: Array, summary: RowSummary, random: np.random.Generator) -> tuple[Array, Array]:
        """W (bits, d) and b (bits,)."""


@njit(cache=True, nogil=True)
def settle(Y: Any, add: Any, less: Any, noise: Any, places: Any) -> Any:
    """Add to each bit of Y (n, bits), take from each row, and find what is not finite or within the noise of its bit.

    `places` gets where these are; returns how many.
    """
    n, bits = Y.shape
    count = 0
    for i in range(n):
        unclear = np.int32(0)
        for bit in range(bits):  # no branches: so it is done many bits at a time
            value = Y[i, bit] + add[bit] - less[i]
            Y[i, bit] = value
            unclear |= np.int32(not (noise[bit] < abs(value) <= MOST))
        if unclear:
            count = mark_unclear(Y, noise, i, places, count)
    return count


@njit(cache=True, nogil=True)
def mark_unclear(Y: Any, noise: Any, i: Any, places: Any, count: Any) -> Any:
    """The places of a row of Y that are not finite, or nearer to 0 than the noise of their bit."""
    for bit in range(Y.shape[1]):
        if not (noise[bit] < abs(Y[i, bit]) <= MOST):
            places[count] = i * Y.shape[1] + bit
            count += 1
    return count


@njit(cache=True, nogil=True)
def _products(rows: Any, W: Any, row: Any, bit: Any) -> Any:
    """x·w of pairs of a row and a bit, (m,) float64."""
    found = np.empty(len(row), np.float64)
    for m in range(len(row)):
        x, w = rows[row[m]], W[bit[m]]
        total = 0.0
        for j in range(len(x)):
            total += np.float64(x[j]) * np.float64(w[j])
        found[m] = total
    return found


def summarise(X: Array) -> RowSummary:
    """The mean of the rows and the length of the longest; refuses NaN."""
    total, longest = np.zeros(X.shape[1]), 0.0
    for part in chunks(X.shape[0], row_bytes=16 * X.shape[1]):
        rows = to_numpy(check_rows(X[part])).astype(np.float64)
        total += rows.sum(axis=0)
        longest = max(longest, float(np.vecdot(rows, rows).max()) ** 0.5)
    return RowSummary(total / X.shape[0], longest)


def draw_rows(X: Array, random: np.random.Generator, most: int = SAMPLE) -> Vectors:
    """Some rows by lot, in their order, (m, d) float32; all where there are no more."""
    n = X.shape[0]
    if n <= most:
        return to_numpy(X[:])
    return to_numpy(X[np.sort(random.choice(n, most, replace=False))])


def principal_frame(D: int, bits: int, random: np.random.Generator) -> NDArray[np.float64]:
    """A random R (D, bits), bits ≥ D, to turn D principal components by: RRᵀ = I.

    Where bits = D that is a rotation. Where rows have fewer directions than bits, it is a frame: as many directions as
    bits, spread evenly over the D there are.
    """
    return np.linalg.qr(random.normal(size=(bits, D)))[0].T
