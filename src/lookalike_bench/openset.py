"""Open sets: how well classes reject pictures of other classes, and whether probabilities are calibrated.

Rows are rules for "none of these", columns are datasets, numbers of labelled pictures per class, and measures.

Protocol. The vectors are those of the network, PCA to 256 dimensions, unit length; at most 100 random pictures per
class. corel5k: every second class, sorted as text, because defaults were chosen on the others. `REPEATS` times, a
random half of the classes is known, with N random labelled pictures each. All other pictures are unlabelled pictures
of the collection and are classified: those of known classes ("own") and those of the other half ("strangers").
Thresholds aim at rejecting 5 % of own pictures. `noise`: one label in ten is a random wrong one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score

from lookalike.classes.open_set import OpenSet
from lookalike.classes.predictions import choose_temperature, choose_threshold
from lookalike.encode.whiten import PCA
from lookalike.types import Progress, Vectors
from lookalike_bench import datasets
from lookalike_bench.measures import Values, bootstrap, calibration_error, mean
from lookalike_bench.tables import Bench, Score
from lookalike_bench.vectors import unit_vectors

SETS = ("corel1k", "corel5k", "tinyimagenet40")
LABELLED = (2, 5, 10)
DIM, EACH, REPEATS, REJECT, NOISE, BACKGROUND = 256, 100, 20, 0.05, 0.1, 1_000
MEASURES = ("auroc", "own", "strangers", "ece", "ece-noise")
CURVE = (1, 2, 5, 10, 20, 40)
"""Percentages of own pictures that are rejected, for the curve of rejected strangers."""
BINS = (5, 15, 25, 35, 45, 55, 65, 75, 85, 95)
"""Middles of the bins of probabilities, in per cent, for the reliability diagram."""
CURVE_LABELLED = 5

Codes = NDArray[np.int64]


class Trial(NamedTuple):
    """A collection with some labels, as vectors."""

    X: Vectors  # (n, d) labelled pictures
    y: Codes  # (n,) their labels, of which some may be wrong
    queries: Vectors  # (m, d) unlabelled pictures
    truth: Codes  # (m,) their classes; −1 for a stranger
    background: Vectors  # (B, d) a sample of all pictures
    unlabelled: NDArray[np.bool_]  # (B,)


class Answer(NamedTuple):
    """The results of a rule for the queries of a trial."""

    distances: Values  # (m,) larger for strangers
    threshold: float
    nearest: Codes  # (m,) the nearest class
    probability: Values | None = None  # (m,) of the nearest class


@dataclass(frozen=True)
class Outcome:
    """The values of a rule in one trial."""

    own: Values  # distances of own pictures
    strangers: Values
    threshold: float
    probability: Values | None  # of the suggestions
    right: NDArray[np.bool_]  # whether they are right


def open_set(trial: Trial, kind: str = "ncm", background: bool = True) -> Answer:
    """Answer as a collection does; without a background, by the distance alone."""
    model = OpenSet(kind, reject=REJECT, none_label=-1)
    if background:
        model.use_background(trial.background, unlabelled=trial.unlabelled)
    model.fit(trial.X, trial.y)
    chances, D = model.predict_proba(trial.queries), model.distances(trial.queries)
    relative = D.min(axis=1) / model.typical_distances(trial.queries)
    probability = np.max(chances, axis=1) * model.known_proba(trial.queries)
    return Answer(relative, model.threshold_, model.classes_[D.argmin(axis=1)], probability)


def fifths(trial: Trial, kind: str = "ncm") -> Answer:
    """Answer as version 0.1 did: the distance alone, calibrated on a fifth of each class at a time."""
    model = OpenSet(kind).partial_fit(trial.X, trial.y)
    rank = np.array([np.sum(trial.y[:i] == label) for i, label in enumerate(trial.y)])
    scores, codes = [], []
    for fold in range(min(5, rank.max() + 1)):
        held = (rank % 5 == fold) & (np.bincount(trial.y)[trial.y] > 1)
        if held.any():
            scores.append(-0.5 * OpenSet(kind).partial_fit(trial.X[~held], trial.y[~held]).distances(trial.X[held]))
            codes.append(trial.y[held])
    halves, D = np.concatenate(scores).astype(np.float64), model.distances(trial.queries).astype(np.float64)
    temperature = choose_temperature(halves, np.searchsorted(model.classes_, np.concatenate(codes)))
    chances = 1 / np.exp((D.min(axis=1, keepdims=True) - D) / 2 / temperature).sum(axis=1)
    threshold = float(np.quantile(-2 * halves.max(axis=1), 1 - REJECT))
    return Answer(D.min(axis=1), threshold, model.classes_[D.argmin(axis=1)], chances)


def max_cosine(trial: Trial) -> Answer:
    """Answer by the largest cosine with a class mean."""
    return _by_means(trial, lambda S: -S.max(axis=1))


def energy(trial: Trial) -> Answer:
    """Answer by the energy: the logarithm of a sum over classes (Liu et al., NeurIPS 2020)."""
    return _by_means(trial, lambda S: -np.asarray(logsumexp(S * 10, axis=1)))


def _by_means(trial: Trial, distance: Callable[[Values], Values]) -> Answer:
    """Answer by cosines with class means; a labelled picture is compared with the mean of the others."""
    labels = np.unique(trial.y)
    sums = np.stack([trial.X[trial.y == label].sum(axis=0) for label in labels]).astype(np.float64)  # (C, d)
    codes = np.searchsorted(labels, trial.y)
    shared = np.bincount(codes)[codes] > 1
    without = _unit(sums[codes] - trial.X)  # (n, d)
    S = trial.X @ _unit(sums).T  # (n, C)
    S[np.arange(len(S)), codes] = np.sum(trial.X * without, axis=1)
    Q = trial.queries @ _unit(sums).T
    threshold = choose_threshold(distance(S[shared]), np.empty(0), REJECT)
    return Answer(distance(Q), threshold, labels[Q.argmax(axis=1)])


def _unit(X: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))


RULES: dict[str, Callable[[Trial], Answer]] = {
    "max-cosine": max_cosine,
    "energy": energy,
    "mahalanobis": lambda trial: open_set(trial, "second", background=False),
    "distance": lambda trial: open_set(trial, background=False),
    "before": fifths,
    "before-second": lambda trial: fifths(trial, "second"),
    "ncm": open_set,
    "ncmc": lambda trial: open_set(trial, "ncmc"),
    "second": lambda trial: open_set(trial, "second"),
}
NO_PROBABILITY = ("max-cosine", "energy")


def trials(X: Vectors, y: Codes, labelled: int, noise: float, seed: int) -> list[Trial]:
    """The trials of a dataset: random known classes and labelled pictures."""
    made = []
    for repeat in range(REPEATS):
        random = np.random.default_rng((seed, repeat))
        classes = random.permutation(np.unique(y))
        known = np.sort(classes[: max(1, len(classes) // 2)])
        given = np.concatenate([random.permutation(np.flatnonzero(y == c))[:labelled] for c in known])
        rest = np.setdiff1d(np.arange(len(y)), given)
        labels = np.searchsorted(known, y[given])
        wrong = random.random(len(labels)) < noise
        labels = np.where(wrong, (labels + random.integers(1, len(known), len(labels))) % len(known), labels)
        truth = np.where(np.isin(y[rest], known), np.searchsorted(known, y[rest]), -1)
        some = random.permutation(len(y))[:BACKGROUND]
        made.append(Trial(X[given], labels, X[rest], truth, X[some], ~np.isin(some, given)))
    return made


def outcome(rule: str, trial: Trial) -> Outcome:
    """Apply a rule to a trial."""
    answer = RULES[rule](trial)
    own, accepted = trial.truth >= 0, answer.distances <= answer.threshold
    probability = None if answer.probability is None else answer.probability[accepted]
    right = (answer.nearest == trial.truth)[accepted]
    return Outcome(answer.distances[own], answer.distances[~own], answer.threshold, probability, right)


def auroc(found: Outcome) -> float:
    """The chance that a stranger is farther away than an own picture."""
    strange = np.repeat([0, 1], [len(found.own), len(found.strangers)])
    return float(roc_auc_score(strange, np.concatenate([found.own, found.strangers])))


def rejected_at(found: Outcome, share: float) -> float:
    """The share of strangers that is rejected by the threshold that rejects this share of own pictures."""
    return float(np.mean(found.strangers > np.quantile(found.own, 1 - share)))


def share_right(found: Outcome, middle: int) -> float:
    """The share of right suggestions among those with a probability within 5 % of `middle`; NaN if there are none."""
    assert found.probability is not None
    places = np.minimum((found.probability * 10).astype(int), 9)
    inside = places == middle // 10
    return float(np.mean(found.right[inside])) if inside.any() else float("nan")


_DONE: dict[tuple[Any, ...], Any] = {}
"""Vectors and outcomes that this process has computed and that columns share, by their inputs."""


def _vectors(name: str, data: Path, progress: Progress) -> tuple[Vectors, Codes]:
    key = name, str(data)
    if key not in _DONE:
        X, labels, _ = unit_vectors(f"{name}-deep", data, progress)
        classes = np.unique(labels)
        X = _unit(np.asarray(PCA(DIM).fit(X).transform(X))).astype(np.float32)
        random = np.random.default_rng(0)
        used = classes[1::2] if name == "corel5k" else classes
        some = np.concatenate([random.permutation(np.flatnonzero(labels == label))[:EACH] for label in used])
        _DONE[key] = X[some], np.unique(labels[some], return_inverse=True)[1].astype(np.int64)
    return _DONE[key]  # type: ignore[no-any-return]


def _outcomes(row: str, name: str, labelled: int, noise: float, data: Path, seed: int, progress: Progress) -> Any:
    key = row, name, labelled, noise, str(data), seed
    if key not in _DONE:
        found = []
        for done, trial in enumerate(trials(*_vectors(name, data, progress), labelled, noise, seed)):
            progress("classifying", done, REPEATS)
            found.append(outcome(row, trial))
        _DONE[key] = found
    return _DONE[key]


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:
    """Fill one cell."""
    name, _, rest = column.partition("/")
    measure, _, number = rest.rpartition("-")
    labelled = CURVE_LABELLED if measure in ("rejected", "right") else int(number)
    noise = NOISE if measure == "ece-noise" else 0.0
    found: list[Outcome] = _outcomes(row, name, labelled, noise, data, seed, progress)
    scored = sum(len(one.own) + len(one.strangers) for one in found)
    if measure.startswith("ece"):
        return Score("ECE", *_calibration_error(found, seed), scored=scored)
    title, value = {
        "auroc": ("AUROC", auroc),
        "own": ("own rejected", lambda one: float(np.mean(one.own > one.threshold))),
        "strangers": ("strangers rejected", lambda one: float(np.mean(one.strangers > one.threshold))),
        "rejected": ("strangers rejected", lambda one: rejected_at(one, int(number) / 100)),
        "right": ("share right", lambda one: share_right(one, int(number))),
    }[measure]
    values = [value(one) for one in found]
    return Score(title, mean(values), *bootstrap(values, seed=seed), scored=scored)


def _calibration_error(found: Sequence[Outcome], seed: int) -> tuple[float, float, float]:
    """The error of all suggestions together, and its interval over resampled trials."""
    pairs = [(one.probability, one.right) for one in found if one.probability is not None]

    def error(chosen: Sequence[int]) -> float:
        chances, right = (np.concatenate([pairs[i][part] for i in chosen]) for part in (0, 1))
        return calibration_error(chances, right)

    random = np.random.default_rng(seed)
    errors = [error(random.integers(0, len(pairs), len(pairs)).tolist()) for _ in range(200)]
    low, high = np.quantile(errors, [0.025, 0.975])
    value = error(range(len(pairs)))
    return value, min(float(low), value), max(float(high), value)


def check(columns: Sequence[str], data: Path) -> None:
    """Raise an error before the first cell if a dataset is missing."""
    for name in dict.fromkeys(column.split("/")[0] for column in columns):
        datasets.check(name, data)


COLUMNS = (
    *(f"{name}/{measure}-{n}" for name in SETS for n in LABELLED for measure in MEASURES),
    *(f"corel5k/rejected-{share}" for share in CURVE),
    *(f"corel5k/right-{middle}" for middle in BINS),
)
USUAL = tuple(f"corel5k/{measure}-{CURVE_LABELLED}" for measure in MEASURES)


def _has(row: str, column: str) -> bool:
    return row not in NO_PROBABILITY or not column.split("/")[1].startswith(("ece", "right"))


BENCH = Bench(
    "openset",
    "how well classes reject pictures of other classes, and whether probabilities are calibrated",
    tuple(RULES),
    COLUMNS,
    run,
    check,
    has=_has,
    on_request=tuple(column for column in COLUMNS if column not in USUAL),
    seconds=lambda row, column: 60.0 if "second" in row or row == "mahalanobis" else 15.0,  # noqa: ARG005
)
