"""Local colour statistics: means and standard deviations of colour in the cells of many patches.

Clinchant, Csurka, Perronnin & Renders, "XRCE's participation to ImageEval", 2007; together with SIFT in Mensink et al.,
"Large scale metric learning for distance-based image classification", 2013, §5.1.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.features.pixels import resize
from lookalike.features.points import PATCH, SIDE, Points, lay_grid, scale
from lookalike.types import Local, Patches, Pixels, Vectors

CELL = PATCH // 4
"""Width of a cell in pixels: a patch has 4 × 4 cells, as in SIFT."""
PIXELS = CELL * CELL


class ColorStatistics(Local):
    """Mean and standard deviation of red, green and blue in the 4 × 4 cells of each patch of SIFT's dense grid.

    A vector has 48 means followed by 48 standard deviations, all from 0 to 1, in the order of cells (row by row) and
    then of red, green and blue. The patch at pixel (x, y) covers x - 12 to x + 11 and y - 12 to y + 11.

    Examples
    --------
    >>> statistics = ColorStatistics()
    >>> [patches] = statistics.describe([statistics.prepare(np.full((256, 384, 3), 255, np.uint8))])
    >>> patches.X.shape, float(patches.X[:, :48].min()), float(patches.X[:, 48:].max())
    ((3182, 96), 1.0, 0.0)

    """

    side = SIDE
    dim = 96
    by_picture = True

    def __init__(self) -> None:
        """Accept no options. (The constructor of the protocol would accept any.)"""

    def prepare(self, image: Pixels) -> tuple[Vectors, Vectors]:
        """Return the vectors, (m, 96) float32, and the positions of the patches, (m, 2) float32."""
        picture = scale(image)
        grid = _grid(*picture.shape[:2])
        rows = [_describe(resize(picture, points.height, points.width), cells) for points, cells in grid]
        return np.concatenate(rows), np.concatenate([points.places for points, _ in grid])

    def describe(self, prepared: Sequence[tuple[Vectors, Vectors]]) -> list[Patches]:
        """Return the patches of each picture, (m, 96) and (m, 2) float32."""
        return [Patches(rows, places) for rows, places in prepared]


def _describe(level: Pixels, cells: NDArray[np.int64]) -> Vectors:
    """Return the vectors of one level's patches, (m, 96). Sums are integers, so a flat cell has a deviation of 0."""
    size, corner = (CELL, CELL), (0, 0)  # the filters cover the pixels to the right and below
    sums = _gather(cv2.boxFilter(level, cv2.CV_32F, size, anchor=corner, normalize=False), cells)  # (m, 48)
    squares = _gather(cv2.sqrBoxFilter(level, cv2.CV_32F, size, anchor=corner, normalize=False), cells)  # below 2**24
    deviations = np.sqrt(PIXELS * squares - sums * sums, dtype=np.float32)  # (m, 48), scaled by PIXELS, like sums
    return np.hstack([sums, deviations], dtype=np.float32) / np.float32(PIXELS * 255)


@lru_cache(maxsize=8)  # half a megabyte each
def _grid(height: int, width: int) -> list[tuple[Points, NDArray[np.int64]]]:
    return [(points, _cells(points)) for points in lay_grid(height, width)]


def _cells(points: Points) -> NDArray[np.int64]:
    """Return the index of the first pixel of each cell of each patch, (m, 16), row by row."""
    left, top = (points.centres.astype(np.int64) - PATCH // 2).T  # (m,) each
    y, x = np.divmod(np.arange(16), 4)  # (16,) each
    return np.asarray((top[:, None] + CELL * y) * points.width + left[:, None] + CELL * x)


def _gather(filtered: NDArray[Any], cells: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the result of a filter in each cell, (m, 48)."""
    values = np.take(filtered.reshape(-1, 3), cells, axis=0)  # (m, 16, 3)
    return np.asarray(values, np.int32).reshape(len(cells), -1)
