"""Detect whether two pictures are the same photo: re-encoded, resized, slightly cropped or changed in brightness.

`shrink` returns a small copy of a picture, and `difference` compares two such copies after aligning them. The alignment
is found by correlation at several sizes and refined by the enhanced correlation coefficient (Evangelidis and Psarakis,
"Parametric image alignment", PAMI 2008). After alignment, two copies of one photo differ only by noise, without
rotation or shear. Two photos of the same object differ more, even if they are very similar.
"""

import math
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.types import Pixels

SIDE = 96
"""Length of the longer side of a small copy, in pixels."""

SAME = 0.1
"""Largest difference between two copies of the same photo. Chosen on Corel-1k and ukbench."""

UNRELATED = 1.0
"""Difference between pictures that have nothing in common."""

SIZES = np.arange(1.0, 0.62, -0.03)
"""Crop sizes that are tried, as fractions of the largest that fits."""

MIN_CORRELATION = 0.65
"""Smallest correlation at half size. Below it, pictures have nothing in common and are not aligned."""

BLOCK = 12
"""Side of a block in pixels. Each block must match, not only the average over all blocks."""

FLAT_DEVIATION = 3.0
"""Smallest standard deviation of grey levels. Flatter pictures cannot be aligned; they are compared directly."""

Small = Pixels
"""A small copy, (h, w, 3) uint8 RGB, h or w being SIDE."""


class _Place(NamedTuple):
    """Position of one picture inside another, in pixels of the small copies."""

    correlation: float
    left: int
    top: int
    width: int
    height: int


def shrink(image: Pixels) -> Small:
    """Return a small copy of a picture, whose longer side has SIDE pixels.

    >>> shrink(np.zeros((400, 600, 3), np.uint8)).shape
    (64, 96, 3)
    """
    height, width = image.shape[:2]
    share = SIDE / max(height, width)
    size = max(8, round(width * share)), max(8, round(height * share))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def difference(one: Small, other: Small) -> float:
    """Return the difference between two pictures after the best alignment, from 0 (identical) to 1."""
    grey, grey_other = (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (one, other))
    if min(grey.std(), grey_other.std()) < FLAT_DEVIATION:
        return _flat_difference(one, other)
    if (place := _place(grey, grey_other)) < (swapped := _place(grey_other, grey)):
        one, other, grey, grey_other, place = other, one, grey_other, grey, swapped
    if place.correlation < MIN_CORRELATION:
        return UNRELATED
    matrix = _align(grey, grey_other, place)
    size = grey.shape[::-1]
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    aligned = np.asarray(cv2.warpAffine(other, matrix, size, flags=flags), np.uint8)
    whole = np.ones(grey_other.shape, np.uint8)
    seen = cv2.warpAffine(whole, matrix, size, flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP)
    covered = (
        np.asarray(cv2.erode(seen, np.ones((5, 5), np.uint8), borderValue=0)) > 0
    )  # pixels at the border are interpolated with the outside
    share = np.count_nonzero(covered) / grey.size
    if share < 1 / 4:
        return UNRELATED
    residual = max(_residuals(one, aligned, covered)) / math.sqrt(share)  # a smaller overlap must match better
    return float(min(UNRELATED, max(residual, 4 * _rotation(matrix))))


def _place(whole: NDArray[Any], part: NDArray[Any]) -> _Place:
    """Return the position of `part` in `whole`, assuming that it was cropped from it."""
    whole, part = (cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA) for image in (whole, part))
    (height, width), (h, w) = whole.shape, part.shape
    largest, best = min(width / w, height / h), _Place(-1.0, 0, 0, width, height)
    for share in SIZES:
        size = min(width, max(1, round(w * largest * share))), min(height, max(1, round(h * largest * share)))
        if size[0] * size[1] < 0.3 * width * height:
            break
        found = cv2.matchTemplate(whole, cv2.resize(part, size, interpolation=cv2.INTER_AREA), cv2.TM_CCOEFF_NORMED)
        _, correlation, _, (x, y) = cv2.minMaxLoc(found)
        if correlation > best.correlation:
            best = _Place(correlation, 2 * x, 2 * y, 2 * size[0], 2 * size[1])
    return best


def _align(whole: NDArray[Any], part: NDArray[Any], place: _Place) -> NDArray[Any]:
    """Return the affine map (2, 3) from pixels of the whole to pixels of the part, refined if possible."""
    across, down = part.shape[1] / place.width, part.shape[0] / place.height
    matrix = np.array([[across, 0, -place.left * across], [0, down, -place.top * down]], np.float32)
    try:
        until = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 30, 1e-4)
        everywhere = np.full(part.shape, 255, np.uint8)
        aligned = cv2.findTransformECC(whole, part, matrix.copy(), cv2.MOTION_AFFINE, until, everywhere, 3)[1]
    except cv2.error:  # it does not converge if the pictures hardly match
        return matrix
    return np.asarray(aligned)


def _residuals(one: Small, aligned: Small, covered: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Return the differences between two aligned pictures in brightness, in the worst block, and in colour.

    They are relative to the contrast of the picture. A global change of brightness or contrast is ignored, a change of
    colour is not.
    """
    ours, theirs = (
        cv2.GaussianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2YCrCb), (0, 0), 1).astype(np.float32)
        for image in (one, aligned)
    )
    light, other = ours[..., 0], theirs[..., 0]
    (spread, both), (_, spread_other) = np.cov(light[covered], other[covered])
    gain = both / (spread_other + 1e-6)
    squared = (light - light[covered].mean() - gain * (other - other[covered].mean())) ** 2
    squared[~covered] = 0.0
    # Sums over blocks of BLOCK × BLOCK pixels. Blocks that are covered by 60 % or less are ignored.
    cells = tuple(slice(0, length - length % BLOCK) for length in light.shape)
    shape = light[cells].shape
    grid = shape[0] // BLOCK, BLOCK, shape[1] // BLOCK, BLOCK
    counts = covered[cells].reshape(grid).sum(axis=(1, 3))
    sums = squared[cells].reshape(grid).sum(axis=(1, 3))
    full = counts > 0.6 * BLOCK**2
    worst = float(np.sqrt((sums[full] / counts[full]).max(initial=0.0)))
    deviation = float(np.sqrt(spread))
    colour = np.abs(ours[..., 1:] - theirs[..., 1:])[covered].mean()
    return float(np.sqrt(squared[covered].mean())) / (deviation + 2), 0.4 * worst / (deviation + 8), colour / 100


def _rotation(matrix: NDArray[Any]) -> float:
    """Return how much an affine map rotates or shears."""
    return float(abs(matrix[0, 1]) + abs(matrix[1, 0]))


def _flat_difference(one: Small, other: Small) -> float:
    """Return the difference between two pictures without contrast. Copies differ by at most 3 grey levels (0.1)."""
    again = cv2.resize(other, one.shape[1::-1], interpolation=cv2.INTER_AREA)
    shape = abs(np.log(one.shape[0] / one.shape[1] * other.shape[1] / other.shape[0]))
    return float(min(UNRELATED, np.abs(one.astype(np.int16) - again).mean() / 30 + (shape > 0.1)))
