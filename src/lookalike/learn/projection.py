"""A learned projection as a scikit-learn transformer: what metrics that learn from labels do alike.

In: a fitted W (D, d), and rows (n, d) of any kind. Out: (n, D) float32, XWᵀ.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.encode.check import float32_out
from lookalike.learn.rows import check_source, project
from lookalike.learn.sgd import Rows
from lookalike.types import Array


class Projection(TransformerMixin, BaseEstimator):
    """XWᵀ, learned with labels; subclasses have `fit`."""

    labels = True  # fit needs y

    W_: Array
    classes_: NDArray[Any]
    curve_: NDArray[np.float64]

    def transform(self, X: Rows) -> Array:
        """(n, d) to (n, D) float32: XWᵀ."""
        check_is_fitted(self)
        return project(check_source(self, X, reset=False, min_rows=0), self.W_)

    def __sklearn_tags__(self) -> Tags:
        tags = float32_out(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags
