"""Training of projections: mini-batch gradient descent with early stopping, from a whitened start.

- `train` is the training loop of NCMML, NCMC, LMNN, WSABIE, JSCL and DFK: batches, steps, validation and early
  stopping, as in Mensink et al. 2013, "Large scale metric learning for distance-based image classification on open
  ended data sets" (ncm), §5.1.
- `find_start` returns the initial W and a preconditioner for its gradients. The paper has neither.
- `TrainedProjection` contains what the estimators NCMML, LMNN and WSABIE share: checks, validation set, measures.
- `Adam` is the preconditioner of DFK.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, check_rows, like, namespace, principal
from lookalike.errors import InputError, UnknownNameError
from lookalike.learn.labels import encode_labels, hold_out
from lookalike.learn.measures import MEASURES, top
from lookalike.learn.rows import Picked, Projection, Rows, check_source, means_by_label
from lookalike.limits import Limit, check_limits, report_fewer
from lookalike.types import Array

MAX_DIM = 64
"""The largest output dimension if none is requested."""

MAX_REPEATED = 100_000
"""Up to this many rows, training is repeated on all of them, for the number of steps with the best validation score."""
START_BYTES = 32 * 2**20
"""Size of the sample of rows that `find_start` uses."""
LAM = 3.0
"""Added to the variances within classes, as a share of their mean, before rows are whitened. Among 0.1, 0.3, 1, 3, 10
and no whitening, it is the best, or within 0.2 points of it, on the validation sets of five training sets: see
docs/experiments/learn.md."""
TINY = 1e-6
"""Differences between class means below this share of the largest are treated as zero."""
MAX_WHITENED = 512
"""Maximum number of whitened directions: along the others, classes vary so little that λ dominates."""

Step: TypeAlias = Callable[[Array, Array, Array], tuple[Any, Array]]
"""`step(W, rows, labels)` returns the loss of a batch and its gradient with respect to W."""

Draw: TypeAlias = Callable[[np.random.Generator], Any]
"""`draw(random)` returns the row numbers (m,) of a batch, in the order that the step expects."""

Callback: TypeAlias = Callable[[int, float, float], None]
"""`callback(iteration, loss, score)`, called at each validation."""


@dataclass
class Curve:
    """Learning curve with one entry per validation."""

    iterations: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # mean over the batches since the previous entry; NaN at 0
    scores: list[float] = field(default_factory=list)  # larger is better; NaN without validation

    def best(self) -> int:
        """Return the step with the best score; ties go to the earliest."""
        return self.iterations[int(np.argmax(self.scores))]

    def table(self) -> NDArray[np.float64]:
        """Return steps, losses and scores in columns, (t, 3): the attribute `curve_` of estimators."""
        return np.array([self.iterations, self.losses, self.scores], np.float64).T


def train(
    W: Array,
    step: Step,
    X: Rows,
    y: Array,
    *,
    rate: float,
    batch: int,
    max_iterations: int,
    validate: Callable[[Array], float] | None,
    every: int,
    patience: int,
    seed: int,
    callback: Callback | None = None,
    draw: Draw | None = None,
    condition: Callable[[Array], Array] | None = None,
) -> tuple[Array, Curve]:
    """Descend from W at a fixed rate; return the iterate with the best validation score; ties go to the earliest.

    `validate(W)`, larger is better, is called at the start, after every `every` batches and at the end; training stops
    after `patience` calls without improvement. Without `validate`, the last iterate is returned. Each batch is
    converted to the type, device and precision of W. Batches are random, and each row is used once before any is used
    again. If `draw` is given, it samples the batches, and `batch` is not used. `condition` preconditions each gradient.

    >>> X, y = np.ones((8, 1), np.float32), np.zeros(8, np.int64)
    >>> def towards_3(w, rows, labels):
    ...     return float((w - 3) ** 2), 2 * (w - 3)
    >>> w, curve = train(np.float32(0.0), towards_3, X, y, rate=0.25, batch=4, max_iterations=20, validate=None,
    ...                  every=10, patience=2, seed=0)
    >>> round(float(w), 3), curve.iterations
    (3.0, [0, 10, 20])
    """
    xp, best, best_score, waited = namespace(W), W, -math.inf, 0
    curve, total, since = Curve(), 0.0, 0
    batches = _batches(X, y, W, batch, np.random.default_rng(seed), draw)
    for iteration in range(max_iterations + 1):
        if iteration:
            with np.errstate(over="ignore", invalid="ignore"):  # a rate that is too large is detected below
                loss, gradient = step(W, *next(batches))
                W = W - rate * (condition(gradient) if condition else gradient)
            total, since = total + loss, since + 1  # a loss on a GPU is not copied until it is needed
        if iteration % every and iteration != max_iterations:
            continue
        mean = float(total) / since if since else math.nan
        if iteration and not (math.isfinite(mean) and bool(xp.all(xp.isfinite(W)))):
            if curve.scores[0] < best_score:
                break  # return the best finite iterate
            raise InputError(f"rate must be smaller: the loss is not finite at step {iteration}. Got {rate:g}.")
        score = validate(W) if validate else math.nan
        total, since = 0.0, 0
        curve.iterations.append(iteration)
        curve.losses.append(mean)
        curve.scores.append(score)
        if callback is not None:
            callback(iteration, mean, score)
        if validate is None:
            best = W
        elif score > best_score:
            best, best_score, waited = W, score, 0
        else:
            waited += 1
            if waited >= patience:
                break
    return best, curve


def _batches(
    X: Rows, y: Array, W: Array, batch: int, random: np.random.Generator, draw: Draw | None
) -> Iterator[tuple[Array, Array]]:
    """Yield rows and labels of random batches, endlessly; all rows if they are fewer than a batch."""
    xp, n = namespace(W), X.shape[0]
    labels = as_numpy(y)

    def take(chosen: Any) -> tuple[Array, Array]:
        return xp.astype(like(W, X[chosen]), W.dtype, copy=False), like(W, labels[chosen])

    while draw is not None:
        yield take(draw(random))
    if batch >= n:
        everything = take(np.arange(n))
        while True:
            yield everything
    while True:
        order = random.permutation(n)
        for start in range(0, n - batch + 1, batch):
            yield take(np.sort(order[start : start + batch]))  # sorted: a memory map is read forwards


class Adam:
    """Adam as a `condition` of `train`: gradients divided by their running magnitude. Use one object per run.

    Kingma & Ba, "Adam: a method for stochastic optimization", ICLR 2015, Algorithm 1. NumPy or torch.

    >>> Adam()(np.array([3.0, -0.01])).round(3).tolist()
    [1.0, -1.0]
    """

    def __init__(self, mean_decay: float = 0.9, square_decay: float = 0.999):
        self.mean_decay, self.square_decay = mean_decay, square_decay
        self._mean: Array = 0.0
        self._square: Array = 0.0
        self._steps = 0

    def __call__(self, gradient: Array) -> Array:
        """Return the step for this gradient; its size is 1 if the last gradients agree."""
        self._steps += 1
        self._mean = self.mean_decay * self._mean + (1 - self.mean_decay) * gradient
        self._square = self.square_decay * self._square + (1 - self.square_decay) * gradient * gradient
        mean = self._mean / (1 - self.mean_decay**self._steps)
        square = self._square / (1 - self.square_decay**self._steps)
        return mean / (namespace(gradient).sqrt(square) + 1e-12)


class Problem(NamedTuple):
    """Labelled rows, split into a training and a validation set."""

    X: Rows  # (n, d): all rows
    codes: NDArray[np.int64]  # (n,), class numbers
    classes: NDArray[Any]  # (C,)
    rows: Rows  # training set
    labels: NDArray[np.int64]
    held: Rows  # validation set
    held_labels: NDArray[np.int64]  # empty: no validation
    repeats: bool  # whether to train again on all rows
    random: np.random.Generator

    def with_all_rows(self) -> "Problem":
        """Return the same problem with all rows in the training set and no validation set."""
        return self._replace(rows=self.X, labels=self.codes, held_labels=self.held_labels[:0], repeats=False)


class TrainedProjection(Projection):
    """Base of projections trained with `train`: shared checks, validation set and measures.

    The constructor of a subclass stores `dim`, `rate`, `max_iterations` and `random_state`; `batch`, `validation` and
    `measure` are options or class attributes.
    """

    batch: int
    dim: int | None
    max_iterations: int
    measure: str = "top1"
    random_state: int
    rate: float
    validation: float = 0.2

    curve_: NDArray[np.float64]

    _limits: ClassVar[Mapping[str, Limit]]
    _choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"measure": MEASURES}
    _every: ClassVar[int]  # batches between two validations
    _patience: ClassVar[int]  # validations without improvement after which training stops

    def _problem(self, X: Rows, y: Array | None, held: tuple[Rows, Array] | None, max_held: int) -> Problem:
        """Check options, rows and labels; hold out a share of each class unless `held`, rows and labels, is given."""
        self._check_options()
        X = check_source(self, X, reset=True, min_rows=2)
        classes, codes = encode_labels(y, X.shape[0])
        random = np.random.default_rng(self.random_state)
        if held is not None:
            known = None if self.measure == "map" else classes
            held_labels = encode_labels(held[1], held[0].shape[0], known)[1] if held[0].shape[0] else codes[:0]
            return Problem(X, codes, classes, X, codes, held[0], held_labels, False, random)
        kept, out = hold_out(codes, self.validation, random, max_held)
        rows = Picked(X, kept) if len(out) else X
        repeats = len(out) > 0 and len(codes) <= MAX_REPEATED
        return Problem(X, codes, classes, rows, codes[kept], Picked(X, out), codes[out], repeats, random)

    def _check_options(self) -> None:
        """Raise InputError if an option has a value that is not allowed; `dim` can be None."""
        optional = {"dim"} if self.dim is None else set()
        check_limits(self, {name: limit for name, limit in self._limits.items() if name not in optional})
        for name, allowed in self._choices.items():
            if getattr(self, name) not in allowed:
                raise UnknownNameError(name, str(getattr(self, name)), allowed)

    def _start(self, X: Rows, y: NDArray[np.int64], random: np.random.Generator) -> "Start":
        """Return `find_start` of rows (n, d) and classes (n,), with at most `dim` directions."""
        start = find_start(X, y, MAX_DIM if self.dim is None else int(self.dim), random)
        D, (n, d) = int(start.W.shape[0]), X.shape
        report_fewer("dim", self.dim, D, f"{n} training rows with {d} columns span at most {D} dimensions")
        return start

    def _train(
        self,
        problem: Problem,
        W: Array,
        step: Step,
        score: Callable[[Array], float],
        condition: Callable[[Array], Array],
        *,
        steps: int | None = None,
        callback: Callback | None = None,
        rate: float | None = None,
        labels: NDArray[np.int64] | None = None,
        draw: Draw | None = None,
    ) -> tuple[Array, Curve]:
        """Call `train` with the options of this estimator, unless `steps`, `rate` or `labels` replace them."""
        return train(
            W,
            step,
            problem.rows,
            problem.labels if labels is None else labels,
            rate=self.rate if rate is None else rate,
            batch=self.batch,
            max_iterations=self.max_iterations if steps is None else steps,
            validate=score if len(problem.held_labels) else None,
            every=self._every,
            patience=self._patience,
            seed=self.random_state,
            callback=callback,
            draw=draw,
            condition=condition,
        )

    def _top(self, found: NDArray[np.int64]) -> float:
        """Return the validation score of ranks (m,) of the right class, for the measures "top1" and "top5"."""
        return top(found, 5 if self.measure == "top5" else 1)


class Start(NamedTuple):
    """Initial projection, and a preconditioner for its gradients."""

    W: Array  # (D, d) float32, D ≤ dim, d, n - 1
    mean: Array  # (d,) float32
    first: float  # largest variance of whitened rows along a direction
    total: float  # sum of the variances along all D directions
    U: Array  # (r, d) float32: orthonormal directions in which classes vary most
    kept: Array  # (r,) float32: λ / (σ² + λ), the share of their variances that remains after whitening

    def condition(self, gradient: Array) -> Array:
        """Multiply a gradient (D, d) w.r.t. W by λ(Σ + λI)⁻¹, Σ the covariance within classes: whitened descent.

        Otherwise, directions in which classes vary a lot would dominate the others.
        """
        return gradient - ((gradient @ self.U.T) * (1 - self.kept)) @ self.U


def find_start(X: Rows, y: NDArray[np.int64], dim: int, random: np.random.Generator) -> Start:
    """Return Fisher's discriminants, then principal directions, of rows (n, d) whitened within their classes y (n,).

    They are computed from a sample of the rows. If all rows are equal, variances are set to 1, to avoid a division by
    zero.

    >>> found = find_start(np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([0, 1]), 5, np.random.default_rng(0))
    >>> found.W.tolist(), found.mean.tolist(), found.first
    ([[1.0, 0.0]], [1.0, 1.0], 2.0)
    """
    n, d = X.shape
    most = max(4 * dim, START_BYTES // (4 * d), 2)
    chosen: Any = np.arange(n) if n <= most else np.sort(random.choice(n, most, replace=False))
    rows = check_rows(X[chosen])
    xp = namespace(rows)
    rows = xp.astype(rows, xp.float64)
    if rows.shape[0] < 2:
        rows, chosen = xp.concat([rows, rows]), np.repeat(chosen, 2)
    present, codes = np.unique(y[chosen], return_inverse=True)
    means = means_by_label(rows, codes, len(present))  # (C, d)
    U, spread, unit = spread_within(rows - means[like(rows, codes)], len(present))
    kept = LAM * unit / (spread + LAM * unit)  # (r,)

    def whiten(some: Array) -> Array:
        return some - ((some @ U.T) * (1 - kept**0.5)) @ U

    mean = xp.mean(rows, axis=0)
    D = max(1, min(dim, d, n - 1, rows.shape[0] - 1))
    Z, weights = whiten(rows - mean), like(rows, np.sqrt(np.bincount(codes) / len(codes)))
    between, V = xp.linalg.svd(weights[:, None] * whiten(means - mean), full_matrices=False)[1:]  # (C,), (C, d)
    V = V[: min(D, int(xp.sum(xp.astype(between > TINY * between[0], xp.int64))))]  # Fisher's discriminants, (F, d)
    extremes = xp.argmax(xp.abs(V), axis=1)
    V = V * xp.sign(xp.take_along_axis(V, extremes[:, None], axis=1))  # the largest entry of each is positive
    along = Z @ V.T  # (n, F)
    F, rest = V.shape[0], Z - along @ V
    _, others, variances = principal(rest, max(1, D - F))
    variances = xp.concat([xp.sum(along * along, axis=0) / (along.shape[0] - 1), variances])
    W = whiten(xp.concat([V, others[: D - F]]))
    W, mean, U, kept = (
        xp.asarray(part, dtype=xp.float32, device=array_api_compat.device(rows)) for part in (W, mean, U, kept)
    )
    first, total = float(xp.max(variances)), float(xp.sum(variances[:D]))
    return Start(W, mean, first or 1.0, total or 1.0, U, kept)


def spread_within(off: Array, C: int) -> tuple[Array, Array, float]:
    """Return directions (r, d), variances (r,) and the mean variance of rows minus the means of their C classes."""
    xp, (n, d) = namespace(off), off.shape
    share = (n - 1) / max(n - C, 1)  # corrects for estimating the means
    unit = share * float(xp.sum(off * off)) / (n - 1) / d
    if not unit:
        return off[:0], off[:0, 0], 1.0  # classes of one row each, or of equal rows: no whitening
    _, U, variances = principal(off, min(n, d, MAX_WHITENED))
    return U, share * variances, unit
