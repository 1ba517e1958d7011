"""Product quantisation: each part of a row is replaced by the index of the nearest of 256 centroids, one byte.

`query` compares codes with an unquantised vector (asymmetric distance). Jégou, Douze & Schmid, "Product
quantization for nearest neighbor search", IEEE TPAMI 2011, Eq. 13. Centroids of torch rows are computed on the device
of the rows, and codes by faiss on the CPU.
"""

from typing import Any, Self

import faiss as _faiss
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import check_rows, chunks, to_numpy
from lookalike.codes.bits import Codes, check_bits
from lookalike.codes.queries import VALUES, TableQuery
from lookalike.encode.check import check_matrix
from lookalike.features.clustering import ROWS_PER_CENTRE, kmeans
from lookalike.learn.rows import check_values
from lookalike.types import Array, Query, Vectors

faiss: Any = _faiss  # its type stubs are incomplete


class Pq(BaseEstimator):
    """Product quantisation: one byte for each of bits / 8 parts of a row.

    Single bits have no meaning: compare codes with `query`. A part is a run of adjacent columns; all parts have the
    same width, and rows are padded with zeros at the end. With more parts than columns, each column is a part, and the
    remaining bytes are 0. Not nested.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    random_state : seed of the centroids and of the sample of at most 65,536 rows to learn from.

    Attributes
    ----------
    centroids_ : (bits / 8, 256, ⌈d / (bits / 8)⌉) float32, NumPy.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 16)).astype(np.float32)
    >>> coder = Pq(bits=64).fit(X)
    >>> codes = coder.encode(X)
    >>> codes.shape, coder.query(X[7:8]).score(codes).argmin()
    ((500, 8), np.int64(7))

    """

    n_features_in_: int
    centroids_: Vectors

    def __init__(self, bits: int = 64, random_state: int = 0):
        self.bits = bits
        self.random_state = random_state

    def fit(self, X: Array, y: Array | None = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Learn from rows X (n, d), repeated if fewer than 256; labels are ignored."""
        parts = check_bits(self.bits) // 8
        X = check_matrix(self, X, reset=True, min_rows=2)
        check_values(X)
        (n, d), most = X.shape, VALUES * ROWS_PER_CENTRE
        if n > most:
            chosen = np.sort(np.random.default_rng(self.random_state).choice(n, most, replace=False))
        else:
            chosen = np.arange(max(n, VALUES)) % n
        rows = X[chosen]
        width = -(-d // parts)
        self.centroids_ = np.zeros((parts, VALUES, width), np.float32)
        for part, start in enumerate(range(0, d, width)):
            found, _ = kmeans(rows[:, start : start + width], VALUES, self.random_state)
            self.centroids_[part, :, : found.shape[1]] = found
        return self

    def encode(self, X: Array) -> Codes:
        """Codes (n, bits / 8) uint8 of rows X (n, d): the index of the nearest centroid of each part."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        parts, _, width = self.centroids_.shape
        quantiser = faiss.ProductQuantizer(parts * width, parts, 8)
        faiss.copy_array_to_vector(np.ascontiguousarray(self.centroids_).ravel(), quantiser.centroids)
        codes = np.empty((X.shape[0], parts), np.uint8)
        for part in chunks(X.shape[0], row_bytes=8 * parts * width):
            codes[part] = quantiser.compute_codes(self._padded(to_numpy(check_rows(X[part])), parts * width))
        return codes

    def query(self, X: Array) -> Query:
        """A query for the neighbours of rows X (q, d) in an index of these codes, by asymmetric squared distance."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        parts, _, width = self.centroids_.shape
        rows = self._padded(to_numpy(check_rows(X)), parts * width).reshape(len(X), parts, width)
        tables = np.empty((len(rows), parts, VALUES), np.float32)
        for part, centroids in enumerate(self.centroids_):  # (256, width)
            squares = np.square(centroids).sum(axis=1) - 2 * rows[:, part] @ centroids.T  # (q, 256)
            tables[:, part] = np.maximum(squares + np.square(rows[:, part]).sum(axis=1, keepdims=True), 0)
        return TableQuery(tables)

    @staticmethod
    def _padded(rows: Vectors, width: int) -> Vectors:
        """Pad rows with zeros to this width."""
        missing = width - rows.shape[1]
        return np.pad(rows, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(rows)
