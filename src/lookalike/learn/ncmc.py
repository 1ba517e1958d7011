"""NCMC: as NCMML, with several centroids a class instead of one mean; a classifier that is no longer linear.

In: (n, d) rows and their labels, as for NCMML. Out: (n, D) float32 rows, classes, probabilities. Paper: ncm, Eq. 21–25.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, check_rows, chunks, like, namespace
from lookalike.features.clustering import ROWS_PER_CENTRE, kmeans
from lookalike.learn.labels import encode_labels
from lookalike.learn.likelihood import class_scores
from lookalike.learn.ncmml import LIMITS, Ncmml, Task
from lookalike.learn.rows import check_source, project
from lookalike.learn.sgd import Callback, Rows
from lookalike.limits import COUNT, COUNT_OR_ZERO
from lookalike.types import Array, Vectors


class Ncmc(ClassifierMixin, Ncmml):
    """Nearest class multiple centroids: p(c|x) is the sum over the centroids of c of softmin ½‖Wx − Wm‖².

    Parameters
    ----------
    dim, rate, batch, max_iterations, random_state : as in `Ncmml`.
    k : centroids a class, by k-means over its rows; a class of fewer rows has as many as it has rows. 1 is NCM.
    rounds : 1, as in the paper: k-means among the rows as they are, then W for those centroids. More: k-means among
        the projected rows, and W again, until a round brings no gain. 0: W is learned for one mean a class, and k
        centroids, of the projected rows, serve at test time only (the paper's NCMC-test).

    Attributes
    ----------
    W_, classes_, curve_ : as in `Ncmml`; the steps of all rounds are counted on.
    centroids_ : (K, d) float32, class by class, each the mean of its rows.
    centroid_labels_ : (K,) the class of each, NumPy.

    Examples
    --------
    >>> X = np.array([[0.0, 0], [1, 1], [0, 1], [1, 0]]).repeat(20, axis=0)  # exclusive or: no plane parts it
    >>> X += np.random.default_rng(0).normal(size=X.shape) / 10
    >>> y = np.array(["same", "same", "other", "other"]).repeat(20)
    >>> Ncmc(dim=2, k=2).fit(X, y).predict([[0.1, 0.1], [0.9, 0.2]])
    array(['same', 'other'], dtype='<U5')

    """

    validation = 0.2
    measure = "top1"
    _limits = LIMITS | {
        "k": COUNT,
        "rounds": COUNT_OR_ZERO,
    }

    centroids_: Array
    centroid_labels_: NDArray[Any]

    def __init__(
        self,
        dim: int = 64,
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
        """Learn from rows (n, d) and labels (n,) of at least 2 classes; `held` and `callback` as in `Ncmml`."""
        task = self._task(X, y, held)
        if self.rounds:
            W, clusters, curve = self._alternate(task, callback)
        else:
            means = task.means(task.rows, task.labels)
            begin = self._scaled(task, means, None)
            W, steps = self._descend(task, begin, means, None, callback)
            if task.repeats:
                task = task.whole()
                W, _ = self._descend(task, begin, task.means(task.X, task.codes), None, None, steps.best())
            clusters, curve = self._cluster(task, W)[0], steps.table()
        joined = _assign(task.X, task.codes, clusters)  # what was held out joins the nearest of its class
        self.W_, self.classes_, self.curve_ = W, task.classes, curve
        self.centroids_ = task.means(task.X, joined, len(clusters.owners))
        self.centroid_labels_ = task.classes[clusters.owners]
        return self

    def predict(self, X: Rows) -> NDArray[Any]:
        """The most likely class of each row, (n,)."""
        likely = np.argmax(as_numpy(self._scores(X)), axis=1)
        return np.asarray(self.classes_[likely])

    def predict_proba(self, X: Rows) -> Array:
        """p(c|x), (n, C) float32 of the kind of X, in the order of `classes_`: Eq. 22."""
        scores = self._scores(X)
        xp = namespace(scores)
        p = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
        return p / xp.sum(p, axis=1, keepdims=True)

    def decision_function(self, X: Rows) -> Array:
        """ln p(c|x) but for what all classes share, (n, C) float32: tells classes apart whose p is too small to write.

        Of two classes (n,), how much more the second has: scikit-learn's way.
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

    def _alternate(self, task: Task, callback: Callback | None) -> tuple[Array, "Clusters", NDArray[np.float64]]:
        """The best W over all rounds with its clusters, and the learning curve."""
        W, space, best_score, past = task.start.W, None, -np.inf, 0.0
        curves: list[NDArray[np.float64]] = []
        for _ in range(self.rounds):
            clusters, centroids = self._cluster(task, space)
            if space is None:
                W = begin = self._scaled(task, centroids, clusters.owners)
            found, steps = self._descend(task, W, centroids, clusters.owners, callback)
            curves.append(steps.table() + np.array([past, 0, 0]))
            score, past = max(steps.scores), curves[-1][-1, 0]
            if space is not None and not score > best_score:
                break
            W, space, best, best_score = found, found, clusters, score
        if self.rounds == 1 and task.repeats:
            best, centroids = self._cluster(task.whole(), None)
            W, _ = self._descend(task.whole(), begin, centroids, best.owners, None, steps.best())
        return W, best, np.concatenate(curves)

    def _cluster(self, task: Task, space: Array | None) -> tuple["Clusters", Array]:
        """At most k clusters of each class, by k-means in a space, and the means of their rows, (K, d)."""
        centres, owners = [], []
        random = np.random.default_rng(self.random_state)
        for c, members in enumerate(_members(task.labels)):
            k = min(self.k, len(members))
            if len(members) > k * ROWS_PER_CENTRE:
                members = np.sort(random.choice(members, k * ROWS_PER_CENTRE, replace=False))
            Z = _enter(task.rows[members], space)
            centres.append(kmeans(Z, k, self.random_state)[0])
            owners += [c] * k
        clusters = Clusters(np.concatenate(centres), np.array(owners), space)
        joined = _assign(task.rows, task.labels, clusters)
        used, joined = np.unique(joined, return_inverse=True)  # rows that are all alike leave clusters empty
        clusters = Clusters(clusters.centres[used], clusters.owners[used], space)
        return clusters, task.means(task.rows, joined, len(used))


class Clusters(NamedTuple):
    """Where the rows of each class gather."""

    centres: Vectors  # (K, D), or (K, d) where no space was entered
    owners: NDArray[np.int64]  # (K,) rising: the class of each
    space: Array | None  # W (D, d) of the space they were sought in


def _assign(X: Rows, y: NDArray[np.int64], clusters: Clusters) -> NDArray[np.int64]:
    """The nearest cluster of each row's own class, (n,)."""
    out = np.empty(len(y), np.int64)
    first = 0
    for members, k in zip(_members(y), np.bincount(clusters.owners), strict=True):
        own = clusters.centres[first : first + k]  # (k, D)
        for part in chunks(len(members), row_bytes=16 * (X.shape[1] + int(k))):
            Z = _enter(X[members[part]], clusters.space)
            xp = namespace(Z)
            M = like(Z, own - own[0])
            squares = xp.sum(M * M, axis=1) - 2 * (Z - like(Z, own[0])) @ M.T  # ‖z − m‖² but for ‖z‖², (m, k)
            out[members[part]] = first + as_numpy(xp.argmin(squares, axis=1))
        first += k
    return out


def _enter(rows: Array, space: Array | None) -> Array:
    """Rows in the space, float32."""
    rows = check_rows(rows)
    return namespace(rows).astype(rows, namespace(rows).float32) if space is None else project(rows, space)


def _members(y: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The row numbers of each class."""
    return np.split(np.argsort(y, kind="stable"), np.cumsum(np.bincount(y))[:-1])
