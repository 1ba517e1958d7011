"""Weighted colour histograms the slow way: pixel by pixel, neighbour by neighbour. No square roots."""

import numpy as np


def probability_histogram(picture: np.ndarray) -> np.ndarray:
    """(h, w, 3) uint8 to (216,): each pixel counts the inverse share of its bin in the 7 × 7 pixels around it."""
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
    """(h, w, 3) uint8 to (216,): each pixel counts the squared sum of its differences from its four neighbours."""
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
    """The bin of one colour: six equal steps a channel."""
    red, green, blue = (int(value / 256 * 6) for value in pixel)
    return 36 * red + 6 * green + blue
