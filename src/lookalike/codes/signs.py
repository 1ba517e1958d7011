"""Base classes of coders whose bits are the signs of scores, and shared functions.

`BitCoder` turns scores into codes and queries; `SignCoder` computes the scores as g(XWᵀ + b); `UnsupervisedCoder`
learns W and b without labels. Rows can be NumPy arrays, torch tensors or memory maps and are read in chunks. A row has
the same code by itself and in a batch: if the rounding of a matrix product could change a sign, the score is computed
again, individually, in float64.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import check_rows, chunks, to_numpy
from lookalike.codes.bits import Codes, check_bits, pack
from lookalike.codes.queries import CodeQuery
from lookalike.compiler import njit
from lookalike.encode.check import check_matrix
from lookalike.types import Array, Query, Vectors

SAMPLE = 100_000
"""Maximum number of rows, sampled at random, for coders that pass over the rows several times."""

PART_BYTES = 2**21
"""Bytes of scores computed at a time: enough rows for a fast product, but few enough to stay in the cache."""

EPS, MOST = np.finfo(np.float32).eps, np.finfo(np.float32).max


class BitCoder(BaseEstimator, ABC):
    """A coder whose bits are the signs of the scores that `project` returns: 1 for a positive score."""

    bits: int

    @abstractmethod
    def project(self, X: Array) -> Vectors:
        """Scores (n, bits) float32 of rows X (n, d): bit j is 1 if score j is positive."""

    def encode(self, X: Array) -> Codes:
        """Codes (n, bits / 8) uint8 of rows X (n, d)."""
        return pack(self.project(X) > 0)

    def query(self, X: Array, *, weighted: bool = False) -> Query:
        """A query for the neighbours of rows X in an index of these codes; `weighted` weights bits by their margins."""
        return CodeQuery(self.encode(X), np.abs(self.project(X)) if weighted else None)


class SignCoder(BitCoder):
    """A coder whose scores are g(XWᵀ + b), g the identity by default.

    `fit` of a subclass learns W and b and passes them to `_set_planes`. A subclass with another g, such as a cosine,
    defines it twice: in `_finish` for whole batches and in `_finish_exact` for single scores.
    """

    n_features_in_: int
    W_: Vectors  # (bits, d)
    b_: Vectors  # (bits,)
    noise_: Vectors  # (bits,) below this, the rounding of the product could change a sign

    def project(self, X: Array) -> Vectors:
        """Scores (n, bits) float32 of rows X (n, d): bit j is 1 if score j is positive."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        scores = np.empty((X.shape[0], self.bits), np.float32)
        for part, Y in self._parts(X, self._finish):
            scores[part] = Y
        return scores

    def encode(self, X: Array) -> Codes:
        """Codes (n, bits / 8) uint8 of rows X (n, d)."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        codes = np.empty((X.shape[0], self.bits // 8), np.uint8)
        for part, Y in self._parts(X, self._finish_signs):
            codes[part] = pack(Y > 0)
        return codes

    def _set_planes(self, W: Array, b: Array, longest: float) -> Self:
        """Store W and b, learned from rows no longer than `longest`, and the noise level of each bit."""
        self.W_, self.b_ = np.ascontiguousarray(W, np.float32), np.asarray(b, np.float32)
        # Rounding errors of a sum of d products add up like a random walk (Higham & Mary, 2019): 4 √d is ample.
        self.noise_ = (2 * (self.W_.shape[1] + 8) ** 0.5 * EPS * self._magnitudes(longest)).astype(np.float32)
        return self

    def _magnitudes(self, longest: float) -> NDArray[Any]:
        """Upper bounds (bits,) of the terms that are summed for a score."""
        magnitudes: NDArray[Any] = np.linalg.norm(self.W_, axis=1) * longest + np.abs(self.b_)
        return magnitudes

    def _finish(self, Y: Vectors, rows: Vectors, unclear: NDArray[np.int64]) -> int:  # noqa: ARG002 (for subclasses)
        """Turn products Y = XWᵀ (m, bits) into scores, in place.

        Return the number of scores that are not finite, or so near to 0 that rounding could change their sign, and
        write their flat indices in Y to `unclear`.
        """
        return int(add_bias(Y, self.b_, np.zeros(len(Y), np.float32), self.noise_, unclear))

    def _finish_signs(self, Y: Vectors, rows: Vectors, unclear: NDArray[np.int64]) -> int:
        """Like `_finish`, but only the signs of Y have to be right: some coders compute these faster."""
        return self._finish(Y, rows, unclear)

    def _finish_exact(
        self, Y: NDArray[np.float64], rows: Vectors, row: NDArray[np.intp], bit: NDArray[np.intp]  # noqa: ARG002
    ) -> NDArray[np.float64]:  # fmt: skip
        """Scores (m,) of pairs of a row and a bit from their x·w + b."""
        return Y

    def _parts(
        self, X: Array, finish: Callable[[Vectors, Vectors, NDArray[np.int64]], int]
    ) -> Iterator[tuple[slice, Vectors]]:
        """Yield slices of the rows with their scores, as `finish` computes them."""
        unclear = np.empty(max(PART_BYTES // 4, self.bits), np.int64)
        for part in chunks(X.shape[0], row_bytes=4 * self.bits, max_bytes=PART_BYTES):
            with np.errstate(over="ignore", invalid="ignore"):  # checked below
                rows = to_numpy(X[part])
                Y = rows @ self.W_.T  # (m, bits)
                count = finish(Y, rows, unclear)
            if count:
                row, bit = np.divmod(unclear[:count], self.bits)
                if not np.isfinite(Y[row, bit]).all():
                    check_rows(rows)  # NaN in a row shows in Y, which is smaller and cheaper to check
                rows = np.ascontiguousarray(rows)
                exact = _products(rows, self.W_, row, bit) + self.b_[bit]  # float64, in one order of summation
                Y[row, bit] = self._finish_exact(exact, rows, row, bit).clip(-MOST, MOST)
            yield part, Y


class RowSummary(NamedTuple):
    """The result of a pass over the rows."""

    mean: NDArray[np.float64]  # (d,)
    longest: float  # the length of the longest row


class UnsupervisedCoder(SignCoder):
    """A sign coder that needs no labels; subclasses learn W and b in `_learn`."""

    random_state: int

    def fit(self, X: Array, y: Array | None = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Learn from rows X (n, d), n ≥ 2; labels are ignored."""
        check_bits(self.bits)
        X = check_matrix(self, X, reset=True, min_rows=2)
        summary = summarise(X)
        return self._set_planes(*self._learn(X, summary, np.random.default_rng(self.random_state)), summary.longest)

    @abstractmethod
    def _learn(self, X: Array, summary: RowSummary, random: np.random.Generator) -> tuple[Array, Array]:
        """W (bits, d) and b (bits,)."""


