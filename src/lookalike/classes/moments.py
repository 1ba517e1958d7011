"""Counts, sums and scatter of classes, updated as rows are added and removed.

`Moments` stores them for any groups of rows. `Cells` divides each class into one group, or into k groups around centres
found by k-means (NCMC: Mensink et al., "Large scale metric learning for distance-based image classification on open
ended data sets", 2013, Sec. 3.3). Both are exact: after any sequence of changes they equal, up to rounding, moments
computed from the remaining rows (Chan, Golub & LeVeque, COMPSTAT 1982). Rows are NumPy or torch.
"""

from collections.abc import Iterator
from typing import Any, Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, chunks, distances, like, namespace, to_numpy
from lookalike.errors import InputError
from lookalike.features.clustering import kmeans
from lookalike.types import Array, Vectors

ROUNDING = 1e-9
"""Tolerance for negative variances, relative to the squares of the rows: beyond it, the removed rows were not in the
groups."""
SAME = 1e-6
"""Tolerance for the sum of the rows of a group, relative to their size: beyond it, they are different rows."""

Codes = NDArray[np.int64]
"""(n,) the class number of each row."""


class GrowingRows:
    """A matrix with spare capacity, so that appending a row does not copy the matrix.

    Examples
    --------
    >>> rows = GrowingRows(np.ones((2, 3)))
    >>> rows.resize(4)
    >>> rows.values.sum(axis=1).tolist()
    [3.0, 3.0, 0.0, 0.0]

    """

    def __init__(self, values: Array):
        self.values = self._buffer = values

    def resize(self, n: int) -> None:
        """Set the number of rows to n: new rows are zero, rows beyond n are dropped."""
        old = self.values.shape[0]
        if n > self._buffer.shape[0]:
            xp, shape = namespace(self.values), (2 * n, *self.values.shape[1:])
            buffer = xp.empty(shape, dtype=self.values.dtype, device=array_api_compat.device(self.values))
            buffer[:old] = self.values
            self._buffer = buffer
        self.values = self._buffer[:n]
        self.values[old:] = 0


class Moments:
    """Number of rows of each of M groups, their sums and, optionally, the scatter within groups.

    Parameters
    ----------
    counts : (M,) int64, NumPy.
    sums : (M, d) float64, NumPy or torch; changed in place.
    scatter : (d, d) float64 of the same type, Σ (x − μ)(x − μ)ᵀ with μ the mean of the group of x; None: not stored.

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
        """Sum of each group, (M, d); the same object until the number of groups changes."""
        return self._sums.values

    def means(self, groups: NDArray[np.int64] | slice) -> Array:
        """Return the means of these groups, (m, d) float64; zero for a group without rows."""
        return _divide(self.sums[groups if isinstance(groups, slice) else like(self.sums, groups)], self.counts[groups])

    def freedom(self) -> int:
        """Return the degrees of freedom of the scatter: rows minus groups with rows."""
        return int(self.counts.sum() - (self.counts > 0).sum())

    def resize(self, M: int) -> None:
        """Set the number of groups to M: new groups are empty, groups beyond M are dropped."""
        self.counts = np.concatenate([self.counts[:M], np.zeros(max(0, M - len(self.counts)), np.int64)])
        self._sums.resize(M)

    def add(self, X: Array, groups: NDArray[np.int64]) -> None:
        """Add finite rows (n, d), each to its group: O(d) per row, O(d²) with the scatter."""
        for part in chunks(X.shape[0], row_bytes=24 * X.shape[1]):
            some, m, t, within = self._gather(X[part], groups[part])
            n = self.counts[some]
            if within is not None:
                self.scatter += self._added_scatter(within, some, t, m, n)
            self.sums[like(self.sums, some)] += t
            self.counts[some] = n + m

    def remove(self, X: Array, groups: NDArray[np.int64]) -> None:
        """Remove rows (n, d), each from the group it was added to, at the same cost as adding them.

        Raises InputError and changes nothing if a group has fewer rows, or if the result shows that different rows had
        been added: a non-zero sum without rows, or a negative variance.
        """
        some, removed = np.unique(groups, return_counts=True)
        if (self.counts[some] < removed).any():
            raise InputError("X must contain only rows that were added before. Got more rows than a group has.")
        where = like(self.sums, some)
        before = self.counts[some], self.sums[where], self.scatter
        self.scatter = None if self.scatter is None else self.scatter + 0  # a copy
        for part in chunks(X.shape[0], row_bytes=24 * X.shape[1]):
            self._subtract(X[part], groups[part])
        if self._is_impossible(X, some):
            self.counts[some], self.sums[where], self.scatter = before
            raise InputError("X must contain only rows that were added before. Got different rows.")
        self.sums[like(self.sums, some[self.counts[some] == 0])] = 0  # drop rounding errors
        if self.scatter is not None and not (self.counts > 1).any():
            self.scatter *= 0

    def merge(self, i: int, j: int) -> None:
        """Move the rows of group j to group i. O(d), O(d²) with the scatter."""
        n, m = int(self.counts[i]), int(self.counts[j])
        if self.scatter is not None and n and m:
            step = self.sums[j] / m - self.sums[i] / n  # (d,)
            self.scatter += n * m / (n + m) * step[:, None] * step
        self.sums[i] += self.sums[j]
        self.counts[i] = n + m
        self.sums[j], self.counts[j] = 0, 0

    def _subtract(self, X: Array, groups: NDArray[np.int64]) -> None:
        some, m, t, within = self._gather(X, groups)
        left = self.counts[some] - m
        self.sums[like(self.sums, some)] -= t
        self.counts[some] = left
        if within is not None:
            self.scatter -= self._added_scatter(within, some, t, m, left)

    def _added_scatter(
        self, within: Array, some: NDArray[np.int64], t: Array, m: NDArray[np.int64], n: NDArray[np.int64]
    ) -> Any:
        """Return what m more rows with sums t add to the scatter of groups of n rows, (d, d), by one product."""
        step = (_divide(t, m) - self.means(some)) * like(t, np.sqrt(n * m / (n + m)))[:, None]  # (G, d)
        rows = namespace(t).concat([within, step])  # (r + G, d)
        return rows.T @ rows

    def _gather(self, X: Array, groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], Array, Any]:
        """Return the groups that occur (G,), their counts and sums (G, d), and rows minus their group's mean (r, d)."""
        rows = like(self.sums, X)
        xp = namespace(rows)
        rows = xp.astype(rows, xp.float64)
        some, inverse, m = np.unique(groups, return_inverse=True, return_counts=True)
        t = sum_groups(rows, inverse, len(some))
        if self.scatter is None:
            return some, m, t, None
        return some, m, t, rows - _divide(t, m)[like(rows, inverse)]

    def _is_impossible(self, X: Array, some: NDArray[np.int64]) -> bool:
        """Return whether the moments after removing rows X are impossible for any rows."""
        xp = namespace(X)
        size = float(xp.max(xp.abs(X))) if X.shape[0] else 0.0
        left = as_numpy(self.sums[like(self.sums, some[self.counts[some] == 0])])
        if (np.abs(left) > SAME * size * X.shape[0]).any():
            return True
        if self.scatter is None:
            return False
        diagonal = as_numpy(namespace(self.scatter).linalg.diagonal(self.scatter))
        return bool((diagonal < -ROUNDING * (1 + self.counts.sum()) * max(size**2, diagonal.max())).any())


