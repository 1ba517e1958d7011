"""The labelled classes of an open-ended classifier: labels, moments, prototypes, and the operations on them.

Labels are strings or whole numbers, as lists, NumPy arrays or tensors. Internally, a class is a number. Mensink et al.,
"Large scale metric learning for distance-based image classification on open ended data sets", 2013 (ncm), Sec. 3; for
classes with few images or none, Eq. 33 and 34.
"""

import difflib
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from lookalike.arrays import as_numpy, like, namespace
from lookalike.classes.hierarchy import Hierarchy, map_means, prior_means
from lookalike.classes.moments import SAME, Cells
from lookalike.classes.prototypes import Prototypes
from lookalike.errors import InputError
from lookalike.types import Array

Label: TypeAlias = str | int | float | bool
"""Name of a class. The labels of one classifier are all strings or all numbers."""


class ClassTable:
    """C labelled classes.

    Parameters
    ----------
    labels : (C,) strings or numbers.
    cells : moments of the classes.
    ridge : ridge of the covariance, if the moments have a scatter.
    hierarchy : provides prior means for classes with few images or none.
    weight : m of Eq. 34.

    """

    def __init__(self, labels: NDArray[Any], cells: Cells, ridge: float, hierarchy: Hierarchy | None, weight: float):
        self.index = LabelIndex(labels)
        self.cells = cells
        self.ridge = ridge
        self.hierarchy = hierarchy
        self.weight = weight
        self._prototypes: Prototypes | None = None
        self._background: tuple[Any, Prototypes | None] = None, None  # rows, and their prototypes
        self._changed: set[int] = set()  # classes whose prototypes are stale

    @property
    def labels(self) -> NDArray[Any]:
        """Labels, (C,); the same object until they change."""
        return self.index.labels

    def has_images(self) -> bool:
        """Return whether any class has images."""
        return bool(self.cells.moments.counts.any())

    def append(self, labels: NDArray[Any]) -> None:
        """Add classes without images."""
        self.index.append(labels)
        self.cells.resize(len(self.labels))
        self._mark_changed(*range(len(self.labels) - len(labels), len(self.labels)))

    def add(self, X: Array, y: NDArray[Any]) -> None:
        """Add rows to their classes."""
        codes = self.index.codes(y)
        self.cells.add(X, codes)
        self._mark_changed(*np.unique(codes))

    def remove(self, X: Array, y: NDArray[Any]) -> None:
        """Remove rows from their classes."""
        codes = self.index.codes(y)
        removed, counts = np.bincount(codes, minlength=len(self.labels)), self.cells.counts
        for c in np.flatnonzero(removed > counts)[:1]:
            raise InputError(
                f"Cannot remove {removed[c]} rows from class {self.labels[c].item()!r}: it has only {counts[c]}."
            )
        self.cells.remove(X, codes)
        self._mark_changed(*np.unique(codes))

    def rename(self, old: Label, new: Label) -> None:
        """Change a label, also in the hierarchy."""
        self.index.rename(self._code(old), one_label(new))
        if self.hierarchy is not None:
            self.hierarchy = self.hierarchy.renamed(str(old), str(new))
            self._prototypes = None

    def merge(self, into: Label, other: Label, X: Array | None) -> None:
        """Move the rows of class `other` to class `into` and drop `other`."""
        c, o = self._code(into), self._code(other)
        if c == o:
            raise InputError(f"Merging requires two different classes. Got {into!r} twice.")
        if self.cells.k == 1:
            self.cells.moments.merge(c, o)
        else:
            both = self.cells.sum_of(c) + self.cells.sum_of(o)
            X = _check_all_rows(f"{into!r} and {other!r}", X, int(self.cells.counts[[c, o]].sum()), both)
            self.cells.clear(o)
            self.cells.cluster(c, X)
        self._mark_changed(c)
        self._drop(o)

    def split(self, label: Label, new: Label, X: Array) -> None:
        """Move rows X of one class to a new class."""
        self.index.with_new(one_label(new))  # raises before anything has changed
        self.remove(X, np.repeat(one_label(label), X.shape[0]))
        self.append(one_label(new))
        self.add(X, np.repeat(one_label(new), X.shape[0]))

    def delete(self, label: Label, X: Array | None) -> None:
        """Drop a class and its rows."""
        c = self._code(label)
        n = int(self.cells.counts[c])
        if self.cells.moments.scatter is not None and n:
            X = _check_all_rows(repr(label), X, n, self.cells.sum_of(c))
            self.cells.remove(X, np.full(n, c, np.int64))
        self._drop(c)

    def cluster(self, label: Label, X: Array) -> None:
        """Find new centres for the cells of a class, from all its rows X."""
        c = self._code(label)
        X = _check_all_rows(repr(label), X, int(self.cells.counts[c]), self.cells.sum_of(c))
        if self.cells.k > 1 and X.shape[0]:
            self.cells.cluster(c, X)
        self._mark_changed(c)

    def prototypes(self, wide: bool) -> Prototypes:
        """Return the prototypes, float64 if `wide`, else float32; update only changed classes if possible."""
        moments, k = self.cells.moments, self.cells.k
        xp = namespace(moments.sums)
        precision = xp.float64 if wide else xp.float32
        ready = self._prototypes
        depend = moments.scatter is not None or self.hierarchy is not None  # a change of one class changes the others
        if ready is None or ready.precision != precision or (depend and self._changed):
            ready = self._prototypes = Prototypes(*self.means(), self._inverse(), precision)
        elif self._changed or len(ready) != len(moments.counts):
            ready.resize(len(moments.counts))
            codes = np.array(sorted(c for c in self._changed if c < len(self.labels)), np.int64)
            groups = (codes[:, None] * k + np.arange(k)).ravel()
            ready.put(groups, moments.means(groups), moments.counts[groups] > 0)
        self._changed = set()
        return ready

    def background(self, rows: Array, wide: bool) -> Prototypes:
        """Return prototypes that score rows like `prototypes`, for the distance to each of these rows; cached."""
        current = self.prototypes(wide)
        source, ready = self._background
        fits = ready is not None and ready.inverse is current.inverse and ready.precision == current.precision
        if ready is None or source is not rows or not fits:
            xp = namespace(self.cells.moments.sums)
            points = xp.astype(like(self.cells.moments.sums, rows), xp.float64)
            ready = Prototypes(points, np.ones(len(points), bool), current.inverse, current.precision)
            self._background = rows, ready
        return ready

    def means(self) -> tuple[Array, NDArray[np.bool_]]:
        """Return the mean of each cell (C · k, d), and whether each cell has one."""
        cells, k = self.cells, self.cells.k
        means, known = cells.moments.means(slice(None)), cells.moments.counts > 0
        if self.hierarchy is None or not len(self.labels):
            return means, known
        counts, own = cells.counts, cells.means()  # (C,), (C, d): n and μ_s
        prior, has_prior = prior_means(self.hierarchy, [str(label) for label in self.labels], own, counts)
        # All cells of a class move by the same step; with one cell per class, this is Eq. 34.
        step = (map_means(own, counts, prior, self.weight) - own) * like(own, has_prior.astype(np.float64))[:, None]
        known = known.reshape(-1, k).copy()
        known[:, 0] |= has_prior & (counts == 0)
        return means + namespace(means).repeat(step, k, axis=0), known.ravel()

    def has_metric(self) -> bool:
        """Return whether distances use the scatter. It needs two degrees of freedom, so that one can be held out."""
        moments = self.cells.moments
        if moments.scatter is None or moments.freedom() < 2:
            return False
        return float(namespace(moments.scatter).linalg.trace(moments.scatter)) > 0

    def prior_weights(self) -> NDArray[np.float64]:
        """Return the weight of the prior mean of each class, in images, (C,)."""
        if self.hierarchy is None or not len(self.labels):
            return np.zeros(len(self.labels))
        names = [str(label) for label in self.labels]
        has_prior = prior_means(self.hierarchy, names, self.cells.means(), self.cells.counts)[1]
        return np.where(has_prior, self.weight, 0.0)

    def _inverse(self) -> Array | None:
        """Return (Σ + ridge · s · I)⁻¹, (d, d), exactly symmetric; None: the Euclidean distance."""
        moments = self.cells.moments
        if moments.scatter is None or not self.has_metric():
            return None
        xp, d = namespace(moments.scatter), moments.scatter.shape[0]
        freedom = moments.freedom()
        size = float(xp.linalg.trace(moments.scatter)) / d / freedom
        ridge = xp.eye(d, dtype=xp.float64, device=array_api_compat.device(moments.scatter)) * (self.ridge * size)
        inverse = xp.linalg.inv(moments.scatter / freedom + ridge)
        return (inverse + inverse.T) / 2

    def _code(self, label: Label) -> int:
        return int(self.index.codes(one_label(label))[0])

    def _drop(self, c: int) -> None:
        """Drop class c; the last class takes its number."""
        last = len(self.labels) - 1
        self.cells.move(last, c)
        self.index.drop(c)
        self.cells.resize(last)
        self._mark_changed(c)

    def _mark_changed(self, *codes: int) -> None:
        self._changed.update(int(c) for c in codes)


