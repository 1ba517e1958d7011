"""The papers' own protocols on standard sets, for whoever has them.

In: a recipe, the name of a set of `standard` or `standard_labelled`, the data folder. Out: a value a query. Holidays:
average precision without the query; Oxford and Paris: by the trapezoids of their own program, the query is what is
inside its box; UKBench: 4·recall@4. Sets with labels: average precision of what has a label in common, of test pictures
among training pictures where the set has a test part, of each among the others elsewhere.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lookalike.arrays import CHUNK_BYTES, chunks
from lookalike.collection import Collection, Crop
from lookalike.types import Progress, Vectors
from lookalike_bench import standard, standard_labelled
from lookalike_bench.measures import Values, average_precision, four_recall_at_4, trapezoid_precision

NAMES = (*standard.SETS, *standard_labelled.SETS)
MEASURES = {name: "4·recall@4" if name == "ukbench" else "mAP" for name in NAMES}


def measure(row: str, name: str, data: Path, progress: Progress) -> tuple[Values, int]:
    """The value of each query, (q,), and how many vectors were compared."""
    with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as scratch:
        if name in standard.SETS:
            return _asked(row, name, standard.load(name, data, standard.SETS), Path(scratch), progress)
        given = standard.load(name, data, standard_labelled.SETS)
        return _shared(row, given, Path(scratch), progress)


def check(name: str, data: Path) -> None:
    """Refuse a set that is not there."""
    if name in standard.SETS:
        standard.load(name, data, standard.SETS)
    else:
        standard.load(name, data, standard_labelled.SETS)


def _asked(row: str, name: str, given: standard.Protocol, scratch: Path, progress: Progress) -> tuple[Values, int]:
    with Collection(scratch / "collection", create=True) as collection:
        X = _describe(collection, row, given.pictures, progress)
        values = []
        for done, asked in enumerate(given.queries, 1):
            x = X[asked.picture] if asked.box is None else _part(collection, given.pictures[asked.picture], asked.box)
            order = np.argsort(((X - x) ** 2).sum(axis=1), kind="stable")
            relevant, junk = (np.isin(order, list(rows))[None] for rows in (asked.relevant, asked.junk))
            values.append(_value(name, relevant, junk))
            progress("ranking", done, len(given.queries))
    return np.concatenate(values), len(given.queries) * len(X)


def _value(name: str, relevant: NDArray[np.bool_], junk: NDArray[np.bool_]) -> Values:
    if name == "ukbench":
        return four_recall_at_4(relevant)
    if name == "holidays":
        return average_precision(relevant, junk=junk)
    return trapezoid_precision(relevant, junk=junk)


def _shared(row: str, given: standard_labelled.Labelled, scratch: Path, progress: Progress) -> tuple[Values, int]:
    words = sorted(set().union(*given.labels))
    has = np.array([[word in own for word in words] for own in given.labels])  # (n, words)
    with Collection(scratch / "collection", create=True) as collection:
        X = _describe(collection, row, _files(given.pictures, scratch), progress)
    asked = np.flatnonzero(given.test) if given.test.any() else np.arange(len(X))
    among = np.flatnonzero(~given.test)
    Y, squares = X[among], (X[among] ** 2).sum(axis=1)
    values = []
    for part in chunks(len(asked), 64 * len(among), CHUNK_BYTES):
        rows = asked[part]
        order = np.argsort(squares - 2 * (X[rows] @ Y.T), axis=1, kind="stable")  # (m, n)
        relevant = (has[rows].astype(np.float32) @ has[among].T.astype(np.float32)) > 0
        itself = rows[:, None] == among
        ranked = (np.take_along_axis(one, order, axis=1) for one in (relevant, itself))
        values.append(average_precision(next(ranked), junk=next(ranked)))
        progress("ranking", part.stop, len(asked))
    return np.concatenate(values), len(asked) * len(among)


def _describe(collection: Collection, row: str, pictures: Sequence[Path], progress: Progress) -> Vectors:
    """(n, d) in the order of the pictures; refuses a set with pictures that cannot be read."""
    listing = collection.path.with_suffix(".txt")
    listing.write_text("".join(f"{picture.absolute()}\n" for picture in pictures))
    collection.add(listing, recipes=[row], progress=progress)
    collection.fit(progress=progress)
    ids, X = collection.vectors()
    at = {path: item.id for item in collection.items() for path in item.paths}
    rows = np.searchsorted(ids, [at[str(picture.absolute())] for picture in pictures])
    return np.asarray(X)[rows]


def _part(collection: Collection, picture: Path, box: tuple[float, float, float, float]) -> Any:
    """The vector of what is inside a box in pixels, (d,)."""
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
    """Pictures that are arrays become files."""
    if isinstance(pictures[0], Path):
        return pictures
    files = [scratch / f"{number:06d}.png" for number in range(len(pictures))]
    for file, pixels in zip(files, pictures, strict=True):
        Image.fromarray(pixels).save(file)
    return files
