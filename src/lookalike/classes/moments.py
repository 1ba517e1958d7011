"""Counts, sums and the scatter within groups, kept as rows come and go: what class means are made of.

In: rows (n, d), NumPy or torch, and the number of the group of each. Out: float64 moments that equal those of a fresh
count of the rows still there, whatever came and went before. Chan, Golub & LeVeque, COMPSTAT 1982.
"""

from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, check_rows, chunks, like, namespace
from lookalike.errors import InputError
from lookalike.types import Array

ROUNDING = 1e-9
"""Variances may be negative by this share of the rows' squares before it says that other rows were taken out."""
SAME = 1e-6
"""Rows are taken for all those of a group where their sum is the group's but for this share of them."""


class GrowingRows:
    """A matrix that rows are added to at its end: it keeps room to spare, so that one more costs one row, not all.

    Examples
    --------
    >>> rows = GrowingRows(np.ones((2, 3)))
    >>> rows.resize(4)
    >>> rows.values.sum(axis=1).tolist()
    [3.0, 3.0, 0.0, 0.0]

    """

    def __init__(self, values: Array):
        self.values = self._room = values

    def resize(self, n: int) -> None:
        """Let there be n rows: new ones are zero, those beyond n are gone."""
        old = self.values.shape[0]
        if n > self._room.shape[0]:
            xp, shape = namespace(self.values), (2 * n, *self.values.shape[1:])
            room = xp.empty(shape, dtype=self.values.dtype, device=array_api_compat.device(self.values))
            room[:old] = self.values
            self._room = room
        self.values = self._room[:n]
        self.values[old:] = 0


