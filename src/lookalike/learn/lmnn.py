"""Large-margin nearest neighbours (LMNN): a metric under which the nearest rows have one's own label.

In: (n, d) rows and labels, NumPy, torch, a memory map or `PqRows`. Out: (m, D) float32, D = min(dim, d, n - 1).
Weinberger and Saul 2009, in the form of Mensink et al. 2013 (ncm), §4: Eq. 35–43, and triplets by its §4.2.
"""

from collections.abc import Callable
from typing import Annotated, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, chunks, namespace
from lookalike.errors import InputError, UnknownNameError
from lookalike.learn.labels import encode_held, encode_labels, hold_out
from lookalike.learn.measures import MEASURES, mean_average_precision, ranks, top
from lookalike.learn.projection import Projection
from lookalike.learn.rows import Picked, check_source, check_values, project
from lookalike.learn.sgd import Callback, Curve, Rows, train
from lookalike.learn.start import start
from lookalike.learn.triplet_batches import TripletBatches, nearest_of_class
from lookalike.learn.triplets import Targets
from lookalike.limits import COUNT, POSITIVE, Limit, check_limits
from lookalike.types import Array, OneOf

Watch: TypeAlias = Callable[[Array], float]

TARGETS = ("dynamic", "fixed", "all")
BATCH = 300
"""Rows a step, as in the paper."""
HELD, MOST_HELD, MOST_SEEN = 0.2, 1_000, 5_000
"""The share of each class that training is stopped by, at most so many rows; and at most so many to be near to."""
MOST_TO_REPEAT = 100_000
"""With no more rows than these, training is done again on all of them, for as many steps as were best."""
LIMITS: dict[str, Limit] = {"dim": COUNT, "k": COUNT, "rate": POSITIVE, "max_iterations": COUNT}
"""What the numbers among the parameters may be."""
EVERY, PATIENCE = 25, 8
"""Batches between two validations, and how many without a gain end the training."""


