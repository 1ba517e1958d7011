"""DFK: Fisher scores whose weights, and whose mixture, are learned so that items with labels in common are near.

In: (n, d) rows, or n sets of descriptors, and labels, one or several an item; NumPy or torch. Out: (n, k(2d + 1))
float32, weighted scores: plain Euclidean distance is the learned one. Wang, Li & Liu 2013, "Learning discriminative
Fisher kernel for image retrieval" (dfk), Algorithm 1 in mini-batches.
"""

from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, chunks, like, namespace
from lookalike.encode.check import check_number, float32_out
from lookalike.errors import InputError, UnknownNameError
from lookalike.features.mixture import Mixture, fit_mixture
from lookalike.learn.adam import Adam
from lookalike.learn.fisher_scores import FisherScores
from lookalike.learn.labels import encode_labels, hold_out
from lookalike.learn.neighbours import objective, retrieval
from lookalike.learn.sets import check_items, sample_rows, take
from lookalike.learn.sgd import Callback, train
from lookalike.types import Array

SPREADS = 2.0 ** np.arange(-3, 8)
"""Squares of the scale that training may start at, by the mean distance: the one with the best objective."""
MIXTURE_BYTES = 64 * 2**20
"""What is held of the rows to fit the mixture to them."""
MOST_HELD = 1_000
"""Items held out, at most: each asks all others."""
EVERY, PATIENCE = 10, 10
"""Batches between two validations, and how many without a gain end the training."""
LIMITS: dict[str, tuple[type, str, float, float]] = {
    "k": (Integral, "a whole number of at least 1", 1, np.inf),
    "rate": (Real, "a number above 0", np.finfo(np.float64).tiny, np.finfo(np.float64).max),
    "batch": (Integral, "a whole number of at least 2", 2, np.inf),
    "max_iterations": (Integral, "a whole number of at least 0", 0, np.inf),
    "validation": (Real, "a share of at least 0 and below 1", 0, 1 - 1e-9),
}
"""What the numbers among the parameters may be."""
PARTS = ("all", "weights")


