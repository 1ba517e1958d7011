"""Resolve examples, names and filters to items, pixels and vectors.

An example is a path, a file's bytes, an id, pixels, a `Crop` of one of these, or a vector. Vectors of known items are
looked up; for other pictures, they are computed.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lookalike.arrays import check_rows, to_numpy
from lookalike.collection.chain import DESCRIBE_BATCH, Prepare
from lookalike.collection.space import Space
from lookalike.errors import ImageError, InputError, NoItemError, UnknownNameError
from lookalike.images.decoding import identify, read
from lookalike.images.files import LIMITS, Limits
from lookalike.images.sources import Entry, absolute, folders_named, known_entry, locate, matcher, relative_to, walk
from lookalike.images.workers import Outcome, Read, Skip
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item, Items
from lookalike.types import Box, Ids, Pixels, Progress, Vectors, check_box, crop, format_id, parse_id, silent

Picture: TypeAlias = str | Path | bytes | int | np.ndarray[Any, Any]
"""A path, a file's bytes, an id (int, or 16 hexadecimal digits), or pixels (h, w, 3) uint8."""


@dataclass(frozen=True, slots=True)
class Crop:
    """A part of a picture as an example: left, top, right and bottom as shares of its width and height, 0 to 1."""

    picture: Picture
    box: Box


Example: TypeAlias = Picture | Crop
"""A picture, a part of one, or a vector (d,)."""

MAX_ZOOM = 16
"""For a small crop, the picture is read at a larger size, at most by this factor."""

MANY_FILES = 64
"""With this many files, starting processes that read them is worth the time."""

ITEMS_BATCH = 1_000
"""Items read from the catalogue per batch."""


def as_list(examples: Any) -> list[Example]:
    """One example or several, as a list."""
    single = isinstance(examples, str | Path | bytes | int | np.integer | np.ndarray | Crop)
    if single or not isinstance(examples, Iterable):
        return [examples]
    return list(examples)


def as_texts(words: str | Sequence[str]) -> list[str]:
    """One text or several, as a list."""
    return [words] if isinstance(words, str) else list(words)


def example_name(example: Example) -> str:
    """The name of an example in messages."""
    if isinstance(example, Crop):
        return f"{example_name(example.picture)} {','.join(map(str, example.box))}"
    if isinstance(example, bytes | np.ndarray):
        return f"{len(example)} bytes" if isinstance(example, bytes) else "pixels"
    return format_id(example) if isinstance(example, int) else str(example)


def find_item(items: Items, name: str) -> int | None:
    """The item with this id or path; None if it does not exist."""
    item = parse_id(name)
    if item is not None and items.get([item]):
        return item
    path = absolute(name)
    seen = items.seen([path]).get(path)
    return None if seen is None else seen.item


def find_items(items: Items, names: Sequence[int | str | Path]) -> tuple[set[int], list[str]]:
    """The items with these ids, and the known paths with these names; a folder stands for all paths below it."""
    ids: set[int] = set()
    paths: list[str] = []
    for name in names:
        item = name if isinstance(name, int) else parse_id(str(name))
        if item is not None and items.get([item]):
            ids.add(item)
            continue
        path = absolute(str(name))
        below = [] if isinstance(name, int) else [known for known, _ in items.paths_under(path)]
        if not below and path not in items.sources():
            raise InputError(
                f"{str(name)!r} is not in the collection. Give an item's id, or the path of a picture, folder or"
                " source."
            )
        paths += below
    return ids, paths


def select(store: Store, filter: Filter) -> Ids:
    """The ids of the items that pass a filter, ascending; raises UnknownNameError if no label has its name."""
    if not isinstance(filter, Filter):
        raise InputError(f"filter must be a Filter, such as Filter(label='beach'). Got {filter!r:.80}.")
    ids = store.items.select(filter)
    if filter.path is not None and filter.relative:
        ids = _match_relative(store, ids, filter.path)
    if filter.folder is not None:
        places = folders_named(filter.folder, store.items.sources())
        below = np.concatenate([np.empty(0, np.int64), *map(store.items.below, places)])
        ids = np.intersect1d(ids, below, assume_unique=len(places) < 2)
    if (filter.label, filter.suggested, filter.labelled) == (None, None, None):
        return ids  # a damaged database of judgements does not matter
    judgements = store.judgements
    for name, items_with in (
        (filter.label, judgements.items_with),
        (filter.suggested, judgements.predictions.items_with),
    ):
        if name is not None:
            label = judgements.classes.canonical_names([name])[name]
            found = items_with(label)
            if not len(found) and label not in (known := judgements.classes.counts()):
                raise UnknownNameError("label", label, known)
            ids = np.intersect1d(ids, found, assume_unique=True)
    if filter.labelled is not None:
        ids = ids[np.isin(ids, judgements.labelled(), assume_unique=True, invert=not filter.labelled)]
    return ids


