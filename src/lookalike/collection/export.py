"""Export: items and search results as JSON, CSV, a list of paths or COCO annotations, and vectors as arrays.

Text is generated piece by piece. COCO: Lin et al., "Microsoft COCO: common objects in context", ECCV 2014; a label is
an annotation whose box is the whole picture.
"""

import csv
import io
import json
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, Literal, TextIO, TypeAlias, get_args

import numpy as np

from lookalike.atomic_files import write_errors
from lookalike.collection.copies import describe_copies
from lookalike.collection.duplicates import Group
from lookalike.collection.label_formats import DATASETS
from lookalike.collection.label_formats import FORMATS as LABEL_FORMATS
from lookalike.collection.label_writers import OnSkip, label_studio_lines
from lookalike.collection.label_writers import Row as DatasetRow
from lookalike.collection.label_writers import Target as DatasetTarget
from lookalike.collection.picture_files import check_new_folder, write_pictures, zip_pictures
from lookalike.collection.resolve import ITEMS_BATCH, items_in, items_of, select
from lookalike.collection.searching import Result
from lookalike.collection.tables import valid_unicode
from lookalike.errors import InputError, UnknownNameError
from lookalike.images.sources import absolute, relative_to
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item
from lookalike.store.judgements import LabelRecord
from lookalike.text import safe_names
from lookalike.types import Ids, Progress, Vectors, format_id

Format: TypeAlias = Literal["json", "csv", "paths", "coco", "labelstudio"]
FORMATS = [*get_args(Format), *DATASETS, "parquet", "npz"]
"""The names of all formats of `Collection.export`."""

Row: TypeAlias = tuple[Item, Sequence[LabelRecord]]
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters that make a spreadsheet interpret a cell as a formula (OWASP, "CSV injection")."""
COLUMNS = ["id", "path", "width", "height", "format", "bytes", "taken_at", "added_at", "labels"]


def lines(rows: Iterable[Row], format: Format, parents: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Items and their labels as text, piece by piece; `parents` maps all classes to their parents."""
    if format == "coco":
        return _coco(rows, parents)
    return {"json": _json, "csv": _csv, "paths": _paths}[format](rows)


def item_lines(
    store: Store,
    format: Format,
    filter: Filter | None,
    on_item: Callable[[Item], None] | None = None,
    *,
    ids: Sequence[int] | None = None,
    classes: Container[str] | None = None,
    relative: bool = False,
) -> Iterator[str]:
    """The items of a collection, or those with these ids, as text, piece by piece; `on_item` is called with each.

    COCO has only these `classes` as categories, by default all.
    """
    check_format(format)
    parents: dict[str, list[str]] = {name: [] for name in store.judgements.classes.counts()}
    for child, parent in store.judgements.classes.parents():
        parents.setdefault(child, []).append(parent)
    if classes is not None:
        parents = {name: above for name, above in parents.items() if name in classes}
    rows = _rows(store, items_of(store, filter) if ids is None else items_in(store, ids), on_item)
    if relative:
        rows = map(partial(relative_row, relative_to(store.items.sources())), rows)
    if format == "labelstudio":
        return label_studio_lines(_with_predictions(store, rows))
    return lines(rows, format, parents)


