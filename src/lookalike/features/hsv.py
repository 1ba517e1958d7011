"""The classic HSV histogram.

In: pictures. Out: (n, 120) float32: square roots of a histogram of hue, saturation and value, unit rows.
Smith & Chang, "Tools and techniques for color image retrieval", SPIE 1996, with fewer bins.
"""

import cv2
import numpy as np

from lookalike.features.area import SIDE, resize_area
from lookalike.features.rows import RowFeature
from lookalike.types import Pixels, Vectors

BINS = (10, 4, 3)
"""Of hue, saturation and value: hue survives a change of light best, value worst."""


class Hsv(RowFeature):
    """The colours of a picture as people name them: 10 hues × 4 saturations × 3 values, wherever they are.

    The hues are 36 degrees each, the first from -18 to 18: reds are together.

    >>> red = np.full((20, 30, 3), (255, 0, 0), np.uint8)
    >>> int(Hsv().extract([red])[0].argmax())  # the first hue, the last saturation, the last value
    11
    """

    side = SIDE
    dim = int(np.prod(BINS))

    def prepare(self, image: Pixels) -> Vectors:
        """The row itself, (120,) float32: it is small."""
        hsv = cv2.cvtColor(resize_area(image), cv2.COLOR_RGB2HSV_FULL)  # (h, w, 3), each 0 to 255
        places = _HUE[hsv[..., 0]] + _SATURATION[hsv[..., 1]] + _VALUE[hsv[..., 2]]  # (h, w)
        histogram = np.bincount(places.ravel(), minlength=self.dim)
        return np.asarray(np.sqrt(histogram / histogram.sum()), np.float32)


# Where each of the 256 levels of an axis begins among the bins.
_LEVELS = np.arange(256)
_HUE = (_LEVELS * BINS[0] + 128) // 256 % BINS[0] * (BINS[1] * BINS[2])
_SATURATION = _LEVELS * BINS[1] // 256 * BINS[2]
_VALUE = _LEVELS * BINS[2] // 256
