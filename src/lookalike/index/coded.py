"""Search by codes whose vectors are available: the nearest codes are a shortlist, which is re-ranked by vectors."""

from collections.abc import Callable

import numpy as np

from lookalike.arrays import chunks, to_numpy
from lookalike.index.choice import shortlist_size
from lookalike.index.flat import Flat
from lookalike.index.hamming import Hamming
from lookalike.index.ids import without
from lookalike.index.queries import CodedQuery, PointQuery, check_search
from lookalike.index.topk import TopK, keep_best
from lookalike.types import Hits, Ids, Vectors

ROWS_BYTES = 2**26
"""Size of the vectors that an exact search holds at a time."""


class Coded:
    """An index with a shortlist by codes, re-ranked by vectors. Scores are squared distances of the vectors.

    Parameters
    ----------
    codes : the codes, with ids.
    truth : an index that has a vector for each of these ids.
    finish : the transform from the vectors of `truth` (m, D) to those that are compared (m, d); None = the same.

    Examples
    --------
    >>> from lookalike.codes.hyperplanes import Itq
    >>> X = np.random.default_rng(0).normal(size=(2_000, 16)).astype(np.float32)
    >>> coder, codes, truth = Itq(bits=32).fit(X), Hamming(), Flat()
    >>> codes.add(np.arange(2_000), coder.encode(X))
    >>> truth.add(np.arange(2_000), X)
    >>> hits = Coded(codes, truth).search(CodedQuery(X[7:8], coder.query(X[7:8])), k=1)
    >>> hits.ids, hits.scores
    (array([[7]]), array([[0.]], dtype=float32))

    """

    kind = "hamming"

    def __init__(self, codes: Hamming, truth: Flat, finish: Callable[[Vectors], Vectors] | None = None):
        self.codes = codes
        self.truth = truth
        self._finish = finish
        self._dim: int | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def __contains__(self, item: int) -> bool:
        return item in self.codes

    @property
    def ids(self) -> Ids:
        """The ids of all codes, ascending."""
        return self.codes.ids

    @property
    def dim(self) -> int | None:
        """Dimension d of the vectors; None until the first `add`."""
        if self._dim is None and len(self):  # cached, because listing all ids takes longer than comparing all codes
            self._dim = int(self.vectors(self.ids[:1]).shape[1])
        return self._dim

    def over(self, codes: Hamming, truth: Flat) -> "Coded":
        """Return an index over other indexes of the same codes and vectors."""
        return Coded(codes, truth, self._finish)

    def vectors(self, ids: Ids) -> Vectors:
        """The vectors, not the codes, of these ids, (m, d) float32."""
        rows = self.truth.vectors(ids)
        return rows if self._finish is None else to_numpy(self._finish(rows))

    def search(
        self,
        query: CodedQuery,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """Return the k best of a shortlist by codes (see `shortlist_size`), or of all rows with effort="exact".

        `scored` counts the compared codes and vectors.
        """
        among, exclude = check_search(query, k, among, exclude, effort, self.dim)
        size = len(self) if effort == "exact" else shortlist_size(k, effort)
        if size >= len(self if among is None else among):
            return self._scan(query, k, self._allowed(among, exclude))
        near = self.codes.search(query.codes, size, among=among, exclude=exclude)
        ids: list[Ids] = []
        scores: list[Vectors] = []
        scored = near.scored
        for row, proposed in enumerate(near.ids):
            proposed = proposed[proposed >= 0]
            best = TopK(1, k)
            exact = query.score_pairs(self.vectors(proposed), np.full(len(proposed), row))  # (s,)
            best.add(exact[None], proposed)
            row_ids, row_scores = best.result()  # (1, k) each
            ids.append(row_ids)
            scores.append(row_scores)
            scored += len(proposed)
        return Hits(np.concatenate(ids), np.concatenate(scores), scored)

    def _allowed(self, among: Ids | None, exclude: Ids | None) -> Ids:
        """The ids that pass the filters, ascending."""
        ids = self.ids if among is None else np.intersect1d(among, self.ids, assume_unique=True)
        return ids if exclude is None else without(ids, exclude)

    def _scan(self, query: CodedQuery, k: int, allowed: Ids) -> Hits:
        """The k best of these ids, by comparing all their vectors."""
        points, q = PointQuery(query.vectors), len(query.vectors)
        if self._finish is None:
            among = None if len(allowed) == len(self.truth) else allowed
            return self.truth.search(points, k, among=among, effort="exact")
        ids, scores = np.full((q, k), -1, np.int64), np.full((q, k), np.inf, np.float32)
        for part in chunks(len(allowed), row_bytes=8 * (self.truth.dim or 1), max_bytes=ROWS_BYTES):
            flat = Flat()
            flat.add(allowed[part], self.vectors(allowed[part]))
            found = flat.search(points, k)
            ids, scores = keep_best(np.hstack([ids, found.ids]), np.hstack([scores, found.scores]), k)
        return Hits(ids, scores, q * len(allowed))
