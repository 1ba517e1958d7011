"""Score stored kinds of pictures against the classes that a word stands for; see `features.kinds`."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from lookalike.features.kinds import KIND_BYTES, KINDS
from lookalike.index.threads import share
from lookalike.types import Vectors

LEAST_ROWS = 4_096
"""Minimum number of rows per thread, and the number of rows scored at a time: they stay in the cache."""


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
    share(partial(_score, rows, tables, scores), len(rows), LEAST_ROWS)
    return scores.T


def _score(rows: NDArray[np.uint8], tables: Vectors, scores: Vectors, start: int, stop: int) -> None:
    """Score the rows from `start` to `stop`. The arrays are used again for all parts, which halves the time."""
    numbers, ones = np.empty((LEAST_ROWS, KINDS), np.intp), np.ones(KINDS, np.float32)
    weights, roots = np.empty((2, LEAST_ROWS, KINDS), np.float32)
    for first in range(start, stop, LEAST_ROWS):
        part = rows[first : min(first + LEAST_ROWS, stop)]
        m = len(part)
        numbers[:m] = part.view("<u2")[:, :KINDS]
        roots[:m] = part[:, 2 * KINDS :]
        sums = np.maximum(roots[:m] @ ones, 1)
        for table, own in zip(tables, scores, strict=True):
            np.take(table, numbers[:m], out=weights[:m], mode="clip")  # other modes need a copy
            weights[:m] *= roots[:m]
            np.divide(weights[:m] @ ones, sums, out=own[first : first + m])
