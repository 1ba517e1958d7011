"""Reference implementation of the histogram features: pixel by pixel, without the final square root."""

import cmath
import colorsys
import math

import numpy as np

SOBEL = ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1))


def hsv_histogram(picture: np.ndarray) -> np.ndarray:
    """Map (h, w, 3) uint8 to (10 hues, 4 saturations, 3 values); each axis is rounded to a byte first."""
    histogram = np.zeros((10, 4, 3))
    for pixel in picture.reshape(-1, 3).tolist():
        hue, saturation, value = colorsys.rgb_to_hsv(*(channel / 255 for channel in pixel))
        turn = round(256 * hue) / 256
        histogram[int(10 * turn + 0.5) % 10, round(255 * saturation) // 64, int(round(255 * value) / 256 * 3)] += 1
    return histogram / histogram.sum()


def probability_histogram(picture: np.ndarray) -> np.ndarray:
    """Map (h, w, 3) uint8 to (216,): a pixel's weight is 1 / share of its bin in the 7 × 7 pixels around it."""
    height, width = picture.shape[:2]
    bins = [[bin_of(pixel) for pixel in line] for line in picture.tolist()]
    histogram = np.zeros(216)
    for y in range(height):
        for x in range(width):
            around = [
                bins[v][u]
                for v in range(max(0, y - 3), min(height, y + 4))
                for u in range(max(0, x - 3), min(width, x + 4))
            ]
            histogram[bins[y][x]] += len(around) / around.count(bins[y][x])
    return histogram / histogram.sum()


def laplacian_histogram(picture: np.ndarray) -> np.ndarray:
    """Map (h, w, 3) uint8 to (216,): a pixel's weight is the squared sum of differences from its four neighbours."""
    height, width = picture.shape[:2]
    luminance = np.rint(picture @ np.array([0.299, 0.587, 0.114])).tolist()
    histogram = np.zeros(216)
    for y in range(height):
        for x in range(width):
            neighbours = [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
            inside = [(v, u) for v, u in neighbours if 0 <= v < height and 0 <= u < width]
            laplacian = sum(luminance[v][u] - luminance[y][x] for v, u in inside)
            histogram[bin_of(picture[y, x].tolist())] += laplacian**2
    return histogram / histogram.sum()


def bin_of(pixel: list[int]) -> int:
    """Return the bin of a colour: six equal steps per channel."""
    red, green, blue = (int(value / 256 * 6) for value in pixel)
    return 36 * red + 6 * green + blue


def hough_histogram(picture: np.ndarray) -> np.ndarray:
    """Map (h, w, 3) uint8 to (8 directions, 8 distances)."""
    height, width = picture.shape[:2]
    luminance = np.pad(np.rint(picture @ np.array([0.299, 0.587, 0.114])), 1, mode="edge")
    histogram = np.zeros((8, 8))
    for y in range(height):
        for x in range(width):
            around = luminance[y : y + 3, x : x + 3].tolist()
            dx = sum(SOBEL[v][u] * around[v][u] for v in range(3) for u in range(3))
            dy = sum(SOBEL[u][v] * around[v][u] for v in range(3) for u in range(3))
            direction = math.atan2(dy, dx)
            line = (x - (width - 1) / 2) * math.cos(direction) + (y - (height - 1) / 2) * math.sin(direction)
            share = abs(line) / math.hypot((width - 1) / 2, (height - 1) / 2)
            histogram[round(math.degrees(direction) / 22.5) % 8, min(7, int(share * 8))] += math.hypot(dx, dy)
    return histogram / histogram.sum()


def fourier_histogram(picture: np.ndarray) -> np.ndarray:
    """Map (h, w, 3) uint8 to (6 rings, 8 wedges)."""
    height, width = picture.shape[:2]
    luminance = np.rint(picture @ np.array([0.299, 0.587, 0.114]))
    values = (luminance - luminance.mean()) * np.outer(_hann(height), _hann(width))
    spectrum = _waves(height) @ values @ _waves(width).T  # the full Fourier transform, by definition
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


def _hann(length: int) -> list[float]:
    return [math.sin(math.pi * (place + 1) / (length + 1)) ** 2 for place in range(length)]


def _waves(length: int) -> np.ndarray:
    return np.array([[cmath.exp(-2j * math.pi * k * place / length) for place in range(length)] for k in range(length)])