class Cells:
    """The moments of C classes with k cells each; cell j of class c is group c · k + j.

    With k > 1, k-means finds the centres of a class in its first rows, and they stay fixed. A row always belongs to the
    nearest centre, so adding and removing rows is exact in any order. `cluster` replaces the centres.

    Parameters
    ----------
    moments : moments of C · k groups.
    k : cells per class.
    anchors : (C · k, d) float32, the centres; None if k is 1.
    widths : (C,) int64, the number of centres of each class, at most k; None if k is 1.
    random_state : random seed of k-means.

    """

    def __init__(self, moments: Moments, k: int, anchors: Array | None, widths: Codes | None, random_state: int):
        self.moments = moments
        self.k = k
        self.widths = widths
        self.random_state = random_state
        self._anchors = None if anchors is None else GrowingRows(anchors)

    @classmethod
    def empty(cls, X: Array, k: int, second: bool, random_state: int) -> Self:
        """Create an object without classes, for rows like X; `second` also stores the scatter within classes."""
        xp, d, device = namespace(X), X.shape[1], array_api_compat.device(X)
        sums = xp.zeros((0, d), dtype=xp.float64, device=device)
        scatter = xp.zeros((d, d), dtype=xp.float64, device=device) if second else None
        moments = Moments(np.zeros(0, np.int64), sums, scatter)
        if k == 1:
            return cls(moments, k, None, None, random_state)
        anchors = xp.zeros((0, d), dtype=xp.float32, device=device)
        return cls(moments, k, anchors, np.zeros(0, np.int64), random_state)

    @property
    def anchors(self) -> Array | None:
        """Centres, (C · k, d)."""
        return None if self._anchors is None else self._anchors.values

    @property
    def counts(self) -> Codes:
        """Number of rows of each class, (C,)."""
        counts: Codes = self.moments.counts.reshape(-1, self.k).sum(axis=1)
        return counts

    def means(self) -> Array:
        """Return the mean of each class, (C, d) float64; zero for a class without rows."""
        xp, sums = namespace(self.moments.sums), self.moments.sums
        sums = xp.sum(xp.reshape(sums, (-1, self.k, sums.shape[1])), axis=1)  # (C, d)
        return _divide(sums, self.counts)

    def sum_of(self, c: int) -> Array:
        """Return the sum of the rows of class c, (d,) float64."""
        return namespace(self.moments.sums).sum(self.moments.sums[c * self.k : (c + 1) * self.k], axis=0)

    def resize(self, C: int) -> None:
        """Set the number of classes to C: new classes are empty, classes beyond C are dropped."""
        self.moments.resize(C * self.k)
        if self._anchors is not None and self.widths is not None:
            self._anchors.resize(C * self.k)
            self.widths = np.concatenate([self.widths[:C], np.zeros(max(0, C - len(self.widths)), np.int64)])

    def add(self, X: Array, codes: Codes) -> None:
        """Add rows to their classes; a class without centres gets them from these rows."""
        if self.anchors is not None and self.widths is not None:
            for c, rows in _by_class(codes):
                if not self.widths[c]:
                    centres = _find_centres(X[like(X, rows)], self.k, self.random_state)
                    self.anchors[c * self.k : c * self.k + len(centres)] = like(self.anchors, centres)
                    self.widths[c] = len(centres)
        self.moments.add(X, self.groups(X, codes))

    def remove(self, X: Array, codes: Codes) -> None:
        """Remove rows from their classes; a class without rows loses its centres."""
        self.moments.remove(X, self.groups(X, codes))
        if self.widths is not None:
            self.widths[self.counts == 0] = 0

    def cluster(self, c: int, X: Array) -> None:
        """Find new centres for class c in X, all of its rows."""
        self.clear(c)
        self.add(X, np.full(X.shape[0], c, np.int64))

    def clear(self, c: int) -> None:
        """Drop the counts and sums of class c; the scatter, if stored, still includes its rows."""
        cells = slice(c * self.k, (c + 1) * self.k)
        self.moments.counts[cells], self.moments.sums[cells] = 0, 0
        if self.widths is not None:
            self.widths[c] = 0

    def move(self, c: int, to: int) -> None:
        """Overwrite class `to` with class c."""
        old, new = (slice(i * self.k, (i + 1) * self.k) for i in (c, to))
        self.moments.counts[new], self.moments.sums[new] = self.moments.counts[old], self.moments.sums[old]
        if self.anchors is not None and self.widths is not None:
            self.anchors[new], self.widths[to] = self.anchors[old], self.widths[c]

    def groups(self, X: Array, codes: Codes) -> Codes:
        """Return the cell of each row, (n,): that of the nearest centre of its class."""
        if self.anchors is None or self.widths is None:
            return codes
        groups = codes * self.k
        for c, rows in _by_class(codes):
            centres = self.anchors[c * self.k : c * self.k + int(self.widths[c])]
            groups[rows] += _nearest(like(centres, X[like(X, rows)]), centres)
        return groups


