"""Positions of local descriptors: patches on a dense grid over several scales, and at Harris–Laplace corners.

`scale` resizes a picture to working size. `lay_grid` and `detect_corners` return `Points` on each of its levels, whose
sizes differ by a factor of √2. Sánchez, Perronnin, Mensink & Verbeek, "Image classification with the Fisher vector",
IJCV 2013; corners: Mikolajczyk & Schmid, "Scale & affine invariant interest point detectors", IJCV 2004.
"""

import math
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.features.pixels import check_pixels, resize
from lookalike.types import Pixels, Vectors

AREA = 100_000
"""Maximum number of pixels at working size. Larger pictures are shrunk to it (Sánchez et al.)."""
SIDE = math.ceil(math.sqrt(AREA))
"""The shorter side that suffices for any aspect ratio: the side of a square of this area."""
RATIO = 8.0
"""Maximum aspect ratio. Longer pictures are squeezed to it, because a thin strip would shrink to a row of pixels."""
PATCH = 24
"""Width of a patch in pixels of its level (Sánchez et al.)."""
STEP = 7
"""Step between patches in pixels of a level: gives about 3,000 patches per picture (Sánchez et al.: 4 and 10,000)."""
LEVELS = 5
"""Number of levels, each 1/√2 the size of the previous one, as in Sánchez et al. In pixels of the first level, patches
are 24, 34, 48, 68 and 96 pixels wide."""
OCTAVES = 3
"""Number of octaves in which corners are detected, up to the size of the widest patch of the grid."""
SCALES = 4
"""Number of scales per octave at which corners are detected."""
CORNERS = 0.006
"""Minimum response of a corner, as a share of the strongest at the same scale."""
LAPLACIAN = 0.01
"""Minimum difference of two successive scales at a corner; white minus black is 1."""
MAX_CORNERS = 1000
"""Maximum number of corners, about a third of the number of patches of the grid. The strongest are used."""


class Points(NamedTuple):
    """The patches on one level of a picture. They are upright squares."""

    height: int
    width: int  # height and width of the level in pixels
    centres: Vectors  # (m, 2) float32, x and y in pixels of the level; the centre of the first pixel is 0
    widths: Vectors  # (m,) float32, pixels of the level

    @property
    def places(self) -> Vectors:
        """The centres as fractions of the picture's width and height, (m, 2) float32."""
        return np.asarray((self.centres + 0.5) / (self.width, self.height), np.float32)


def scale(image: Pixels) -> Pixels:
    """Resize a picture to working size: at most 100,000 pixels, at most 8:1, both sides at least as long as a patch.

    >>> scale(np.zeros((4000, 5000, 3), np.uint8)).shape
    (283, 354, 3)
    """
    height, width = check_pixels(image).shape[:2]
    ratio = min(max(width / height, 1 / RATIO), RATIO)
    area = min(height * width, AREA)
    grow = max(1.0, (PATCH + 1) / math.sqrt(area / max(ratio, 1 / ratio)))  # a patch has a pixel at its centre
    new_height, new_width = round(grow * math.sqrt(area / ratio)), round(grow * math.sqrt(area * ratio))
    return resize(image, new_height, new_width)


@lru_cache(maxsize=64)  # pictures of one collection have few different sizes
def lay_grid(height: int, width: int) -> tuple[Points, ...]:
    """Return the grid of each level of a picture at working size: whole patches, row by row, centred to half a pixel.

    >>> [len(points.centres) for points in lay_grid(256, 384)]
    [1768, 828, 360, 160, 66]
    """
    grids = []
    for h, w in level_sizes(height, width):
        x, y = (_ticks(length) for length in (w, h))
        centres = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)  # (m, 2)
        grids.append(Points(h, w, _frozen(centres), _frozen(np.full(len(centres), PATCH))))
    return tuple(grids)


def detect_corners(gray: NDArray[np.uint8]) -> tuple[Points, ...]:
    """Detect the strongest Harris–Laplace corners of a grey picture at working size, by level; levels can be empty.

    A patch is 12 standard deviations of the corner's scale wide, as in Lowe's SIFT. It is on the level where this width
    is closest to 24 pixels, so the cost of a patch does not grow with its size.
    """
    response, y, x, sigma = _harris_laplace(gray)
    strongest = np.lexsort((sigma, x, y, -response))[:MAX_CORNERS]  # ties in a fixed order
    y, x, widths = y[strongest], x[strongest], 12 * sigma[strongest]
    sizes = level_sizes(*gray.shape)
    level = np.clip(np.rint(2 * np.log2(widths / PATCH)), 0, len(sizes) - 1)  # (m,)
    points = []
    for i, (h, w) in enumerate(sizes):
        here = level == i
        across, down = w / gray.shape[1], h / gray.shape[0]
        centres = np.stack([(x[here] + 0.5) * across - 0.5, (y[here] + 0.5) * down - 0.5], axis=1)  # (m, 2)
        points.append(Points(h, w, centres.astype(np.float32), widths[here] * np.float32(math.sqrt(across * down))))
    return tuple(points)


