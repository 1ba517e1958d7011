"""The HSV histogram the slow way: the standard library's conversion, pixel by pixel. No square roots."""

import colorsys

import numpy as np


def hsv_histogram(picture: np.ndarray) -> np.ndarray:
    """(h, w, 3) uint8 to (10 hues, 4 saturations, 3 values), each axis rounded to a byte first."""
    histogram = np.zeros((10, 4, 3))
    for pixel in picture.reshape(-1, 3).tolist():
        hue, saturation, value = colorsys.rgb_to_hsv(*(channel / 255 for channel in pixel))
        turn = round(256 * hue) / 256
        histogram[int(10 * turn + 0.5) % 10, round(255 * saturation) // 64, int(round(255 * value) / 256 * 3)] += 1
    return histogram / histogram.sum()
