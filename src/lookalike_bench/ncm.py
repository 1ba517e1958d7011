"""Metrics that learn, as classifiers, on classes they have not seen, and for retrieval: the tables of ncm on our sets.

In: methods × (image set, dimension). Out: error in per cent, or a measure of retrieval. Mensink et al., "Large scale
metric learning for distance-based image classification on open ended data sets", 2013 (ncm), Tables 2–5 and 7, Fig. 9.

Protocol. `SET/DIM`: all is learned from the training part (`labelled` says which), parameters are chosen on a fifth of
it, the test part is named once. `SET/held-out`: the metric learns from the training pictures of four fifths of the
classes, every fifth class is new; the means, or the neighbours, are those of all classes, and test pictures of new
classes are to be told from all classes; `held-in` is the same with a metric that learned from all. `SET/new-N`: the
metric of held-out, and N pictures of each new class by lot, `REPEATS` times. Rows `prior-…` have besides a hierarchy,
made by clustering the means of all training pictures, new classes included: it stands for the knowledge of someone who
knows what a new class is akin to. The weight of the prior is chosen on training pictures of every fifth class that is
not new. `ukbench2000…`: the metric learns from corel5k and stops by retrieval of every fifth of its classes, or has
its parameters from there; it has not seen ukbench2000. Columns with `fisher` and `top5`, and `ukbench2000-fisher/…`,
are the paper's tables, with the rows that these have and no others.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.classes.open_set import OpenSet
from lookalike.classes.prior import cluster_hierarchy
from lookalike.encode.whiten import L2
from lookalike.learn.measures import mean_average_precision, ranks
from lookalike.types import Progress, Vectors
from lookalike_bench import ncm_paper, retrieval
from lookalike_bench.labelled import SETS, Parts, parts, rows
from lookalike_bench.labelled import check as check_set
from lookalike_bench.measures import Values, average_precision, bootstrap, four_recall_at_4, mean, top_error
from lookalike_bench.ncm_rows import METHODS, Codes, Method, Params, choose
from lookalike_bench.tables import Bench, Printed, Score

DIMS = (32, 64, 128, 256, 512)
HELD_DIM, RETRIEVAL_DIM = 64, 128
NEW = (1, 2, 5, 10, 20)
REPEATS = 10
WEIGHTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
"""Of the prior, in pictures."""
TABLES, FIRST = "corel5k-fisher", 5
"""The set in place of the paper's, and how many places its flat error allows."""
PRIORS = {"prior-l2": "ncm-l2", "prior-ncmml": "ncmml"}
"""Rows that are others with a prior."""
TRANSFERS = ("ncm-pca", "ncm-fda", "ncm-invcov", "ncmml", "ncmml-dot", "lmnn", "lmnn-all", "lmnn-dynamic")
"""Metrics for classes and pictures that they were not learned on."""
ONLY = ("ncmc-5", "ncmc-15", "ncmc-test", "lmnn-10", "lmnn-20", "dynamic-10", "dynamic-20")
"""Rows that differ from others in a number, and stand in the paper's tables alone."""
ROWS = (*METHODS, *PRIORS)
logger = logging.getLogger(__name__)


class _Column(NamedTuple):
    dataset: str
    kind: str
    number: int = 0  # of dimensions, or of pictures of a new class
    top: int = 1


COLUMNS = {
    **{f"{name}/{dim}": _Column(name, "test", dim) for name in SETS for dim in DIMS},
    **{f"{name}/{dim}-top5": _Column(name, "test", dim, FIRST) for name in SETS if "corel5k" in name for dim in DIMS},
    f"{TABLES}/full-top5": _Column(TABLES, "test", 0, FIRST),
    **{f"{name}/{kind}": _Column(name, kind, HELD_DIM) for name in SETS[3:] for kind in ("held-out", "held-in")},
    **{
        f"{TABLES}/{kind}-{dim}-top5": _Column(TABLES, kind, dim, FIRST)
        for kind in ("held-out", "held-in")
        for dim in DIMS[2:]
    },
    **{f"corel5k-deep/new-{n}": _Column("corel5k-deep", "new", n) for n in NEW},
    "ukbench2000/map": _Column("ukbench2000-deep", "map", RETRIEVAL_DIM),
    "ukbench2000/4r4": _Column("ukbench2000-deep", "4r4", RETRIEVAL_DIM),
    **{f"ukbench2000-fisher/4r4-{dim}": _Column("ukbench2000-fisher", "4r4", dim) for dim in DIMS},
}
_DONE: dict[tuple[Any, ...], Any] = {}
"""What this process has computed, by what it depends on: columns share it."""


def paper(row: str, column: str) -> Printed:
    """What the tables have."""
    dataset, kind, number, top = COLUMNS[column]
    if kind == "new":
        return Printed(None, ncm_paper.LOST)
    if dataset == "ukbench2000-fisher":
        value, unlike = ncm_paper.UKBENCH.get(row, {}).get(number), ncm_paper.ABROAD
    elif dataset == TABLES and top == FIRST:
        table = {"test": ncm_paper.BY_DIM, "held-out": ncm_paper.HELD_OUT, "held-in": ncm_paper.HELD_IN}[kind]
        value, unlike = table.get(row, {}).get(number) if number else ncm_paper.FULL.get(row), ncm_paper.OTHERS
    else:
        value, unlike = None, ""
    return Printed() if value is None else Printed(value, unlike)


