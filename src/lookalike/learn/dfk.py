"""DFK: Fisher scores with learned weights and a learned mixture, such that items with common labels are close together.

Wang, Li & Liu 2013, "Learning discriminative Fisher kernel for image retrieval" (dfk), Algorithm 1 in mini-batches. An
item is one row or a set of rows. Euclidean distance between transformed items is the learned distance. We re-derived
Eq. 8–11, because the printed label similarity is always negative, and Eq. 10–11 lack a factor.
"""

from dataclasses import dataclass, field
from numbers import Integral
from typing import Annotated, Any, Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, chunks, like, namespace, unit_rows
from lookalike.encode.check import float32_out
from lookalike.errors import UnknownNameError
from lookalike.features.clustering import Mixture
from lookalike.learn.fisher_scores import Buffers, FisherScores, Gradients, root
from lookalike.learn.labels import encode_many, hold_out
from lookalike.learn.measures import retrieval
from lookalike.learn.sets import check_items, fit_items, take
from lookalike.learn.training import Adam, Callback, train
from lookalike.limits import COUNT, COUNT_OR_ZERO, SHARE, Limit, check_limits
from lookalike.types import Array, OneOf

MAX_HELD = 1_000
"""Maximum number of validation items: each is compared with all others."""
RATE = 0.03
"""Step size (of Adam), as a share of weights and deviations."""
EVERY, PATIENCE = 10, 10
"""Batches between two validations, and validations without improvement after which training stops."""
SPREAD = 24.0
"""Mean of D over pairs at the start, which fixes the scale. If the scale is learned, or chosen by the objective, it
grows until only the nearest neighbour of an item counts, and training overfits (docs/experiments/dfk.md)."""
LIMITS: dict[str, Limit] = {
    "k": COUNT,
    "batch": (Integral, "a whole number of at least 2", 2, np.inf),
    "max_iterations": COUNT_OR_ZERO,
    "validation": SHARE,
}
PARTS = ("all", "fixed", "weights")


