"""Detect edited copies of a photo: mirrored, rotated by a few degrees, or with text, a watermark or a logo on it.

One of the two pictures is tried unchanged, mirrored, and rotated in both directions. Their thumbnails are compared
first, as for the same photo (`same_photo`). After alignment, most blocks of an edited copy match its original as
closely as those of a saved copy do; text or a logo covers the others. Two photos of one scene differ a little
everywhere.
"""

import math
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.images.same_photo import BLOCK, MIN_COVERED, UNRELATED, Small, align, light_and_colours, rotation
from lookalike.images.thumbnails import Place, find_places
from lookalike.types import Vectors

EDITED = 0.08
"""Largest difference between an edited copy and its original. Chosen on Corel-1k and ukbench."""

ANGLE = 6.0
"""Angle in degrees by which the other picture is rotated; the alignment finds angles up to 5 degrees around it."""

MIN_MATCHING = 0.75
"""Smallest share of blocks that must match; text or a logo may cover the others."""

MAX_ROTATION = 0.2
"""Largest `rotation` of the alignment: about 6 degrees, in addition to ANGLE."""


class Edit(NamedTuple):
    """How the second picture of a pair was edited, and where one is inside the other."""

    mirrored: bool
    angle: float
    place: Place


VARIANTS = ((False, 0.0), (True, 0.0), (False, ANGLE), (False, -ANGLE))
"""Whether the other picture is mirrored, and its angle, for each edit that is tried."""


def find_edits(
    ones: NDArray[np.uint8], others: NDArray[np.uint8], shapes: Vectors, other_shapes: Vectors
) -> list[list[Edit]]:
    """Return the possible edits of each pair of thumbnails, for the arguments of `thumbnails.find_places`."""
    found: list[list[Edit]] = [[] for _ in ones]
    for mirrored, angle in VARIANTS:
        if angle:
            edited = np.stack([_turn(image, angle, shape) for image, shape in zip(others, other_shapes, strict=True)])
        else:
            edited = others[:, :, ::-1] if mirrored else others
        places = find_places(ones, np.ascontiguousarray(edited), shapes, other_shapes)
        for edits, place in zip(found, places, strict=True):
            if place is not None:
                edits.append(Edit(mirrored, angle, place))
    return found


def edited_difference(one: Small, other: Small, edit: Edit) -> float:
    """Return the difference between two pictures after an edit and alignment, without the blocks that differ most."""
    one, other = whole_and_part(one, other, edit)
    aligned, covered, matrix = align(one, other, edit.place)
    if np.count_nonzero(covered) < MIN_COVERED * covered.size or rotation(matrix) > MAX_ROTATION:
        return UNRELATED
    return _residual(one, aligned, covered)


def whole_and_part(one: Small, other: Small, edit: Edit) -> tuple[Small, Small]:
    """Return the two pictures with the edit applied to the other one, first the one that contains the other."""
    if edit.mirrored:
        other = np.ascontiguousarray(other[:, ::-1])
    if edit.angle:
        other = _turn(other, edit.angle, 1.0)
    return (other, one) if edit.place.swapped else (one, other)


def _residual(one: Small, aligned: Small, covered: NDArray[np.bool_]) -> float:
    """Return the difference between two aligned pictures in the MIN_MATCHING of their blocks that match best."""
    ours, theirs = light_and_colours(one), light_and_colours(aligned)
    blocks = [_blocks(image) for image in (*np.moveaxis(ours, 2, 0), *np.moveaxis(theirs, 2, 0))]  # 6 × (b, BLOCK²)
    full = _blocks(covered).mean(axis=1) > 0.9
    light, red, blue, other, other_red, other_blue = (part[full] for part in blocks)
    if full.sum() < MIN_COVERED * len(full):
        return UNRELATED
    matching = np.ones(len(light), bool)
    for _ in range(3):  # the change of light is estimated from the blocks that match
        gain = np.cov(light[matching].ravel(), other[matching].ravel())[0, 1] / (other[matching].var() + 1e-6)
        errors = ((light - light[matching].mean() - gain * (other - other[matching].mean())) ** 2).mean(axis=1)
        errors += 4 * ((red - other_red) ** 2 + (blue - other_blue) ** 2).mean(axis=1)
        matching = errors <= np.quantile(errors, MIN_MATCHING)
    spread = math.sqrt(light[matching].var())
    return float(np.sqrt(errors[matching].mean()) / (spread + 2))


def _blocks(image: NDArray[Any]) -> NDArray[Any]:
    """Cut an image (h, w) into blocks (b, BLOCK²)."""
    height, width = (length - length % BLOCK for length in image.shape)
    cut = image[:height, :width].reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK)
    return cut.swapaxes(1, 2).reshape(-1, BLOCK * BLOCK)


def _turn(image: NDArray[np.uint8], angle: float, shape: float) -> NDArray[np.uint8]:
    """Rotate a picture of a width / height about its centre; the thumbnail of a picture is always square."""
    height, width = image.shape[:2]
    stretch = shape * height / width  # of a thumbnail; 1 if the pixels are square
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    x, y = (width - 1) / 2, (height - 1) / 2
    across, down = sin / stretch, sin * stretch
    matrix = np.array([[cos, across, x - cos * x - across * y], [-down, cos, y + down * x - cos * y]])
    turned = cv2.warpAffine(image, matrix, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(turned, np.uint8)
