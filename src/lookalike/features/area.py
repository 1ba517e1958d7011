"""A picture at a number of pixels instead of a height and a width.

In: any picture, (height, width, 3) uint8. Out: the same at about so many pixels, uint8, its proportions kept.
"""

import math

from lookalike.features.pixels import check_pixels, resize
from lookalike.types import Pixels

AREA = 128 * 128
"""Pixels that the classic descriptors count: a strip costs as much as a square."""
SIDE = 128
"""No picture of that area has a longer shorter side."""


def resize_area(image: Pixels, area: int = AREA) -> Pixels:
    """The picture at about `area` pixels; a strip too thin for that keeps one pixel across.

    >>> import numpy as np
    >>> resize_area(np.zeros((400, 600, 3), np.uint8)).shape
    (105, 157, 3)
    """
    height, width = check_pixels(image).shape[:2]
    scale = math.sqrt(area / (height * width))
    return resize(image, _length(scale * height, area), _length(scale * width, area))


def _length(wanted: float, most: int) -> int:
    return min(max(round(wanted), 1), most)
