"""`OpenSet`: a nearest-class-mean classifier; images and classes can be added and removed at any time.

Nothing is trained: a class is a count and a sum. Mensink et al., "Large scale metric learning for distance-based image
classification on open ended data sets", 2013 (ncm), Eq. 3–7, 21–23, 29. Rows are NumPy or torch.
"""

from collections.abc import Callable, Iterable, Iterator
from numbers import Real
from typing import Any, Self, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, check_rows, chunks, like, namespace
from lookalike.classes.class_table import ClassTable, Label, LabelIndex, as_labels, join_labels, one_label
from lookalike.classes.held_out import HeldOut
from lookalike.classes.hierarchy import Hierarchy
from lookalike.classes.moments import Cells, Codes, Moments
from lookalike.classes.predictions import (
    Membership,
    Scores,
    choose_temperature,
    choose_threshold,
    fit_membership,
    label_weights,
)
from lookalike.classes.prototypes import ABSENT, join_cells
from lookalike.encode.check import check_matrix
from lookalike.errors import InputError, UnknownNameError
from lookalike.limits import COUNT, POSITIVE, SHARE, check_number
from lookalike.types import Array

KINDS = ("ncm", "ncmc", "second")
HELD_ROWS, HELD_SCORES = 20_000, 2**22
"""Maximum number of images, and of their scores, on which `fit` chooses the temperature and the threshold."""
NEIGHBOURS, LEAST_NEIGHBOURS = 0.05, 20
"""Share and minimum number of background images whose mean distance is typical; chosen on classes 0, 2, 4 … of
corel5k."""
ITSELF = 1e-4
"""Distance to a background image, relative to the mean, below which it is the image itself or a copy of it."""

HeldOutScores: TypeAlias = Callable[[], Scores]
"""Function that returns the current scores of held-out rows, −½ d² to each class, (m, C)."""


