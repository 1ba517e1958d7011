"""k-nearest-neighbour classifier on any index; rows and labels can be added and removed at any time.

Library only: collections use `OpenSet`. It is the baseline of Mensink et al., "Large scale metric learning for
distance-based image classification on open ended data sets", 2013 (ncm), §4 and Fig. 1a. It accepts NumPy and torch
rows and returns NumPy arrays.
"""

from collections.abc import Iterator
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import check_rows, chunks, to_numpy
from lookalike.classes.class_table import as_labels
from lookalike.encode.check import check_matrix
from lookalike.errors import InputError
from lookalike.index.ids import check_ids, sort_ids
from lookalike.index.queries import PointQuery
from lookalike.limits import check_number
from lookalike.registry import create
from lookalike.types import Array, Ids, Index, Vectors

CHOICES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 250)
"""Candidates for k="auto"; the best values in the paper are 100 to 250."""
MAX_VALIDATED = 2_000
"""Maximum number of rows used to choose k: each is compared with all others."""
TIE_BREAK = 1e-9
"""Fraction of a vote that the nearest row adds to break ties."""


class KnnClassifier(ClassifierMixin, BaseEstimator):
    """Classifier by the most frequent label among the k nearest rows, by Euclidean distance. Library only.

    If labels have equal votes, the one with the nearest row wins; rows at the same distance are ordered by id. If there
    are fewer than k rows, all of them vote. Adding a row adds it to the index; nothing is trained.

    Parameters
    ----------
    k : neighbours that vote, or "auto": `fit` classifies each row by the others and chooses the smallest k with the
        fewest errors. It does not change until the next `fit`.
    index : spec of the index that finds the neighbours: "flat" compares every row; "ann" is approximate, for large n.
    random_state : random seed of the sample of 2,000 rows used to choose k.

    Attributes
    ----------
    classes_ : (C,) sorted labels. A label whose rows were all removed stays, with no votes.
    k_ : neighbours that vote.
    index_ : index of the rows.
    ids_ : (n,) ids of the rows, ascending.
    codes_ : (n,) label of each row, as its position in classes_.

    Examples
    --------
    >>> knn = KnnClassifier(k=1).fit([[0.0], [1.0]], ["cat", "owl"])
    >>> knn.partial_fit([[5.0]], ["fox"]).predict([[0.2], [4.0]])
    array(['cat', 'fox'], dtype='<U3')
    >>> knn.remove([2])
    1
    >>> knn.predict([[4.0]])
    array(['owl'], dtype='<U3')

    """

    classes_: NDArray[Any]
    k_: int
    index_: Index
    codes_: NDArray[np.int64]
    ids_: Ids

    def __init__(self, k: int | str = 5, index: str = "flat", random_state: int = 0):
        self.k = k
        self.index = index
        self.random_state = random_state

    def fit(self, X: Array, y: Array | None = None, *, ids: Ids | None = None) -> Self:
        """Replace all rows by X (n, d) with labels y (n,) and ids (n,); by default 0, 1, …"""
        if self.k != "auto":
            check_number("k", self.k, Integral, 'a whole number of at least 1, or "auto"', 1, np.inf)
        index = create("index", self.index)
        X, names = self._checked(X, y, reset=True)
        ids = _new_ids(ids, len(names), 0)
        index.add(ids, X)
        if hasattr(index, "build"):
            index.build()
        order = np.argsort(ids)
        self.classes_, codes = np.unique(names, return_inverse=True)
        self.index_, self.ids_, self.codes_ = index, ids[order], codes[order].astype(np.int64)
        self.k_ = self._choose(X, ids) if self.k == "auto" else int(self.k)
        return self

    def partial_fit(
        self, X: Array, y: Array | None = None, classes: Array | None = None, *, ids: Ids | None = None
    ) -> Self:
        """Add rows (m, d) with labels (m,), known or new, and new ids (m,); by default the next numbers.

        `classes` are added to classes_ even if they have no rows.
        """
        if not hasattr(self, "classes_"):
            self.fit(X, y, ids=ids)
            return self if classes is None else self._add_labels(as_labels(classes, len(classes)))
        X, names = self._checked(X, y, reset=False)
        new = _new_ids(ids, len(names), int(self.ids_[-1]) + 1 if len(self.ids_) else 0)
        more = names if classes is None else np.concatenate([names, as_labels(classes, len(classes))])
        self.index_.add(new, X)  # raises for existing ids, before anything has changed
        self._add_labels(more)
        order = np.argsort(new)
        places = np.searchsorted(self.ids_, new[order])
        self.codes_ = np.insert(self.codes_, places, np.searchsorted(self.classes_, names[order]))
        self.ids_ = np.insert(self.ids_, places, new[order])
        return self

    def remove(self, ids: Ids) -> int:
        """Remove rows; return how many of these ids existed."""
        check_is_fitted(self)
        ids = sort_ids(ids)
        kept = ~np.isin(self.ids_, ids, assume_unique=True)
        self.ids_, self.codes_ = self.ids_[kept], self.codes_[kept]
        return self.index_.remove(ids)

    def predict_proba(self, X: Array) -> NDArray[np.float64]:
        """Return the share of votes of each class for rows (m, d), (m, C); the winner of a tie has 1e-9 more."""
        codes = self._neighbours(X)
        votes = [_votes(codes[part], len(self.classes_)) for part in self._parts(codes)]
        return np.concatenate([*votes, np.empty((0, len(self.classes_)))])

    def predict(self, X: Array) -> NDArray[Any]:
        """Return the labels (m,) of rows (m, d)."""
        codes = self._neighbours(X)
        found = [np.argmax(_votes(codes[part], len(self.classes_)), axis=1) for part in self._parts(codes)]
        return np.asarray(self.classes_[np.concatenate([*found, np.empty(0, np.intp)])])

    def _checked(self, X: Array, y: Array | None, *, reset: bool) -> tuple[Vectors, NDArray[Any]]:
        """Return a float32 copy of the rows, and their labels."""
        X = check_rows(check_matrix(self, X, reset=reset))
        return np.array(to_numpy(X)), as_labels(y, X.shape[0])

    def _add_labels(self, names: NDArray[Any]) -> Self:
        """Add new labels to classes_."""
        known = np.union1d(self.classes_, names)
        self.codes_ = np.searchsorted(known, self.classes_)[self.codes_].astype(np.int64)
        self.classes_ = known
        return self

    def _neighbours(self, X: Array) -> NDArray[np.int64]:
        """Return the labels of the rows nearest to each row, (m, k), nearest first, as positions in classes_."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        if not len(self.ids_):
            raise InputError("The classifier has no rows to compare with: all were removed. Add some with partial_fit.")
        return self._codes(self.index_.search(PointQuery(X), min(self.k_, len(self.ids_))).ids)

    def _codes(self, ids: Ids) -> NDArray[np.int64]:
        return self.codes_[np.searchsorted(self.ids_, ids)]

    def _parts(self, codes: NDArray[np.int64]) -> Iterator[slice]:
        return chunks(len(codes), row_bytes=24 * len(self.classes_))

    def _choose(self, X: Vectors, ids: Ids) -> int:
        """Return the k with which the other rows classify most rows correctly."""
        most = len(ids) - 1
        if most < 1:
            return 1
        some = np.random.default_rng(self.random_state).permutation(len(ids))[:MAX_VALIDATED]
        known = self._codes(ids[some])
        k = min(CHOICES[-1], most)
        found = self.index_.search(PointQuery(X[some]), k + 1, effort="exact").ids  # (q, k + 1), with the row itself
        others = np.argsort(found == ids[some][:, None], axis=1, kind="stable")[:, :k]  # drop the row itself
        codes = self._codes(np.take_along_axis(found, others, axis=1))
        right = {
            choice: sum(
                np.count_nonzero(np.argmax(_votes(codes[part, :choice], len(self.classes_)), axis=1) == known[part])
                for part in self._parts(codes)
            )
            for choice in CHOICES
            if choice <= k
        }
        return max(right, key=lambda choice: right[choice])  # ties go to the first


def _votes(codes: NDArray[np.int64], C: int) -> NDArray[np.float64]:
    """Return shares of votes (m, C) from the labels of neighbours (m, k), nearest first."""
    m, k = codes.shape
    rows = np.arange(m)
    votes, ranks = np.zeros((m, C)), np.zeros((m, C))
    for place in reversed(range(k)):
        votes[rows, codes[:, place]] += 1
        ranks[rows, codes[:, place]] = k - place  # the nearest row of each label is written last
    votes += TIE_BREAK / k * ranks
    return np.asarray(votes / votes.sum(axis=1, keepdims=True))


def _new_ids(ids: Ids | None, n: int, first: int) -> Ids:
    if ids is None:
        return np.arange(first, first + n, dtype=np.int64)
    ids = check_ids(ids)
    if len(ids) != n:
        raise InputError(f"ids must contain one id for each of {n} rows. Got {len(ids)}.")
    return ids
