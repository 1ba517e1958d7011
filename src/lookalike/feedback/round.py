"""One round of feedback: marks in, a ranking and the next questions out.

In: an index and the marks so far. Out: a `Round`. §2 of Crucianu et al. (fsm-tree): train on all marks, rank by the
most positive, ask about the most ambiguous. Around it a guard (`guard`), an estimate of how many there are, and a word
when more marks would not help.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_count, check_rows, to_numpy
from lookalike.errors import InputError, NoDirectionError
from lookalike.feedback.estimate import Crowd, Estimate, estimate
from lookalike.feedback.guard import Guarded, guard
from lookalike.feedback.learners import Reals, Signs, Svm
from lookalike.feedback.select import Source, choose, draw
from lookalike.index.ids import sort_ids
from lookalike.index.queries import HyperplaneQuery, PointQuery, WeightedQuery
from lookalike.types import Ids, Learner, Query, Searchable, Vectors

NEGATIVES = 8
"""Unwanted examples that a learner is given at least: where fewer are marked, random items are presumed unwanted."""
STRANGERS = 32
"""Items at random that are presumed wanted while all that a person said is no."""
PRESUMED = 0.5
"""How far a presumed mark is trusted."""
CALM, BOTH = 3, 3
"""Feedback may stop when all answers of so many windows were expected, at least so many of them yes and as many no."""
NEARLY = 1.05
"""Probably all are found when no more than so many times those that are found are believed to be there."""
HEAD, TAIL = 500, 500
"""Items that the estimate looks at: the most positive, and a random sample of the rest."""
HASTY = 0.02
"""The effort that goes into finding the most positive: those that are overlooked are of the rest, and nothing is lost
but a little sharpness."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What a person said, in the order they said it. Of several marks of one item, the last counts."""

    ids: Ids  # (m,) -1 for an example that is not in the index
    X: Vectors  # (m, d)
    y: NDArray[np.int8]  # (m,) +1 wanted, -1 not


@dataclass(frozen=True, slots=True)
class Round:
    """What a round shows, asks and knows."""

    best: Ids  # (k,) most wanted first, marked ones included where the learner ranks them
    scores: Vectors  # (k,) smaller is better
    questions: Ids  # (w,) never marked, never skipped
    found: int  # marked as wanted, of those that may be ranked
    estimate: Estimate | None  # how many there are in all; None while nobody can tell
    stop: str | None  # a sentence, where more marks will not help
    ranking: Query  # what the items were ranked by
    scored: int  # vectors compared with a query
    seconds: dict[str, float]  # train, search, select, estimate
    presumed: int = 0  # random items that the learner was given in the place of missing marks
    blend: float = 1.0  # how much of the ranking is the learner's; the rest is likeness to the examples


def play(
    index: Searchable,
    marks: Marks,
    *,
    k: int = 50,
    window: int = 9,
    among: Ids | None = None,
    exclude: Ids | None = None,
    effort: float | str | None = None,
    learner: Learner | None = None,
    strategy: str = "mix",
    seed: int = 0,
    turn: int = 0,
) -> Round:
    """Learn from the marks, rank, and choose what to ask next.

    Takes:

    index : any index with `ids`, `vectors(ids)` and `dim`.
    marks : at least one. An id that is gone from the index still teaches by its row.
    k, window : how many to rank and to ask about; fewer come back where there are fewer.
    among : only these items are ranked and asked about.
    exclude : skipped items: never asked about, still ranked.
    effort : passed on to the index.
    learner : an `Svm` by default; one of another kind ranks without the guard and without an estimate.
    strategy : a name of `select.STRATEGIES`.
    seed, turn : draw what is presumed and the estimate's sample (the seed alone: the same marks are ranked the same in
        every round) and the questions (both). Neither may be negative.

    Examples
    --------
    >>> from lookalike.index.flat import Flat
    >>> index, X = Flat(), np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    >>> X[:20] += 4
    >>> index.add(np.arange(60), X)
    >>> first = play(index, Marks(np.array([3]), X[3:4], np.array([1], np.int8)), k=10)
    >>> bool(np.all(first.best < 20)), first.presumed, len(first.questions)
    (True, 8, 9)

    """
    check_count("k", k)
    check_count("window", window, 0)
    marks = check(marks, index.dim)
    everything = index.ids
    ranked = everything if among is None else np.intersect1d(sort_ids(among, "among"), everything)
    marked = np.unique(marks.ids[marks.ids >= 0])
    silent = marked if exclude is None else np.union1d(marked, sort_ids(exclude, "exclude"))
    random = np.random.default_rng(seed)
    asking = np.random.default_rng([seed, turn + 1])  # [seed, 0] would be the same numbers as seed
    clock = _Clock()
    source = Source(index, among, silent, effort, asking, ranked, float(np.mean(marks.y[-max(1, window) :] > 0)))

    with clock("train"):
        X, y, weights = presume(index, marks, draw(ranked, marked, STRANGERS, random))
        chosen: Learner = Svm() if learner is None else learner
        trained = len(set(y.tolist())) == 2
        try:
            guarded = _train(chosen, X, y, weights) if trained else None
        except NoDirectionError:  # the marks are all alike: there is only likeness to go by
            trained, guarded = False, None
    with clock("search"):
        likeness: Query = WeightedQuery(PointQuery(marks.X), (marks.y / len(marks.y)).tolist())
        query = guarded.query if guarded else chosen.best() if trained else likeness
        hits = index.search(query, k, among=among, effort=effort)
        real = hits.ids[0] >= 0
        best, scores = hits.ids[0][real], hits.scores[0][real]
    with clock("select"):
        source.ranking, source.best = query, best
        knows = trained and np.any(marks.y > 0)  # who knows only what is not wanted has nowhere to ask
        questions = choose(source, chosen, window, strategy if knows else "random") if window else best[:0]
    with clock("estimate"):
        found = int(np.count_nonzero(_within(np.unique(marks.ids[marks.y > 0]), ranked)))
        guess = None
        if guarded:
            crowd = _crowd(guarded.query, source, marked, random)
            guess = estimate(guarded.heldout[: len(marks.y)], marks.y, crowd, found, seed=seed)
    return Round(
        best=best,
        scores=scores,
        questions=questions,
        found=found,
        estimate=guess,
        stop=suggest(marks, guarded, questions, guess, found, window),
        ranking=query,
        scored=hits.scored + source.scored,
        seconds=clock.seconds,
        presumed=len(y) - len(marks.y),
        blend=guarded.blend if guarded else float(trained),
    )


