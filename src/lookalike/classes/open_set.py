"""Open-ended classes: a mean, or a few, for each class; images and classes come and go, and nothing is trained again.

In: rows (n, d), NumPy or torch, and labels. Out: labels, "none of these", probabilities. Mensink et al., "Large scale
metric learning for distance-based image classification on open ended data sets", 2013 (ncm), Eq. 3–7, 21–23, 29.
"""

from collections.abc import Callable, Iterator
from typing import Any, Self, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, like, namespace
from lookalike.classes.cells import Codes
from lookalike.classes.confidence import Scores, choose_temperature, choose_threshold
from lookalike.classes.labels import Label, Names, as_labels, join_labels, one_label
from lookalike.classes.prototypes import ABSENT
from lookalike.classes.table import Table
from lookalike.classes.verbs import ClassVerbs
from lookalike.encode.check import check_matrix
from lookalike.errors import InputError
from lookalike.types import Array

FOLDS = 5
"""One image in this many of each class is held out at a time by `fit`, to choose the temperature and the threshold."""
HELD_ROWS, HELD_SCORES = 20_000, 2**22
"""At most so many images, and scores of them, are looked at for that."""

Look: TypeAlias = Callable[[], tuple[Scores, NDArray[Any]]]
"""Held-out rows as they are now: scores (m, C) and squared distances to the nearest class (m,)."""


