"""What extraction cannot do without, as functions for the reading processes (which import them from here).

In: pixels. Out: nothing of worth: the time is what counts.
"""

from functools import lru_cache

import cv2

from lookalike.features.points import lay_grid, scale


def decode(image):
    """Reading alone."""
    return len(image)


class Sift:
    """Reading, and OpenCV's SIFT of the grey picture at the dense grid's points: nothing is kept or sent."""

    def __init__(self, channels=1):
        self.channels = channels

    def __call__(self, image):
        gray = cv2.cvtColor(scale(image), cv2.COLOR_RGB2GRAY)
        sift = cv2.SIFT.create(nOctaveLayers=1, sigma=1.0)
        for (width, height), keypoints in _keypoints(*gray.shape):
            level = cv2.resize(gray, (width, height), interpolation=cv2.INTER_AREA)
            for _ in range(self.channels):
                sift.compute(level, keypoints)
        return 0


@lru_cache
def _keypoints(height, width):
    made = []
    for points in lay_grid(height, width):
        keypoints = [cv2.KeyPoint(x, y, 4.0, 0.0, 0.0, 0) for x, y in points.centres.tolist()]
        made.append(((points.width, points.height), keypoints))
    return made
