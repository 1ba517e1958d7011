"""Distances from images to classes without these images, in closed form.

A class of n images without one of them, x, has the mean μ' = (n μ − x) / (n − 1), so ‖x − μ'‖ = n / (n − 1) ‖x − μ‖.
With a covariance, the scatter within classes becomes S' = S − n / (n − 1) (x − μ)(x − μ)ᵀ. In the eigenvectors of S,
S' plus a ridge is a diagonal matrix minus a matrix of rank one, which the Sherman–Morrison formula inverts.
Nothing is removed from the classes, and all distances come from matrix products.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, chunks
from lookalike.classes.class_table import ClassTable
from lookalike.classes.moments import Codes
from lookalike.types import Array

NO_SCATTER = 1e-9
"""Share of the scatter below which the other images have none, so that an image cannot be held out."""
HELD_OUT_BYTES = 32 * 2**20
"""Maximum size of the distances that are computed at once."""

Values = NDArray[np.float32] | NDArray[np.float64]


class HeldOut:
    """Images that are in the classes of a table, each compared with the classes without it.

    Parameters
    ----------
    table : the classes. They must not change while this object is used.
    X : (m, d) rows.
    codes : (m,) their classes, which have two rows or more.

    Examples
    --------
    >>> from lookalike.classes.moments import Cells
    >>> X = np.array([[0.0], [2.0], [9.0]])
    >>> table = ClassTable(np.array(["a", "b"]), Cells.empty(X, 1, False, 0), 0.1, None, 0.0)
    >>> table.cells.resize(2)
    >>> table.add(X, np.array(["a", "a", "b"]))
    >>> [(part, D.tolist()) for part, D in HeldOut(table, X[:1], np.array([0])).distances()]
    [(slice(0, 1, None), [[3.0, 81.0]])]

    """

    def __init__(self, table: ClassTable, X: Array, codes: Codes):
        self.precision: Any = np.float64 if str(X.dtype).endswith("float64") else np.float32
        moments, k = table.cells.moments, table.cells.k
        means, known = table.means()
        self.known = known
        self.origin = as_numpy(means)[known].mean(axis=0) if known.any() else np.zeros(X.shape[1])  # (d,)
        self.means = as_numpy(means) - self.origin  # (C · k, d) float64
        self.rows = as_numpy(X) - self.origin
        self.groups = table.cells.groups(X, codes)
        self.n = moments.counts[self.groups]
        weight = table.prior_weights()[codes] if k == 1 else np.zeros(len(codes))
        self.growth = _growth(np.maximum(self.n, 2), weight)
        self.ridge = table.ridge
        self.freedom = 0  # 0: the Euclidean distance
        if table.has_metric():
            self.freedom = moments.freedom()
            self.values, self.basis = np.linalg.eigh(as_numpy(moments.scatter))  # (d,), (d, d)
            centres = as_numpy(moments.means(self.groups)) - self.origin
            self.offsets = (self.rows - centres) @ self.basis  # (m, d) x − μ
            self.rows = self.rows @ self.basis
            self.means = self.means @ self.basis

    def distances(self) -> Iterator[tuple[slice, Values]]:
        """Yield for chunks of rows the squared distances (m, C · k) to all cells; infinity: the cell has no other row.

        The distance to a row's own cell is that expected for a new image: the mean of n − 1 rows is a little farther
        away than that of n rows. NaN: without the row, there is no scatter. The priors of a hierarchy are not
        recomputed.
        """
        for part, D in self._distances_to(self.means):
            D[:, ~self.known] = np.inf
            own = np.arange(len(D)), self.groups[part]
            D[own] = np.where(self.n[part] > 1, D[own] * self.growth[part], np.inf)
            yield part, D

    def to_rows(self, points: Array) -> Iterator[tuple[slice, Values]]:
        """Yield for chunks of rows the squared distances (m, P) to points (P, d) in the same metric."""
        moved = as_numpy(points) - self.origin
        yield from self._distances_to(moved @ self.basis if self.freedom else moved)

    def _distances_to(self, points: NDArray[Any]) -> Iterator[tuple[slice, Values]]:
        for part in chunks(len(self.rows), 8 * (len(points) + points.shape[1]), HELD_OUT_BYTES):
            yield part, self._mahalanobis(part, points) if self.freedom else self._euclidean(part, points)

    def _euclidean(self, part: slice, points: NDArray[Any]) -> Values:
        rows, points = self.rows[part].astype(self.precision), points.astype(self.precision)
        D: Values = np.sum(rows**2, axis=1)[:, None] + np.sum(points**2, axis=1) - 2 * (rows @ points.T)  # (m, P)
        np.maximum(D, 0, out=D)
        return D

    def _mahalanobis(self, part: slice, points: NDArray[np.float64]) -> Values:
        """Distances by the metric of `ClassTable` without each row, which has its own scatter and its own ridge."""
        z, v = self.rows[part], self.offsets[part]
        a = (self.n / (self.n - 1.0))[part, None]  # (m, 1)
        size = self.values.sum() - a * np.sum(v**2, axis=1, keepdims=True)  # trace of S'
        size[size <= NO_SCATTER * self.values.sum()] = np.nan
        W = 1 / (np.maximum(self.values, 0) + self.ridge * size / len(self.values))  # (m, d)
        direct = np.sum(W * z**2, axis=1)[:, None] - 2 * ((W * z) @ points.T) + W @ (points**2).T  # (m, P)
        along = np.sum(W * z * v, axis=1)[:, None] - (W * v) @ points.T
        denominator = 1 - a * np.sum(W * v**2, axis=1, keepdims=True)
        D: Values = (self.freedom - 1) * (direct + a * along**2 / denominator)
        np.maximum(D, 0, out=D)
        return D


def _growth(n: Codes, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factor from an image's squared distance to its own mean, of n images, to that of a new image.

    `weight` is that of a prior mean, in images. Without it, the result is (n + 1) / (n − 1): with variance σ² within
    the class, the expected distance is (1 − 1/n) σ² for one of the n images, and (1 + 1/n) σ² for a new one.
    """
    N = n + weight
    without = (N / (N - 1)) ** 2  # leaving the image out
    growth: NDArray[np.float64] = without * (1 + n / N**2) / (1 + (n - 1) / (N - 1) ** 2)
    return growth
