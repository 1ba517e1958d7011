"""Exact search over long codes by tables of their parts: quick where the answers are near.

In: ids (n,) and codes (n, bits / 8) uint8, and queries. Out: `Hits`, as `Hamming` gives them. Norouzi, Punjani & Fleet,
"Fast exact search in Hamming space with multi-index hashing", IEEE TPAMI 2014: a code that differs in few bits differs
in fewer still in one of its parts, so few entries of each part's table have to be looked at (§3).
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.codes.bits import to_words
from lookalike.codes.queries import CodeQuery
from lookalike.errors import InputError
from lookalike.index import threads
from lookalike.index.flat import check_search
from lookalike.index.hamming import Hamming
from lookalike.index.ids import sort_ids
from lookalike.index.multi_hash_probe import CHUNK, masks, probe
from lookalike.types import Array, Hits, Ids, Progress, Query

PAYS = 8
"""A query is given up to the scan when it would take more rows than the scan has words, over this. Going through tables
costs three or four times as much a row as the scan a word, so that giving up costs half a scan, at most."""
MIN_ROWS = 10_000
"""Fewer rows are scanned in no time."""


class Tables(NamedTuple):
    """The rows by the value of each of their parts."""

    order: NDArray[np.int32]  # (parts, n) rows, sorted by the value of the part
    keys: NDArray[np.uint64]  # (parts, n) the word of 64 bits that the part is of, in the same order
    starts: NDArray[np.int32]  # (parts, 2**16 + 1) where each value begins
    n: int  # rows that were there when they were built


class MultiHash:
    """Tables over the codes of a `Hamming`, 2 bytes a part; each query is given up to a scan once that is cheaper.

    What was added since `build` is scanned, what was removed is never an answer: exact at any time. Queries whose k-th
    answer differs in many bits are the scan's: see `benchmarks/hamming_speed.py`.

    Examples
    --------
    >>> codes = np.random.default_rng(0).integers(0, 256, (20_000, 16), np.uint8)
    >>> index = MultiHash()
    >>> index.add(np.arange(20_000), codes)
    >>> hits = index.build().search(CodeQuery(codes[7:8]), k=1)
    >>> hits.ids, hits.scored < 20_000
    (array([[7]]), True)

    """

    codes = True  # rows are packed bits

    def __init__(self) -> None:
        self.truth = Hamming()
        self._tables: Tables | None = None

    def __len__(self) -> int:
        return len(self.truth)

    def __contains__(self, item: int) -> bool:
        return item in self.truth

    @property
    def dim(self) -> int | None:
        """Bytes of a code, once something was added."""
        return self.truth.dim

    @property
    def ids(self) -> Ids:
        """The ids of all codes, ascending."""
        return self.truth.ids

    @property
    def stale(self) -> float:
        """The share of rows that were added since `build`; 1 before it."""
        n = self.truth.blocks.n
        return 1 - (self._tables.n if self._tables else 0) / max(1, n)

    def add(self, ids: Ids, X: Array) -> None:
        """Add codes X (n, bytes) under new ids (n,)."""
        self.truth.add(ids, X)

    def remove(self, ids: Ids) -> int:
        """Forget these ids; returns how many of them were there."""
        return self.truth.remove(ids)

    def vectors(self, ids: Ids) -> Array:
        """The codes of these ids, (m, bytes)."""
        return self.truth.vectors(ids)

    def build(self, truth: Hamming | None = None, progress: Progress | None = None) -> Self:
        """Sort all rows, of another `truth` where one is given, by each of their parts: 12 bytes a row and part."""
        if truth is not None:
            self.truth, self._tables = truth, None
        blocks = self.truth.blocks
        if blocks.n < MIN_ROWS or blocks.dim is None:
            return self
        if blocks.n >= 2**31:
            raise InputError(f"Tables hold up to {2**31 - 1} codes. Got {blocks.n}; use Hamming.")
        parts = -(-blocks.dim // 2)
        order, keys = np.empty((parts, blocks.n), np.int32), np.empty((parts, blocks.n), np.uint64)
        starts = np.zeros((parts, 2**CHUNK + 1), np.int32)
        for part in range(parts):
            if progress is not None:
                progress("indexing", part, parts)
            words = blocks.words[:, part // 4].reshape(-1)[: blocks.n]
            values = (words >> np.uint64(CHUNK * (part % 4))).astype(np.uint16)
            order[part] = np.argsort(values, kind="stable")  # by digits: as many steps as rows
            keys[part] = words[order[part]]
            np.cumsum(np.bincount(values, minlength=2**CHUNK), out=starts[part, 1:])
        self._tables = Tables(order, keys, starts, blocks.n)
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
        """The k best, exactly, whatever the effort; `scored` counts the codes that were compared.

        Weighted queries, and searches among given ids, are answered as `Hamming` answers them.
        """
        check_search(query, k, effort, self.dim)
        among = None if among is None else sort_ids(among, "among")
        exclude = None if exclude is None else sort_ids(exclude, "exclude")
        asked: object = query
        tables = self._tables
        if tables is None or among is not None or not isinstance(asked, CodeQuery) or asked.weights is not None:
            return self.truth.search_sorted(query, k, among, exclude)
        ids, distances, scored = self._probe(tables, asked, k, exclude)
        left = np.flatnonzero(scored < 0)
        total = int(scored[scored > 0].sum())
        tail = np.arange(tables.n, self.truth.blocks.n)
        tail = tail[self.truth.kept(exclude)[tail]]
        if len(tail) and len(left) < len(ids):
            news = self.truth.pick(query, k, tail)
            ids, distances = np.hstack([ids, news.ids]), np.hstack([distances, news.scores])
            unused = ids < 0
            best = np.lexsort((np.where(unused, 2**63 - 1, ids), distances))[:, :k]
            ids, distances = np.take_along_axis(ids, best, axis=1), np.take_along_axis(distances, best, axis=1)
            total += news.scored
        if len(left):
            scan = self.truth.search_sorted(CodeQuery(asked.codes[left]), k, None, exclude)
            ids[left], distances[left] = scan.ids, scan.scores
            total += scan.scored
        return Hits(ids, distances, total)

    def _probe(
        self, tables: Tables, query: CodeQuery, k: int, exclude: Ids | None
    ) -> tuple[Ids, NDArray[np.float32], NDArray[np.int64]]:
        """Ids (q, k), distances (q, k), and how many rows each query was compared with, (q,): -1 where it gave up."""
        blocks, q = self.truth.blocks, len(query.codes)
        keep = self.truth.kept(exclude)
        words = to_words(query.codes)
        cores = max(1.0, threads.CORES / max(1, q))  # that a scan has for one query
        budget = int(tables.n * words.shape[1] / PAYS / cores)
        ids, distances = np.full((q, k), -1, np.int64), np.full((q, k), np.inf, np.float32)
        scored = np.empty(q, np.int64)

        def work(start: int, stop: int) -> None:
            size = min(k, tables.n)
            near, found = np.empty(size, np.int32), np.empty(size, np.int64)
            for j in range(start, stop):
                held, scored[j] = probe(
                    blocks.words, blocks.ids, keep, *tables[:3], words[j], *masks(), budget, near, found
                )
                best = np.lexsort((found[:held], near[:held]))
                ids[j, :held], distances[j, :held] = found[best], near[best]

        threads.share(work, q)
        return ids, distances, scored
