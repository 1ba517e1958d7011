"""Lower bounds for the time of feature extraction: functions that do only the unavoidable part of the work.

The reading processes import them from here. Only their time matters; the returned values have no meaning.
"""

from functools import lru_cache

import cv2

from lookalike.features.points import lay_grid, scale


def decode(image):
    """Only decode the picture."""
    return len(image)


class Sift:
    """Decode the picture and compute OpenCV's SIFT at the points of the dense grid; discard the descriptors."""

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
