"""Labels from outside: a CSV file, or a folder with one sub-folder a class.

In: the file or folder. Out: pairs of item and label, kept in the collection, and the names that no item
answers to.
"""

import csv
import os
from dataclasses import dataclass
from pathlib import Path

from lookalike.errors import InputError
from lookalike.store.directory import Store
from lookalike.store.items import Items
from lookalike.types import parse_id


@dataclass(frozen=True, slots=True)
class LabelReport:
    """What an import of labels did."""

    labelled: int
    unknown: list[str]


def import_labels(store: Store, source: Path, author: str) -> LabelReport:
    """Label the pictures of a collection as a CSV file or a folder says."""
    pairs, unknown = read(store.items, source)
    spelled = store.judgements.classes.canonical_names((label for _, label in pairs), new=True)
    pairs = [(item, spelled[label]) for item, label in pairs]
    store.judgements.add_labels(pairs, author=author, source="folder" if source.is_dir() else "csv")
    return LabelReport(len(pairs), unknown)


def read(items: Items, source: Path) -> tuple[list[tuple[int, str]], list[str]]:
    """Pairs and unknown names from either."""
    if not source.is_file() and not source.is_dir():
        raise InputError(f"No file or folder at {source}.")
    return read_folders(items, source) if source.is_dir() else read_csv(items, source)


def read_csv(items: Items, file: Path) -> tuple[list[tuple[int, str]], list[str]]:
    """Rows of `path,label` or `id,label` (with that header); paths may be relative to the file's folder."""
    try:
        with file.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as stream:
            reader = csv.DictReader(stream, skipinitialspace=True, strict=True)
            columns = reader.fieldnames or []
            if "label" not in columns or not {"id", "path"} & set(columns):
                raise InputError(
                    f"{file} must begin with a header that has path,label or id,label. Got {str(columns)[:80]}."
                )
            rows = []
            for row in reader:
                if any("\n" in (row.get(column) or "") for column in ("id", "path", "label")):
                    raise csv.Error(
                        f"a value goes on over several lines up to line {reader.line_num}: is a quote amiss"
                    )
                if (row.get("label") or "").strip():
                    rows.append(row)
    except (OSError, csv.Error) as error:
        raise InputError(f"Cannot read labels from {file}: {error}.") from None
    if "id" in columns:
        names = [row["id"] or "" for row in rows]
        wanted = [parse_id(name) for name in names]
        have = items.get([item for item in wanted if item is not None])
        found = [item if item in have else None for item in wanted]
    else:
        names = [row["path"] or "" for row in rows]
        paths = [str(Path(os.path.abspath(file.parent / name))) for name in names]
        seen = items.seen(paths)
        found = [seen[path].item if path in seen else None for path in paths]
    pairs = [(item, row["label"].strip()) for item, row in zip(found, rows, strict=True) if item is not None]
    return pairs, [name for name, item in zip(names, found, strict=True) if item is None]


def read_folders(items: Items, folder: Path) -> tuple[list[tuple[int, str]], list[str]]:
    """Known pictures below `folder`, labelled by the name of the sub-folder they are in (its first level)."""
    root = os.path.abspath(folder)
    pairs = []
    for path, seen in items.paths_under(root):
        inner = os.path.relpath(path, root).split(os.sep)
        if seen.item is not None and len(inner) > 1:
            pairs.append((seen.item, inner[0]))
    if not pairs:
        raise InputError(f"No picture of the collection is in a sub-folder of {folder}; their names are the labels.")
    return pairs, []
