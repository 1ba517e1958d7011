"""The names of classes: what they may be, and where each one is.

In: labels as a user has them (texts or whole numbers; lists, NumPy, torch). Out: plain NumPy arrays, and numbers.
"""

import difflib
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from lookalike.arrays import as_numpy
from lookalike.errors import InputError

Label: TypeAlias = str | int | float | bool
"""The name of a class. Those of one classifier are all texts, or all numbers."""


def as_labels(y: Any, n: int) -> NDArray[Any]:
    """Labels for n rows, (n,), as an array of texts or numbers, never of objects."""
    if y is None:
        raise InputError("This estimator requires y to be passed, but the target y is None.")
    labels: NDArray[Any] = column_or_1d(as_numpy(y), warn=True)
    if len(labels) != n:
        raise InputError(f"y must have one label a row, {n} in all. Got {len(labels)}.")
    if labels.dtype.kind == "O":
        labels = _plain(labels)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError("Labels must be texts or numbers. Got NaN or infinity among them.")
    check_classification_targets(labels)
    return labels


def one_label(label: Any) -> NDArray[Any]:
    """One label, (1,)."""
    return as_labels([label], 1)


def join_labels(known: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Both, one after the other; InputError where ones are texts and the others numbers."""
    if len(known) and len(new) and (known.dtype.kind == "U") != (new.dtype.kind == "U"):
        raise InputError(f"Labels must be all texts or all numbers. Got {new[0].item()!r} beside {known[0].item()!r}.")
    return np.concatenate([known, new]) if len(known) else new.copy()


def places(known: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Where each of `wanted` (m,) is among `known` (C,), (m,); −1 where it is not.

    >>> places(np.array(["b", "a"]), np.array(["a", "c", "a"])).tolist()
    [1, -1, 1]
    """
    if not len(known) or not len(wanted) or (known.dtype.kind == "U") != (wanted.dtype.kind == "U"):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)
    found = order[at]
    return np.where(known[found] == wanted, found, -1).astype(np.int64)


def unknown(label: Any, known: NDArray[Any]) -> InputError:
    """What to say of a label that no class has."""
    names = [str(name) for name in known]
    near = difflib.get_close_matches(str(label), names, n=1)
    some = ", ".join(names[:8]) + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")
    return InputError(
        f"No class named {label!r}. Known: {some or 'none'}." + (f" Did you mean {near[0]!r}?" if near else "")
    )


def _plain(y: NDArray[Any]) -> NDArray[Any]:
    """Objects as texts or numbers."""
    texts = sum(isinstance(label, str) for label in y)
    if texts not in (0, len(y)):
        raise InputError(f"Labels must be all texts or all numbers. Got {texts} texts among {len(y)}.")
    plain = np.array(y.tolist())
    if plain.dtype.kind not in "Uiufb":
        raise InputError(f"Labels must be texts or numbers. Got {type(y[0]).__name__}, {y[0]!r}. Unknown label type.")
    return plain
