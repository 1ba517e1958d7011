"""SLEM and other encoders on the same base features: Table 1 of slem on our datasets.

Rows are encoders, columns are datasets and base features. A cell is leave-one-out mAP, UKBench's 4·recall@4, or
milliseconds per picture. Rezende et al., "Kernel square-loss exemplar machines for image retrieval", CVPR 2017 (slem),
§6.

Protocol. The classes of a dataset (objects of ukbench2000, categories of the others) are sorted. The first half are the
negatives, the second half is the test set, where every picture is a query once: ukbench2000 has objects 0–249 and
250–499. Parameters are chosen by `calibrate_labels` inside the first half, by the mean average precision of two folds:
objects 125–249 must find their own class against the pool of objects 0–124, and vice versa; then the encoder is fitted
on the whole first half. Labels of the test set are used only by the measure. Vocabularies of vlad and fisher are
learned, without labels, from a sample of all pictures of the dataset, as a collection does. `-foreign` uses the same
number of random negatives from corel5k for the calibration and for the fit; the pictures to find in the calibration are
the same, but in one batch. `-own` uses the test set as the pool, as a collection does by default, with the parameters
of the disjoint pool. Datasets of categories show the limit of the method: their task is to find the same category, not
the same object.

Everything here depends only on inner products of vectors, so n vectors with more than n dimensions are replaced by
shorter vectors with the same inner products. ESVM trains once per picture: it is calibrated on at most `FEW` pictures
of at most 25 random classes of one fold. A test set of more than `MOST` pictures (corel5k) is thinned evenly in every
class, both queries and database; each class keeps its share, so mAP hardly changes.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline

from lookalike.arrays import CHUNK_BYTES, chunks
from lookalike.encode.calibration import calibrate_labels
from lookalike.encode.esvm import Esvm
from lookalike.encode.kernel_slem import KernelSlem
from lookalike.encode.slem import Slem
from lookalike.encode.whiten import L2, PCA
from lookalike.types import Progress, Transform, Vectors
from lookalike_bench import datasets
from lookalike_bench.datasets import Labels
from lookalike_bench.measures import Values, average_precision, bootstrap, four_recall_at_4, mean
from lookalike_bench.tables import Bench, PaperFigure, Score
from lookalike_bench.vectors import base_recipe, describe

LAMS = tuple(10.0**power for power in range(-6, 1))
GAMMAS = (0.1, 0.3, 1.0, 3.0)
"""Candidates of every calibration, for vectors of unit length."""
ESVM_LAMS, THETAS = (1e-4, 1e-3, 1e-2, 1e-1), (0.01, 0.1, 1.0)
FEW, MOST = 100, 1_000
"""Maximum numbers of pictures for the calibration and the test of ESVM."""
FOREIGN = "corel5k"
"""The dataset of foreign negatives."""
REPEATS = 3
"""Timed encodings of the test set."""

PAPER: dict[str, dict[str, float]] = {
    "vlad": {"cosine": 72.7, "pcaw": 75.5, "lda": 54.7, "esvm": 77.5, "linear": 78.0}
    | {"gaussian-16": 76.8, "gaussian-32": 77.4, "gaussian-full": 78.1}
    | {"poly-16": 76.9, "poly-32": 77.3, "poly-full": 78.1},
    "deep": {"cosine": 76.5, "pcaw": 81.7, "lda": 82.2, "esvm": 84.0, "linear": 82.3}
    | {"gaussian-16": 80.3, "gaussian-32": 81.7, "gaussian-full": 86.2}
    | {"poly-16": 82.3, "poly-32": 82.4, "poly-full": 86.3},
}
"""Table 1, Holidays, in per cent: VLAD, and SPoC, the feature nearest to that of our network."""
UNLIKE = {
    "vlad": "the paper uses Holidays with 15,000 negatives, while we use ukbench2000 with 1,000",
    "deep": "the paper uses Holidays and SPoC features from another network, while we use ukbench2000 and GeM",
}
SECONDS = {"cosine": 20.0, "pcaw": 15.0, "lda": 5.0, "esvm": 300.0, "linear": 25.0}
"""Estimated seconds of a row on ukbench2000; kernels take 35."""

Rows = NDArray[np.intp]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Row:
    make: Callable[..., Transform]
    """From the dimension of the base feature and parameters to an unfitted encoder."""
    candidates: Sequence[dict[str, float]] = ()
    slow: bool = False


def _kernel(kernel: str, rank: int | None, _: int, **params: float) -> Transform:
    return KernelSlem(kernel, factor="kpca", rank=rank, **params)


LINEAR = [{"lam": lam} for lam in LAMS]
KERNEL = [{"gamma": gamma, "lam": lam} for gamma, lam in product(GAMMAS, LAMS)]
HINGE = [{"lam": lam, "theta": theta} for lam, theta in product(ESVM_LAMS, THETAS)]
ROWS = {
    "cosine": _Row(lambda d: L2()),  # noqa: ARG005
    "pcaw": _Row(lambda d: make_pipeline(PCA(dim=max(1, d // 2), whiten=1.0), L2())),  # half the dimension: §6.4, slem
    "lda": _Row(lambda d: Slem(lam=1e-6)),  # noqa: ARG005
    "esvm": _Row(lambda d, **params: Esvm(**params), HINGE, slow=True),  # noqa: ARG005
    "linear": _Row(lambda d, **params: Slem(**params), LINEAR),  # noqa: ARG005
} | {
    f"{kernel}-{rank or 'full'}": _Row(partial(_kernel, kernel, rank), KERNEL)
    for kernel, rank in product(("gaussian", "poly"), (16, 32, 256, None))
}


class _Column(NamedTuple):
    dataset: str
    feature: str
    measure: str = "mAP"
    pool: str = "disjoint"


FEATURES = ("deep", "vlad", "fisher", "classic")
"""Base features: the first stages of these recipes."""
COLUMNS = {
    **{f"ukbench2000/{name}": _Column("ukbench2000", name) for name in FEATURES},
    **{f"ukbench2000/{name}-4r4": _Column("ukbench2000", name, "4·recall@4") for name in FEATURES},
    "ukbench2000/deep-ms": _Column("ukbench2000", "deep", "ms"),
    **{f"ukbench2000/{name}-foreign": _Column("ukbench2000", name, pool="foreign") for name in ("deep", "vlad")},
    "ukbench2000/deep-own": _Column("ukbench2000", "deep", pool="own"),
    **{f"{name}/{feature}": _Column(name, feature) for name in ("corel5k", "corel1k") for feature in FEATURES},
}


class Base(NamedTuple):
    """Base vectors of a cell."""

    X: Vectors  # (n, D), unit rows with the inner products of the base features
    labels: Labels  # (n,)
    foreign: Vectors  # (m, D), m = 0 if the negatives are from the dataset itself
    d: int  # dimension of the base feature, at least D
    pool: str = "disjoint"  # or "foreign", or "own"


class Outcome(NamedTuple):
    """Results of one encoder on one base feature. Columns that differ only in their measure share them."""

    params: dict[str, Any]
    precision: Values  # (q,)
    found: Values  # (q,), of the first four
    ms: list[float]  # per picture, one per repeat
    scored: int


USUAL = ("ukbench2000/deep", "ukbench2000/deep-4r4", "ukbench2000/deep-ms", "ukbench2000/vlad")
"""Columns that the paper has results for."""
_BASES: dict[tuple[Path, str, str, str], Base] = {}
_OUTCOMES: dict[tuple[Path, str, str, str, str], Outcome] = {}
"""Results that this process has computed: many cells share base vectors."""


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:
    """Fill one cell. `seed` seeds the bootstrap; all other random choices are fixed."""
    wanted = COLUMNS[column]
    key = data, row, wanted.dataset, wanted.feature, wanted.pool
    if key not in _OUTCOMES:
        _OUTCOMES[key] = measure(row, load_base(wanted, data, progress), progress)
    outcome = _OUTCOMES[key]
    logger.info("%s, %s: %s", row, column, outcome.params)
    if wanted.measure == "ms":
        return Score("ms", float(np.median(outcome.ms)), min(outcome.ms), max(outcome.ms), scored=0)
    values = outcome.precision if wanted.measure == "mAP" else outcome.found
    low, high = bootstrap(values, seed=seed)
    return Score(wanted.measure, mean(values), low, high, scored=outcome.scored)


def paper(row: str, column: str) -> PaperFigure:
    """The result in Table 1 for the feature."""
    dataset, feature, kind, pool = COLUMNS[column]
    value = PAPER.get(feature, {}).get(row) if (dataset, kind, pool) == ("ukbench2000", "mAP", "disjoint") else None
    return PaperFigure() if value is None else PaperFigure(value / 100, UNLIKE[feature])


def seconds(row: str, column: str) -> float:
    """Estimated seconds; measures of one encoder share the work."""
    wanted = COLUMNS[column]
    return 0.1 if wanted.measure != "mAP" else SECONDS.get(row, 35.0)


def shares(row: str, column: str) -> str:  # noqa: ARG001
    """Rows and measures share the base vectors."""
    return f"{COLUMNS[column].dataset} {COLUMNS[column].feature}"


def measure(row: str, base: Base, progress: Progress) -> Outcome:
    """Calibrate, fit, encode and rank by the protocol above."""
    method = ROWS[row]
    pool, asked, test = split(base.labels)
    if method.slow:
        test = _thin(test, base.labels, MOST)
    shown = np.concatenate([pool, asked])  # (n,), all except the test set
    foreign = base.foreign[np.random.default_rng(0).permutation(len(base.foreign))[: len(shown)]]
    params: dict[str, Any] = {}
    if method.candidates:
        progress("calibrating", 0, None)
        rows, negatives = shown, foreign[: len(pool)] if len(foreign) else None
        if method.slow:
            rows, negatives = asked[_few(base.labels[asked])], base.X[pool] if negatives is None else negatives
        params = calibrate_labels(
            partial(method.make, base.d), method.candidates, base.X[rows], number(base.labels)[rows], negatives
        ).params
    progress("encoding", 0, None)
    fit_on = foreign if len(foreign) else base.X[test if base.pool == "own" else shown]
    encoder = method.make(base.d, **params).fit(fit_on)
    ms = []
    for _ in range(1 if method.slow else REPEATS):
        start = time.perf_counter()
        Y = encoder.transform(base.X[test])  # (q, …)
        ms.append(1e3 * (time.perf_counter() - start) / len(test))
    precision, found = rank(encoder, base.X[test], Y, base.labels[test], progress)
    return Outcome(params, precision, found, ms, scored=len(test) ** 2)


def rank(encoder: Transform, X: Vectors, Y: Vectors, labels: Labels, progress: Progress) -> tuple[Values, Values]:
    """Rank all rows for each row of X (q, D), encoded as Y: average precision without itself, and hits among four."""
    q = len(X)
    precision, found = np.empty(q), np.empty(q)
    for part in chunks(q, 64 * q, CHUNK_BYTES):
        # Unit rows: −xᵀy orders as the distance does.
        scores = encoder.query(X[part]).score(Y) if hasattr(encoder, "query") else -(Y[part] @ Y.T)  # (m, q)
        itself = np.arange(q)[part, None] == np.arange(q)  # (m, q)
        scores[itself] = -np.inf  # despite rounding, the query itself comes first
        order = np.argsort(scores, axis=1, kind="stable")
        relevant = labels[order] == labels[part, None]
        precision[part] = average_precision(relevant, junk=np.take_along_axis(itself, order, axis=1))
        found[part] = four_recall_at_4(relevant)
        progress("ranking", part.stop, q)
    return precision, found


def number(labels: Labels) -> Rows:
    """The class number of each row, (n,), in the order of `datasets.classes`."""
    place = {label: i for i, label in enumerate(datasets.classes(labels))}
    return np.array([place[label] for label in labels.tolist()], np.intp)


def split(labels: Labels) -> tuple[Rows, Rows, Rows]:
    """Rows of the two folds of the calibration and of the test set: a quarter, a quarter and half of the classes.

    >>> [part.tolist() for part in split(np.array(["10", "9", "8", "1"]))]
    [[3], [2], [1, 0]]
    """
    at = number(labels)  # (n,)
    classes = at.max() + 1
    by_class = np.argsort(at, kind="stable")
    first, second, test = np.split(by_class, np.searchsorted(at[by_class], [classes // 4, classes // 2]))
    return first, second, test


def load_base(column: _Column, data: Path, progress: Progress) -> Base:
    """The base vectors of a column, computed once per process."""
    key = data, column.dataset, column.feature, column.pool
    if key not in _BASES:
        recipe = base_recipe(column.feature)
        X, labels, _ = describe(column.dataset, recipe, data, progress)
        foreign = describe(FOREIGN, recipe, data, progress).X if column.pool == "foreign" else X[:0]
        rows = L2().transform(np.concatenate([X, foreign]))
        d = rows.shape[1]
        if d > len(rows):
            R = np.asarray(np.linalg.qr(rows.T.astype(np.float64), mode="r"))  # (n, n): X = RᵀQᵀ, so XXᵀ = RᵀR
            rows = R.T.astype(np.float32)
        _BASES[key] = Base(rows[: len(X)], labels, rows[len(X) :], d, column.pool)
    return _BASES[key]


def _few(labels: Labels) -> Rows:
    """At most FEW rows of at most FEW / 4 random classes, equally many of each."""
    classes = np.unique(labels)
    classes = np.random.default_rng(0).permutation(classes)[: FEW // 4]
    share = FEW // len(classes)
    return np.concatenate([np.flatnonzero(labels == label)[:share] for label in classes])


def _thin(test: Rows, labels: Labels, most: int) -> Rows:
    """Every k-th row, class by class, with the smallest k that leaves at most `most` rows."""
    step = -(-len(test) // most)
    return test[np.argsort(labels[test], kind="stable")][::step]


def check(columns: Sequence[str], data: Path) -> None:
    """Raise an error before the first cell if a dataset is missing."""
    for column in columns:
        wanted = COLUMNS[column]
        for name in (wanted.dataset, FOREIGN) if wanted.pool == "foreign" else (wanted.dataset,):
            datasets.load(name, data)


BENCH = Bench(
    "slem",
    "encoders with a pool of negatives, on base features",
    tuple(ROWS),
    tuple(COLUMNS),
    run,
    check,
    on_request=tuple(column for column in COLUMNS if column not in USUAL),
    paper=paper,
    seconds=seconds,
    shares=shares,
)
