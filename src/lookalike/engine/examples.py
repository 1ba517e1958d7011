"""Examples that a person shows, turned into one query vector.

In: paths, bytes, ids, pixels or vectors, wanted and unwanted. Out: a (1, d) float32 vector of the searched space.
"""

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from lookalike.arrays import check_rows, to_numpy, unit_rows
from lookalike.engine.spaces import Spaces
from lookalike.errors import ImageError, InputError, NoItemError
from lookalike.images.decoding import identify, read
from lookalike.images.sources import locate
from lookalike.index.queries import WeightedQuery
from lookalike.store.directory import Store
from lookalike.types import Box, Pixels, Query, Vectors, check_box, crop, format_id, parse_id

Picture: TypeAlias = str | Path | bytes | int | np.ndarray[Any, Any]
"""A path, a file's bytes, an id (int, or 16 hexadecimal digits), or pixels (h, w, 3) uint8."""


@dataclass(frozen=True, slots=True)
class Crop:
    """A part of a picture as an example: left, top, right and bottom as shares of its width and height, 0 to 1."""

    picture: Picture
    box: Box


Example: TypeAlias = Picture | Crop
"""A picture, a part of one, or a vector (d,)."""

CLOSEST = 16
"""A part of a picture is read at the side that a whole one would be, but the picture at most so many times larger."""

UNWANTED = 0.5
"""Weight of the unwanted examples' mean against the wanted ones': the direction of 2·mean⁺ − mean⁻."""


def listed(examples: Any) -> list[Example]:
    """One example or several, as a list."""
    single = isinstance(examples, str | Path | bytes | int | np.integer | np.ndarray | Crop)
    if single or not isinstance(examples, Iterable):
        return [examples]
    return list(examples)


def combine(store: Store, spaces: Spaces, name: str, wanted: list[Example], unwanted: list[Example]) -> Query:
    """The query for these examples: one wanted alone is itself, more are weighed against each other.

    That is done with vectors where Euclid measures, and with scores where the space has a measure of its own.
    """
    if not wanted:
        raise InputError("A search needs at least one example of what is wanted. Got none.")
    X = vectors(store, spaces, name, [*wanted, *unwanted])  # (examples, d)
    chain = spaces.chain(name)
    if len(X) == 1:
        return chain.query(X)
    weights = [1 / len(wanted)] * len(wanted) + [-UNWANTED / max(1, len(unwanted))] * len(unwanted)
    if chain.compares:
        return WeightedQuery(chain.query(X), weights)
    query = np.asarray(weights, np.float32)[None, :] @ X  # (1, d)
    return chain.query(to_numpy(unit_rows(query)) if _unit(X) else query)


def vectors(store: Store, spaces: Spaces, name: str, examples: list[Example]) -> Vectors:
    """One vector an example, (n, d) float32. Known items cost a look-up; others are read and described."""
    return np.concatenate([_vector(store, spaces, name, example) for example in examples])


def identity(store: Store, example: Example) -> int | None:
    """The id of a whole picture, whether it is an item or not; None for a part, for pixels and for a vector."""
    if isinstance(example, Crop | np.ndarray):
        return None
    item = _item(store, example)
    if item is None:  # not known by its name; perhaps by its bytes
        assert isinstance(example, str | Path | bytes)
        item = identify(example if isinstance(example, bytes) else _read(example))
    return item


def shown(store: Store, example: Example, side: int) -> Pixels:
    """The pixels that an example is about, at a shorter side of at least `side` where it has that many."""
    if not isinstance(example, Crop):
        return pixels(store, example, side)
    left, top, right, bottom = check_box(example.box)
    share = max(min(right - left, bottom - top), 1 / CLOSEST)
    return crop(pixels(store, example.picture, math.ceil(side / share)), example.box)


def pixels(store: Store, picture: Picture, side: int) -> Pixels:
    """The pixels of a picture, read at a shorter side of at least `side` where it has that many."""
    if isinstance(picture, np.ndarray):
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise InputError(
                "An example array must be a vector (d,), which has no parts, or pixels (height, width, 3) uint8. "
                f"Got shape {picture.shape}, {picture.dtype}."
            )
        return picture
    if isinstance(picture, bytes):
        return _decode(picture, f"these {len(picture)} bytes", side)
    item = _item(store, picture)
    if item is None:
        assert isinstance(picture, str | Path)
        return _decode(_read(picture), picture, side)
    paths = store.items.get([item])[item].paths
    there = next((path for path in paths if locate(path) is not None), paths[0] if paths else "")
    return _decode(_read(there), there, side)


def _vector(store: Store, spaces: Spaces, name: str, example: Example) -> Vectors:
    index = spaces.index(spaces.searched(name))
    if isinstance(example, np.ndarray) and example.ndim == 1:
        return to_numpy(check_rows(example[None, :], dim=index.dim, name="the example vector"))
    if isinstance(example, int | np.integer) and 0 <= example < 2**63 and int(example) in index:
        return index.vectors(np.array([example], np.int64))  # it need not be looked up in the catalogue
    item = identity(store, example)
    if item is not None and item in index:
        return index.vectors(np.array([item], np.int64))
    return spaces.chain(name).extract([shown(store, example, spaces.side())])


def _item(store: Store, example: str | Path | bytes | int) -> int | None:
    """The item that an example names by its id or by a path that has not changed; None where it must be read."""
    if isinstance(example, bytes):
        return None
    if isinstance(example, str | Path):
        entry = locate(example)
        if entry is not None:
            seen = store.items.seen([entry.path]).get(entry.path)
            same = seen is not None and (seen.size, seen.mtime_ns) == (entry.size, entry.mtime_ns)
            return seen.item if seen is not None and same else None
        if os.path.isdir(example):
            raise InputError(f"{example} is a folder. Give a picture's path or an item's id.")
        item = parse_id(str(example))
        if item is None:
            raise InputError(f"No file and no item named {str(example)!r}. Give a picture's path or an item's id.")
    elif isinstance(example, int | np.integer):
        item = int(example)
    else:
        raise InputError(
            f"An example must be a path, an id, a file's bytes, pixels, a crop or a vector. Got {example!r}."
        )
    if not store.items.get([item]):
        raise NoItemError(f"No item with the id {format_id(item)} in the collection.")
    return item


def _read(path: str | Path) -> bytes:
    entry = locate(path)
    if entry is None:
        raise ImageError(f"Cannot search with {path}: no such file.")
    try:
        return entry.read()
    except ImageError as error:
        raise ImageError(f"Cannot search with {path}: {error}.") from None


def _decode(data: bytes, what: str | Path, side: int) -> Pixels:
    """Pixels as an add would read them."""
    try:
        return read(data, side=side).pixels
    except ImageError as error:
        raise ImageError(f"Cannot search with {what}: {error}.") from None


def _unit(X: Vectors) -> bool:
    return bool(np.allclose(np.einsum("ij,ij->i", X, X), 1, atol=1e-3))
