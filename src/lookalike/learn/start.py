"""Where the training of a projection starts: at the principal directions of a sample of the rows.

In: any source of rows (n, d). Out: W (D, d), the mean and the variance of the sample.
"""

from typing import Any

import array_api_compat
import numpy as np

from lookalike.arrays import check_rows, namespace, principal
from lookalike.learn.sgd import Rows
from lookalike.types import Array

START_BYTES = 32 * 2**20
"""What is held of the rows to find their principal directions."""


def start(X: Rows, dim: int, random: np.random.Generator) -> tuple[Array, Array, float]:
    """W (D, d), the mean (d,), both float32, and the variance along all D directions together; D ≤ dim, d, n - 1.

    The variance is 1 where all rows are alike: there is nothing to scale by.

    >>> W, mean, variance = start(np.array([[0.0, 1.0], [2.0, 1.0]]), 5, np.random.default_rng(0))
    >>> W.tolist(), mean.tolist(), variance
    ([[1.0, 0.0]], [1.0, 1.0], 2.0)
    """
    n, d = X.shape
    most = max(2 * dim, START_BYTES // (4 * d))
    chosen: Any = slice(None) if n <= most else np.sort(random.choice(n, most, replace=False))
    rows = check_rows(X[chosen])
    xp = namespace(rows)
    if rows.shape[0] < 2:
        rows = xp.concat([rows, rows])
    mean, components, variances = principal(rows, max(1, min(dim, d, rows.shape[0] - 1)))
    W, mean = (xp.astype(array, xp.float32, copy=False) for array in (components, mean))
    variance = float(xp.sum(variances))
    return xp.asarray(W, device=array_api_compat.device(rows)), mean, variance if variance > 0 else 1.0
