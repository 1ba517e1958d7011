"""The verbs of open-ended classes, and how their state is kept: as plain arrays, by name, that a file can hold.

In: rows (n, d), NumPy or torch, and labels. Out: the classifier itself, changed. Nothing is changed where a verb fails.
"""

from collections.abc import Iterable
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lookalike.classes.cells import Cells, Codes
from lookalike.classes.labels import Label, Names, as_labels, join_labels, one_label
from lookalike.classes.moments import Moments, check_all
from lookalike.classes.prior import Hierarchy
from lookalike.classes.table import Table
from lookalike.encode.check import check_matrix
from lookalike.errors import InputError, UnknownNameError
from lookalike.limits import COUNT, POSITIVE, SHARE, check_number
from lookalike.types import Array

KINDS = ("ncm", "ncmc", "second")


class ClassVerbs(BaseEstimator):
    """What `OpenSet` can do to its classes; its parameters and attributes are described there."""

    kind: str
    k: int
    ridge: float
    reject: float
    none_label: Label
    random_state: int

    classes_: NDArray[Any]
    counts_: Codes
    sums_: Array
    softness_: float
    temperature_: float
    threshold_: float
    prior_weight_: float

    def partial_fit(self, X: Array, y: Any, classes: Any = None) -> Self:
        """Add images X (m, d) to the classes y (m,), which may be new; `classes` are there even if without images."""
        first = not hasattr(self, "classes_")
        X, y = self._rows_and_labels(X, y, reset=first)
        named = np.unique(y if classes is None else np.concatenate([y, self._labels(classes, len(classes))]))
        table = self._start(X, named) if first else self._table()
        if not first:
            table.append(named[table.names.find(named) < 0])
        table.add(X, y)
        return self._keep(table)

    def remove(self, X: Array, y: Any) -> Self:
        """Take images X (m, d) back out of the classes y (m,). A class that has none left is still there, unseen."""
        table = self._table()
        table.remove(*self._rows_and_labels(X, y))
        return self._keep(table)

    def add_class(self, label: Label, X: Array | None = None) -> Self:
        """A new class, of images X (m, d), or of none: it is chosen only where a hierarchy lends it a mean."""
        if X is not None:
            if hasattr(self, "classes_"):
                self._table().names.check_new(one_label(label))
            X = check_matrix(self, X, reset=not hasattr(self, "classes_"))
            return self.partial_fit(X, np.repeat(one_label(label), X.shape[0]))
        table = self._table()
        table.append(self._labels([label], 1))
        return self._keep(table)

    def rename(self, old: Label, new: Label) -> Self:
        """Give a class another name, which no class has."""
        table = self._table()
        table.rename(old, self._labels([new], 1)[0].item())
        return self._keep(table)

    def merge(self, into: Label, other: Label, X: Array | None = None) -> Self:
        """Put the images of class `other` into class `into`. ncmc finds new centres and needs all images of both."""
        table = self._table()
        table.merge(into, other, self._rows(X))
        return self._keep(table)

    def split(self, label: Label, new: Label, X: Array) -> Self:
        """Make images X (m, d) of class `label` a class of their own, named `new`."""
        table = self._table()
        table.split(label, self._labels([new], 1)[0].item(), self._rows(X))
        return self._keep(table)

    def delete(self, label: Label, X: Array | None = None) -> Self:
        """Forget a class. For "second", X must be its images: the covariance holds what they added to it."""
        table = self._table()
        table.delete(label, self._rows(X))
        return self._keep(table)

    def cluster(self, label: Label, X: Array) -> Self:
        """Find new centres for a class of ncmc that has grown; X are all its images."""
        table = self._table()
        table.cluster(label, self._rows(X))
        return self._keep(table)

    def use_hierarchy(self, hierarchy: Hierarchy | Iterable[tuple[str, str]], weight: float = 10.0) -> Self:
        """Let classes with few images or none borrow from their relatives: Eq. 33 and 34, `weight` is m, in images.

        Pairs are child, parent; `Hierarchy` reads them from files and nested names. Labels that are numbers are there
        as texts. May be called before `fit`, and again.
        """
        check_number("weight", weight, *POSITIVE)
        pairs = (hierarchy if isinstance(hierarchy, Hierarchy) else Hierarchy(hierarchy)).pairs
        self.hierarchy_ = np.array(pairs, dtype=np.str_).reshape(-1, 2)
        self.prior_weight_ = float(weight)
        self._made: Table | None = None
        return self

    def sizes(self) -> Codes:
        """How many images each of classes_ has, (C,)."""
        return self._table().cells.counts

    def means(self) -> Array:
        """The mean of the images of each of classes_, (C, d) float64; zero for a class without. No prior is in them."""
        return self._table().cells.means()

    def _rows(self, X: Array | None) -> Any:
        if X is None:
            return None
        self._table()
        X = check_matrix(self, X, reset=False)
        check_all(X)
        return X

    def _labels(self, y: Any, n: int) -> NDArray[Any]:
        """Labels that classes may have."""
        labels = as_labels(y, n)
        if (Names(one_label(self.none_label)).find(labels) == 0).any():
            raise InputError(f"No class can be named {self.none_label!r}: it is none_label, of what is in no class.")
        return labels

    def _rows_and_labels(self, X: Array, y: Any, reset: bool = False) -> tuple[Array, NDArray[Any]]:
        X = check_matrix(self, X, reset=reset)
        y = self._labels(y, X.shape[0])
        check_all(X)
        return X, y

    def _start(self, X: Array, labels: NDArray[Any]) -> Table:
        """A table of classes without images, nothing calibrated."""
        if self.kind not in KINDS:
            raise UnknownNameError("kind of OpenSet", str(self.kind), KINDS)
        check_number("k", self.k, *COUNT)
        least, most = np.finfo(np.float64).eps, np.finfo(np.float64).max
        check_number("ridge", self.ridge, Real, f"a number of at least {least:.1g}", least, most)
        check_number("reject", self.reject, *SHARE)
        if self.reject:
            join_labels(labels, one_label(self.none_label))  # they must be of one kind
        self.softness_, self.temperature_, self.threshold_ = 0.0, 1.0, np.inf
        return self._table_for(X, labels)

    def _table_for(self, X: Array, labels: NDArray[Any]) -> Table:
        k = self.k if self.kind == "ncmc" else 1
        cells = Cells.empty(X, k, self.kind == "second", self.random_state)
        table = Table(labels[:0], cells, self.ridge, *self._hierarchy())
        table.append(labels)
        return table

    def _hierarchy(self) -> tuple[Hierarchy | None, float]:
        pairs = getattr(self, "hierarchy_", None)
        return (None, 0.0) if pairs is None else (Hierarchy(map(tuple, pairs.tolist())), self.prior_weight_)

    def _table(self) -> Table:
        """The state as a table: the one that was kept, or one made of the attributes, where those came from a file."""
        check_is_fitted(self, "classes_")
        made = getattr(self, "_made", None)
        if made is None or made.labels is not self.classes_ or made.cells.moments.sums is not self.sums_:
            moments = Moments(self.counts_, self.sums_, getattr(self, "scatter_", None))
            k = self.k if self.kind == "ncmc" else 1
            cells = Cells(
                moments, k, getattr(self, "anchors_", None), getattr(self, "widths_", None), self.random_state
            )
            made = self._made = Table(self.classes_, cells, self.ridge, *self._hierarchy())
        return made

    def _keep(self, table: Table) -> Self:
        """The table's state as attributes."""
        self._made, self.classes_ = table, table.labels
        self.counts_, self.sums_ = table.cells.moments.counts, table.cells.moments.sums
        if table.cells.moments.scatter is not None:
            self.scatter_ = table.cells.moments.scatter
        if table.cells.anchors is not None:
            self.anchors_, self.widths_ = table.cells.anchors, table.cells.widths
        if table.hierarchy is not None:
            self.hierarchy_ = np.array(table.hierarchy.pairs, dtype=np.str_).reshape(-1, 2)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """What is learned, without what is made of it: copies and pickles do not hold the sums twice."""
        state: dict[str, Any] = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_made"}
