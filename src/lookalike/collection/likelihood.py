"""Likelihood: how likely a result of a search is right, as a function of its score.

If there are enough labels, labelled pictures are searched among each other, with as many examples as the search has,
and isotonic regression gives the share of right results at each score. If there are too few labels, the marks of open
sessions serve instead. The result is cached until labels, marks, pictures or spaces change.

Otherwise, only distances are known. The scores of random pictures show which scores occur by chance: the middle of
their distribution is fitted by a normal distribution, because its lower end contains the right pictures. The
likelihood is 1 minus the local false discovery rate, the share of results at a score that chance explains. B. Efron,
"Large-scale simultaneous hypothesis testing: the choice of a null hypothesis", JASA 2004. Its density is estimated as
in K. Strimmer, "A unified approach to false discovery rate estimation", BMC Bioinformatics 2008. A picture can be more
similar than by chance and still be of another kind than the user wants, so this is optimistic.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.collection.fitting import labels_of
from lookalike.collection.resolve import select
from lookalike.collection.searching import Result, Results, make_query
from lookalike.collection.space import Space
from lookalike.errors import InputError
from lookalike.limits import NOT_NEGATIVE, PROBABILITY, check_number
from lookalike.store.items import Filter
from lookalike.types import Ids, Query, Vectors

Shares = NDArray[np.float64]
"""Probabilities, or shares of results that are right."""

MIN_PICTURES = 50
"""Fewer pictures, labelled or in the collection, are not enough for an estimate."""

MAX_LABELLED = 5_000
"""Labelled pictures that are searched; a random sample if there are more."""

SEARCHES = 200
"""Searches among judged pictures."""

MIN_DEPTH = 10
"""Results of each of these searches, at least."""

MIN_K = 50
"""Searches with fewer results share one calibration."""

MAX_EXAMPLES = 5
"""Positive and negative examples of these searches, at most, of each kind."""

RANDOM_PICTURES = 2_000
"""Pictures whose scores show what occurs by chance."""

BELOW = 0.1587
"""Share of a normal distribution that is more than one standard deviation below its median."""

MIN_HITS = 200
"""Results, at least, from which the likelihood is estimated without labels."""


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The probability that a result is right, as a non-increasing function of its score."""

    scores: Sequence[float]  # ascending
    shares: Sequence[float]  # the probability at each of these scores; between them, it is interpolated
    source: str  # what it was estimated from

    def at(self, scores: Sequence[float] | Vectors) -> Shares:
        """The probabilities (n,) of results with these scores."""
        return np.interp(scores, self.scores, self.shares)


class Search(NamedTuple):
    """What a calibration depends on: searches with more examples or results have other scores."""

    positive: int  # examples
    negative: int
    k: int


def check_cutoff(within: float | None, likely: float | None) -> None:
    """Raise InputError unless these are a distance and a probability, or None."""
    if within is not None:
        check_number("within", within, *NOT_NEGATIVE)
    if likely is not None:
        check_number("likely", likely, *PROBABILITY)


def estimate(space: Space, query: Query, kind: Search, among: Ids | None, effort: float | str | None) -> Likelihood:
    """The likelihood of the results of a query."""
    found = from_judgements(space, kind)
    return from_distances(space, query, kind.k, among, effort) if found is None else found


def add_likelihood(
    space: Space,
    results: Sequence[Result],
    query: Query,
    kind: Search,
    *,
    filter: Filter | None,
    effort: float | str | None,
    only_cached: bool,
) -> Results:
    """Add its probability to each result of a query; with `only_cached`, only if that takes no time."""
    if only_cached:
        found = from_judgements(space, kind, only_cached=True)
    else:
        among = None if filter is None else select(space.store, filter)
        found = estimate(space, query, kind, among, effort)
    if found is None:
        return Results(results)
    shares = found.at([result.score for result in results])
    rated = [replace(result, likely=share) for result, share in zip(results, shares.tolist(), strict=True)]
    return Results(rated, estimated_from=found.source)


def from_judgements(space: Space, kind: Search, *, only_cached: bool = False) -> Likelihood | None:
    """The likelihood of the results of such a search, from labels or marks; None if there are too few.

    With `only_cached`, it is not computed, which can take seconds.
    """
    kind = Search(min(kind.positive, MAX_EXAMPLES), min(kind.negative, MAX_EXAMPLES), max(kind.k, MIN_K))
    store, name = space.store, ("likelihood", space.name, " ".join(map(str, kind)))
    cached = store.derived.read(*name)
    if cached is None and only_cached:
        return None
    version = f"{store.version()} {store.judgements.version()}"
    if cached is not None and cached.version == version:
        return None if cached.value is None else Likelihood(**cached.value)
    if only_cached:
        return None
    found = _search_judged(space, kind)
    value = None if found is None else {"scores": found.scores, "shares": found.shares, "source": found.source}
    store.derived.write(*name, version=version, value=value)
    return found


