"""Hyperplane queries on large collections: leaves of like rows as bytes, the promising ones scored, the best re-scored.

In: ids (n,) and rows X (n, d), kept where they are in a `Flat`, and queries. Out: `Hits`, with exact scores.
Queries of Crucianu et al. (fsm-tree), Eq. 3; not their tree: a leaf is visited by how many answers it should hold.
"""

from pathlib import Path
from typing import Self

import numpy as np

from lookalike.errors import DamagedError, InputError, StoreError
from lookalike.index.beside import Beside
from lookalike.index.flat import Flat, check_search
from lookalike.index.hyperplane import HyperplaneQuery
from lookalike.index.ids import sort_ids, without
from lookalike.index.leaf_codes import MIN_ROWS, LeafCodes
from lookalike.index.leaf_visit import Visit, shorten
from lookalike.types import Hits, Ids, Progress, Query, Vectors, silent

EFFORTS: dict[str, tuple[float, int]] = {"fast": (0.1, 250_000), "balanced": (0.03, 1_000_000)}
"""What an effort means: the search ends when no larger share of the answers is expected where it has not been, or when
it has been at so many rows. Of the frontier of a large collection some are as good as others."""

FEW = 5_000
"""A search among fewer rows looks at each of them: exact, and as fast."""


class Leaves(Beside):
    """A `Flat` with its rows as bytes beside it, sorted into leaves: answers hyperplane queries, others as `Flat` does.

    What was added since `build` is looked at row by row and what was removed is never an answer; `build` makes the
    search fast again. In memory a row takes d + 30 bytes or so.

    Parameters
    ----------
    size : rows of a leaf, a multiple of 16

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(2_000, 8)).astype(np.float32)
    >>> index = Leaves()
    >>> index.add(np.arange(2_000), X)
    >>> query = HyperplaneQuery(X[:2], [1.0, -1.0], 0.0, kernel="laplace", kind="maximum")
    >>> index.build().search(query, k=1).ids
    array([[0]])

    """

    def __init__(self, size: int = 64):
        super().__init__()
        self.size = size
        self._codes: LeafCodes | None = None

    @property
    def nbytes(self) -> int:
        """What the leaves hold in memory, without the vectors and their table of ids."""
        return 0 if self._codes is None else self._codes.nbytes

    def build(self, truth: Flat | None = None, progress: Progress | None = None) -> Self:
        """Sort all rows, of another `truth` where one is given, into leaves; the same leaves for the same rows."""
        if self.size < 16 or self.size % 16:
            raise InputError(f"size must be a multiple of 16, at least 16. Got {self.size}.")
        if truth is not None:
            self.truth, self._codes, self._tail = truth, None, truth.ids
        if len(self) >= MIN_ROWS:
            self._codes = LeafCodes.build(self.truth, self.size, progress or silent)
            self._tail = self._tail[:0]
        return self

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """The k best, as far as `effort` goes: "fast", "balanced" (None), "exact", or a number.

        A number is the share of the leaves that may be visited, at most: 1 scores every row as bytes. Queries other
        than hyperplanes, and searches among few rows, are answered by looking at each row.
        """
        check_search(query, k, effort, self.dim)
        among = None if among is None else sort_ids(among, "among")
        exclude = None if exclude is None else sort_ids(exclude, "exclude")
        codes = self._codes
        if codes is None or effort == "exact" or not isinstance(query, HyperplaneQuery):
            return self.truth.search(query, k, among=among, exclude=exclude)
        keep, counts = codes.keep(*(None if ids is None else self.truth.rows(ids) for ids in (among, exclude)))
        if counts.sum() < max(FEW, 2 * k):
            return self.truth.search(query, k, among=among, exclude=exclude)
        visit = Visit(codes, query, k, keep, counts)
        if effort is None or isinstance(effort, str):
            visit.until(*EFFORTS[effort or "balanced"])
        else:
            visit.share(min(1.0, effort))
        ids = codes.ids

        def exact(places: Ids) -> Vectors:
            scores: Vectors = query.score(self.vectors(ids[places]))[0]
            return scores

        places, scores = shorten(*visit.best(), None, k, exact)
        ids, scored = ids[places], visit.scored + len(places)
        if len(self._tail):
            tail = self._tail if among is None else np.intersect1d(self._tail, among, assume_unique=True)
            news = self.truth.search(query, k, among=tail, exclude=exclude)
            ids, scores = np.concatenate([ids, news.ids[0]]), np.concatenate([scores, news.scores[0]])
            scored += news.scored
        best = np.lexsort((ids, scores))[:k]
        return Hits(ids[best][None, :], scores[best][None, :], scored)

    def save(self, path: str | Path) -> None:
        """Write the leaves to one file, for `load`. The vectors are not in it."""
        if self._codes is None:
            raise InputError(f"There is nothing to save: build the index first, over at least {MIN_ROWS} rows.")
        try:
            self._codes.save(Path(path))
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error}. Is there room on the disk?") from error

    @classmethod
    def load(cls, path: str | Path, truth: Flat) -> Self:
        """Saved leaves over the vectors as they are now, with whatever was added and removed since."""
        codes = LeafCodes.load(Path(path), truth)
        if truth.dim is not None and len(codes.steps.low) != truth.dim:
            raise DamagedError(
                f"{path} is for {len(codes.steps.low)} dimensions, the vectors have {truth.dim}. Delete it."
            )
        index = cls(codes.size)
        index.truth, index._codes = truth, codes
        index._tail = without(truth.ids, np.sort(codes.ids[codes.alive]))
        return index

    def _forget(self, ids: Ids) -> None:
        if self._codes is not None:
            self._codes.remove(self.truth.rows(ids))

    def _n_removed(self) -> int:
        return 0 if self._codes is None else self._codes.removed
