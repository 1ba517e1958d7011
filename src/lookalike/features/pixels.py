"""Check, crop and resize pictures as arrays. No function needs more memory than the picture itself."""

import cv2
import numpy as np

from lookalike.errors import InputError
from lookalike.types import Pixels


def check_pixels(image: Pixels) -> Pixels:
    """Return the picture. Raises InputError if it is not a (height, width, 3) uint8 array with at least one pixel."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise InputError(f"A picture must be a uint8 array of shape (height, width, 3). Got {_kind(image)}.")
    if image.size == 0:
        raise InputError(f"A picture must have at least one pixel. Got shape {image.shape}.")
    return image


def crop_square(image: Pixels, size: int, share: float = 1.0) -> Pixels:
    """Crop the central square, with a side of `share` times the shorter side, and resize it to (size, size, 3)."""
    height, width = check_pixels(image).shape[:2]
    edge = max(1, round(share * min(height, width)))
    top, left = (height - edge) // 2, (width - edge) // 2
    return resize(image[top : top + edge, left : left + edge], size, size)


def resize(image: Pixels, height: int, width: int) -> Pixels:
    """Resize a picture to (height, width, 3): by area averages to shrink it, by interpolation to enlarge it."""
    if image.shape[:2] == (height, width):
        return image
    shrinks = image.shape[0] > height or image.shape[1] > width
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=how), dtype=np.uint8)


def _kind(image: object) -> str:
    if isinstance(image, np.ndarray):
        return f"shape {image.shape} of {image.dtype}"
    return type(image).__name__
