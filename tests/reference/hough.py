"""The Hough histogram the slow way: one pixel at a time, its line spelt out. No square roots."""

import math

import numpy as np

SOBEL = ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1))


def hough_histogram(picture: np.ndarray) -> np.ndarray:
    """(h, w, 3) uint8 to (8 directions, 8 distances)."""
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
