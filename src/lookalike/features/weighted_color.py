"""Colour histograms in which some pixels count for more: the locally rare ones, or those on edges.

In: pictures. Out: (n, 216) float32: square roots of a histogram of 6 × 6 × 6 RGB bins, unit rows.
Vertan & Boujemaa, "Upgrading color distributions for image retrieval: can we do better?", VISUAL 2000; Boujemaa et al.,
"IKONA: interactive generic and specific image retrieval", MMCBIR 2001.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.features.area import SIDE, resize_area
from lookalike.features.rows import RowFeature
from lookalike.types import Pixels, Vectors

LEVELS = 6
"""Steps of red, of green and of blue."""
REACH = 3
"""A pixel's neighbourhood is the square that reaches so far to each side of it: 7 × 7 pixels."""
OUTSIDE = 255
"""Stands for a colour where there is no picture."""


class ProbabilityColor(RowFeature):
    """Colours, weighted by how rare each is where it is found: small things and fine patterns outweigh plain ground.

    A pixel weighs 1 / p, where p is the share of its 7 × 7 neighbourhood that falls into its own bin.

    >>> ProbabilityColor().extract([np.zeros((20, 30, 3), np.uint8)]).shape
    (1, 216)
    """

    side = SIDE
    dim = LEVELS**3

    def prepare(self, image: Pixels) -> Vectors:
        """The row itself, (216,) float32: it is small."""
        colors = _quantise(resize_area(image))
        return _row(colors, 1 / _local_shares(colors))


class LaplacianColor(RowFeature):
    """Colours, weighted by the edges they lie on: a pixel weighs the square of the luminance's Laplacian there.

    A picture without a single edge has nothing to weigh by: all its pixels count alike.

    >>> LaplacianColor().extract([np.zeros((20, 30, 3), np.uint8)]).shape
    (1, 216)
    """

    side = SIDE
    dim = LEVELS**3

    def prepare(self, image: Pixels) -> Vectors:
        """The row itself, (216,) float32: it is small."""
        small = resize_area(image)
        luminance = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)  # (h, w)
        laplacian = cv2.Laplacian(luminance, cv2.CV_16S, ksize=1, borderType=cv2.BORDER_REPLICATE)
        weights = laplacian.astype(np.float64) ** 2
        return _row(_quantise(small), weights if weights.any() else np.ones_like(weights))


def _quantise(image: Pixels) -> NDArray[np.uint8]:
    """The bin of each pixel's colour, (h, w), 0 to 215."""
    red, green, blue = (_STEPS[image[..., channel]] for channel in range(3))
    return red * np.uint8(LEVELS**2) + green * np.uint8(LEVELS) + blue


def _local_shares(colors: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The share of each pixel's neighbourhood, as far as it is inside the picture, that has the pixel's bin, (h, w)."""
    height, width = colors.shape
    framed = np.pad(colors, REACH, constant_values=OUTSIDE)
    counts = np.zeros((height, width), np.uint8)  # at most 49
    for y in range(2 * REACH + 1):
        for x in range(2 * REACH + 1):
            counts += framed[y : y + height, x : x + width] == colors
    return counts / (_reached(height)[:, None] * _reached(width))


def _reached(length: int) -> NDArray[np.int64]:
    """How many places are within reach of each of `length` in a line, itself included, (length,)."""
    place = np.arange(length)
    return np.minimum(place, REACH) + np.minimum(place[::-1], REACH) + 1


def _row(colors: NDArray[np.uint8], weights: NDArray[np.float64]) -> Vectors:
    """The square roots of the weighted histogram, (216,) float32."""
    histogram = np.bincount(colors.ravel(), weights.ravel(), minlength=LEVELS**3)
    return np.asarray(np.sqrt(histogram / histogram.sum()), np.float32)


_STEPS = (np.arange(256) * LEVELS // 256).astype(np.uint8)  # of a channel's value
