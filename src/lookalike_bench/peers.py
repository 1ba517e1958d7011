"""Comparison with other libraries: the same vectors, the same k, one thread each, alternating in one run.

Columns are measures on synthetic vectors, or on a dataset in the data folder. `speed` is our speed-up over the other
library: the median, and the interval of 80 % of the turns. `ours` and `theirs` are the quality of both sides, from 0 to
1, and `quality` is ours divided by theirs, with an interval by bootstrap over the turns. Below 1, the other library is
ahead.

Protocol. Search: 10 nearest of 50,000 vectors in 128 dimensions around 250 centres, with a falling spectrum as after a
PCA (`search_peers`); codes are random. Hyperplanes: 50 best of 50,000 vectors of the `hyperplane` benchmark. Learners:
scikit-learn's digits, or 2,000 vectors of a dataset, of its first 10 classes by name, three splits; every side uses its
defaults. The time is that of `fit`, unless the function of the row documents another, and quality is the accuracy on
the test set. Feedback: sessions as in the `feedback` benchmark. On a dataset, codes are those of `itq`, 64 bits. No
parameter is chosen by test labels.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid, NeighborhoodComponentsAnalysis
from sklearn.svm import LinearSVC

import lookalike
from lookalike.arrays import unit_rows
from lookalike.classes.open_set import OpenSet
from lookalike.encode.esvm import Esvm
from lookalike.encode.slem import Slem
from lookalike.errors import MissingError
from lookalike.feedback.emulated_user import WINDOW, EmulatedUser, emulate
from lookalike.feedback.round import Marks
from lookalike.feedback.round import run_round as play
from lookalike.index.flat import Flat
from lookalike.learn.chunklets import Rca
from lookalike.learn.lmnn import Lmnn
from lookalike.learn.ncmml import Ncmml
from lookalike.types import Ids, Progress, Vectors
from lookalike_bench import datasets, metric_learn_fit
from lookalike_bench.feedback import CachedFlat, ask_peer, load_set
from lookalike_bench.hyperplane import K
from lookalike_bench.measures import average_precision, bootstrap, mean
from lookalike_bench.search_peers import SEARCH_PEERS
from lookalike_bench.side_by_side import (
    DRAWN,
    SETS,
    Compared,
    Place,
    Split,
    Timed,
    clocked,
    grouped,
    in_turns,
    one_thread,
    splits,
)
from lookalike_bench.tables import RATIO, Bench, Score

FIGURES = {"speed": RATIO, "quality": "quality ratio", "ours": "share", "theirs": "share"}
COLUMNS = tuple(f"{name}/{figure}" for name in SETS for figure in FIGURES)
DRAWN_ONLY = ("faiss-binary-tables", "faiss-binary-tables-32")
"""Rows for which datasets are too small."""
PROJECTED, NEIGHBOURS = 16, 3
"""Dimension of learned metrics, and neighbours that vote."""
CLASSIFIED, ADDED, TURNS = 20_000, 100, 11
"""Rows for class means, rows of a new class, and turns."""
ENCODED, LAM = 150, 1e-2
"""Rows to encode, and λ of both encoders."""
SESSIONS, ROUNDS = 15, 10
SESSION_ROWS = 20_000
"""Maximum number of rows in feedback sessions; more rows are sampled at random."""
METRIC_LEARN = Path(lookalike.__file__).parents[2] / ".venv-peers"
"""The environment that `make peers` creates."""

Transform = Callable[[Any], Any]


def _by_neighbours(split: Split, transform: Transform) -> float:
    """Share of test rows that NEIGHBOURS neighbours classify correctly."""
    rule = KNeighborsClassifier(NEIGHBOURS).fit(transform(split.X), split.y)
    return float(rule.score(transform(split.X_test), split.y_test))


def _by_means(split: Split, transform: Transform) -> float:
    """Share of test rows that are nearest to the mean of their class."""
    return float(NearestCentroid().fit(transform(split.X), split.y).score(transform(split.X_test), split.y_test))


def _fitted(make: Callable[[], Any]) -> Timed[Split]:
    """Time the `fit` of a learner; the answer is its `transform`."""
    return clocked(lambda split: make().fit(split.X, split.y).transform)


def _metric_learn(name: str) -> Timed[Split]:
    """Time the `fit` of a learner of metric-learn, in its own environment."""
    python = METRIC_LEARN / "bin" / "python"
    if not python.exists():
        raise MissingError(
            "metric-learn needs an older scikit-learn, in its own environment. Install it with: make peers"
        )

    def timed(split: Split) -> tuple[float, Transform]:
        with tempfile.TemporaryDirectory(prefix="lookalike-peers-") as folder:
            np.save(f"{folder}/X.npy", split.X)
            np.save(f"{folder}/y.npy", split.y)
            words = [str(python), metric_learn_fit.__file__, name, str(PROJECTED), str(NEIGHBOURS), folder]
            lanes = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            done = subprocess.run(words, env=os.environ | lanes, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise MissingError(
                    f"metric-learn does not run in {METRIC_LEARN}: {last}. Install it again with: make peers"
                )
            W = np.load(f"{folder}/W.npy")  # (D, d)
        return float(done.stdout.split()[-1]), lambda X: X @ W.T

    return timed


def learned_metric(
    make: Callable[[], Any],
    theirs: Callable[[], Timed[Split]],
    good: Callable[[Split, Transform], float],
    place: Place,
    progress: Progress,
) -> Compared:
    """Compare our metric with another, split by split."""
    asked, other = splits(place), theirs()
    progress("learning", 0, None)
    first = asked[0]
    make().fit(first.X[:100], first.y[:100])  # compiles
    return in_turns(_fitted(make), other, asked, good)


def linear_svc(place: Place, progress: Progress) -> Compared:
    """Compare NCMML and its class means with a linear SVM, one against the rest."""
    progress("learning", 0, None)

    def good(split: Split, answer: Any) -> float:
        if isinstance(answer, LinearSVC):
            return float(answer.score(split.X_test, split.y_test))
        return _by_means(split, answer)

    theirs: Timed[Split] = clocked(lambda split: LinearSVC(random_state=0).fit(split.X, split.y))
    return in_turns(_fitted(lambda: Ncmml(PROJECTED)), theirs, splits(place), good)


def class_means(place: Place, progress: Progress) -> Compared:
    """Compare class means: fit on up to 20,000 rows and predict 2,000 others; both are timed."""
    progress("class means", 0, None)
    X, y = grouped(place)
    asked = []
    for turn in range(TURNS + 1):
        order = np.random.default_rng([place.seed, turn]).permutation(len(X))[: CLASSIFIED + CLASSIFIED // 10]
        train, test = order[len(order) // 11 :], order[: len(order) // 11]
        asked.append(Split(X[train], y[train], X[test], y[test]))
    ours: Timed[Split] = clocked(lambda split: OpenSet().partial_fit(split.X, split.y).predict(split.X_test))
    theirs: Timed[Split] = clocked(lambda split: NearestCentroid().fit(split.X, split.y).predict(split.X_test))
    ours(asked[0]), theirs(asked[0])
    return in_turns(ours, theirs, asked[1:], lambda split, answer: float(np.mean(answer == split.y_test)))


def new_class(place: Place, progress: Progress) -> Compared:
    """Add a class and predict 100 rows: ours adds it, NearestCentroid must be refitted."""
    progress("class means", 0, None)
    X, y = grouped(place)
    order = np.random.default_rng(place.seed).permutation(len(X))[:CLASSIFIED]
    X, y, new = X[order], y[order], int(y.max()) + 1
    model = OpenSet().partial_fit(X, y)
    model.predict(X[:1])
    asked = []
    for turn in range(TURNS):
        shift = np.random.default_rng([place.seed, turn]).normal(0, X.std(), X.shape[1]).astype(np.float32)
        some = X[:: len(X) // (2 * ADDED)][: 2 * ADDED] + 3 * shift
        asked.append(Split(some[:ADDED], np.full(ADDED, new), some[ADDED:], np.full(ADDED, new)))

    def ours(split: Split) -> Any:
        return model.add_class(new, split.X).predict(split.X_test)

    def theirs(split: Split) -> Any:
        rows, labels = np.concatenate([X, split.X]), np.concatenate([y, split.y])
        return NearestCentroid().fit(rows, labels).predict(split.X_test)

    def good(split: Split, answer: Any) -> float:
        if new in model.classes_:
            model.delete(new)
        return float(np.mean(answer == split.y_test))

    return in_turns(clocked(ours), clocked(theirs), asked, good)


def exemplars(place: Place, progress: Progress) -> Compared:
    """Compare SLEM with one LinearSVC per row, with the same negatives and λ.

    Encoding is timed, quality is same-class mAP.
    """
    progress("encoding", 0, None)

    def encode(make: Callable[..., Any]) -> Timed[Split]:
        models = {id(split): make(lam=LAM).fit(unit_rows(split.X.astype(np.float32))) for split in splits(place)}
        return clocked(lambda split: models[id(split)].transform(unit_rows(split.X_test[:ENCODED].astype(np.float32))))

    def good(split: Split, E: Any) -> float:
        y = split.y_test[:ENCODED]
        ranked = np.argsort(-(E @ E.T), axis=1, kind="stable")  # (m, m)
        return mean(average_precision(y[ranked] == y[:, None], junk=ranked == np.arange(len(y))[:, None]))

    ours, theirs = encode(Slem), encode(Esvm)
    ours(splits(place)[0])
    return in_turns(ours, theirs, splits(place), good)


def _nca() -> Timed[Split]:
    return _fitted(lambda: NeighborhoodComponentsAnalysis(PROJECTED, init="pca", random_state=0))


class Session(NamedTuple):
    """Our marks and the precision of both sides after the last round."""

    marks: Marks
    ours: float
    theirs: float


def rocchio(place: Place, progress: Progress) -> Compared:
    """Compare sessions with Rocchio's formula, 2·mean⁺ − mean⁻, from the same start.

    Quality is the precision after 10 rounds of 9 marks: the share of the target class, of size n, among the n rows
    ranked first. The time is that of one more round, the 50 best and 9 questions, with our marks on both sides.
    """
    X, y = grouped(place)
    kept = np.sort(np.random.default_rng(place.seed).permutation(len(X))[:SESSION_ROWS])
    X, y = np.ascontiguousarray(X[kept]), y[kept]
    cached, flat = CachedFlat(), Flat()
    for index in (cached, flat):
        index.add(np.arange(len(X)), X)
    targets = np.random.default_rng(place.seed + 1).permutation(np.flatnonzero(np.bincount(y) >= K))
    sessions = []
    for i in range(SESSIONS):
        user = EmulatedUser(cached.ids, np.flatnonzero(y == targets[i % len(targets)]))
        sessions.append(_session(user, cached, X, i))
        progress("sessions", i + 1, SESSIONS)
    ours: Timed[Session] = clocked(lambda session: play(flat, session.marks, k=K, turn=ROUNDS))
    theirs: Timed[Session] = clocked(lambda session: _rocchio_round(X, session.marks))
    ours(sessions[0])  # compiles
    timed = in_turns(ours, theirs, sessions, lambda *_: 0.0)
    return Compared(timed.speed, [one.ours for one in sessions], [one.theirs for one in sessions])


def _session(user: EmulatedUser, cached: CachedFlat, X: Vectors, seed: int) -> Session:
    first, signs = user.start(np.random.default_rng(seed))
    begin = Marks(first, X[first], signs)
    cached.forget()
    players: list[Callable[[Marks, int], Any]] = [
        lambda marks, turn: play(cached, marks, k=len(user.relevant), seed=seed, turn=turn),
        lambda marks, _: ask_peer("peer-rocchio", X, marks, seed=seed),
    ]
    ends = [list(emulate(user, cached, begin, ROUNDS, player))[-1] for player in players]
    ours, theirs = (user.precision(shown.best) for _, shown in ends)
    return Session(ends[0][0], ours, theirs)


def _rocchio_round(X: Vectors, marks: Marks) -> tuple[Ids, Ids]:
    """Rocchio's K best of X (n, d), and the WINDOW best without marks: one product and two partial sorts."""
    positive = marks.y > 0
    scores = X @ (2 * marks.X[positive].mean(axis=0) - marks.X[~positive].mean(axis=0))  # (n,)
    best = np.argpartition(-scores, K)[:K]
    best = best[np.argsort(-scores[best])]
    scores[marks.ids] = -np.inf
    return best, np.argpartition(-scores, WINDOW)[:WINDOW]


