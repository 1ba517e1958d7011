"""The shape histogram: which straight edges there are, and how far from the centre they pass.

In: pictures. Out: (n, 64) float32: square roots of a histogram of 8 directions × 8 distances, unit rows.
Hough's transform from gradients: O'Gorman & Clowes, "Finding picture edges through collinearity of feature points",
IEEE Trans. Computers 1976; as an image descriptor: Ferecatu's thesis, Versailles 2005.
"""

import cv2
import numpy as np

from lookalike.features.area import SIDE, resize_area
from lookalike.features.rows import RowFeature
from lookalike.types import Pixels, Vectors

DIRECTIONS = 8
DISTANCES = 8


class Hough(RowFeature):
    """Straight edges by direction and distance.

    Each pixel at (x, y) from the picture's centre, with the luminance's gradient g (3 × 3 Sobel) in direction t, lies
    on an edge whose line passes the centre at the distance |x cos t + y sin t|. It counts |g| for the direction of t
    without sign (8 of 22.5 degrees, the first around the horizontal, the fifth around the vertical gradient) and the
    distance (8 equal steps from the centre to the corner). Column 8 i + j is direction i, distance j.
    A picture without a single edge gets the same in all columns.

    >>> Hough().extract([np.zeros((20, 30, 3), np.uint8)]).shape
    (1, 64)
    """

    side = SIDE
    dim = DIRECTIONS * DISTANCES

    def prepare(self, image: Pixels) -> Vectors:
        """The row itself, (64,) float32: it is small."""
        luminance = cv2.cvtColor(resize_area(image), cv2.COLOR_RGB2GRAY)  # (h, w)
        height, width = luminance.shape
        dx, dy = (
            cv2.Sobel(luminance, cv2.CV_32F, *order, ksize=3, borderType=cv2.BORDER_REPLICATE)
            for order in ((1, 0), (0, 1))
        )
        length = cv2.magnitude(dx, dy)  # (h, w)
        x = np.arange(width, dtype=np.float32) - np.float32((width - 1) / 2)
        y = np.arange(height, dtype=np.float32)[:, None] - np.float32((height - 1) / 2)
        # Where there is no gradient there is no line either: any distance will do, it counts nothing.
        distance = np.abs(x * dx + y * dy) / np.maximum(length, 1)  # (h, w), in pixels
        farthest = np.hypot(width - 1, height - 1) / 2
        steps = np.minimum(distance * np.float32(DISTANCES / farthest), DISTANCES - 1).astype(np.int32)
        turns = np.rint(np.arctan2(dy, dx) * np.float32(DIRECTIONS / np.pi)).astype(np.int32) % DIRECTIONS
        histogram = np.bincount((turns * DISTANCES + steps).ravel(), length.ravel(), minlength=self.dim)
        total = histogram.sum()
        shares = histogram / total if total else np.full(self.dim, 1 / self.dim)
        return np.asarray(np.sqrt(shares), np.float32)
