"""The k-nearest-neighbour classifier over any index: rows, and labels, may be added and taken back at any time.

In: (n, d) rows, as a Transform left them, with labels (n,). Out: labels and shares of votes. NumPy and torch rows are
taken, answers are NumPy's. Paper: ncm, §4 and Fig. 1a (Mensink et al. 2013).
"""

from collections.abc import Iterator
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from lookalike.arrays import as_numpy, check_rows, chunks, to_numpy
from lookalike.encode.check import check_matrix
from lookalike.errors import InputError
from lookalike.index.ids import check_ids, sort_ids
from lookalike.index.queries import PointQuery
from lookalike.limits import check_number
from lookalike.registry import create
from lookalike.types import Array, Ids, Index, Vectors

CHOICES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 250)
"""The numbers of neighbours that k="auto" chooses from; the paper's best are 100 to 250."""
MOST_ASKED = 2_000
"""Rows that choose k: each asks all others."""
HAIR = 1e-9
"""By so much of a vote the nearest row decides between labels with equally many."""


class KnnClassifier(ClassifierMixin, BaseEstimator):
    """The label that most of the k nearest rows have, by Euclidean distance.

    Of labels with equally many votes the one with the nearest row wins; rows at the same distance come in the order of
    their ids. With fewer than k rows, all of them vote. A new row costs its place in the index, and nothing is learned.

    Parameters
    ----------
    k : neighbours that vote, or "auto": `fit` lets rows be classified by the others, each in turn, and takes the k
        that gets most right, the smallest of equals. It stays until the next `fit`.
    index : spec of the index that finds them: "flat" looks at every row; "ann" is approximate, for very many.
    random_state : seed of the rows that choose k, where there are more than 2,000.

    Attributes
    ----------
    classes_ : (C,) sorted labels. One whose rows were all taken back stays, with no votes.
    k_ : neighbours that vote.
    index_ : the index of the rows.
    ids_ : (n,) ids of the rows, ascending.
    codes_ : (n,) each row's label, as its place in classes_.

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
        """Forget everything and take rows (n, d) with labels (n,), under ids (n,), or 0, 1, …"""
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
        """Add rows (m, d) with labels (m,), known ones or new ones, under new ids (m,), or the next numbers.

        `classes` names labels that are to have a place before their first row comes.
        """
        if not hasattr(self, "classes_"):
            self.fit(X, y, ids=ids)
            return self if classes is None else self._know(_names(classes, len(classes)))
        X, names = self._checked(X, y, reset=False)
        new = _new_ids(ids, len(names), int(self.ids_[-1]) + 1 if len(self.ids_) else 0)
        more = names if classes is None else np.concatenate([names, _names(classes, len(classes))])
        self.index_.add(new, X)  # refuses ids that are there already: nothing has changed by then
        self._know(more)
        order = np.argsort(new)
        places = np.searchsorted(self.ids_, new[order])
        self.codes_ = np.insert(self.codes_, places, np.searchsorted(self.classes_, names[order]))
        self.ids_ = np.insert(self.ids_, places, new[order])
        return self

    def remove(self, ids: Ids) -> int:
        """Take rows back; returns how many of these ids there were."""
        check_is_fitted(self)
        ids = sort_ids(ids)
        kept = ~np.isin(self.ids_, ids, assume_unique=True)
        self.ids_, self.codes_ = self.ids_[kept], self.codes_[kept]
        return self.index_.remove(ids)

    def predict_proba(self, X: Array) -> NDArray[np.float64]:
        """(m, d) to each class's share of the votes, (m, C); of equal shares the winner's is larger by a hair."""
        codes = self._neighbours(X)
        votes = [_votes(codes[part], len(self.classes_)) for part in self._parts(codes)]
        return np.concatenate([*votes, np.empty((0, len(self.classes_)))])

    def predict(self, X: Array) -> NDArray[Any]:
        """(m, d) to labels (m,)."""
        codes = self._neighbours(X)
        found = [np.argmax(_votes(codes[part], len(self.classes_)), axis=1) for part in self._parts(codes)]
        return np.asarray(self.classes_[np.concatenate([*found, np.empty(0, np.intp)])])

    def _checked(self, X: Array, y: Array | None, *, reset: bool) -> tuple[Vectors, NDArray[Any]]:
        """Rows of our own, float32, and their labels."""
        if y is None:
            raise InputError("This classifier requires y to be passed, but the target y is None: it votes with labels.")
        X = check_rows(check_matrix(self, X, reset=reset))
        return np.array(to_numpy(X)), _names(y, X.shape[0])

    def _know(self, names: NDArray[Any]) -> Self:
        """Give each label a place in classes_."""
        known = np.union1d(self.classes_, names)
        self.codes_ = np.searchsorted(known, self.classes_)[self.codes_].astype(np.int64)
        self.classes_ = known
        return self

    def _neighbours(self, X: Array) -> NDArray[np.int64]:
        """The labels of the rows nearest to each row, (m, k), nearest first, as places in classes_."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        if not len(self.ids_):
            raise InputError("There must be a row to be near to: all were taken back. Add some with partial_fit.")
        return self._codes(self.index_.search(PointQuery(X), min(self.k_, len(self.ids_))).ids)

    def _codes(self, ids: Ids) -> NDArray[np.int64]:
        return self.codes_[np.searchsorted(self.ids_, ids)]

    def _parts(self, codes: NDArray[np.int64]) -> Iterator[slice]:
        return chunks(len(codes), row_bytes=24 * len(self.classes_))

    def _choose(self, X: Vectors, ids: Ids) -> int:
        """The k by which most rows get their own label from the others."""
        most = len(ids) - 1
        if most < 1:
            return 1
        some = np.random.default_rng(self.random_state).permutation(len(ids))[:MOST_ASKED]
        known = self._codes(ids[some])
        k = min(CHOICES[-1], most)
        found = self.index_.search(PointQuery(X[some]), k + 1, effort="exact").ids  # (q, k + 1), itself among them
        others = np.argsort(found == ids[some][:, None], axis=1, kind="stable")[:, :k]  # itself last, and left out
        codes = self._codes(np.take_along_axis(found, others, axis=1))
        right = {
            choice: sum(
                np.count_nonzero(np.argmax(_votes(codes[part, :choice], len(self.classes_)), axis=1) == known[part])
                for part in self._parts(codes)
            )
            for choice in CHOICES
            if choice <= k
        }
        return max(right, key=lambda choice: right[choice])  # the first of equals