ROWS: dict[str, Callable[[Place, Progress], Compared]] = {
    **SEARCH_PEERS,
    "sklearn-centroid": class_means,
    "sklearn-centroid-new-class": new_class,
    "sklearn-nca": partial(learned_metric, lambda: Ncmml(PROJECTED), _nca, _by_neighbours),
    "sklearn-nca-means": partial(learned_metric, lambda: Ncmml(PROJECTED), _nca, _by_means),
    "sklearn-linearsvc": linear_svc,
    "sklearn-linearsvc-exemplars": exemplars,
    "metric-learn-lmnn": partial(
        learned_metric, lambda: Lmnn(PROJECTED, k=NEIGHBOURS), partial(_metric_learn, "lmnn"), _by_neighbours
    ),
    "metric-learn-nca": partial(
        learned_metric, lambda: Ncmml(PROJECTED), partial(_metric_learn, "nca"), _by_neighbours
    ),
    "metric-learn-rca": partial(learned_metric, Rca, partial(_metric_learn, "rca"), _by_neighbours),
    "rocchio": rocchio,
}
"""Functions that raise MissingError if the other library is not installed."""
_OUTCOMES: dict[tuple[str, Place], Compared] = {}
"""Results that this process has measured: the columns of a row share them."""


def outcome(row: str, place: Place, progress: Progress) -> Compared:
    """Results of one row on one dataset, measured once per process."""
    if (row, place) not in _OUTCOMES:
        if place.name != DRAWN:
            load_set(place.name, place.data, progress)  # with all threads, before they are limited
        with one_thread():
            _OUTCOMES[row, place] = ROWS[row](place, progress)
    return _OUTCOMES[row, place]


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:
    """Fill one cell. `seed` seeds vectors, queries, splits, sessions and the bootstrap."""
    name, figure = column.split("/")
    found = outcome(row, Place(name, data, seed), progress)
    if figure == "speed":
        low, value, high = np.quantile(found.speed, [0.1, 0.5, 0.9]).tolist()
    elif figure == "quality":
        value, low, high = compare(found.ours, found.theirs, seed=seed)
    else:
        values = getattr(found, figure)
        value, (low, high) = mean(values), bootstrap(values, seed=seed)
    return Score(FIGURES[figure], value, low, high, scored=0)


