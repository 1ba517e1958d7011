"""Retrieval: how well each recipe ranks pictures.

Rows are recipes; `-rerank` re-ranks the first 200 results. Columns are corel1k, corel5k and ukbench2000, measured by
same-class mAP without the query, or by UKBench's 4·recall@4, which counts the query. In `corel5k-split` and the columns
`-outside`, the queries are not in the collection. Each cell uses a new collection: add, fit, then an exact ranking of
its vectors.

More columns run the papers' protocols on `published_sets`. Holidays: average precision without the query. Oxford and
Paris: average precision by the trapezoid rule of their own program; the query is cropped to its box. UKBench:
4·recall@4. Datasets with labels: average precision, where pictures that share a label are relevant; queries are test
pictures among training pictures if the dataset has a test set, or else each picture among the others.
"""

import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lookalike.arrays import CHUNK_BYTES, chunks
from lookalike.collection import Collection, Crop
from lookalike.collection.searching import RERANKED
from lookalike.index.rerank import rerank
from lookalike.recipes import RECIPES
from lookalike.types import Progress, Vectors
from lookalike_bench import datasets, published_sets
from lookalike_bench.measures import (
    Values,
    average_precision,
    bootstrap,
    four_recall_at_4,
    mean,
    precision_at,
    trapezoid_precision,
)
from lookalike_bench.published_sets import LabelledSet, QuerySet
from lookalike_bench.tables import Bench, Score
from lookalike_bench.vectors import describe, describe_outside

Measure = Callable[[NDArray[np.bool_], NDArray[np.bool_]], Values]
"""From masks of the relevant results and of the query itself, both (q, n), best first, to a value per query."""


@dataclass(frozen=True)
class _Column:
    dataset: str
    measure: str
    value: Measure
    is_outside: Callable[[str], bool] | None = None
    """Whether a picture, by name, is a query outside the collection. None: all pictures are in it, and are queries."""


def _number(name: str) -> int:
    """The number in the file name of a picture."""
    return int(re.sub(r"\D", "", PurePosixPath(name).stem))


def _average_precision(relevant: NDArray[np.bool_], _: NDArray[np.bool_]) -> Values:
    return average_precision(relevant)


COLUMNS = {
    "corel1k": _Column("corel1k", "mAP", lambda relevant, itself: average_precision(relevant, junk=itself)),
    "corel5k": _Column("corel5k", "mAP", lambda relevant, itself: average_precision(relevant, junk=itself)),
    "corel1k-outside": _Column("corel1k", "mAP", _average_precision, lambda name: _number(name) % 5 == 0),
    "corel5k-split": _Column("corel5k", "mAP", _average_precision, lambda name: name.startswith("test/")),
    "ukbench2000-outside": _Column("ukbench2000", "mAP", _average_precision, lambda name: _number(name) % 4 == 0),
    "ukbench2000": _Column("ukbench2000", "4·recall@4", lambda relevant, _: four_recall_at_4(relevant)),
    "ukbench2000-first": _Column("ukbench2000", "P@1", lambda relevant, itself: precision_at(relevant, 1, junk=itself)),
}
RERANK = "-rerank"
RERANKED_ROWS = ("deep-rerank", "deep-plain-rerank")
USUAL = ("ukbench2000", "ukbench2000-first")
SLOW = {"fisher": 200.0, "fisher256": 250.0, "vlad": 150.0, "deepvlad": 100.0}
SECONDS = SLOW | {"color": 10.0, "classic": 15.0}
"""Seconds of a recipe on one core for 2,000 pictures; others take a minute. Slow recipes are on request."""


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:
    """Fill one cell. `seed` seeds the bootstrap; nothing else is random."""
    if column in published_sets.SETS:
        measure = "4·recall@4" if column == "ukbench" else "mAP"
        values, scored = _published_values(row, column, data, progress)
    else:
        wanted = COLUMNS[column]
        measure = wanted.measure
        recipe = row.removesuffix(RERANK)
        if wanted.is_outside is None:
            X, labels, _ = describe(wanted.dataset, recipe, data, progress)
            queries = database = np.arange(len(X))
        else:
            inside, outside = describe_outside(wanted.dataset, recipe, data, wanted.is_outside, progress)
            X, labels = np.concatenate([inside.X, outside.X]), np.concatenate([inside.labels, outside.labels])
            database, queries = np.arange(len(inside.X)), np.arange(len(inside.X), len(X))
        reranks = row.endswith(RERANK)
        values = rank(X, labels, wanted.value, progress, queries=queries, database=database, reranks=reranks)
        scored = len(queries) * len(database)
    low, high = bootstrap(values, seed=seed)
    return Score(measure, mean(values), low, high, scored=scored)


def rank(
    X: Vectors,
    labels: NDArray[np.str_],
    measure: Measure,
    progress: Progress,
    *,
    queries: NDArray[np.intp],
    database: NDArray[np.intp],
    reranks: bool = False,
) -> Values:
    """Rank the database rows for each query row by Euclidean distance; return a value per query, (q,).

    With `reranks`, the first 200 results are re-ranked by the neighbours that they share with the query.
    """
    n = len(database)
    Y, classes = X[database], labels[database]  # (n, d), (n,)
    squares = np.einsum("ij,ij->i", Y, Y)  # (n,)
    values = []
    for part in chunks(len(queries), 64 * n, CHUNK_BYTES):
        asked = queries[part]  # (m,)
        scores = squares - 2 * (X[asked] @ Y.T)  # (m, n): the squared distance, minus a constant per query
        itself = asked[:, None] == database  # (m, n)
        scores[itself] = -np.inf  # despite rounding, the query itself comes first
        order = np.argsort(scores, axis=1, kind="stable")  # (m, n)
        if reranks:
            for query, found in zip(asked, order, strict=True):
                found[:RERANKED] = found[:RERANKED][np.argsort(rerank(X[query], Y[found[:RERANKED]]), kind="stable")]
        relevant = classes[order] == labels[asked, None]
        values.append(measure(relevant, np.take_along_axis(itself, order, axis=1)))
        progress("ranking", part.stop, len(queries))
    return np.concatenate(values)


