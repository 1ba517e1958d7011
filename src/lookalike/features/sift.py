"""SIFT at many places of a picture: which way its edges run there, whatever their contrast.

In: pictures. Out: `Patches`, rows of 128 float32 each. Lowe, "Distinctive image features from scale-invariant
keypoints", IJCV 2004; OpenCV does the work. Square roots: Arandjelović & Zisserman, "Three things …", CVPR 2012.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError, UnknownNameError
from lookalike.features.pixels import resize
from lookalike.features.points import SIDE, Points, detect_corners, lay_grid, scale
from lookalike.types import Local, OneOf, Patches, Pixels, Vectors

DIM = 128
"""Of one channel: 4 × 4 cells of 8 directions."""
POINTS = ("dense", "harris", "both")
SIGMA = 1.0
"""Pixels of blur that a level gets first: a sixth of a cell. (Lowe's third would leave less of small things.)"""


class Sift(Local):
    """SIFT of the grey picture, upright, on a dense grid of several scales or at corners.

    A flat patch gives a row of zeros. A picture without corners is looked at on the grid.

    Parameters
    ----------
    points : "dense", the grid; "harris", Harris–Laplace corners; "both", the grid, then the corners.
    root : rootSIFT, rows of Euclidean length 1; else OpenCV's numbers, 0 to 255.

    Examples
    --------
    >>> sift = Sift()
    >>> [patches] = sift.describe([sift.prepare(np.zeros((256, 384, 3), np.uint8))])
    >>> patches.X.shape, patches.places.shape
    ((3182, 128), (3182, 2))

    """

    side = SIDE
    dim = DIM
    by_picture = True

    def __init__(self, points: Annotated[str, OneOf(POINTS)] = "dense", root: bool = True):
        if points not in POINTS:
            raise UnknownNameError("choice of points", str(points), POINTS)
        if not isinstance(root, bool):
            raise InputError(f"root must be True or False. Got {root!r}.")
        self.points = points
        self.root = root

    def prepare(self, image: Pixels) -> tuple[NDArray[np.uint8], Vectors]:
        """OpenCV's SIFT, (m, dim) uint8, which is exact, and the places of the patches, (m, 2) float32."""
        picture = scale(image)
        planes = self._planes(picture)
        rows, places = [], []
        for points, keypoints in self._points(picture):
            level = [resize(plane, points.height, points.width) for plane in planes]
            rows.append(np.hstack([_compute(plane, keypoints) for plane in level]))  # (m, dim)
            places.append(points.places)
        return np.concatenate(rows), np.concatenate(places)

    def describe(self, prepared: Sequence[tuple[NDArray[Any], Vectors]]) -> list[Patches]:
        """The patches of each picture, (m, dim) and (m, 2) float32."""
        return [Patches(_root(rows) if self.root else rows.astype(np.float32), places) for rows, places in prepared]

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        """The channels whose edges are described, (height, width) each."""
        return [_gray(picture)]

    def _points(self, picture: Pixels) -> list[tuple[Points, list[Any]]]:
        """Levels with the patches on them, and these as OpenCV wants them; at least one patch in all."""
        corners = detect_corners(_gray(picture)) if self.points != "dense" else ()
        found = [(points, _keypoints(points)) for points in corners if len(points.widths)]
        return found if found and self.points == "harris" else [*_grid(*picture.shape[:2]), *found]


@lru_cache(maxsize=8)  # half a megabyte each
def _grid(height: int, width: int) -> list[tuple[Points, list[Any]]]:
    return [(points, _keypoints(points)) for points in lay_grid(height, width)]


def _keypoints(points: Points) -> list[Any]:
    """As OpenCV wants them: `size` is 2/3 of a cell, 1/6 of the patch; angle 0 (-1, the default, turns by a degree);
    octave 0 has it take the level as it is, not doubled.
    """
    return [
        cv2.KeyPoint(x=x, y=y, size=width / 6, angle=0.0, octave=0)
        for (x, y), width in zip(points.centres.tolist(), points.widths.tolist(), strict=True)
    ]


def _compute(plane: NDArray[np.uint8], keypoints: list[Any]) -> NDArray[np.uint8]:
    """SIFT at these points, (m, 128). One layer an octave is the fewest that it can be told to blur."""
    sift = cv2.SIFT.create(nOctaveLayers=1, sigma=SIGMA)
    _, rows = sift.compute(plane, keypoints)
    assert len(rows) == len(keypoints)  # some of OpenCV's descriptors leave points out; places would go wrong
    return np.asarray(rows, np.uint8)


def _root(rows: NDArray[np.uint8]) -> Vectors:
    X = rows.astype(np.float32)
    X /= np.maximum(X.sum(axis=1, keepdims=True), 1)  # whole numbers: below 1 there is only 0
    return np.sqrt(X, out=X)


def _gray(picture: Pixels) -> NDArray[np.uint8]:
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)
