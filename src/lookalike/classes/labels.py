"""The names of classes: what they may be, and where each one is.

In: labels as a user has them (texts or whole numbers; lists, NumPy, torch). Out: plain NumPy arrays, and numbers.
"""

import difflib
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
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
    if labels.dtype.kind == "f" and not (np.isfinite(labels) & (labels == np.round(labels))).all():
        raise InputError("Labels must be texts or whole numbers. Got continuous ones, NaN or infinity.")
    return labels


def one_label(label: Any) -> NDArray[Any]:
    """One label, (1,)."""
    return as_labels([label], 1)


class Names:
    """The labels of C classes, all texts or all numbers, and the number of each.

    Examples
    --------
    >>> names = Names(np.array(["b", "a"]))
    >>> names.append(np.array(["longer"]))
    >>> names.find(np.array(["longer", "c", "b"])).tolist()
    [2, -1, 0]

    """

    def __init__(self, labels: NDArray[Any]):
        self.labels = labels
        self._places = {label: c for c, label in enumerate(labels.tolist())}

    def __len__(self) -> int:
        return len(self.labels)

    def find(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """The number of each of these labels, (m,); −1 where no class has it."""
        distinct, inverse = np.unique(y, return_inverse=True)
        found: NDArray[np.int64] = np.array([self._places.get(label, -1) for label in distinct.tolist()], np.int64)[
            inverse
        ]
        return found

    def place(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """The same, with an InputError where no class has it."""
        codes = self.find(y)
        if (codes < 0).any():
            raise self._unknown(y[codes < 0][0].item())
        return codes

    def check_new(self, labels: NDArray[Any]) -> NDArray[Any]:
        """All labels with these at the end, which no class may have yet."""
        there = self.find(labels)
        if (there >= 0).any():
            raise InputError(f"There is a class named {labels[there >= 0][0].item()!r} already.")
        return join_labels(self.labels, labels)

    def append(self, labels: NDArray[Any]) -> None:
        """New labels for new classes at the end."""
        n, self.labels = len(self), self.check_new(labels)
        self._places.update((label, n + i) for i, label in enumerate(labels.tolist()))

    def rename(self, c: int, label: NDArray[Any]) -> None:
        """Another label (1,) for class c."""
        labels = self.check_new(label)  # wide enough for both
        del self._places[self.labels[c].item()]
        labels[c] = labels[-1]
        self.labels = labels[:-1]
        self._places[label[0].item()] = c

    def drop(self, c: int) -> None:
        """Class c is gone; the last takes its number."""
        labels = self.labels.copy()
        del self._places[labels[c].item()]
        labels[c] = labels[-1]
        self.labels = labels[:-1]
        if c < len(self.labels):
            self._places[labels[c].item()] = c

    def _unknown(self, label: Label) -> InputError:
        names = [str(name) for name in self.labels]
        near = difflib.get_close_matches(str(label), names, n=1)
        some = ", ".join(names[:8]) + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return InputError(f"No class named {label!r}. Known: {some or 'none'}.{hint}")


def join_labels(known: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Both, one after the other; InputError where ones are texts and the others numbers."""
    if len(known) and len(new) and (known.dtype.kind == "U") != (new.dtype.kind == "U"):
        raise InputError(f"Labels must be all texts or all numbers. Got {new[0].item()!r} beside {known[0].item()!r}.")
    return np.concatenate([known, new]) if len(known) else new.copy()


def _plain(y: NDArray[Any]) -> NDArray[Any]:
    """Objects as texts or numbers."""
    texts = sum(isinstance(label, str) for label in y)
    if texts not in (0, len(y)):
        raise InputError(f"Labels must be all texts or all numbers. Got {texts} texts among {len(y)}.")
    plain = np.array(y.tolist())
    if plain.dtype.kind not in "Uiufb":
        raise InputError(f"Labels must be texts or numbers. Got {type(y[0]).__name__}, {y[0]!r}. Unknown label type.")
    return plain
