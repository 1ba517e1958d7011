"""Training rows compressed by product quantisation to one byte per 8 dimensions, decompressed batch by batch.

Jégou et al., "Product quantization for nearest neighbor search", IEEE TPAMI 2011. Sub-vectors of zeros, which are
frequent in Fisher vectors, need no byte (Sánchez & Perronnin, CVPR 2011), as in Mensink et al. 2013 (ncm), §5.1.
Library only: no command uses it, but every metric of this package accepts `PqRows` instead of an array.
"""

from typing import Any

import faiss as _faiss
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, chunks, expand, to_numpy
from lookalike.errors import InputError, MissingError
from lookalike.learn.rows import Rows
from lookalike.types import Array, Vectors

faiss: Any = _faiss  # its stubs are incomplete

PART = 8
"""Dimensions of a sub-vector."""
ITERATIONS = 10
"""Iterations of k-means; in so few dimensions, more of them hardly change the centroids."""
CODES = 256
"""Centroids per sub-vector: one byte."""
SAMPLE_BYTES = 128 * 2**20
"""Size of the sample of rows for k-means; it has at least as many rows as centroids."""


class PqRows:
    """Rows stored as product quantiser codes; `rows[numbers]` and `rows[start:stop]` return (m, d) float32.

    Parameters
    ----------
    X : rows (n, d) from any source; a sample is read first, then all rows once, in chunks.
    device : None for NumPy rows; a torch device ("cpu", "cuda") to decompress codes to tensors on that device.
    random_state : seed of the sample.

    Attributes
    ----------
    shape : (n, d).
    nbytes : memory in use: one byte per sub-vector that is not zero, one bit per sub-vector, and the centroids.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(2_000, 16)).astype(np.float32)
    >>> X[:, 8:] = 0
    >>> rows = PqRows(X)
    >>> rows[[3, 5]].shape, bool(np.abs(rows[:] - X).mean() < 0.3), len(rows.codes) / len(X)
    ((2, 16), True, 1.0)

    """

    def __init__(self, X: Rows, *, device: str | None = None, random_state: int = 0):
        n, d = X.shape
        if n < 1:
            raise InputError("X must contain at least 1 row to compress. Got none.")
        self.shape: tuple[int, int] = (n, d)
        parts = -(-d // PART)  # the last one can be padded with zeros
        quantiser = faiss.ProductQuantizer(parts * PART, parts, 8)
        quantiser.cp.niter = ITERATIONS
        quantiser.cp.min_points_per_centroid = 1  # prevents a printed warning
        quantiser.cp.seed = int(np.random.default_rng(random_state).integers(2**31))
        quantiser.train(_sample(X, parts * PART, random_state))
        self.there = np.empty((n, -(-parts // 8)), np.uint8)  # one bit per sub-vector: whether it is not zero
        self.starts = np.zeros(n + 1, np.int64)  # where the codes of each row start
        codes = np.empty(n * parts, np.uint8)  # pages are allocated when they are written
        for part in chunks(n, row_bytes=16 * d):
            rows = _padded(X[part], parts * PART)
            there = rows.reshape(len(rows), parts, PART).any(axis=2)  # (m, parts)
            self.there[part] = np.packbits(there, axis=1)
            self.starts[part.start + 1 : part.stop + 1] = self.starts[part.start] + np.cumsum(there.sum(axis=1))
            codes[self.starts[part.start] : self.starts[part.stop]] = quantiser.compute_codes(rows)[there]
        self.codes = codes[: self.starts[-1]]  # of sub-vectors that are not zero, row after row
        tables = faiss.vector_to_array(quantiser.centroids).reshape(parts * CODES, PART)
        self._tables: Array = np.concatenate([tables, np.zeros((1, PART), np.float32)])  # the last is zero
        self._torch: Any = None
        if device is not None:
            try:
                import torch
            except ImportError:
                raise MissingError(
                    "PqRows on a device needs torch. Install it with: pip install 'lookalike[torch]'"
                ) from None
            self._torch, self._tables = torch, torch.asarray(self._tables, device=device)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return sum(int(part.nbytes) for part in (self.codes, self.there, self.starts, self._tables))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        n, d = self.shape
        numbers = np.arange(*rows.indices(n)) if isinstance(rows, slice) else np.asarray(rows)
        if numbers.dtype == bool and numbers.shape == (n,):
            numbers = np.flatnonzero(numbers)
        numbers = numbers if numbers.size else numbers.astype(np.int64)
        wrong = numbers.ndim != 1 or numbers.dtype.kind not in "iu"
        if wrong or (len(numbers) and not -n <= numbers.min() <= numbers.max() < n):
            raise InputError(f"Rows must be selected by a slice or by row numbers below {n}. Got {rows!r}.")
        entries = self._entries(numbers % n)  # (m, parts)
        if self._torch is not None:
            entries = self._torch.asarray(entries).to(self._tables.device)
        return self._tables[entries].reshape(len(numbers), entries.shape[1] * PART)[:, :d]

    def _entries(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of the sub-vectors of these rows in the tables, (m, parts)."""
        parts = len(self._tables) // CODES
        tables = CODES * np.arange(parts)  # where the table of each sub-vector starts
        if len(self.codes) == len(self) * parts:  # none is zero
            return self.codes.reshape(len(self), parts)[numbers] + tables
        there = np.unpackbits(self.there[numbers], axis=1, count=parts).view(bool)  # (m, parts)
        lengths = self.starts[numbers + 1] - self.starts[numbers]
        entries = np.full((len(numbers), parts), parts * CODES)
        entries[there] = self.codes[expand(self.starts[numbers], lengths)]
        return np.where(there, entries + tables, entries)


def _sample(X: Rows, width: int, random_state: int) -> Vectors:
    """Return a random sample of rows, at least as many as centroids: if there are fewer, rows are repeated."""
    n = X.shape[0]
    some = max(CODES, SAMPLE_BYTES // (4 * width))
    chosen = np.arange(max(n, CODES)) % n
    if n > some:
        chosen = np.sort(np.random.default_rng(random_state).choice(n, some, replace=False))
    return _padded(X[chosen], width)


def _padded(rows: Array, width: int) -> Vectors:
    """Pad rows with columns of zeros to this width, float32."""
    found: NDArray[np.float32] = to_numpy(check_rows(rows))
    return found if found.shape[1] == width else np.pad(found, ((0, 0), (0, width - found.shape[1])))
