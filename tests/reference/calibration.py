"""Reference implementation of the measures of calibration: one query at a time."""

import numpy as np


def average_precision(scores: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> float:
    """Return the mean over right items of the precision there; wrong items at the same distance count as nearer."""
    found = sorted(scores[right])
    return float(np.mean([(i + 1) / (i + 1 + np.sum(scores[wrong] <= score)) for i, score in enumerate(found)]))


def margin(scores: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> float:
    """Return the mean distance from right items to the nearest wrong one, relative to the median wrong one."""
    here, nearest, median = scores[right].mean(), scores[wrong].min(), np.median(scores[wrong])
    return max(-1.0, (nearest - here) / (median - here)) if median > here else -1.0
