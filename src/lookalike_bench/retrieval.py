"""Retrieval: how well each recipe ranks real image sets.

In: recipes × {corel1k, corel5k, ukbench2000}. Out: same-class mAP with the query left out, or of test pictures among
training pictures, or UKBench's 4·recall@4 with the query ranked. Each cell goes through the engine: a new collection,
add, fit, exact ranks of its vectors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import CHUNK_BYTES, chunks
from lookalike.recipes import RECIPES
from lookalike.types import Progress, Vectors
from lookalike_bench import datasets, standard_retrieval
from lookalike_bench.described import describe
from lookalike_bench.measures import Values, average_precision, bootstrap, four_recall_at_4, mean, precision_at
from lookalike_bench.tables import Bench, Score

Measure = Callable[[NDArray[np.bool_], NDArray[np.bool_]], Values]
"""From what is relevant and what is the query itself, both (q, n) best first, to a value per query."""


@dataclass(frozen=True)
class _Column:
    dataset: str
    measure: str
    value: Measure
    queries: str = ""
    database: str = ""
    """What the names of pictures begin with that are looked for, and looked among."""


COLUMNS = {
    "corel1k": _Column("corel1k", "mAP", lambda relevant, itself: average_precision(relevant, junk=itself)),
    "corel5k": _Column("corel5k", "mAP", lambda relevant, itself: average_precision(relevant, junk=itself)),
    "corel5k-split": _Column("corel5k", "mAP", lambda relevant, _: average_precision(relevant), "test/", "train/"),
    "ukbench2000": _Column("ukbench2000", "4·recall@4", lambda relevant, _: four_recall_at_4(relevant)),
    "ukbench2000-first": _Column("ukbench2000", "P@1", lambda relevant, itself: precision_at(relevant, 1, junk=itself)),
}


USUAL = ("ukbench2000", "ukbench2000-first")
SLOW = {"fisher": 200.0, "fisher256": 250.0, "vlad": 150.0, "deepvlad": 100.0}
SECONDS = SLOW | {"color": 10.0, "classic": 15.0}
"""About how long a recipe takes on one core for 2,000 pictures; the others take a minute. Slow ones are on request."""


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:
    """One recipe on one set. `seed` draws the bootstrap; nothing else is random."""
    if column in standard_retrieval.NAMES:
        values, scored = standard_retrieval.measure(row, column, data, progress)
        low, high = bootstrap(values, seed=seed)
        return Score(standard_retrieval.MEASURES[column], mean(values), low, high, scored=scored)
    wanted = COLUMNS[column]
    X, labels, names = describe(wanted.dataset, row, data, progress)
    queries, database = (
        np.flatnonzero(np.char.startswith(names, prefix)) for prefix in (wanted.queries, wanted.database)
    )
    values = rank(X, labels, wanted.value, progress, queries=queries, database=database)
    low, high = bootstrap(values, seed=seed)
    return Score(wanted.measure, mean(values), low, high, scored=len(queries) * len(database))


def rank(
    X: Vectors,
    labels: NDArray[np.str_],
    measure: Measure,
    progress: Progress,
    *,
    queries: NDArray[np.intp],
    database: NDArray[np.intp],
) -> Values:
    """Each of the query rows once, against the rows of the database, by Euclidean distance: (q,) values."""
    n = len(database)
    Y, classes = X[database], labels[database]  # (n, d), (n,)
    squares = np.einsum("ij,ij->i", Y, Y)  # (n,)
    values = []
    for part in chunks(len(queries), 64 * n, CHUNK_BYTES):
        asked = queries[part]  # (m,)
        scores = squares - 2 * (X[asked] @ Y.T)  # (m, n): the squared distance, less a constant per query
        itself = asked[:, None] == database  # (m, n)
        scores[itself] = -np.inf  # rounding puts nothing before the query itself
        order = np.argsort(scores, axis=1, kind="stable")  # (m, n)
        relevant = classes[order] == labels[asked, None]
        values.append(measure(relevant, np.take_along_axis(itself, order, axis=1)))
        progress("ranking", part.stop, len(queries))
    return np.concatenate(values)


def check(columns: Sequence[str], data: Path) -> None:
    """Refuse before the first cell when a set is missing."""
    for column in columns:
        if column in standard_retrieval.NAMES:
            standard_retrieval.check(column, data)
        else:
            datasets.load(COLUMNS[column].dataset, data)


BENCH = Bench(
    "retrieval",
    "how well each recipe ranks real image sets",
    tuple(RECIPES),
    (*COLUMNS, *standard_retrieval.NAMES),
    run,
    check,
    on_request=(*SLOW, *(name for name in COLUMNS if name not in USUAL), *standard_retrieval.NAMES),
    seconds=lambda row, column: 1.0 if column == "ukbench2000-first" else SECONDS.get(row, 60.0),
)
