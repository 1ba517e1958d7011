"""The cells of each class: one, or k around centres found by k-means (NCMC), each with its count and its sum.

In: rows (n, d), NumPy or torch, and the number of the class of each. Out: the moments of C · k cells. Mensink et al.,
"Large scale metric learning for distance-based image classification on open ended data sets", 2013 (ncm), Sec. 3.3.
"""

from collections.abc import Iterator
from typing import Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, like, namespace, to_numpy
from lookalike.classes.moments import GrowingRows, Moments
from lookalike.features.clustering import kmeans
from lookalike.linalg import distances
from lookalike.types import Array, Vectors

Codes = NDArray[np.int64]
"""(n,) the number of the class of each row."""


class Cells:
    """The moments of C classes in k cells each; cell j of class c is group c · k + j.

    With k > 1, the centres of a class are found when its first rows come, and stay: a row belongs to the nearest, today
    and on the day it is taken back, so that cells are exact in any order. `cluster` finds new ones.

    Parameters
    ----------
    moments : of C · k groups.
    k : cells of a class.
    anchors : (C · k, d) float32, the centres; None where k is 1.
    widths : (C,) int64, how many of its k centres each class has; None where k is 1.
    random_state : seed of k-means.

    """

    def __init__(self, moments: Moments, k: int, anchors: Array | None, widths: Codes | None, random_state: int):
        self.moments = moments
        self.k = k
        self.widths = widths
        self.random_state = random_state
        self._anchors = None if anchors is None else GrowingRows(anchors)

    @classmethod
    def empty(cls, X: Array, k: int, second: bool, random_state: int) -> Self:
        """No class yet, for rows like X; `second` keeps the scatter within classes, too."""
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
        """The centres, (C · k, d)."""
        return None if self._anchors is None else self._anchors.values

    @property
    def counts(self) -> Codes:
        """How many rows each class has, (C,)."""
        counts: Codes = self.moments.counts.reshape(-1, self.k).sum(axis=1)
        return counts

    def means(self) -> Array:
        """The mean of each class, (C, d) float64; zero for a class without rows."""
        xp, sums = namespace(self.moments.sums), self.moments.sums
        sums = xp.sum(xp.reshape(sums, (-1, self.k, sums.shape[1])), axis=1)  # (C, d)
        return sums / like(sums, np.maximum(self.counts, 1).astype(np.float64))[:, None]

    def sum_of(self, c: int) -> Array:
        """The sum of the rows of class c, (d,) float64."""
        return namespace(self.moments.sums).sum(self.moments.sums[c * self.k : (c + 1) * self.k], axis=0)

    def resize(self, C: int) -> None:
        """Let there be C classes: new ones are empty, those beyond C are gone."""
        self.moments.resize(C * self.k)
        if self._anchors is not None and self.widths is not None:
            self._anchors.resize(C * self.k)
            self.widths = np.concatenate([self.widths[:C], np.zeros(max(0, C - len(self.widths)), np.int64)])

    def add(self, X: Array, codes: Codes) -> None:
        """Add rows to their classes; a class without centres gets them from its rows here."""
        if self.widths is not None:
            for c, rows in _by_class(codes):
                if not self.widths[c]:
                    self._place(c, X[like(X, rows)])
        self.moments.add(X, self.groups(X, codes))

    def remove(self, X: Array, codes: Codes) -> None:
        """Take rows back out of their classes; a class that has none left forgets its centres."""
        self.moments.remove(X, self.groups(X, codes))
        if self.widths is not None:
            self.widths[self.counts == 0] = 0

    def cluster(self, c: int, X: Array) -> None:
        """New centres for class c from X, all of its rows."""
        self.clear(c)
        self.add(X, np.full(X.shape[0], c, np.int64))

    def clear(self, c: int) -> None:
        """Forget the rows of class c; the scatter, where it is kept, still holds them."""
        cells = slice(c * self.k, (c + 1) * self.k)
        self.moments.counts[cells], self.moments.sums[cells] = 0, 0
        if self.widths is not None:
            self.widths[c] = 0

    def move(self, c: int, to: int) -> None:
        """Put what class c holds in the place of class `to`."""
        old, new = (slice(i * self.k, (i + 1) * self.k) for i in (c, to))
        self.moments.counts[new], self.moments.sums[new] = self.moments.counts[old], self.moments.sums[old]
        if self.anchors is not None and self.widths is not None:
            self.anchors[new], self.widths[to] = self.anchors[old], self.widths[c]

    def groups(self, X: Array, codes: Codes) -> Codes:
        """The cell of each row, (n,): that of the nearest centre of its class."""
        if self.anchors is None or self.widths is None:
            return codes
        groups = codes * self.k
        for c, rows in _by_class(codes):
            centres = self.anchors[c * self.k : c * self.k + int(self.widths[c])]
            groups[rows] += nearest(like(centres, X[like(X, rows)]), centres)
        return groups

    def _place(self, c: int, X: Array) -> None:
        centres = find_centres(X, self.k, self.random_state)
        assert self.anchors is not None
        assert self.widths is not None
        self.anchors[c * self.k : c * self.k + len(centres)] = like(self.anchors, centres)
        self.widths[c] = len(centres)


def find_centres(X: Array, k: int, random_state: int) -> Vectors:
    """At most k centres of rows X (n, d) by k-means, float32: the same for the same rows in any order.

    >>> find_centres(np.array([[5.0], [1.0], [5.0]]), 3, random_state=0).ravel().tolist()
    [1.0, 5.0]
    """
    distinct, counts = np.unique(to_numpy(X), axis=0, return_counts=True)  # sorted
    return distinct if len(distinct) <= k else kmeans(np.repeat(distinct, counts, axis=0), k, random_state)[0]


def nearest(X: Array, centres: Array) -> Codes:
    """The number of the centre nearest to each row, (n,): sums of differences, so that company changes nothing."""
    xp = namespace(X)
    found = xp.argmin(distances(xp.astype(X, xp.float64), xp.astype(centres, xp.float64), 2), axis=1)
    return as_numpy(found).astype(np.int64)


def _by_class(codes: Codes) -> Iterator[tuple[int, Codes]]:
    """Each class that occurs, and where."""
    order = np.argsort(codes, kind="stable")
    classes, starts = np.unique(codes[order], return_index=True)
    yield from zip(classes.tolist(), np.split(order, starts)[1:], strict=True)