def items_of(store: Store, filter: Filter | None) -> Iterator[Item]:
    """All items, or those that pass the filter, in the order of their ids; raises errors before the first item."""
    return items_in(store, select(store, filter or Filter()).tolist())


def items_in(store: Store, ids: Sequence[int]) -> Iterator[Item]:
    """The items with these ids, in this order, read in batches; unknown ids are omitted."""
    batches = (ids[start : start + ITEMS_BATCH] for start in range(0, len(ids), ITEMS_BATCH))
    return (item for batch in batches for item in store.items.get(batch).values())


def item_of(store: Store, example: Example) -> int | None:
    """The id of a whole picture, even if it is not an item; None for a part, for pixels and for a vector."""
    if isinstance(example, Crop | np.ndarray):
        return None
    item = _known_item(store, example)
    if item is None:  # its bytes may be known under another path
        assert isinstance(example, str | Path | bytes)
        item = identify(example if isinstance(example, bytes) else _read_file(example))
    return item


def items_named(store: Store, pictures: Example | Iterable[Example]) -> list[int]:
    """The items with these ids or paths, or in these folders; raises InputError if one is not in the collection."""
    items: dict[int, None] = {}
    listed = as_list(pictures)
    numbers = [example for example in listed if isinstance(example, int)]
    known = set(store.items.existing(numbers).tolist())  # one query for thousands of ids
    for example in listed:
        if isinstance(example, int) and example in known:
            items[example] = None
            continue
        if _is_folder(example):
            root = absolute(example)  # type: ignore[arg-type]
            inside = [seen.item for _, seen in store.items.paths_under(root) if seen.item is not None]
            if not inside:
                raise InputError(f"The collection has no pictures from {root}. Add it first: lookalike add {root}")
            items.update(dict.fromkeys(inside))
            continue
        item = item_of(store, example)
        if item is None or not store.items.get([item]):
            name = example_name(example)
            raise InputError(f"{name} is not in the collection. Add it first: lookalike add {name}")
        items[item] = None
    return list(items)


def files_in(pictures: Sequence[Example], on_skip: Callable[[str, str], None] | None = None) -> list[Example]:
    """The examples, with each folder replaced by the picture files below it."""
    found: list[Example] = []
    for example in pictures:
        if _is_folder(example):
            folder = os.path.expanduser(example)  # type: ignore[arg-type]
            inside = [entry.path for entry in walk([folder], on_skip=on_skip or _raise_skip)]
            if not inside:
                raise InputError(f"No pictures in the folder {folder}.")
            found += inside
        else:
            found.append(example)
    return found


def is_vector(example: Example) -> bool:
    """Whether an example is a vector (d,)."""
    return isinstance(example, np.ndarray) and example.ndim == 1


def check_vector(example: Any, dim: int | None) -> Vectors:
    """Return an example vector as a row (1, d); raise InputError if it does not have `dim` finite numbers."""
    return to_numpy(check_rows(example[None, :], dim=dim, name="the example vector"))


def example_pixels(store: Store | None, example: Example, side: int) -> Pixels:
    """The pixels of an example; the shorter side has at least `side` pixels if the picture is that large.

    Without a store, it must not be an item.
    """
    if not isinstance(example, Crop):
        return pixels(store, example, side)
    left, top, right, bottom = check_box(example.box)
    share = max(min(right - left, bottom - top), 1 / MAX_ZOOM)
    return crop(pixels(store, example.picture, math.ceil(side / share)), example.box)


