"""WSABIE: a projection and a linear classifier in it, learned together by a loss on the rank of the right class.

In: (n, d) rows and labels, NumPy, torch, a memory map or `PqRows`. Out: (m, D) float32, D ≤ dim, or labels.
Weston, Bengio, Usunier, IJCAI 2011, with the scores of Mensink et al. 2013 (ncm), Eq. 15.
"""

from typing import Annotated, Any, Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, like, namespace
from lookalike.encode.check import float32_out
from lookalike.errors import UnknownNameError
from lookalike.learn.labels import encode_held, encode_labels, hold_out
from lookalike.learn.measures import MEASURES, mean_average_precision, ranks, top
from lookalike.learn.rows import Picked, check_source, check_values, means_by_label, project
from lookalike.learn.sgd import Callback, Rows, train
from lookalike.learn.start import start
from lookalike.limits import COUNT, POSITIVE, Limit, check_limits
from lookalike.types import Array, OneOf

HELD, MOST_HELD = 0.2, 5_000
"""The share of each class that training is stopped by, and at most so many rows."""
LIMITS: dict[str, Limit] = {"dim": COUNT, "rate": POSITIVE, "batch": COUNT, "max_iterations": COUNT}
"""What the numbers among the parameters may be."""
EVERY, PATIENCE = 50, 8
"""Batches between two validations, and how many without a gain end the training."""


def rank_loss(scores: Array, y: Array) -> tuple[Any, Array]:
    """The WARP loss of class scores (m, C) for classes y (m,), a mean, and its gradient by the scores.

    Of the r classes that come within a margin of one of the right one, or before it, each adds its hinge loss times
    (1 + 1/2 + … + 1/r) / r: what the paper finds by trying classes at random is here taken over all of them.

    >>> rank_loss(np.array([[2.0, 1.5, 0.0]]), np.array([0]))
    (np.float64(0.5), array([[-1.,  1.,  0.]]))
    """
    xp, device, C = namespace(scores), array_api_compat.device(scores), scores.shape[1]
    own = xp.arange(C, device=device) == y[:, None]  # (m, C)
    margins = xp.where(own, xp.zeros_like(scores), 1 + scores - xp.take_along_axis(scores, y[:, None], axis=1))
    active = xp.astype(margins > 0, scores.dtype)
    r = xp.sum(active, axis=1)  # (m,)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, C))])  # L(r)
    total = xp.astype(like(scores, harmonic), scores.dtype)[xp.astype(r, xp.int64)]  # (m,)
    weights = total / xp.clip(r, 1, None) / scores.shape[0]
    gradient = weights[:, None] * active
    return xp.sum(gradient * margins), gradient - xp.where(
        own, xp.sum(gradient, axis=1)[:, None], xp.zeros_like(scores)
    )