def relative_row(relative: Callable[[str], str], row: Row) -> Row:
    """The same row with relative paths."""
    item, records = row
    return replace(item, paths=[relative(path) for path in item.paths]), records


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write text to a file. Names of files that are not Unicode are written byte for byte."""
    with write_errors(path), path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        stream.writelines(lines)


def write_items(
    store: Store, target: str | Path | TextIO, format: Format, filter: Filter | None, progress: Progress
) -> int:
    """Write the items to a path or an open text file; return their number."""
    written: list[int] = []

    def count(item: Item) -> None:
        if len(written) % ITEMS_BATCH == 0:
            progress("exporting", len(written), None)
        written.append(item.id)

    texts = item_lines(store, format, filter, count)  # may fail before a file is opened
    if isinstance(target, str | Path):
        write_lines(Path(target), texts)
    elif hasattr(target, "write"):
        for text in texts:
            target.write(text)
    else:
        raise InputError(f"The target of an export must be a path or an open text file. Got {target!r:.80}.")
    return len(written)


def check_format(format: str) -> None:
    """Raise UnknownNameError for an unknown format."""
    if format not in get_args(Format):
        raise UnknownNameError("format", format, FORMATS)


def group_lines(groups: Iterable[tuple[Group, Sequence[Row]]], format: Literal["json", "csv"]) -> Iterator[str]:
    """Groups of duplicates with their items, as `lines` writes them; in CSV, one line per file of a group."""
    if format == "csv":
        yield _csv_line(["group", "tier", "distance", "relation", *COLUMNS])
        for group, rows in groups:
            for row, relation in zip(rows, _relations(group, rows), strict=True):
                for cells in _cells(*row):
                    yield _csv_line([group.id, group.tier, _distance(group, row[0]), relation, *cells])
        return
    yield from _json_array(
        {
            "id": group.id,
            "tier": group.tier,
            "why": group.why,
            "items": [
                describe(item, _labels(records)) | {"distance": _distance(group, item), "relation": relation}
                for (item, records), relation in zip(rows, _relations(group, rows), strict=True)
            ],
        }
        for group, rows in groups
    )


def result_lines(store: Store, results: Sequence[Result], format: Literal["json", "csv", "paths"]) -> Iterator[str]:
    """The results of a search as text, with rank, score and likelihood; in CSV, one line per file."""
    found = {result.id: (rank, result) for rank, result in enumerate(results, 1)}
    rows = _rows(store, items_in(store, list(found)), None)
    if format == "paths":
        yield from _paths(rows)
    elif format == "csv":
        yield _csv_line(["rank", "score", "likely", *COLUMNS])
        for row in rows:
            rank, result = found[row[0].id]
            for cells in _cells(*row):
                yield _csv_line([rank, round(result.score, 6), result.likely, *cells])
    else:
        yield from _json_array(
            {"rank": found[item.id][0], "score": found[item.id][1].score, "likely": found[item.id][1].likely}
            | describe(item, _labels(records))
            for item, records in rows
        )


def part_lines(store: Store, parts: Mapping[str, Sequence[int]], labels: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """The items of parts as CSV, one line per path, with these labels."""
    yield _csv_line(["part", *COLUMNS])
    for part, ids in parts.items():
        for item in items_in(store, ids):
            records = [LabelRecord(label, "", "", 0.0) for label in labels[item.id]]
            for cells in _cells(item, records):
                yield _csv_line([part, *cells])


def write_results(store: Store, results: Sequence[Result], target: str | Path, progress: Progress) -> dict[str, str]:
    """Write results to a .json, .csv or .txt file, or their pictures to a .zip or a new folder; return missing ones."""
    path = Path(absolute(target))
    formats: dict[str, Literal["json", "csv", "paths"]] = {".json": "json", ".csv": "csv", ".txt": "paths"}
    chosen = formats.get(path.suffix.lower())
    if chosen is not None:
        write_lines(path, result_lines(store, results, chosen))
        return {}
    is_zip = path.suffix.lower() == ".zip"
    if not is_zip:
        check_new_folder(path)
    digits = len(str(len(results)))
    names = safe_names(
        f"{rank:0{digits}} {PurePath((result.path or format_id(result.id)).rpartition('::')[2]).name}"
        for rank, result in enumerate(results, 1)
    )
    files = [(result.id, name) for result, name in zip(results, names, strict=True)]
    if is_zip:
        return zip_pictures(store, files, path, progress=progress)
    return write_pictures(store, [(item, path / name) for item, name in files], progress=progress)


def write_dataset(
    store: Store,
    target: str | Path | TextIO,
    format: str,
    filter: Filter | None,
    *,
    copy: bool,
    on_skip: OnSkip | None,
    progress: Progress,
) -> int:
    """Write the items with their pictures as a dataset of another tool; return their number."""
    write = LABEL_FORMATS[format].write
    assert write is not None
    if not isinstance(target, str | Path):
        raise InputError(f"The format {format} contains pictures. Give a path instead of an open file.")
    ids = select(store, filter or Filter()).tolist()
    return write(DatasetTarget(store, ids, Path(absolute(target)), copy, on_skip, progress))


def write_vectors(
    store: Store, target: str | Path | TextIO, vectors: Callable[[], tuple[Ids, Vectors]], filter: Filter | None
) -> int:
    """Write `ids` (n,) of 16 hexadecimal digits, `paths` (n,) and `vectors` (n, d) to an .npz file without pickle."""
    if not isinstance(target, str | Path):
        raise InputError("Vectors can only be exported to a file. Give a path that ends in .npz.")
    ids, X = vectors()
    if filter is not None:
        passed = np.isin(ids, select(store, filter))
        ids, X = ids[passed], X[passed]
    paths = store.items.first_paths(ids.tolist())
    hex_ids = [format_id(int(item)) for item in ids]
    shown_paths = [valid_unicode(paths.get(int(item), "")) for item in ids]
    with Path(target).open("wb") as stream:
        np.savez(stream, ids=np.array(hex_ids, "U16"), paths=np.array(shown_paths, "U"), vectors=X)
    return len(ids)


def describe(item: Item, labels: Sequence[str]) -> dict[str, Any]:
    """An item as JSON."""
    return {
        "id": format_id(item.id),
        "paths": [valid_unicode(path) for path in item.paths],
        "width": item.width,
        "height": item.height,
        "format": item.format,
        "bytes": item.bytes,
        "taken_at": _date(item.taken_at),
        "added_at": _date(item.added_at),
        "labels": [valid_unicode(label) for label in labels],
    }


def cell(text: str) -> str:
    """Return the text of a spreadsheet cell; text that would be a formula is quoted.

    >>> cell("beach"), cell("=1+1")
    ('beach', "'=1+1")
    """
    return f"'{text}" if text.startswith(FORMULAS) else text


def _rows(store: Store, items: Iterator[Item], on_item: Callable[[Item], None] | None) -> Iterator[Row]:
    while batch := list(islice(items, ITEMS_BATCH)):
        records = store.judgements.label_records([item.id for item in batch])
        for item in batch:
            if on_item is not None:
                on_item(item)
            yield item, records.get(item.id, [])


def _with_predictions(store: Store, rows: Iterator[Row]) -> Iterator[DatasetRow]:
    while batch := list(islice(rows, ITEMS_BATCH)):
        predictions = store.judgements.predictions.get([item.id for item, _ in batch])
        for item, records in batch:
            labels = [valid_unicode(label) for label in _labels(records)]
            yield DatasetRow(item, labels, predictions.get(item.id))


def _distance(group: Group, item: Item) -> float:
    return round(group.distances[group.items.index(item.id)], 6)


def _relations(group: Group, rows: Sequence[Row]) -> list[str]:
    return describe_copies(group, {item.id: item for item, _ in rows})


def _json(rows: Iterable[Row]) -> Iterator[str]:
    return _json_array(describe(item, _labels(records)) for item, records in rows)


def _csv(rows: Iterable[Row]) -> Iterator[str]:
    yield _csv_line(COLUMNS)
    for row in rows:
        for cells in _cells(*row):
            yield _csv_line(cells)


def _cells(item: Item, records: Sequence[LabelRecord]) -> Iterator[list[Any]]:
    """Yield the values of COLUMNS, one line per path."""
    values = describe(item, []) | {"labels": ";".join(cell(valid_unicode(label)) for label in _labels(records))}
    for path in values.pop("paths") or [""]:
        yield [(values | {"path": cell(path)})[name] for name in COLUMNS]


def _csv_line(values: Sequence[Any]) -> str:
    """Format one line. The writer's line end has a carriage return, so it quotes values with one; it is removed."""
    written = io.StringIO(newline="")
    csv.writer(written).writerow(values)
    return written.getvalue().removesuffix("\r\n") + "\n"