def compare(ours: Sequence[float], theirs: Sequence[float], *, seed: int = 0) -> tuple[float, float, float]:
    """mean(ours) / mean(theirs) and its 95 % interval, by resampling turns.

    >>> compare([0.5, 0.5], [1.0, 1.0])
    (0.5, 0.5, 0.5)
    """
    both = np.stack([ours, theirs])  # (2, turns)
    drawn = both[:, np.random.default_rng(seed).integers(both.shape[1], size=(1_000, both.shape[1]))].mean(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):  # the other library may find nothing
        low, high = np.quantile(drawn[0] / drawn[1], [0.025, 0.975])
        return float(both[0].mean() / both[1].mean()), float(low), float(high)


def has(row: str, column: str) -> bool:
    """Whether the cell exists."""
    return row not in DRAWN_ONLY or column.startswith(DRAWN)


def check(columns: Sequence[str], data: Path) -> None:
    """Raise an error before the first cell if a dataset is missing."""
    for name in {column.split("/")[0].removesuffix("-classic") for column in columns} - {DRAWN}:
        datasets.check(name, data)


BENCH = Bench(
    "peers",
    "comparison with other libraries, as ratios",
    tuple(ROWS),
    COLUMNS,
    run,
    check,
    needs_data=False,
    has=has,
    on_request=tuple(column for column in COLUMNS if not column.startswith(DRAWN)),
    seconds=lambda _, column: 10.0 if column.endswith("/speed") else 0.1,  # other columns use the same turns
    alone=True,
)