def _votes(codes: NDArray[np.int64], C: int) -> NDArray[np.float64]:
    """Shares of votes (m, C) from the labels of neighbours (m, k), nearest first."""
    m, k = codes.shape
    rows = np.arange(m)
    votes, hairs = np.zeros((m, C)), np.zeros((m, C))
    for place in reversed(range(k)):
        votes[rows, codes[:, place]] += 1
        hairs[rows, codes[:, place]] = k - place  # the nearest row of each label stands
    votes += HAIR / k * hairs
    return np.asarray(votes / votes.sum(axis=1, keepdims=True))


def _names(y: Array, n: int) -> NDArray[Any]:
    """Labels (n,), none missing."""
    names: NDArray[Any] = column_or_1d(as_numpy(y), warn=True)
    if len(names) != n:
        raise InputError(f"y must hold one label for each of {n} rows. Got {len(names)}.")
    if names.dtype.kind == "O":
        if any(name is None or name != name for name in names):
            raise InputError("y must hold a label for each row: leave out those without. Got None or NaN.")
        names = names.astype(str)
    if names.dtype.kind == "f":
        assert_all_finite(names, input_name="y")
        check_classification_targets(names)  # others it would warn about: many classes of few images are welcome here
    return names


def _new_ids(ids: Ids | None, n: int, first: int) -> Ids:
    if ids is None:
        return np.arange(first, first + n, dtype=np.int64)
    ids = check_ids(ids)
    if len(ids) != n:
        raise InputError(f"ids must hold one id for each of {n} rows. Got {len(ids)}.")
    return ids
