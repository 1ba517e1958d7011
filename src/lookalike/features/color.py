"""Colour histograms of a picture and of its parts: the feature that needs no network.

In: pictures. Out: (n, 512) float32, unit rows; their inner product is the Bhattacharyya coefficient of the histograms.
Swain & Ballard, "Color indexing", IJCV 1991; square roots as in Arandjelović & Zisserman, CVPR 2012.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.features.pixels import check_pixels, resize
from lookalike.features.rows import RowFeature
from lookalike.types import Pixels, Vectors

SIDE = 128
LEVELS = (32, 16, 16)
"""Steps of hue, saturation and value that pixels are counted in (8192 in all), before they are spread over the bins."""
BINS = (8, 4, 4)
REGIONS = 4
"""The central disc, then the upper, middle and lower third: a picture and its mirror image are alike."""


class Color(RowFeature):
    """The colours of a picture and where they are: hue, saturation and value in 8 × 4 × 4 soft bins, in four regions.

    A pixel counts for the two nearest bins of each axis, so that a slightly different light changes the row slightly.
    """

    side = SIDE
    dim = REGIONS * int(np.prod(BINS))

    def prepare(self, image: Pixels) -> Vectors:
        """The row itself, (512,) float32: it is small."""
        small = resize(check_pixels(image), SIDE, SIDE)
        hsv = np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2HSV_FULL), np.int32)  # (128, 128, 3), each 0 to 255
        places = _CELLS + (hsv[..., 0] // 8 * 256 + hsv[..., 1] // 16 * 16 + hsv[..., 2] // 16)  # (128, 128)
        counts = np.bincount(places.ravel(), minlength=6 * 8192).reshape(6, 8192)
        h = (_CELLS_TO_REGIONS @ counts).reshape(REGIONS, LEVELS[0], -1)  # (4, 32, 256)
        h = _HUE.T @ h @ _SHADE  # (4, 8, 16)
        rows = np.sqrt(h / h.sum(axis=(1, 2), keepdims=True))  # a unit row each region
        return np.asarray(rows.ravel() / np.sqrt(REGIONS), np.float32)


def _spread(levels: int, bins: int, *, cyclic: bool = False) -> NDArray[np.float64]:
    """How much each level counts for each bin, (levels, bins): linear between the two nearest; rows sum to 1."""
    place = (np.arange(levels) + 0.5) / levels * (bins if cyclic else bins - 1)
    lower = place.astype(int)
    share = place - lower
    spread = np.zeros((levels, bins))
    spread[np.arange(levels), lower] = 1 - share
    spread[np.arange(levels), (lower + 1) % bins] += share
    return spread


def _lay_out() -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Where each pixel's cell begins, (SIDE, SIDE), and which cells make up each region, (4, 6)."""
    y, x = np.mgrid[:SIDE, :SIDE]
    middle = (SIDE - 1) / 2
    disc = (x - middle) ** 2 + (y - middle) ** 2 < (0.375 * SIDE) ** 2
    third = y * 3 // SIDE
    cells = np.arange(6)  # two a third: outside the disc and inside
    regions = np.stack([cells % 2 == 1, *(cells // 2 == i for i in range(3))])
    return ((third * 2 + disc) * 8192).astype(np.int32), regions.astype(np.float64)


_CELLS, _CELLS_TO_REGIONS = _lay_out()
_HUE = _spread(LEVELS[0], BINS[0], cyclic=True)  # (32, 8)
_SHADE = np.kron(_spread(LEVELS[1], BINS[1]), _spread(LEVELS[2], BINS[2]))  # (256, 16), saturation and value
