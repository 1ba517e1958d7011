"""SIFT at many points of a picture, in grey and in colour: the directions of edges, independent of their contrast.

`Sift` computes 128 values per patch of the grey picture. The colour variants compute 128 values for each of three
channels. They differ in the changes of light to which they are invariant. OpenCV computes SIFT.

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
"""Dimensions per channel: 4 × 4 cells of 8 directions."""
POINTS = ("dense", "harris", "both")
SIGMA = 1.0
"""Standard deviation of the blur of each level in pixels: a sixth of a cell. Lowe's third would remove more detail."""


class Sift(Local):
    """Upright SIFT of the grey picture, on a dense grid of several scales or at corners.

    A flat patch gives a zero vector. A picture without corners uses the grid.

    Parameters
    ----------
    points : "dense" for the grid, "harris" for Harris–Laplace corners, "both" for the grid followed by the corners.
    root : compute rootSIFT, which has Euclidean length 1; otherwise OpenCV's values from 0 to 255.

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
            raise UnknownNameError("kind of points", str(points), POINTS)
        if not isinstance(root, bool):
            raise InputError(f"root must be True or False. Got {root!r}.")
        self.points = points
        self.root = root

    def prepare(self, image: Pixels) -> tuple[NDArray[np.uint8], Vectors]:
        """Return OpenCV's SIFT, (m, dim) uint8, without loss, and the positions of the patches, (m, 2) float32."""
        picture = scale(image)
        planes = self._planes(picture)
        rows, places = [], []
        for points, keypoints in self._points(picture):
            level = [resize(plane, points.height, points.width) for plane in planes]
            rows.append(np.hstack([_compute(plane, keypoints) for plane in level]))  # (m, dim)
            places.append(points.places)
        return np.concatenate(rows), np.concatenate(places)

    def describe(self, prepared: Sequence[tuple[NDArray[Any], Vectors]]) -> list[Patches]:
        """Return the patches of each picture, (m, dim) and (m, 2) float32."""
        return [Patches(_root(rows) if self.root else rows.astype(np.float32), places) for rows, places in prepared]

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        """Return the channels for which SIFT is computed, (height, width) each."""
        return [_gray(picture)]

    def _points(self, picture: Pixels) -> list[tuple[Points, list[Any]]]:
        """Return the levels with their patches, also as OpenCV keypoints; at least one patch in total."""
        corners = detect_corners(_gray(picture)) if self.points != "dense" else ()
        found = [(points, _keypoints(points)) for points in corners if len(points.widths)]
        return found if found and self.points == "harris" else [*_grid(*picture.shape[:2]), *found]


class RgbSift(Sift):
    """SIFT of red, green and blue. Options as in `Sift`.

    Invariant to a change of brightness by a factor and an offset, which can differ between channels.
    """

    dim = 3 * DIM

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        return [np.ascontiguousarray(picture[..., i]) for i in range(3)]


class OpponentSift(Sift):
    """SIFT of the opponent channels: O1, red–green; O2, yellow–blue; O3, intensity. Options as in `Sift`.

    Invariant to a change of brightness by a factor and an offset, equal in all channels.
    """

    dim = 3 * DIM

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        return [_stretch(plane) for plane in _opponents(picture)]


class CSift(Sift):
    """SIFT of the C-invariant: O1 / O3, O2 / O3 and the intensity O3 of the opponent channels. Options as in `Sift`.

    Invariant to a change of brightness by a factor, equal in all channels. O1 / O3 and O2 / O3 are also invariant to
    shadows.
    """

    dim = 3 * DIM

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        o1, o2, light = _opponents(picture)
        return [_stretch(_divide(o1, light)), _stretch(_divide(o2, light)), _stretch(light)]


class RgSift(Sift):
    """SIFT of the chromaticities r = R / (R + G + B), g = G / (R + G + B) and of the intensity. Options as in `Sift`.

    Invariant to a change of brightness by a factor, equal in all channels. r and g are also invariant to shadows.
    """

    dim = 3 * DIM

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        red, green, light = *np.moveaxis(picture, 2, 0)[:2], _opponents(picture)[2]
        return [_stretch(_divide(red, light, 1 / 3)), _stretch(_divide(green, light, 1 / 3)), _stretch(light)]


def _gray(picture: Pixels) -> NDArray[np.uint8]:
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)


def _opponents(picture: Pixels) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.int16]]:
    """Return √2·O1, √6·O2 and √3·O3, which are integers. The factor of a channel does not change its SIFT."""
    red, green, blue = np.moveaxis(picture.astype(np.int16), 2, 0)
    return red - green, red + green - 2 * blue, red + green + blue


def _divide(values: NDArray[Any], light: NDArray[np.int16], black: float = 0.0) -> Vectors:
    """Return values / light, (height, width); `black`, the value of grey, for pixels without light."""
    shares = np.full(values.shape, black, np.float32)
    np.divide(values, light, out=shares, where=light > 0, dtype=np.float32)
    return shares


def _stretch(plane: NDArray[Any]) -> NDArray[np.uint8]:
    """Stretch a channel to bytes from 0 to 255 for OpenCV's SIFT, which reduces rounding errors of weak colours."""
    values = plane.astype(np.float32)
    low, high = values.min(), values.max()
    return np.asarray(np.rint((values - low) * (255 / (high - low or 1))), np.uint8)


@lru_cache(maxsize=8)  # half a megabyte each
def _grid(height: int, width: int) -> list[tuple[Points, list[Any]]]:
    return [(points, _keypoints(points)) for points in lay_grid(height, width)]


def _keypoints(points: Points) -> list[Any]:
    """Return OpenCV keypoints for patches.

    `size` is two thirds of a cell, which is a sixth of the patch. The angle is 0, because the default, -1, rotates by a
    degree. Octave 0 makes OpenCV use the level without doubling its size.
    """
    return [
        cv2.KeyPoint(x=x, y=y, size=width / 6, angle=0.0, octave=0)
        for (x, y), width in zip(points.centres.tolist(), points.widths.tolist(), strict=True)
    ]


def _compute(plane: NDArray[np.uint8], keypoints: list[Any]) -> NDArray[np.uint8]:
    """Return SIFT at these points, (m, 128). One layer per octave makes OpenCV blur as little as possible."""
    sift = cv2.SIFT.create(nOctaveLayers=1, sigma=SIGMA)
    _, rows = sift.compute(plane, keypoints)
    assert len(rows) == len(keypoints)  # some OpenCV descriptors skip points, and positions would be wrong
    return np.asarray(rows, np.uint8)


def _root(rows: NDArray[np.uint8]) -> Vectors:
    X = rows.astype(np.float32)
    X /= np.maximum(X.sum(axis=1, keepdims=True), 1)  # sums are integers: only 0 is below 1
    return np.sqrt(X, out=X)