def check(columns: Sequence[str], data: Path) -> None:
    """Raise an error before the first cell if a dataset is missing."""
    for column in columns:
        if column in published_sets.SETS:
            published_sets.load(column, data)
        else:
            datasets.load(COLUMNS[column].dataset, data)


def _published_values(row: str, name: str, data: Path, progress: Progress) -> tuple[Values, int]:
    """The value of each query, (q,), and the number of vectors compared."""
    given = published_sets.load(name, data)
    with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as scratch:
        if isinstance(given, QuerySet):
            return _query_values(row, name, given, Path(scratch), progress)
        return _label_values(row, given, Path(scratch), progress)


def _query_values(row: str, name: str, given: QuerySet, scratch: Path, progress: Progress) -> tuple[Values, int]:
    with Collection(scratch / "collection", create=True) as collection:
        X = _describe(collection, row, given.pictures, progress)
        values = []
        for done, query in enumerate(given.queries, 1):
            picture = given.pictures[query.picture]
            x = X[query.picture] if query.box is None else _describe_box(collection, picture, query.box)
            order = np.argsort(((X - x) ** 2).sum(axis=1), kind="stable")
            relevant, junk = (np.isin(order, list(rows))[None] for rows in (query.relevant, query.junk))
            values.append(_query_value(name, relevant, junk))
            progress("ranking", done, len(given.queries))
    return np.concatenate(values), len(given.queries) * len(X)


def _query_value(name: str, relevant: NDArray[np.bool_], junk: NDArray[np.bool_]) -> Values:
    if name == "ukbench":
        return four_recall_at_4(relevant)
    if name == "holidays":
        return average_precision(relevant, junk=junk)
    return trapezoid_precision(relevant, junk=junk)


def _label_values(row: str, given: LabelledSet, scratch: Path, progress: Progress) -> tuple[Values, int]:
    words = sorted(set().union(*given.labels))
    has = np.array([[word in own for word in words] for own in given.labels])  # (n, words)
    with Collection(scratch / "collection", create=True) as collection:
        X = _describe(collection, row, _files(given.pictures, scratch), progress)
    queries = np.flatnonzero(given.test) if given.test.any() else np.arange(len(X))
    database = np.flatnonzero(~given.test)
    Y, squares = X[database], (X[database] ** 2).sum(axis=1)
    values = []
    for part in chunks(len(queries), 64 * len(database), CHUNK_BYTES):
        rows = queries[part]
        order = np.argsort(squares - 2 * (X[rows] @ Y.T), axis=1, kind="stable")  # (m, n)
        relevant = (has[rows].astype(np.float32) @ has[database].T.astype(np.float32)) > 0
        itself = rows[:, None] == database
        ranked = (np.take_along_axis(one, order, axis=1) for one in (relevant, itself))
        values.append(average_precision(next(ranked), junk=next(ranked)))
        progress("ranking", part.stop, len(queries))
    return np.concatenate(values), len(queries) * len(database)


def _describe(collection: Collection, row: str, pictures: Sequence[Path], progress: Progress) -> Vectors:
    """Vectors (n, d) in the order of the pictures; an error if a picture cannot be read."""
    listing = collection.path.with_suffix(".txt")
    listing.write_text("".join(f"{picture.absolute()}\n" for picture in pictures))
    collection.add(listing, recipes=[row], progress=progress)
    collection.fit(progress=progress)
    ids, X = collection.vectors()
    at = {path: item.id for item in collection.items() for path in item.paths}
    rows = np.searchsorted(ids, [at[str(picture.absolute())] for picture in pictures])
    return np.asarray(X)[rows]


def _describe_box(collection: Collection, picture: Path, box: tuple[float, float, float, float]) -> Any:
    """The vector (d,) of the part of a picture inside a box in pixels."""
    with Image.open(picture) as image:
        width, height = image.size
    left, top, right, bottom = box
    inside = (
        max(0.0, left / width),
        max(0.0, top / height),
        min(1.0, right / width),
        min(1.0, bottom / height),
    )
    return collection.describe(Crop(picture, inside))[0]


def _files(pictures: Sequence[Any], scratch: Path) -> Sequence[Path]:
    """Paths of the pictures; arrays are written to files."""
    if isinstance(pictures[0], Path):
        return pictures
    files = [scratch / f"{number:06d}.png" for number in range(len(pictures))]
    for file, pixels in zip(files, pictures, strict=True):
        Image.fromarray(pixels).save(file)
    return files


BENCH = Bench(
    "retrieval",
    "how well each recipe ranks real pictures",
    (*RECIPES, *RERANKED_ROWS),
    (*COLUMNS, *published_sets.SETS),
    run,
    check,
    on_request=(*SLOW, *RERANKED_ROWS, *(name for name in COLUMNS if name not in USUAL), *published_sets.SETS),
    seconds=lambda row, column: 1.0 if column == "ukbench2000-first" else SECONDS.get(row.removesuffix(RERANK), 60.0),
)
