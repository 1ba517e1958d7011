"""Match the names of pictures in a file of labels or vectors, which are ids or paths, to items of the collection."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from lookalike.images.sources import is_url
from lookalike.store.items import Items
from lookalike.types import Progress, parse_id, silent

BATCH = 10_000
"""Names looked up in the catalogue at a time."""


def match_names(
    items: Items, names: Sequence[str], folder: str | Path, *, anywhere: bool = False, progress: Progress = silent
) -> list[int | None]:
    """Return the item of each name, None if it is not in the collection.

    A name is an id of 16 hexadecimal digits, a URL, an absolute path, or a path relative to `folder`. With `anywhere`,
    other paths match the item whose id is the name of the file, as in datasets that `export` has written, or the
    picture whose path ends with them, if it is the only one: datasets are often moved after their labels were written.
    """
    found: list[int | None] = []
    for start in range(0, len(names), BATCH):
        progress("matching names", start, len(names))
        found += _match_batch(items, names[start : start + BATCH], folder)
    if anywhere and None in found:
        by_id = {name: _id_in(name) for name, item in zip(names, found, strict=True) if item is None}
        known = set(items.existing(item for item in by_id.values() if item is not None).tolist())
        found = [
            by_id[name] if item is None and by_id[name] in known else item
            for name, item in zip(names, found, strict=True)
        ]
    if anywhere and (left := [name for name, item in zip(names, found, strict=True) if item is None]):
        by_end = _match_ends(items, left)
        found = [by_end.get(_parts(name)) if item is None else item for name, item in zip(names, found, strict=True)]
    return found


def _match_batch(items: Items, names: Sequence[str], folder: str | Path) -> list[int | None]:
    ids = [parse_id(name) for name in names]
    known = set(items.existing(item for item in ids if item is not None).tolist())
    paths = [_absolute(name, folder) for name in names]
    seen = items.seen(paths)
    by_path = [seen[path].item if path in seen else None for path in paths]
    return [item if item in known else other for item, other in zip(ids, by_path, strict=True)]


def _absolute(name: str, folder: str | Path) -> str:
    """The absolute path of a name, or its URL; "" for text that cannot be the name of a file."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return ""
    return name if is_url(name) else os.path.abspath(os.path.join(folder, name))


def _match_ends(items: Items, names: Iterable[str]) -> dict[tuple[str, ...], int]:
    """The only item whose path ends with each of these names, by the parts of the name."""
    wanted: dict[str, set[tuple[str, ...]]] = {}
    for name in names:
        if parts := _parts(name):
            wanted.setdefault(parts[-1], set()).add(parts)
    found: dict[tuple[str, ...], set[int]] = {}
    for path, item in items.paths():
        for parts in wanted.get(_parts(path)[-1], ()):
            if _parts(path)[-len(parts) :] == parts:
                found.setdefault(parts, set()).add(item)
    return {parts: next(iter(matches)) for parts, matches in found.items() if len(matches) == 1}


def _id_in(name: str) -> int | None:
    """The id that is the name of a file, without its extension; None for other names."""
    parts = _parts(name)
    return parse_id(parts[-1].partition(".")[0]) if parts else None


def _parts(path: str) -> tuple[str, ...]:
    """The components of a path, without those that do not name a folder; a member of an archive is below it."""
    return tuple(part for part in path.replace("::", "/").split("/") if part not in ("", ".", ".."))
