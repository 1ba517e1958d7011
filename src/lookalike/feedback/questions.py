"""Strategies that choose the questions of a round.

The default asks about ambiguous items, which MAO ("most ambiguous and orthogonal", §2 of Crucianu et al., fsm-tree)
makes dissimilar from each other, and about some of the highest-scoring items.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lookalike.errors import UnknownNameError
from lookalike.feedback.learners import Learner
from lookalike.index.ids import without
from lookalike.kernels import check_kernel
from lookalike.types import Ids, Query, Searchable, Vectors

POOL = 10
"""Number of ambiguous items per question that MAO chooses from."""
SHARE, LEAST = 0.01, 100
"""Share of the collection that "sample" scores, and the minimum number of items."""


@dataclass
class Candidates:
    """Items for questions: an index without marked or skipped items."""

    index: Searchable
    among: Ids | None
    exclude: Ids  # marked or skipped, ascending
    effort: float | str | None
    random: np.random.Generator
    ids: Ids  # ids of the index, or of `among`; ascending
    success: float = 0.0  # share of positive marks in the last window
    ranking: Query | None = None  # the query that ranks the items; None: the learner's `best`
    best: Ids | None = None  # the first items of that ranking, if known
    scored: int = 0  # number of vectors compared by searches for questions

    def search(self, query: Query, k: int, among: Ids | None = None) -> Ids:
        """Return at most k ids, best first."""
        among = self.among if among is None else among
        hits = self.index.search(query, k, among=among, exclude=self.exclude, effort=self.effort)
        self.scored += hits.scored
        found: Ids = hits.ids[0][hits.ids[0] >= 0]
        return found

    def draw(self, m: int) -> Ids:
        """Return at most m random ids, each once."""
        return draw(self.ids, self.exclude, m, self.random)


def draw(ids: Ids, exclude: Ids, m: int, random: np.random.Generator) -> Ids:
    """At most m random ids of `ids` without `exclude`, both ascending; fast if there are many."""
    if len(ids) > 4 * (m + len(exclude)):
        places = np.unique(random.integers(0, len(ids), 2 * (m + len(exclude))))
        left = without(ids[places], exclude)
        return random.permutation(left)[:m]
    return random.permutation(without(ids, exclude))[:m]


def frontier(candidates: Candidates, learner: Learner, w: int) -> Ids:
    """The most ambiguous items, made dissimilar by MAO."""
    pool = candidates.search(learner.unsure(), POOL * w)
    return pool[diverse(candidates.index.vectors(pool), w, learner.kernel, learner.gamma_)]


def maximum(candidates: Candidates, learner: Learner, w: int) -> Ids:
    """The highest-scoring items."""
    if candidates.best is not None:
        known = candidates.best[~np.isin(candidates.best, candidates.exclude)]
        if len(known) >= w:
            return known[:w]
    return candidates.search(learner.best() if candidates.ranking is None else candidates.ranking, w)


def random(candidates: Candidates, learner: Learner, w: int) -> Ids:  # noqa: ARG001
    """Random items, as a baseline."""
    return candidates.draw(w)


def sample(candidates: Candidates, learner: Learner, w: int) -> Ids:
    """The most ambiguous items of a random hundredth: fast, but poor if positives are rare."""
    few = np.sort(candidates.draw(max(LEAST, w, int(SHARE * len(candidates.index)))))
    return candidates.search(learner.unsure(), w, among=few) if len(few) else few


def mix(candidates: Candidates, learner: Learner, w: int) -> Ids:
    """Some of the highest-scoring items, then ambiguous ones.

    The highest-scoring items are a third if all marks of the last window were negative, and none if half of them were
    positive. If positives are rare, the first hyperplanes are far from them, and ambiguous items teach little. If
    positives are common, the highest-scoring items teach nothing.
    """
    n = round(w / 3 * max(0.0, 1 - 2 * candidates.success))
    sure = maximum(candidates, learner, n) if n else np.empty(0, np.int64)
    asked = frontier(candidates, learner, w)
    return np.concatenate([sure, asked[~np.isin(asked, sure)]])[:w]


STRATEGIES: dict[str, Callable[[Candidates, Learner, int], Ids]] = {
    "frontier": frontier,
    "maximum": maximum,
    "mix": mix,
    "random": random,
    "sample": sample,
}
"""Strategies by name."""


def choose_questions(candidates: Candidates, learner: Learner, w: int, strategy: str) -> Ids:
    """Choose at most w questions; the learner must be fitted, except for "random"."""
    if strategy not in STRATEGIES:
        raise UnknownNameError("strategy", strategy, STRATEGIES)
    return STRATEGIES[strategy](candidates, learner, w)


def diverse(X: Vectors, w: int, kernel: str, gamma: float) -> Ids:
    """MAO: choose w of the rows X (m, d), sorted by ambiguity; return their row numbers.

    Starts with the first row, then always adds the row that is least similar to the chosen ones.

    >>> diverse(np.array([[0.0], [0.1], [5.0], [2.4]], np.float32), 3, "laplace", 1.0).tolist()
    [0, 2, 3]
    """
    rows = X.astype(np.float64)
    measure = check_kernel(kernel, gamma)
    K = measure.pairs(rows, rows, gamma)  # (m, m)
    if measure.norm is None:  # use angles; otherwise short rows would be dissimilar to all others
        lengths = np.sqrt(np.maximum(np.diag(K), 1e-30))
        K = K / lengths[:, None] / lengths
    chosen: list[int] = []
    nearest = np.full(len(K), -np.inf)  # the highest K to a chosen row
    for _ in range(min(w, len(K))):
        i = int(np.argmin(nearest))  # the first of equal ones is the most ambiguous
        chosen.append(i)
        np.maximum(nearest, K[i], out=nearest)
        nearest[chosen] = np.inf
    return np.array(chosen, np.int64)
