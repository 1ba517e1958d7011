"""Score stored kinds of pictures against the classes that a word stands for; see `features.kinds`."""

from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookalike.features.kinds import KIND_BYTES, KINDS
from lookalike.index.threads import share
from lookalike.types import Vectors

LEAST_ROWS = 4_096
"""Minimum number of rows per thread."""


def score_kinds(rows: NDArray[np.uint8], weights: Vectors) -> Vectors:
    """How well each of n rows matches each of t terms, (n, t), from 0 to 1; larger is better.

    `rows` are (n, 48). `weights` (t, classes) are the matches of each class with each term, from 0 to 1. A score is
    the mean weight of the classes of the picture, weighted by the square roots of their probabilities.
    """
    if rows.ndim != 2 or rows.shape[1] != KIND_BYTES:
        raise ValueError(f"rows must be (n, {KIND_BYTES}). Got {rows.shape}.")
    tables = np.zeros((len(weights), 2**16), np.float32)  # a damaged row can have any class number
    tables[:, : weights.shape[1]] = weights
    scores = np.empty((len(weights), len(rows)), np.float32)
    for table, own in zip(tables, scores, strict=True):
        share(partial(_score, rows, table, own), len(rows), LEAST_ROWS)
    return scores.T


@njit(cache=True, nogil=True)
def _score(rows: Any, table: Any, scores: Any, start: Any, stop: Any) -> None:
    """Score the rows from `start` to `stop`."""
    for i in range(start, stop):
        total, norm = np.float32(0), np.float32(0)
        for j in range(KINDS):
            root = np.float32(rows[i, 2 * KINDS + j])
            total += root * table[np.int64(rows[i, 2 * j]) | (np.int64(rows[i, 2 * j + 1]) << 8)]
            norm += root
        scores[i] = total / max(norm, np.float32(1))