class Dfk(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Discriminative Fisher kernel: items become weighted Fisher scores of a mixture of Gaussians.

    EM fits the mixture. Then training maximises the mean of Σ_j s_ij p_ij over the weights w of the scores' columns and
    over the mixture: p are soft nearest neighbours, and s grows with the number of labels that two items share. Scores
    are divided by the root of their Fisher information, weighted by √w, replaced by their signed roots and scaled to
    a common length. √w = exp(v), σ = σ₀ exp(t) and α = softmax(a) stay valid in every step.

    Parameters
    ----------
    k : number of Gaussians; at most the number of rows.
    batch : items per step; a step computes batch² distances. With fewer items, a step uses all of them.
    max_iterations : maximum number of steps; 0 gives the plain Fisher kernel.
    validation : share of the items (at most 1,000), below 1, held out to decide when to stop, by mean average
        precision; the best parameters are kept. 0 runs all steps and keeps the last parameters.
    learned : what is learned. "all": weights and mixture; "fixed": the same with the paper's gradient, which treats
        posteriors as constants; "weights": only the weights.
    random_state : random seed of the mixture, of the validation set and of the batches.

    Attributes
    ----------
    roots_ : (k(2d + 1),) float32, √w.
    scale_ : float, the length of transformed items.
    alphas_ : (k,), means_ and deviations_ : (k, d) float64, the mixture. All NumPy.
    likelihoods_ : (passes,) float64, the mean log-likelihood of a row before each step of EM.
    curve_ : (t, 3) float64; for each validation the step, the mean loss (negative objective) since the previous
        validation, and the score.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> pictures = [random.normal(size=(random.integers(5, 9), 3)) + [i % 2, 0, 0] for i in range(200)]
    >>> dfk = Dfk(k=2, max_iterations=50).fit(pictures, np.arange(200) % 2)
    >>> dfk.transform(pictures).shape, bool(dfk.curve_[:, 2].max() > dfk.curve_[0, 2])
    ((200, 14), True)

    """

    labels = True  # fit requires y
    several = True  # an item can have several labels

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
        batch: int = 500,
        max_iterations: int = 500,
        validation: float = 0.2,
        learned: Annotated[str, OneOf(PARTS)] = "all",
        random_state: int = 0,
    ):
        self.k = k
        self.batch = batch
        self.max_iterations = max_iterations
        self.validation = validation
        self.learned = learned
        self.random_state = random_state

    def fit(self, X: Any, y: Array | None = None, *, callback: Callback | None = None) -> Self:
        """Fit to items and their labels: (n,), or (n, C) of 0 and 1 if items can have several.

        X is a matrix (n, d), a list of n matrices (m, d), or `Sets`. An item that shares no label with another serves
        only as a negative. `callback(step, loss, score)` is called at each validation.
        """
        check_limits(self, LIMITS)
        if self.learned not in PARTS:
            raise UnknownNameError("value of learned", str(self.learned), PARTS)
        X = check_items(self, X, reset=True, min_items=2)
        codes = encode_many(y, X.shape[0])
        random = np.random.default_rng(self.random_state)
        strata = codes if codes.ndim == 1 else np.zeros(len(codes), np.int64)
        kept, held = hold_out(strata, self.validation, random, MAX_HELD)
        if len(kept) < 2:
            kept, held = np.arange(len(codes)), held[:0]
        mixture, self.likelihoods_ = fit_items(X, int(self.k), self.random_state, random)
        objective = Objective(mixture, self.learned)
        batch = min(int(self.batch), len(kept))
        start, self.scale_ = objective.start(*take(X, np.sort(random.permutation(kept)[:batch])))

        def step(parameters: Array, _: Array, numbers: Array) -> tuple[Array, Array]:
            chosen = as_numpy(numbers)
            return objective.step(parameters, *take(X, chosen), like(parameters, codes[chosen]), self.scale_)

        def score(parameters: Array) -> float:
            return retrieval(_transform(X, held, *objective.unpack(parameters)), codes[held])

        parameters, curve = train(
            start,
            step,
            np.empty((len(kept), 0)),  # `step` reads items by number, because they can have many rows
            kept,
            rate=RATE,
            batch=batch,
            max_iterations=self.max_iterations,
            validate=score if len(held) else None,
            every=EVERY,
            patience=PATIENCE,
            seed=self.random_state,
            callback=callback,
            condition=Adam(),
        )
        (self.alphas_, self.means_, variances), roots = objective.unpack(parameters)
        self.deviations_, self.roots_ = np.sqrt(variances), roots.astype(np.float32)
        self.curve_ = curve.table()
        return self

    def transform(self, X: Any) -> Array:
        """Transform items to (n, k(2d + 1)) float32: signed roots of weighted scores, all of length `scale_`."""
        check_is_fitted(self)
        X = check_items(self, X, reset=False, min_items=0)
        mixture = Mixture(self.alphas_, self.means_, self.deviations_**2)
        Z = float(self.scale_) * _transform(X, np.arange(X.shape[0]), mixture, self.roots_)
        return namespace(Z).astype(Z, namespace(Z).float32, copy=False)

    @property
    def _n_features_out(self) -> int:
        return len(self.roots_)

    def __sklearn_tags__(self) -> Tags:
        tags = float32_out(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags


@dataclass(frozen=True)
class Objective:
    """The objective of DFK, Eq. 9–11, as a function of one array of parameters.

    The parameters are v (P,), the shifts of means u and of log deviations t (k, d) from EM's mixture, and a (k,).
    """

    mixture: Mixture  # from EM
    learned: str
    buffers: Buffers = field(default_factory=Buffers)

    def unpack(self, parameters: Array) -> tuple[Mixture, NDArray[np.float64]]:
        """Return the mixture and √w (P,)."""
        values = as_numpy(parameters).astype(np.float64)
        k, d = self.mixture.means.shape
        v, u, t, a = np.split(values, np.cumsum([k * (2 * d + 1), k * d, k * d]))
        sigma = np.sqrt(self.mixture.variances)
        means = self.mixture.means + sigma * u.reshape(k, d)
        alpha = self.mixture.weights * np.exp(a - a.max())
        mixture = Mixture(alpha / alpha.sum(), means, (sigma * np.exp(t.reshape(k, d))) ** 2)
        return mixture, np.exp(v)

    def start(self, rows: Array, starts: NDArray[np.int64]) -> tuple[Array, float]:
        """Return initial parameters (EM's mixture, weights of 1), of the type of the rows, and the scale of scores."""
        xp, (k, d) = namespace(rows), self.mixture.means.shape
        fisher = FisherScores(self.mixture, rows)
        products, _ = _products(fisher.rooted(fisher.score(rows, starts, self.buffers)))
        mean = 2 * float(xp.mean(xp.linalg.diagonal(products)) - xp.mean(products))  # of D over all pairs
        zeros = xp.zeros((fisher.dim + 2 * k * d + k,), dtype=rows.dtype, device=array_api_compat.device(rows))
        return zeros, (SPREAD / mean) ** 0.5 if mean > 0 else 1.0

    def step(
        self, parameters: Array, rows: Array, starts: NDArray[np.int64], y: Array, scale: float
    ) -> tuple[Array, Array]:
        """Return the loss of a batch, which is the negative objective, and its gradient."""
        xp, (mixture, _) = namespace(parameters), self.unpack(parameters)
        rows = xp.astype(like(parameters, rows), parameters.dtype, copy=False)
        k, d = mixture.means.shape
        fisher = FisherScores(mixture, rows, xp.exp(parameters[: k * (2 * d + 1)]))
        scored = fisher.score(rows, starts, self.buffers)
        R = fisher.rooted(scored)
        products, lengths = _products(R)  # (n, n), (n,)
        value, M = neighbour_objective(scale**2 * products, y)
        M *= 2 * scale**2  # times V, the roots scaled to unit length, this is the gradient w.r.t. V
        each = xp.arange(M.shape[0], device=array_api_compat.device(M))
        M[each, each] -= xp.sum(M * products, axis=1)  # remove the part along V, which only changes its length
        M /= lengths
        M /= lengths[:, None]
        found = fisher.backward(scored, R, M, self.learned)
        return -value, -xp.concat([found.logs, self._by_mixture(mixture, found)])

    def _by_mixture(self, mixture: Mixture, found: Gradients) -> Array:
        """Convert gradients w.r.t. means, deviations and weights to those w.r.t. u, t and a, in one array."""
        xp = namespace(found.alphas)

        def cast(values: NDArray[np.float64]) -> Array:
            return xp.astype(like(found.alphas, values), found.alphas.dtype)

        alpha = cast(mixture.weights)
        u = found.means * cast(np.sqrt(self.mixture.variances))
        t = found.deviations * cast(np.sqrt(mixture.variances))
        a = alpha * (found.alphas - xp.sum(alpha * found.alphas))
        return xp.concat([xp.reshape(u, (-1,)), xp.reshape(t, (-1,)), a])


def neighbour_objective(products: Array, y: Array) -> tuple[Array, Array]:
    """Return the mean over items of Σ_j s_ij p_ij (Eq. 9) and L (n, n), from inner products (n, n) of weighted scores.

    n ≥ 2. L is the Laplacian of ∂O/∂D: 2L times the weighted scores is the gradient w.r.t. them; rows sum to 0. Labels
    y are as in `label_similarity`. With one label per item, this is the objective of NCA (Goldberger et al. 2004).
    """
    xp, n = namespace(products), products.shape[0]
    p, s = neighbour_shares(products), label_similarity(y, products.dtype)
    means = xp.sum(s * p, axis=1, keepdims=True)  # (n, 1)
    by_distance = p * (means - s) / n  # ∂O/∂D
    L = -(by_distance + by_distance.T)
    own = xp.arange(n, device=array_api_compat.device(L))
    L[own, own] = -xp.sum(L, axis=1)  # the diagonal was zero: an item is not its own neighbour
    return xp.mean(means), L


def neighbour_shares(products: Array) -> Array:
    """The normalised Fisher kernel (Eq. 8), (n, n), from inner products (n, n): rows sum to 1, 0 on the diagonal.

    >>> neighbour_shares(np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]))[0].tolist()
    [0.0, 0.5, 0.5]
    """
    xp = namespace(products)
    squares = xp.linalg.diagonal(products)
    D = squares[:, None] + squares[None, :] - 2 * products
    own = xp.arange(products.shape[0], device=array_api_compat.device(D))
    D[own, own] = xp.inf
    p = xp.exp(xp.min(D, axis=1, keepdims=True) - D)
    return p / xp.sum(p, axis=1, keepdims=True)


def label_similarity(y: Array, dtype: object) -> Array:
    """Return the similarity (n, n), of the type of y, of items with c common labels: 2 / (1 + exp(1 − 2c)) − 1.

    y is (n,), one label per item, or (n, C), 0 and 1.

    >>> label_similarity(np.array([[1, 1], [1, 1], [0, 0]]), np.float64)[0].round(2).tolist()
    [0.91, 0.91, -0.46]
    """
    xp = namespace(y)
    common = xp.astype(y[:, None] == y[None, :], dtype) if y.ndim == 1 else xp.astype(y, dtype) @ xp.astype(y, dtype).T
    return xp.tanh(common - 0.5)


def _transform(X: Any, chosen: NDArray[np.int64], mixture: Mixture, roots: NDArray[Any]) -> Array:
    """Return the signed roots of weighted scores (n, P) of the chosen items, scaled to unit length."""
    out = []
    for part in chunks(max(len(chosen), 1), row_bytes=16 * len(roots)):
        rows, starts = take(X, chosen[part])
        fisher = FisherScores(mixture, rows, namespace(rows).astype(like(rows, roots), rows.dtype))
        out.append(unit_rows(root(fisher.scores(rows, starts))))
    return namespace(out[0]).concat(out)


def _products(R: Array) -> tuple[Array, Array]:
    """Return inner products (n, n) of the roots R (k, 2d + 1, n) scaled to unit length, and their original lengths."""
    xp = namespace(R)
    R = xp.reshape(R, (-1, R.shape[2]))
    products = R.T @ R
    lengths = xp.sqrt(xp.linalg.diagonal(products))
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    products /= lengths
    products /= lengths[:, None]
    return products, lengths
