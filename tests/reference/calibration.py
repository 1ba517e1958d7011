"""Calibration's measures the slow way: one query at a time, counted by hand."""

import numpy as np


def average_precision(scores: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> float:
    """At each right item: right ones so far, by right ones so far and wrong ones that are as near or nearer."""
    found = sorted(scores[right])
    return float(np.mean([(i + 1) / (i + 1 + np.sum(scores[wrong] <= score)) for i, score in enumerate(found)]))


def margin(scores: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> float:
    """From the right items to the nearest wrong one, in ways from there to the median wrong one."""
    here, nearest, median = scores[right].mean(), scores[wrong].min(), np.median(scores[wrong])
    return max(-1.0, (nearest - here) / (median - here)) if median > here else -1.0
