"""Labels as numbers, and a part of each class held out to validate on.

In: labels of any kind, one a row. Out: the classes, sorted, and each row's number among them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from lookalike.arrays import as_numpy
from lookalike.errors import InputError
from lookalike.types import Array

MOST = 20_000
"""More rows than this are not held out: they would cost time at each validation and hardly sharpen it."""


def encode_labels(y: Array | None, n: int, known: NDArray[Any] | None = None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes (C,), sorted, C ≥ 2, and the number of each of n rows' class, (n,).

    Where classes are `known`, sorted, the numbers are theirs, and any other label is refused.

    >>> encode_labels(["owl", "cat", "owl"], 3)
    (array(['cat', 'owl'], dtype='<U3'), array([1, 0, 1]))
    """
    if y is None:
        raise InputError("This metric requires y to be passed, but the target y is None: it learns from labels.")
    labels = column_or_1d(as_numpy(y), warn=True)
    if labels.shape != (n,):
        raise InputError(f"y must hold one label for each of {n} rows. Got shape {labels.shape}.")
    missing = _missing(labels)
    if missing.any():
        raise InputError(
            f"y must hold a label for each row: leave out those without. Got none for {missing.sum()} of {n} rows."
        )
    if labels.dtype.kind == "f" and (labels % 1).any():
        raise InputError(
            f"y must hold labels of classes. Got continuous numbers, such as {labels[labels % 1 != 0][0]:g}."
        )
    if labels.dtype.kind == "O":
        labels = labels.astype(str)  # what is saved is never a pickle
    if known is not None:
        codes = np.minimum(np.searchsorted(known, labels), len(known) - 1)
        strange = np.unique(labels[known[codes] != labels])
        if len(strange):
            raise InputError(
                f"Labels to validate on must be among those to train on. Got {strange[:3].tolist()} besides."
            )
        return known, codes.astype(np.int64)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y must name at least 2 classes to tell apart. Got 1 class, {classes[0]!r}.")
    return classes, codes.astype(np.int64)


def encode_many(y: Array | None, n: int) -> NDArray[np.int64]:
    """Labels as numbers (n,), or as ones and zeros (n, C) where y has several columns; not all items alike.

    >>> encode_many(["owl", "cat", "owl"], 3).tolist(), encode_many([[1, 1], [0, 1]], 2).tolist()
    ([1, 0, 1], [[1, 1], [0, 1]])
    """
    several = None if y is None else as_numpy(y)
    if several is None or several.ndim != 2 or several.shape[1] == 1:
        return encode_labels(y, n)[1]
    if len(several) != n:
        raise InputError(f"y must hold the labels of each of {n} items. Got {len(several)} rows.")
    if several.dtype.kind not in "biuf" or not np.isin(several, (0, 1)).all():
        raise InputError("y must hold ones and zeros, one column a label, where it has several columns.")
    if (several == several[0]).all():
        raise InputError(f"y must tell items apart. Got the same labels for each of {n} items.")
    return several.astype(np.int64)


def encode_held(held: tuple[Any, Array], classes: NDArray[Any], measure: str) -> NDArray[np.int64]:
    """The classes of rows to validate on, as numbers (m,): those of `classes`, or for "map" any of their own."""
    rows, y = held
    return encode_labels(y, rows.shape[0], None if measure == "map" else classes)[1]


def hold_out(
    codes: NDArray[np.int64], share: float, random: np.random.Generator, most: int = MOST
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers to train on and to validate on, both sorted: `share` of each class by lot, never all of it.

    A class whose share is not a whole number is rounded by lot, so that small classes give their part together.
    """
    counts = np.bincount(codes)
    wanted = np.floor(min(share, most / len(codes)) * counts + random.random(len(counts)))
    order = np.lexsort((random.random(len(codes)), codes))  # class by class, by lot inside each
    starts = np.cumsum(counts) - counts
    place = np.arange(len(codes)) - np.repeat(starts, counts)
    held = place < np.repeat(np.minimum(wanted, counts - 1), counts)
    return np.sort(order[~held]), np.sort(order[held])


def _missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels are None, NaN or empty."""
    if labels.dtype.kind == "f":
        return np.asarray(~np.isfinite(labels))
    if labels.dtype.kind == "U":
        return np.asarray(labels == "")
    if labels.dtype.kind == "O":
        return np.array([one is None or one == "" or one != one for one in labels], bool)
    return np.zeros(len(labels), bool)