def summarise(X: Array) -> RowSummary:
    """The mean of the rows and the length of the longest; NaN raises InputError."""
    total, longest = np.zeros(X.shape[1]), 0.0
    for part in chunks(X.shape[0], row_bytes=16 * X.shape[1]):
        rows = to_numpy(check_rows(X[part])).astype(np.float64)
        total += rows.sum(axis=0)
        longest = max(longest, float(np.vecdot(rows, rows).max()) ** 0.5)
    return RowSummary(total / X.shape[0], longest)


def draw_rows(X: Array, random: np.random.Generator, most: int = SAMPLE) -> Vectors:
    """A random sample of at most `most` rows in their order, (m, d) float32."""
    n = X.shape[0]
    if n <= most:
        return to_numpy(X[:])
    return to_numpy(X[np.sort(random.choice(n, most, replace=False))])


@njit(cache=True, nogil=True)
def add_bias(Y: Any, bias: Any, less: Any, noise: Any, unclear: Any) -> Any:
    """Add `bias` (bits,) to Y (n, bits) and subtract `less` (n,); list unclear scores in `unclear`.

    Return the number of entries of `unclear`; see `SignCoder._finish`.
    """
    n, bits = Y.shape
    count = 0
    for i in range(n):
        found = np.int32(0)
        for bit in range(bits):  # without branches, so that the compiler vectorises it
            value = Y[i, bit] + bias[bit] - less[i]
            Y[i, bit] = value
            found |= np.int32(not (noise[bit] < abs(value) <= MOST))
        if found:
            count = list_unclear(Y, noise, i, unclear, count)
    return count


@njit(cache=True, nogil=True)
def list_unclear(Y: Any, noise: Any, i: Any, unclear: Any, count: Any) -> Any:
    """Append to `unclear` the entries of row i of Y that are not finite, or nearer to 0 than the noise of their bit."""
    for bit in range(Y.shape[1]):
        if not (noise[bit] < abs(Y[i, bit]) <= MOST):
            unclear[count] = i * Y.shape[1] + bit
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