def from_distances(space: Space, query: Query, k: int, among: Ids | None, effort: float | str | None) -> Likelihood:
    """The likelihood of the first k results of a query, from the scores of random pictures of the collection."""
    from scipy.special import ndtr

    index: Any = space.index
    ids: Ids = index.ids
    if len(ids) < MIN_PICTURES:
        raise InputError(
            f"A likelihood can be estimated from {MIN_PICTURES} pictures or more, and the space has {len(ids)}. Leave"
            " out the likelihood, or limit the distance."
        )
    random = np.sort(np.random.default_rng(0).choice(ids, min(len(ids), RANDOM_PICTURES), replace=False))
    scores = index.search(query, len(random), among=random, effort="exact").scores[0]
    low, middle = np.quantile(scores, [BELOW, 0.5])
    hits = index.search(query, min(max(k, MIN_HITS), len(ids)), among=among, effort=effort)
    found = hits.scores[0][hits.ids[0] >= 0].astype(np.float64)
    n = len(ids) if among is None else len(np.intersect1d(ids, among, assume_unique=True))
    by_chance = n * ndtr((found - middle) / max(middle - low, np.finfo(np.float32).tiny))  # (m,) up to each score
    shares = 1 - make_monotone(np.diff(by_chance, prepend=0), increasing=True)
    source = f"the distances of {len(random):,} random pictures, which is optimistic"
    return Likelihood(found.tolist() or [0.0], shares.clip(0, 1).tolist() or [0.0], source)


def make_monotone(values: Shares, *, increasing: bool = False) -> Shares:
    """The monotone sequence nearest to values (n,) in a ranking: their isotonic regression.

    >>> make_monotone(np.array([1.0, 0.2, 0.6, 0.1]))
    array([1. , 0.4, 0.4, 0.1])
    """
    from scipy.optimize import isotonic_regression  # takes half a second to load

    return np.asarray(isotonic_regression(values, increasing=increasing).x) if len(values) else values


class Judged(NamedTuple):
    """Pictures that are right for each other, among all those that could be wrong for them."""

    right: Ids  # (m,) ascending
    among: Ids  # (n,) ascending, includes the right ones


def _search_judged(space: Space, kind: Search) -> Likelihood | None:
    """Search judged pictures among each other: those with labels, or those with marks if too few have labels."""
    for groups, what in ((_labelled(space), "labelled"), (_marked(space), "marked")):
        usable = [group for group in groups if len(group.right) > kind.positive and len(group.among) > kind.negative]
        n = len({item for group in usable for item in group.among.tolist()})
        if n >= MIN_PICTURES:
            return _search_groups(space, usable, kind, f"{n:,} {what} pictures")
    return None


def _search_groups(space: Space, groups: list[Judged], kind: Search, source: str) -> Likelihood | None:
    """Compare the scores of right and wrong results of searches with random right and wrong examples.

    They are as deep as the search: if half of the collection is judged, half of its results are, too.
    """
    index: Any = space.index
    random = np.random.default_rng(0)
    sizes = np.array([len(group.right) for group in groups])
    scores: list[Vectors] = []
    right: list[NDArray[np.bool_]] = []
    for number in random.choice(len(groups), SEARCHES, p=sizes / sizes.sum()).tolist():
        group = groups[number]
        wrong = np.setdiff1d(group.among, group.right, assume_unique=True)
        if len(wrong) < kind.negative:
            continue
        wanted = random.choice(group.right, kind.positive, replace=False)
        unwanted = random.choice(wrong, kind.negative, replace=False)
        query: Any = make_query(space, wanted.tolist(), unwanted.tolist())
        examples = np.sort(np.concatenate([wanted, unwanted]))
        depth = max(MIN_DEPTH, round(kind.k * len(group.among) / len(index)))
        hits = index.search(query, depth, among=group.among, exclude=examples, effort="exact")
        found = hits.ids[0][hits.ids[0] >= 0]
        scores.append(hits.scores[0][: len(found)])
        right.append(np.isin(found, group.right))
    return _fit(np.concatenate(scores), np.concatenate(right), source) if scores else None


def _labelled(space: Space) -> list[Judged]:
    """The pictures with exactly one label, by label."""
    index: Any = space.index
    labels = labels_of(space)
    ids = np.intersect1d(np.array(sorted(labels), np.int64), index.ids, assume_unique=True)
    if len(ids) > MAX_LABELLED:
        ids = np.sort(np.random.default_rng(0).choice(ids, MAX_LABELLED, replace=False))
    y = np.array([labels[item][0] for item in ids.tolist()])
    return [Judged(ids[y == label], ids) for label in np.unique(y)]


def _marked(space: Space) -> list[Judged]:
    """The pictures with marks, by open session; the positive ones of a finished session have its label."""
    index: Any = space.index
    sessions = space.store.judgements.sessions
    found = []
    for session in sessions.all():
        marks = sessions.marks(session.id) if session.state == "open" and session.relevant else {}
        right, wrong = (
            np.array([item for item, mark in marks.items() if mark == kind and item in index], np.int64)
            for kind in ("relevant", "irrelevant")
        )
        found.append(Judged(np.sort(right), np.union1d(right, wrong)))
    return found


def _fit(scores: Vectors, right: NDArray[np.bool_], source: str) -> Likelihood:
    """Isotonic regression of right on score; one wrong result at score 0 keeps it below 1."""
    order = np.argsort(scores, kind="stable")
    shares = make_monotone(np.concatenate([[0.0], right[order]]))[1:]
    ends = np.diff(shares, prepend=np.inf, append=-np.inf) != 0  # of blocks with the same share
    kept = ends[:-1] | ends[1:]
    return Likelihood(scores[order][kept].tolist(), shares[kept].tolist(), source)