def seconds(row: str, column: str) -> float:
    """About how long a cell takes."""
    dataset, kind, number, _ = COLUMNS[column]
    read = ncm_paper.DESCRIBED.get(column, 0.0) if row == "ncm-pca" else 0.0
    if kind == "new":
        return 4.0 + read
    if (column, row) in ncm_paper.LONG:
        return ncm_paper.LONG[column, row]
    return read + ncm_paper.SECONDS.get(row, 50.0) * (0.25 if "deep" in dataset else 1.5 if number >= 256 else 1)


def shares(row: str, column: str) -> str:  # noqa: ARG001
    """Columns that differ in what is counted share a metric, and so do those of new classes."""
    wanted = COLUMNS[column]
    return f"{wanted.dataset} {wanted.kind} {0 if wanted.kind == 'new' else wanted.number}"


def has(row: str, column: str) -> bool:
    """Whether the row can do what the column asks; in the paper's tables, whether it is one of theirs."""
    dataset, kind, _, top = COLUMNS[column]
    if "fisher" in dataset and (top == FIRST or kind == "4r4"):
        return paper(row, column).value is not None
    if kind == "new":
        return row in (*PRIORS, *PRIORS.values(), "ncm-pca", "ncm-fda")
    if row in PRIORS or row in ONLY:
        return False
    if kind in ("map", "4r4"):
        return row in ("ncm-l2", *TRANSFERS, "wsabie", "jscl")
    return kind == "test" or row in ("ncm-l2", "knn-l2", "knn-pca", "second", *TRANSFERS)


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:
    """One cell; `seed` is that of what is held out, of the batches and of the bootstrap."""
    wanted = COLUMNS[column]
    if wanted.kind in ("map", "4r4"):
        values = _retrieve(row, wanted, data, seed, progress)
        measure, scale, scored = ("mAP" if wanted.kind == "map" else "4·recall@4"), 1.0, len(values) ** 2
    else:
        given = parts(wanted.dataset, data, progress)
        progress("learning", 0, None)
        if wanted.kind == "test":
            values = top_error(places(row, given, wanted.number, seed, (data, wanted.dataset)), wanted.top)
        elif wanted.kind == "new":
            values = new(row, given, wanted.number, seed, (data, wanted.dataset))
        else:
            found = held_out(row, given, wanted.number, seed, seen_all=wanted.kind == "held-in")
            values = top_error(found, wanted.top)
        measure, scale, scored = f"top-{wanted.top} error %", 100.0, len(values)
    low, high = bootstrap(scale * values, seed=seed)
    return Score(measure, scale * mean(values), low, high, scored=scored)


def places(row: str, given: Parts, dim: int, seed: int, key: tuple[Any, ...]) -> Codes:
    """At which place, from 0, the right class of each test picture comes, (m,)."""
    method = METHODS[row]
    done = (*key, row, 0 if method.full else dim, seed)
    if done not in _DONE:
        classes, y = np.unique(given.y, return_inverse=True)
        params = choose(method, given.X, y, dim, seed)
        logger.info("%s, %s: %s", row, key[-1], params)
        score = method.fit(given.X, y, dim, seed, **params)
        _DONE[done] = ranks(score(given.X_test), np.searchsorted(classes, given.y_test))
    found: Codes = _DONE[done]
    return found


def every_fifth(y: Codes) -> NDArray[np.bool_]:
    """Which rows are of every fifth class.

    >>> every_fifth(np.arange(10)).nonzero()[0].tolist()
    [4, 9]
    """
    return np.isin(y, np.unique(y)[4::5])


def held_out(row: str, given: Parts, dim: int, seed: int, *, seen_all: bool) -> Codes:
    """Places of the right class, among all, of test pictures of every fifth class."""
    method = METHODS[row]
    classes, y = np.unique(given.y, return_inverse=True)
    y_test = np.searchsorted(classes, given.y_test)
    learned = ~every_fifth(y) | seen_all
    X, codes = given.X[learned], np.unique(y[learned], return_inverse=True)[1]
    params = choose(method, X, codes, dim, seed)
    project = method.learn(X, codes, dim, seed, **params)
    asked = np.isin(y_test, np.unique(y)[4::5])
    return ranks(method.after(project, given.X, y, **params)(given.X_test[asked]), y_test[asked])