def sum_groups(X: Array, groups: NDArray[np.int64], M: int) -> Array:
    """Return the sums of rows X (n, d) over groups 0 … M−1, (M, d).

    >>> sum_groups(np.array([[1.0], [2.0], [4.0]]), np.array([2, 0, 2]), 3).tolist()
    [[2.0], [0.0], [5.0]]
    """
    xp = namespace(X)
    sums = xp.zeros((M, X.shape[1]), dtype=X.dtype, device=array_api_compat.device(X))
    if array_api_compat.is_torch_array(X):
        return sums.index_add_(0, like(X, groups), X)
    if M == 1:
        return xp.sum(X, axis=0, keepdims=True)  # avoids a sorted copy
    order = np.argsort(groups, kind="stable")
    some, starts = np.unique(groups[order], return_index=True)
    if len(some):
        sums[some] = np.add.reduceat(X[order], starts, axis=0)
    return sums


def _find_centres(X: Array, k: int, random_state: int) -> Vectors:
    """Find at most k centres of rows X (n, d) by k-means, float32; the order of the rows does not matter.

    >>> _find_centres(np.array([[5.0], [1.0], [5.0]]), 3, random_state=0).ravel().tolist()
    [1.0, 5.0]
    """
    distinct, counts = np.unique(to_numpy(X), axis=0, return_counts=True)  # sorted
    return distinct if len(distinct) <= k else kmeans(np.repeat(distinct, counts, axis=0), k, random_state)[0]


def _nearest(X: Array, centres: Array) -> Codes:
    """Return the number of the centre nearest to each row, (n,), by exact distances: the same in any batch."""
    xp = namespace(X)
    found = xp.argmin(distances(xp.astype(X, xp.float64), xp.astype(centres, xp.float64), 2), axis=1)
    return as_numpy(found).astype(np.int64)


def _by_class(codes: Codes) -> Iterator[tuple[int, Codes]]:
    """Yield each class that occurs, and the positions of its rows."""
    order = np.argsort(codes, kind="stable")
    classes, starts = np.unique(codes[order], return_index=True)
    yield from zip(classes.tolist(), np.split(order, starts)[1:], strict=True)


def _divide(sums: Array, counts: NDArray[np.int64]) -> Array:
    return sums / like(sums, np.maximum(counts, 1).astype(np.float64))[:, None]
