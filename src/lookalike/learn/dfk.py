"""DFK: Fisher scores whose weights, and whose mixture, are learned so that items with labels in common are near.

In: (n, d) rows, or n sets of descriptors, and labels, one or several an item; NumPy or torch. Out: (n, k(2d + 1))
float32, weighted scores: plain Euclidean distance is the learned one. Wang, Li & Liu 2013, "Learning discriminative
Fisher kernel for image retrieval" (dfk), Algorithm 1 in mini-batches.
"""

from numbers import Integral
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, chunks, like, namespace, unit_rows
from lookalike.encode.check import float32_out
from lookalike.errors import UnknownNameError
from lookalike.features.clustering import Mixture
from lookalike.learn.adam import Adam
from lookalike.learn.dfk_step import Packed
from lookalike.learn.fisher_scores import FisherScores, root
from lookalike.learn.labels import encode_many, hold_out
from lookalike.learn.neighbours import retrieval
from lookalike.learn.sets import check_items, fit_items, take
from lookalike.learn.sgd import Callback, train
from lookalike.limits import COUNT, COUNT_OR_ZERO, SHARE, Limit, check_limits
from lookalike.types import Array, OneOf

MOST_HELD = 1_000
"""Items held out, at most: each asks all others."""
RATE = 0.03
"""The length of a step (Adam's), as a share of weights and deviations."""
EVERY, PATIENCE = 10, 10
"""Batches between two validations, and how many without a gain end the training."""
LIMITS: dict[str, Limit] = {
    "k": COUNT,
    "batch": (Integral, "a whole number of at least 2", 2, np.inf),
    "max_iterations": COUNT_OR_ZERO,
    "validation": SHARE,
}
"""What the numbers among the parameters may be."""
PARTS = ("all", "fixed", "weights")


class Dfk(TransformerMixin, BaseEstimator):
    """Discriminative Fisher kernel: items become weighted Fisher scores of a mixture of Gaussians.

    EM fits the mixture; then the mean of Σ_j s_ij p_ij is raised, p the soft nearest neighbours under weights w of the
    scores' columns and s how many labels two items share, by w and by the mixture. Scores are divided by the root of
    their Fisher information, weighted, replaced by their signed roots and brought to one length; w = exp(v),
    σ = σ₀ exp(t) and α = softmax(a), so that every step leaves them valid.

    Parameters
    ----------
    k : Gaussians; no more than rows there are.
    batch : items a step, which cost batch² distances; as many as there are, or more: full batches.
    max_iterations : steps at most; 0: the plain Fisher kernel.
    validation : share of the items (at most 1,000), below 1, held out to see when to stop, by mean average precision;
        the best parameters seen are kept. 0: all steps are taken, the last parameters are kept.
    learned : "all"; "fixed": the same by the paper's gradient, which leaves out that posteriors change with the
        mixture; or "weights": the mixture stays that of EM.
    random_state : seed of the mixture, of what is held out and of the batches.

    Attributes
    ----------
    roots_ : (k(2d + 1),) float32, √w. scale_ : float, the length of what comes out.
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
    several = True  # of which an item may have more than one

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
        """Learn from items and their labels, (n,), or (n, C) ones and zeros where an item may have several.

        X is a matrix (n, d), a list of n matrices (m, d), or `Sets`. An item that shares no label with another is only
        what others keep away from. `callback(step, loss, score)` is called at each validation.
        """
        check_limits(self, LIMITS)
        if self.learned not in PARTS:
            raise UnknownNameError("learned", str(self.learned), PARTS)
        X = check_items(self, X, reset=True, min_items=2)
        codes = encode_many(y, X.shape[0])
        random = np.random.default_rng(self.random_state)
        strata = codes if codes.ndim == 1 else np.zeros(len(codes), np.int64)
        kept, held = hold_out(strata, self.validation, random, MOST_HELD)
        if len(kept) < 2:
            kept, held = np.arange(len(codes)), held[:0]
        mixture, self.likelihoods_ = fit_items(X, int(self.k), self.random_state, random)
        first = Packed(mixture, self.learned)
        batch = min(int(self.batch), len(kept))
        start, self.scale_ = first.start(*take(X, np.sort(random.permutation(kept)[:batch])))

        def step(parameters: Array, _: Array, numbers: Array) -> tuple[Array, Array]:
            chosen = as_numpy(numbers)
            return first.step(parameters, *take(X, chosen), like(parameters, codes[chosen]), self.scale_)

        def score(parameters: Array) -> float:
            return retrieval(_transform(X, held, *first.unpack(parameters)), codes[held])

        parameters, curve = train(
            start,
            step,
            np.empty((len(kept), 0)),  # rows are read by number: an item may have many
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
        (self.alphas_, self.means_, variances), roots = first.unpack(parameters)
        self.deviations_, self.roots_ = np.sqrt(variances), roots.astype(np.float32)
        self.curve_ = curve.table()
        return self

    def transform(self, X: Any) -> Array:
        """Items to (n, k(2d + 1)) float32, of their kind: roots of their scores times √w, all of length `scale_`."""
        check_is_fitted(self)
        X = check_items(self, X, reset=False, min_items=0)
        mixture = Mixture(self.alphas_, self.means_, self.deviations_**2)
        Z = float(self.scale_) * _transform(X, np.arange(X.shape[0]), mixture, self.roots_)
        return namespace(Z).astype(Z, namespace(Z).float32, copy=False)

    def __sklearn_tags__(self) -> Tags:
        tags = float32_out(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags


def _transform(X: Any, chosen: NDArray[np.int64], mixture: Mixture, roots: NDArray[Any]) -> Array:
    """The weighted scores (n, P) of the items chosen."""
    out = []
    for part in chunks(max(len(chosen), 1), row_bytes=16 * len(roots)):
        rows, starts = take(X, chosen[part])
        fisher = FisherScores(mixture, rows, namespace(rows).astype(like(rows, roots), rows.dtype))
        out.append(unit_rows(root(fisher.scores(rows, starts))))
    return namespace(out[0]).concat(out)
