"""Search by codes: those that are nearest are a shortlist, and the vectors themselves put it in order.

In: codes with ids in a `Hamming`, the index that has the vectors, and `CodedQuery`s. Out: `Hits`, scores as by the
vectors, squared distances. An exact search looks at every vector, and at no code.
"""

from collections.abc import Callable

import numpy as np

from lookalike.arrays import chunks, to_numpy
from lookalike.index.flat import Flat, check_search
from lookalike.index.hamming import Hamming
from lookalike.index.ids import sort_ids, without
from lookalike.index.queries import PointQuery
from lookalike.index.topk import TopK
from lookalike.types import Array, Hits, Ids, Query, Vectors

TIMES = {"fast": 4, "balanced": 20}
"""What an effort means: so many times k are proposed by their codes and scored exactly. A number may stand for a name.
"""

PLUS = 100
"""Proposals on top of that."""

ROWS_BYTES = 2**26
"""Vectors that an exact search holds at a time."""


class CodedQuery(PointQuery):
    """What is nearest to points, and how to ask codes for it.

    Parameters
    ----------
    vectors : (q, d) array, one point a row
    codes : what the coder of the codes would ask for these points
    """

    def __init__(self, vectors: Array, codes: Query):
        super().__init__(vectors)
        self.codes = codes


class Coded:
    """Codes that propose, vectors that decide.

    Parameters
    ----------
    codes : the codes, with ids.
    truth : an index that has a vector for each of these ids.
    finish : what makes of its vectors those that count, rows (m, D) to (m, d); None where they are the same.

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
        """d, once something was added."""
        if self._dim is None and len(self):  # asked once: to list all ids takes longer than to compare all codes
            self._dim = int(self.vectors(self.ids[:1]).shape[1])
        return self._dim

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
        """The k best of a shortlist by codes, `TIMES` k and `PLUS`; of all with effort="exact", or where these are all.

        `scored` counts codes that were compared and vectors that were scored.
        """
        check_search(query, k, effort, self.dim)
        among = None if among is None else sort_ids(among, "among")
        exclude = None if exclude is None else sort_ids(exclude, "exclude")
        times = TIMES.get(effort or "balanced") if isinstance(effort, str | None) else effort
        size = len(self) if times is None else int(times * k) + PLUS
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
        """The ids that may be answers, ascending."""
        ids = self.ids if among is None else np.intersect1d(among, self.ids, assume_unique=True)
        return ids if exclude is None else without(ids, exclude)

    def _scan(self, query: CodedQuery, k: int, allowed: Ids) -> Hits:
        """The k best of these ids by their vectors, each looked at; part by part, where they must be finished first."""
        points, q = PointQuery(query.vectors), len(query.vectors)
        if self._finish is None:
            among = None if len(allowed) == len(self.truth) else allowed
            return self.truth.search(points, k, among=among, effort="exact")
        ids, scores = np.full((q, k), -1, np.int64), np.full((q, k), np.inf, np.float32)
        for part in chunks(len(allowed), row_bytes=8 * (self.truth.dim or 1), max_bytes=ROWS_BYTES):
            flat = Flat()
            flat.add(allowed[part], self.vectors(allowed[part]))
            news = flat.search(points, k)
            ids, scores = np.hstack([ids, news.ids]), np.hstack([scores, news.scores])  # (q, 2k)
            best = np.lexsort((ids, scores))[:, :k]
            ids, scores = np.take_along_axis(ids, best, 1), np.take_along_axis(scores, best, 1)
        return Hits(ids, scores, q * len(allowed))
