"""Examples that a person shows, turned into one query vector.

In: paths, bytes, ids, pixels or vectors, wanted and unwanted. Out: a (1, d) float32 vector of the searched space.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from lookalike.arrays import check_rows, to_numpy, unit_rows
from lookalike.engine.spaces import Spaces
from lookalike.errors import ImageError, InputError
from lookalike.images.read import identify, read
from lookalike.images.sources import locate
from lookalike.store.directory import Store
from lookalike.types import Vectors, parse_id

Example: TypeAlias = str | Path | bytes | int | np.ndarray[Any, Any]
"""A path, a file's bytes, an id (int, or 16 hexadecimal digits), pixels (h, w, 3) uint8, or a vector (d,)."""

UNWANTED = 0.5
"""Weight of the unwanted examples' mean against the wanted ones': the direction of 2·mean⁺ − mean⁻."""


def listed(examples: Any) -> list[Example]:
    """One example or several, as a list."""
    single = isinstance(examples, str | Path | bytes | int | np.integer | np.ndarray)
    if single or not isinstance(examples, Iterable):
        return [examples]
    return list(examples)


def combine(store: Store, spaces: Spaces, name: str, wanted: list[Example], unwanted: list[Example]) -> Vectors:
    """The query vector for these examples, (1, d): one wanted alone is itself, more are weighed against each other."""
    if not wanted:
        raise InputError("A search needs at least one example of what is wanted. Got none.")
    X = vectors(store, spaces, name, [*wanted, *unwanted])  # (examples, d)
    if len(X) == 1:
        return X
    query = X[: len(wanted)].mean(axis=0)
    if unwanted:
        query = query - UNWANTED * X[len(wanted) :].mean(axis=0)
    return to_numpy(unit_rows(query[None, :])) if _unit(X) else to_numpy(query[None, :])


def vectors(store: Store, spaces: Spaces, name: str, examples: list[Example]) -> Vectors:
    """One vector an example, (n, d) float32. Known items cost a look-up; others are read and described."""
    return np.concatenate([_vector(store, spaces, name, example) for example in examples])


def _vector(store: Store, spaces: Spaces, name: str, example: Example) -> Vectors:
    index = spaces.index(spaces.searched(name))
    if isinstance(example, np.ndarray) and example.ndim == 1:
        return to_numpy(check_rows(example[None, :], dim=index.dim, name="the example vector"))
    if isinstance(example, np.ndarray):
        if example.ndim != 3 or example.shape[2] != 3 or example.dtype != np.uint8:
            raise InputError(
                "An example array must be a vector (d,) or pixels (height, width, 3) uint8. "
                f"Got shape {example.shape}, {example.dtype}."
            )
        return spaces.chain(name).extract([example])
    item = _item(store, example)
    if item is None:
        assert isinstance(example, str | Path | bytes)
        data = example if isinstance(example, bytes) else _read(example)
        item = identify(data)
        if item not in index:  # a picture from outside
            return _extract(spaces, name, data, example)
    elif item not in index:  # known, but not in this space
        path = store.items.first_paths([item]).get(item, "")
        return _extract(spaces, name, _read(path), path)
    return index.vectors(np.array([item], np.int64))


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
    else:
        item = int(example)
    if not store.items.get([item]):
        raise InputError(f"No item with the id {example} in the collection.")
    return item


def _read(path: str | Path) -> bytes:
    entry = locate(path)
    if entry is None:
        raise ImageError(f"Cannot search with {path}: no such file.")
    try:
        return entry.read()
    except ImageError as error:
        raise ImageError(f"Cannot search with {path}: {error}.") from None


def _extract(spaces: Spaces, name: str, data: bytes, example: str | Path | bytes) -> Vectors:
    """The vector of a picture, read and described as an add would."""
    try:
        picture = read(data, side=spaces.side())
    except ImageError as error:
        what = f"these {len(data)} bytes" if isinstance(example, bytes) else example
        raise ImageError(f"Cannot search with {what}: {error}.") from None
    return spaces.chain(name).extract([picture.pixels])


def _unit(X: Vectors) -> bool:
    return bool(np.allclose(np.einsum("ij,ij->i", X, X), 1, atol=1e-3))