def pixels(store: Store | None, picture: Picture, side: int) -> Pixels:
    """The pixels of a picture; the shorter side has at least `side` pixels if the picture is that large."""
    if isinstance(picture, np.ndarray):
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise InputError(
                "An example array must be a vector (d,) or pixels (height, width, 3) uint8. A vector cannot be cropped."
                f" Got shape {picture.shape}, {picture.dtype}."
            )
        return picture
    if isinstance(picture, bytes):
        return _decode(picture, f"these {len(picture)} bytes", side)
    item = _known_item(store, picture)
    if item is None or store is None:
        assert isinstance(picture, str | Path)
        return _decode(_read_file(picture), picture, side)
    paths = store.items.get([item])[item].paths
    path = next((path for path in paths if _is_available(path)), paths[0] if paths else "")
    return _decode(_read_file(path), path, side)


def _is_available(path: str) -> bool:
    try:
        return locate(path) is not None
    except ImageError:
        return False


def vectors(space: Space, examples: Iterable[Example]) -> Vectors:
    """One vector of a space for each example, (n, d) float32."""
    return np.concatenate([_vector(space, example) for example in examples])


class UnreadableError(ImageError):
    """A picture that cannot be read. The message names it, and `reason` is only the reason."""

    def __init__(self, name: object, reason: object):
        super().__init__(f"Cannot read {name}: {reason}.")
        self.reason = str(reason)


class ExampleRows(NamedTuple):
    """Examples with their rows in a space."""

    examples: list[Example]
    X: Vectors  # (n, d)
    ids: list[int | None]  # of files and items


def rows_of(
    space: Space,
    examples: Sequence[Example],
    on_skip: Callable[[str, str], None] | None = None,
    progress: Progress = silent,
) -> ExampleRows:
    """The vectors of examples, like those of `Space.rows`.

    If an example cannot be read, `on_skip` is called with its name and the reason, a clause such as "it is empty";
    without `on_skip`, that is an error.
    """
    store, index = space.store, space.rows
    resolved: list[tuple[Example, int | None]] = []
    rows: dict[int, Vectors] = {}  # by position
    images: dict[int, Pixels] = {}
    files = _read_files(space, examples, progress)

    def describe() -> None:
        if images:
            X = space.to_rows(space.chain.feature.extract(list(images.values())))
            rows.update(zip(images, X, strict=True))
            images.clear()

    for number, example in enumerate(examples):
        progress("reading", number, len(examples))
        item = None
        try:
            if is_vector(example):
                rows[len(resolved)] = check_vector(example, index.dim)[0]
            elif (outcome := files.get(number)) is not None:
                if isinstance(outcome, Skip):
                    raise UnreadableError(example, outcome.reason)
                assert isinstance(outcome, Read), "no ids are known"
                item = outcome.id
                known = item in index
                rows[len(resolved)] = (
                    index.vectors(np.array([item]))[0] if known else space.to_rows(outcome.parts[0][None])[0]
                )
            else:
                item = item_of(store, example)
                if item is not None and item in index:
                    rows[len(resolved)] = index.vectors(np.array([item]))[0]
                else:
                    images[len(resolved)] = example_pixels(store, example, space.read_side)
        except (ImageError, InputError) as error:
            if on_skip is None:
                raise
            on_skip(example_name(example), _reason(error))
            continue
        resolved.append((example, item))
        if len(images) >= DESCRIBE_BATCH:
            describe()
    describe()
    progress("reading", len(examples), len(examples))
    X = np.stack([rows[i] for i in range(len(resolved))]) if resolved else np.empty((0, index.dim or 1), np.float32)
    return ExampleRows([example for example, _ in resolved], X, [item for _, item in resolved])


def _read_files(space: Space, examples: Sequence[Example], progress: Progress) -> dict[int, Outcome]:
    """Read files whose paths are not in the collection and extract the feature, by position; nothing for few files."""
    entries: dict[str, Entry] = {}
    positions: dict[int, str] = {}
    for number, example in enumerate(examples):
        if isinstance(example, str | Path):
            with suppress(InputError, ImageError):  # not a file
                if _known_item(space.store, example) is None and (entry := locate(example)) is not None:
                    entries[entry.path] = entry
                    positions[number] = entry.path
    if len(entries) < MANY_FILES:
        return {}
    found: dict[str, Outcome] = {}
    prepare = Prepare([space.chain.feature])
    with space.executor.describe_pool(prepare, space.read_side, None) as pool:
        for outcome in pool.map(entries.values()):
            found[outcome.entry.path] = outcome
            progress("reading", len(found), len(entries))
    return {number: found[path] for number, path in positions.items()}


