"""The rows of the bench `dfk`: a transform each, learned from the training part, after which Euclid is the distance.

In: what images are (`Sets` of descriptors, or vectors) and their labels, one or several each. Out: vectors (n, D).
Metrics with an option to choose get it on a validation part of the training part. Wang, Li & Liu 2013 (dfk), §4.4.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from lookalike.encode.whiten import PCA
from lookalike.features.mixture import Mixture
from lookalike.learn.chunklets import Dca, Rca
from lookalike.learn.dfk import Dfk
from lookalike.learn.fess import Fess, summarise
from lookalike.learn.labels import hold_out
from lookalike.learn.lmnn import Lmnn
from lookalike.learn.neighbours import retrieval
from lookalike.learn.pairs import DmlEig, Mmc
from lookalike.learn.pd import Pd
from lookalike.learn.sdpm import Sdpm
from lookalike.learn.sets import Sets
from lookalike.types import Vectors

HELD = 0.3
"""The share of the training part that options are chosen on."""
SCORES_DIM = 128
"""What PCA leaves of Fisher scores, or of deep vectors, for metrics that learn a square matrix."""
NCA_ROWS, NCA_STEPS = 3_000, 50
"""NCA costs the square of its rows: more are drawn from by lot."""
TRIES = 16
"""Rows that are drawn to find one that makes a pair."""
LAMS = tuple({"lam": lam} for lam in (0.001, 0.01, 0.1, 1.0, 10.0))
WIDE = tuple({"lam": lam} for lam in (0.01, 1.0, 100.0))
COSTS = tuple({"cost": cost} for cost in (0.1, 1.0, 10.0))

Codes: TypeAlias = NDArray[np.int64]
"""(n,), a label each, or (n, C), ones and zeros."""
Params: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Metric:
    """A metric on vectors: how it is made, and what of it is chosen by validation."""

    make: Callable[..., Any]
    candidates: Sequence[Params] = ({},)
    several: str = "repeat"
    """With several labels an item: "pairs" and "triplets" are drawn by them; else an item is a row for each."""

    def fit(self, X: Vectors, y: Codes, seed: int, **params: Any) -> Callable[[Vectors], Vectors]:
        """The projection learned from rows (n, d) and their labels."""
        part = self.make(seed, **params)
        if y.ndim == 1:
            part.fit(X, y)
        elif self.several == "pairs":
            alike, unlike = draw_pairs(y, part.pairs, np.random.default_rng(seed))
            part.fit(X, alike=alike, unlike=unlike)
        elif self.several == "triplets":
            alike, unlike = draw_pairs(y, part.triplets, np.random.default_rng(seed), same_first=True)
            part.fit(X, triplets=np.concatenate([alike, unlike[:, 1:]], axis=1))
        else:
            rows, labels = np.nonzero(y)
            part.fit(X[rows], labels)
        return lambda some: np.asarray(part.transform(some))

    def choose(self, X: Vectors, y: Codes, seed: int) -> Params:
        """The candidate with the best mAP on rows held out of X, the first of equals."""
        if len(self.candidates) == 1:
            return dict(self.candidates[0])
        kept, held = split(y, HELD, seed)
        found = [retrieval(self.fit(X[kept], y[kept], seed, **one)(X[held]), y[held]) for one in self.candidates]
        return dict(self.candidates[int(np.argmax(found))])


class Nca:
    """scikit-learn's NCA, of rows at mean square distance 1, of which at most so many are learned from."""

    def __init__(self, seed: int):
        self.seed = seed
        self.nca = NeighborhoodComponentsAnalysis(init="identity", max_iter=NCA_STEPS, random_state=seed)

    def fit(self, X: Vectors, y: Codes) -> "Nca":
        """Learn from rows (n, d) and labels (n,)."""
        some = np.sort(np.random.default_rng(self.seed).permutation(len(X))[:NCA_ROWS])
        self.scale = 1 / (np.sqrt(2 * X[some].var(axis=0).sum()) or 1.0)
        self.nca.fit(self.scale * X[some], y[some])
        return self

    def transform(self, X: Vectors) -> Vectors:
        """Rows (n, d) to (n, d)."""
        return np.asarray(self.nca.transform(self.scale * X), np.float32)


METRICS = {
    "mmc": Metric(lambda seed, **options: Mmc(random_state=seed, **options), WIDE, "pairs"),
    "rca": Metric(lambda _, **options: Rca(**options), LAMS),
    "dca": Metric(lambda _, **options: Dca(**options), LAMS),
    "sdpm": Metric(lambda seed, **options: Sdpm(random_state=seed, **options), COSTS, "triplets"),
    "dml-eig": Metric(lambda seed, **options: DmlEig(random_state=seed, **options), WIDE, "pairs"),
    "lmnn": Metric(lambda seed: Lmnn(dim=64, random_state=seed)),
    "nca": Metric(lambda seed: Nca(seed)),
}
SCORES: dict[str, Callable[[int], Any]] = {
    "fisher": lambda seed: Dfk(max_iterations=0, random_state=seed),
    "fess": lambda seed: Fess(random_state=seed),
    "pd": lambda seed: Pd(random_state=seed),
    "dfk": lambda seed: Dfk(random_state=seed),
}
"""What takes sets of descriptors, or vectors, as they are; all have 60 Gaussians."""
ROWS = ("euclidean", "fisher", *METRICS, "fess", "pd", "dfk")


def split(y: Codes, share: float, seed: int) -> tuple[Codes, Codes]:
    """Row numbers of two parts by lot, the second of this share; class by class where items have one label."""
    codes = y if y.ndim == 1 else np.zeros(len(y), np.int64)
    return hold_out(codes, share, np.random.default_rng(seed), most=len(y))


def count_words(fisher: Dfk, X: Sets) -> Vectors:
    """Bags of words (n, k): the share of an item's rows that belongs to each Gaussian of a mixture, by posteriors."""
    mixture = Mixture(fisher.alphas_, fisher.means_, fisher.deviations_**2)
    return np.asarray(summarise(mixture, X.rows, X.starts)[1].counts, np.float32)


def reduce(X: Vectors, train: Codes) -> Vectors:
    """Rows by the PCA of the training part."""
    return np.asarray(PCA(dim=min(SCORES_DIM, X.shape[1], len(train))).fit(X[train]).transform(X))


def draw_pairs(y: Codes, count: int, random: np.random.Generator, *, same_first: bool = False) -> tuple[Codes, Codes]:
    """Pairs of rows of y (n, C) that share a label, and pairs that share none, about `count` of each, (m, 2).

    With `same_first` both have the same first rows, so that together they are triplets.
    """
    first = random.integers(len(y), size=4 * count)
    found = []
    for wanted in (True, False):
        second = random.integers(len(y), size=(len(first), TRIES))
        share = np.stack([(y[first] * y[second[:, i]]).sum(axis=1) for i in range(TRIES)], axis=1) > 0
        fits = (share == wanted) & (second != first[:, None])
        pairs = np.stack([first, second[np.arange(len(first)), fits.argmax(axis=1)]], axis=1)
        found.append((pairs, fits.any(axis=1)))
    (alike, are_alike), (unlike, are_unlike) = found
    if same_first:
        are_alike = are_unlike = are_alike & are_unlike
    return alike[are_alike][:count], unlike[are_unlike][:count]
