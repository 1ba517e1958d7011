"""Detect whether two pictures are the same photo: re-encoded, resized, slightly cropped or changed in brightness.

`shrink` returns a small copy of a picture, and `difference` compares two such copies after aligning them. The alignment
is found by the correlation of thumbnails (`thumbnails`) and refined by the enhanced correlation coefficient
(Evangelidis and Psarakis, "Parametric image alignment", PAMI 2008). After alignment, two copies of one photo differ
only by noise, without rotation or shear. Two photos of the same object differ more, even if they are very similar.
"""

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.images.thumbnails import Place, find_places, thumbnail
from lookalike.types import Pixels

SIDE = 96
"""Length of the longer side of a small copy, in pixels."""

SAME = 0.1
"""Largest difference between two copies of the same photo. Chosen on Corel-1k and ukbench."""

UNRELATED = 1.0
"""Difference between pictures that have nothing in common."""

BLOCK = 12
"""Side of a block in pixels. Each block must match, not only the average over all blocks."""

MIN_COVERED = 1 / 4
"""Smallest share of the larger picture that the smaller one covers."""

MIN_DETAIL = 6.0
"""Smallest `detail` of a picture that alignment distinguishes from others. Every picture of Corel-1k and ukbench has
7.0 or more. Generated masks, gradients and vignettes, all different, match up to 5.6 (docs/experiments/duplicates.md).
"""

CLIPPED = 250
"""Smallest value of a colour channel that brightening may have clipped at 255."""

MIN_UNCLIPPED = 0.05
"""Smallest share of pixels without a clipped channel for which brightness and colours are compared on these only."""

Small = Pixels
"""A small copy, (h, w, 3) uint8 RGB, h or w being SIDE."""


def shrink(image: Pixels) -> Small:
    """Return a small copy of a picture, whose longer side has SIDE pixels.

    >>> shrink(np.zeros((400, 600, 3), np.uint8)).shape
    (64, 96, 3)
    """
    height, width = image.shape[:2]
    share = SIDE / max(height, width)
    size = max(8, round(width * share)), max(8, round(height * share))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def aspect(image: Pixels) -> float:
    """Return the width of a picture divided by its height."""
    return float(image.shape[1] / image.shape[0])


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
    thumbnails, shapes = zip(
        *((thumbnail(image)[None], np.array([aspect(image)])) for image in (one, other)), strict=True
    )
    (place,) = find_places(*thumbnails, *shapes)
    return UNRELATED if place is None else difference_at(one, other, place)


def difference_at(one: Small, other: Small, place: Place) -> float:
    """Return the difference between two pictures with detail, whose alignment starts at a place."""
    if place.swapped:
        one, other = other, one
    aligned, covered, matrix = align(one, other, place)
    share = np.count_nonzero(covered) / covered.size
    if share < MIN_COVERED:
        return UNRELATED
    residual = _residual(one, aligned, covered) / math.sqrt(share)  # a smaller overlap must match better
    return float(min(UNRELATED, max(residual, 4 * rotation(matrix))))


def align(whole: Small, part: Small, place: Place) -> tuple[Small, NDArray[np.bool_], NDArray[Any]]:
    """Return `part` aligned with `whole`, the pixels of `whole` that it covers, and the affine map (2, 3)."""
    grey, grey_part = (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (whole, part))
    matrix = _find_map(grey, grey_part, place)
    size = grey.shape[::-1]
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    aligned = np.asarray(cv2.warpAffine(part, matrix, size, flags=flags), np.uint8)
    inside = np.ones(grey_part.shape, np.uint8)
    seen = cv2.warpAffine(inside, matrix, size, flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP)
    covered = (
        np.asarray(cv2.erode(seen, np.ones((5, 5), np.uint8), borderValue=0)) > 0
    )  # pixels at the border are interpolated with the outside
    return aligned, covered, matrix


