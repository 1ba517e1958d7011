"""Labels as class numbers, and the division of rows into a training and a validation part.

scikit-learn is imported when labels are encoded, not with the module: the engine imports `join_names` at its start.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy
from lookalike.errors import InputError
from lookalike.types import Array

MAX_HELD_OUT = 20_000
"""Rows that `hold_out` holds out at most: more cost time at each validation and hardly make it more precise."""


def join_names(labels: Sequence[Sequence[str]]) -> NDArray[Any]:
    """The names of each item's labels as `encode_many` takes them: (n,) if all items have one, else 0 and 1, (n, C).

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
    """The sorted classes (C,), C ≥ 2, and the class number of each of n rows, (n,).

    With `known`, the sorted classes of a training, the numbers are those of `known`; other labels are rejected.

    >>> encode_labels(["owl", "cat", "owl"], 3)
    (array(['cat', 'owl'], dtype='<U3'), array([1, 0, 1]))
    """
    from sklearn.utils import column_or_1d

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
        labels = labels.astype(str)  # objects could only be saved as a pickle
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
    """Labels as class numbers (n,), or as 0 and 1 (n, C) if y has several columns; not all items may be the same.

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


def hold_out(
    codes: NDArray[np.int64], share: float, random: np.random.Generator, most: int = MAX_HELD_OUT
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers to train on and to validate on, both sorted: a random `share` of each class, never all of it.

    A class whose share is not a whole number is rounded at random, so that small classes are represented together.
    """
    counts = np.bincount(codes)
    wanted = np.floor(min(share, most / len(codes)) * counts + random.random(len(counts)))
    order = np.lexsort((random.random(len(codes)), codes))  # class by class, in random order inside each
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
