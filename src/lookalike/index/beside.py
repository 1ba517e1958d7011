"""An index that keeps a structure beside a `Flat`: what all of them do alike.

In: ids (n,) and rows X (n, d). Out: the bookkeeping of what came and went since the structure was built. A structure
only proposes: the `Flat`, `truth`, holds the vectors and decides, so answers are right whatever the structure lacks.
"""

from abc import ABC, abstractmethod
from copy import copy
from typing import Self

import numpy as np

from lookalike.index.flat import Flat
from lookalike.index.ids import check_ids, sort_ids, without
from lookalike.types import Ids, Vectors


class Beside(ABC):
    """A `Flat`, and what a structure over it lacks. Subclasses have the structure, `build` and `search`."""

    def __init__(self) -> None:
        self.truth = Flat()
        self._tail: Ids = np.empty(0, np.int64)  # what the structure lacks, ascending

    def __len__(self) -> int:
        return len(self.truth)

    def __contains__(self, item: int) -> bool:
        return item in self.truth

    @property
    def dim(self) -> int | None:
        """d, once something was added."""
        return self.truth.dim

    @property
    def ids(self) -> Ids:
        """The ids of all vectors, ascending."""
        return self.truth.ids

    @property
    def stale(self) -> float:
        """The share of rows that were added or removed since `build`; 1 before it."""
        removed = self._n_removed()
        return (len(self._tail) + removed) / max(1, len(self) + removed)

    def add(self, ids: Ids, X: Vectors) -> None:
        """Add rows X (n, d) under new ids (n,); see `Flat.add`."""
        self.truth.add(ids, X)
        self._tail = np.sort(np.concatenate([self._tail, check_ids(ids)]))

    def remove(self, ids: Ids) -> int:
        """Forget these ids; returns how many of them were there."""
        ids = sort_ids(ids)
        self._tail = without(self._tail, ids)
        self._forget(ids)
        return self.truth.remove(ids)

    def over(self, truth: Flat) -> Self:
        """The same structure over vectors that have grown since; this index goes on answering as it did.

        `truth` extends this one's (see `Flat.extends`); what it has more is looked at row by row. The structure is
        shared: nothing may be removed from either.
        """
        grown = copy(self)
        grown.truth, grown._tail = truth, np.sort(np.concatenate([self._tail, without(truth.ids, self.truth.ids)]))
        return grown

    def vectors(self, ids: Ids) -> Vectors:
        """The rows of these ids, (m, d) float32."""
        return self.truth.vectors(ids)

    @abstractmethod
    def _forget(self, ids: Ids) -> None:
        """These ids, ascending, are no answers any more; some may be unknown. The truth has them still."""

    @abstractmethod
    def _n_removed(self) -> int:
        """How many rows of the structure are no longer there."""
