"""Named classes with their cells, and the verbs that change them: the state of an open-ended classifier.

In: labels and rows (n, d), NumPy or torch. Out: exact moments after every verb, and prototypes to score rows with.
ncm, Sec. 3; for classes with few images or none, Eq. 33 and 34.
"""

from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import like, namespace
from lookalike.classes.cells import Cells
from lookalike.classes.labels import Label, Names, one_label
from lookalike.classes.moments import SAME
from lookalike.classes.prior import Hierarchy, map_means, prior_means
from lookalike.classes.prototypes import Prototypes
from lookalike.errors import InputError
from lookalike.types import Array


class Table:
    """C classes by name.

    Parameters
    ----------
    labels : (C,) texts or numbers.
    cells : their moments.
    ridge : of the covariance, where the moments have a scatter.
    hierarchy : what lends means to classes with few images or none.
    weight : m of Eq. 34.

    """

    def __init__(self, labels: NDArray[Any], cells: Cells, ridge: float, hierarchy: Hierarchy | None, weight: float):
        self.names = Names(labels)
        self.cells = cells
        self.ridge = ridge
        self.hierarchy = hierarchy
        self.weight = weight
        self._prototypes: Prototypes | None = None
        self._changed: set[int] = set()  # classes whose prototypes are those of before

    @property
    def labels(self) -> NDArray[Any]:
        """The names, (C,); the same object until they change."""
        return self.names.labels

    def seen(self) -> bool:
        """Whether any class has images."""
        return bool(self.cells.moments.counts.any())

    def append(self, labels: NDArray[Any]) -> None:
        """New classes, without images."""
        self.names.append(labels)
        self.cells.resize(len(self.labels))
        self._change(*range(len(self.labels) - len(labels), len(self.labels)))

    def add(self, X: Array, y: NDArray[Any]) -> None:
        """Add rows to their classes."""
        codes = self.names.place(y)
        self.cells.add(X, codes)
        self._change(*np.unique(codes))

    def remove(self, X: Array, y: NDArray[Any]) -> None:
        """Take rows back out of their classes."""
        codes = self.names.place(y)
        wanted, there = np.bincount(codes, minlength=len(self.labels)), self.cells.counts
        for c in np.flatnonzero(wanted > there)[:1]:
            name = self.labels[c].item()
            raise InputError(f"Class {name!r} has {there[c]} images to take back. Got {wanted[c]}.")
        self.cells.remove(X, codes)
        self._change(*np.unique(codes))

    def rename(self, old: Label, new: Label) -> None:
        """Another name, also in the hierarchy."""
        self.names.rename(self._one(old), one_label(new))
        if self.hierarchy is not None:
            self.hierarchy = self.hierarchy.renamed(str(old), str(new))
            self._prototypes = None

    def merge(self, into: Label, other: Label, X: Array | None) -> None:
        """The rows of both in the first; the other is gone."""
        c, o = self._one(into), self._one(other)
        if c == o:
            raise InputError(f"Two classes are needed to merge. Got {into!r} twice.")
        if self.cells.k == 1:
            self.cells.moments.merge(c, o)
        else:
            both = self.cells.sum_of(c) + self.cells.sum_of(o)
            X = self._all_of(f"{into!r} and {other!r}", X, int(self.cells.counts[[c, o]].sum()), both)
            self.cells.clear(o)
            self.cells.cluster(c, X)
        self._change(c)
        self._drop(o)

    def split(self, label: Label, new: Label, X: Array) -> None:
        """Rows X of one class become a class of their own."""
        self.names.check_new(one_label(new))  # may refuse it, before anything has changed
        self.remove(X, np.repeat(one_label(label), X.shape[0]))
        self.append(one_label(new))
        self.add(X, np.repeat(one_label(new), X.shape[0]))

    def delete(self, label: Label, X: Array | None) -> None:
        """A class and its rows are gone."""
        c = self._one(label)
        n = int(self.cells.counts[c])
        if self.cells.moments.scatter is not None and n:
            X = self._all_of(repr(label), X, n, self.cells.sum_of(c))
            self.cells.remove(X, np.full(n, c, np.int64))
        self._drop(c)

    def cluster(self, label: Label, X: Array) -> None:
        """New centres for the cells of a class, from all its rows X."""
        c = self._one(label)
        X = self._all_of(repr(label), X, int(self.cells.counts[c]), self.cells.sum_of(c))
        if self.cells.k > 1 and X.shape[0]:
            self.cells.cluster(c, X)
        self._change(c)

    def prototypes(self, wide: bool) -> Prototypes:
        """What scores rows: float64 where `wide`, else float32. Only what changed is computed anew, where it can be."""
        moments, k = self.cells.moments, self.cells.k
        xp = namespace(moments.sums)
        precision = xp.float64 if wide else xp.float32
        ready = self._prototypes
        whole = moments.scatter is not None or self.hierarchy is not None  # one class changes all
        if ready is None or ready.precision != precision or (whole and self._changed):
            ready = self._prototypes = Prototypes(*self._means(), self._inverse(), precision)
        elif self._changed or len(ready) != len(moments.counts):
            ready.resize(len(moments.counts))
            codes = np.array(sorted(c for c in self._changed if c < len(self.labels)), np.int64)
            groups = (codes[:, None] * k + np.arange(k)).ravel()
            ready.put(groups, moments.means(groups), moments.counts[groups] > 0)
        self._changed = set()
        return ready

    def _means(self) -> tuple[Array, NDArray[np.bool_]]:
        """The mean of each cell (C · k, d), and which of them there are."""
        cells, k = self.cells, self.cells.k
        means, known = cells.moments.means(slice(None)), cells.moments.counts > 0
        if self.hierarchy is None or not len(self.labels):
            return means, known
        counts, own = cells.counts, cells.means()  # (C,), (C, d): n and μ_s
        prior, lent = prior_means(self.hierarchy, [str(label) for label in self.labels], own, counts)
        # Cells move as their class does: with one cell a class, that is Eq. 34 itself.
        step = (map_means(own, counts, prior, self.weight) - own) * like(own, lent.astype(np.float64))[:, None]
        known = known.reshape(-1, k).copy()
        known[:, 0] |= lent & (counts == 0)
        return means + namespace(means).repeat(step, k, axis=0), known.ravel()

    def _inverse(self) -> Array | None:
        """(Σ + ridge · s · I)⁻¹, (d, d), exactly symmetric; None where there is no scatter, or nothing scattered."""
        moments = self.cells.moments
        if moments.scatter is None:
            return None
        xp, d = namespace(moments.scatter), moments.scatter.shape[0]
        freedom = int(moments.counts.sum() - (moments.counts > 0).sum())
        size = float(xp.linalg.trace(moments.scatter)) / d / max(1, freedom)
        if not size > 0:
            return None
        ridge = xp.eye(d, dtype=xp.float64, device=array_api_compat.device(moments.scatter)) * (self.ridge * size)
        inverse = xp.linalg.inv(moments.scatter / freedom + ridge)
        return (inverse + inverse.T) / 2

    def _one(self, label: Label) -> int:
        return int(self.names.place(one_label(label))[0])

    def _drop(self, c: int) -> None:
        """Class c is gone; the last takes its place."""
        last = len(self.labels) - 1
        self.cells.move(last, c)
        self.names.drop(c)
        self.cells.resize(last)
        self._change(c)

    def _all_of(self, names: str, X: Array | None, n: int, total: Array) -> Array:
        """X, which must be all n rows of classes with this sum."""
        if X is None:
            raise InputError(
                f"X must be the {n} images of {names}: what they left behind cannot be told apart. Got None."
            )
        xp = namespace(X)
        rows = xp.astype(X, xp.float64)
        size = float(xp.sum(xp.abs(rows)))
        off = xp.abs(xp.sum(rows, axis=0) - like(X, total))
        if X.shape[0] != n or float(xp.max(off)) > SAME * size:
            raise InputError(f"X must be the {n} images of {names}. Got {X.shape[0]}, or others.")
        return X

    def _change(self, *codes: int) -> None:
        self._changed.update(int(c) for c in codes)
