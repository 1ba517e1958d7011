"""One round of feedback: learn from the marks, rank the collection, choose the next questions.

§2 of Crucianu et al. (fsm-tree): train on all marks, rank by the most positive, ask about the most ambiguous. A round
also estimates the number of positive items, and reports when more marks would not help.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, to_numpy
from lookalike.errors import InputError, NoDirectionError
from lookalike.feedback.estimate import Estimate, Unmarked, estimate_total
from lookalike.feedback.learners import Learner, Ranking, Reals, Signs, Svm
from lookalike.feedback.questions import Candidates, approximate_effort, choose_questions, draw
from lookalike.index.ids import sort_ids
from lookalike.index.queries import PointQuery, WeightedQuery
from lookalike.limits import check_count
from lookalike.types import Ids, Query, Searchable, Vectors

MIN_NEGATIVES = 8
"""Minimum number of negative examples: if fewer are marked, random items are assumed negative."""
PRESUMED_POSITIVES = 32
"""Number of random items that are assumed positive if all marks are negative."""
PRESUMED_WEIGHT = 0.5
"""Weight of an assumed mark."""
STABLE_WINDOWS, STABLE_MARKS = 3, 3
"""A session can stop if the marks of this many windows were as predicted, with this many of each sign."""
NEARLY_ALL = 0.75
"""Nearly all positives are probably found if the number found exceeds this share of the upper end of the estimate."""
HEAD, TAIL = 250, 250
"""Number of items that the estimate uses: the highest-scoring ones, and a random sample of the others."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Marked rows, in the order of the marks. If an item has several marks, the last one counts."""

    ids: Ids  # (m,) -1 for an example that is not in the index
    X: Vectors  # (m, d)
    y: NDArray[np.int8]  # (m,) +1 positive, -1 negative


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """The result of a round."""

    best: Ids  # (k,) best first, without items marked negative
    scores: Vectors  # (k,) smaller is better
    questions: Ids  # (w,) never marked or skipped before
    found: int  # items marked positive, of those that are ranked
    estimate: Estimate | None  # of the number of positive items; None: too few marks
    stop: str | None  # a sentence with the reason if more marks will not help
    ranking: Query  # the query that ranked the items
    scored: int  # number of vectors compared with a query
    seconds: dict[str, float]  # train, search, select, estimate
    presumed: int = 0  # number of random items used as additional marks
    blend: float = 1.0  # weight of the learner in the ranking; 1 - blend is that of similarity to the examples


def run_round(
    index: Searchable,
    marks: Marks,
    *,
    k: int = 50,
    window: int = 9,
    among: Ids | None = None,
    exclude: Ids | None = None,
    ask_first: Ids | None = None,
    effort: float | str | None = None,
    learner: Learner | None = None,
    strategy: str = "mix",
    seed: int = 0,
    turn: int = 0,
) -> RoundOutcome:
    """Learn from the marks, rank the index, and choose the next questions.

    Options:

    index : any index with `ids`, `vectors(ids)` and `dim`.
    marks : at least one. A mark of an item that is no longer in the index still counts, by its row.
    k, window : number of items to rank, and of questions; fewer are returned if there are fewer.
    among : the only items to rank and to ask about; by default all.
    exclude : skipped items, which are ranked, but never asked about.
    ask_first : items to ask about before all others, in this order; by default none.
    effort : search effort of the index.
    learner : by default `Svm()`.
    strategy : a name in `questions.STRATEGIES`.
    seed, turn : random seeds, not negative. Assumed marks and the estimate's sample depend only on the seed, so that
        the same marks give the same ranking in every round. Questions depend on both.

    Examples
    --------
    >>> from lookalike.index.flat import Flat
    >>> index, X = Flat(), np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    >>> X[:20] += 4
    >>> index.add(np.arange(60), X)
    >>> first = run_round(index, Marks(np.array([3]), X[3:4], np.array([1], np.int8)), k=10)
    >>> bool(np.all(first.best < 20)), len(first.questions)
    (True, 9)

    """
    check_count("k", k)
    check_count("window", window, 0)
    marks = _check_marks(marks, index.dim)
    everything = index.ids
    ranked = everything if among is None else np.intersect1d(sort_ids(among, "among"), everything)
    marked = np.unique(marks.ids[marks.ids >= 0])
    not_asked = marked if exclude is None else np.union1d(marked, sort_ids(exclude, "exclude"))
    random = np.random.default_rng(seed)
    asking = np.random.default_rng([seed, turn + 1])  # [seed, 0] gives the same numbers as seed
    learner = Svm() if learner is None else learner
    clock = _Clock()

    with clock("train"):
        X, y, weights = _add_presumed(index, marks, draw(ranked, marked, PRESUMED_POSITIVES, random))
        ranking = _train(learner, X, y, weights)
        held_out = ranking.held_out if ranking else None
    with clock("search"):
        similarity: Query = WeightedQuery(PointQuery(marks.X), (marks.y / len(marks.y)).tolist())
        query = ranking.query if ranking else similarity
        negative = marked[~np.isin(marked, marks.ids[marks.y > 0])]
        hits = index.search(query, k, among=among, exclude=negative, effort=effort)
        real = hits.ids[0] >= 0
        best, scores = hits.ids[0][real], hits.scores[0][real]
        positives = int(np.count_nonzero(marks.y > 0))
        candidates = Candidates(index, among, not_asked, effort, asking, ranked, positives, ranking=query, best=best)
    with clock("estimate"):
        found = int(np.count_nonzero(_within(np.unique(marks.ids[marks.y > 0]), ranked)))
        total = None
        if ranking is not None:
            unmarked = _sample_unmarked(query, candidates, marked, random)
            total = estimate_total(marks.X, marks.y, unmarked, found, seed=seed)
    with clock("select"):
        candidates.unfound = total.likely - found if total else None
        knows = ranking is not None and positives > 0  # without positives, the hyperplane is arbitrary
        questions = (
            choose_questions(candidates, learner, window, strategy if knows else "random") if window else best[:0]
        )
        if ask_first is not None:
            first = ask_first[np.isin(ask_first, ranked) & ~np.isin(ask_first, not_asked)]
            questions = np.concatenate([first, questions[~np.isin(questions, first)]])[:window]
    return RoundOutcome(
        best=best,
        scores=scores,
        questions=questions,
        found=found,
        estimate=total,
        stop=_reason_to_stop(marks, held_out, questions, total, found, window),
        ranking=query,
        scored=hits.scored + candidates.scored,
        seconds=clock.seconds,
        presumed=len(y) - len(marks.y),
        blend=ranking.blend if ranking else 0.0,
    )