class Dfk(TransformerMixin, BaseEstimator):
    """Discriminative Fisher kernel: items become weighted Fisher scores of a mixture of Gaussians.

    EM fits the mixture; then the mean of Σ_j s_ij p_ij is raised, p the soft nearest neighbours under weights w of the
    scores' columns and s how many labels two items share, by w, by their scale and by the mixture. Scores are divided
    by the root of their Fisher information; w = exp(v), σ = σ₀ exp(t) and α = softmax(a), so that every step leaves
    them valid. Posteriors are fixed within a step and new in the next.

    Parameters
    ----------
    k : Gaussians; no more than rows there are.
    rate : length of a step (Adam's), as a share of weights and deviations.
    batch : items a step, which cost batch² distances; as many as there are, or more: full batches.
    max_iterations : steps at most; 0: the plain Fisher kernel.
    validation : share of the items (at most 1,000), below 1, held out to see when to stop, by mean average precision;
        the best parameters seen are kept. 0: all steps are taken, the last parameters are kept.
    learned : "all", or "weights": the mixture stays that of EM.
    unit : whether weighted scores are brought to one length, as Fisher vectors are (the paper does not): where an item
        has but few rows, or is far from all Gaussians, its length says little else.
    random_state : seed of the mixture, of what is held out and of the batches.

    Attributes
    ----------
    roots_ : (k(2d + 1),) float32, √w. scale_ : float, what weighted scores are multiplied by in the end.
    alphas_ : (k,), means_ and deviations_ : (k, d) float64, the mixture. All NumPy.
    likelihoods_ : (passes,) float64, the mean log-likelihood of a row before each step of EM.
    curve_ : (t, 3) float64: step, mean loss (less the objective) since the entry before, and score, at each validation.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> pictures = [random.normal(size=(random.integers(5, 9), 3)) + [i % 2, 0, 0] for i in range(200)]
    >>> dfk = Dfk(k=2, max_iterations=50).fit(pictures, np.arange(200) % 2)
    >>> dfk.transform(pictures).shape, bool(dfk.curve_[:, 2].max() > dfk.curve_[0, 2])
    ((200, 14), True)

    """

    labels = True  # fit needs y

    roots_: NDArray[np.float32]
    scale_: float
    alphas_: NDArray[np.float64]
    means_: NDArray[np.float64]
    deviations_: NDArray[np.float64]
    likelihoods_: NDArray[np.float64]
    curve_: NDArray[np.float64]

    def __init__(
        self,
        k: int = 60,
        rate: float = 0.05,
        batch: int = 500,
        max_iterations: int = 500,
        validation: float = 0.2,
        learned: str = "all",
        unit: bool = True,
        random_state: int = 0,
    ):
        self.k = k
        self.rate = rate
        self.batch = batch
        self.max_iterations = max_iterations
        self.validation = validation
        self.learned = learned
        self.unit = unit
        self.random_state = random_state

    def fit(self, X: Any, y: Array | None = None, *, callback: Callback | None = None) -> Self:
        """Learn from items and their labels, (n,), or (n, C) ones and zeros where an item may have several.

        X is a matrix (n, d), a list of n matrices (m, d), or `Sets`. An item that shares no label with another is only
        what others keep away from. `callback(step, loss, score)` is called at each validation.
        """
        for name, (kind, allowed, low, high) in LIMITS.items():
            check_number(name, getattr(self, name), kind, allowed, low, high)
        if self.learned not in PARTS:
            raise UnknownNameError("learned", str(self.learned), PARTS)
        X = check_items(self, X, reset=True, min_items=2)
        codes = encode_many(y, X.shape[0])
        random = np.random.default_rng(self.random_state)
        strata = codes if codes.ndim == 1 else np.zeros(len(codes), np.int64)
        kept, held = hold_out(strata, self.validation, random, MOST_HELD)
        if len(kept) < 2:
            kept, held = np.arange(len(codes)), held[:0]
        rows = sample_rows(X, MIXTURE_BYTES // (8 * X.shape[1]), random)
        k = min(int(self.k), rows.shape[0])
        mixture, self.likelihoods_ = fit_mixture(rows, k, random_state=self.random_state)
        first = Packed(mixture, self.learned, bool(self.unit))
        batch = min(int(self.batch), len(kept))

        def step(parameters: Array, _: Array, numbers: Array) -> tuple[Array, Array]:
            chosen = as_numpy(numbers)
            return first.step(parameters, *take(X, chosen), like(parameters, codes[chosen]))

        def score(parameters: Array) -> float:
            mixture, roots, _ = first.unpack(parameters)
            return retrieval(_transform(X, held, mixture, roots, first.unit), codes[held])

        some = np.sort(random.permutation(kept)[:batch])
        parameters, curve = train(
            first.start(*take(X, some), codes[some]),
            step,
            np.empty((len(kept), 0)),  # rows are read by number: an item may have many
            kept,
            rate=self.rate,
            batch=batch,
            max_iterations=self.max_iterations,
            validate=score if len(held) else None,
            every=EVERY,
            patience=PATIENCE,
            seed=self.random_state,
            callback=callback,
            condition=Adam(),
        )
        (self.alphas_, self.means_, variances), roots, self.scale_ = first.unpack(parameters)
        self.deviations_, self.roots_ = np.sqrt(variances), roots.astype(np.float32)
        self.curve_ = curve.table()
        return self

    def transform(self, X: Any) -> Array:
        """Items to (n, k(2d + 1)) float32, of their own kind: their scores times √w, at the learned scale."""
        check_is_fitted(self)
        X = check_items(self, X, reset=False, min_items=0)
        mixture = Mixture(self.alphas_, self.means_, self.deviations_**2)
        Z = float(self.scale_) * _transform(X, np.arange(X.shape[0]), mixture, self.roots_, bool(self.unit))
        return namespace(Z).astype(Z, namespace(Z).float32, copy=False)

    def __sklearn_tags__(self) -> Tags:
        tags = float32_out(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags


class Packed(NamedTuple):
    """All that is learned, in one array: v (P,), means and log deviations (k, d) from where EM left them, a (k,), b.

    exp(b) is the square of the scale: with rows of unit length weights cannot say it.
    """

    mixture: Mixture  # of EM
    learned: str
    unit: bool

    def unpack(self, parameters: Array) -> tuple[Mixture, NDArray[np.float64], float]:
        """The mixture, √w (P,) and the scale."""
        values = as_numpy(parameters).astype(np.float64)
        k, d = self.mixture.means.shape
        v, u, t, a, b = np.split(values, np.cumsum([k * (2 * d + 1), k * d, k * d, k]))
        sigma = np.sqrt(self.mixture.variances)
        means = self.mixture.means + sigma * u.reshape(k, d)
        alpha = self.mixture.weights * np.exp(a - a.max())
        mixture = Mixture(alpha / alpha.sum(), means, (sigma * np.exp(t.reshape(k, d))) ** 2)
        return mixture, np.exp(v / 2), float(np.exp(b[0] / 2))

    def start(self, rows: Array, starts: NDArray[np.int64], y: NDArray[np.int64]) -> Array:
        """Where training starts, of the kind of the rows: EM's mixture, weights of 1, and the scale y likes best."""
        xp, (k, d) = namespace(rows), self.mixture.means.shape
        fisher = FisherScores(self.mixture, rows)
        scores, labels = fisher.scores(fisher.sums(rows, starts)), like(rows, y)
        ones = xp.ones_like(scores[0, :])
        V, _ = _weigh(scores, ones, self.unit)
        unit = 1 / (2 * float(xp.sum(xp.var(V, axis=0))) or 1.0)
        values = [float(objective(V, ones * float(spread * unit), labels)[0]) for spread in SPREADS]
        zeros = xp.zeros((fisher.dim + 2 * k * d + k,), dtype=V.dtype, device=array_api_compat.device(V))
        return xp.concat([zeros, xp.log(ones[:1] * float(SPREADS[int(np.argmax(values))] * unit))])

    def step(self, parameters: Array, rows: Array, starts: NDArray[np.int64], y: Array) -> tuple[Array, Array]:
        """The loss, less the objective, of a batch, and its gradient, posteriors held fixed."""
        xp = namespace(parameters)
        rows = xp.astype(like(parameters, rows), parameters.dtype, copy=False)
        mixture, _, _ = self.unpack(parameters)
        fisher = FisherScores(mixture, rows)
        sums = fisher.sums(rows, starts)
        roots, squared = xp.exp(parameters[: fisher.dim] / 2), xp.exp(parameters[-1:])
        V, lengths = _weigh(fisher.scores(sums), roots, self.unit)
        value, by_w, by_V = objective(V, squared * xp.ones_like(roots), y)
        by_b = squared * xp.sum(by_w)
        if self.unit:  # what is along V changes its length alone
            by_V = (by_V - xp.sum(by_V * V, axis=1, keepdims=True) * V) / lengths
        by_v = xp.sum(by_V * V * lengths, axis=0) / 2
        if self.learned == "weights":
            rest = 0 * parameters[fisher.dim : -1]
        else:
            rest = self._by_mixture(mixture, fisher.gradient(sums, by_V * roots))
        return -value, -xp.concat([by_v, rest, by_b])

    def _by_mixture(self, mixture: Mixture, gradients: tuple[Array, Array, Array]) -> Array:
        """Gradients by weights, means and deviations, as those by what stands for them here, in one array."""
        by_alpha, by_means, by_deviations = gradients
        xp = namespace(by_alpha)

        def cast(values: NDArray[np.float64]) -> Array:
            return xp.astype(like(by_alpha, values), by_alpha.dtype)

        alpha = cast(mixture.weights)
        u = by_means * cast(np.sqrt(self.mixture.variances))
        t = by_deviations * cast(np.sqrt(mixture.variances))
        return xp.concat([xp.reshape(u, (-1,)), xp.reshape(t, (-1,)), alpha * (by_alpha - xp.sum(alpha * by_alpha))])


def encode_many(y: Array | None, n: int) -> NDArray[np.int64]:
    """Labels as numbers (n,), or as ones and zeros (n, C) where y has several columns; not all items alike.

    >>> encode_many(["owl", "cat", "owl"], 3).tolist(), encode_many([[1, 1], [0, 1]], 2).tolist()
    ([1, 0, 1], [[1, 1], [0, 1]])
    """
    several = None if y is None else as_numpy(y)
    if several is None or several.ndim != 2 or several.shape[1] == 1:
        return encode_labels(y, n)[1]
    if len(several) != n:
        raise InputError(f"y must hold the labels of each of {n} items. Got {len(several)} rows.")
    if several.dtype.kind not in "biuf" or not np.isin(several, (0, 1)).all():
        raise InputError("y must hold ones and zeros, one column a label, where it has several columns.")
    if (several == several[0]).all():
        raise InputError(f"y must tell items apart. Got the same labels for each of {n} items.")
    return several.astype(np.int64)


def _weigh(scores: Array, roots: Array, unit: bool) -> tuple[Array, Array]:
    """Scores (n, P) times √w, of unit length where wanted, and what they were divided by for that, (n, 1)."""
    xp, V = namespace(scores), scores * roots
    lengths = xp.sqrt(xp.sum(V * V, axis=1, keepdims=True))
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths)) if unit else xp.ones_like(lengths)
    return V / lengths, lengths


def _transform(X: Any, chosen: NDArray[np.int64], mixture: Mixture, roots: NDArray[Any], unit: bool) -> Array:
    """The weighted scores (n, P) of the items chosen."""
    out = []
    for part in chunks(max(len(chosen), 1), row_bytes=32 * len(roots)):
        rows, starts = take(X, chosen[part])
        fisher = FisherScores(mixture, rows)
        scores = fisher.scores(fisher.sums(rows, starts))
        out.append(_weigh(scores, namespace(scores).astype(like(scores, roots), scores.dtype), unit)[0])
    return namespace(out[0]).concat(out)
