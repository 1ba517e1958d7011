"""Hyperplane queries on large collections: score rows of promising leaves from their bytes, the best rows exactly.

The queries are those of Crucianu et al. (fsm-tree), Eq. 3, but without their tree: rows are sorted into leaves, and a
search visits the leaves with the largest expected number of hits, computed from f of the centre of a leaf and from its
spread, the slope of f times the width of the leaf. `leaf_recall` measures how rows are distributed within these
spreads, and where a search can stop.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from math import ceil, inf
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from lookalike.arrays import expand
from lookalike.atomic_files import atomic_write, write_errors
from lookalike.errors import DamagedError, InputError
from lookalike.index.compiled import BLOCK
from lookalike.index.exact import AcceleratedIndex
from lookalike.index.flat import Flat
from lookalike.index.ids import without
from lookalike.index.leaf_codes import MIN_ROWS, Build, LeafCodes, Passed
from lookalike.index.leaf_recall import (
    KINDS,
    NEGATIVE,
    POSITIVE,
    SAMPLE,
    K,
    Recall,
    Sample,
    calibrate,
    expect,
    uncalibrated,
)
from lookalike.index.queries import HyperplaneQuery, Kind, PointQuery, check_search
from lookalike.index.topk import keep_best
from lookalike.types import Hits, Ids, Progress, Query, Vectors, silent

FEW = 5_000
"""A search among fewer rows is a scan, which is exact and as fast."""

ALL = 250_000
"""With fewer rows, all are scored by bytes: it takes a few milliseconds, and hits of a target with few rows are spread
over so many leaves that choosing leaves would miss a third of them."""

SLOPES = {"frontier": 0.4, "maximum": 0.1}
"""Share of the cells, the best by f of their centres, whose spread is computed; the others get the median."""

CLOSER, CLOSER_SHARE = 256, {"frontier": 0.1, "maximum": 0.05}
"""Number, or share if larger, of the most promising cells whose leaves are rated one by one."""

UPWARD = 3.0
"""Expected position of the best rows of a leaf, in spreads above its centre; used to choose the first leaves."""

FIRST, FIRST_SHARE = 32, {"frontier": 0.005, "maximum": 0.002}
"""Number, or share if larger, of the leaves that are visited before the k-th score is known."""

GROWTH = 3
"""Maximum size of a visit relative to all before: each visit corrects the expectation for the next."""

NEGLIGIBLE = 0.1
"""Leaves with a smaller expected number of hits, relative to an even share of the permitted misses, are dropped."""

WRONG = 4.0
"""Maximum factor for correcting expectations."""

SHORT = 4
"""The first shortlist has this many times k rows; their errors determine the size of the second."""

SIGMAS = 4.0
"""Rows within this many standard errors of the k-th score are scored by their vectors."""

TRUTH = 5_000
"""To find the true hits, this many rows with the best scores by bytes are scored by their vectors."""


class Leaves(AcceleratedIndex[Flat]):
    """The rows of a `Flat` as bytes, sorted into leaves: fast for hyperplane queries; other queries are scans.

    A search scans the rows added since `build` and never returns removed rows; `build` makes it fast again. A row takes
    about 1.1 d + 22 bytes, in memory or in a file that is mapped into memory (see `build` and `load`).

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
        super().__init__(Flat())
        self.size = size
        self._codes: LeafCodes | None = None

    @property
    def nbytes(self) -> int:
        """Memory of the leaves in bytes, without the vectors, their ids and a mapped file."""
        return 0 if self._codes is None else self._codes.nbytes

    def build(
        self, truth: Flat | None = None, progress: Progress | None = None, path: str | Path | None = None
    ) -> Self:
        """Sort all rows, or those of another `truth`, into leaves; the result is deterministic.

        With a `path`, the leaves are in this new file, as `save` would write it, and hardly need memory. If this build
        is interrupted or killed, the next one with the same rows and path resumes; `{path}.part` records how far it is.
        Only one process may build into a path at a time.
        """
        if self.size < 16 or self.size % 16:
            raise InputError(f"size must be a multiple of 16, at least 16. Got {self.size}.")
        if truth is not None:
            self.truth, self._codes, self._tail = truth, None, truth.ids
        if len(self) >= MIN_ROWS:
            target, progress = None if path is None else Path(path), progress or silent
            with (
                nullcontext() if target is None else write_errors(target),
                Build(self.truth, self.size, target, progress) as build,
            ):
                self._codes = codes = LeafCodes.build(self.truth, build)
                self._tail = self._tail[:0]
                is_scanned = len(self) < FEW
                codes.recall = uncalibrated(1) if is_scanned else calibrate(_Calibrated(self, codes, build), progress)
                if target is not None:
                    codes.complete(target)
        return self

    @property
    def recall(self) -> dict[str, float] | None:
        """The recall of the efforts "fast" and "balanced", measured by `build`: the lowest over kernels and kinds.

        None if there are no leaves, or if an older version built them.
        """
        return None if self._codes is None else self._codes.recall.lowest()

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """Return the k best hits for this effort: "fast", "balanced" (default), "exact", or a number.

        A number is the share of the leaves to visit: 1 scores every row by its bytes. Queries other than hyperplanes,
        and searches among few rows, are answered by a scan.
        """
        among, exclude = check_search(query, k, among, exclude, effort, self.dim)
        codes = self._codes
        if codes is None or effort == "exact" or not isinstance(query, HyperplaneQuery):
            return self.truth.search(query, k, among=among, exclude=exclude)
        passed = codes.filter(among, exclude)
        if passed.counts.sum() < max(FEW, 2 * k):
            return self.truth.search(query, k, among=among, exclude=exclude)
        visit = _Visit(codes, query, k, passed)
        if effort is None or isinstance(effort, str):
            visit.until(codes.recall.limit(query, effort or "balanced").missed)
        else:
            visit.share(min(1.0, effort))
        places, scores = _shorten(*visit.best(), k, partial(self.score, query))
        ids, scored = codes.ids[places], visit.scored + len(places)
        if len(self._tail):
            tail = self._search_tail(query, k, among, exclude)
            ids, scores = np.concatenate([ids, tail.ids[0]]), np.concatenate([scores, tail.scores[0]])
            scored += tail.scored
        return Hits(*keep_best(ids[None], scores[None], k), scored)

    def score(self, query: HyperplaneQuery, places: Ids) -> Vectors:
        """Return the exact scores of the rows at these places of the leaves, (m,)."""
        assert self._codes is not None
        scores: Vectors = query.score(self.vectors(self._codes.ids[places]))[0]
        return scores

    def save(self, path: str | Path) -> None:
        """Write the leaves, without the vectors, to one file, for `load`."""
        if self._codes is None:
            raise InputError(f"There is nothing to save. Build the index first, with at least {MIN_ROWS} rows.")
        with atomic_write(Path(path)) as part:  # the index may be mapped from the file that it replaces
            self._codes.save(part)

    @classmethod
    def load(cls, path: str | Path, truth: Flat) -> Self:
        """Load saved leaves over the current vectors; vectors can have been added or removed since they were saved."""
        codes = LeafCodes.load(Path(path), truth)
        if truth.dim is not None and len(codes.steps.low) != truth.dim:
            raise DamagedError(
                f"{path} has {len(codes.steps.low)} dimensions, but the vectors have {truth.dim}. Delete it; the"
                " index will be rebuilt."
            )
        index = cls(codes.size)
        index.truth, index._codes = truth, codes
        index._tail = without(truth.ids, codes.known)
        return index

    def _forget(self, ids: Ids) -> None:
        if self._codes is not None:
            self._codes.remove(ids)

    def _n_removed(self) -> int:
        return 0 if self._codes is None else self._codes.removed


