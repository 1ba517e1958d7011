"""The copies in a group of duplicates: what each one is, which to keep, and which to mark. Nothing is removed.

A copy is marked only if a kept picture, whose file exists, shows the same part or, with `crops`, more. So at least one
copy of each picture remains, and crops, which may be intended, are not marked by default. Two paths of one file, such
as a symbolic link and its target, are one copy: without the file, the link would lead nowhere.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lookalike.collection.duplicates import Group
from lookalike.errors import InputError
from lookalike.images.relation import Relation
from lookalike.images.sources import absolute, is_under, split_member
from lookalike.store.directory import Store
from lookalike.store.items import Item

KEEP = ("largest", "oldest")
"""Rules that need no folder."""

COMPARED = ("same", "edited")
"""Tiers whose relations are known."""


class Marked(NamedTuple):
    """The pictures of a group that a rule marks, and their paths. For identical files, only paths are marked."""

    items: list[int]
    paths: list[str]


@dataclass(frozen=True, slots=True)
class _Copy:
    item: Item
    paths: list[str]
    relation: Relation | None
    files: frozenset[str]  # the paths after symbolic links are resolved
    is_protected: bool  # never marked
    can_replace: bool  # whether others can be marked because this one is kept


def describe_copies(group: Group, items: Mapping[int, Item]) -> list[str]:
    """What each picture of a group is, compared with the largest one; "" for identical files."""
    if group.tier == "identical":
        return [""]
    first = items[group.items[0]]
    captions = [_describe_copy(group, place, items[item], first) for place, item in enumerate(group.items)]
    return ["largest", *captions[1:]]


def _describe_copy(group: Group, place: int, item: Item, first: Item) -> str:
    relation = group.relations[place]
    pixels, most = item.width * item.height, first.width * first.height
    size = "same size" if pixels == most else f"{max(1, round(100 * pixels / most))} % of the pixels"
    if relation is None:
        return size
    edit = "mirrored" if relation.mirrored else "rotated" if relation.rotated else "edited"
    prefix = f"{edit} " if group.tier == "edited" else ""
    if relation.is_cut and relation.shows_more:
        return f"{prefix}copy of another part"
    if relation.is_cut:
        return f"{prefix}crop of the largest"
    if relation.shows_more:
        return f"{prefix}copy that shows more"
    if prefix:
        return f"{prefix}copy, {size}"
    return "saved again, same size" if pixels == most else f"smaller copy, {size}"


def mark_copies(
    store: Store,
    groups: Sequence[Group],
    keep: str | Path = "largest",
    references: Iterable[str | Path] = (),
    *,
    crops: bool = False,
) -> list[Marked]:
    """For each group, the copies that are not kept, in the order of the group. See `Collection.mark_duplicates`."""
    references = [references] if isinstance(references, str | Path) else references
    protected = [_known_folder(store, folder) for folder in references]
    folder = None if keep in KEEP else _known_folder(store, keep, "largest, oldest or ")
    items = store.items.get([item for group in groups for item in group.items])
    marked = []
    for group in groups:
        present = group.among(items)
        if present is None or (present.tier in COMPARED and None in present.relations):  # the largest was removed
            marked.append(Marked([], []))
            continue
        copies = [
            _Copy(
                item,
                paths,
                relation,
                frozenset(map(_resolve, paths)),
                _is_below(paths, protected) or (folder is not None and _is_below(paths, [folder])),
                folder is None or _is_below(paths, [folder]),
            )
            for item, paths, relation in _copies(present, items)
        ]
        if keep == "oldest":
            copies = _oldest_first(store, copies)
        chosen = _mark(copies, crops=crops)
        ids = [] if present.tier == "identical" else [item for item in present.items if item in chosen]
        marked.append(Marked(ids, sorted(path for paths in chosen.values() for path in paths)))
    return marked


def _copies(group: Group, items: Mapping[int, Item]) -> list[tuple[Item, list[str], Relation | None]]:
    """The copies of a group, the largest first: its pictures, or the paths of identical files."""
    if group.tier == "identical":
        item = items[group.items[0]]
        return [(item, [path], None) for path in item.paths]
    present = [items[item] for item in group.items]
    return [(item, item.paths, relation) for item, relation in zip(present, group.relations, strict=True)]


def _mark(copies: Sequence[_Copy], *, crops: bool) -> dict[int, list[str]]:
    """The paths of the marked copies by item, if the first copies are preferred."""
    kept: list[_Copy] = []
    marked: dict[int, list[str]] = {}
    for copy in sorted(copies, key=lambda copy: not copy.can_replace):
        if not copy.is_protected and any(_replaces(other, copy, crops=crops) for other in kept):
            marked.setdefault(copy.item.id, []).extend(copy.paths)
        elif copy.can_replace and any(_exists(path, copy.item.bytes) for path in copy.paths):
            kept.append(copy)
    return marked


def _replaces(kept: _Copy, copy: _Copy, *, crops: bool) -> bool:
    """Whether a kept copy is another file and shows what a copy shows; without `crops`, exactly the same."""
    if kept.files & copy.files:
        return False
    one, other = kept.relation, copy.relation
    if one is None or other is None:
        return True
    return one.shows_all_of(other) and (crops or other.shows_all_of(one))


def _oldest_first(store: Store, copies: Sequence[_Copy]) -> list[_Copy]:
    """Sort by the time a picture was taken or, if unknown, modified; then by modification time."""
    seen = store.items.seen([path for copy in copies for path in copy.paths])

    def times(copy: _Copy) -> tuple[float, float]:
        modified = min((seen[path].mtime_ns / 1e9 for path in copy.paths if path in seen), default=float("inf"))
        return (modified if copy.item.taken_at is None else copy.item.taken_at), modified

    return sorted(copies, key=times)


def _known_folder(store: Store, folder: str | Path, others: str = "") -> str:
    """The absolute path of a folder; raises InputError if the collection has no pictures from it."""
    path = absolute(folder)
    if next(store.items.paths_under(path), None) is None:
        raise InputError(f"The collection has no pictures from {path}. Give {others}a folder with pictures in it.")
    return path


def _is_below(paths: Iterable[str], folders: Sequence[str]) -> bool:
    """Whether one of the paths is one of the folders, or below it; a folder can be an archive."""
    return any(is_under(path, folder) for path in paths for folder in folders)


def _resolve(path: str) -> str:
    """Return a path without symbolic links; for a member of an archive, that of the archive and the member."""
    archive, member = split_member(path)
    return f"{os.path.realpath(archive)}::{member}" if member else os.path.realpath(path)


def _exists(path: str, size: int) -> bool:
    """Whether a file exists and has its size; for a member of an archive, whether the archive exists."""
    try:
        return os.stat(path).st_size == size
    except OSError:
        archive, member = split_member(path)
        return bool(member) and os.path.isfile(archive)