def _find_map(whole: NDArray[Any], part: NDArray[Any], place: Place) -> NDArray[Any]:
    """Return the affine map (2, 3) from pixels of the whole to pixels of the part, refined if possible."""
    (height, width), (h, w) = whole.shape, part.shape
    across, down = w / (place.width * width), h / (place.height * height)
    matrix = np.array([[across, 0, -place.left * width * across], [0, down, -place.top * height * down]], np.float32)
    try:
        until = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 30, 1e-4)
        everywhere = np.full(part.shape, 255, np.uint8)
        aligned = cv2.findTransformECC(whole, part, matrix.copy(), cv2.MOTION_AFFINE, until, everywhere, 3)[1]
    except cv2.error:  # it does not converge if the pictures hardly match
        return matrix
    return np.asarray(aligned)


def _residual(one: Small, aligned: Small, covered: NDArray[np.bool_]) -> float:
    """Return the difference between two aligned pictures, relative to their contrast.

    A global change of light is ignored, a change of colour is not. There are two ways to change light, and the better
    explanation counts: contrast changed but colours did not, or light and colours were multiplied and bright pixels
    clipped at 255. A clipped pixel was at least as bright as it is now, so it only counts if it is brighter than the
    other picture predicts.
    """
    ours, theirs = light_and_colours(one), light_and_colours(aligned)
    residual = max(_residuals(ours, theirs, covered, covered, colour_changes=False))
    clipped, clipped_other = _clipped(one), _clipped(aligned)
    unclipped = covered & ~clipped & ~clipped_other
    if np.count_nonzero(unclipped) < MIN_UNCLIPPED * np.count_nonzero(covered):
        return residual
    ignored = clipped, clipped_other
    return min(residual, max(_residuals(ours, theirs, covered, unclipped, colour_changes=True, ignored=ignored)))


def light_and_colours(image: Small) -> NDArray[np.float32]:
    """Return the light and the two colour channels of a picture (h, w, 3), slightly blurred."""
    return cv2.GaussianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2YCrCb), (0, 0), 1).astype(np.float32)


def _residuals(
    ours: NDArray[np.float32],
    theirs: NDArray[np.float32],
    covered: NDArray[np.bool_],
    fitted: NDArray[np.bool_],
    *,
    colour_changes: bool,
    ignored: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
) -> tuple[float, float, float]:
    """Return the differences between two pictures (h, w, 3) in brightness, in the worst block, and in colour.

    The pictures are light and two colour channels. `covered` are the pixels (h, w) to compare. The change of light is
    estimated from the pixels `fitted`, whose colour is compared; with `colour_changes`, colour is multiplied like
    light. `ignored` are the clipped pixels of both pictures, which count only if they are brighter than predicted.
    """
    light, other = ours[..., 0], theirs[..., 0]
    (_, both), (_, spread_other) = np.cov(light[fitted], other[fitted])
    gain = both / (spread_other + 1e-6)
    excess = light - light[fitted].mean() - gain * (other - other[fitted].mean())
    if ignored is not None:
        excess[ignored[0] & (excess < 0)] = 0.0
        excess[ignored[1] & (excess > 0)] = 0.0
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
    colours, other_colours = (image[..., 1:][fitted] - 128 for image in (ours, theirs))  # (m, 2), 0 is grey
    colour = np.abs(colours - (gain if colour_changes else 1.0) * other_colours).mean()
    return float(np.sqrt(squared[covered].mean())) / (deviation + 2), 0.4 * worst / (deviation + 8), colour / 100


def _clipped(image: Small) -> NDArray[np.bool_]:
    """Return which pixels (h, w) have a clipped channel, or are next to one that has."""
    return np.asarray(cv2.dilate(image.max(axis=2), np.ones((3, 3), np.uint8))) >= CLIPPED


def rotation(matrix: NDArray[Any]) -> float:
    """Return how much an affine map rotates or shears."""
    return float(abs(matrix[0, 1]) + abs(matrix[1, 0]))
