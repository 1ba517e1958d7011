"""NCMML: a projection under which rows are near the mean of their own class and far from the others.

In: (n, d) rows and their labels, NumPy, torch, a memory map or `PqRows`. Out: (n, D) float32, D = min(dim, d, n - 1).
Mensink et al. 2013, "Large scale metric learning for distance-based image classification on open ended data sets"
(ncm), Eq. 3–10, and Eq. 27 for the form with inner products.
"""

from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from lookalike.arrays import as_numpy, check_rows, chunks, like, namespace
from lookalike.errors import UnknownNameError
from lookalike.learn.labels import MOST, encode_held, encode_labels, hold_out
from lookalike.learn.likelihood import class_scores, inner, mixture, pack, unpack
from lookalike.learn.measures import MEASURES, mean_average_precision, ranks, top
from lookalike.learn.projection import Projection
from lookalike.learn.rows import Picked, check_source, means_by_label, project
from lookalike.learn.sgd import Callback, Curve, Rows, Step, train
from lookalike.learn.start import Start, start
from lookalike.limits import COUNT, COUNT_OR_ZERO, POSITIVE, SHARE, Limit, check_limits
from lookalike.types import Array, OneOf

SPREADS = 2.0 ** np.arange(-4, 2.5, 0.5)
"""Standard deviations within classes that training may start at: the one that makes held-out labels most likely."""
MOST_TO_SCALE = 2_000
"""Rows that choose it, at most."""
MOST_TO_REPEAT = 100_000
"""With no more rows than these, training is done again on all of them, for as many steps as were best."""
MOST_FOR_MAP = 2_000
"""Rows held out to watch retrieval: each asks all others."""
LIMITS: dict[str, Limit] = {
    "dim": COUNT,
    "rate": POSITIVE,
    "batch": COUNT,
    "max_iterations": COUNT_OR_ZERO,
    "validation": SHARE,
}
"""What the numbers among the parameters may be."""
EVERY, PATIENCE = 10, 25
"""Batches between two validations, and how many without a gain end the training."""


