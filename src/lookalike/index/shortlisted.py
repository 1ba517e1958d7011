"""Approximate search among kernel SLEM's rows: an inner-product shortlist, then the exact scores.

In: ids (n,) and rows (n, D) as `KernelSlem.transform` gives them, kept in a `Flat`, and `SlemQuery`s. Out: `Hits`, with
exact scores. faiss proposes some times k by the tangent of the kernel (`KernelSlem.shortlist`).
"""

from typing import Any, Protocol, Self

import numpy as np

from lookalike.arrays import chunks, to_numpy, unit_rows
from lookalike.encode.kernel_slem import SlemQuery
from lookalike.index.ann import BREADTHS, Ann
from lookalike.index.flat import Flat
from lookalike.index.recall import measure
from lookalike.types import Array, Ids, Progress, Query, Vectors

TIMES = {"fast": 4, "balanced": 20}
"""What an effort means: so many times k are proposed and scored exactly. A number may stand for a name."""

PLUS = 100
"""Proposals on top of that."""

FAR = 3.0
"""The length of a point that is searched with, rows having length one: the larger, the less the rounding of rows counts
beside their inner products with it."""


class Encoder(Protocol):
    """What made the rows; a `KernelSlem` is one."""

    def shortlist(self, rows: Array, length: float | None = None) -> Vectors:
        """Rows (m, D) as (m, D + 1) for Euclidean distance."""
        ...

    def compare(self, rows: Array) -> SlemQuery:
        """What is nearest to rows (q, D)."""
        ...


class Shortlisted(Ann):
    """A structure of faiss over what stands for kernel SLEM's rows; the rows themselves decide.

    As `Ann` in all else: what was added since `build` is looked at row by row, filters decide inside. `build` starts
    anew each time, since all that is in one structure must have been brought to one length. Several examples weighed
    against each other are answered by the scan: far from every one of them the tangent says little.

    Examples
    --------
    >>> from lookalike.encode.kernel_slem import KernelSlem
    >>> X = np.random.default_rng(0).normal(size=(2_000, 8))
    >>> slem = KernelSlem(gamma=0.1, rank=16).fit(X[:200])
    >>> index = Shortlisted("hnsw")
    >>> index.add(np.arange(2_000), slem.transform(X))
    >>> index.build(encoder=slem).search(slem.query(X[7:8]), k=1).ids
    array([[7]])

    """

    extra = 1
    _encoder: Encoder | None = None
    _length = 0.0

    def build(
        self, truth: Flat | None = None, progress: Progress | None = None, encoder: Encoder | None = None
    ) -> Self:
        """Build the structure anew, over another `truth` where one is given; without an `encoder` nothing is built."""
        truth = self.truth if truth is None else truth
        if encoder is None:
            self.truth, self._structure, self._tail = truth, None, truth.ids
            return self
        lengths = [float(np.finfo(np.float32).tiny)]
        for part in chunks(len(truth), row_bytes=12 * (truth.dim or 1)):
            rows = encoder.shortlist(truth.vectors(truth.ids[part]))  # all of one length, that of the longest
            lengths.append(float(np.linalg.norm(rows[0])))
        self._encoder, self._length = encoder, max(lengths)
        return super().build(truth, progress)

    def recall(self, encoder: Encoder, effort: float | str | None = None) -> float:
        """The share of the K nearest others that a search finds, of rows spread over the index, 0 to 1."""
        return measure(self, encoder.compare, effort)

    def _encoded(self, ids: Ids) -> Vectors:
        """All of length one."""
        assert self._encoder is not None
        return self._encoder.shortlist(self.vectors(ids), self._length) / np.float32(self._length)

    def _points(self, query: Query) -> Vectors | None:
        return FAR * to_numpy(unit_rows(query.shortlist())) if isinstance(query, SlemQuery) else None  # (q, D + 1)

    def _plan(self, k: int, effort: float | str | None) -> tuple[int, float]:
        times = TIMES[effort or "balanced"] if isinstance(effort, str | None) else effort
        name = effort if isinstance(effort, str) else "balanced"
        return int(times * k) + PLUS, BREADTHS[self.kind][name]

    def _scores(self, query: Any, positions: Ids) -> Vectors:
        """Exact scores of proposed positions (q, s), (q, s); of any row where there is none."""
        asked = [SlemQuery(row[None], kernel=query.kernel, gamma=query.gamma, d=query.d) for row in query.rows]
        scores = np.empty(positions.shape, np.float32)
        for one, places, out in zip(asked, positions, scores, strict=True):
            for X, local, where in self.truth.find(self._rows[places]):
                out[where] = one.score(np.asarray(X[local], np.float32))[0]
        return scores