class Wsabie(ClassifierMixin, TransformerMixin, BaseEstimator):
    """A projection with a linear classifier in it: scores v_cᵀ(Wx + w), the right class first by a margin of one.

    All of W, w and v are learned together, in mini-batches, from where `start` says and the class means there.
    `transform` is the projection, a metric for new classes too; `predict` knows the classes it was fitted on.

    Parameters
    ----------
    dim : output dimension. D = min(dim, d, n - 1).
    rate : length of a step, at a scale where rows have length one on average.
    batch : rows a step.
    max_iterations : steps at most.
    measure : what is watched on a fifth of each class to stop early: "top1" (the right class first), "top5" (among the
        first five; ties by the first) or "map" (rows as queries for their like, by cosine: for retrieval).
    random_state : seed of what is held out and of the batches.

    Attributes
    ----------
    Arrays are of the kind, and on the device, of the rows it was fitted on; other kinds are taken, too.

    W_ : (D, d) float32.
    offset_ : (D,) float32, what is added after the projection: it is what biases of the classes come from.
    coef_ : (C, D) float32, the vectors v_c.
    classes_ : (C,) sorted labels, NumPy.
    curve_ : (t, 3) float64, NumPy: step, mean loss since the entry before, and score, at each validation.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> float(Wsabie(dim=2).fit(X, y).score(X, y)) > 0.95
    True

    """

    labels = True  # fit needs y
    loss = staticmethod(rank_loss)

    W_: Array
    offset_: Array
    coef_: Array
    classes_: NDArray[Any]
    curve_: NDArray[np.float64]

    def __init__(
        self,
        dim: int = 64,
        rate: float = 0.3,
        batch: int = 200,
        max_iterations: int = 5_000,
        measure: Annotated[str, OneOf(MEASURES)] = "top1",
        random_state: int = 0,
    ):
        self.dim = dim
        self.rate = rate
        self.batch = batch
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
        """Learn from rows (n, d) and labels (n,) of at least 2 classes.

        `held`, rows and labels, is validated on instead of a part of X: for "map", labels of any classes.
        `callback(step, loss, score)` is called at each validation.
        """
        self._check()
        X = check_source(self, X, reset=True, min_rows=2)
        classes, codes = encode_labels(y, X.shape[0])
        check_values(X)
        random = np.random.default_rng(self.random_state)
        kept, out = hold_out(codes, HELD if held is None else 0.0, random, MOST_HELD)
        rows, labels = Picked(X, kept), codes[kept]
        asked, wanted = (
            (Picked(X, out), codes[out]) if held is None else (held[0], encode_held(held, classes, self.measure))
        )
        begin = start(rows, labels, int(self.dim), random)
        W, mean, scale = begin.W, begin.mean, begin.total**-0.5
        xp, C = namespace(W), len(classes)
        means = xp.astype(like(W, means_by_label(rows, labels, C)), W.dtype)
        V = scale * (means - mean) @ W.T  # (C, D)

        def step(both: Array, rows: Array, y: Array) -> tuple[Any, Array]:
            ones = xp.ones_like(rows[:, :1])
            rows = xp.concat([scale * (rows - mean), ones], axis=1)  # (m, d + 1)
            W, V = both[:, :-C], both[:, -C:].T
            Z = rows @ W.T  # (m, D)
            loss, G = self.loss(Z @ V.T, y)  # (m, C)
            return loss, xp.concat([(G @ V).T @ rows, Z.T @ G], axis=1)

        def condition(gradient: Array) -> Array:
            d = rows.shape[1]
            return xp.concat([begin.condition(gradient[:, :d]), gradient[:, d:]], axis=1)

        def apart(both: Array) -> tuple[Array, Array, Array]:
            W = scale * both[:, : -C - 1]
            return W, both[:, -C - 1] - W @ mean, both[:, -C:].T

        def score(both: Array) -> float:
            W, offset, V = apart(both)
            Z = like(V, project(asked, W)) + offset
            if self.measure == "map":
                return mean_average_precision(Z, wanted)
            return top(ranks(Z @ V.T, wanted), 5 if self.measure == "top5" else 1)

        both, curve = train(
            xp.concat([W, 0 * W[:, :1], V.T], axis=1),  # (D, d + 1 + C): W, its offset and V are learned as one array
            step,
            rows,
            labels,
            rate=self.rate,
            batch=self.batch,
            max_iterations=self.max_iterations,
            validate=score if len(wanted) else None,
            every=EVERY,
            patience=PATIENCE,
            seed=self.random_state,
            callback=callback,
            condition=condition,
        )
        self.W_, self.offset_, self.coef_ = apart(both)
        self.classes_ = classes
        self.curve_ = curve.table()
        return self

    def transform(self, X: Rows) -> Array:
        """(m, d) to (m, D) float32: XWᵀ and the offset."""
        check_is_fitted(self)
        Z = project(check_source(self, X, reset=False, min_rows=0), self.W_)
        return Z + like(Z, self.offset_)

    def decision_function(self, X: Rows) -> Array:
        """(m, d) to scores (m, C) float32; of two classes (m,), how much more the second has: scikit-learn's way."""
        Z = self.transform(X)
        scores = Z @ like(Z, self.coef_).T
        return scores if len(self.classes_) > 2 else scores[:, 1] - scores[:, 0]

    def predict(self, X: Rows) -> NDArray[Any]:
        """(m, d) to labels (m,); of equal scores the first class wins."""
        scores = as_numpy(self.decision_function(X))
        best = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
        return np.asarray(self.classes_[best])

    def __sklearn_tags__(self) -> Tags:
        return float32_out(super().__sklearn_tags__())

    def _check(self) -> None:
        check_limits(self, LIMITS)
        if self.measure not in MEASURES:
            raise UnknownNameError("measure", str(self.measure), MEASURES)
