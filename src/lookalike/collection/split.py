"""Split labelled pictures into training, validation and test pictures, and write them for other tools.

The part of a picture follows from a hash of its id, so it stays the same when other pictures are added. Duplicates
share the hash of the one that was added first, so they are always in one part. The sizes of the parts are therefore
only approximately the requested ones.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import Literal, TypeAlias, get_args

from lookalike.atomic_files import write_errors
from lookalike.collection import export
from lookalike.collection.duplicates import Tier, find_groups
from lookalike.collection.picture_files import check_new_folder, write_pictures
from lookalike.collection.resolve import items_in, select
from lookalike.collection.space import Spaces
from lookalike.errors import InputError, UnknownNameError
from lookalike.images.sources import absolute
from lookalike.store.directory import Store
from lookalike.store.items import Filter
from lookalike.text import RENAMED, many, renamed_labels, safe_folders
from lookalike.types import Progress, format_id

Part: TypeAlias = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = get_args(Part)

LAYOUTS = ("folders", "coco", "csv")

Together: TypeAlias = Literal["none", "same", "edited", "alike"]
KEPT_TOGETHER: dict[Together, tuple[Tier, ...]] = {
    "none": (),
    "same": ("same",),
    "edited": ("same", "edited"),
    "alike": ("same", "edited", "alike"),
}
"""The tiers of duplicates that are kept in one part."""

SHARES = (0.8, 0.1, 0.1)


@dataclass(frozen=True, slots=True)
class Split:
    """Labelled pictures in three parts."""

    parts: dict[Part, list[int]]  # the pictures, ascending
    classes: dict[str, dict[Part, int]]  # the number of pictures of each class in each part
    labels: dict[int, list[str]]  # the chosen labels of each picture
    groups: int  # groups of duplicates of which several pictures have labels
    warnings: list[str]


def split_pictures(
    spaces: Spaces,
    shares: Sequence[float],
    *,
    classes: Sequence[str],
    filter: Filter | None,
    seed: int,
    together: Together,
    progress: Progress,
    workers: int | None,
) -> Split:
    """Assign the labelled pictures that pass the filter to the parts."""
    store, limits = spaces.store, _limits(shares)
    if together not in KEPT_TOGETHER:
        raise UnknownNameError("tier of duplicates", together, KEPT_TOGETHER)
    labels = _labels(store, classes, filter)
    groups = [
        group.items
        for tier in KEPT_TOGETHER[together]
        for group in find_groups(spaces, tier, space=None, filter=None, progress=progress, workers=workers)
    ]
    keys = _keys(store, groups)
    parts: dict[Part, list[int]] = {part: [] for part in PARTS}
    for item in sorted(labels):
        parts[_part(keys.get(item, item), seed, limits)].append(item)
    counts = {part: Counter(label for item in items for label in labels[item]) for part, items in parts.items()}
    names = sorted({label for found in labels.values() for label in found})
    by_class = {name: {part: counts[part][name] for part in PARTS} for name in names}
    shared = Counter(keys[item] for item in labels if item in keys)
    return Split(parts, by_class, labels, sum(n > 1 for n in shared.values()), _warnings(by_class, labels, shares))


def write_split(
    store: Store, split: Split, folder: str | Path, layouts: Sequence[str], *, copy: bool, progress: Progress
) -> dict[str, str]:
    """Write a split to a new folder; return the reason for each picture that could not be written."""
    for layout in layouts:
        if layout not in LAYOUTS:
            raise UnknownNameError("layout of a split", layout, LAYOUTS)
    target = Path(absolute(folder))
    check_new_folder(target)
    with write_errors(target):
        target.mkdir(parents=True, exist_ok=True)
    used = [part for part in PARTS if split.parts[part]]
    if "coco" in layouts:
        for part in used:
            lines = export.item_lines(store, "coco", None, ids=split.parts[part], classes=split.classes)
            export.write_lines(target / f"{part}.json", lines)
    if "csv" in layouts:
        parts: dict[str, list[int]] = {part: split.parts[part] for part in used}
        export.write_lines(target / "split.csv", export.part_lines(store, parts, split.labels))
    if "folders" not in layouts:
        return {}
    folders = safe_folders(split.classes)
    if renamed := renamed_labels(folders):
        export.write_lines(target / RENAMED, [renamed])
    return write_pictures(store, _files(store, split, folders, target), link=not copy, progress=progress)


def _limits(shares: Sequence[float]) -> list[float]:
    """The upper limits of the hashes of the parts, from their shares, which are normalised."""
    total = sum(shares) if len(shares) == len(PARTS) else 0
    if not (total > 0 and all(0 <= share < float("inf") for share in shares) and shares[0] > 0):
        raise InputError(
            "The shares must be three numbers, for training, validation and test, such as 0.8, 0.1 and 0.1. The first"
            f" must be above 0. Got {list(shares)}."
        )
    return [sum(shares[: number + 1]) / total for number in range(len(PARTS))]


def _labels(store: Store, classes: Sequence[str], filter: Filter | None) -> dict[int, list[str]]:
    """The labels of each picture in the collection that has any of the classes, by default all."""
    wanted: set[str] | None = None
    if classes:
        names, known = store.judgements.classes.canonical_names(classes), store.judgements.label_counts()
        wanted = set(names.values())
        if unknown := sorted(wanted - known.keys()):
            raise UnknownNameError("class with labelled pictures", unknown[0], known)
    present = select(store, filter or Filter())
    labels = store.judgements.labels(present.tolist())
    chosen = {item: [name for name in found if wanted is None or name in wanted] for item, found in labels.items()}
    chosen = {item: found for item, found in chosen.items() if found}
    if not chosen:
        raise InputError(
            "No picture to split has a label. Label pictures first, for example with class folders: lookalike label"
            " FOLDER"
        )
    return chosen


def _keys(store: Store, groups: Sequence[Sequence[int]]) -> dict[int, int]:
    """For each picture in a group, the one of its connected groups that was added first."""
    from scipy.cluster.hierarchy import DisjointSet  # takes a third of a second to load

    members = list(dict.fromkeys(item for group in groups for item in group))
    added = {item.id: (item.added_at, item.id) for item in items_in(store, members)}
    connected = DisjointSet(added)
    for group in groups:
        present = [item for item in group if item in added]
        for other in present[1:]:
            connected.merge(present[0], other)
    return {item: min(subset, key=added.__getitem__) for subset in connected.subsets() for item in subset}


def _part(key: int, seed: int, limits: Sequence[float]) -> Part:
    """The part of a group, by the hash of its key, a number from 0 to 1."""
    digest = blake2b(f"{seed} {format_id(key)}".encode(), digest_size=8).digest()
    position = int.from_bytes(digest, "big") / 2**64
    return next((part for part, limit in zip(PARTS, limits, strict=True) if position < limit), PARTS[0])


def _warnings(classes: dict[str, dict[Part, int]], labels: dict[int, list[str]], shares: Sequence[float]) -> list[str]:
    """A sentence about pictures with several labels, and for each class without a picture in a part with a share."""
    used = [part for part, share in zip(PARTS, shares, strict=True) if share]
    several = sum(len(found) > 1 for found in labels.values())
    found = [f"{many(several, 'picture')} with several labels: each counts in all its classes."] if several else []
    for name, counts in classes.items():
        if empty := [part for part in used if not counts[part]]:
            found.append(
                f"The class {name!r} has no picture in {' and '.join(empty)}: it is too small, with"
                f" {many(sum(counts.values()), 'picture')}. Label more, or leave it out."
            )
    return found


def _files(store: Store, split: Split, folders: dict[str, str], target: Path) -> list[tuple[int, Path]]:
    """Each picture with its path: part/class/id.suffix. A picture with several labels is in several folders."""
    files = []
    for part, ids in split.parts.items():
        for item in items_in(store, ids):
            suffix = PurePath(item.paths[0] if item.paths else "").suffix or f".{item.format}"
            name = f"{format_id(item.id)}{suffix}"
            files += [(item.id, target / part / folders[label] / name) for label in split.labels[item.id]]
    return files
