"""NCMML: a projection under which rows are near the mean of their own class and far from the others.

In: (n, d) rows and their labels, NumPy, torch, a memory map or `PqRows`. Out: (n, D) float32, D = min(dim, d, n - 1).
Mensink et al. 2013, "Large scale metric learning for distance-based image classification on open ended data sets"
(ncm), Eq. 3–10, and Eq. 27 for the form with inner products.
"""

from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, chunks, like, namespace, principal
from lookalike.encode.check import check_number
from lookalike.errors import UnknownNameError
from lookalike.learn.labels import MOST, encode_held, encode_labels, hold_out
from lookalike.learn.likelihood import class_scores, inner, mixture, pack, unpack
from lookalike.learn.measures import MEASURES, mean_average_precision, ranks, top
from lookalike.learn.projection import Projection
from lookalike.learn.rows import Picked, check_source, means_by_label, project
from lookalike.learn.sgd import Callback, Curve, Rows, Step, train
from lookalike.types import Array

START_BYTES = 32 * 2**20
"""What is held of the rows to find the principal directions that training starts from."""
START_SPREAD = 0.3
"""Standard deviation inside classes where training starts. Less than one: at first every class has a say, which
generalises better (validation scores on three sets, 0.1 to 1)."""
MOST_FOR_MAP = 2_000
"""Rows held out to watch retrieval: each asks all others."""
LIMITS: dict[str, tuple[type, str, float, float]] = {
    "dim": (Integral, "a whole number of at least 1", 1, np.inf),
    "rate": (Real, "a number above 0", np.finfo(np.float64).tiny, np.finfo(np.float64).max),
    "batch": (Integral, "a whole number of at least 1", 1, np.inf),
    "max_iterations": (Integral, "a whole number of at least 0", 0, np.inf),
    "validation": (Real, "a share of at least 0 and below 1", 0, 1 - 1e-9),
}
"""What the numbers among the parameters may be."""
EVERY, PATIENCE = 50, 10
"""Batches between two validations, and how many without a gain end the training."""


