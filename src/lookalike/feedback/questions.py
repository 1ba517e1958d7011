"""Strategies that choose the questions of a round.

A question about a likely positive finds a match; a question about an ambiguous item improves the ranking of all others.
If few positives are left to find, each of them must be shown anyway, so the default asks about the highest-scoring
items. If many are left, no user marks them one by one and the ranking has to find them, so it asks about ambiguous
items, which MAO ("most ambiguous and orthogonal", §2 of Crucianu et al., fsm-tree) makes dissimilar from each other.
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
REACH = 60
"""Number of positives that a user finds one by one, in about seven windows of nine. Chosen from 30, 60 and 100 on
classes 0, 2, 4 … of corel5k and tinyimagenet40: 30 finds fewer of a small class, 100 ranks broad targets worse."""
FIRST, FIRST_SHARE = 3, 0.75
"""Until this many positives are known, as many as an estimate needs, this share of the questions asks about the
highest-scoring items: the user and the learner need matches, and the other questions show whether the target is broad.
On the same classes and mnist, a larger share ranks broad targets worse, and a smaller one finds fewer of a small
class."""
SCORED_SHARE, LEAST_SCORED, MOST_SCORED = 0.02, 20_000, 200_000
"""Share of the items that a search with `approximate_effort` scores, and the limits of their number."""
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
    positives: int = 1  # number of positive marks
    unfound: int | None = None  # estimated number of unmarked positives; None: no estimate
    ranking: Query | None = None  # the query that ranks the items; None: the learner's `best`
    best: Ids | None = None  # the first items of that ranking, if known
    scored: int = 0  # number of vectors compared by searches for questions

    def search(self, query: Query, k: int, among: Ids | None = None, default_effort: float | None = None) -> Ids:
        """Return at most k ids, best first. `default_effort` applies if the round has no effort."""
        among = self.among if among is None else among
        effort = default_effort if self.effort is None else self.effort
        hits = self.index.search(query, k, among=among, exclude=self.exclude, effort=effort)
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


def approximate_effort(n: int) -> float:
    """The effort of a search among n items that may miss some of the results.

    >>> [approximate_effort(n) for n in (10_000, 5_000_000, 100_000_000)]
    [1.0, 0.02, 0.002]
    """
    return min(1.0, min(max(SCORED_SHARE * n, LEAST_SCORED), MOST_SCORED) / max(1, n))


def frontier(candidates: Candidates, learner: Learner, w: int) -> Ids:
    """The most ambiguous items, made dissimilar by MAO."""
    effort = approximate_effort(len(candidates.ids))  # slightly less ambiguous items are equally good questions
    pool = candidates.search(learner.unsure(), POOL * w, default_effort=effort)
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
    """The highest-scoring items if few positives are left to find, ambiguous items if many are, and both in between."""
    n = round(w * match_share(candidates.positives, candidates.unfound))
    matches = maximum(candidates, learner, n) if n else np.empty(0, np.int64)
    if n == w:
        return matches
    asked = frontier(candidates, learner, w)
    return np.concatenate([matches, asked[~np.isin(asked, matches)]])[:w]


def match_share(positives: int, unfound: int | None) -> float:
    """The share of questions about the highest-scoring items: the share of the unfound positives within `REACH`.

    It is 0 if there are positives but no estimate: then nearly all answers were positive, and only ambiguous items show
    where the target ends.

    >>> match_share(1, None), match_share(9, 30), match_share(9, 120), match_share(9, None)
    (0.75, 1.0, 0.5, 0.0)
    """
    if positives < FIRST:
        return FIRST_SHARE
    return 0.0 if unfound is None else min(1.0, REACH / max(1, unfound))


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
