"""Which rows make a batch of triplets: many of one class, the rest of the others.

In: the class of each row, and what a query's targets are. Out: row numbers, those of the class first, and the loss
of such a batch. Mensink et al. 2013 (ncm), §4.1 and §4.2.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, check_rows, chunks, like, namespace
from lookalike.learn.sgd import Rows
from lookalike.learn.triplets import Targets, triplet_loss
from lookalike.types import Array

POSITIVES = 2 / 3
"""The share ρ of a batch that is of the queries' class: it makes the most triplets of a batch (Eq. 38)."""


class TripletBatches:
    """Draws batches and has their loss.

    Parameters
    ----------
    codes : (n,) the class of each row, from 0; at least two classes, one with at least two rows.
    targets : None, all rows of a query's class in the batch; a number k, the k nearest of them by W; (n, k) row
        numbers, -1 where there is none, those of them that are in the batch.
    batch : rows of a batch, at least 3.

    """

    def __init__(self, codes: NDArray[np.int64], targets: Targets, batch: int = 300):
        self.codes, self.targets = codes, targets
        self.most = max(2, round(POSITIVES * batch))
        self.others = max(1, batch - self.most)
        self.counts = np.bincount(codes)
        self.starts = np.cumsum(self.counts) - self.counts
        self.order = np.argsort(codes, kind="stable")  # class by class
        self.able = np.flatnonzero(self.counts >= 2)  # a class of one row has no pair

    def draw(self, random: np.random.Generator) -> NDArray[np.int64]:
        """Row numbers (m,): of one class, all as likely, then of the others; sorted in each of the two parts."""
        c = random.choice(self.able)
        start, count = self.starts[c], self.counts[c]
        rows = self.order[start : start + count]
        some = random.permutation(count)[: self.most]
        if self.targets is None or isinstance(self.targets, int):
            positives = rows[some]
        else:
            positives = self._with_targets(rows[some])
        far = random.choice(len(self.codes) - count, min(self.others, len(self.codes) - count), replace=False)
        negatives = self.order[np.where(far < start, far, far + count)]
        return np.concatenate([np.sort(positives), np.sort(negatives)])

    def step(self, W: Array, X: Array, numbers: Array) -> tuple[Any, Array]:
        """The loss of a batch and the gradient to descend: the mean over the triplets that have a loss."""
        codes = self.codes[as_numpy(numbers)]
        q = int(np.count_nonzero(codes == codes[0]))
        loss, gradient, active = triplet_loss(W, X, q, self._places(numbers[:q]))
        xp = namespace(active)
        return loss, gradient / xp.where(active > 0, active, xp.ones_like(active))

    def _with_targets(self, queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """As many of these queries, with their targets, as there is room for; at least one of them."""
        table: Any = self.targets
        together = np.concatenate([queries[:, None], table[queries]], axis=1)  # (q, 1 + k)
        first = np.unique(together, return_index=True)[1] // together.shape[1]  # with which query each row comes
        seen = np.cumsum(np.bincount(first, minlength=len(queries)))  # one too many where a target is missing: -1
        rows = np.unique(together[: max(1, int(np.searchsorted(seen, self.most, side="right")))])
        return rows[rows >= 0]

    def _places(self, numbers: Array) -> Targets:
        """Where in a batch each query's targets are, for `triplet_loss`."""
        if self.targets is None or isinstance(self.targets, int):
            return self.targets
        own = as_numpy(numbers)
        wanted = self.targets[own]  # (q, k)
        place = np.minimum(np.searchsorted(own, wanted), len(own) - 1)
        return like(numbers, np.where(own[place] == wanted, place, -1))


def nearest_of_class(X: Rows, codes: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The k rows of its own class that are nearest to each row by ℓ2, (n, k), -1 where the class has fewer others.

    The rows of a class are held one class at a time.
    """
    found = np.full((len(codes), k), -1, np.int64)
    for c in range(int(codes.max()) + 1):
        members = np.flatnonzero(codes == c)
        few = min(k, len(members) - 1)
        if few < 1:
            continue
        rows = check_rows(X[members])
        xp = namespace(rows)
        rows = rows - xp.mean(rows, axis=0)
        squares = xp.vecdot(rows, rows)  # (m,)
        for part in chunks(len(members), row_bytes=16 * len(members)):
            distances = as_numpy(squares[part, None] + squares - 2 * (rows[part] @ rows.T))  # (p, m)
            distances[np.arange(len(distances)), np.arange(part.start, part.stop)] = np.inf  # not itself
            near = np.argpartition(distances, few - 1, axis=1)[:, :few]
            found[members[part], :few] = members[near]
    return found
