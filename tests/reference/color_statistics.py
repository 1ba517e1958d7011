"""Reference implementation of local colour statistics: one patch, one cell, one channel at a time."""

import numpy as np


def describe_patch(level, x, y):
    """Return the 96 dimensions of the patch of 24 × 24 pixels around the pixel (x, y)."""
    means, deviations = [], []
    for row in range(4):
        for column in range(4):
            top, left = y - 12 + 6 * row, x - 12 + 6 * column
            cell = level[top : top + 6, left : left + 6].astype(np.float64) / 255
            for channel in range(3):
                means.append(cell[:, :, channel].mean())
                deviations.append(cell[:, :, channel].std())
    return np.array(means + deviations)


def describe_picture(picture):
    """Return rows and positions of a picture that has the working size and is large enough for only one level."""
    rows, places = [], []
    height, width = picture.shape[:2]
    for y in centres(height):
        for x in centres(width):
            rows.append(describe_patch(picture, x, y))
            places.append(((x + 0.5) / width, (y + 0.5) / height))
    return np.array(rows), np.array(places)


def centres(length):
    """Return every seventh pixel with 12 pixels on either side, centred."""
    found = list(range(12, length - 12, 7))
    spare = (length - 1 - 12) - found[-1]
    return [place + spare // 2 for place in found]