def new(row: str, given: Parts, pictures: int, seed: int, key: tuple[Any, ...]) -> Values:
    """How often each test picture of a new class is named wrongly, (m,), with so many pictures of each new class."""
    name = PRIORS.get(row, row)
    classes, y = np.unique(given.y, return_inverse=True)
    y_test, is_new = np.searchsorted(classes, given.y_test), every_fifth(y)
    done = (*key, "new", name, seed)
    if done not in _DONE:
        codes = np.unique(y[~is_new], return_inverse=True)[1]
        params = choose(METHODS[name], given.X[~is_new], codes, HELD_DIM, seed)
        project = METHODS[name].learn(given.X[~is_new], codes, HELD_DIM, seed, **params)
        _DONE[done] = project(given.X), project(given.X_test)
    Z, asked = _DONE[done]
    pairs = None
    if row in PRIORS:
        means = np.stack([given.X[y == c].mean(axis=0) for c in range(len(classes))])
        pairs = cluster_hierarchy(means, [str(c) for c in range(len(classes))]).pairs
    wanted = np.isin(y_test, np.unique(y)[4::5])
    random = np.random.default_rng(seed)
    weight = 0.0
    if pairs is not None:
        known = np.flatnonzero(~is_new)
        pretended = known[every_fifth(y[known])]  # as if they were new
        errors = np.zeros(len(WEIGHTS))
        for _ in range(REPEATS):
            few = _draw(y, pretended, pictures, random)
            shown, left = np.concatenate([np.setdiff1d(known, pretended), few]), np.setdiff1d(pretended, few)
            errors += [_wrong(Z[shown], y[shown], Z[left], y[left], pairs, one).mean() for one in WEIGHTS]
        weight = WEIGHTS[int(np.argmin(errors))]
        logger.info("%s, %d pictures: weight %g", row, pictures, weight)
    total = np.zeros(int(wanted.sum()))
    for _ in range(REPEATS):
        shown = np.concatenate([np.flatnonzero(~is_new), _draw(y, np.flatnonzero(is_new), pictures, random)])
        total += _wrong(Z[shown], y[shown], asked[wanted], y_test[wanted], pairs, weight)
    return total / REPEATS


def _draw(y: Codes, among: Codes, pictures: int, random: np.random.Generator) -> Codes:
    """So many rows of each class that there is among these, by lot."""
    mixed = random.permutation(among)
    return np.concatenate([mixed[y[mixed] == c][:pictures] for c in np.unique(y[among])])


def _wrong(X: Vectors, y: Codes, asked: Vectors, truth: Codes, pairs: Any, weight: float) -> Values:
    """1 for each row that the nearest class mean names wrongly, (m,); the prior has a weight where there are pairs."""
    model = OpenSet().partial_fit(X, y.astype(str))
    if pairs is not None:
        model.use_hierarchy(pairs, weight)
    return np.asarray(model.predict(asked) != truth.astype(str), np.float64)


def _retrieve(row: str, wanted: _Column, data: Path, seed: int, progress: Progress) -> Values:
    """Each picture of ukbench2000 as a query, by the cosine of projected rows: (q,) values."""
    X, labels, _ = rows(wanted.dataset, data, progress)
    done = data, row, wanted.dataset, wanted.number, "retrieval", seed
    if done not in _DONE:
        learned = rows(_learned_on(wanted), data, progress)
        progress("learning", 0, None)
        _DONE[done] = L2().transform(abroad(METHODS[row], learned[0], learned[1], wanted.number, seed)(X))
    everything = np.arange(len(X))
    value = (
        (lambda relevant, itself: average_precision(relevant, junk=itself))
        if wanted.kind == "map"
        else (lambda relevant, _: four_recall_at_4(relevant))
    )
    return retrieval.rank(_DONE[done], labels, value, progress, queries=everything, database=everything)


def abroad(method: Method, X: Vectors, labels: Any, dim: int, seed: int) -> Any:
    """A projection learned for retrieval: what is watched, or chosen by, are queries of every fifth class."""
    y = np.unique(labels, return_inverse=True)[1]
    out = every_fifth(y)
    if method.watched and method.metric is not None:
        made = method.metric(dim, seed, measure="map").fit(X[~out], y[~out], held=(X[out], y[out]))
        return lambda some: np.asarray(made.transform(some))
    params: Params = {}
    if len(method.candidates) > 1:
        found = [
            mean_average_precision(method.learn(X[~out], y[~out], dim, seed, **one)(X[out]), y[out])
            for one in method.candidates
        ]
        params = method.candidates[int(np.argmax(found))]
    return method.learn(X, y, dim, seed, **params)


def check(columns: Sequence[str], data: Path) -> None:
    """Refuse before the first cell when a set is missing."""
    for column in columns:
        wanted = COLUMNS[column]
        for name in (wanted.dataset, _learned_on(wanted)):
            check_set(name, data)


def _learned_on(column: _Column) -> str:
    """The set that the metric of a column learns from: the same features of corel5k, where things are retrieved."""
    return column.dataset.replace("ukbench2000", "corel5k")


def _printed(column: str) -> bool:
    """Whether a column is the paper's."""
    return any(has(row, column) and paper(row, column) != Printed() for row in ROWS)


BENCH = Bench(
    "ncm",
    "metrics that learn, as classifiers, on new classes and for retrieval",
    ROWS,
    tuple(COLUMNS),
    run,
    check,
    has=has,
    on_request=tuple(column for column in COLUMNS if not _printed(column)),
    paper=paper,
    seconds=seconds,
    shares=shares,
)