class Moments:
    """How many rows each of M groups has, their sums and, where wanted, the scatter within groups.

    Parameters
    ----------
    counts : (M,) int64, NumPy.
    sums : (M, d) float64, NumPy or torch; changed in place.
    scatter : (d, d) float64 of the same kind, Σ (x − μ)(x − μ)ᵀ with μ the mean of the group of x; None: not kept.

    Examples
    --------
    >>> moments = Moments(np.zeros(2, np.int64), np.zeros((2, 1)))
    >>> moments.add(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1]))
    >>> moments.remove(np.array([[1.0]]), np.array([0]))
    >>> moments.counts.tolist(), moments.sums.tolist()
    ([1, 1], [[3.0], [5.0]])

    """

    def __init__(self, counts: NDArray[np.int64], sums: Array, scatter: Array | None = None):
        self.counts = counts
        self.scatter = scatter
        self._sums = GrowingRows(sums)

    @property
    def sums(self) -> Array:
        """The sum of each group, (M, d); the same object until the number of groups changes."""
        return self._sums.values

    def means(self, groups: NDArray[np.int64] | slice) -> Array:
        """The means of these groups, (m, d) float64; zero for a group without rows."""
        return _divide(self.sums[groups if isinstance(groups, slice) else like(self.sums, groups)], self.counts[groups])

    def resize(self, M: int) -> None:
        """Let there be M groups: new ones are empty, those beyond M are gone, with what they held."""
        self.counts = np.concatenate([self.counts[:M], np.zeros(max(0, M - len(self.counts)), np.int64)])
        self._sums.resize(M)

    def add(self, X: Array, groups: NDArray[np.int64]) -> None:
        """Add finite rows (n, d), each to its group: O(d) a row, O(d²) with the scatter."""
        for part in chunks(X.shape[0], row_bytes=24 * X.shape[1]):
            some, m, t, within = self._gather(X[part], groups[part])
            n = self.counts[some]
            if within is not None:
                self.scatter += self._spread(within, some, t, m, n)
            self.sums[like(self.sums, some)] += t
            self.counts[some] = n + m

    def remove(self, X: Array, groups: NDArray[np.int64]) -> None:
        """Take rows (n, d) back, each out of the group it was added to, at the cost of adding them.

        InputError, with nothing changed, where a group has fewer rows, or where what is left shows that they were
        others: a sum without rows, or a negative variance.
        """
        some, wanted = np.unique(groups, return_counts=True)
        if (self.counts[some] < wanted).any():
            raise InputError("X must be rows that were added before. Got more than there are.")
        where = like(self.sums, some)
        before = self.counts[some], self.sums[where], self.scatter
        self.scatter = None if self.scatter is None else self.scatter + 0  # a copy
        for part in chunks(X.shape[0], row_bytes=24 * X.shape[1]):
            self._take(X[part], groups[part])
        if self._is_odd(X, some):
            self.counts[some], self.sums[where], self.scatter = before
            raise InputError("X must be rows that were added before. Got others.")
        self.sums[like(self.sums, some[self.counts[some] == 0])] = 0  # not what rounding leaves
        if self.scatter is not None and not (self.counts > 1).any():
            self.scatter *= 0

    def merge(self, i: int, j: int) -> None:
        """Put what group j holds into group i; j is empty then. O(d), O(d²) with the scatter."""
        n, m = int(self.counts[i]), int(self.counts[j])
        if self.scatter is not None and n and m:
            step = self.sums[j] / m - self.sums[i] / n  # (d,)
            self.scatter += n * m / (n + m) * step[:, None] * step
        self.sums[i] += self.sums[j]
        self.counts[i] = n + m
        self.sums[j], self.counts[j] = 0, 0

    def _take(self, X: Array, groups: NDArray[np.int64]) -> None:
        some, m, t, within = self._gather(X, groups)
        left = self.counts[some] - m
        self.sums[like(self.sums, some)] -= t
        self.counts[some] = left
        if within is not None:
            self.scatter -= self._spread(within, some, t, m, left)

    def _spread(
        self, within: Array, some: NDArray[np.int64], t: Array, m: NDArray[np.int64], n: NDArray[np.int64]
    ) -> Any:
        """What m more rows with sums t add to the scatter of groups that have n, (d, d): one product."""
        step = (_divide(t, m) - self.means(some)) * like(t, np.sqrt(n * m / (n + m)))[:, None]  # (G, d)
        rows = namespace(t).concat([within, step])  # (r + G, d)
        return rows.T @ rows

    def _gather(self, X: Array, groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], Array, Any]:
        """The groups that occur (G,), their counts and sums (G, d), and the rows less the means of theirs (r, d)."""
        rows = like(self.sums, X)
        xp = namespace(rows)
        rows = xp.astype(rows, xp.float64)
        some, inverse, m = np.unique(groups, return_inverse=True, return_counts=True)
        t = sum_groups(rows, inverse, len(some))
        if self.scatter is None:
            return some, m, t, None
        return some, m, t, rows - _divide(t, m)[like(rows, inverse)]

    def _is_odd(self, X: Array, some: NDArray[np.int64]) -> bool:
        """Whether what is left without rows X cannot be."""
        xp = namespace(X)
        size = float(xp.max(xp.abs(X))) if X.shape[0] else 0.0
        left = as_numpy(self.sums[like(self.sums, some[self.counts[some] == 0])])
        if (np.abs(left) > SAME * size * X.shape[0]).any():
            return True
        if self.scatter is None:
            return False
        diagonal = as_numpy(namespace(self.scatter).linalg.diagonal(self.scatter))
        return bool((diagonal < -ROUNDING * (1 + self.counts.sum()) * max(size**2, diagonal.max())).any())


def sum_groups(X: Array, groups: NDArray[np.int64], M: int) -> Array:
    """The sums of rows X (n, d) over groups 0 … M−1, (M, d).

    >>> sum_groups(np.array([[1.0], [2.0], [4.0]]), np.array([2, 0, 2]), 3).tolist()
    [[2.0], [0.0], [5.0]]
    """
    xp = namespace(X)
    sums = xp.zeros((M, X.shape[1]), dtype=X.dtype, device=array_api_compat.device(X))
    if array_api_compat.is_torch_array(X):
        return sums.index_add_(0, like(X, groups), X)
    if M == 1:
        return xp.sum(X, axis=0, keepdims=True)  # in place: no sorted copy
    order = np.argsort(groups, kind="stable")
    some, starts = np.unique(groups[order], return_index=True)
    if len(some):
        sums[some] = np.add.reduceat(X[order], starts, axis=0)
    return sums


def check_all(X: Array) -> None:
    """Refuse rows (n, d) that are not finite, before any of them has changed anything."""
    for part in chunks(X.shape[0], row_bytes=8 * X.shape[1]):
        check_rows(X[part])


def _divide(sums: Array, counts: NDArray[np.int64]) -> Array:
    return sums / like(sums, np.maximum(counts, 1).astype(np.float64))[:, None]
