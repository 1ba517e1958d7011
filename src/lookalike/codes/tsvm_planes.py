"""Distances from the planes of class trees as a space of its own, for another coder or for search as it is.

In: rows (n, d), with labels for some of them. Out: (n, dim) float32, on which side of each plane a row lies and how
far away. Cevikalp et al. 2017 (tsvm-hashing), end of §2.3: with more classes than bits, embed by the normals of all
nodes and hash in the embedded space.
"""

from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from lookalike.codes.labels import read_labels
from lookalike.codes.tsvmh import Tsvmh
from lookalike.encode.check import float32_out
from lookalike.limits import check_number
from lookalike.types import Vectors

BYTE = 8


class TsvmPlanes(TransformerMixin, BaseEstimator):
    """The planes of `Tsvmh`, distances instead of sides.

    Parameters
    ----------
    dim : planes, those of as many trees as that takes; None is one tree, a plane less than there are classes.
    C, C_unlabelled, sample, random_state : as in `Tsvmh`.

    Attributes
    ----------
    W_ : (dim, d) float32, normals of length one, b_ : (dim,) float32.

    Examples
    --------
    >>> X = np.array([[0.0, 0], [0, 1], [9, 0], [9, 1], [0, 9], [1, 9]])
    >>> embedding = TsvmPlanes().fit(X, ["owl", "owl", "cat", "cat", "fox", None])
    >>> embedding.transform(X).shape
    (6, 2)

    """

    labels = True  # fit needs y
    W_: Vectors
    b_: Vectors

    def __init__(
        self,
        dim: int | None = None,
        C: float = 10.0,
        C_unlabelled: float = 2.0,
        sample: int = 5_000,
        random_state: int = 0,
    ):
        self.dim = dim
        self.C = C
        self.C_unlabelled = C_unlabelled
        self.sample = sample
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows (n, d) and labels, as `Tsvmh.fit` takes them."""
        if self.dim is not None:
            check_number("dim", self.dim, Integral, "None or a whole number of at least 1", 1, np.inf)
        X = validate_data(self, X, dtype=(np.float32, np.float64), ensure_min_samples=2)
        dim = len(read_labels(y, len(X))[0]) - 1 if self.dim is None else self.dim
        bits = -(-dim // BYTE) * BYTE  # whole bytes of planes, of which the first are those wanted
        coder = Tsvmh(bits, self.C, self.C_unlabelled, self.sample, self.random_state).fit(X, y)
        lengths = np.maximum(np.linalg.norm(coder.W_[:dim], axis=1), np.float32(1e-12))
        self.W_, self.b_ = coder.W_[:dim] / lengths[:, None], coder.b_[:dim] / lengths
        return self

    def transform(self, X: Any) -> Vectors:
        """(n, d) to (n, dim) float32."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float32, np.float64), reset=False, ensure_min_samples=0)
        return np.asarray(X @ self.W_.T + self.b_, np.float32)

    def __sklearn_tags__(self) -> Tags:
        tags = float32_out(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags
