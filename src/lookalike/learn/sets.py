"""Items that consist of many rows, such as the local descriptors of a picture: the input of DFK, FESS and PD.

The rows of all items are stored in one matrix, item after item. A plain matrix has one row per item.
"""

from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from lookalike.arrays import check_rows, expand, namespace
from lookalike.errors import InputError
from lookalike.features.clustering import Mixture, fit_mixture
from lookalike.learn.rows import Rows, check_source
from lookalike.types import Array

MIXTURE_BYTES = 64 * 2**20
"""Size of the sample of rows, as float64, to which a mixture is fitted."""


class Sets:
    """n items; the rows of item i are `rows[starts[i] : starts[i + 1]]`.

    >>> sets = Sets(np.arange(10.0).reshape(5, 2), np.array([0, 2, 5]))
    >>> sets.shape, sets[[1]].rows.tolist()
    ((2, 2), [[4.0, 5.0], [6.0, 7.0], [8.0, 9.0]])
    """

    def __init__(self, rows: Rows, starts: NDArray[np.int64]):
        self.rows, self.starts = rows, starts
        self.shape = (len(starts) - 1, rows.shape[1])

    def __getitem__(self, chosen: Any) -> "Sets":
        numbers = np.atleast_1d(np.arange(self.shape[0])[chosen])
        sizes = np.diff(self.starts)[numbers]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return Sets(self.rows[expand(self.starts[numbers], sizes)], starts)


def check_items(part: BaseEstimator, X: Any, *, reset: bool, min_items: int) -> Any:
    """Return X as a matrix (one row per item) or as `Sets`, checked to have the columns that `part` was fitted on.

    With `reset`, store the number of columns instead. A list of matrices becomes `Sets`. An item without rows is
    rejected.
    """
    if isinstance(X, list | tuple) and X and all(getattr(item, "ndim", 0) == 2 for item in X):
        X = _join(X)
    if not isinstance(X, Sets):
        return check_source(part, X, reset=reset, min_rows=min_items)
    empty = np.flatnonzero(np.diff(X.starts) < 1)
    if len(empty):
        raise InputError(
            f"Each item must have at least one descriptor. Got none for {len(empty)} of {X.shape[0]} items, the first"
            f" at index {empty[0]}: leave those items out."
        )
    if X.shape[0] < min_items:
        raise InputError(f"X must contain at least {min_items} items. Got {X.shape[0]}.")
    if reset:
        part.n_features_in_ = X.shape[1]
    elif X.shape[1] != part.n_features_in_:
        raise InputError(f"X must have {part.n_features_in_} columns. Got {X.shape[1]}.")
    return X


def take(X: Any, chosen: Any) -> tuple[Array, NDArray[np.int64]]:
    """Return the rows (M, d) of the chosen items, as finite floats, and the start of each item (n + 1,)."""
    some = X[chosen]
    if isinstance(some, Sets):
        return check_rows(some.rows), some.starts
    return check_rows(some), np.arange(some.shape[0] + 1)


def fit_items(X: Any, k: int, random_state: int, random: np.random.Generator) -> tuple[Mixture, NDArray[np.float64]]:
    """Fit a mixture of k Gaussians, at most one per row, to a sample of all rows; also return EM's log-likelihoods."""
    rows, most = X.rows if isinstance(X, Sets) else X, MIXTURE_BYTES // (8 * X.shape[1])
    M = rows.shape[0]
    rows = check_rows(rows[:] if most >= M else rows[np.sort(random.choice(M, most, replace=False))])
    return fit_mixture(rows, min(k, rows.shape[0]), random_state=random_state)


def _join(items: list[Array] | tuple[Array, ...]) -> Sets:
    widths = sorted({int(item.shape[1]) for item in items})
    if len(widths) > 1:
        raise InputError(f"Descriptors must all have the same number of columns. Got {widths}.")
    starts = np.cumsum([0, *(int(item.shape[0]) for item in items)])
    if not all(array_api_compat.is_array_api_obj(item) for item in items):
        items = [np.asarray(item) for item in items]
    return Sets(namespace(*items).concat(list(items)), starts)