class OpenSet(ClassifierMixin, BaseEstimator):
    """Nearest-class-mean classifier with classes that can change at any time.

    A class is a count and a sum (ncm), k of them (ncmc), or a count and a sum with one covariance for all classes
    (second). Adding or removing an image costs O(d) (O(kd) for ncmc, O(d²) for second). The state equals, up to
    rounding, that of a new `fit` on the current images, in any order. The exception is ncmc: the cells of a class are
    those of its first images until `cluster` is called. Only `fit`, `calibrate` and `recalibrate` change the
    temperature, the threshold and the membership. A method that raises an error has changed nothing.

    Parameters
    ----------
    kind : "ncm": the nearest mean. "ncmc": k centroids per class, summed as in Eq. 22 with equal weights. "second": the
        nearest mean by (x − μ)ᵀ(Σ + ridge · s · I)⁻¹(x − μ), Σ the covariance within classes, s its mean variance.
    k : centroids per class; ncmc only.
    ridge : ridge of the covariance, above 0; second only. A large ridge gives ncm.
    reject : share of the classes' own images, from 0 to below 1, that may be predicted as none of these. 0: no image is
        rejected, unless `calibrate` receives images of no class.
    none_label : label that `predict` returns for none of these. If labels are numbers, it must be one, such as -1.
    random_state : random seed of the held-out images and of k-means.

    Attributes
    ----------
    classes_ : (C,) labels, sorted after `fit`, new ones at the end. The last label replaces a deleted one.
    counts_ : (C · k,) int64, images of each cell; k is 1 except for ncmc.
    sums_ : (C · k, d) float64, their sums, of the type of the training rows.
    scatter_ : (d, d) float64, within classes; second only.
    anchors_, widths_ : (C · k, d) float32 and (C,) int64, the centres of the cells and their number; ncmc only.
    softness_ : s in the squared distance to a class, −2 s ln mean exp(−½ d² / s) over its centroids. 0, the value
        before calibration, means the nearest centroid; ncmc only.
    temperature_ : probabilities are softmax(−½ d² / temperature_); 1 before calibration.
    threshold_ : squared distance to the nearest class, divided by the typical distance, beyond which an image is none
        of these; infinity: never.
    membership_ : (2,) slope and offset of the logistic function from this distance to the probability of `known_proba`.
    background_, unlabelled_ : (B, d) and (B,) images that define typical distances; only after `use_background`.
    hierarchy_, prior_weight_ : (p, 2) strings child, parent, and m of Eq. 34; only after `use_hierarchy`.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 8.0]])
    >>> model = OpenSet().fit(X, ["cat", "cat", "dog", "dog"])
    >>> model.add_class("fox", [[0.0, 9.0]]).predict([[1.0, 8.0], [8.0, 8.0]]).tolist()
    ['fox', 'dog']
    >>> model.merge("dog", "fox").classes_.tolist()
    ['cat', 'dog']

    """

    classes_: NDArray[Any]
    counts_: Codes
    sums_: Array
    softness_: float
    temperature_: float
    threshold_: float
    membership_: NDArray[np.float64]
    background_: Array
    unlabelled_: NDArray[np.bool_]
    prior_weight_: float

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
        """Fit classes to rows X (n, d) with labels y (n,); replaces the whole state except the hierarchy.

        Temperature and threshold are chosen on images of classes with two or more, each compared with the classes
        without it.
        """
        X, y = self._rows_and_labels(X, y, reset=True)
        self._check_background(X.shape[1])
        table = self._new_table(X, np.unique(y))
        table.add(X, y)
        return self._store(table)._hold_out(table, X, y)

    def partial_fit(self, X: Array, y: Any, classes: Any = None) -> Self:
        """Add images X (m, d) to the classes y (m,), which can be new; `classes` are added even without images."""
        first = not hasattr(self, "classes_")
        X, y = self._rows_and_labels(X, y, reset=first)
        named = np.unique(y if classes is None else np.concatenate([y, self._labels(classes, len(classes))]))
        table = self._new_table(X, named) if first else self._table()
        if not first:
            table.append(named[table.index.find(named) < 0])
        table.add(X, y)
        return self._store(table)

    def remove(self, X: Array, y: Any) -> Self:
        """Remove images X (m, d) from the classes y (m,). A class without images remains."""
        table = self._table()
        table.remove(*self._rows_and_labels(X, y))
        return self._store(table)

    def add_class(self, label: Label, X: Array | None = None) -> Self:
        """Add a class with images X (m, d). Without images, it is predicted only if a hierarchy gives it a mean."""
        if X is not None:
            if hasattr(self, "classes_"):
                self._table().index.with_new(one_label(label))
            X = check_matrix(self, X, reset=not hasattr(self, "classes_"))
            return self.partial_fit(X, np.repeat(one_label(label), X.shape[0]))
        table = self._table()
        table.append(self._labels([label], 1))
        return self._store(table)

    def rename(self, old: Label, new: Label) -> Self:
        """Change the label of a class to a new label."""
        table = self._table()
        table.rename(old, self._labels([new], 1)[0].item())
        return self._store(table)

    def merge(self, into: Label, other: Label, X: Array | None = None) -> Self:
        """Move the images of class `other` to class `into`. ncmc finds new centres and requires all images of both."""
        table = self._table()
        table.merge(into, other, self._rows(X))
        return self._store(table)

    def split(self, label: Label, new: Label, X: Array) -> Self:
        """Move images X (m, d) of class `label` to a new class `new`."""
        table = self._table()
        table.split(label, self._labels([new], 1)[0].item(), self._rows(X))
        return self._store(table)

    def delete(self, label: Label, X: Array | None = None) -> Self:
        """Remove a class. For "second", X must be its images, to remove their share of the covariance."""
        table = self._table()
        table.delete(label, self._rows(X))
        return self._store(table)

    def cluster(self, label: Label, X: Array) -> Self:
        """Find new centres for an ncmc class that has grown; X are all its images."""
        table = self._table()
        table.cluster(label, self._rows(X))
        return self._store(table)

    def use_hierarchy(self, hierarchy: Hierarchy | Iterable[tuple[str, str]], weight: float = 10.0) -> Self:
        """Give classes with few images or none a prior mean from related classes, worth `weight` images: Eq. 33, 34.

        Pairs are child, parent; `Hierarchy` reads them from files and nested names. Labels that are numbers are written
        as strings there. It can be called before `fit`, and more than once.
        """
        check_number("weight", weight, *POSITIVE)
        pairs = (hierarchy if isinstance(hierarchy, Hierarchy) else Hierarchy(hierarchy)).pairs
        self.hierarchy_ = np.array(pairs, dtype=np.str_).reshape(-1, 2)
        self.prior_weight_ = float(weight)
        self._cached_table: ClassTable | None = None
        return self

    def use_background(self, X: Array, unlabelled: Any = None) -> Self:
        """Compare distances with those among typical images X (B, d), such as a sample of a collection.

        Without it, the threshold applies to d², the squared distance to the nearest class. With it, the threshold
        applies to d² / r, where r is the root mean square distance to the nearest 5 % of the background: where many
        images are near, an image must be nearer to a class. `unlabelled` (B,) marks images that are in no class yet.
        The share of them that is as near as the classes' own images determines the probability that a new image belongs
        to a class. It takes effect with the next `fit`, `calibrate` or `recalibrate`.
        """
        X = check_rows(X)
        flags = np.zeros(X.shape[0], bool) if unlabelled is None else np.asarray(unlabelled, bool)
        if flags.shape != (X.shape[0],):
            raise InputError(f"unlabelled must have one value for each of {X.shape[0]} rows. Got shape {flags.shape}.")
        if hasattr(self, "classes_"):
            check_matrix(self, X, reset=False)
        self.background_, self.unlabelled_ = X, flags
        return self

    def sizes(self) -> Codes:
        """Return the number of images of each of classes_, (C,)."""
        return self._table().cells.counts

    def means(self) -> Array:
        """Return the mean of the images of each of classes_, (C, d) float64, without a prior; zero without images."""
        return self._table().cells.means()

    def calibrate(self, X: Array, y: Any) -> Self:
        """Choose temperature and threshold on images X (m, d) that were not added, of classes y (m,).

        Images of no class have the label none_label. The threshold is then the one with the fewest errors, and `reject`
        is not used.
        """
        table = self._table()
        X = check_matrix(self, X, reset=False)
        y = as_labels(y, X.shape[0])
        codes = np.full(len(y), -1, np.int64)
        of_a_class = LabelIndex(one_label(self.none_label)).find(y) < 0
        codes[of_a_class] = table.index.codes(y[of_a_class])
        return self._calibrate(lambda: self._score_once(X), codes, self.typical_distances(X))

    def recalibrate(self, X: Array, y: Any) -> Self:
        """Choose temperature and threshold as `fit` does, on images X (m, d) that are in the classes y (m,).

        X can be all images or some; at most `most_held` of them are used.
        """
        table = self._table()
        return self._hold_out(table, *self._rows_and_labels(X, y))

    def most_held(self) -> int:
        """Return the maximum number of images that `fit` and `recalibrate` hold out; fewer with many classes."""
        return min(HELD_ROWS, max(1, HELD_SCORES // max(1, len(self._table().labels))))

    def predict(self, X: Array) -> NDArray[Any]:
        """Return the label of the nearest class of each row, (m,), or none_label if it is too far away."""
        X = self._queries(X)
        best = np.empty(X.shape[0], np.int64)
        can_reject = bool(np.isfinite(self.threshold_))
        limits = self.threshold_ * self.typical_distances(X) if can_reject else np.empty(0)
        for part, scores, squares in self._scores(X, squares=can_reject):
            xp = namespace(scores)
            best[part] = as_numpy(xp.argmax(scores, axis=1))
            if squares is not None:
                far = as_numpy(squares - 2 * xp.max(scores, axis=1))
                best[part][far > limits[part]] = -1
        if (best >= 0).all():
            return self.classes_[best]
        return join_labels(self.classes_, one_label(self.none_label))[best]  # the last is -1

    def predict_proba(self, X: Array) -> Array:
        """Return the probability of each of classes_, (m, C) of the type of X, given that it is one of them (Eq. 5)."""
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

    def known_proba(self, X: Array) -> NDArray[np.float64]:
        """Return the probability that each row belongs to one of the classes, (m,); 1 before calibration."""
        X = self._queries(X)
        if not X.shape[0]:
            return np.empty(0)
        return self.membership().chances(_relative(self._score_once(X), self.typical_distances(X)))

    def membership(self) -> Membership:
        """Return the function of `known_proba`, which takes relative distances to the nearest class."""
        return Membership(*map(float, getattr(self, "membership_", ())))

    def typical_distances(self, X: Array) -> NDArray[np.float64]:
        """Return the root mean square distance of each row to its neighbours in the background, (m,); 1 without one."""
        X = self._queries(X)
        background = self._background()
        if background is None:
            return np.ones(X.shape[0])
        found = np.empty(X.shape[0])
        prototypes = self._table().background(background, wide=X.dtype == namespace(X).float64)
        for part, scores, centred in prototypes.scores(X):
            found[part] = _typical(as_numpy(prototypes.squares(centred)[:, None] - 2 * scores))
        return found

    def distances(self, X: Array) -> Array:
        """Return the squared distance to each of classes_, (m, C) of the type of X; infinity if it has no mean."""
        X = self._queries(X)
        xp = namespace(X)
        out = self._empty(X)
        for part, scores, squares in self._scores(X, squares=True):
            out[part] = xp.where(scores > ABSENT / 2, xp.clip(squares[:, None] - 2 * scores, 0.0, None), xp.inf)
        return out

    def _scores(self, X: Array, squares: bool = False) -> Iterator[tuple[slice, Array, Any]]:
        """Yield for chunks of X the slice, class scores (m, C), and squares (m,) to turn scores into distances."""
        table = self._table()
        xp = namespace(X)
        prototypes = table.prototypes(wide=X.dtype == xp.float64)
        if not table.has_images():
            raise InputError("Cannot predict: no class has any rows. Add rows with `partial_fit` first.")
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

    def _hold_out(self, table: ClassTable, X: Array, y: NDArray[Any]) -> Self:
        """Calibrate on rows of the table, of classes with two or more, each compared with the classes without it."""
        codes = table.index.codes(y)
        random = np.random.default_rng(self.random_state)
        some = np.sort(random.permutation(np.flatnonzero(table.cells.counts[codes] > 1))[: self.most_held()])
        self.softness_, self.temperature_, self.threshold_ = 0.0, 1.0, np.inf
        self.membership_ = np.array(Membership())
        if not len(some):
            return self
        held = HeldOut(table, X[like(X, some)], codes[some])
        typical = np.ones(len(some))
        if self._background() is not None:
            typical = np.concatenate([_typical(D) for _, D in held.to_rows(self._background())])

        def scores() -> Scores:
            parts = []
            for _, D in held.distances():
                halves = np.maximum(D * -0.5, ABSENT)
                if table.cells.k > 1:
                    live = np.isfinite(D).reshape(len(D), -1, table.cells.k).sum(axis=2)
                    halves = join_cells(halves, live, table.cells.k, self.softness_)
                parts.append(halves)
            return np.concatenate(parts)

        self._calibrate(scores, codes[some], typical)
        return self

    def _score_once(self, X: Array) -> Scores:
        """Return the scores −½ d² of all classes, (m, C)."""
        parts = [as_numpy(scores - squares[:, None] / 2) for _, scores, squares in self._scores(X, squares=True)]
        return np.concatenate(parts)

    def _calibrate(self, held_out: HeldOutScores, codes: Codes, typical: NDArray[np.float64]) -> Self:
        """Choose temperature, threshold and membership from held-out rows of classes `codes`, −1 for none."""
        self.softness_ = 0.0
        if self.kind == "ncmc":  # the softness is chosen first, as the temperature of the nearest cells
            self.softness_ = _choose_temperature(held_out(), codes)
        scores = held_out()
        usable = ~np.isnan(scores).any(axis=1)
        scores, codes, typical = scores[usable], codes[usable], typical[usable]
        self.temperature_ = _choose_temperature(scores, codes)
        relative = _relative(scores, typical)
        known, others = relative[codes >= 0], relative[codes < 0]
        self.threshold_ = choose_threshold(known, others, self.reject)
        unlabelled, weights = None, None
        if not len(others):  # each row is a stranger to the classes without its own, if its label is right
            weights = label_weights(scores, codes, self.temperature_)
            scores[np.arange(len(codes)), codes] = ABSENT
            compared = scores.max(axis=1) > ABSENT / 2  # with another class
            others, weights = _relative(scores[compared], typical[compared]), weights[compared]
            unlabelled = self._unlabelled_distances()
        self.membership_ = np.array(fit_membership(known, others, unlabelled, weights))
        return self

    def _unlabelled_distances(self) -> NDArray[np.float64]:
        """Return the distances of unlabelled background images to the nearest class, relative to the typical ones."""
        background = self._background()
        if background is None or not self.unlabelled_.any():
            return np.empty(0)
        rows = background[like(background, np.flatnonzero(self.unlabelled_))]
        return _relative(self._score_once(rows), self.typical_distances(rows))

    def _check_background(self, d: int) -> None:
        background = self._background()
        if background is not None and background.shape[1] != d:
            raise InputError(f"The background must have rows of {d} numbers, as X has. Got {background.shape[1]}.")

    def _background(self) -> Any:
        return getattr(self, "background_", None)

    def _rows(self, X: Array | None) -> Any:
        if X is None:
            return None
        self._table()
        X = check_matrix(self, X, reset=False)
        _check_finite(X)
        return X

    def _labels(self, y: Any, n: int) -> NDArray[Any]:
        """Check labels that are to become classes."""
        labels = as_labels(y, n)
        if (LabelIndex(one_label(self.none_label)).find(labels) == 0).any():
            raise InputError(
                f"A class cannot be named {self.none_label!r}, because that is the none_label. Choose another name."
            )
        return labels

    def _rows_and_labels(self, X: Array, y: Any, reset: bool = False) -> tuple[Array, NDArray[Any]]:
        X = check_matrix(self, X, reset=reset)
        y = self._labels(y, X.shape[0])
        _check_finite(X)
        return X, y

    def _new_table(self, X: Array, labels: NDArray[Any]) -> ClassTable:
        """Create a table of classes without images, for rows like X; reset the calibration."""
        if self.kind not in KINDS:
            raise UnknownNameError("kind of OpenSet", str(self.kind), KINDS)
        check_number("k", self.k, *COUNT)
        least, most = np.finfo(np.float64).eps, np.finfo(np.float64).max
        check_number("ridge", self.ridge, Real, f"a number of at least {least:.1g}", least, most)
        check_number("reject", self.reject, *SHARE)
        if self.reject:
            join_labels(labels, one_label(self.none_label))  # both must be strings, or both numbers
        self.softness_, self.temperature_, self.threshold_ = 0.0, 1.0, np.inf
        self.membership_ = np.array(Membership())
        cells = Cells.empty(X, self._cells_per_class(), self.kind == "second", self.random_state)
        table = ClassTable(labels[:0], cells, self.ridge, *self._hierarchy())
        table.append(labels)
        return table

    def _cells_per_class(self) -> int:
        return self.k if self.kind == "ncmc" else 1

    def _hierarchy(self) -> tuple[Hierarchy | None, float]:
        pairs = getattr(self, "hierarchy_", None)
        return (None, 0.0) if pairs is None else (Hierarchy(map(tuple, pairs.tolist())), self.prior_weight_)

    def _table(self) -> ClassTable:
        """Return the table of the current attributes: cached, or rebuilt if `load` replaced the attributes."""
        check_is_fitted(self, "classes_")
        table = getattr(self, "_cached_table", None)
        if table is None or table.labels is not self.classes_ or table.cells.moments.sums is not self.sums_:
            moments = Moments(self.counts_, self.sums_, getattr(self, "scatter_", None))
            anchors, widths = getattr(self, "anchors_", None), getattr(self, "widths_", None)
            cells = Cells(moments, self._cells_per_class(), anchors, widths, self.random_state)
            table = self._cached_table = ClassTable(self.classes_, cells, self.ridge, *self._hierarchy())
        return table

    def _store(self, table: ClassTable) -> Self:
        """Set the attributes from the table."""
        self._cached_table, self.classes_ = table, table.labels
        self.counts_, self.sums_ = table.cells.moments.counts, table.cells.moments.sums
        if table.cells.moments.scatter is not None:
            self.scatter_ = table.cells.moments.scatter
        if table.cells.anchors is not None:
            self.anchors_, self.widths_ = table.cells.anchors, table.cells.widths
        if table.hierarchy is not None:
            self.hierarchy_ = np.array(table.hierarchy.pairs, dtype=np.str_).reshape(-1, 2)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cached table, so that copies and pickles do not contain the sums twice."""
        state: dict[str, Any] = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_cached_table"}


def _relative(scores: Scores, typical: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared distance to the nearest class from scores −½ d², relative to the typical one, (m,)."""
    relative: NDArray[np.float64] = np.maximum(-2.0 * scores.max(axis=1).astype(np.float64), 0.0) / typical
    return relative


def _typical(D: NDArray[Any]) -> NDArray[np.float64]:
    """Return the root mean square of the smallest distances of each row, (m,), from squared distances (m, B)."""
    k = min(D.shape[1], max(LEAST_NEIGHBOURS, round(NEIGHBOURS * D.shape[1])))
    itself = ITSELF * np.mean(D, axis=1, keepdims=True)
    D = np.where(itself < D, D, np.inf)
    nearest = np.partition(D, k - 1, axis=1)[:, :k].astype(np.float64)
    valid = np.isfinite(nearest)
    means = np.where(valid, nearest, 0.0).sum(axis=1) / np.maximum(valid.sum(axis=1), 1)
    return np.sqrt(np.where(means > 0, means, 1.0))


def _check_finite(X: Array) -> None:
    for part in chunks(X.shape[0], row_bytes=8 * X.shape[1]):
        check_rows(X[part])


def _choose_temperature(scores: Scores, codes: Codes) -> float:
    """Choose the temperature on held-out rows of classes that have a mean."""
    seen: NDArray[np.bool_] = np.max(scores, axis=0) > ABSENT / 2  # (C,), the same for all rows
    right = (codes >= 0) & seen[codes]
    if seen.all() and right.all():
        return choose_temperature(scores, codes)
    return choose_temperature(scores[right][:, seen], (np.cumsum(seen) - 1)[codes[right]])
