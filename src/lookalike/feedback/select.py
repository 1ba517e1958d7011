"""What to ask next: strategies that choose the questions of a round.

In: an index, a learner that was fitted, what may not be asked. Out: ids (w,), no two alike where that can be helped. §2
of Crucianu et al. (fsm-tree): the most ambiguous, thinned by MAO, "most ambiguous and orthogonal".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.errors import UnknownNameError
from lookalike.index.ids import without
from lookalike.kernels import check_kernel
from lookalike.types import Ids, Learner, Query, Searchable, Vectors

POOL = 10
"""How many times the wanted number of ambiguous items MAO chooses from."""
SHARE, LEAST = 0.01, 100
"""The part of the collection that "sample" looks at, and its least number of items."""


@dataclass
class Source:
    """Where questions come from: an index less what was marked or skipped, and what the search for them cost."""

    index: Searchable
    among: Ids | None
    exclude: Ids  # ascending
    effort: float | str | None
    random: np.random.Generator
    ids: Ids  # all that are in the index, or those of `among`; ascending
    success: float = 0.0  # the share of the last answers that were yes
    ranking: Query | None = None  # what a person sees the items ranked by; where None, the learner's own
    best: Ids | None = None  # the first of that ranking, where they are known
    scored: int = 0

    def search(self, query: Query, k: int, among: Ids | None = None) -> Ids:
        """At most k ids, best first."""
        among = self.among if among is None else among
        hits = self.index.search(query, k, among=among, exclude=self.exclude, effort=self.effort)
        self.scored += hits.scored
        found: Ids = hits.ids[0][hits.ids[0] >= 0]
        return found

    def draw(self, m: int) -> Ids:
        """At most m ids at random, each once."""
        return draw(self.ids, self.exclude, m, self.random)


def draw(ids: Ids, exclude: Ids, m: int, random: np.random.Generator) -> Ids:
    """At most m of `ids` less `exclude`, both ascending, at random: of many, without touching all of them."""
    if len(ids) > 4 * (m + len(exclude)):
        places = np.unique(random.integers(0, len(ids), 2 * (m + len(exclude))))
        left = without(ids[places], exclude)
        return random.permutation(left)[:m]
    return random.permutation(without(ids, exclude))[:m]


def frontier(source: Source, learner: Learner, w: int) -> Ids:
    """The most ambiguous, made different from one another by MAO."""
    pool = source.search(learner.unsure(), POOL * w)
    kernel, gamma = _kernel(learner)
    return pool[diverse(source.index.vectors(pool), w, kernel, gamma)]


def maximum(source: Source, learner: Learner, w: int) -> Ids:
    """Those that are ranked first."""
    if source.best is not None:
        known = source.best[~np.isin(source.best, source.exclude)]
        if len(known) >= w:
            return known[:w]
    return source.search(learner.best() if source.ranking is None else source.ranking, w)


def random(source: Source, learner: Learner, w: int) -> Ids:  # noqa: ARG001
    """Any: what all others must beat."""
    return source.draw(w)


def sample(source: Source, learner: Learner, w: int) -> Ids:
    """The most ambiguous of a random hundredth: costs little, and fails where what is wanted is rare."""
    few = np.sort(source.draw(max(LEAST, w, int(SHARE * len(source.index)))))
    return source.search(learner.unsure(), w, among=few) if len(few) else few


def mix(source: Source, learner: Learner, w: int) -> Ids:
    """Some that are ranked first, the rest from the frontier.

    A third are of the first while the answers are no, none once half of them are yes: where what is wanted is rare, the
    first frontiers lie far from it and teach little; where it is common, the first teach nothing.
    """
    n = round(w / 3 * max(0.0, 1 - 2 * source.success))
    sure = maximum(source, learner, n) if n else np.empty(0, np.int64)
    asked = frontier(source, learner, w)
    return np.concatenate([sure, asked[~np.isin(asked, sure)]])[:w]


STRATEGIES: dict[str, Callable[[Source, Learner, int], Ids]] = {
    "frontier": frontier,
    "maximum": maximum,
    "mix": mix,
    "random": random,
    "sample": sample,
}
"""By name. A new strategy is a function and a line here."""


def choose(source: Source, learner: Learner, w: int, strategy: str) -> Ids:
    """The next questions, (w,) or fewer where there are no more; `learner` was fitted, unless they are to be random."""
    if strategy not in STRATEGIES:
        raise UnknownNameError("strategy", strategy, STRATEGIES)
    return STRATEGIES[strategy](source, learner, w)


def diverse(X: Vectors, w: int, kernel: str, gamma: float) -> Ids:
    """MAO: w of the rows X (m, d), best first: the first, then always the one least like any chosen. (w,) row numbers.

    >>> diverse(np.array([[0.0], [0.1], [5.0], [2.4]], np.float32), 3, "laplace", 1.0).tolist()
    [0, 2, 3]
    """
    rows = X.astype(np.float64)
    measure = check_kernel(kernel, gamma)
    K = measure.pairs(rows, rows, gamma)  # (m, m)
    if measure.norm is None:  # an angle: else short rows would look unlike everything
        lengths = np.sqrt(np.maximum(np.diag(K), 1e-30))
        K = K / lengths[:, None] / lengths
    chosen: list[int] = []
    nearest = np.full(len(K), -np.inf)  # the highest K to those chosen
    for _ in range(min(w, len(K))):
        i = int(np.argmin(nearest))  # the first of equals: the most ambiguous
        chosen.append(i)
        np.maximum(nearest, K[i], out=nearest)
        nearest[chosen] = np.inf
    return np.array(chosen, np.int64)


def _kernel(learner: Any) -> tuple[str, float]:
    return getattr(learner, "kernel", "linear"), getattr(learner, "gamma_", 1.0)