class _Calibrated:
    """The parts of `Leaves` that `calibrate` needs."""

    def __init__(self, index: Leaves, codes: LeafCodes, build: Build):
        self.index, self.codes, self.build = index, codes, build

    def draw(self, random: np.random.Generator, *, broad: bool) -> tuple[Vectors, Vectors]:
        """Draw the nearest rows to a random one, or rows of its cell, and random rows of the whole collection."""
        codes, index = self.codes, self.index
        place = int(codes.place[random.integers(len(codes.place))])
        cell = int(np.searchsorted(codes.starts, place // codes.size, side="right")) - 1
        ids = codes.ids[codes.starts[cell] * codes.size : codes.starts[cell + 1] * codes.size]
        ids = random.permutation(ids[ids >= 0])
        if not broad:  # recorded, because the vectors of a cell can be anywhere on the disk
            ids = ids[self.build.once(min(POSITIVE, len(ids)), lambda: self._nearest(place, ids)).astype(np.int64)]
        others = codes.known[random.choice(len(codes.known), min(NEGATIVE, len(codes.known)), replace=False)]
        return index.vectors(ids[:POSITIVE]), index.vectors(others)

    def examine(self, query: HyperplaneQuery) -> dict[Kind, Sample]:
        """Return a sample of each kind; all rows are scored, unless an interrupted build has recorded the result."""
        numbers = self.build.once(
            len(KINDS) * SAMPLE, lambda: np.concatenate([sample.to_numbers() for sample in self._examine(query)])
        )
        rows = zip(KINDS, numbers.reshape(len(KINDS), SAMPLE), strict=True)
        return {kind: Sample.from_numbers(row) for kind, row in rows}

    def scores(self, query: HyperplaneQuery, recall: Recall) -> Vectors:
        """Return the scores of the `K` hits of a search with the effort "balanced" and this calibration."""
        self.codes.recall = recall
        found = self.build.once(K, lambda: self.index.search(query, K).scores[0])
        return found.astype(np.float32)

    def _nearest(self, place: int, ids: Ids) -> Ids:
        """The positions of the ids of the rows that are nearest to the one at this place."""
        query = PointQuery(self.index.vectors(self.codes.ids[[place]]))
        order: Ids = np.argsort(query.score(self.index.vectors(ids))[0])[:POSITIVE]
        return order

    def _examine(self, query: HyperplaneQuery) -> Iterator[Sample]:
        """The sample of each kind."""
        codes = self.codes
        F = codes.f(np.arange(len(codes.counts)), codes.steps.plane(query))  # (leaves, size)
        F[~codes.alive.reshape(F.shape)] = np.nan
        for kind in KINDS:
            asked = query.of_kind(kind)
            visit = _Visit(codes, asked, K, codes.filter())
            groups = visit.groups()
            leaves = groups.leaves()
            f, spread = (np.repeat(each, groups.sizes) for each in (groups.f, groups.spread))  # (leaves,)
            scores = np.nan_to_num(visit.score(F), copy=False, nan=np.inf)
            best = np.argpartition(scores, min(TRUTH, scores.size - 1), axis=None)[:TRUTH]
            truth = self.index.score(asked, best[scores.ravel()[best] < np.inf])
            kth = float(np.partition(truth, K - 1)[K - 1])
            yield Sample.of(kind, kth, scores[leaves], f, spread, codes.counts[leaves])


class _Groups(NamedTuple):
    """Consecutive leaves of the same cell that are rated together, (m,) each: the whole cell, or a single leaf."""

    first: Ids  # the first leaf
    sizes: Ids  # number of leaves
    rows: Ids  # number of rows that pass the filters, at least 1
    f: Vectors  # approximate mean
    spread: Vectors

    def pick(self, some: Ids | slice) -> "_Groups":
        """Some of the groups, in this order."""
        return _Groups(self.first[some], self.sizes[some], self.rows[some], self.f[some], self.spread[some])

    def leaves(self) -> Ids:
        """The leaves of all groups, one group after the other."""
        return expand(self.first, self.sizes)

    def within(self, leaves: int) -> int:
        """The number of groups, from the first on, that together have at most this many leaves; at least 1."""
        return max(1, int(np.searchsorted(np.cumsum(self.sizes), leaves, side="right")))


class _Visit:
    """The state of one search: byte scores of the rows visited so far."""

    def __init__(self, codes: LeafCodes, query: HyperplaneQuery, k: int, passed: Passed):
        self.codes, self.k, self.passed = codes, k, passed
        self.plane, self.kind, self.law = codes.steps.plane(query), query.kind, codes.recall.law(query)
        self.scored = 0
        self._kth = inf  # the k-th best so far
        self._top: Vectors = np.full(k, np.inf, np.float32)  # the k best scores so far
        self._visits: list[tuple[Ids, Vectors]] = []  # leaves (m,), scores (m, size)

    def share(self, share: float) -> None:
        """Visit this share of the leaves, or more if there are fewer than k hits."""
        goal = ceil(share * len(self.passed.counts))
        leaves = np.flatnonzero(self.passed.counts)
        if goal < len(leaves):
            leaves = self._leaves(self._ranked())
        self._visit(leaves[:goal])
        while self._kth == inf and goal < len(leaves):
            self._visit(leaves[goal : goal + FIRST])
            goal += FIRST

    def until(self, missed: float) -> None:
        """Visit leaves, the most promising first, until at most this share of the hits is expected in the others."""
        leaves = np.flatnonzero(self.passed.counts)
        if len(leaves) * self.codes.size <= ALL:
            self._visit(leaves)
            return
        remaining, done, wrong = self._ranked(), 0, 1.0
        goal = remaining.within(max(FIRST, int(FIRST_SHARE[self.kind] * len(leaves))))
        while goal:
            now, remaining = remaining.pick(slice(goal)), remaining.pick(slice(goal, None))
            is_limited = self._kth < inf
            expected = float(self._expected(now).sum()) if is_limited else 0.0
            found = self._visit(self._leaves(now))
            done += int(now.sizes.sum())
            if is_limited:
                wrong = min(max((found + 1) / (expected + 1), 1 / WRONG), WRONG)
            if self._kth < inf:
                remaining, goal = self._promising(remaining, missed, wrong)
                goal = min(goal, remaining.within(GROWTH * done))
            else:
                goal = min(len(remaining.f), remaining.within(done))

    def best(self) -> tuple[Ids, Vectors]:
        """The places and byte scores of the visited rows that can be among the k best."""
        size = self.codes.size
        leaves, rough = (np.concatenate(parts) for parts in zip(*self._visits, strict=True))
        return (leaves[:, None] * size + np.arange(size)).ravel(), rough.ravel()

    def groups(self) -> _Groups:
        """All leaves with rows that pass the filters: those of the most promising cells one by one."""
        codes, counts = self.codes, self.passed.counts
        starts, sizes = codes.starts[:-1], np.diff(codes.starts)
        cells = len(sizes)
        f, spread = self._rate_cells(cells)
        promising = np.argsort(self._merit(f, spread))[: max(CLOSER, ceil(CLOSER_SHARE[self.kind] * cells))]
        promising, others = np.sort(promising), np.delete(np.arange(cells), promising)
        leaves = expand(starts[promising], sizes[promising])
        cell = np.repeat(promising, sizes[promising])
        self.scored += 2 * (cells + len(leaves))
        groups = _Groups(
            np.append(leaves, starts[others]),
            np.append(np.ones_like(leaves), sizes[others]),
            np.append(counts[leaves], np.add.reduceat(counts, starts)[others]),
            np.append(codes.f_centres(leaves, self.plane), f[others]),
            np.append(spread[cell] * codes.narrow[leaves], spread[others]),
        )
        return groups.pick(np.flatnonzero(groups.rows))

    def _rate_cells(self, cells: int) -> tuple[Vectors, Vectors]:
        """Approximate mean and spread of f in each cell, (cells,) each."""
        f = self.codes.cells.f(np.arange(-(-cells // BLOCK)), self.plane)[:cells]
        best = np.argsort(self.score(f))[: ceil(SLOPES[self.kind] * cells)]
        spreads = self.codes.cells.spreads(best, self.plane)
        spread = np.full(cells, np.median(spreads))
        spread[best] = spreads
        return f, spread

    def _ranked(self) -> _Groups:
        """All groups, the most promising first."""
        groups = self.groups()
        return groups.pick(np.argsort(self._merit(groups.f, groups.spread)))

    def _promising(self, groups: _Groups, missed: float, wrong: float) -> tuple[_Groups, int]:
        """The groups in which more than a negligible number of hits is expected, best first, and how many to visit.

        After these visits, at most the share `missed` of the hits is expected in the others. Expected numbers are
        multiplied by `wrong`.
        """
        hits, negligible = wrong * self._expected(groups), NEGLIGIBLE * missed * self.k
        some = np.flatnonzero(hits > negligible * groups.sizes / max(1, groups.sizes.sum()))
        some = some[np.argsort(-hits[some] / groups.rows[some])]
        hits = hits[some]
        rest = hits.sum() - np.cumsum(hits)  # expected in the groups after each
        goal = int(np.searchsorted(-rest, -missed * self.k)) + 1 if hits.sum() > missed * self.k else 0
        return groups.pick(some), min(goal, len(some))

    def _leaves(self, groups: _Groups) -> Ids:
        """The leaves of these groups with rows that pass the filters."""
        leaves = groups.leaves()
        return leaves[self.passed.counts[leaves] > 0]

    def _expected(self, groups: _Groups) -> Vectors:
        """Expected number of rows of each group that are better than the k-th best so far."""
        share = expect(self.law, self.kind, self._kth, groups.f, groups.spread)
        expected: Vectors = (groups.rows * share).astype(np.float32)
        return expected

    def score(self, f: Vectors) -> Vectors:
        """Scores for values of f, smaller is better."""
        return np.abs(f) if self.kind == "frontier" else -f

    def _merit(self, f: Vectors, spread: Vectors) -> Vectors:
        """Rating of leaves, smaller is better, if f is normal with this mean and spread."""
        if self.kind == "frontier":
            return ((f / spread) ** 2 / 2 + np.log(spread)).astype(np.float32)
        return -f - np.float32(UPWARD) * spread

    def _visit(self, leaves: Ids) -> int:
        """Score the rows of these leaves; return how many are better than the previous k-th best."""
        leaves = np.sort(leaves)
        rough = self.score(self.codes.f(leaves, self.plane))  # (m, size)
        self.scored += rough.size
        self.passed.mask(leaves, rough)
        self._visits.append((leaves, rough))
        news = rough[rough < self._kth]
        self._top = np.partition(np.concatenate([self._top, news]), self.k - 1)[: self.k]
        self._kth = float(self._top[self.k - 1])
        return len(news)


def _shorten(places: Ids, rough: Vectors, k: int, better: Callable[[Ids], Vectors]) -> tuple[Ids, Vectors]:
    """Compute better scores of the places that can be among the k best by their rough scores.

    The errors of a first shortlist determine the standard error. A rough score of inf is never a hit.

    >>> places, scores = _shorten(np.arange(9), np.arange(9.0), 1, lambda some: some + 0.1)
    >>> places.tolist(), scores.tolist()
    ([0, 1, 2, 3], [0.1, 1.1, 2.1, 3.1])
    """
    m = SHORT * k
    limit = float(np.partition(rough, m - 1)[m - 1]) if len(rough) > m else inf
    first = rough <= min(limit, float(np.finfo(rough.dtype).max))
    scores = better(places[first])
    spread = np.sqrt(np.mean(np.square(rough[first] - scores)))
    kth = np.partition(scores, k - 1)[k - 1]
    more = places[~first & (rough < np.inf) & (rough - SIGMAS * spread <= kth)]
    return np.concatenate([places[first], more]), np.concatenate([scores, better(more)])
