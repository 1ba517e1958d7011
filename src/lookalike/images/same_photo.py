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

MIN_DETAIL = 6.0
"""Smallest `detail` of a picture that alignment distinguishes from others. Every picture of Corel-1k and ukbench has
7.0 or more. Generated masks, gradients and vignettes, all different, match up to 5.6 (docs/experiments/duplicates.md).
"""

CLIPPED = 250
"""Smallest value of a colour channel that may have been cut off at 255 when a picture was made brighter."""

MIN_UNCLIPPED = 0.05
"""Smallest share of pixels without a clipped channel for which brightness and colours are compared on these only."""

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


def detail(small: Small) -> float:
    """Return the amount of detail: the standard deviation of grey levels around their local mean.

    A plain picture, a nearly black mask and a smooth gradient have almost none, whatever their brightness.

    >>> detail(np.full((64, 96, 3), 200, np.uint8))
    0.0
    """
    grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float32)
    around = grey - cv2.GaussianBlur(grey, (0, 0), SIDE / 12)
    top, left = (min(SIDE // 12, length // 4) for length in grey.shape)  # near the border, a gradient looks like detail
    return float(around[top:-top, left:-left].std())


def difference(one: Small, other: Small) -> float:
    """Return the difference between two pictures after the best alignment, from 0 (identical) to 1."""
    if min(detail(one), detail(other)) < MIN_DETAIL:
        return UNRELATED
    grey, grey_other = (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (one, other))
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
    colour is not. A clipped pixel was at least as bright as it is now, so it only counts if it is brighter than the
    pixel of the other picture predicts.
    """
    ours, theirs = (
        cv2.GaussianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2YCrCb), (0, 0), 1).astype(np.float32)
        for image in (one, aligned)
    )
    clipped, clipped_other = _clipped(one), _clipped(aligned)
    compared = covered & ~clipped & ~clipped_other
    if np.count_nonzero(compared) < MIN_UNCLIPPED * np.count_nonzero(covered):
        compared = covered
    light, other = ours[..., 0], theirs[..., 0]
    (_, both), (_, spread_other) = np.cov(light[compared], other[compared])
    gain = both / (spread_other + 1e-6)
    excess = light - light[compared].mean() - gain * (other - other[compared].mean())
    if compared is not covered:
        excess[clipped & (excess < 0)] = 0.0
        excess[clipped_other & (excess > 0)] = 0.0
    squared = excess**2
    squared[~covered] = 0.0
    # Sums over blocks of BLOCK × BLOCK pixels. Blocks that are covered by 60 % or less are ignored.
    cells = tuple(slice(0, length - length % BLOCK) for length in light.shape)
    shape = light[cells].shape
    grid = shape[0] // BLOCK, BLOCK, shape[1] // BLOCK, BLOCK
    counts = covered[cells].reshape(grid).sum(axis=(1, 3))
    sums = squared[cells].reshape(grid).sum(axis=(1, 3))
    full = counts > 0.6 * BLOCK**2
    worst = float(np.sqrt((sums[full] / counts[full]).max(initial=0.0)))
    deviation = float(light[covered].std())
    # Colour is proportional to light: it has the same gain, around the grey value 128.
    colour = np.abs(ours[..., 1:] - 128 - gain * (theirs[..., 1:] - 128))[compared].mean()
    return float(np.sqrt(squared[covered].mean())) / (deviation + 2), 0.4 * worst / (deviation + 8), colour / 100


def _clipped(image: Small) -> NDArray[np.bool_]:
    """Return which pixels (h, w) have a clipped channel, or are next to one that has."""
    return np.asarray(cv2.dilate(image.max(axis=2), np.ones((3, 3), np.uint8))) >= CLIPPED


def _rotation(matrix: NDArray[Any]) -> float:
    """Return how much an affine map rotates or shears."""
    return float(abs(matrix[0, 1]) + abs(matrix[1, 0]))
