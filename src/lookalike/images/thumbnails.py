"""Thumbnails: tiny grey copies that show cheaply that two pictures are not the same photo.

`find_places` looks for one picture inside the other, for many pairs at once, by the correlation of their grey levels:
at every size and position at 16 × 16 pixels, then near the best place at 32 × 32. Pictures that do not correlate are
not copies of each other. The others are compared in detail (`same_photo`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from lookalike.types import Pixels, Vectors

SIDE = 32
"""Side of a thumbnail in pixels. A thumbnail is square: the picture's shape is a separate number."""

COARSE_SIDE = 16
"""Side at which all sizes and positions are tried."""

SMALLEST = 9
"""Shortest side of the smaller picture inside the larger one that is tried, in pixels of COARSE_SIDE."""

MIN_AREA = 0.3
"""Smallest share of the larger picture that the smaller one covers."""

MIN_COARSE, MIN_FINE = 0.8, 0.87
"""Smallest correlations at 16 and at 32 pixels of a copy. Chosen on Corel-1k and ukbench."""

REFINED = 3
"""Largest change of size and position that is tried at 32 pixels, in pixels."""

BORDER = 3
"""Pixels of the smaller picture that are ignored at 32 pixels on each side, because they may be outside the other one:
two copies may both be cropped. At 16 pixels, one pixel is ignored."""

Thumbnail = NDArray[np.uint8]
"""Grey levels, (SIDE, SIDE)."""


class Place(NamedTuple):
    """Position of one picture inside the other, as shares of the width and height of the other."""

    swapped: bool  # whether the first picture of the pair is inside the second
    left: float
    top: float
    width: float
    height: float


