"""RCA and DCA: closed-form metrics from chunklets, small groups of rows known to belong to one class.

Bar-Hillel et al., "Learning a Mahalanobis metric from equivalence constraints", JMLR 2005; Hoi et al., "Learning
distance metrics with contextual constraints for image retrieval", CVPR 2006.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy
from lookalike.errors import InputError
from lookalike.learn.labels import encode_labels
from lookalike.learn.rows import Picked, Projection, Rows, blocks, check_source, means_by_label
from lookalike.limits import COUNT, NOT_NEGATIVE, check_number, report_fewer
from lookalike.types import Array

Matrix = NDArray[np.float64]
MAX_DIM = 64
"""The largest output dimension if none is requested."""

TINY = 1e-10
"""Eigenvalues below this share of the largest are treated as zero."""


class Rca(Projection):
    """Relevant component analysis: whitening by the covariance within chunklets, W = (C + λI)⁻¹ᐟ².

    Parameters
    ----------
    lam : λ, as a share of the mean variance within chunklets.

    Attributes
    ----------
    W_ : (d, d) float32, NumPy, symmetric.
    classes_ : (C,) sorted labels, or chunklet numbers.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 2)) * [1, 10]
    >>> Rca().fit(X, np.arange(300) % 3).transform(X).std(axis=0).round(1)
    array([1., 1.], dtype=float32)

    """

    def __init__(self, lam: float = 1e-3):
        self.lam = lam

    def fit(self, X: Rows, y: Array | None = None, *, chunklets: Array | None = None) -> Self:
        """Fit to rows (n, d) and labels (n,); each class is one chunklet.

        `chunklets` (n,) replaces the labels: the chunklet number of each row, -1 for none.
        """
        found = _gather(self, X, y, chunklets, self.lam)
        self.classes_ = found.classes
        values, U = np.linalg.eigh(found.by_rows)
        mean = values.mean() if values.mean() > 0 else 1.0
        self.W_ = ((U / np.sqrt(np.maximum(values, 0) + max(self.lam, TINY) * mean)) @ U.T).astype(np.float32)
        return self


class Dca(Projection):
    """Discriminative component analysis: directions in which chunklets differ, whitened by the covariance within them.

    Selects the directions, in the span of the differences between chunklet means, with the smallest variance within
    chunklets relative to that between them, and scales each to unit variance within. D is at most min(d, C - 1).

    Parameters
    ----------
    dim : output dimension D; None: at most 64. A larger `dim` than there are directions gives a warning.
    lam : added to the variances within chunklets, as a share of their mean.

    Attributes
    ----------
    W_ : (D, d) float32, NumPy, sorted by decreasing variance between chunklets.
    classes_ : (C,) sorted labels, or chunklet numbers.

    Examples
    --------
    >>> X, y = np.random.default_rng(0).normal(size=(3000, 3)), np.arange(3000) % 2
    >>> X[:, 0] += 5 * y
    >>> np.abs(Dca().fit(X, y).W_).round(1)
    array([[1., 0., 0.]], dtype=float32)

    """

    def __init__(self, dim: int | None = None, lam: float = 1e-3):
        self.dim = dim
        self.lam = lam

    def fit(self, X: Rows, y: Array | None = None, *, chunklets: Array | None = None) -> Self:
        """Fit to rows (n, d) and labels (n,); each class is one chunklet.

        `chunklets` (n,) replaces the labels: the chunklet number of each row, -1 for none.
        """
        if self.dim is not None:
            check_number("dim", self.dim, *COUNT)
        found = _gather(self, X, y, chunklets, self.lam)
        self.classes_ = found.classes
        C, d = found.means.shape
        mean = np.trace(found.by_chunklets) / d or 1.0
        inside = found.by_chunklets + max(self.lam, TINY) * mean * np.eye(d)
        apart = found.means - found.means.mean(axis=0)
        between, U = np.linalg.eigh(2 / (C - 1) * apart.T @ apart)  # mean over pairs of chunklets
        real = between > TINY * max(between[-1], np.finfo(np.float64).tiny)
        real[-1] = True  # if all chunklets have the same mean, keep one direction
        Z = U[:, real] / np.sqrt(np.maximum(between[real], np.finfo(np.float64).eps))  # ZᵀC_bZ = I
        values, V = np.linalg.eigh(Z.T @ inside @ Z)  # ascending: the first directions vary least within chunklets
        W = (Z @ V / np.sqrt(values)).T[: MAX_DIM if self.dim is None else self.dim]
        report_fewer("dim", self.dim, len(W), f"the means of {C} chunklets span at most {len(W)} dimensions")
        extremes = np.argmax(np.abs(W), axis=1)[:, None]
        self.W_ = (W * np.sign(np.take_along_axis(W, extremes, axis=1))).astype(np.float32)
        return self


class _Chunklets(NamedTuple):
    """Moments of chunklets, float64."""

    classes: NDArray[Any]  # (C,)
    means: Matrix  # (C, d)
    by_rows: Matrix  # (d, d) covariance within chunklets, rows weighted equally: rca
    by_chunklets: Matrix  # (d, d) the same, chunklets weighted equally: dca


def _gather(part: Projection, X: Rows, y: Array | None, chunklets: Array | None, lam: float) -> _Chunklets:
    """Check the arguments and compute the moments, in two passes over X."""
    check_number("lam", lam, *NOT_NEGATIVE)
    X = check_source(part, X, reset=True, min_rows=2)
    if chunklets is not None:
        y = as_numpy(chunklets)
        if y.shape != (X.shape[0],) or y.dtype.kind not in "iu":
            raise InputError(
                f"chunklets must contain a whole number for each of {X.shape[0]} rows, -1 for none."
                f" Got {y.dtype} of shape {y.shape}."
            )
        inside = np.flatnonzero(y >= 0)
        X, y = Picked(X, inside), y[inside]
        if not len(inside):
            raise InputError("chunklets must contain at least 2 chunklets. Got -1 for all rows.")
    classes, codes = encode_labels(y, X.shape[0])
    counts = np.bincount(codes)
    means = as_numpy(means_by_label(X, codes, len(classes)))
    by_rows, by_chunklets = np.zeros((2, X.shape[1], X.shape[1]))
    for span, rows in blocks(X):
        off = as_numpy(rows).astype(np.float64) - means[codes[span]]
        by_rows += off.T @ off / len(codes)
        off /= np.sqrt(counts[codes[span]] * len(classes))[:, None]
        by_chunklets += off.T @ off
    return _Chunklets(classes, means, by_rows, by_chunklets)
