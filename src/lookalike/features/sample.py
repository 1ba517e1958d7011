"""A uniform sample of the rows of a stream, within a byte budget.

In: matrices of rows, one after the other. Out: (n, d) float32, every row seen as likely to be among them as any other.
Vitter, "Random sampling with a reservoir", ACM TOMS 1985 (algorithm R).
"""

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows
from lookalike.errors import InputError
from lookalike.types import Array, Vectors


class Reservoir:
    """What is kept of a stream of rows. The same rows in the same order give the same bytes, however they are cut.

    Parameters
    ----------
    dim : the length of a row.
    max_bytes : what the rows kept may take; at least one row is.
    random_state : of the lot that decides which rows stay.

    Attributes
    ----------
    rows : (n, dim) float32, the sample.
    seen : rows that came by.

    Examples
    --------
    >>> reservoir = Reservoir(dim=2, max_bytes=24)
    >>> for start in range(0, 100, 10):
    ...     reservoir.add(np.arange(2 * start, 2 * start + 20).reshape(10, 2))
    >>> reservoir.seen, reservoir.rows.shape
    (100, (3, 2))

    """

    def __init__(self, dim: int, max_bytes: int, random_state: int = 0):
        self.capacity = max_bytes // (4 * dim)
        if self.capacity < 1:
            raise InputError(f"max_bytes must be at least {4 * dim}, one row of {dim} numbers. Got {max_bytes}.")
        self.seen = 0
        self._kept: Vectors = np.empty((self.capacity, dim), np.float32)  # memory is taken as it fills
        self._random = np.random.default_rng(random_state)

    @property
    def rows(self) -> Vectors:
        """The sample, (n, dim) float32; a view."""
        return self._kept[: self.seen]

    def add(self, X: Array) -> None:
        """Rows X (m, dim) come by."""
        X = check_rows(X, dim=self._kept.shape[1])
        fit = max(0, min(len(X), self.capacity - self.seen))
        self._kept[self.seen : self.seen + fit] = X[:fit]
        # Row t (from 0) takes a place among t + 1 by lot, and stays where the reservoir has that place.
        before = np.arange(self.seen + fit, self.seen + len(X))
        places: NDArray[np.int64] = (self._random.random(len(before)) * (before + 1)).astype(np.int64)
        stays = places < self.capacity
        self._kept[places[stays]] = X[fit:][stays]  # where a place is drawn twice, the later row has it
        self.seen += len(X)
