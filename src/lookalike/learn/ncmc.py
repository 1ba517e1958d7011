"""NCMC: NCMML with several centroids per class instead of one mean; a non-linear classifier.

Mensink et al. 2013 (ncm), Eq. 21–25.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, check_rows, chunks, like, namespace
from lookalike.features.clustering import ROWS_PER_CENTRE, kmeans
from lookalike.learn.labels import MAX_HELD_OUT, encode_labels
from lookalike.learn.ncmml import LIMITS as NCMML_LIMITS
from lookalike.learn.ncmml import Likelihood, Ncmml, class_means, class_scores
from lookalike.learn.rows import Rows, check_source, project
from lookalike.learn.training import Callback, Problem, Start
from lookalike.limits import COUNT, COUNT_OR_ZERO
from lookalike.types import Array, Vectors

LIMITS = NCMML_LIMITS | {"k": COUNT, "rounds": COUNT_OR_ZERO}


class Ncmc(ClassifierMixin, Ncmml):
    """Nearest class multiple centroids: p(c|x) is the sum over the centroids of c of softmin ½‖Wx − Wm‖².

    Parameters
    ----------
    dim : output dimension, as in `Ncmml`; None: at most 64.
    rate, batch, max_iterations, random_state : as in `Ncmml`.
    k : centroids per class, by k-means; a class with fewer rows has one per row. 1 is NCM.
    rounds : 1, as in the paper: k-means of the rows, then W for these centroids. 2 or more: alternate k-means of the
        projected rows and learning of W until a round brings no improvement. 0: learn W for one mean per class, and use
        k centroids of the projected rows only for predictions (NCMC-test in the paper).

    Attributes
    ----------
    W_, classes_, curve_ : as in `Ncmml`; steps are counted over all rounds.
    centroids_ : (K, d) float32, class by class, each the mean of its rows.
    centroid_labels_ : (K,) the class of each centroid, NumPy.

    Examples
    --------
    >>> X = np.array([[0.0, 0], [1, 1], [0, 1], [1, 0]]).repeat(20, axis=0)  # exclusive or: not linearly separable
    >>> X += np.random.default_rng(0).normal(size=X.shape) / 10
    >>> y = np.array(["same", "same", "other", "other"]).repeat(20)
    >>> Ncmc(dim=2, k=2).fit(X, y).predict([[0.1, 0.1], [0.9, 0.2]])
    array(['same', 'other'], dtype='<U5')

    """

    _limits = LIMITS

    centroids_: Array
    centroid_labels_: NDArray[Any]

    def __init__(
        self,
        dim: int | None = None,
        k: int = 10,
        rounds: int = 1,
        rate: float = 0.3,
        batch: int = 1_000,
        max_iterations: int = 5_000,
        random_state: int = 0,
    ):
        self.dim = dim
        self.k = k
        self.rounds = rounds
        self.rate = rate
        self.batch = batch
        self.max_iterations = max_iterations
        self.random_state = random_state

    def fit(
        self,
        X: Rows,
        y: Array | None = None,
        *,
        held: tuple[Rows, Array] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Fit to rows (n, d) and labels (n,) of at least 2 classes; `held` and `callback` are as in `Ncmml`."""
        problem = self._problem(X, y, held, MAX_HELD_OUT)
        start = self._start(problem.rows, problem.labels, problem.random)
        if self.rounds:
            self.W_, clusters, self.curve_ = self._alternate(problem, start, callback)
        else:
            means = class_means(problem.X, problem.codes, len(problem.classes), start.W)
            self.W_, curve = self._learn(problem, start, means, callback)
            clusters, _ = self._cluster(problem.with_all_rows() if problem.repeats else problem, start, self.W_)
            self.curve_ = curve.table()
        joined = _assign(problem.X, problem.codes, clusters)  # held-out rows: the nearest cluster of their class
        self.classes_ = problem.classes
        self.centroids_ = class_means(problem.X, joined, len(clusters.owners), start.W)
        self.centroid_labels_ = problem.classes[clusters.owners]
        return self

    def predict(self, X: Rows) -> NDArray[Any]:
        """Return the most likely class of each row, (n,)."""
        likely = np.argmax(as_numpy(self._scores(X)), axis=1)
        return np.asarray(self.classes_[likely])

    def predict_proba(self, X: Rows) -> Array:
        """Return p(c|x), (n, C) float32 of the type of X, in the order of `classes_`: Eq. 22."""
        scores = self._scores(X)
        xp = namespace(scores)
        p = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
        return p / xp.sum(p, axis=1, keepdims=True)

    def decision_function(self, X: Rows) -> Array:
        """Return ln p(c|x) up to a constant per row, (n, C) float32, which ranks even classes whose p is rounded to 0.

        For two classes (n,), the second minus the first, as in scikit-learn.
        """
        scores = self._scores(X)
        return scores if len(self.classes_) > 2 else scores[:, 1] - scores[:, 0]

    def _scores(self, X: Rows) -> Array:
        check_is_fitted(self)
        X = check_source(self, X, reset=False)
        owners = encode_labels(self.centroid_labels_, len(self.centroid_labels_), self.classes_)[1]
        centre = as_numpy(self.centroids_).mean(axis=0)  # (d,)
        out = []
        for part in chunks(X.shape[0], row_bytes=16 * (X.shape[1] + len(owners))):
            rows = check_rows(X[part])
            xp = namespace(rows)
            W, middle = like(rows, self.W_), like(rows, centre)
            M = (like(rows, self.centroids_) - middle) @ W.T  # (K, D)
            P = (xp.astype(rows, xp.float32, copy=False) - middle) @ W.T  # (m, D)
            out.append(class_scores(P, M, owners))  # (m, C)
        return namespace(out[0]).concat(out)

    def _alternate(
        self, problem: Problem, start: Start, callback: Callback | None
    ) -> tuple[Array, "Clusters", NDArray[np.float64]]:
        """Return the best W over all rounds with its clusters, and the learning curve."""
        W, space, best_score, past = start.W, None, -np.inf, 0.0
        curves: list[NDArray[np.float64]] = []
        for _ in range(self.rounds):
            clusters, likelihood = self._cluster(problem, start, space)
            if space is None:
                W = begin = self._scaled(problem, likelihood)
            found, curve = self._descend(problem, likelihood, W, callback=callback)
            curves.append(curve.table() + np.array([past, 0, 0]))
            score, past = max(curve.scores), curves[-1][-1, 0]
            if space is not None and not score > best_score:
                break
            W, space, best, best_score = found, found, clusters, score
        if self.rounds == 1 and problem.repeats:
            best, likelihood = self._cluster(problem.with_all_rows(), start, None)
            W, _ = self._descend(problem.with_all_rows(), likelihood, begin, steps=curve.best())
        return W, best, np.concatenate(curves)

    def _cluster(self, problem: Problem, start: Start, space: Array | None) -> tuple["Clusters", Likelihood]:
        """Find at most k clusters of each class by k-means in a space; also return the likelihood with their means."""
        centres, owners = [], []
        random = np.random.default_rng(self.random_state)
        for c, members in enumerate(_members(problem.labels)):
            k = min(self.k, len(members))
            if len(members) > k * ROWS_PER_CENTRE:
                members = np.sort(random.choice(members, k * ROWS_PER_CENTRE, replace=False))
            Z = _enter(problem.rows[members], space)
            centres.append(kmeans(Z, k, self.random_state)[0])
            owners += [c] * k
        clusters = Clusters(np.concatenate(centres), np.array(owners), space)
        joined = _assign(problem.rows, problem.labels, clusters)
        used, joined = np.unique(joined, return_inverse=True)  # clusters are empty if rows are equal
        clusters = Clusters(clusters.centres[used], clusters.owners[used], space)
        centroids = class_means(problem.rows, joined, len(used), start.W)
        return clusters, Likelihood(centroids, clusters.owners, start)


