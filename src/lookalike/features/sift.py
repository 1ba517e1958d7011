"""SIFT at many points of a picture, in grey and in colour: the directions of edges, whatever their contrast.

`Sift` describes the grey picture by 128 numbers per patch, the colour variants three channels by 128 each. They differ
in the changes of light that leave a row unchanged. OpenCV computes SIFT.

Lowe, "Distinctive image features from scale-invariant keypoints", IJCV 2004; rootSIFT: Arandjelović & Zisserman, "Three
things everyone should know to improve object retrieval", CVPR 2012; colour: van de Sande, Gevers & Snoek, "Evaluating
color descriptors for object and scene recognition", PAMI 2010.
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
"""Numbers per channel: 4 × 4 cells of 8 directions."""
POINTS = ("dense", "harris", "both")
SIGMA = 1.0
"""Pixels of blur that a level gets first: a sixth of a cell. (Lowe's third would leave less of small things.)"""


class Sift(Local):
    """SIFT of the grey picture, upright, on a dense grid of several scales or at corners.

    A flat patch gives a row of zeros. A picture without corners is described on the grid.

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
        """The channels to describe, (height, width) each."""
        return [_gray(picture)]

    def _points(self, picture: Pixels) -> list[tuple[Points, list[Any]]]:
        """Levels with their patches, also as OpenCV's keypoints; at least one patch in all."""
        corners = detect_corners(_gray(picture)) if self.points != "dense" else ()
        found = [(points, _keypoints(points)) for points in corners if len(points.widths)]
        return found if found and self.points == "harris" else [*_grid(*picture.shape[:2]), *found]


class RgbSift(Sift):
    """SIFT of red, green and blue. Options as in `Sift`.

    Unchanged when light becomes stronger or is added, in each channel by a factor and a sum of its own.
    """

    dim = 3 * DIM

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        return [np.ascontiguousarray(picture[..., i]) for i in range(3)]


class OpponentSift(Sift):
    """SIFT of the opponent channels: O1, red against green; O2, yellow against blue; O3, light. Options as in `Sift`.

    Unchanged when light becomes stronger or is added, equally in all channels.
    """

    dim = 3 * DIM

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        return [_stretch(plane) for plane in _opponents(picture)]


class CSift(Sift):
    """SIFT of the C-invariant: O1 / O3, O2 / O3, and light, O3, of the opponent channels. Options as in `Sift`.

    Unchanged when light becomes stronger, equally in all channels. Shadows do not change O1 / O3 and O2 / O3.
    """

    dim = 3 * DIM

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        o1, o2, light = _opponents(picture)
        return [_stretch(_divide(o1, light)), _stretch(_divide(o2, light)), _stretch(light)]


class RgSift(Sift):
    """SIFT of the chromaticities r = R / (R + G + B), g = G / (R + G + B), and of light. Options as in `Sift`.

    Unchanged when light becomes stronger, equally in all channels. Shadows do not change r and g.
    """

    dim = 3 * DIM

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        red, green, light = *np.moveaxis(picture, 2, 0)[:2], _opponents(picture)[2]
        return [_stretch(_divide(red, light, 1 / 3)), _stretch(_divide(green, light, 1 / 3)), _stretch(light)]


def _gray(picture: Pixels) -> NDArray[np.uint8]:
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)


def _opponents(picture: Pixels) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.int16]]:
    """√2·O1, √6·O2 and √3·O3: whole numbers, since a channel's factor does not change its SIFT."""
    red, green, blue = np.moveaxis(picture.astype(np.int16), 2, 0)
    return red - green, red + green - 2 * blue, red + green + blue


def _divide(values: NDArray[Any], light: NDArray[np.int16], black: float = 0.0) -> Vectors:
    """values / light, (height, width); `black`, the value of grey, where there is no light."""
    shares = np.full(values.shape, black, np.float32)
    np.divide(values, light, out=shares, where=light > 0, dtype=np.float32)
    return shares


def _stretch(plane: NDArray[Any]) -> NDArray[np.uint8]:
    """A channel as bytes for OpenCV's SIFT, stretched to 0 to 255, so that rounding affects weak colours little."""
    values = plane.astype(np.float32)
    low, high = values.min(), values.max()
    return np.asarray(np.rint((values - low) * (255 / (high - low or 1))), np.uint8)


@lru_cache(maxsize=8)  # half a megabyte each
def _grid(height: int, width: int) -> list[tuple[Points, list[Any]]]:
    return [(points, _keypoints(points)) for points in lay_grid(height, width)]


def _keypoints(points: Points) -> list[Any]:
    """OpenCV's keypoints: `size` is 2/3 of a cell, 1/6 of the patch; angle 0 (-1, the default, turns by a degree);
    octave 0 makes it use the level as it is, not doubled.
    """
    return [
        cv2.KeyPoint(x=x, y=y, size=width / 6, angle=0.0, octave=0)
        for (x, y), width in zip(points.centres.tolist(), points.widths.tolist(), strict=True)
    ]


def _compute(plane: NDArray[np.uint8], keypoints: list[Any]) -> NDArray[np.uint8]:
    """SIFT at these points, (m, 128). One layer per octave is the least that OpenCV can be told to blur."""
    sift = cv2.SIFT.create(nOctaveLayers=1, sigma=SIGMA)
    _, rows = sift.compute(plane, keypoints)
    assert len(rows) == len(keypoints)  # some of OpenCV's descriptors skip points; places would be wrong
    return np.asarray(rows, np.uint8)


def _root(rows: NDArray[np.uint8]) -> Vectors:
    X = rows.astype(np.float32)
    X /= np.maximum(X.sum(axis=1, keepdims=True), 1)  # whole numbers: below 1 there is only 0
    return np.sqrt(X, out=X)
