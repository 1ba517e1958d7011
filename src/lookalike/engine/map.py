"""A collection on one sheet: pictures that are alike lie together.

In: the vectors of a space. Out: at most POINTS pictures with a place in the unit square each. Principal components and
t-SNE (van der Maaten and Hinton, JMLR 2008; Barnes-Hut: van der Maaten, JMLR 2014), as scikit-learn has it. Which
pictures: those with the smallest ids, which are digests, so a random sample that changes little as a collection grows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lookalike.engine.looks import at_one_moment
from lookalike.engine.spaces import Spaces
from lookalike.errors import InputError
from lookalike.limits import check_count
from lookalike.store.directory import Store
from lookalike.types import Ids, Progress, Vectors, format_id, parse_id

POINTS = 5_000
"""Pictures on a map, at most: as many as take some 20 seconds on one core."""

COMPONENTS = 32
"""What is kept of a row: enough to say who is next to whom, and quick."""

PERPLEXITY = 30.0
"""Neighbours that a picture is drawn to, roughly."""

STEPS = 500
"""Of the descent. More move little."""


@dataclass(frozen=True, slots=True)
class Map:
    """Where pictures lie: `x` and `y` (n,) float32 in 0 … 1, of `ids` (n,)."""

    space: str
    ids: Ids
    x: Vectors
    y: Vectors
    total: int  # pictures in the space, of which these are some


def make(store: Store, spaces: Spaces, space: str | None, points: int, progress: Progress) -> Map:
    """The map of a space: the one that is kept where it still stands, else drawn, and kept from now on."""
    check_points(points)
    name = spaces.find(space)
    version = _version(spaces, name, points)
    known = read_kept(store, spaces, name, points)
    if known is not None and known[1]:
        return known[0]
    drawn = at_one_moment(store, lambda: draw(store, spaces, name, points, progress))
    store.derived.write("map", name, str(points), version=version, value=to_json(drawn))
    return drawn


def read_kept(store: Store, spaces: Spaces, space: str | None, points: int) -> tuple[Map, bool] | None:
    """The map that was drawn last, and whether it still stands; None where there is none."""
    name = spaces.find(space)
    kept = store.derived.read("map", name, str(points))
    if kept is None:
        return None
    return from_json(name, kept.value), kept.version == _version(spaces, name, points)


def _version(spaces: Spaces, space: str, points: int) -> str:
    return spaces.version_of(space, COMPONENTS, PERPLEXITY, STEPS, most=points)


def draw(store: Store, spaces: Spaces, space: str, points: int, progress: Progress) -> Map:
    """The map of a space."""
    taught = spaces.taught(space)
    live = store.vectors.live_ids(taught)
    ids = live[:points]
    progress("drawing a map", 0, None)
    places = lay_out(spaces.index(taught).vectors(ids)) if len(ids) else np.empty((0, 2), np.float32)  # (n, 2)
    return Map(space, ids, places[:, 0], places[:, 1], len(live))


def lay_out(X: Vectors) -> Vectors:
    """Rows (n, d) to places (n, 2) in the unit square; the same rows always come to the same places.

    >>> lay_out(np.eye(3, 8, dtype=np.float32)).shape
    (3, 2)
    """
    from sklearn.decomposition import PCA  # half a second to load
    from sklearn.manifold import TSNE

    if len(X) < 3:
        return np.linspace(0.25, 0.75, len(X), dtype=np.float32)[:, None].repeat(2, axis=1)
    with threadpool_limits(1):  # the order of sums is that of one thread
        if not (X - X[0]).any():
            return np.full((len(X), 2), 0.5, np.float32)
        keep = min(COMPONENTS, *X.shape)
        rows = PCA(keep, random_state=0, svd_solver="covariance_eigh").fit_transform(X.astype(np.float64))  # (n, keep)
        start = rows[:, :2] / rows[:, 0].std() * 1e-4
        if start.shape[1] < 2:
            start = np.hstack([start, np.zeros_like(start)])
        perplexity = min(PERPLEXITY, (len(X) - 1) / 3)
        sheet = TSNE(2, perplexity=perplexity, init=start, max_iter=STEPS, random_state=0, n_jobs=1).fit_transform(rows)
    low, high = sheet.min(axis=0), sheet.max(axis=0)
    places: Vectors = ((sheet - low) / np.maximum(high - low, 1e-9)).astype(np.float32)
    return places


def check_points(points: int) -> None:
    """Refuse more than can be drawn."""
    check_count("points", points)
    if points > POINTS:
        raise InputError(f"A map has at most {POINTS:,} points. Got {points:,}.")


def to_json(drawn: Map) -> dict[str, Any]:
    """A map as it is kept."""
    return {
        "ids": [format_id(item) for item in drawn.ids.tolist()],
        "x": [round(place, 5) for place in drawn.x.tolist()],
        "y": [round(place, 5) for place in drawn.y.tolist()],
        "total": drawn.total,
    }


def from_json(space: str, value: Any) -> Map:
    """A map that was kept."""
    ids = np.array([parse_id(item) for item in value["ids"]], np.int64)
    return Map(space, ids, np.array(value["x"], np.float32), np.array(value["y"], np.float32), int(value["total"]))
