"""The Fourier histogram the slow way: the transform by its definition, wave by wave. No square roots."""

import cmath
import math

import numpy as np


def fourier_histogram(picture: np.ndarray) -> np.ndarray:
    """(h, w, 3) uint8 to (6 rings, 8 wedges)."""
    height, width = picture.shape[:2]
    luminance = np.rint(picture @ np.array([0.299, 0.587, 0.114]))
    values = (luminance - luminance.mean()) * np.outer(bell(height), bell(width))
    spectrum = waves(height) @ values @ waves(width).T  # by the definition, all of it
    histogram = np.zeros((6, 8))
    for row in range(height):
        for column in range(width):
            y = row / height if row < height / 2 else row / height - 1
            x = column / width if column < width / 2 else column / width - 1
            if (x, y) == (0, 0) or x == -0.5 or y == -0.5:
                continue
            length = 1 / math.hypot(x, y)  # of the wave, in pixels
            ring = sum(length <= limit for limit in (64, 32, 16, 8, 4))
            wedge = round(math.degrees(math.atan2(y, x)) / 22.5) % 8
            histogram[ring, wedge] += abs(spectrum[row, column]) ** 2
    return histogram / histogram.sum()


def bell(length: int) -> list[float]:
    return [math.sin(math.pi * (place + 1) / (length + 1)) ** 2 for place in range(length)]


def waves(length: int) -> np.ndarray:
    return np.array([[cmath.exp(-2j * math.pi * k * place / length) for place in range(length)] for k in range(length)])
