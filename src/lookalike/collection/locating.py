"""Locate matches: find the part of a picture that is most similar to a query.

The small parts of a picture (`Feature.cells`) are scored like pictures. The match is the box that best separates the
similar cells from the others, by the criterion of Otsu, "A threshold selection method from gray-level histograms",
1979. The sums over all boxes come from an integral image, as in Lampert, Blaschko & Hofmann, "Beyond sliding windows:
object localization by efficient subwindow search", CVPR 2008.
"""

import math
from collections.abc import Callable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.collection.resolve import pixels
from lookalike.collection.space import Space
from lookalike.errors import ImageError, InputError
from lookalike.types import WHOLE, Box, Feature, Pixels, Progress, Query, Vectors

STEPS = 24
"""Possible places of an edge of a box along the longer side of the grid, at least."""

CLEARLY = 0.5
"""A whole picture matches if its distance is less than this share of that of the box, as for copies of the query."""

MIN_SHARE = 1 / 8
"""Minimum width and height of a box, as a share of the picture."""


def locate_matches(space: Space, items: Sequence[int], query: Query, progress: Progress) -> dict[int, Box | None]:
    """The part of each item's picture that matches a query of the space's index; None if it cannot be read."""
    boxes: dict[int, Box | None] = {}
    for done, item in enumerate(items):
        progress("locating", done, len(items))
        boxes[item] = best_box(space, item, query, space.chain.finish)
    progress("locating", len(items), len(items))
    return boxes


def best_box(space: Space, item: int, query: Query, transform: Callable[[Vectors], Vectors]) -> Box | None:
    """The part of an item's picture that matches a query; None if the picture cannot be read.

    `transform` turns vectors of the feature into those that the query compares: `Chain.finish`, or `Space.to_rows` for
    a query of feedback.
    """
    try:
        image = pixels(space.store, item, 2 * space.read_side)  # parts are smaller than whole pictures
    except (ImageError, InputError):
        return None
    return locate(space.chain.feature, image, lambda X: query.score(transform(X))[0])


def locate(feature: Feature, image: Pixels, score: Callable[[Vectors], NDArray[np.floating]]) -> Box:
    """The part of a picture that matches best; the whole picture if that is clearly better.

    `score` turns vectors (n, d) of the feature into scores (n,), smaller is better.
    """
    cells = feature.cells(image)  # (scales, h, w, d)
    scores = score(cells.reshape(-1, cells.shape[-1])).reshape(cells.shape[:-1])  # (scales, h, w)
    box = separate(-scores.sum(axis=0))
    of_whole, of_box = score(feature.regions(image, [WHOLE, box]))
    return WHOLE if of_whole < min(of_box, of_box * CLEARLY) else box


def separate(similarity: NDArray[np.floating]) -> Box:
    """The box with the largest between-class variance of the similarities (h, w) inside and outside of it.

    Only boxes are considered whose mean is above that of the grid. Equal similarities give the whole picture.

    >>> separate(np.kron([[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]], np.ones((8, 6))))
    (0.25, 0.3333, 0.75, 0.6667)
    """
    if np.allclose(similarity, similarity.mean()):
        return WHOLE
    factor = math.ceil(STEPS / max(similarity.shape))
    fine = cv2.resize(similarity.astype(np.float64), None, fx=factor, fy=factor, interpolation=cv2.INTER_LINEAR)
    h, w = fine.shape
    sums = cv2.integral(fine - fine.mean())  # (h + 1, w + 1)
    (tops, bottoms), (lefts, rights) = _spans(h), _spans(w)
    inside = sums[bottoms] - sums[tops]  # (vertical spans, w + 1)
    inside = inside[:, rights] - inside[:, lefts]  # (vertical spans, horizontal spans)
    share = (bottoms - tops)[:, None] * (rights - lefts) / (h * w)
    variance = np.divide(inside**2, share * (1 - share), out=np.zeros_like(share), where=(inside > 0) & (share < 1))
    row, column = np.unravel_index(variance.argmax(), variance.shape)
    left, top, right, bottom = (
        round(float(edge), 4) for edge in (lefts[column] / w, tops[row] / h, rights[column] / w, bottoms[row] / h)
    )
    return left, top, right, bottom


def _spans(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last edges of all spans of n steps that have at least MIN_SHARE of them."""
    first, last = np.triu_indices(n + 1, max(1, round(MIN_SHARE * n)))
    return first, last
