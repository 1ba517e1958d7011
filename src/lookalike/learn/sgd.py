"""Stochastic gradient descent at a fixed rate, with early stopping: the loop that every learned metric shares.

In: a start W, a step (loss and gradient of a batch), rows, labels. Out: the best W and the learning curve. Mensink et
al. 2013, "Large scale metric learning for distance-based image classification on open ended data sets" (ncm), §5.1.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, like, namespace
from lookalike.errors import InputError
from lookalike.types import Array

Rows: TypeAlias = Any
"""(n, d): has `shape`, and `rows[indices]` gives (m, d) floats. Arrays, tensors, memory maps, `PqRows`."""

Step: TypeAlias = Callable[[Array, Array, Array], tuple[Any, Array]]
"""`step(W, rows, labels)` gives the loss of a batch and its gradient by W, to be descended."""

Draw: TypeAlias = Callable[[np.random.Generator], Any]
"""`draw(random)` gives the numbers (m,) of the rows of a batch, in the order the step wants them."""

Callback: TypeAlias = Callable[[int, float, float], None]
"""`callback(iteration, loss, score)`: called whenever the score was taken."""


@dataclass
class Curve:
    """How training went, one entry for each time the score was taken."""

    iterations: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # mean over the batches since the entry before; NaN at 0
    scores: list[float] = field(default_factory=list)  # larger is better; NaN where nothing validates

    def best(self) -> int:
        """The step after which the score was best, the earliest of equals."""
        return self.iterations[int(np.argmax(self.scores))]

    def table(self) -> NDArray[np.float64]:
        """Steps, losses and scores in columns, (t, 3): what estimators keep as `curve_`."""
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
    """Descend from W at a fixed rate and return the iterate that `validate` likes best, the earliest of equals.

    `validate(W)` (larger is better) is asked at the start, after every `every` batches and at the end; training stops
    when it was asked `patience` times without a gain. Without it the last iterate is returned. Rows go to the
    kind, the device and the precision of W batch by batch; each is seen once before any is seen again,
    unless `draw` says which rows make a batch; then `batch` is not used. `condition` is what every gradient is put
    through before the step is taken.

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
            with np.errstate(over="ignore", invalid="ignore"):  # too large a rate is found below
                loss, gradient = step(W, *next(batches))
                W = W - rate * (condition(gradient) if condition else gradient)
            total, since = total + loss, since + 1  # a loss on a GPU stays there until it is shown
        if iteration % every and iteration != max_iterations:
            continue
        mean = float(total) / since if since else math.nan
        if iteration and not (math.isfinite(mean) and bool(xp.all(xp.isfinite(W)))):
            if curve.scores[0] < best_score:
                break  # what came before was good: it is kept
            raise InputError(f"rate must be smaller: the loss is no longer finite by step {iteration}. Got {rate:g}.")
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
    """Rows and labels without end, by lot and without repeats until all were seen; all of them where they are few."""
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
