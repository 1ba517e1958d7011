"""Items of many rows each, several at a time: of like size, so that their products are those of one batch.

In: where the rows of each item start. Out: groups of items, with the numbers of their rows, filled up to one length.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import held_bytes, like, namespace
from lookalike.types import Array


class ItemGroup:
    """c items of at most m rows each.

    Parameters
    ----------
    items : their numbers; a slice where they follow each other and are of one size.
    starts, sizes : (c,), where the rows of each start, and how many they are, the most last.
    X : an array of the kind that `take` will be given.
    """

    def __init__(self, items: Any, starts: NDArray[np.int64], sizes: NDArray[np.int64], X: Array):
        m = int(sizes[-1])
        self.items, self.shape = items, (len(sizes), m)
        self._rows: Any = slice(int(starts[0]), int(starts[0]) + len(sizes) * m)
        self.even = isinstance(items, slice)
        self.sizes: Any = float(m)  # of each row's item
        self.shares: Any = 1.0 / m  # of each row in its item
        if not self.even:  # an item's last row stands for those it lacks, with a share of none
            xp, there = namespace(X), np.arange(m) < sizes[:, None]  # (c, m)
            self._rows = like(X, (starts[:, None] + np.minimum(np.arange(m), sizes[:, None] - 1)).ravel())
            self.sizes = xp.astype(like(X, np.repeat(sizes, m)), X.dtype)  # (c · m,)
            self.shares = xp.astype(like(X, (there / sizes[:, None]).ravel()), X.dtype)

    def take(self, rows: Array) -> Array:
        """The rows of all its items, (c · m, d)."""
        return rows[self._rows, :]

    def split(self, values: Array) -> Array:
        """A view of values (k, c · m) by item, (c, k, m)."""
        xp = namespace(values)
        return xp.permute_dims(xp.reshape(values, (values.shape[0], *self.shape)), (1, 0, 2))


def group_rows(starts: NDArray[np.int64], row_bytes: int, item_bytes: int, X: Array) -> Iterator[ItemGroup]:
    """Groups that cover all items, of a good size for what takes so many bytes a row and an item, X their kind.

    >>> X = np.arange(5.0).reshape(5, 1)
    >>> [(group.items, group.take(X).ravel().tolist()) for group in group_rows(np.array([0, 3, 5]), 1, 1, X)]
    [(array([1, 0]), [3.0, 4.0, 4.0, 0.0, 1.0, 2.0])]
    """
    sizes = np.diff(starts)
    if not len(sizes):
        return
    even = bool((sizes == sizes[0]).all())
    order = np.arange(len(sizes)) if even else np.argsort(sizes, kind="stable")
    costs = sizes[order] * row_bytes + item_bytes
    most, begin = held_bytes(X), 0
    while begin < len(order):
        # The longest of a group is its last, and all are filled up to it.
        together = np.arange(1, len(order) - begin + 1) * costs[begin:]
        chosen = order[begin : begin + max(1, int(np.searchsorted(together, most, side="right")))]
        items = slice(begin, begin + len(chosen)) if even else like(X, chosen)
        yield ItemGroup(items, starts[:-1][chosen], sizes[chosen], X)
        begin += len(chosen)
