"""Label encoding, and the split of rows into a training and a validation set.

scikit-learn is imported when labels are encoded, not with the module, because the engine imports `join_names` at
startup.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy
from lookalike.errors import InputError
from lookalike.types import Array

MAX_HELD_OUT = 20_000
"""Maximum number of rows that `hold_out` holds out: more make each validation slower and hardly more precise."""


def join_names(labels: Sequence[Sequence[str]]) -> NDArray[Any]:
    """Convert the label names of each item for `encode_many`: (n,) if all items have one label, else 0 and 1, (n, C).

    >>> join_names([["owl"], ["cat"]]).tolist(), join_names([["owl"], ["owl", "cat"]]).tolist()
    (['owl', 'cat'], [[0, 1], [1, 1]])
    """
    if all(len(names) == 1 for names in labels):
        return np.array([name for (name,) in labels])
    columns = {name: i for i, name in enumerate(sorted({name for names in labels for name in names}))}
    y = np.zeros((len(labels), len(columns)), np.int64)
    for row, names in zip(y, labels, strict=True):
        row[[columns[name] for name in names]] = 1
    return y


def encode_labels(y: Array | None, n: int, known: NDArray[Any] | None = None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted classes (C,), C ≥ 2, and the class number of each of n rows, (n,).

    With `known`, the sorted classes of a training set, numbers refer to `known`, and other labels are rejected.

    >>> encode_labels(["owl", "cat", "owl"], 3)
    (array(['cat', 'owl'], dtype='<U3'), array([1, 0, 1]))
    """
    from sklearn.utils import column_or_1d

    if y is None:
        raise InputError("This metric requires y to be passed, but the target y is None: it learns from labels.")
    labels = column_or_1d(as_numpy(y), warn=True)
    if labels.shape != (n,):
        raise InputError(f"y must contain one label for each of {n} rows. Got shape {labels.shape}.")
    missing = _missing(labels)
    if missing.any():
        raise InputError(
            f"y must contain a label for each row. Got none for {missing.sum()} of {n} rows: leave those rows out."
        )
    if labels.dtype.kind == "f" and (labels % 1).any():
        raise InputError(
            f"y must contain class labels. Got continuous numbers, such as {labels[labels % 1 != 0][0]:g}."
        )
    if labels.dtype.kind == "O":
        labels = labels.astype(str)  # arrays of objects could only be saved as pickles
    if known is not None:
        codes = np.minimum(np.searchsorted(known, labels), len(known) - 1)
        strange = np.unique(labels[known[codes] != labels])
        if len(strange):
            raise InputError(
                f"Validation labels must occur in the training labels. Got {strange[:3].tolist()}, which do not."
            )
        return known, codes.astype(np.int64)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y must contain at least 2 classes. Got 1 class, {classes[0]!r}.")
    return classes, codes.astype(np.int64)


def encode_many(y: Array | None, n: int) -> NDArray[np.int64]:
    """Encode labels as class numbers (n,), or as 0 and 1 (n, C) if y has several columns; not all rows equal.

    >>> encode_many(["owl", "cat", "owl"], 3).tolist(), encode_many([[1, 1], [0, 1]], 2).tolist()
    ([1, 0, 1], [[1, 1], [0, 1]])
    """
    several = None if y is None else as_numpy(y)
    if several is None or several.ndim != 2 or several.shape[1] == 1:
        return encode_labels(y, n)[1]
    if len(several) != n:
        raise InputError(f"y must contain the labels of each of {n} items. Got {len(several)} rows.")
    if several.dtype.kind not in "biuf" or not np.isin(several, (0, 1)).all():
        raise InputError("y with several columns must contain only ones and zeros, with one column per label.")
    if (several == several[0]).all():
        raise InputError(f"y must differ between items. Got the same labels for each of {n} items.")
    return several.astype(np.int64)


def hold_out(
    codes: NDArray[np.int64], share: float, random: np.random.Generator, most: int = MAX_HELD_OUT
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split rows at random into training and validation row numbers, both sorted.

    A `share` of each class is held out, but never the whole class. Fractions are rounded at random: on average, small
    classes are represented in proportion.
    """
    counts = np.bincount(codes)
    target = np.floor(min(share, most / len(codes)) * counts + random.random(len(counts)))
    order = np.lexsort((random.random(len(codes)), codes))  # class by class, in random order within each
    starts = np.cumsum(counts) - counts
    place = np.arange(len(codes)) - np.repeat(starts, counts)
    held = place < np.repeat(np.minimum(target, counts - 1), counts)
    return np.sort(order[~held]), np.sort(order[held])


def _missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the labels that are None, NaN or empty."""
    if labels.dtype.kind == "f":
        return np.asarray(~np.isfinite(labels))
    if labels.dtype.kind == "U":
        return np.asarray(labels == "")
    if labels.dtype.kind == "O":
        return np.array([one is None or one == "" or one != one for one in labels], bool)
    return np.zeros(len(labels), bool)