def read_item(store: Store, id_or_item: int | Item, limits: Limits = LIMITS) -> bytes:
    """The bytes of an item, from its first file that has not changed; raises ImageError if there is none."""
    if isinstance(id_or_item, Item):
        item = id_or_item
    elif not (items := store.items.get([id_or_item])):
        raise NoItemError(f"No item with the id {format_id(id_or_item)} in the collection.")
    else:
        item = items[id_or_item]
    reason = "no path is known"
    for path in item.paths:
        entry = known_entry(path, item.bytes)
        if entry is None:
            reason = "its file is missing"
            continue
        try:
            data = entry.read(limits) if entry.size == item.bytes else b""
        except ImageError as error:
            reason = str(error)
            continue
        if data and identify(data) == item.id:
            return data
        reason = "its file has changed since it was added"
    raise ImageError(f"Cannot read item {format_id(item.id)}: {reason}. Run: lookalike refresh")


def _vector(space: Space, example: Example) -> Vectors:
    index = space.index
    if is_vector(example):
        return check_vector(example, index.dim)
    if isinstance(example, int | np.integer) and 0 <= example < 2**63 and int(example) in index:
        return index.vectors(np.array([example], np.int64))  # without a look-up in the catalogue
    item = item_of(space.store, example)
    if item is not None and item in index:
        return index.vectors(np.array([item], np.int64))
    return space.describe([example_pixels(space.store, example, space.read_side)])


def _is_folder(example: Example) -> bool:
    return isinstance(example, str | Path) and os.path.isdir(os.path.expanduser(example))


def _reason(error: ImageError | InputError) -> str:
    """The reason why an example cannot be used, without the example's name."""
    if isinstance(error, NoItemError):
        return "it is neither a file nor an item of the collection"
    return error.reason if isinstance(error, UnreadableError) else str(error)


def _raise_skip(path: str, reason: str) -> None:
    raise UnreadableError(path, reason)


def _known_item(store: Store | None, example: str | Path | bytes | int) -> int | None:
    """The item that an example identifies by id or by an unchanged path; None if the file must be read."""
    if isinstance(example, bytes):
        return None
    if isinstance(example, str | Path):
        entry = locate(example)
        if entry is not None:
            seen = None if store is None else store.items.seen([entry.path]).get(entry.path)
            unchanged = seen is not None and (seen.size, seen.mtime_ns) == (entry.size, entry.mtime_ns)
            return seen.item if seen is not None and unchanged else None
        if os.path.isdir(example):
            raise InputError(f"{example} is a folder. Give a picture's path or an item's id.")
        item = parse_id(str(example))
        if item is None:
            raise NoItemError(f"No file or item named {str(example)!r}. Give a picture's path or an item's id.")
    elif isinstance(example, int | np.integer):
        item = int(example)
    else:
        raise InputError(
            f"An example must be a path, an id, a file's bytes, pixels, a crop or a vector. Got {example!r}."
        )
    if store is None or not store.items.get([item]):
        raise NoItemError(f"No item with the id {format_id(item)} in the collection.")
    return item


def _match_relative(store: Store, ids: Ids, pattern: str) -> Ids:
    """The ids that have a path which, relative to its source, matches the pattern."""
    relative, matches = relative_to(store.items.sources()), matcher(pattern)
    return np.unique(
        np.array([item for item, path in store.items.paths_of(ids.tolist()) if matches(relative(path))], np.int64)
    )


def _read_file(path: str | Path) -> bytes:
    entry = locate(path)
    if entry is None:
        raise UnreadableError(path, "it does not exist")
    try:
        return entry.read()
    except ImageError as error:
        raise UnreadableError(path, error) from None


def _decode(data: bytes, name: str | Path, side: int) -> Pixels:
    try:
        return read(data, side=side).pixels
    except ImageError as error:
        raise UnreadableError(name, error) from None