def _harris_laplace(gray: NDArray[np.uint8]) -> Vectors:
    """Return response, y, x and scale of the Harris–Laplace corners of a picture, (4, m) float32, in pixels.

    These are the maxima of the Harris measure at the scales σ = 1, 2^¼, … 8 where the Laplacian is larger than at the
    scale before and after. Differences of Gaussians approximate the Laplacian. A corner is at least 3σ from the border.
    """
    height, width = gray.shape
    white = gray.astype(np.float32) / 255
    neighbours = np.ones((3, 3), np.uint8)
    sigmas = [2 ** (i / SCALES) for i in range(-2, SCALES + 3)]  # pixels of the octave
    found = [np.empty((4, 0), np.float32)]
    for octave in range(OCTAVES):
        size = max(1, round(width / 2**octave)), max(1, round(height / 2**octave))
        picture = np.asarray(cv2.resize(white, size, interpolation=cv2.INTER_AREA), np.float32)
        across, down = width / size[0], height / size[1]
        levels = [_blur(picture, sigma) for sigma in sigmas]
        laplacians = [cv2.absdiff(a, b) for a, b in pairwise(levels)]
        for i in range(octave > 0, SCALES + 1):  # the first scale of an octave is the last one of the previous octave
            response = _harris(levels[i], sigmas[i + 2])  # its derivatives have the scale σ/√2
            smaller, here, larger = laplacians[i + 1 : i + 4]
            corner = (response == cv2.dilate(response, neighbours)) & (response > CORNERS * response.max())
            at = np.nonzero(corner & (here > smaller) & (here > larger) & (here >= LAPLACIAN))
            y, x, sigma = (at[0] + 0.5) * down, (at[1] + 0.5) * across, sigmas[i + 2] * math.sqrt(across * down)
            inside = (np.minimum(y, height - y) > 3 * sigma) & (np.minimum(x, width - x) > 3 * sigma)
            rows = np.stack([response[at], y - 0.5, x - 0.5, np.full_like(y, sigma)])  # (4, m)
            found.append(rows[:, inside].astype(np.float32))
    return np.concatenate(found, axis=1)


def _harris(level: Vectors, sigma: float) -> Vectors:
    """Return the scale-normalised Harris measure, det − 0.04 trace² of the second moments in a window of scale σ."""
    dx, dy = cv2.Sobel(level, cv2.CV_32F, 1, 0, ksize=1), cv2.Sobel(level, cv2.CV_32F, 0, 1, ksize=1)
    xx, yy, xy = (_blur(product, sigma) for product in (dx * dx, dy * dy, dx * dy))
    return np.asarray(sigma**4 * (xx * yy - xy * xy - 0.04 * (xx + yy) ** 2), np.float32)


def _blur(values: Vectors, sigma: float) -> Vectors:
    return np.asarray(cv2.GaussianBlur(values, (0, 0), sigma), np.float32)


def level_sizes(height: int, width: int) -> list[tuple[int, int]]:
    """Return the height and width of each level that is large enough for a patch; the first is the picture itself.

    >>> level_sizes(256, 384)
    [(256, 384), (181, 272), (128, 192), (91, 136), (64, 96)]
    """
    sizes = [(round(height / 2 ** (i / 2)), round(width / 2 ** (i / 2))) for i in range(LEVELS)]
    return [size for i, size in enumerate(sizes) if i == 0 or min(size) > PATCH]


def _ticks(length: int) -> NDArray[np.int64]:
    """Return the centres of patches along a side."""
    n = (length - PATCH - 1) // STEP + 1
    return np.arange(n) * STEP + (length - 1 - (n - 1) * STEP) // 2


def _frozen(values: NDArray[Any]) -> Vectors:
    """Return the values as read-only float32, because all pictures of the same size share them."""
    values = values.astype(np.float32)
    values.flags.writeable = False
    return values
