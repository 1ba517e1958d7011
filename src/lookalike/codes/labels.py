"""Labels for coders that learn from them: the classes, and the class of each row, -1 for an unlabelled row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from lookalike.arrays import as_numpy
from lookalike.errors import InputError


def read_labels(y: Any, n: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The sorted classes, at least 2, and the class number of each of n rows, (n,), −1 for an unlabelled row.

    Labels are (n,) of any type, or (n, L) bool for several labels per row. Unlabelled rows have −1 (as in scikit-learn)
    or NaN in numeric labels, and None, NaN or "" in others. With several labels per row, each combination of labels is
    a class, and the classes are (C, L) bool.

    >>> read_labels(["owl", None, "cat"], 3)
    (array(['cat', 'owl'], dtype='<U3'), array([ 1, -1,  0]))
    """
    if y is None:
        raise InputError("This coder learns from labels: it requires y to be passed, but the target y is None.")
    values = as_numpy(y)
    if len(values) != n:
        raise InputError(f"y must contain labels for each of {n} rows. Got shape {values.shape}.")
    several = values.ndim == 2 and values.shape[1] > 1
    missing = ~values.astype(bool).any(axis=1) if several else _missing(values := column_or_1d(values, warn=True))
    if missing.all():
        raise InputError("y must contain some labels. Got none; without labels, use a coder such as itq.")
    known = values[~missing]
    if several:
        classes, numbers = np.unique(known.astype(bool), axis=0, return_inverse=True)
    else:
        if known.dtype.kind == "f" and (known % 1).any():
            raise InputError(
                f"y must contain class labels. Got continuous numbers, such as {known[known % 1 != 0][0]:g}."
            )
        classes, numbers = np.unique(known.astype(str) if known.dtype.kind == "O" else known, return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"y must contain at least 2 classes, not counting -1 for unlabelled rows. Got 1 class, {classes[0]!r}."
        )
    codes = np.full(n, -1, np.int64)
    codes[~missing] = numbers.reshape(-1)
    return classes, codes


def sharing(combinations: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which label combinations (C, L) have a label in common, (C, C)."""
    numbers = combinations.astype(np.int64)
    return np.asarray(numbers @ numbers.T > 0)


def _missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    if labels.dtype.kind == "O":
        return np.array([one is None or one == "" or one != one or one == -1 for one in labels], bool)
    if labels.dtype.kind == "U":
        return np.asarray(labels == "")
    return np.asarray(np.isnan(labels) | (labels == -1)) if labels.dtype.kind == "f" else np.asarray(labels == -1)