def _check_marks(marks: Marks, dim: int | None) -> Marks:
    """Check the marks and keep the last one of each item."""
    if dim is None:
        raise InputError("The index is empty. Add vectors first.")
    X = to_numpy(check_rows(marks.X, dim=dim, name="marks"))
    ids, y = np.asarray(marks.ids), np.asarray(marks.y)
    if not len(X):
        raise InputError("Feedback needs at least one mark. Got none.")
    if not ids.shape == y.shape == (len(X),) or not np.all(np.isin(y, (1, -1))):
        raise InputError(
            f"marks must have an id and a sign, +1 or -1, for each of their {len(X)} rows."
            f" Got {ids.shape} ids and {y.shape} signs, from {y.min(initial=1)} to {y.max(initial=-1)}."
        )
    last = {int(item) if item >= 0 else row.tobytes(): i for i, (item, row) in enumerate(zip(ids, X, strict=True))}
    kept = sorted(last.values())
    return Marks(ids[kept].astype(np.int64), X[kept], y[kept].astype(np.int8))


def _add_presumed(index: Searchable, marks: Marks, others: Ids) -> tuple[Vectors, Signs, Reals]:
    """Rows, signs and weights for learning: the marks, then random items `others` as assumed marks.

    If there are few negatives, random items are assumed negative, as most items are. If there are no positives, random
    items are assumed positive, so that the ranking moves away from the negatives.
    """
    positives = np.count_nonzero(marks.y > 0)
    missing = PRESUMED_POSITIVES if not positives else max(0, MIN_NEGATIVES - (len(marks.y) - positives))
    extra = index.vectors(others[:missing])  # (e, d)
    X = np.concatenate([marks.X, extra]).astype(np.float32)
    y = np.append(marks.y, np.full(len(extra), -1 if positives else 1)).astype(np.int8)
    return X, y, np.append(np.ones(len(marks.y)), np.full(len(extra), PRESUMED_WEIGHT))


def _train(learner: Learner, X: Vectors, y: Signs, weights: Reals) -> Ranking | None:
    """Fit the learner; None if the marks define no direction because all signs, or all rows, are equal."""
    if len(set(y.tolist())) < 2:
        return None
    try:
        return learner.fit(X, y, weights).ranking()
    except NoDirectionError:
        return None


def _sample_unmarked(query: Query, candidates: Candidates, marked: Ids, random: np.random.Generator) -> Unmarked:
    """The ranked items without a mark: the highest-scoring ones, and a random sample of the others."""
    index, ids = candidates.index, candidates.ids
    # Items that the search misses count as others, which makes the estimate only slightly less precise.
    effort = "exact" if candidates.effort == "exact" else approximate_effort(len(ids))
    hits = index.search(query, min(HEAD, len(ids)), among=candidates.among, exclude=marked, effort=effort)
    head = hits.ids[0][hits.ids[0] >= 0]
    known = np.union1d(head, marked)
    tail = draw(ids, known, TAIL, random)
    candidates.scored += hits.scored + len(tail)
    rest = len(ids) - np.count_nonzero(_within(known, ids))
    return Unmarked(index.vectors(head), index.vectors(tail), n=int(rest))


def nearly_all_found(total: Estimate, found: int) -> bool:
    """Whether the number found is close to the upper end of the estimate."""
    return found > NEARLY_ALL * total.high


def _reason_to_stop(
    marks: Marks, held_out: Reals | None, questions: Ids, total: Estimate | None, found: int, window: int
) -> str | None:
    """A sentence with the reason if more marks will not help."""
    if window and not len(questions):
        return "No questions are left: every picture is marked or skipped."
    if total and nearly_all_found(total, found):
        return f"You have probably found nearly all: {found} of about {total.likely}."
    m, last = len(marks.y), STABLE_WINDOWS * window
    if held_out is not None and window and m > last:
        predicted, signs = held_out[m - last : m], marks.y[-last:]
        both = min(np.count_nonzero(signs > 0), np.count_nonzero(signs < 0)) >= STABLE_MARKS
        if both and np.all(np.sign(predicted) == signs):
            return f"Your last {last} answers were as predicted. More answers will hardly change the ranking."
    return None


def _within(some: Ids, ids: Ids) -> NDArray[np.bool_]:
    """Which of `some` are in `ids`, ascending; fast for a few in many."""
    if not len(ids):
        return np.zeros(len(some), np.bool_)
    found: NDArray[np.bool_] = ids[np.minimum(np.searchsorted(ids, some), len(ids) - 1)] == some
    return found


class _Clock:
    """Measures seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start
