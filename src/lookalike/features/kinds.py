"""The kinds of a picture: its likeliest classes, as a network recognizes them, in 48 bytes.

A row has the numbers of the 16 likeliest classes, two bytes each, likeliest first, and then the square roots of their
probabilities, one byte each. `index.kinds` searches these rows.
"""

import numpy as np
from numpy.typing import NDArray

from lookalike.types import Vectors

KINDS = 16
"""Classes per picture."""

KIND_BYTES = 3 * KINDS
"""Bytes per row."""


def encode_kinds(P: Vectors) -> NDArray[np.uint8]:
    """Encode the probabilities (n, classes) of pictures as rows (n, 48) uint8.

    >>> numbers, probabilities = decode_kinds(encode_kinds(np.eye(20, dtype=np.float32)))
    >>> int(numbers[3, 0]), probabilities[3, :2].tolist()
    (3, [1.0, 0.0])
    """
    best = np.argpartition(-P, KINDS, axis=1)[:, :KINDS]  # (n, 16)
    best = np.take_along_axis(best, np.argsort(-np.take_along_axis(P, best, axis=1), axis=1, kind="stable"), axis=1)
    roots = np.sqrt(np.take_along_axis(P, best, axis=1)).clip(0, 1)
    return np.hstack([best.astype("<u2").view(np.uint8), np.rint(255 * roots).astype(np.uint8)])


def decode_kinds(rows: NDArray[np.uint8]) -> tuple[NDArray[np.uint16], Vectors]:
    """The class numbers (n, 16) and the probabilities (n, 16) of rows (n, 48), likeliest first."""
    numbers = np.ascontiguousarray(rows[:, : 2 * KINDS]).view("<u2")
    return numbers, np.square(rows[:, 2 * KINDS :].astype(np.float32) / 255)