class Clusters(NamedTuple):
    """The clusters of all classes."""

    centres: Vectors  # (K, D), or (K, d) without a space
    owners: NDArray[np.int64]  # (K,) sorted: the class of each cluster
    space: Array | None  # W (D, d) of the space in which they were found


def _assign(X: Rows, y: NDArray[np.int64], clusters: Clusters) -> NDArray[np.int64]:
    """Return the nearest cluster of each row's own class, (n,)."""
    out = np.empty(len(y), np.int64)
    first = 0
    for members, k in zip(_members(y), np.bincount(clusters.owners), strict=True):
        own = clusters.centres[first : first + k]  # (k, D)
        for part in chunks(len(members), row_bytes=16 * (X.shape[1] + int(k))):
            Z = _enter(X[members[part]], clusters.space)
            xp = namespace(Z)
            M = like(Z, own - own[0])
            squares = xp.sum(M * M, axis=1) - 2 * (Z - like(Z, own[0])) @ M.T  # ‖z − m‖² − ‖z‖², (m, k)
            out[members[part]] = first + as_numpy(xp.argmin(squares, axis=1))
        first += k
    return out


def _enter(rows: Array, space: Array | None) -> Array:
    """Project rows into the space, float32."""
    rows = check_rows(rows)
    return namespace(rows).astype(rows, namespace(rows).float32) if space is None else project(rows, space)


def _members(y: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the row numbers of each class."""
    return np.split(np.argsort(y, kind="stable"), np.cumsum(np.bincount(y))[:-1])