class OpenSet(ClassifierMixin, ClassVerbs):
    """The nearest class mean, of classes that never stop growing.

    A class is a count and a sum (ncm), k of them (ncmc), or a count and a sum with one covariance for all classes
    (second). Images are added and taken back at O(d) each (O(kd) for ncmc, O(d²) for second), and the state is always
    that of a fresh `fit` on the images that are there, whatever the order: but for rounding, and but for ncmc, whose
    cells are those of the images a class began with until `cluster` finds new ones. Temperature and threshold stay as
    chosen until `fit` or `calibrate`.

    Parameters
    ----------
    kind : "ncm": the nearest mean. "ncmc": k centroids a class, summed as in Eq. 22 with equal weights. "second": the
        nearest mean by (x − μ)ᵀ(Σ + ridge · s · I)⁻¹(x − μ), Σ the covariance within classes, s its mean variance.
    k : centroids a class; ncmc only.
    ridge : above 0, as above; second only. Large: as ncm.
    reject : share of the images of its classes, from 0 to below 1, that it may call none of these. 0: it never does,
        unless `calibrate` is shown images of none.
    none_label : what `predict` returns for none of these. Where classes are numbers it must be one, such as -1.
    random_state : seed for what is held out, and for k-means.

    Attributes
    ----------
    classes_ : (C,) the labels: sorted after `fit`, new ones at the end. A deleted one's place goes to the last.
    counts_ : (C · k,) int64, images of each cell; k is 1 but for ncmc.
    sums_ : (C · k, d) float64, their sums, of the kind of the rows it was fitted on.
    scatter_ : (d, d) float64, within classes; second only.
    anchors_, widths_ : (C · k, d) float32 and (C,) int64, the centres that cells are around and how many; ncmc only.
    softness_ : distances to a class are −2 s ln mean exp(−½ d² / s) of those to its centroids, s = softness_; 0, until
        calibrated, is the nearest one; ncmc only.
    temperature_ : probabilities are softmax(−½ d² / temperature_); 1 until calibrated.
    threshold_ : squared distance to the nearest class beyond which an image is none of these; infinity: never.
    hierarchy_, prior_weight_ : (p, 2) texts child, parent, and m of Eq. 34; after `use_hierarchy` only.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 8.0]])
    >>> model = OpenSet().fit(X, ["cat", "cat", "dog", "dog"])
    >>> model.add_class("fox", [[0.0, 9.0]]).predict([[1.0, 8.0], [8.0, 8.0]]).tolist()
    ['fox', 'dog']
    >>> model.merge("dog", "fox").classes_.tolist()
    ['cat', 'dog']

    """

    def __init__(
        self,
        kind: str = "ncm",
        k: int = 10,
        ridge: float = 0.1,
        reject: float = 0.0,
        none_label: Label = "none of these",
        random_state: int = 0,
    ):
        self.kind = kind
        self.k = k
        self.ridge = ridge
        self.reject = reject
        self.none_label = none_label
        self.random_state = random_state

    def fit(self, X: Array, y: Any) -> Self:
        """Learn classes from rows X (n, d) with labels y (n,), and forget what was learned before but the hierarchy.

        Temperature and threshold are chosen on images held out, a fifth of each class of two or more at a time: taken
        back, looked at, and added again.
        """
        X, y = self._rows_and_labels(X, y, reset=True)
        table = self._start(X, np.unique(y))
        table.add(X, y)
        return self._keep(table)._hold_out(table, X, y)

    def recalibrate(self, X: Array, y: Any) -> Self:
        """Choose temperature and threshold as `fit` does, on images X (m, d) that are in the classes y (m,).

        All of them, or some, of which no more than `most_held` are used: a part of each class is taken back, looked at,
        and added again.
        """
        table = self._table()
        return self._hold_out(table, *self._rows_and_labels(X, y))

    def most_held(self) -> int:
        """How many images `fit` and `recalibrate` look at: fewer where there are many classes."""
        return min(HELD_ROWS, max(1, HELD_SCORES // max(1, len(self._table().labels))))

    def _hold_out(self, table: Table, X: Array, y: NDArray[Any]) -> Self:
        """Calibrate on rows that are in the table, of classes that have two or more."""
        codes = table.names.place(y)
        folds = [rows for rows in self._folds(codes, table.cells.counts) if len(rows)]
        self.softness_, self.temperature_, self.threshold_ = 0.0, 1.0, np.inf

        def look() -> tuple[Scores, NDArray[Any]]:
            looks = []
            for rows in folds:
                some = X[like(X, rows)]
                table.remove(some, y[rows])
                looks.append(self._look(some))
                table.add(some, y[rows])
            return np.concatenate([scores for scores, _ in looks]), np.concatenate([far for _, far in looks])

        if folds:
            self._calibrate(look, codes[np.concatenate(folds)])
        return self._keep(table)

    def calibrate(self, X: Array, y: Any) -> Self:
        """Choose temperature and threshold on images X (m, d) that were not added, of classes y (m,).

        Images of no class may be among them, with none_label: the threshold is then the one that makes the fewest
        mistakes, and `reject` is not used.
        """
        table = self._table()
        X = check_matrix(self, X, reset=False)
        y = as_labels(y, X.shape[0])
        codes = np.full(len(y), -1, np.int64)
        of_a_class = Names(one_label(self.none_label)).find(y) < 0
        codes[of_a_class] = table.names.place(y[of_a_class])
        return self._calibrate(lambda: self._look(X), codes)

    def predict(self, X: Array) -> NDArray[Any]:
        """The label of the nearest class of each row, (m,), none_label where that is farther than threshold_."""
        X = self._queries(X)
        best = np.empty(X.shape[0], np.int64)
        for part, scores, squares in self._scores(X, squares=bool(np.isfinite(self.threshold_))):
            xp = namespace(scores)
            found = xp.argmax(scores, axis=1)
            best[part] = as_numpy(found)
            if squares is not None:
                far = squares - 2 * xp.max(scores, axis=1) > self.threshold_
                best[part][as_numpy(far)] = -1
        if (best >= 0).all():
            return self.classes_[best]
        return join_labels(self.classes_, one_label(self.none_label))[best]  # the last is -1

    def predict_proba(self, X: Array) -> Array:
        """The probability of each of classes_, (m, C) of the kind of X, given that it is one of them (Eq. 5)."""
        X = self._queries(X)
        xp = namespace(X)
        out = self._empty(X)
        with np.errstate(over="ignore"):  # a class without a mean, at a small temperature
            for part, scores, _ in self._scores(X):
                scores -= xp.max(scores, axis=1, keepdims=True)
                scores /= self.temperature_
                chances = xp.exp(scores, out=out[part])
                chances /= xp.sum(chances, axis=1, keepdims=True)
        return out

    def distances(self, X: Array) -> Array:
        """The squared distance to each of classes_, (m, C) of the kind of X; infinity for a class without a mean."""
        X = self._queries(X)
        xp = namespace(X)
        out = self._empty(X)
        for part, scores, squares in self._scores(X, squares=True):
            out[part] = xp.where(scores > ABSENT / 2, xp.clip(squares[:, None] - 2 * scores, 0.0, None), xp.inf)
        return out

    def _scores(self, X: Array, squares: bool = False) -> Iterator[tuple[slice, Array, Any]]:
        """Some rows at a time: which, scores for each class (m, C), and squares (m,) that make them distances."""
        table = self._table()
        xp = namespace(X)
        prototypes = table.prototypes(wide=X.dtype == xp.float64)
        if not table.seen():
            raise InputError("There is no class with images to choose from. Add images with `partial_fit` first.")
        for part, scores, centred in prototypes.scores(X):
            if table.cells.k > 1:
                scores = prototypes.join_cells(scores, table.cells.k, self.softness_)
            yield part, scores, prototypes.squares(centred) if squares else None

    def _queries(self, X: Array) -> Array:
        check_is_fitted(self, "classes_")
        return check_matrix(self, X, reset=False, min_rows=0)

    def _empty(self, X: Array) -> Array:
        xp = namespace(X)
        precision = xp.float64 if X.dtype == xp.float64 else xp.float32
        shape = (X.shape[0], len(self._table().labels))
        return xp.empty(shape, dtype=precision, device=array_api_compat.device(X))

    def _look(self, X: Array) -> tuple[Scores, NDArray[Any]]:
        """The scores of all classes, (m, C), and the squared distance to the nearest, (m,)."""
        looks = [
            (as_numpy(scores).copy(), as_numpy(squares - 2 * namespace(scores).max(scores, axis=1)))
            for _, scores, squares in self._scores(X, squares=True)
        ]
        return np.concatenate([scores for scores, _ in looks]), np.concatenate([far for _, far in looks])

    def _calibrate(self, look: Look, codes: Codes) -> Self:
        """Choose temperature and threshold from what `look` shows of held-out rows of classes `codes`, −1 for none."""
        self.softness_ = 0.0
        if self.kind == "ncmc":  # how alike the cells of a class count is chosen first, by the nearest ones alone
            self.softness_ = _temperature(look()[0], codes)
        scores, far = look()
        self.temperature_ = _temperature(scores, codes)
        self.threshold_ = choose_threshold(far[codes >= 0], far[codes < 0], self.reject)
        return self

    def _folds(self, codes: Codes, counts: Codes) -> list[Codes]:
        """Rows that `fit` holds out together, by lot; never all that a class has."""
        random = np.random.default_rng(self.random_state)
        some = random.permutation(np.flatnonzero(counts[codes] > 1))[: self.most_held()]
        some = some[np.argsort(codes[some], kind="stable")]  # by class, at random within
        _, starts, sizes = np.unique(codes[some], return_index=True, return_counts=True)
        rank = np.arange(len(some)) - np.repeat(starts, sizes)  # place in its class
        return [some[rank % FOLDS == fold] for fold in range(FOLDS)]


def _temperature(scores: Scores, codes: Codes) -> float:
    """That of held-out rows of classes that have a mean."""
    seen: NDArray[np.bool_] = np.max(scores, axis=0) > ABSENT / 2  # (C,), the same for all rows
    right = (codes >= 0) & seen[codes]
    if seen.all() and right.all():
        return choose_temperature(scores, codes)
    return choose_temperature(scores[right][:, seen], (np.cumsum(seen) - 1)[codes[right]])
