"""Feedback: how many marks a simulated user needs, with our methods and with others. Figures 4–7 of fsm-tree.

Rows are methods, columns are datasets and measures: precision after a round, marks until 80 %, the share of the dataset
that the search for questions scored, coverage and width of the estimate, and milliseconds of a round. Crucianu et al.
(fsm-tree), §4.

Protocol, as in the paper. The target of a session is one class of n items. The session starts with one of them and 8
random others; each round asks 9 questions. Precision is the share of the class among the n items ranked first.
`marks-80` is the mean number of marks when the precision of a session first reaches 80 %; a session that never does
counts as if it did one round later. The measured ranking is always exact; `pac` and `fast` search only for their
questions. `scored` is the share of the dataset that one search for frontier questions scored. `coverage` is the share
of sessions whose estimate contains n, `width` the upper end of the estimate divided by the lower one, and `bias` the
median of its likely value divided by n, all over sessions that have an estimate. `found` is the share of the class that
is marked positive after a round, and `worse` the share of sessions whose precision is below that of a search by the
example alone (`no-feedback`). `stop-95` is the share of the sessions that find 95 % of n in which a round reports that
nearly all are found, `stop-85` the share of all sessions in which a round does so before 85 % are found. In the sets
`-small`, the target class of a session keeps only 15 to 40 random items; the others are removed. `ms` is a round on the
method's own index, the 50 best and the questions, as in a collection: there `fast` also ranks by its leaves. Defaults
were chosen on classes 0, 2, 4 … of corel5k, mnist and coil100; targets here are classes 1, 3, 5 …, in turn. The paper
does not name its 52 hardest COIL objects: ours are the 52 with the lowest leave-one-out mAP by the classic descriptor.
`mnist` is the 60,000 training digits, pixels reduced by PCA to 64 dimensions.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import diags_array
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import kneighbors_graph
from sklearn.svm import LinearSVC

from lookalike.arrays import distances
from lookalike.encode.whiten import PCA
from lookalike.feedback.emulated_user import WINDOW, EmulatedUser, emulate
from lookalike.feedback.estimate import Estimate
from lookalike.feedback.learners import Svdd, Svm
from lookalike.feedback.round import Marks, RoundOutcome, nearly_all_found
from lookalike.feedback.round import run_round as play
from lookalike.index.flat import Flat
from lookalike.index.ids import sort_ids
from lookalike.index.queries import HyperplaneQuery
from lookalike.kernels import KERNELS
from lookalike.types import Hits, Ids, Progress, Query, Searchable, Vectors, silent
from lookalike_bench import datasets, retrieval
from lookalike_bench.datasets import LabelledVectors
from lookalike_bench.measures import Values, bootstrap, mean, median
from lookalike_bench.tables import Bench, PaperFigure, Score
from lookalike_bench.vectors import describe

ROUNDS = 15
SESSIONS = {"mnist": 15}
"""Sessions per cell; default 50."""
TIMED = 3
"""Sessions whose round 10 is repeated on the method's own index and timed."""
FOREST = 100
NEIGHBOURS, SPREAD, STEPS = 10, 0.8, 30
"""Label spreading: neighbours of each row, share of a row's score that comes from them, and iterations."""
PEERS = ("no-feedback", "peer-rocchio", "peer-forest", "peer-linear", "peer-logistic", "peer-spreading")
SIZES = (15, 40)
"""Smallest and largest target of the sets `-small`."""
MEASURES = ("precision-10", "marks-80", "scored-10", "coverage-8", "width-8", "ms")
CURVES = (
    *(f"precision-{turn}" for turn in (0, 1, 2, 3, 5, 8, 15)),
    *(f"scored-{turn}" for turn in (1, 5, 15)),
    *(f"{kind}-{turn}" for kind in ("coverage", "width") for turn in (3, 5, 10, 15)),
    *(f"bias-{turn}" for turn in (3, 5, 10)),
    "stop-95",
    "stop-85",
    *(f"{kind}-{turn}" for kind in ("found", "worse") for turn in (1, 2, 3, 5, 8, 10, 15)),
)
"""More measures, for plots by round."""
PAC = {"epsilon": 0.5, "delta": 0.1}
"""Relative error of PAC-NN, and the probability of a larger one; the paper does not report its values."""
HARDEST = 52
"""Number of objects of COIL-100 that are used."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Row:
    learner: Callable[[], Svm | Svdd] = Svm
    strategy: str = "mix"
    search: str = "exact"
    """The index that is searched for questions: "exact" Flat, "pac" an FSM-tree with PAC-NN, "fast" Leaves."""


def _svm(kernel: str) -> Callable[[], Svm | Svdd]:
    return lambda: Svm(kernel)


ROWS: dict[str, _Row | None] = {
    **{
        f"{kernel}-{search}": _Row(_svm(kernel), search=search)
        for search, kernel in product(("exact", "pac", "fast"), ("gaussian", "laplace", "angular"))
    },
    **{f"ask-{name}": _Row(strategy=name) for name in ("frontier", "maximum", "random", "sample")},
    "svdd": _Row(Svdd, "maximum"),
    **dict.fromkeys(PEERS),
}
"""`gaussian-exact` is the default of `play`; the rows `ask-…` differ from it only in the strategy."""


class PeerRound(NamedTuple):
    """A round of another method."""

    best: Ids  # (n,) all, best first
    questions: Ids  # (w,)
    estimate: Estimate | None = None  # these methods have none


class Outcome(NamedTuple):
    """Results of one method on one dataset. Columns that differ only in their measure share them."""

    precision: Values  # (sessions, rounds + 1), as all of these
    scored: Values  # share of the dataset scored by the search for questions
    coverage: Values  # 1 if the estimate contains n, else 0; NaN without an estimate
    width: Values  # upper end of the estimate / lower end
    bias: Values  # likely value of the estimate / n
    found: Values  # share of the class that is marked positive
    worse: Values  # 1 if the precision is below that of a search by example, else 0
    stop: Values  # 1 if the round reports that nearly all are found, else 0
    ms: list[float]  # of a round, one per timed session


_OUTCOMES: dict[tuple[Path, str, str], Outcome] = {}
"""Results that this process has measured."""


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:
    """Fill one cell. `seed` seeds the bootstrap; sessions are always the same."""
    name, measure = column.split("/")
    outcome = outcomes(row, name, data, progress)
    if measure == "ms":
        return Score("ms", float(np.median(outcome.ms)), min(outcome.ms), max(outcome.ms), scored=0)
    kind, number = measure.split("-")
    turn = int(number) - 1 if kind == "scored" else int(number)  # the questions of round N are chosen in N − 1
    if kind == "marks":
        values = marks_until(outcome.precision, int(number) / 100)
    elif measure == "stop-95":
        values = stops_when_found(outcome.stop, outcome.found, 0.95)
    elif measure == "stop-85":
        values = stops_early(outcome.stop, outcome.found, 0.85)
    else:
        values = getattr(outcome, kind)[:, turn]
    statistic = median if kind == "bias" else mean
    low, high = bootstrap(values, seed=seed, statistic=statistic)
    scored = int(outcome.scored[:, :-1].sum() * len(load_set(name, data).X))
    return Score(measure if kind == "stop" else kind, statistic(values), low, high, scored=scored)


def outcomes(row: str, name: str, data: Path, progress: Progress) -> Outcome:
    """Results of one method on one dataset, computed once per process."""
    key = data, row, name
    if key not in _OUTCOMES:
        base = load_set(name, data, progress)
        _OUTCOMES[key] = measure(row, base, SESSIONS.get(name, 50), progress, small=name.endswith("-small"))
        logger.info("%s, %s: precision by round %s", row, name, _OUTCOMES[key].precision.mean(axis=0).round(3).tolist())
    return _OUTCOMES[key]


def measure(
    row: str,
    base: LabelledVectors,
    sessions: int,
    progress: Progress,
    *,
    rounds: int = ROUNDS,
    half: int = 1,
    small: bool = False,
) -> Outcome:
    """Run sessions by the protocol above. `half` 0 is the half of the classes on which defaults were chosen."""
    targets = datasets.classes(base.labels)[half::2]
    method = ROWS[row] or _Row()
    options = PAC if method.search == "pac" else {}
    precision, scored, coverage, width, bias, found, worse = np.full((7, sessions, rounds + 1), np.nan)
    stop = np.zeros((sessions, rounds + 1))
    done = Outcome(precision, scored, coverage, width, bias, found, worse, stop, ms=[])
    everything = base
    for i in range(sessions):
        target = targets[i % len(targets)]
        if small:
            base = shrink(everything, target, np.random.default_rng([i, 1]))
        if small or i == 0:
            cached = CachedFlat()
            cached.add(np.arange(len(base.X)), base.X)
            index = make_index(method, base.X)
        user = EmulatedUser(cached.ids, cached.ids[base.labels == target])
        n = len(user.relevant)
        first, signs = user.start(np.random.default_rng(i))
        plain = user.precision(ask_peer("no-feedback", base.X, Marks(first, base.X[first], signs), seed=i).best)
        cached.forget()
        split = SplitIndex(cached, cached if method.search == "exact" else index, **options)
        played = player(row, base.X, split, seed=i, k=n)
        session = emulate(user, cached, Marks(first, base.X[first], signs), rounds, played)
        for turn, (marks, shown) in enumerate(session):
            done.precision[i, turn:] = user.precision(shown.best)  # also for later rounds, if no question is left
            done.worse[i, turn:] = done.precision[i, turn] < plain
            positives = int(np.count_nonzero(marks.y > 0))
            done.found[i, turn:] = positives / n
            done.scored[i, turn:] = split.share()
            if known := shown.estimate:
                done.bias[i, turn] = known.likely / n
                done.stop[i, turn] = nearly_all_found(known, positives)
                done.coverage[i, turn] = known.low <= n <= known.high
                done.width[i, turn] = known.high / known.low
            if i < TIMED and turn == min(10, rounds):
                again = player(row, base.X, SplitIndex(index, index, **options), seed=i)
                start = time.perf_counter()
                again(marks, turn)
                done.ms.append(1e3 * (time.perf_counter() - start))
        progress("sessions", i + 1, sessions)
    return done


def shrink(base: LabelledVectors, target: str, random: np.random.Generator) -> LabelledVectors:
    """The dataset with only a few random rows of one class, `SIZES`."""
    members = random.permutation(np.flatnonzero(base.labels == target))
    removed = members[random.integers(SIZES[0], SIZES[1] + 1) :]
    return LabelledVectors(np.delete(base.X, removed, axis=0), np.delete(base.labels, removed))


def player(
    row: str, X: Vectors, index: "SplitIndex", *, seed: int, k: int = 50
) -> Callable[[Marks, int], RoundOutcome | PeerRound]:
    """Return a function that runs rounds of one session by one method."""
    method = ROWS[row]
    if method is None:
        graph = neighbour_graph(X) if row == "peer-spreading" else None
        return lambda marks, _: ask_peer(row, X, marks, seed=seed, graph=graph)
    learner, strategy = method.learner, method.strategy
    return lambda marks, turn: play(index, marks, k=k, learner=learner(), strategy=strategy, seed=seed, turn=turn)


def make_index(method: _Row, X: Vectors) -> Searchable:
    """The index of all rows X (n, d) that answers the search for questions."""
    ids = np.arange(len(X))
    if method.search == "fast":
        from lookalike.index.leaves import Leaves  # numba takes a second to load

        leaves = Leaves()
        leaves.add(ids, X)
        return leaves.build()
    if method.search == "pac":
        from lookalike.index.fsm_tree import FsmTree

        tree = FsmTree(norm=KERNELS[method.learner().kernel].norm or 2)
        tree.add(ids, X)
        return tree
    flat = Flat()
    flat.add(ids, X)
    return flat


def ask_peer(name: str, X: Vectors, marks: Marks, *, seed: int, graph: Any = None) -> PeerRound:
    """A round of another method: a ranking of all rows X (n, d) and the next questions.

    peer-rocchio: inner products with 2·mean⁺ − mean⁻, asks about its best (FiftyOne, Qdrant); peer-forest: a random
    forest, asks around 0.5 (LightlyStudio); peer-linear: a linear SVM, asks about its best (Exquisitor); peer-logistic:
    logistic regression, asks about its best; peer-spreading: label spreading on `graph` (Zhou et al., 2004), asks about
    its best; no-feedback: similarity to the first example, asks about the nearest.
    """
    positive = marks.y > 0
    if name == "no-feedback":
        scores = doubt = -distances(X, marks.X[:1], 2)[:, 0]
    elif name == "peer-logistic":
        scores = doubt = LogisticRegression(class_weight="balanced").fit(marks.X, marks.y).decision_function(X)
    elif name == "peer-spreading":
        scores = doubt = spread_labels(neighbour_graph(X) if graph is None else graph, marks)
    elif name == "peer-forest":
        forest = RandomForestClassifier(FOREST, class_weight="balanced", random_state=seed).fit(marks.X, marks.y)
        scores = forest.predict_proba(X)[:, 1]
        doubt = -np.abs(scores - 0.5)
    elif name == "peer-linear":
        scores = doubt = (
            LinearSVC(class_weight="balanced", random_state=seed).fit(marks.X, marks.y).decision_function(X)
        )
    else:
        scores = doubt = X @ (2 * marks.X[positive].mean(axis=0) - marks.X[~positive].mean(axis=0))
    shuffled = np.random.default_rng(seed).permutation(len(X))  # a forest has many ties
    order = shuffled[np.argsort(-scores[shuffled], kind="stable")]
    doubtful = shuffled[np.argsort(-doubt[shuffled], kind="stable")]
    return PeerRound(order, doubtful[~np.isin(doubtful, marks.ids)][:WINDOW])


def neighbour_graph(X: Vectors) -> Any:
    """The normalised adjacency D^-½ W D^-½ (n, n), sparse, of the graph of nearest neighbours of rows X (n, d)."""
    W = kneighbors_graph(X, min(NEIGHBOURS, len(X) - 1))
    W = W.maximum(W.T)
    scale = diags_array(np.asarray(W.sum(axis=1)).ravel() ** -0.5)
    return (scale @ W @ scale).tocsr()


def spread_labels(graph: Any, marks: Marks) -> Values:
    """Scores (n,) of label spreading; both signs start with the same total weight."""
    start = np.zeros(graph.shape[0])
    for sign in (1, -1):
        mine = marks.ids[marks.y == sign]
        start[mine] = sign / max(1, len(mine))
    scores = start
    for _ in range(STEPS):
        scores = SPREAD * (graph @ scores) + (1 - SPREAD) * start
    return scores


def marks_until(precision: Values, enough: float) -> Values:
    """Marks when each session, (s, rounds + 1), first reaches `enough`; one window more than all if it never does so.

    >>> marks_until(np.array([[0.1, 0.8, 0.7], [0.2, 0.3, 0.4]]), 0.8).tolist()
    [18.0, 36.0]
    """
    there = precision >= enough
    first = np.where(there.any(axis=1), there.argmax(axis=1), precision.shape[1])
    values: Values = (WINDOW * (first + 1)).astype(np.float64)
    return values


def stops_when_found(stop: Values, found: Values, share: float) -> Values:
    """1 for each session in which a round reports that nearly all are found, else 0; NaN if it never finds this share.

    `stop` and `found` are (s, rounds + 1), as in `Outcome`.

    >>> stop, found = np.array([[0.0, 1], [1, 1], [0, 0]]), np.array([[0.5, 1], [0.6, 0.7], [0.5, 0.96]])
    >>> stops_when_found(stop, found, 0.95).tolist()
    [1.0, nan, 0.0]
    """
    return np.where(found.max(axis=1) >= share, stop.max(axis=1), np.nan)


def stops_early(stop: Values, found: Values, share: float) -> Values:
    """1 for each session in which a round reports that nearly all are found before this share is, else 0.

    >>> stop, found = np.array([[0.0, 1], [1, 1], [0, 0]]), np.array([[0.5, 1], [0.6, 0.7], [0.5, 0.96]])
    >>> stops_early(stop, found, 0.85).tolist()
    [0.0, 1.0, 0.0]
    """
    early: Values = np.max(stop * (found < share), axis=1)
    return early


class CachedFlat(Flat):
    """A flat index over ids 0 … n − 1 that caches the distances of all rows to each support vector.

    It answers hyperplane queries as `Flat` does, but faster if an earlier query had most of the support vectors, as in
    the rounds of a session.
    """

    def __init__(self) -> None:
        super().__init__()
        self._rows: Vectors | None = None
        self.forget()

    def forget(self) -> None:
        """Clear the cache for a new session, which has other support vectors."""
        self._columns: dict[tuple[int, bytes], Vectors] = {}
        self._last: tuple[Any, NDArray[np.float32]] | None = None

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """As `Flat`, in float32."""
        norm = KERNELS[query.kernel].norm if isinstance(query, HyperplaneQuery) else None
        if not isinstance(query, HyperplaneQuery) or norm is None or among is not None:
            return super().search(query, k, among=among, exclude=exclude, effort=effort)
        f = self._decide(query, norm)  # (n,)
        scores = np.abs(f) if query.kind == "frontier" else -f
        if exclude is not None:
            scores[sort_ids(exclude)] = np.inf
        k = min(k, len(scores))
        best = np.argpartition(scores, k - 1)[:k]
        best = best[np.lexsort([best, scores[best]])]
        best = best[np.isfinite(scores[best])]
        return Hits(best[None], scores[best][None], len(scores))

    def _decide(self, query: HyperplaneQuery, norm: int) -> NDArray[np.float32]:
        key = (query.X.tobytes(), query.a.tobytes(), query.b, query.kernel, query.gamma)
        if self._last is None or self._last[0] != key:
            if self._rows is None:
                self._rows = self.vectors(self.ids)  # (n, d)
            rows = self._rows
            f = np.full(len(rows), query.b, np.float32)
            for x, a in zip(query.X, query.a, strict=True):
                near = (norm, x.tobytes())
                if near not in self._columns:
                    self._columns[near] = distances(rows, x[None], norm)[:, 0].astype(np.float32)
                D = self._columns[near]
                if KERNELS[query.kernel].balanced:
                    f -= np.float32(a) * D
                else:
                    f += np.float32(a) * np.exp(-np.float32(query.gamma) * (D * D if "gauss" in query.kernel else D))
            self._last = key, f / np.float32(query.length)
        return self._last[1].copy()


class SplitIndex:
    """Sends frontier queries to `asking` and counts the rows they score; `ranking` answers the others."""

    def __init__(self, ranking: Searchable, asking: Searchable, **options: Any):
        self.ranking, self.asking, self.options = ranking, asking, options
        self.asked = self.scored = 0

    def __len__(self) -> int:
        return len(self.ranking)

    @property
    def dim(self) -> int | None:
        """d."""
        return self.ranking.dim

    @property
    def ids(self) -> Ids:
        """Ids of the ranked rows."""
        return self.ranking.ids

    def vectors(self, ids: Ids) -> Vectors:
        """The rows of these ids, (m, d)."""
        return self.ranking.vectors(ids)

    def share(self) -> float:
        """Mean share of all rows that a frontier query scored since the last call; 1 if there was none."""
        share = self.scored / self.asked / len(self) if self.asked else 1.0
        self.asked = self.scored = 0
        return share

    def search(self, query: Query, k: int, **options: Any) -> Hits:
        """Answer a query with the index for its kind."""
        if getattr(query, "kind", "maximum") != "frontier":
            return self.ranking.search(query, k, **options)
        hits = self.asking.search(query, k, **options, **self.options)
        self.asked += 1
        self.scored += hits.scored
        return hits


_SETS: dict[tuple[Path, str], LabelledVectors] = {}


def load_set(name: str, folder: Path, progress: Progress = silent) -> LabelledVectors:
    """Vectors and labels of a dataset in `SETS`, computed once per process."""
    if (folder, name) not in _SETS:
        _SETS[folder, name] = SETS[name](folder, progress)
    return _SETS[folder, name]


def _pictures(name: str, recipe: str) -> Callable[[Path, Progress], LabelledVectors]:
    return lambda folder, progress: LabelledVectors(*describe(name, recipe, folder, progress)[:2])


def _coil(recipe: str) -> Callable[[Path, Progress], LabelledVectors]:
    def make(folder: Path, progress: Progress) -> LabelledVectors:
        hardest = _hardest(folder, progress)
        X, labels, _ = describe("coil100", recipe, folder, progress)
        kept = np.isin(labels, hardest)
        return LabelledVectors(X[kept], labels[kept])

    return make


def _hardest(folder: Path, progress: Progress) -> list[str]:
    X, labels, _ = describe("coil100", "classic", folder, progress)
    rows = np.arange(len(X))
    value = retrieval.COLUMNS["corel1k"].value  # mAP without the query
    values = retrieval.rank(X, labels, value, progress, queries=rows, database=rows)
    objects = np.unique(labels)
    by_object = np.array([values[labels == name].mean() for name in objects])
    return [str(name) for name in objects[np.argsort(by_object, kind="stable")[:HARDEST]]]


def _mnist(folder: Path, progress: Progress) -> LabelledVectors:  # noqa: ARG001
    X, labels = datasets.mnist(folder)
    return LabelledVectors(PCA(dim=64).fit(X).transform(X), labels)


SETS: dict[str, Callable[[Path, Progress], LabelledVectors]] = {
    "coil100": _coil("deep-plain"),
    "corel5k": _pictures("corel5k", "deep-plain"),
    "mnist": _mnist,
    "tinyimagenet40": _pictures("tinyimagenet40", "deep-plain"),
    "corel5k-small": _pictures("corel5k", "deep-plain"),
    "corel5k-smooth": _pictures("corel5k", "deep"),
    "coil100-classic": _coil("classic"),
    "corel5k-classic": _pictures("corel5k", "classic"),
}
"""Datasets with the default or the classic recipe; for mnist, pixels reduced by PCA to 64 dimensions."""
COLUMNS = [f"{name}/{measure}" for measures in (MEASURES, CURVES) for name, measure in product(SETS, measures)]


USUAL = [
    *(f"coil100-classic/{kind}-{turn}" for kind in ("precision", "scored") for turn in (1, 5, 10, 15)),
    "coil100-classic/marks-80",
]
"""Columns that correspond to figures of the paper, and the marks that a user needs."""


def paper(row: str, column: str) -> PaperFigure:
    """Figures 4 and 5 are plots of the SVM rows on COIL, without numbers."""
    name, measure = column.split("/")
    figure = {"scored": "Fig. 4", "precision": "Fig. 5"}.get(measure.split("-")[0])
    asked = ROWS[row]
    drawn = asked is not None and asked.search != "fast" and asked.strategy == "mix"
    if name != "coil100-classic" or figure is None or not drawn:
        return PaperFigure()
    return PaperFigure(
        None, f"{figure} of the paper is a plot without numbers, and the paper does not name its 52 objects"
    )


def seconds(row: str, column: str) -> float:
    """Estimated seconds; columns of a dataset share the sessions."""
    name, measure = column.split("/")
    if measure != "precision-1":
        return 0.2
    return {"peer-forest": 250.0, "svdd": 15.0}.get(row, 45.0) * (4 if name == "mnist" else 1)


def shares(row: str, column: str) -> str:
    """Columns share the sessions of a row; slow rows get their own process."""
    return f"{column.split('/')[0]} {row if row == 'peer-forest' else ''}"


def check(columns: Sequence[str], data: Path) -> None:
    """Raise an error before the first cell if a dataset is missing."""
    for name in {column.split("/")[0].split("-")[0] for column in columns}:
        datasets.check(name, data)


BENCH = Bench(
    "feedback",
    "precision and marks in simulated feedback sessions",
    tuple(ROWS),
    tuple(COLUMNS),
    run,
    check,
    on_request=(
        *(column for column in COLUMNS if column not in USUAL),
        *(row for row in ROWS if row.startswith("ask-") or row.endswith("-fast") or row == "peer-forest"),
        "no-feedback",
        "peer-logistic",
        "peer-spreading",
    ),
    paper=paper,
    seconds=seconds,
    shares=shares,
)
