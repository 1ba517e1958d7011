"""NCMML: a projection under which rows are close to the mean of their own class and far from the others.

Mensink et al. 2013, "Large scale metric learning for distance-based image classification on open ended data sets"
(ncm), Eq. 3–10, and Eq. 27 for the form with inner products. The module contains the estimators and the likelihood that
they, and NCMC with several centroids per class, maximise. Without a dimension, `Ncmml` chooses a metric for new
classes: see `new_classes`.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from lookalike.arrays import as_numpy, check_rows, chunks, like, namespace, unit_rows
from lookalike.errors import InputError
from lookalike.learn.labels import MAX_HELD_OUT, encode_labels
from lookalike.learn.measures import MEASURES, mean_average_precision, ranks
from lookalike.learn.new_classes import choose_metric, describe
from lookalike.learn.rows import Picked, Rows, check_source, means_by_label, project
from lookalike.learn.training import Callback, Curve, Problem, Start, Step, TrainedProjection
from lookalike.limits import COUNT, COUNT_OR_ZERO, POSITIVE, SHARE, Limit
from lookalike.types import Array, OneOf

SPREADS = 2.0 ** np.arange(-4, 2.5, 0.5)
"""Candidates for the initial standard deviation within classes; the one that maximises the likelihood of the held-out
labels is chosen."""
MAX_TO_SCALE = 2_000
"""Maximum number of rows used for that choice."""
MAX_HELD_FOR_MAP = 2_000
"""Maximum number of rows held out to measure retrieval: each is compared with all others."""
LIMITS: dict[str, Limit] = {
    "dim": COUNT,
    "rate": POSITIVE,
    "batch": COUNT,
    "max_iterations": COUNT_OR_ZERO,
    "validation": SHARE,
}


@dataclass(frozen=True)
class Likelihood:
    """Likelihood of the right class under centroids, as a function of the parameters, here W."""

    centroids: Array  # (K, d)
    owners: NDArray[np.int64] | None  # (K,), the class of each centroid; None: one centroid per class
    start: Start

    def step(self) -> Step:
        """Return the function that computes the loss of a batch and its gradient."""
        owners = None if self.owners is None else like(self.centroids, self.owners)
        return likelihood_step(self.centroids, owners, self.start.mean)

    def parameters(self, W: Array) -> Array:
        """Return the initial parameters."""
        return W

    def metric(self, parameters: Array) -> Array:
        """Return W from the parameters."""
        return parameters

    def condition(self, gradient: Array) -> Array:
        """Return the preconditioned gradient, divided such that one rate serves rows of any scale."""
        return self.start.condition(gradient) / self.start.first


class InnerProducts(Likelihood):
    """`Likelihood` with inner products and one bias per class (Eq. 27); parameters: W and the biases, in one vector."""

    def step(self) -> Step:
        """Return the function that computes the loss of a batch and its gradient."""
        return inner_product_step(self.centroids, self.start.mean, self.start.first**0.5)

    def parameters(self, W: Array) -> Array:
        """Return W and the biases −½‖Wμ_c‖² of the Euclidean form, in one vector."""
        M = (self.centroids - self.start.mean) @ W.T  # (C, D)
        return pack(W, namespace(W).sum(M * M, axis=1) / (-2 * self.start.first**0.5))

    def metric(self, parameters: Array) -> Array:
        """Return W from the parameters."""
        C, d = self.centroids.shape
        return unpack(parameters, d, C)[0]

    def condition(self, gradient: Array) -> Array:
        """Return the preconditioned gradient w.r.t. W and the gradient w.r.t. the biases, in one vector."""
        C, d = self.centroids.shape
        W, biases = unpack(gradient, d, C)
        return pack(self.start.condition(W), biases) / self.start.first


class Ncmml(TrainedProjection):
    """Nearest class mean metric learning: W that makes the right class mean the most likely one for each row.

    Maximises the mean of ln p(y|x), p(c|x) ∝ exp(−½‖Wx − Wμ_c‖²), by mini-batch descent from `find_start`. Euclidean
    distance after `transform` is the learned metric. New classes do not require training.

    The maximum suits the classes of the training rows; for other classes, plain vectors are often better. Without
    `dim`, W is therefore chosen on held-out classes, by `new_classes.choose_metric`: rows are whitened within classes,
    less or more strongly, or not at all if that is not clearly better, then reduced to at most 256 dimensions and
    scaled to unit length. There is no gradient descent, and all parameters except `random_state` are ignored.

    Parameters
    ----------
    dim : output dimension D, at most min(d, n - 1) for n training rows; a larger `dim` gives a warning. None: a metric
        for new classes.
    rate : step size, for rows scaled to a variance of one along the first direction of the whitened rows.
    batch : rows per step.
    max_iterations : maximum number of steps.
    validation : share of each class, below 1, held out to decide when to stop; afterwards, with at most 100,000 rows,
        the model is retrained on all of them for the best number of steps. 0 runs all steps and keeps the last W.
    measure : validation score: "top1" (the right class is first), "top5" (among the first five; ties broken by top-1)
        or "map" (retrieval by cosine, for which training should stop much earlier).
    random_state : random seed of the validation set and of the batches.

    Attributes
    ----------
    Arrays have the type and device of the training rows; `transform` accepts rows of any type.

    W_ : (D, d) float32.
    classes_ : (C,) sorted labels, NumPy.
    means_ : (C, d) float32, the mean of all rows of each class.
    curve_ : (t, 3) float64, NumPy; step, mean loss since the previous validation, and score of each validation.
    bias_ : (D,) float32, trials_ : (t, 3) float64, strength_ : float; without `dim`, instead of `curve_`: see
        `new_classes.Metric`.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat(["cat", "owl"], 100)
    >>> X = random.normal(size=(200, 5)) * [1, 5, 5, 5, 5]  # four columns are large noise
    >>> X[y == "owl", 0] += 4
    >>> W = np.abs(Ncmml(dim=1).fit(X, y).W_)
    >>> (W / W.max()).round(1).tolist()
    [[1.0, 0.0, 0.0, 0.0, 0.0]]

    """

    means_: Array
    bias_: Array
    trials_: NDArray[np.float64]
    strength_: float

    _limits = LIMITS
    _every, _patience = 10, 25
    _likelihood: ClassVar[type[Likelihood]] = Likelihood
    _chooses: ClassVar[bool] = True  # whether it chooses a metric on held-out labels without `dim`

    def __init__(
        self,
        dim: int | None = None,
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
        """Fit to rows (n, d) and labels (n,) of at least 2 classes.

        `held`, rows and labels, replaces the validation set of X; for "map" its labels can be of any classes.
        `callback(step, loss, score)` is called at each validation. Both need `dim`.
        """
        if self.dim is None and self._chooses:
            if held is not None or callback is not None:
                raise InputError("held and callback need a dimension, such as dim=64. Got dim=None.")
            return self._choose(X, y)
        for name in ("bias_", "strength_", "trials_"):  # of an earlier fit without `dim`
            self.__dict__.pop(name, None)
        problem = self._problem(X, y, held, MAX_HELD_FOR_MAP if self.measure == "map" else MAX_HELD_OUT)
        start = self._start(problem.rows, problem.labels, problem.random)
        self.means_ = class_means(problem.X, problem.codes, len(problem.classes), start.W)
        self.W_, curve = self._learn(problem, start, self.means_, callback)
        self.classes_, self.curve_ = problem.classes, curve.table()
        return self

    def _map(self, X: Rows) -> Array:
        """Project rows (n, d) to (n, D) float32; without `dim`, to unit length."""
        Z = super()._map(X)
        if not hasattr(self, "bias_"):
            return Z
        return unit_rows(Z + like(Z, self.bias_))

    def summary(self) -> str:
        """Describe the metric that was chosen without `dim`; empty with `dim`."""
        return describe(self.strength_, self.trials_) if hasattr(self, "trials_") else ""

    def _choose(self, X: Rows, y: Array | None) -> Self:
        """Fit a metric for new classes."""
        self._check_options()
        X = check_source(self, X, reset=True, min_rows=2)
        self.classes_, codes = encode_labels(y, X.shape[0])
        metric = choose_metric(X, codes, np.random.default_rng(self.random_state))
        self.W_, self.bias_, self.strength_, self.trials_ = metric
        self.means_ = class_means(X, codes, len(self.classes_), self.W_)
        return self

    def _learn(self, problem: Problem, start: Start, means: Array, callback: Callback | None) -> tuple[Array, Curve]:
        """Return the best W for one mean per class, and the learning curve; `means` (C, d) are those of all rows."""
        part = class_means(problem.rows, problem.labels, len(means), start.W)
        likelihood = self._likelihood(part, None, start)
        W = self._scaled(problem, likelihood)
        found, curve = self._descend(problem, likelihood, W, callback=callback)
        if problem.repeats:
            likelihood = self._likelihood(means, None, start)
            found, _ = self._descend(problem.with_all_rows(), likelihood, W, steps=curve.best())
        return found, curve

    def _scaled(self, problem: Problem, likelihood: Likelihood) -> Array:
        """Return the initial W, (D, d), scaled to maximise the likelihood of the labels of validation or training rows.

        If W is too large, every row is close to only one class; if it is too small, all classes are equally close. In
        both cases gradients are small.
        """
        start, owners = likelihood.start, likelihood.owners
        W, centre = start.W, start.mean
        seen, labels = problem.held, problem.held_labels
        if self.measure == "map" or not len(labels):
            seen, labels = problem.rows, problem.labels
        random = np.random.default_rng(self.random_state)
        some = np.sort(random.permutation(len(labels))[:MAX_TO_SCALE])
        P = like(W, project(Picked(seen, some), W)) - W @ centre  # (m, D)
        M = (likelihood.centroids - centre) @ W.T  # (K, D)
        nearest = namespace(P).max(class_scores(P, M, owners), axis=1)  # −½d² up to ½‖p‖²
        unit = float(namespace(P).mean(namespace(P).vecdot(P, P) - 2 * nearest)) / P.shape[1]
        unit = max(unit, 1e-6 * start.first) ** -0.5  # inverse distance to a class, per direction
        likely = [_mean_log_p(class_scores(P * length, M * length, owners), labels[some]) for length in SPREADS * unit]
        return W * float(SPREADS[int(np.argmax(likely))] * unit)

    def _descend(
        self,
        problem: Problem,
        likelihood: Likelihood,
        W: Array,
        *,
        steps: int | None = None,
        callback: Callback | None = None,
    ) -> tuple[Array, Curve]:
        """Return the best W from this start, and the learning curve; `steps` replaces `max_iterations`."""
        centre = likelihood.start.mean

        def score(parameters: Array) -> float:
            W = likelihood.metric(parameters)
            if self.measure == "map":
                return mean_average_precision(project(problem.held, W), problem.held_labels)
            M, found = (likelihood.centroids - centre) @ W.T, []
            for part in chunks(len(problem.held_labels), row_bytes=16 * sum(M.shape)):
                P = like(W, check_rows(problem.held[part])) @ W.T - W @ centre
                found.append(ranks(class_scores(P, M, likelihood.owners), problem.held_labels[part]))
            return self._top(np.concatenate(found))

        found, curve = self._train(
            problem,
            likelihood.parameters(W),
            likelihood.step(),
            score,
            likelihood.condition,
            steps=steps,
            callback=callback,
        )
        return likelihood.metric(found), curve


class NcmmlDot(Ncmml):
    """NCMML with inner products and one bias per class (Eq. 27): its steps are faster if `batch` is below `dim`.

    Everything else is as in `Ncmml` with `dim`. The biases are used only in training; afterwards, −½‖Wμ_c‖² replaces
    them.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> NcmmlDot(dim=2, batch=10).fit(X, np.arange(60) % 3).transform(X).shape
    (60, 2)

    """

    _likelihood = InnerProducts
    _chooses = False

    def __init__(
        self,
        dim: int | None = None,
        rate: float = 0.3,
        batch: int = 1_000,
        max_iterations: int = 5_000,
        validation: float = 0.2,
        measure: Annotated[str, OneOf(MEASURES)] = "top1",
        random_state: int = 0,
    ):
        super().__init__(dim, rate, batch, max_iterations, validation, measure, random_state)


def class_means(rows: Rows, y: NDArray[np.int64], C: int, W: Array) -> Array:
    """Return the mean of the rows of each of C labels, (C, d), with the type and precision of W."""
    means = like(W, means_by_label(rows, y, C))
    return namespace(means).astype(means, W.dtype)


def likelihood_step(centroids: Array, owners: Array | None, centre: Array) -> Step:
    """Return a step: the loss −mean ln p(y|x) of a batch and its gradient w.r.t. W, for centroids (K, d).

    `owners` (K,) are the classes of the centroids. p(c|x) is the sum of exp(−½‖Wx − Wm‖²) over the centroids of c,
    normalised (Eq. 21–22); without owners, each centroid is the mean of a class (Eq. 5). Differences of rows and
    centroids are never formed: a step costs O(D · d · (b + K)). `centre` is any point near the rows; it only reduces
    rounding errors.
    """
    means = centroids - centre

    def step(W: Array, rows: Array, labels: Array) -> tuple[Any, Array]:
        xp = namespace(W)
        P, M = rows @ W.T - W @ centre, means @ W.T  # (b, D), (K, D)
        loss, A = _residuals(P @ M.T - xp.sum(M * M, axis=1) / 2, labels, owners)  # −½d up to a constant, (b, K)
        # Σ α Wzzᵀ, z = m − x, Eq. 10 and 24; Σ_c α = 0 removes the term in xxᵀ.
        S, T = A @ M, xp.sum(A, axis=0)[:, None] * M - A.T @ P  # (b, D), (K, D)
        return loss, S.T @ rows - xp.sum(S, axis=0)[:, None] * centre - T.T @ means

    return step


def inner_product_step(means: Array, centre: Array, unit: float) -> Step:
    """Return a step for inner products: p(c|x) ∝ exp(xᵀWᵀWμ_c + s_c), Eq. 27; parameters are `pack(W, s / unit)`.

    If a batch has fewer than D rows, its rows are projected twice instead of projecting the class means.
    """
    means = means - centre
    C, d = means.shape

    def step(packed: Array, rows: Array, labels: Array) -> tuple[Any, Array]:
        xp = namespace(packed)
        W, t = unpack(packed, d, C)
        P = rows @ W.T - W @ centre  # (b, D)
        if P.shape[0] < P.shape[1]:  # twice projected rows against means, Table 1
            loss, A = _residuals((P @ W) @ means.T + unit * t, labels, None)  # (b, C)
            B = A @ means  # (b, d)
            S, gradient = B @ W.T, P.T @ B  # (b, D), (D, d)
        else:
            M = means @ W.T  # (C, D)
            loss, A = _residuals(P @ M.T + unit * t, labels, None)
            S, gradient = A @ M, (A.T @ P).T @ means
        gradient = gradient + S.T @ rows - xp.sum(S, axis=0)[:, None] * centre
        return loss, pack(gradient, unit * xp.sum(A, axis=0))

    return step


def pack(W: Array, t: Array) -> Array:
    """Concatenate a matrix and a vector into one vector."""
    xp = namespace(W)
    return xp.concat([xp.reshape(W, (-1,)), t])


def unpack(packed: Array, d: int, C: int) -> tuple[Array, Array]:
    """Return the matrix (D, d) and the vector (C,) of a packed pair."""
    return namespace(packed).reshape(packed[:-C], (-1, d)), packed[-C:]


def class_scores(P: Array, M: Array, owners: NDArray[np.int64] | None = None) -> Array:
    """Return ln p(c|x) up to a constant per row, (n, C), from projected rows (n, D) and projected centroids (K, D).

    `owners` (K,) are sorted, and every class has a centroid.
    """
    xp = namespace(P)
    scores = P @ M.T - xp.sum(M * M, axis=1) / 2  # (n, K)
    if owners is None:
        return scores
    counts = np.bincount(owners)  # (C,)
    place = np.arange(counts.max())  # (k,)
    there = place < counts[:, None]  # (C, k): a class can have fewer than k centroids
    columns = np.where(there, (np.cumsum(counts) - counts)[:, None] + place, 0)
    own = xp.where(like(P, there), scores[:, like(P, columns)], -xp.inf)  # (n, C, k)
    highest = xp.max(own, axis=2, keepdims=True)
    return highest[:, :, 0] + xp.log(xp.sum(xp.exp(own - highest), axis=2))


def _residuals(scores: Array, labels: Array, owners: Array | None) -> tuple[Any, Array]:
    """Return the loss, and α of Eq. 10 or 25 divided by the batch size, (b, K); `scores` are overwritten."""
    xp, b = namespace(scores), scores.shape[0]
    scores -= xp.max(scores, axis=1, keepdims=True)
    if owners is None:
        at = xp.arange(b, device=array_api_compat.device(scores))
        own = scores[at, labels]  # (b,)
    else:
        inside = xp.where(owners[None, :] == labels[:, None], scores, -xp.inf)  # (b, K)
        highest = xp.max(inside, axis=1, keepdims=True)
        inside = xp.exp(inside - highest)
        among = xp.sum(inside, axis=1, keepdims=True)
        own = (highest + xp.log(among))[:, 0]
    p = xp.exp(scores, out=scores)
    total = xp.sum(p, axis=1, keepdims=True)  # (b, 1)
    loss = xp.mean(xp.log(total)[:, 0] - own)
    p /= b * total
    if owners is None:
        p[at, labels] -= 1 / b
    else:
        p -= inside / (b * among)
    return loss, p


def _mean_log_p(scores: Array, y: NDArray[np.int64]) -> float:
    """Return the mean of ln p(y|x), from scores (m, C)."""
    scores = as_numpy(scores).astype(np.float64)
    return float(np.mean(scores[np.arange(len(y)), y] - logsumexp(scores, axis=1)))