class Ncmml(Projection):
    """Nearest class mean metric learning: W that makes the right class mean the most likely one for each row.

    Maximises the mean of ln p(y|x), p(c|x) ∝ exp(−½‖Wx − Wμ_c‖²), by descent in mini-batches, from Fisher's
    discriminants and in rows whitened within classes (`start`; the paper has neither). Distances after `transform`
    are those of the metric; means of new classes need no new training.

    Parameters
    ----------
    dim : output dimension. D = min(dim, d, n - 1), n the rows that are not held out.
    rate : length of a step, at a scale where the variance along the first direction of whitened rows is one.
    batch : rows a step.
    max_iterations : steps at most.
    validation : share of each class, below 1, held out to see after how many steps to stop; of up to 100,000 rows all
        are then trained on, for that many steps. 0: all steps are taken, the last W is kept.
    measure : what is watched there: "top1" (the right class first), "top5" (among the first five; ties by the first)
        or "map" (rows as queries for their like, by cosine: for retrieval, where training should stop much sooner).
    random_state : seed of what is held out and of the batches.

    Attributes
    ----------
    Arrays are of the kind, and on the device, of the rows it was fitted on; `transform` takes rows of any kind.

    W_ : (D, d) float32.
    classes_ : (C,) sorted labels, NumPy.
    means_ : (C, d) float32, of all rows of each class.
    curve_ : (t, 3) float64, NumPy: step, mean loss since the entry before, and score, at each validation.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat(["cat", "owl"], 100)
    >>> X = random.normal(size=(200, 5)) * [1, 5, 5, 5, 5]  # four columns are large and say nothing
    >>> X[y == "owl", 0] += 4
    >>> W = np.abs(Ncmml(dim=1).fit(X, y).W_)
    >>> (W / W.max()).round(1).tolist()
    [[1.0, 0.0, 0.0, 0.0, 0.0]]

    """

    _limits = LIMITS

    means_: Array

    def __init__(
        self,
        dim: int = 64,
        rate: float = 0.3,
        batch: int = 1_000,
        max_iterations: int = 5_000,
        validation: float = 0.2,
        measure: Annotated[str, OneOf(MEASURES)] = "top1",
        random_state: int = 0,
    ):
        self.dim = dim
        self.rate = rate
        self.batch = batch
        self.max_iterations = max_iterations
        self.validation = validation
        self.measure = measure
        self.random_state = random_state

    def fit(
        self,
        X: Rows,
        y: Array | None = None,
        *,
        held: tuple[Rows, Array] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Learn from rows (n, d) and labels (n,) of at least 2 classes.

        `held`, rows and labels, is validated on instead of a part of X: for "map", labels of any classes.
        `callback(step, loss, score)` is called at each validation.
        """
        task = self._task(X, y, held)
        self.classes_, self.means_ = task.classes, task.means(task.X, task.codes)
        means = task.means(task.rows, task.labels)  # (C, d), without what is held out
        W = self._scaled(task, means, None)
        self.W_, curve = self._descend(task, W, means, None, callback)
        self.curve_ = curve.table()
        if task.repeats:
            self.W_, _ = self._descend(task.whole(), W, self.means_, None, None, curve.best())
        return self

    def _task(self, X: Rows, y: Array | None, held: tuple[Rows, Array] | None) -> "Task":
        """Check all there is to check, hold a part out, and find where to start."""
        check_limits(self, self._limits)
        if self.measure not in MEASURES:
            raise UnknownNameError("measure", str(self.measure), MEASURES)
        X = check_source(self, X, reset=True, min_rows=2)
        classes, codes = encode_labels(y, X.shape[0])
        random = np.random.default_rng(self.random_state)
        kept, out = np.arange(len(codes)), np.arange(0)
        if held is None:
            kept, out = hold_out(codes, self.validation, random, MOST_FOR_MAP if self.measure == "map" else MOST)
            held = Picked(X, out), classes[codes[out]]
        watched = held[0]
        rows = Picked(X, kept) if len(out) else X
        begin = start(rows, codes[kept], int(self.dim), random)
        watched_labels = encode_held(held, classes, self.measure) if watched.shape[0] else codes[:0]
        repeats = len(out) > 0 and len(codes) <= MOST_TO_REPEAT
        return Task(X, codes, classes, rows, codes[kept], watched, watched_labels, begin, repeats)

    def _scaled(self, task: "Task", centroids: Array, owners: NDArray[np.int64] | None) -> Array:
        """Where to start, (D, d), at the length that makes the labels of rows held out, or of some rows, most likely.

        At a greater length a row has but one class near, and at a smaller one all are as near: both learn little.
        """
        W, centre = task.start.W, task.start.mean
        seen, labels = (task.rows, task.labels) if self.measure == "map" else (task.held, task.held_labels)
        if not len(labels):
            seen, labels = task.rows, task.labels
        random = np.random.default_rng(self.random_state)
        some = np.sort(random.permutation(len(labels))[:MOST_TO_SCALE])
        P = like(W, project(Picked(seen, some), W)) - W @ centre  # (m, D)
        M = (centroids - centre) @ W.T  # (K, D)
        nearest = namespace(P).max(class_scores(P, M, owners), axis=1)  # −½d² but for ½‖p‖²
        unit = float(namespace(P).mean(namespace(P).vecdot(P, P) - 2 * nearest)) / P.shape[1]
        unit = max(unit, 1e-6 * task.start.first) ** -0.5  # one over the distance to a class, in each direction
        likely = [_likelihood(class_scores(P * length, M * length, owners), labels[some]) for length in SPREADS * unit]
        return W * float(SPREADS[int(np.argmax(likely))] * unit)

    def _descend(
        self,
        task: "Task",
        W: Array,
        centroids: Array,
        owners: NDArray[np.int64] | None,
        callback: Callback | None,
        steps: int | None = None,
    ) -> tuple[Array, Curve]:
        """The best W found from this start, and the learning curve; `steps` in place of `max_iterations`."""
        centre = task.start.mean

        def score(parameters: Array) -> float:
            W = self._metric(task, parameters)
            if self.measure == "map":
                return mean_average_precision(project(task.held, W), task.held_labels)
            M, found = (centroids - centre) @ W.T, []
            for part in chunks(len(task.held_labels), row_bytes=16 * (centroids.shape[0] + W.shape[1])):
                P = like(W, check_rows(task.held[part])) @ W.T - W @ centre
                found.append(ranks(class_scores(P, M, owners), task.held_labels[part]))
            return top(np.concatenate(found), 5 if self.measure == "top5" else 1)

        found, curve = train(
            self._parameters(task, W, centroids),
            self._step(task, centroids, owners),
            task.rows,
            task.labels,
            rate=self.rate,
            batch=self.batch,
            max_iterations=self.max_iterations if steps is None else steps,
            validate=score if len(task.held_labels) else None,
            every=EVERY,
            patience=PATIENCE,
            seed=self.random_state,
            callback=callback,
            # The same rate does for rows of any length.
            condition=lambda gradient: self._condition(task, gradient) / task.start.first,
        )
        return self._metric(task, found), curve

    def _parameters(self, task: "Task", W: Array, means: Array) -> Array:  # noqa: ARG002 (others have more)
        """What is learned, as one array: here W itself."""
        return W

    def _metric(self, task: "Task", parameters: Array) -> Array:  # noqa: ARG002 (as above)
        """W among what is learned."""
        return parameters

    def _condition(self, task: "Task", gradient: Array) -> Array:
        """A gradient by all that is learned, made even."""
        return task.start.condition(gradient)

    def _step(self, task: "Task", centroids: Array, owners: NDArray[np.int64] | None) -> Step:
        """The loss and the gradient of a batch."""
        return mixture(centroids, None if owners is None else like(centroids, owners), task.start.mean)


class NcmmlDot(Ncmml):
    """NCMML learned with inner products and a bias a class (Eq. 27): quicker steps where batches are below `dim`.

    Everything else is as in `Ncmml`; the biases serve training only, and −½‖Wμ_c‖² takes their place afterwards.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> NcmmlDot(dim=2, batch=10).fit(X, np.arange(60) % 3).transform(X).shape
    (60, 2)

    """

    def _parameters(self, task: "Task", W: Array, means: Array) -> Array:
        M = (means - task.start.mean) @ W.T  # (C, D)
        return pack(W, namespace(W).sum(M * M, axis=1) / (-2 * task.start.first**0.5))

    def _metric(self, task: "Task", parameters: Array) -> Array:
        return unpack(parameters, task.X.shape[1], len(task.classes))[0]

    def _condition(self, task: "Task", gradient: Array) -> Array:
        W, biases = unpack(gradient, task.X.shape[1], len(task.classes))
        return pack(task.start.condition(W), biases)

    def _step(self, task: "Task", centroids: Array, owners: NDArray[np.int64] | None) -> Step:  # noqa: ARG002
        return inner(centroids, task.start.mean, task.start.first**0.5)


class Task(NamedTuple):
    """What one fit works on."""

    X: Rows  # (n, d): all there is
    codes: NDArray[np.int64]  # (n,)
    classes: NDArray[Any]  # (C,)
    rows: Rows  # to train on
    labels: NDArray[np.int64]
    held: Rows  # to validate on, or none
    held_labels: NDArray[np.int64]
    start: Start
    repeats: bool  # whether to train again on all rows

    def means(self, rows: Rows, labels: NDArray[np.int64], C: int | None = None) -> Array:
        """The mean of the rows of each class, or of each of C labels, (C, d), of the kind of W."""
        means = like(self.start.W, means_by_label(rows, labels, C or len(self.classes)))
        return namespace(means).astype(means, self.start.W.dtype)

    def whole(self) -> "Task":
        """The same with all rows to train on."""
        return self._replace(rows=self.X, labels=self.codes, held_labels=self.held_labels[:0])


def _likelihood(scores: Array, y: NDArray[np.int64]) -> float:
    """The mean of ln p(y|x), from scores (m, C)."""
    scores = as_numpy(scores).astype(np.float64)
    return float(np.mean(scores[np.arange(len(y)), y] - logsumexp(scores, axis=1)))
