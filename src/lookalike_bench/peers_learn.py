"""Learners beside scikit-learn's and metric-learn's: rows of the `peers` bench.

In: a `Place`. Out: a `Compared` each, a turn a split; time is that of `fit`, where nothing else is said. Quality is the
share of test rows that are given their class, by what the row's function says.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid, NeighborhoodComponentsAnalysis
from sklearn.svm import LinearSVC

import lookalike
from lookalike.arrays import unit_rows
from lookalike.classes.open_set import OpenSet
from lookalike.encode.esvm import Esvm
from lookalike.encode.slem import Slem
from lookalike.errors import MissingError
from lookalike.learn.chunklets import Rca
from lookalike.learn.lmnn import Lmnn
from lookalike.learn.ncmml import Ncmml
from lookalike.types import Progress
from lookalike_bench import metric_learn_fit
from lookalike_bench.measures import average_precision, mean
from lookalike_bench.peers_sets import Place, Split, grouped, splits
from lookalike_bench.turns import Compared, Timed, clocked, in_turns

DIM, K = 16, 3
"""Dimensions that metrics project to, and neighbours that vote."""
CLASSIFIED, ADDED, TURNS = 20_000, 100, 11
"""Rows that class means are made of, rows of a new class, and turns."""
ENCODED, LAM = 150, 1e-2
"""Rows that are encoded, and λ of both encoders."""
PEERS = Path(lookalike.__file__).parents[2] / ".venv-peers"
"""What `make peers` makes."""

Transform = Callable[[Any], Any]


def by_neighbours(split: Split, transform: Transform) -> float:
    """The share that K neighbours vote into their class."""
    rule = KNeighborsClassifier(K).fit(transform(split.X), split.y)
    return float(rule.score(transform(split.X_test), split.y_test))


def by_means(split: Split, transform: Transform) -> float:
    """The share that is nearest to the mean of its class."""
    return float(NearestCentroid().fit(transform(split.X), split.y).score(transform(split.X_test), split.y_test))


def fitted(make: Callable[[], Any]) -> Timed[Split]:
    """A learner with a `transform`."""
    return clocked(lambda split: make().fit(split.X, split.y).transform)


def far_away(name: str) -> Timed[Split]:
    """A learner of metric-learn, in the environment it needs: only its `fit` is timed."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        raise MissingError(
            "metric-learn needs an older scikit-learn, in an environment of its own. Get it with: make peers"
        )

    def timed(split: Split) -> tuple[float, Transform]:
        with tempfile.TemporaryDirectory(prefix="lookalike-peers-") as folder:
            np.save(f"{folder}/X.npy", split.X)
            np.save(f"{folder}/y.npy", split.y)
            words = [str(python), metric_learn_fit.__file__, name, str(DIM), str(K), folder]
            lanes = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            done = subprocess.run(words, env=os.environ | lanes, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise MissingError(f"metric-learn does not run in {PEERS}: {last}. Make it anew: make peers")
            W = np.load(f"{folder}/W.npy")  # (D, d)
        return float(done.stdout.split()[-1]), lambda X: X @ W.T

    return timed


def metric(
    make: Callable[[], Any],
    theirs: Callable[[], Timed[Split]],
    good: Callable[[Split, Transform], float],
    place: Place,
    progress: Progress,
) -> Compared:
    """Our metric against another, split by split."""
    asked, other = splits(place), theirs()
    progress("learning", 0, None)
    first = asked[0]
    make().fit(first.X[:100], first.y[:100])  # compiles
    return in_turns(fitted(make), other, asked, good)


def linear_svc(place: Place, progress: Progress) -> Compared:
    """NCMML and its class means against a linear SVM, one against the rest."""
    progress("learning", 0, None)

    def good(split: Split, answer: Any) -> float:
        if isinstance(answer, LinearSVC):
            return float(answer.score(split.X_test, split.y_test))
        return by_means(split, answer)

    theirs: Timed[Split] = clocked(lambda split: LinearSVC(random_state=0).fit(split.X, split.y))
    return in_turns(fitted(lambda: Ncmml(DIM)), theirs, splits(place), good)


def centroid(place: Place, progress: Progress) -> Compared:
    """Class means of up to 20,000 rows, and the classes of 2,000 others: both are timed."""
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
    """One more class, and the class of 100 rows: ours adds it, NearestCentroid has to be fitted anew."""
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
    """SLEM against one LinearSVC a row, with the same negatives and λ; encoding is timed, quality is same-class mAP."""
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
    return fitted(lambda: NeighborhoodComponentsAnalysis(DIM, init="pca", random_state=0))


CASES: dict[str, Callable[[Place, Progress], Compared]] = {
    "sklearn-centroid": centroid,
    "sklearn-centroid-new-class": new_class,
    "sklearn-nca": partial(metric, lambda: Ncmml(DIM), _nca, by_neighbours),
    "sklearn-nca-means": partial(metric, lambda: Ncmml(DIM), _nca, by_means),
    "sklearn-linearsvc": linear_svc,
    "sklearn-linearsvc-exemplars": exemplars,
    "metric-learn-lmnn": partial(metric, lambda: Lmnn(DIM, k=K), partial(far_away, "lmnn"), by_neighbours),
    "metric-learn-nca": partial(metric, lambda: Ncmml(DIM), partial(far_away, "nca"), by_neighbours),
    "metric-learn-rca": partial(metric, Rca, partial(far_away, "rca"), by_neighbours),
}
