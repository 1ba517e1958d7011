"""The map: a position for each picture, with similar pictures close together, and its class.

The map of a space is computed once and cached. New pictures are placed next to their neighbours, and the others stay
where they are; the map is drawn again only if more than half of its pictures were placed in this way.
"""

from base64 import b64decode, b64encode
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.collection.space import Space
from lookalike.errors import DamagedError, FormatError, InputError
from lookalike.index import layout
from lookalike.limits import check_count
from lookalike.store.directory import Store
from lookalike.types import Ids, Progress, Vectors

POINTS = 100_000
"""Maximum number of pictures on a map; computing it takes about a minute on one core."""

STEPS = 2**16 - 1
"""Positions are multiples of 1 / STEPS, so that they fit into two bytes."""

LAYOUT = "largevis 1"
"""Name of the layout method; a map drawn by another method is drawn again."""

PREDICTED = 2**15
"""Bit of a point's class: it is predicted, not labelled."""


@dataclass(frozen=True, slots=True)
class Map:
    """Positions of pictures: `x` and `y` (n,) float32 in 0 … 1, of `ids` (n,), ascending."""

    space: str
    ids: Ids
    x: Vectors
    y: Vectors
    total: int  # pictures in the space, of which these are a sample


@dataclass(frozen=True, slots=True)
class PointClasses:
    """The class of each picture on a map: its first label, otherwise its prediction.

    A code (n,) uint16 is 0 for no class, otherwise 1 + the number of the class in `names`, plus `PREDICTED` if the
    class is only predicted. The largest classes come first.
    """

    names: list[str]
    codes: NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class _Stored:
    """A cached map: `drawn` of its pictures were laid out together, and the others were placed later."""

    version: str
    ids: Ids
    positions: NDArray[np.uint16]  # (n, 2)
    drawn: int


def make_map(space: Space, points: int, progress: Progress) -> Map:
    """Compute the map of a space, with similar pictures close together, or read it from the cache if it is current.

    If the space has more than `points` pictures, the map shows those with the smallest ids. Ids are digests, so this is
    a random sample that changes little over time.
    """
    check_count("points", points)
    if points > POINTS:
        raise InputError(f"points must be at most {POINTS:,}. Got {points:,}.")
    cached = known_map(space, points)
    if cached is not None and cached[1]:
        return cached[0]
    stored, total = space.store.read_consistently(lambda: _draw(space, points, progress))
    value = {
        "ids": b64encode(stored.ids.astype("<i8").tobytes()).decode(),
        "positions": b64encode(stored.positions.astype("<u2").tobytes()).decode(),
        "drawn": stored.drawn,
    }
    space.store.derived.write("map", space.name, str(points), version=stored.version, value=value)
    return _map(space, stored.ids, stored.positions, total)


def known_map(space: Space, points: int) -> tuple[Map, bool] | None:
    """The cached map without removed pictures, and whether it is up to date; None if there is none."""
    stored = _read(space, points)
    if stored is None:
        return None
    present = space.row_ids()
    ids = present[:points]
    stays = np.isin(stored.ids, ids, assume_unique=True)
    is_current = stored.version == _version(space) and np.count_nonzero(stays) == len(ids)
    return _map(space, stored.ids[stays], stored.positions[stays], len(present)), bool(is_current)


def point_classes(store: Store, ids: Ids) -> PointClasses:
    """The classes of these pictures."""
    items = ids.tolist()
    chosen: dict[int, tuple[str, int]] = {}
    with suppress(DamagedError, FormatError):  # the map works without classes
        found = store.judgements.predictions.get(items)
        chosen = {item: (prediction.label, PREDICTED) for item, prediction in found.items()}
        labels = store.judgements.labels(items)
        chosen |= {item: (names[0], 0) for item, names in labels.items() if names}
    counts = Counter(name for name, _ in chosen.values())
    names = sorted(counts, key=lambda name: (-counts[name], name))[: PREDICTED - 1]
    numbers = {name: number for number, name in enumerate(names, 1)}
    known = {item: numbers[name] | bit for item, (name, bit) in chosen.items() if name in numbers}
    return PointClasses(names, np.array([known.get(item, 0) for item in items], np.uint16))


def _draw(space: Space, points: int, progress: Progress) -> tuple[_Stored, int]:
    """Draw the map, or complete the cached one; also returns the number of pictures in the space."""
    present = space.row_ids()
    ids, version = present[:points], _version(space)
    stored = _read(space, points)
    if stored is not None and stored.version == version:
        stays = np.isin(stored.ids, ids, assume_unique=True)
        old = stored.ids[stays]
        new = np.setdiff1d(ids, old, assume_unique=True)
        drawn = min(stored.drawn, len(old))
        if len(ids) <= 2 * drawn:
            progress("placing new pictures", 0, len(new))
            kept = stored.positions[stays]  # (m, 2)
            if len(new):
                placed = layout.place(space.rows.vectors(new), space.rows.vectors(old), _shares(kept))
                kept = np.concatenate([kept, _quantise(placed)])  # (n, 2)
            progress("placing new pictures", len(new), len(new))
            order = np.argsort(np.concatenate([old, new]))
            return _Stored(version, ids, kept[order], drawn), len(present)
    progress("drawing a map", 0, None)
    positions = layout.lay_out(space.rows.vectors(ids), progress) if len(ids) else np.empty((0, 2), np.float32)
    return _Stored(version, ids, _quantise(positions), len(ids)), len(present)


def _read(space: Space, points: int) -> _Stored | None:
    cached = space.store.derived.read("map", space.name, str(points))
    if cached is None or "positions" not in cached.value:  # older versions of Lookalike stored lists of numbers
        return None
    value: dict[str, Any] = cached.value
    ids = np.frombuffer(b64decode(value["ids"]), "<i8").astype(np.int64)
    positions = np.frombuffer(b64decode(value["positions"]), "<u2").astype(np.uint16).reshape(-1, 2)
    return _Stored(cached.version, ids, positions, int(value["drawn"]))


def _map(space: Space, ids: Ids, positions: NDArray[np.uint16], total: int) -> Map:
    shares = _shares(positions)
    return Map(space.name, ids, shares[:, 0], shares[:, 1], total)


def _shares(positions: NDArray[np.uint16]) -> Vectors:
    return positions.astype(np.float32) / np.float32(STEPS)


def _quantise(positions: Vectors) -> NDArray[np.uint16]:
    return np.rint(positions * STEPS).astype(np.uint16)


def _version(space: Space) -> str:
    """A string that changes when the space is refitted, but not with its pictures."""
    return " ".join(map(str, [LAYOUT, *space.rows_version]))
