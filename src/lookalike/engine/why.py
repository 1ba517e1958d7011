"""Why a picture stands where it does in a session: what it is like, and how far it is from the border.

In: an item and the marks of a session. Out: `Why`: the margin, the nearest pictures of each kind of mark, and the part
of the picture that speaks most for it. The margin is f(x) / ‖w‖ of the hyperplane that ranks, Eq. 3 of fsm-tree.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lookalike.engine.examples import pixels
from lookalike.engine.spaces import Spaces
from lookalike.engine.where import boxes
from lookalike.errors import ImageError, InputError, NoItemError
from lookalike.index.queries import HyperplaneQuery, PointQuery
from lookalike.store.directory import Store
from lookalike.types import Box, Query, Vectors, format_id

if TYPE_CHECKING:  # learning loads scikit-learn: when it is first asked for
    from lookalike.feedback.round import Marks


@dataclass(frozen=True, slots=True)
class Near:
    """A marked picture and how far it is."""

    id: int | None  # None for an example that is not in the collection
    distance: float  # Euclidean, in the session's space


@dataclass(frozen=True, slots=True)
class Why:
    """What speaks for a picture, and against it."""

    margin: float | None  # above 0 on the side of what is wanted; None before anything is learned
    relevant: list[Near]  # the nearest first
    irrelevant: list[Near]
    box: Box | None  # the part that is ranked highest by itself; None where the picture cannot be read


def explain_rank(
    store: Store, spaces: Spaces, space: str, item: int, marks: "Marks", ranking: Query, k: int, *, box: bool
) -> Why:
    """Why an item is ranked as it is by a session with these marks; `box`: look for the part, which reads the file."""
    name = spaces.find(space)
    index = spaces.hyperplanes(spaces.taught(name))
    if item not in index:
        raise NoItemError(f"No item with the id {format_id(item)} in the space '{name}'.")
    X = index.vectors(np.array([item], np.int64))  # (1, d)
    distances = np.sqrt(PointQuery(X).score_pairs(marks.X, np.zeros(len(marks.X), np.intp)))  # (m,)
    near = {
        sign: [
            Near(int(marks.ids[i]) if marks.ids[i] >= 0 else None, float(distances[i]))
            for i in np.argsort(distances, kind="stable")
            if marks.y[i] == sign and marks.ids[i] != item
        ][:k]
        for sign in (1, -1)
    }
    found = _box(store, spaces, name, item, ranking) if box else None
    margin = float(ranking.distance(X)[0]) if isinstance(ranking, HyperplaneQuery) else None
    return Why(margin, near[1], near[-1], found)


def _box(store: Store, spaces: Spaces, name: str, item: int, ranking: Query) -> Box | None:
    """The part of a picture that would be ranked highest, were it a picture of its own."""
    chain, tried = spaces.chain(name), boxes()
    try:
        image = pixels(store, item, 2 * spaces.side())  # parts are compared, so at twice the side of whole ones
    except (ImageError, InputError):
        return None
    X: Vectors = chain.feature.regions(image, tried)  # (boxes, d)
    if spaces.taught(name) == name and chain.fitted:
        X = chain.transform(X)
    return tried[int(ranking.score(X)[0].argmin())]