class LabelIndex:
    """The labels of C classes, all strings or all numbers, and the number of each.

    Examples
    --------
    >>> index = LabelIndex(np.array(["b", "a"]))
    >>> index.append(np.array(["longer"]))
    >>> index.find(np.array(["longer", "c", "b"])).tolist()
    [2, -1, 0]

    """

    def __init__(self, labels: NDArray[Any]):
        self.labels = labels
        self._places = {label: c for c, label in enumerate(labels.tolist())}

    def find(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """Return the class number of each of these labels, (m,); −1 if there is no such class."""
        distinct, inverse = np.unique(y, return_inverse=True)
        found: NDArray[np.int64] = np.array([self._places.get(label, -1) for label in distinct.tolist()], np.int64)[
            inverse
        ]
        return found

    def codes(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """Return the class number of each of these labels, (m,); raise InputError if there is no such class."""
        codes = self.find(y)
        if (codes < 0).any():
            raise self._unknown(y[codes < 0][0].item())
        return codes

    def with_new(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return all labels followed by these, which must be new."""
        found = self.find(labels)
        if (found >= 0).any():
            raise InputError(f"Class {labels[found >= 0][0].item()!r} already exists.")
        return join_labels(self.labels, labels)

    def append(self, labels: NDArray[Any]) -> None:
        """Add new labels at the end."""
        n, self.labels = len(self.labels), self.with_new(labels)
        self._places.update((label, n + i) for i, label in enumerate(labels.tolist()))

    def rename(self, c: int, label: NDArray[Any]) -> None:
        """Replace the label of class c by `label` (1,)."""
        labels = self.with_new(label)  # a dtype wide enough for both
        del self._places[self.labels[c].item()]
        labels[c] = labels[-1]
        self.labels = labels[:-1]
        self._places[label[0].item()] = c

    def drop(self, c: int) -> None:
        """Drop class c; the last class takes its number."""
        labels = self.labels.copy()
        del self._places[labels[c].item()]
        labels[c] = labels[-1]
        self.labels = labels[:-1]
        if c < len(self.labels):
            self._places[labels[c].item()] = c

    def _unknown(self, label: Label) -> InputError:
        names = [str(name) for name in self.labels]
        near = difflib.get_close_matches(str(label), names, n=1)
        some = ", ".join(names[:8]) + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return InputError(f"No class named {label!r}. Known: {some or 'none'}.{hint}")


def as_labels(y: Any, n: int) -> NDArray[Any]:
    """Check labels for n rows and return them as an array (n,) of strings or numbers, never of objects."""
    if y is None:
        raise InputError("This estimator requires y to be passed, but the target y is None.")
    labels: NDArray[Any] = column_or_1d(as_numpy(y), warn=True)
    if len(labels) != n:
        raise InputError(f"y must contain one label for each of {n} rows. Got {len(labels)}.")
    if labels.dtype.kind == "O":
        labels = _from_objects(labels)
    if labels.dtype.kind == "f" and not (np.isfinite(labels) & (labels == np.round(labels))).all():
        raise InputError("Labels must be strings or whole numbers. Got continuous numbers, NaN or infinity.")
    return labels


def one_label(label: Any) -> NDArray[Any]:
    """Check one label and return it as an array (1,)."""
    return as_labels([label], 1)


def join_labels(known: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Concatenate both arrays; raise InputError if one contains strings and the other numbers."""
    if len(known) and len(new) and (known.dtype.kind == "U") != (new.dtype.kind == "U"):
        raise InputError(f"Labels must be all strings or all numbers. Got {new[0].item()!r} and {known[0].item()!r}.")
    return np.concatenate([known, new]) if len(known) else new.copy()


def _from_objects(y: NDArray[Any]) -> NDArray[Any]:
    """Convert an array of objects to one of strings or numbers."""
    strings = sum(isinstance(label, str) for label in y)
    if strings not in (0, len(y)):
        raise InputError(f"Labels must be all strings or all numbers. Got {strings} strings among {len(y)} labels.")
    plain = np.array(y.tolist())
    if plain.dtype.kind not in "Uiufb":
        raise InputError(f"Labels must be strings or numbers. Got {type(y[0]).__name__}, {y[0]!r}. Unknown label type.")
    return plain


def _check_all_rows(names: str, X: Array | None, n: int, total: Array) -> Array:
    """Return X after checking that it contains all n rows, with this sum, of the classes `names`."""
    if X is None:
        raise InputError(
            f"X must contain the {n} rows of {names}, because the classifier stores only their sums. Got None."
        )
    xp = namespace(X)
    rows = xp.astype(X, xp.float64)
    size = float(xp.sum(xp.abs(rows)))
    off = xp.abs(xp.sum(rows, axis=0) - like(X, total))
    if X.shape[0] != n or float(xp.max(off)) > SAME * size:
        raise InputError(
            f"X must contain exactly the {n} rows of {names}. Got {X.shape[0]} rows; their number or their sum differs."
        )
    return X
