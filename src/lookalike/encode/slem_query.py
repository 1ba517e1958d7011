"""What rows of kernel SLEM are asked: which of them hold the classifiers most like these.

In: stored rows [x, z, p, s(x, x)^-½], (m, D) float32, as `KernelSlem.transform` gives them. Out: scores, (q, m)
float32, smaller is better, or vectors for the shortlist of an ordinary index. Eq. 16, slem, normalised.
"""

import numpy as np

from lookalike.arrays import check_rows, chunks, to_numpy
from lookalike.kernels import TANGENTS, check_kernel
from lookalike.types import Array, Vectors

BLOCK_BYTES = 4 * 2**20
"""What `score` holds of kernels at a time: as much as stays in a processor's cache is quickest."""
WIDTH = 256
"""Stored rows that a block has at least, whatever the number of queries."""


class SlemQuery:
    """Which stored rows have the classifiers most like those of the query: 1 − ⟨h, h'⟩ / ‖h‖‖h'‖, from 0 to 2.

    Parameters
    ----------
    rows : (q, D), as `KernelSlem.transform` gives them.
    kernel, gamma : those of the `KernelSlem`.
    d : how many columns its input had.

    """

    def __init__(self, rows: Array, *, kernel: str, gamma: float, d: int):
        self.rows = to_numpy(check_rows(rows, name="query"))  # (q, D)
        self.kernel = kernel
        self.gamma = gamma
        self.d = d

    @property
    def dim(self) -> int:
        """D."""
        return int(self.rows.shape[1])

    def score(self, X: Vectors) -> Vectors:
        """(m, D) to (q, m) float32: two products and an elementwise step a block. Eq. 16, slem, normalised."""
        scores = np.empty((len(self.rows), len(X)), np.float32)
        pairs = check_kernel(self.kernel, self.gamma).pairs
        for mine in chunks(len(self.rows), row_bytes=4 * WIDTH, max_bytes=BLOCK_BYTES):
            x, z, p, scale = _split(self.rows[mine], self.d)
            for part in chunks(len(X), row_bytes=4 * len(x), max_bytes=BLOCK_BYTES):
                x_, z_, p_, scale_ = _split(X[part], self.d)
                block = pairs(x, x_, self.gamma)  # (q, m) of the block
                block -= z @ z_.T
                block -= p[:, None]
                block -= p_
                block *= scale[:, None]
                block *= -scale_
                block += 1
                np.clip(block, 0.0, 2.0, out=scores[mine, part])
        return scores

    def shortlist(self) -> Vectors:
        """(q, D + 1) float32: points to search an index with that holds what the function `shortlist` gave."""
        x, z, p, _ = _split(self.rows, self.d)
        slope, level, _ = TANGENTS[self.kernel](x, self.gamma)
        return np.hstack([slope[:, None] * x, -z, _columns(-np.ones_like(p), level - p, np.zeros_like(p))])


def shortlist(rows: Array, *, kernel: str, gamma: float, d: int, length: float | None = None) -> Vectors:
    """Stored rows, (m, D), as (m, D + 1) float32 for any index by inner products or by Euclidean distances.

    Their inner products with `SlemQuery.shortlist` order rows as the scores do, but that the kernel is replaced by its
    tangent where two rows are the same: right for near rows, too low or too high for far ones. So ask for some times k
    and score those exactly. The last column gives all rows the same length, so that the nearest are those with the
    largest inner products; `length` is that length, by default that of the longest of these rows. Rows added later
    should get the same one; a longer row keeps its own length and seems a little farther.
    """
    x, z, p, scale = _split(to_numpy(rows), d)
    _, _, fall = TANGENTS[kernel](x, gamma)
    vectors = scale[:, None] * np.hstack([x, z, _columns(p + fall, np.ones_like(p))])  # (m, D)
    squares = np.vecdot(vectors, vectors)  # (m,)
    most = squares.max(initial=0.0) if length is None else np.float32(length) ** 2
    return np.hstack([vectors, _columns(np.sqrt(np.maximum(most - squares, 0.0)))])


def _columns(*values: Vectors) -> Vectors:
    return np.stack(values, axis=1)


def _split(rows: Vectors, d: int) -> tuple[Vectors, Vectors, Vectors, Vectors]:
    """x (m, d), z (m, R), p (m,) and scale (m,) of stored rows."""
    return rows[:, :d], rows[:, d:-2], rows[:, -2], rows[:, -1]