def _paths(rows: Iterable[Row]) -> Iterator[str]:
    for item, _ in rows:
        yield "".join(path + "\n" for path in item.paths)


def _coco(rows: Iterable[Row], parents: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """COCO annotations. Ids start at 1, as COCO readers expect; each label has its author, source and time."""
    numbers = {name: number for number, name in enumerate(sorted(parents), 1)}
    annotations: list[tuple[int, int, int, LabelRecord]] = []  # held in memory; only the pictures are streamed

    def images() -> Iterator[dict[str, Any]]:
        for number, (item, records) in enumerate(rows, 1):
            annotations.extend(
                (number, item.width, item.height, record) for record in records if record.label in numbers
            )
            yield {
                "id": number,
                "file_name": valid_unicode(item.paths[0]) if item.paths else "",
                "width": item.width,
                "height": item.height,
                "date_captured": _date(item.taken_at),
                "item": format_id(item.id),
            }

    info = {"description": "Labels of a Lookalike collection, on whole pictures", "date_created": _date(time.time())}
    yield f'{{"info": {json.dumps(info)},\n"licenses": [],\n"images": '
    yield from _array("[", images())
    categories = [
        {"id": number, "name": valid_unicode(name), "supercategory": valid_unicode(next(iter(parents[name]), ""))}
        for name, number in numbers.items()
    ]
    yield from _array('\n],\n"categories": [', categories)
    described = (
        {
            "id": count,
            "image_id": number,
            "category_id": numbers[record.label],
            "bbox": [0, 0, width, height],
            "area": width * height,
            "iscrowd": 0,
            "segmentation": [],
            "author": valid_unicode(record.author),
            "source": valid_unicode(record.source),
            "said_at": _date(record.at),
        }
        for count, (number, width, height, record) in enumerate(annotations, 1)
    )
    yield from _array('\n],\n"annotations": [', described)
    yield "\n]}\n"


def _array(opening: str, values: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A JSON array without its end, one value per line."""
    yield opening
    for count, value in enumerate(values):
        yield ("," if count else "") + "\n" + json.dumps(value, ensure_ascii=False)


def _json_array(values: Iterable[dict[str, Any]]) -> Iterator[str]:
    yield from _array("[", values)
    yield "\n]\n"


def _labels(records: Sequence[LabelRecord]) -> list[str]:
    return [record.label for record in records]


def _date(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
