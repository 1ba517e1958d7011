"""WSABIE and JSCL: a projection and a linear classifier, learned together.

WSABIE minimises a loss on the rank of the right class: Weston, Bengio & Usunier, IJCAI 2011. JSCL, joint subspace and
classifier learning, minimises a hinge loss of each class against all others: Gordo, Rodríguez, Perronnin & Valveny,
CVPR 2012. Both use the scores of Mensink et al. 2013 (ncm), Eq. 15.
"""

from typing import Annotated, Any, Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from lookalike.arrays import as_numpy, like, namespace
from lookalike.learn.measures import MEASURES, mean_average_precision, ranks
from lookalike.learn.rows import Rows, means_by_label, project
from lookalike.learn.training import Callback, TrainedProjection
from lookalike.limits import COUNT, POSITIVE, Limit
from lookalike.types import Array, OneOf

MAX_HELD = 5_000
"""Maximum number of validation rows."""
LIMITS: dict[str, Limit] = {"dim": COUNT, "rate": POSITIVE, "batch": COUNT, "max_iterations": COUNT}


def rank_loss(scores: Array, y: Array) -> tuple[Any, Array]:
    """Return the mean WARP loss of class scores (m, C) for classes y (m,), and its gradient w.r.t. them.

    Each of the r classes that score higher than the right one minus a margin of 1 adds its hinge loss times
    (1 + 1/2 + … + 1/r) / r. The paper estimates r by sampling classes; here, all classes are counted.

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


def hinge_loss(scores: Array, y: Array) -> tuple[Any, Array]:
    """Return the mean hinge loss of class scores (m, C) for classes y (m,), and its gradient w.r.t. them.

    The right class should score at least 1, the others at most -1. The others together have the same weight as the
    right class; otherwise, many classes would dominate it.

    >>> hinge_loss(np.array([[0.5, -3.0, -0.5]]), np.array([0]))
    (np.float64(0.75), array([[-1. ,  0. ,  0.5]]))
    """
    xp, C = namespace(scores), scores.shape[1]
    own = xp.arange(C, device=array_api_compat.device(scores)) == y[:, None]  # (m, C)
    signs = xp.where(own, xp.ones_like(scores), -xp.ones_like(scores))
    weights = xp.where(own, xp.ones_like(scores), xp.full_like(scores, 1 / (C - 1))) / scores.shape[0]
    margins = 1 - signs * scores
    weights = weights * xp.astype(margins > 0, scores.dtype)
    return xp.sum(weights * margins), -signs * weights


class Wsabie(ClassifierMixin, TrainedProjection):
    """A projection with a linear classifier: scores v_cᵀ(Wx + w) rank the right class first by a margin of one.

    W, w and v are learned together in mini-batches, starting from `find_start` and the projected class means.
    `transform` applies the projection, which is also a metric for new classes; `predict` knows only the classes that it
    was fitted on.

    Parameters
    ----------
    dim : output dimension D; None: at most 64. D is at most min(d, n - 1); a larger `dim` gives a warning.
    rate : step size, for rows scaled to an average length of one.
    batch : rows per step.
    max_iterations : maximum number of steps.
    measure : validation score on a fifth of each class, used to decide when to stop: "top1" (the right class is first),
        "top5" (among the first five; ties broken by top-1) or "map" (retrieval by cosine).
    random_state : random seed of the validation set and of the batches.

    Attributes
    ----------
    Arrays have the type and device of the training rows; `transform` accepts rows of any type.

    W_ : (D, d) float32.
    offset_ : (D,) float32, added after the projection; it provides the biases of the classes.
    coef_ : (C, D) float32, the vectors v_c.
    classes_ : (C,) sorted labels, NumPy.
    curve_ : (t, 3) float64, NumPy; step, mean loss since the previous validation, and score of each validation.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> float(Wsabie(dim=2).fit(X, y).score(X, y)) > 0.95
    True

    """

    loss = staticmethod(rank_loss)

    offset_: Array
    coef_: Array

    _limits = LIMITS
    _every, _patience = 50, 8

    def __init__(
        self,
        dim: int | None = None,
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
        """Fit to rows (n, d) and labels (n,) of at least 2 classes.

        `held`, rows and labels, replaces the validation set of X; for "map" its labels can be of any classes.
        `callback(step, loss, score)` is called at each validation.
        """
        problem = self._problem(X, y, held, MAX_HELD)
        start = self._start(problem.rows, problem.labels, problem.random)
        W, mean, scale = start.W, start.mean, start.total**-0.5
        xp, C, d = namespace(W), len(problem.classes), W.shape[1]
        means = xp.astype(like(W, means_by_label(problem.rows, problem.labels, C)), W.dtype)
        V = scale * (means - mean) @ W.T  # (C, D)

        def step(both: Array, rows: Array, y: Array) -> tuple[Any, Array]:
            ones = xp.ones_like(rows[:, :1])
            rows = xp.concat([scale * (rows - mean), ones], axis=1)  # (m, d + 1)
            W, V = both[:, :-C], both[:, -C:].T
            Z = rows @ W.T  # (m, D)
            loss, G = self.loss(Z @ V.T, y)  # (m, C)
            return loss, xp.concat([(G @ V).T @ rows, Z.T @ G], axis=1)

        def condition(gradient: Array) -> Array:
            return xp.concat([start.condition(gradient[:, :d]), gradient[:, d:]], axis=1)

        def unpack(both: Array) -> tuple[Array, Array, Array]:
            W = scale * both[:, : -C - 1]
            return W, both[:, -C - 1] - W @ mean, both[:, -C:].T

        def score(both: Array) -> float:
            W, offset, V = unpack(both)
            Z = like(V, project(problem.held, W)) + offset
            if self.measure == "map":
                return mean_average_precision(Z, problem.held_labels)
            return self._top(ranks(Z @ V.T, problem.held_labels))

        both = xp.concat([W, 0 * W[:, :1], V.T], axis=1)  # (D, d + 1 + C): W, offset and V, learned as one array
        both, curve = self._train(problem, both, step, score, condition, callback=callback)
        self.W_, self.offset_, self.coef_ = unpack(both)
        self.classes_ = problem.classes
        self.curve_ = curve.table()
        return self

    def _map(self, X: Rows) -> Array:
        """Project rows (m, d) to (m, D) float32: XWᵀ plus the offset."""
        Z = super()._map(X)
        return Z + like(Z, self.offset_)

    def decision_function(self, X: Rows) -> Array:
        """Return scores (m, C) float32 of rows (m, d); for two classes (m,), the second minus the first."""
        Z = self._map(X)
        scores = Z @ like(Z, self.coef_).T
        return scores if len(self.classes_) > 2 else scores[:, 1] - scores[:, 0]

    def predict(self, X: Rows) -> NDArray[Any]:
        """Return labels (m,) of rows (m, d); if scores are equal, the first class wins."""
        scores = as_numpy(self.decision_function(X))
        best = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
        return np.asarray(self.classes_[best])


class Jscl(Wsabie):
    """A projection W with a classifier v_c for each class against all others.

    Everything except the loss is as in `Wsabie`, with the same parameters and attributes. For retrieval, which uses
    only W, set `measure="map"`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> Jscl(dim=2).fit(X, y).transform(X).shape
    (300, 2)

    """

    loss = staticmethod(hinge_loss)
