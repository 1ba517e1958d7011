"""Scores of rows for all class means, by one matrix product.

The dot-product form of Mensink et al., "Large scale metric learning for distance-based image classification on open
ended data sets", 2013 (ncm), Eq. 27 and 29. Means and rows are NumPy or torch.
"""

from collections.abc import Iterator
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, chunks, held_bytes, like, namespace
from lookalike.classes.moments import GrowingRows
from lookalike.types import Array

ABSENT = -1e30
"""Score of a class without a mean: lower than any other, and finite, so that no sum becomes NaN."""
SCORES_BYTES = 32 * 2**20
"""Size of the scores computed at a time: enough for a product at full speed, few enough to stay in the cache."""


class Prototypes:
    """Means minus a common origin, with the bias as an extra column: the product with [x − origin, 1] is the score.

    A score is −½ d²(x, μ) up to a term that depends only on x, with the bias −½‖Wμ‖². Larger scores are closer.

    Parameters
    ----------
    means : (M, d) float64. The origin is the mean of the known ones; subtracting it reduces rounding errors.
    known : (M,) whether the mean exists; the others score ABSENT.
    inverse : (d, d) float64, the matrix of d²(x, μ) = (x − μ)ᵀ inverse (x − μ); None: the Euclidean distance.
    precision : float32 or float64 of the namespace of `means`.

    """

    def __init__(self, means: Array, known: NDArray[np.bool_], inverse: Array | None, precision: Any):
        xp = namespace(means)
        M, d = means.shape
        share = like(means, known / max(1, known.sum()))  # (M,)
        self.origin = share @ means  # (d,)
        self.inverse = inverse
        self.precision = precision
        self._rows = GrowingRows(xp.empty((M, d + 1), dtype=precision, device=array_api_compat.device(means)))
        for part in chunks(M, row_bytes=24 * d):
            self.put(np.arange(part.start, part.stop), means[part], known[part])

    def __len__(self) -> int:
        return int(self._rows.values.shape[0])

    def put(self, where: NDArray[np.int64], means: Array, known: NDArray[np.bool_]) -> None:
        """Write these means (m, d) to existing rows `where` (m,)."""
        xp = namespace(means)
        centred = means - self.origin
        weights = centred
        if self.inverse is not None:  # the slowest part, so it is computed at the precision of the result
            weights = xp.astype(centred, self.precision) @ xp.astype(self.inverse, self.precision)  # (m, d)
        bias = xp.where(like(means, known), -xp.sum(centred * weights, axis=1) / 2, ABSENT)  # (m,)
        rows = xp.concat([xp.astype(weights, self.precision), xp.astype(bias, self.precision)[:, None]], axis=1)
        self._rows.values[like(means, where)] = rows

    def resize(self, M: int) -> None:
        """Set the number of rows to M; new rows must be written with `put` before they are used."""
        self._rows.resize(M)

    def scores(self, X: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield for chunks of X the slice, the scores (m, M), valid until the next chunk, and x − origin (m, d)."""
        xp, device = namespace(X), array_api_compat.device(X)
        precision = xp.float64 if X.dtype == xp.float64 else xp.float32
        W = xp.astype(like(X, self._rows.values), precision, copy=False)  # (M, d + 1)
        origin = xp.astype(like(X, self.origin), precision)
        M, width = W.shape
        parts = list(chunks(X.shape[0], 4 * (M + width), held_bytes(X, SCORES_BYTES)))
        rows = parts[0].stop if parts else 0
        # All chunks share these buffers, because allocating memory is slow. NumPy and torch both support `out`.
        centred = xp.ones((rows, width), dtype=precision, device=device)
        products = xp.empty((rows, M), dtype=precision, device=device)
        for part in parts:
            m = part.stop - part.start
            centred[:m, :-1] = check_rows(X[part]) - origin
            yield part, xp.matmul(centred[:m], W.T, out=products[:m]), centred[:m, :-1]

    def join_cells(self, scores: Array, k: int, softness: float) -> Array:
        """Return the scores of classes (m, M / k) from those of their k cells; overwrites `scores`."""
        xp = namespace(scores)
        live = xp.reshape(like(scores, self._rows.values[:, -1]), (-1, k)) > ABSENT / 2  # (C, k)
        return join_cells(scores, xp.sum(xp.astype(live, scores.dtype), axis=1), k, softness)

    def squares(self, centred: Array) -> Array:
        """Return d²(x, origin) of rows x − origin (m, d), which turns scores into distances: d² = squares − 2 score."""
        xp = namespace(centred)
        weighted = centred
        if self.inverse is not None:
            weighted = centred @ xp.astype(like(centred, self.inverse), centred.dtype)
        return xp.sum(centred * weighted, axis=1)


def join_cells(scores: Array, live: Array, k: int, softness: float) -> Array:
    """Return the scores of classes (m, C) from those of their k cells (m, C · k), Eq. 22 at temperature `softness`.

    The `live` cells of a class, (C,) or (m, C), have equal weights; at softness 0, only the nearest cell counts.
    Overwrites `scores`.
    """
    xp = namespace(scores)
    cells = xp.reshape(scores, (scores.shape[0], -1, k))  # (m, C, k)
    best = xp.max(cells, axis=2)  # (m, C)
    if not softness:
        return best
    with np.errstate(over="ignore"):  # a cell without a mean, at a small softness
        cells -= best[:, :, None]
        cells /= softness
        total = xp.sum(xp.exp(cells, out=cells), axis=2)
    return best + softness * xp.log(total / xp.clip(live, 1, None))