class Lmnn(Projection):
    """A projection W that brings rows nearer to some of their own class, by a margin of one, than to any other class.

    Minimises the hinge loss 1 + ‖Wx_q − Wx_p‖² − ‖Wx_q − Wx_n‖² of all triplets of a query, a target of its class and a
    negative (Eq. 36), by descent in mini-batches from where `start` says. A class of one row is only told from.

    Parameters
    ----------
    dim : output dimension. D = min(dim, d, n - 1).
    targets : a query's targets. "dynamic", its k nearest by the metric as it is (best in the paper); "fixed", its k
        nearest by ℓ2 of the rows; "all", every row of its class.
    k : targets a query, and neighbours that vote in validation. Of a class with no more than k rows, all others.
    rate : length of a step, at a scale where two rows are 2 apart, squared, on average. A step is the mean over the
        triplets that have a loss, so that one rate serves easy and hard problems.
    max_iterations : steps at most.
    measure : what is watched on a fifth of each class to see after how many steps to stop; up to 100,000 rows are
        then all trained on, for that many. "top1" (the class most of the k nearest have; ties by their share), "top5"
        (the right one among the first five) or "map" (rows as queries for their like).
    random_state : seed of what is held out and of the batches.

    Attributes
    ----------
    W_ : (D, d) float32, of the kind and on the device of the rows it was fitted on; `transform` takes any kind.
    classes_ : (C,) sorted labels, NumPy.
    curve_ : (t, 3) float64, NumPy: step, mean loss since the entry before, and score, at each validation.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) * [1, 5]  # the second column is large and says nothing
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> first, second = np.linalg.norm(Lmnn(targets="all").fit(X, y).W_, axis=0)
    >>> bool(first > 5 * second)
    True

    """

    def __init__(
        self,
        dim: int = 64,
        targets: Annotated[str, OneOf(TARGETS)] = "dynamic",
        k: int = 5,
        rate: float = 0.1,
        max_iterations: int = 2_000,
        measure: Annotated[str, OneOf(MEASURES)] = "top1",
        random_state: int = 0,
    ):
        self.dim = dim
        self.targets = targets
        self.k = k
        self.rate = rate
        self.max_iterations = max_iterations
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
        """Learn from rows (n, d) and labels (n,) of at least 2 classes, one of them with at least 2 rows.

        `held`, rows and labels, is validated on instead of a part of X: for "map", labels of any classes.
        `callback(step, loss, score)` is called at each validation.
        """
        self._check()
        X = check_source(self, X, reset=True, min_rows=2)
        classes, codes = encode_labels(y, X.shape[0])
        if np.bincount(codes).max() < 2:
            raise InputError(f"y must give a class to 2 rows or more. Got {len(codes)} rows and {len(codes)} classes.")
        check_values(X)
        random = np.random.default_rng(self.random_state)
        kept, out = hold_out(codes, HELD if held is None else 0.0, random, MOST_HELD)
        if np.bincount(codes[kept]).max() < 2:
            kept, out = np.arange(len(codes)), out[:0]
        rows, labels = Picked(X, kept), codes[kept]
        asked, wanted = Picked(X, out), codes[out]
        if held is not None:
            asked, wanted = held[0], encode_held(held, classes, self.measure)
        seen = np.sort(random.permutation(len(kept))[:MOST_SEEN])
        watch = self._watch(Picked(rows, seen), labels[seen], asked, wanted)
        self.W_, curve = self._descend(rows, labels, self.max_iterations, watch, callback)
        self.classes_ = classes
        self.curve_ = curve.table()
        if len(out) and len(codes) <= MOST_TO_REPEAT:
            self.W_, _ = self._descend(X, codes, curve.best(), None, None)
        return self

    def _descend(
        self, rows: Rows, labels: NDArray[np.int64], steps: int, watch: Watch | None, callback: Callback | None
    ) -> tuple[Array, Curve]:
        """The W that is best for what is watched, or the last, and the learning curve."""
        begin = start(rows, labels, int(self.dim), np.random.default_rng(self.random_state))
        scale = begin.total**-0.5  # two rows are 2 · total apart on average
        batches = TripletBatches(labels, self._targets(rows, labels), BATCH)
        return train(
            begin.W * scale,
            batches.step,
            rows,
            np.arange(len(labels)),
            rate=self.rate * scale**2,  # as if the rows, not W, were scaled
            batch=BATCH,
            max_iterations=steps,
            validate=watch,
            every=EVERY,
            patience=PATIENCE,
            seed=self.random_state,
            callback=callback,
            draw=batches.draw,
            condition=begin.condition,
        )

    def _check(self) -> None:
        check_limits(self, LIMITS)
        for name, known in (("targets", TARGETS), ("measure", MEASURES)):
            if getattr(self, name) not in known:
                raise UnknownNameError(name, str(getattr(self, name)), known)

    def _targets(self, rows: Rows, codes: NDArray[np.int64]) -> Targets:
        """What a query's targets are, for `TripletBatches`."""
        if self.targets == "all":
            return None
        return int(self.k) if self.targets == "dynamic" else nearest_of_class(rows, codes, int(self.k))

    def _watch(self, seen: Rows, codes: NDArray[np.int64], held: Rows, wanted: NDArray[np.int64]) -> Watch | None:
        """The score of a W, larger is better: how rows held out fare among `seen`."""
        if not len(wanted):
            return None

        def score(W: Array) -> float:
            asked = project(held, W)
            if self.measure == "map":
                return mean_average_precision(asked, wanted)
            votes = count_votes(asked, project(seen, W), codes, int(self.k))
            own = votes[np.arange(len(wanted)), wanted]
            found = top(ranks(votes, wanted), 5 if self.measure == "top5" else 1)
            return found + float(np.mean(own)) / (self.k * len(wanted) ** 3)  # of equals, the one with surer votes

        return score


def count_votes(X: Array, seen: Array, codes: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """How many of the k rows of `seen` nearest to each row of X are of each class, (m, C); nearer ones a hair more.

    >>> count_votes(np.array([[0.0]]), np.array([[1.0], [2.0], [3.0]]), np.array([1, 0, 0]), 2).round(2)
    array([[1., 1.]])
    """
    xp, C, k = namespace(X), int(codes.max()) + 1, min(k, seen.shape[0])
    centre = xp.mean(seen, axis=0)  # float32 products lose less near zero
    seen, X = seen - centre, X - centre
    squares = xp.vecdot(seen, seen)
    votes = np.zeros((X.shape[0], C))
    for part in chunks(X.shape[0], row_bytes=16 * seen.shape[0]):
        distances = as_numpy(squares - 2 * (X[part] @ seen.T))  # (p, n), less what a row's classes share
        near = np.argpartition(distances, k - 1, axis=1)[:, :k]
        near = np.take_along_axis(near, np.argsort(np.take_along_axis(distances, near, 1), axis=1, kind="stable"), 1)
        weights = np.broadcast_to(1 + 1e-6 / 2.0 ** np.arange(k), near.shape)  # the nearest outweighs the rest
        np.add.at(votes, (np.arange(part.start, part.stop)[:, None], codes[near]), weights)
    return votes