class Ncmml(Projection):
    """Nearest class mean metric learning: W that makes the right class mean the most likely one for each row.

    Maximises the mean of ln p(y|x), p(c|x) ∝ exp(−½‖Wx − Wμ_c‖²), by descent in mini-batches from a PCA projection.
    Distances after `transform` are those of the metric; means of new classes need no new training.

    Parameters
    ----------
    dim : output dimension. D = min(dim, d, n - 1), n the rows that are not held out.
    rate : length of a step, at a scale where the variance along the first principal direction is one.
    batch : rows a step.
    max_iterations : steps at most.
    validation : share of each class, below 1, held out to stop early by; 0: all steps are taken, the last W is kept.
    measure : what is watched there: "top5" (the right class among the first five; ties by the first), "top1" or
        "map" (rows as queries for their like, by cosine: for retrieval, where training should stop much sooner).
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
        validation: float = 0.1,
        measure: str = "top5",
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
        means = task.means(task.rows, task.labels)  # (C, d), without what is held out
        self.W_, curve = self._descend(task, task.W, means, None, callback)
        self.classes_, self.means_, self.curve_ = task.classes, task.means(task.X, task.codes), curve.table()
        return self

    def _task(self, X: Rows, y: Array | None, held: tuple[Rows, Array] | None) -> "Task":
        """Check all there is to check, hold a part out, and find where to start."""
        for name, (kind, allowed, low, high) in self._limits.items():
            check_number(name, getattr(self, name), kind, allowed, low, high)
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
        W, centre, variance = _start(
            rows, codes[kept], min(self.dim, X.shape[1], len(kept) - 1), self._spread(), random
        )
        watched_labels = encode_held(held, classes, self.measure) if watched.shape[0] else codes[:0]
        return Task(X, codes, classes, rows, codes[kept], watched, watched_labels, W, centre, variance)

    def _descend(
        self, task: "Task", W: Array, centroids: Array, owners: NDArray[np.int64] | None, callback: Callback | None
    ) -> tuple[Array, Curve]:
        """The best W found from this start, and the learning curve."""

        def score(parameters: Array) -> float:
            W = self._metric(task, parameters)
            if self.measure == "map":
                return mean_average_precision(project(task.held, W), task.held_labels)
            M, found = (centroids - task.centre) @ W.T, []
            for part in chunks(len(task.held_labels), row_bytes=16 * (centroids.shape[0] + W.shape[1])):
                P = like(W, check_rows(task.held[part])) @ W.T - W @ task.centre
                found.append(ranks(class_scores(P, M, owners), task.held_labels[part]))
            return top(np.concatenate(found), 5 if self.measure == "top5" else 1)

        step = self._step(task, centroids, owners)

        def scaled(parameters: Array, rows: Array, labels: Array) -> tuple[Any, Array]:
            loss, gradient = step(parameters, rows, labels)
            return loss, gradient / task.variance  # the same rate does for rows of any length

        found, curve = train(
            self._parameters(task, W, centroids),
            scaled,
            task.rows,
            task.labels,
            rate=self.rate,
            batch=self.batch,
            max_iterations=self.max_iterations,
            validate=score if len(task.held_labels) else None,
            every=EVERY,
            patience=PATIENCE,
            seed=self.random_state,
            callback=callback,
        )
        return self._metric(task, found), curve

    def _spread(self) -> float:
        """Standard deviation inside classes where training starts."""
        return START_SPREAD

    def _parameters(self, task: "Task", W: Array, means: Array) -> Array:  # noqa: ARG002 (others have more)
        """What is learned, as one array: here W itself."""
        return W

    def _metric(self, task: "Task", parameters: Array) -> Array:  # noqa: ARG002 (as above)
        """W among what is learned."""
        return parameters

    def _step(self, task: "Task", centroids: Array, owners: NDArray[np.int64] | None) -> Step:
        """The loss and the gradient of a batch."""
        return mixture(centroids, None if owners is None else like(centroids, owners), task.centre)


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
        M = (means - task.centre) @ W.T  # (C, D)
        return pack(W, namespace(W).sum(M * M, axis=1) / (-2 * task.variance**0.5))

    def _metric(self, task: "Task", parameters: Array) -> Array:
        return unpack(parameters, task.X.shape[1], len(task.classes))[0]

    def _step(self, task: "Task", centroids: Array, owners: NDArray[np.int64] | None) -> Step:  # noqa: ARG002
        return inner(centroids, task.centre, task.variance**0.5)


class Task(NamedTuple):
    """What one fit works on."""

    X: Rows  # (n, d): all there is
    codes: NDArray[np.int64]  # (n,)
    classes: NDArray[Any]  # (C,)
    rows: Rows  # to train on
    labels: NDArray[np.int64]
    held: Rows  # to validate on, or none
    held_labels: NDArray[np.int64]
    W: Array  # (D, d) float32: the start
    centre: Array  # (d,) float32
    variance: float  # along the first principal direction

    def means(self, rows: Rows, labels: NDArray[np.int64], C: int | None = None) -> Array:
        """The mean of the rows of each class, or of each of C labels, (C, d), of the kind of W."""
        means = like(self.W, means_by_label(rows, labels, C or len(self.classes)))
        return namespace(means).astype(means, self.W.dtype)


def _start(
    X: Rows, y: NDArray[np.int64], D: int, spread: float, random: np.random.Generator
) -> tuple[Array, Array, float]:
    """Principal directions of some rows, at a length that gives classes this spread; the mean; the first variance."""
    n, d = X.shape
    some = max(4 * D, START_BYTES // (4 * d), 2)
    chosen = np.arange(n) if n <= some else np.sort(random.choice(n, some, replace=False))
    rows = check_rows(X[chosen])
    xp = namespace(rows)
    centre, components, variances = principal(rows, D)
    P = xp.astype(rows, xp.float64) @ components.T  # (m, D)
    means = means_by_label(P, y[chosen], int(y.max()) + 1)  # (C, D)
    within = float(xp.mean((P - means[like(P, y[chosen])]) ** 2))
    within = within or float(xp.mean(variances)) or 1.0  # classes of one row each; rows all alike
    W = xp.astype(components * (spread * within**-0.5), xp.float32)
    return W, xp.astype(centre, xp.float32), float(variances[0]) or 1.0