def thumbnail(image: Pixels) -> Thumbnail:
    """Return the thumbnail of a picture (h, w, 3)."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)


def find_places(
    ones: NDArray[np.uint8], others: NDArray[np.uint8], shapes: Vectors, other_shapes: Vectors
) -> list[Place | None]:
    """Return where one picture of each pair is inside the other; None if the pictures do not correlate.

    The pairs are thumbnails (m, SIDE, SIDE); shapes are the width / height of the pictures, (m,).
    """
    small, other_small = _coarse(ones), _coarse(others)  # (m, 16, 16)
    ratios = np.asarray(other_shapes / shapes, np.float32)
    inside, places = _search(small, other_small, ratios)
    around, other_places = _search(other_small, small, np.reciprocal(ratios))
    found: list[Place | None] = [None] * len(ones)
    for i in np.flatnonzero(np.maximum(inside, around) >= MIN_COARSE).tolist():
        tried = []
        if inside[i] >= MIN_COARSE:
            tried.append((*_refine(ones[i], others[i], places[i]), False))
        if around[i] >= MIN_COARSE:
            tried.append((*_refine(others[i], ones[i], other_places[i]), True))
        # Fine stripes and grids look different at 16 pixels: assume that little was cropped.
        if max(tried)[0] < MIN_FINE:
            swapped = bool(around[i] > inside[i])
            box = _centred_box(1 / ratios[i] if swapped else ratios[i])
            tried.append((*_refine(*((others[i], ones[i]) if swapped else (ones[i], others[i])), box), swapped))
        correlation, box, swapped = max(tried)
        if correlation >= MIN_FINE:
            found[i] = Place(swapped, *(length / SIDE for length in box))
    return found


def _centred_box(ratio: float) -> tuple[int, int, int, int]:
    """Return the box of a part of the largest size, in the middle of the whole."""
    width, height = round(COARSE_SIDE * min(1, ratio)), round(COARSE_SIDE * min(1, 1 / ratio))
    return (COARSE_SIDE - width) // 2, (COARSE_SIDE - height) // 2, width, height


def _coarse(thumbnails: NDArray[np.uint8]) -> Vectors:
    """Shrink thumbnails to COARSE_SIDE, (m, 16, 16), with mean 0."""
    factor = SIDE // COARSE_SIDE
    small = thumbnails.reshape(-1, COARSE_SIDE, factor, COARSE_SIDE, factor).mean(axis=(2, 4), dtype=np.float32)
    return np.asarray(small - small.mean(axis=(1, 2), keepdims=True))


def _search(wholes: Vectors, parts: Vectors, ratios: Vectors) -> tuple[Vectors, NDArray[np.int64]]:
    """Return the highest correlations (m,) of `parts` inside `wholes` (m, 16, 16), and their boxes (m, 4)."""
    best, boxes = np.full(len(wholes), -1.0, np.float32), np.zeros((len(wholes), 4), np.int64)
    sums, squares = _integral(wholes), _integral(wholes**2)
    for length in range(COARSE_SIDE, SMALLEST - 1, -1):
        widths = np.rint(length * np.minimum(1, ratios)).astype(int)  # the longer side has this length
        heights = np.rint(length * np.minimum(1, 1 / ratios)).astype(int)
        tried = widths * heights >= MIN_AREA * COARSE_SIDE**2
        for width, height in sorted({*zip(widths[tried].tolist(), heights[tried].tolist(), strict=True)}):
            rows = np.flatnonzero(tried & (widths == width) & (heights == height))
            resized = _RESIZE[height] @ parts[rows] @ _RESIZE[width].T
            patterns = resized[:, 1:-1, 1:-1]  # (r, h, w), without the border
            h, w = patterns.shape[1:]
            patterns = patterns - patterns.mean(axis=(1, 2), keepdims=True)
            patterns /= np.sqrt((patterns**2).sum(axis=(1, 2), keepdims=True)) + 1e-6
            windows = sliding_window_view(wholes[rows], (h, w), axis=(1, 2))  # (r, down, across, h, w)
            across = windows.shape[2]
            size = h * w
            # (r, down·across, 1)
            products = windows.reshape(len(rows), -1, size) @ patterns.reshape(len(rows), size, 1)
            spread = _box_sums(squares[rows], h, w) - _box_sums(sums[rows], h, w) ** 2 / size
            correlations = products[..., 0] / np.sqrt(np.maximum(spread.reshape(len(rows), -1), 1))
            where = correlations.argmax(axis=1)
            found = correlations[np.arange(len(rows)), where]
            better = found > best[rows]
            best[rows[better]] = found[better]
            sizes = np.full(len(where), width), np.full(len(where), height)
            boxes[rows[better]] = np.stack([where % across - 1, where // across - 1, *sizes], axis=1)[better]
    return best, boxes


def _refine(whole: Thumbnail, part: Thumbnail, box: Sequence[int]) -> tuple[float, tuple[int, int, int, int]]:
    """Return the highest correlation near a box of `_search`, and the box in pixels of the thumbnail."""
    factor = SIDE // COARSE_SIDE
    left, top, width, height = (factor * int(length) for length in box)
    best, found = -1.0, (left, top, width, height)
    for change in range(-REFINED, REFINED + 1):
        w, h = min(SIDE, width + change), min(SIDE, height + change)
        pattern = cv2.resize(part, (w, h), interpolation=cv2.INTER_AREA)[BORDER:-BORDER, BORDER:-BORDER]
        x, y = max(0, left + BORDER - REFINED), max(0, top + BORDER - REFINED)
        x, y = min(x, SIDE - pattern.shape[1]), min(y, SIDE - pattern.shape[0])
        region = whole[y : y + pattern.shape[0] + 2 * REFINED, x : x + pattern.shape[1] + 2 * REFINED]
        _, correlation, _, (across, down) = cv2.minMaxLoc(cv2.matchTemplate(region, pattern, cv2.TM_CCOEFF_NORMED))
        if correlation > best:
            best, found = correlation, (x + across - BORDER, y + down - BORDER, w, h)
    return best, found


def _integral(images: Vectors) -> Vectors:
    """Return the sums over all rectangles from the top left corner, (m, 17, 17)."""
    return np.asarray(np.pad(images.cumsum(axis=1).cumsum(axis=2), ((0, 0), (1, 0), (1, 0))))


def _box_sums(integral: Vectors, height: int, width: int) -> Vectors:
    """Return the sums over all boxes of a size, (m, down, across)."""
    return np.asarray(
        integral[:, height:, width:]
        - integral[:, :-height, width:]
        - integral[:, height:, :-width]
        + integral[:, :-height, :-width]
    )


def _resize_matrix(length: int) -> Vectors:
    """Return the matrix (length, COARSE_SIDE) that shrinks a row of pixels by averaging areas."""
    edges = np.linspace(0, COARSE_SIDE, length + 1)
    pixels: NDArray[Any] = np.arange(COARSE_SIDE)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.asarray(np.maximum(overlap, 0) * length / COARSE_SIDE, np.float32)


_RESIZE = {length: _resize_matrix(length) for length in range(1, COARSE_SIDE + 1)}
