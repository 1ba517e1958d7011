"""Labels from outside: a CSV file, or a folder with one sub-folder per class; and hierarchies of classes."""

import csv
import os
from collections.abc import Iterable
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
    unknown: list[str]  # paths or ids that are not in the collection


def import_labels(store: Store, source: Path, author: str) -> LabelReport:
    """Label the pictures of a collection as a CSV file or a folder says."""
    pairs, unknown = read_labels(store.items, source)
    spelled = store.judgements.classes.canonical_names((label for _, label in pairs), new=True)
    pairs = [(item, spelled[label]) for item, label in pairs]
    store.judgements.add_labels(pairs, author=author, source="folder" if source.is_dir() else "csv")
    return LabelReport(len(pairs), unknown)


def read_labels(items: Items, source: Path) -> tuple[list[tuple[int, str]], list[str]]:
    """Pairs of item and label from a CSV file or a folder, and the names that are not in the collection."""
    if source.is_dir():
        return _read_folders(items, source), []
    if not source.is_file():
        raise InputError(f"No file or folder at {source}.")
    rows = _read_csv(source)
    if rows and "id" in rows[0]:
        names = [row["id"] or "" for row in rows]
        wanted = [parse_id(name) for name in names]
        known = items.get([item for item in wanted if item is not None])
        found = [item if item in known else None for item in wanted]
    else:
        names = [row["path"] or "" for row in rows]
        paths = [os.path.abspath(source.parent / name) for name in names]
        seen = items.seen(paths)
        found = [seen[path].item if path in seen else None for path in paths]
    pairs = [(item, row["label"].strip()) for item, row in zip(found, rows, strict=True) if item is not None]
    return pairs, [name for name, item in zip(names, found, strict=True) if item is None]


def read_hierarchy(source: str | Path | Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs (child, parent) from a CSV file, from nested folders, or as given; InputError if they form a cycle."""
    from lookalike.classes.hierarchy import Hierarchy

    if not isinstance(source, str | Path):
        return Hierarchy(source).pairs
    path = Path(source).expanduser()
    if path.is_dir():
        return Hierarchy(_nested_folders(path)).pairs
    try:
        pairs = Hierarchy.from_csv(path).pairs
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read a hierarchy from {source}: {error}.") from None
    if not pairs:
        raise InputError(
            f"{source} has no line of child,parent. To remove a hierarchy: lookalike classes hierarchy --clear"
        )
    return pairs


def _read_csv(file: Path) -> list[dict[str, str]]:
    """The rows that have a label of a CSV file with the header `path,label` or `id,label`."""
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
                    raise csv.Error(f"a value spans several lines up to line {reader.line_num}: is a quote missing")
                if (row.get("label") or "").strip():
                    rows.append(row)
    except (OSError, csv.Error) as error:
        raise InputError(f"Cannot read labels from {file}: {error}.") from None
    return rows


def _read_folders(items: Items, folder: Path) -> list[tuple[int, str]]:
    """Known pictures below a folder, labelled by the name of its sub-folder that they are in."""
    root = os.path.abspath(folder)
    pairs = []
    for path, seen in items.paths_under(root):
        inner = os.path.relpath(path, root).split(os.sep)
        if seen.item is not None and len(inner) > 1:
            pairs.append((seen.item, inner[0]))
    if not pairs:
        raise InputError(f"No picture of the collection is in a sub-folder of {folder}; their names are the labels.")
    return pairs


def _nested_folders(folder: Path) -> list[tuple[str, str]]:
    """The folders below a folder, each a child of the one that contains it."""
    root = os.path.abspath(folder)
    found = [(name, os.path.basename(top)) for top, names, _ in os.walk(root) for name in sorted(names) if top != root]
    if not found:
        raise InputError(f"There must be folders in folders below {folder}: their nesting is the hierarchy. Got none.")
    return found
