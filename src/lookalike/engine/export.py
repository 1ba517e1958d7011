"""A collection's items as JSON, CSV, a list of paths, or arrays.

In: items with their labels. Out: a file that any other tool reads.
"""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TextIO, TypeAlias

import numpy as np

from lookalike.store.items import Item
from lookalike.types import Ids, Vectors, format_id

Format: TypeAlias = Literal["json", "csv", "paths"]
COLUMNS = ["id", "path", "width", "height", "format", "bytes", "taken_at", "added_at", "labels"]


def write_items(stream: TextIO, rows: Iterable[tuple[Item, list[str]]], format: Format) -> int:
    """Write items with their labels, one after the other; returns how many."""
    return {"json": _json, "csv": _csv, "paths": _paths}[format](stream, rows)


def write_vectors(target: Path, ids: Ids, X: Vectors, paths: dict[int, str]) -> int:
    """`ids` (n,) of 16 hexadecimal digits, `paths` (n,) and `vectors` (n, d) in one .npz file without pickle."""
    names = [format_id(int(item)) for item in ids]
    where = [_printable(paths.get(int(item), "")) for item in ids]
    with target.open("wb") as stream:
        np.savez(stream, ids=np.array(names, "U16"), paths=np.array(where, "U"), vectors=X)
    return len(ids)


def describe(item: Item, labels: list[str]) -> dict[str, Any]:
    """An item as JSON has it."""
    return {
        "id": format_id(item.id),
        "paths": [_printable(path) for path in item.paths],
        "width": item.width,
        "height": item.height,
        "format": item.format,
        "bytes": item.bytes,
        "taken_at": item.taken_at,
        "added_at": item.added_at,
        "labels": [_printable(label) for label in labels],
    }


def _json(stream: TextIO, rows: Iterable[tuple[Item, list[str]]]) -> int:
    count = 0
    stream.write("[")
    for item, labels in rows:
        stream.write(("," if count else "") + "\n" + json.dumps(describe(item, labels), ensure_ascii=False))
        count += 1
    stream.write("\n]\n")
    return count


def _csv(stream: TextIO, rows: Iterable[tuple[Item, list[str]]]) -> int:
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    count = 0
    for item, labels in rows:
        row = describe(item, labels) | {"labels": ";".join(map(_printable, labels))}
        for path in row.pop("paths") or [""]:  # a picture at two paths is two rows
            writer.writerow(row | {"path": path})
        count += 1
    return count


def _paths(stream: TextIO, rows: Iterable[tuple[Item, list[str]]]) -> int:
    count = 0
    for item, _ in rows:
        for path in item.paths:
            stream.write(path + "\n")
        count += 1
    return count


def _printable(path: str) -> str:
    """A path whose undecodable bytes are written as escapes, so that the file is valid UTF-8."""
    return path.encode("utf-8", "backslashreplace").decode()