def check(marks: Marks, dim: int | None) -> Marks:
    """The marks, each item once; or an InputError."""
    if dim is None:
        raise InputError("There is nothing in the index yet. Add something first.")
    X = to_numpy(check_rows(marks.X, dim=dim, name="marks"))
    ids, y = np.asarray(marks.ids), np.asarray(marks.y)
    if not len(X):
        raise InputError("Feedback begins with at least one mark. Got none.")
    if not ids.shape == y.shape == (len(X),) or not np.all(np.isin(y, (1, -1))):
        raise InputError(
            f"marks must have an id and a sign, +1 or -1, for each of their {len(X)} rows."
            f" Got {ids.shape} ids and {y.shape} signs, from {y.min(initial=1)} to {y.max(initial=-1)}."
        )
    last = {int(item) if item >= 0 else row.tobytes(): i for i, (item, row) in enumerate(zip(ids, X, strict=True))}
    kept = sorted(last.values())  # of several marks of one item, the last counts
    return Marks(ids[kept].astype(np.int64), X[kept], y[kept].astype(np.int8))


def presume(index: Searchable, marks: Marks, strangers: Ids) -> tuple[Vectors, Signs, Reals]:
    """Rows, signs and weights to learn from: the marks, then random items in the place of marks that are missing.

    Few or no negatives: some items at random are presumed unwanted, as most items are. No positives at all: they are
    presumed wanted, so that what is ranked first is at least unlike all that was refused.
    """
    wanted = np.count_nonzero(marks.y > 0)
    missing = STRANGERS if not wanted else max(0, NEGATIVES - (len(marks.y) - wanted))
    extra = index.vectors(strangers[:missing])  # (e, d)
    X = np.concatenate([marks.X, extra]).astype(np.float32)
    y = np.append(marks.y, np.full(len(extra), -1 if wanted else 1)).astype(np.int8)
    return X, y, np.append(np.ones(len(marks.y)), np.full(len(extra), PRESUMED))


def suggest(
    marks: Marks, guarded: Guarded | None, questions: Ids, guess: Estimate | None, found: int, window: int
) -> str | None:
    """A sentence where more marks will not help."""
    if window and not len(questions):
        return "There is nothing left to ask about: everything was marked or skipped."
    lately = CALM * window
    if guess and guess.likely <= NEARLY * found and len(marks.y) > window and not np.any(marks.y[-window:] > 0):
        return f"Probably all are found: {found} of about {guess.likely}."
    if guarded and window and len(marks.y) > lately:
        last, said = guarded.heldout[len(marks.y) - lately : len(marks.y)], marks.y[-lately:]
        both = min(np.count_nonzero(said > 0), np.count_nonzero(said < 0)) >= BOTH
        if both and np.all(np.sign(last) == said):
            return f"The last {lately} answers were as expected: more of them will hardly change the ranking."
    return None


def _train(learner: Learner, X: Vectors, y: Signs, weights: Reals) -> Guarded | None:
    if not isinstance(learner, Svm):
        learner.fit(X, y)
        return None
    learner.fit(X, y, weights)
    return guard(learner, X.astype(np.float64), y, weights)


def _crowd(query: HyperplaneQuery, source: Source, marked: Ids, random: np.random.Generator) -> Crowd:
    """What the ranking thinks of everything that was not marked."""
    effort = "exact" if source.effort == "exact" else HASTY
    hits = source.index.search(query, min(HEAD, len(source.ids)), among=source.among, effort=effort)
    head, scores = hits.ids[0], hits.scores[0].astype(np.float64)
    fresh = (head >= 0) & ~np.isin(head, marked)
    known = np.union1d(head[head >= 0], marked)
    tail = draw(source.ids, known, TAIL, random)
    source.scored += hits.scored + len(tail)
    rest = len(source.ids) - np.count_nonzero(_within(known, source.ids))
    distances = query.distance(source.index.vectors(tail)) if len(tail) else np.empty(0)
    return Crowd(head=-scores[fresh], tail=distances, n=int(rest))


def _within(some: Ids, ids: Ids) -> NDArray[np.bool_]:
    """Which of `some` are among `ids`, ascending: a few among many."""
    if not len(ids):
        return np.zeros(len(some), np.bool_)
    found: NDArray[np.bool_] = ids[np.minimum(np.searchsorted(ids, some), len(ids) - 1)] == some
    return found


class _Clock:
    """Seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start
