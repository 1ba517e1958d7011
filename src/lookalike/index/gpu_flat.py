"""`GpuFlat`: exact search on a GPU, for points and hyperplanes of every kernel.

A search has three stages. One pass over the rows in half precision, on the device, gives approximate scores with a
bound of their error. The rows that can be hits in spite of the error are scored in float64, still on the device. The
few that are left are scored by `Flat` from the original vectors, so ids and scores are those of `Flat`.
"""

import threading
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.index.exact import AcceleratedIndex
from lookalike.index.flat import Flat
from lookalike.index.gpu_scores import (
    MULTIPLE,
    TILE,
    Extent,
    Plan,
    Tensors,
    exact_error,
    exact_scores,
    rough_scores,
    tie,
)
from lookalike.index.ids import without
from lookalike.index.queries import PointQuery, check_search
from lookalike.types import Array, Hits, Ids, Query

BLOCK_BYTES = 2**30
"""Size of the rows of a block on the device, and of the buffers for blocks in host memory."""

SCORE_BYTES = 2 * 2**30
"""Size of the approximate scores of the points that share a pass over the rows."""

STEP_BYTES = 256 * 2**20
"""Size of the rows that are converted, or scored in float64, at a time."""

FREE_SHARE = 0.8
"""Share of the free memory of the device that rows can take; the rest is for scores and other programs."""

SAMPLE = 4_096
"""Number of rows that determine the scale."""

GROUP = 256
"""Rows whose smallest score is computed first, to find the best rows among many."""

SPARSE = 32
"""Filters that admit less than one row in this many skip the pass over all rows."""

FAR, FAR_MOST = 4.0, 1_024
"""Rows longer than this many times the median length are scored by `Flat`, at most this many per block. Otherwise, one
long row would increase the error bound of all rows."""

TIED = 4
"""If more than one row in this many is a candidate, because most scores are equal, `Flat` scores all rows."""

DIRECT = 512
"""Up to this many candidates go directly to `Flat`."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """Consecutive rows in tiles, on the device or in host memory; never changed, so indexes can share them."""

    start: int  # the number of the first row
    n: int
    X: torch.Tensor  # (tiles, D, TILE) float16: the rows times the scale, padded with zeros
    squares: torch.Tensor  # (tiles · TILE,) float32, always on the device
    extent: Extent
    exact: bool  # whether the rows are stored without rounding
    far: Ids  # the numbers of rows that are left out: very long, or not finite
    on_host: bool  # whether the rows did not fit on the device

    @property
    def stop(self) -> int:
        """The number after that of the last row."""
        return self.start + self.n

    @property
    def nbytes(self) -> int:
        """Size of the rows in bytes."""
        nbytes: int = self.X.numel() * 2
        return nbytes

    def gather(self, local: torch.Tensor, d: int, device: torch.device) -> torch.Tensor:
        """Rows (c, d) float64 on the device, by their places in this block."""
        local = local.to(self.X.device)
        return self.X[local // TILE, :d, local % TILE].to(device, torch.float64)


class GpuFlat(AcceleratedIndex[Flat]):
    """Exact search on a GPU, with the same ids and scores as `Flat`.

    Points, weighted points and hyperplanes are answered on the device; `Flat` answers all other queries. A row takes
    2 d + 5 bytes on the device. If it has too little memory, some of the rows stay in host memory and every search
    copies them to the device. Vectors that are stored in half precision are exact on the device; others are rounded,
    so that more candidates have to be scored again. Searches are thread-safe while no other thread calls `add` or
    `remove`.

    Parameters
    ----------
    device : "cuda", or "cpu" for the same computation without a GPU, which is slower than `Flat`
    device_bytes : memory for rows on the device; by default 80 % of what is free now
    block_rows : rows of a block; by default a block has 1 GiB

    Examples
    --------
    >>> index = GpuFlat("cpu")
    >>> index.add(np.array([10, 20]), np.eye(2, dtype=np.float32))
    >>> index.search(PointQuery([[0.0, 1.0]]), k=1).ids
    array([[20]])

    """

    kind = "gpu"

    def __init__(self, device: str = "cuda", device_bytes: int | None = None, block_rows: int | None = None):
        super().__init__(Flat())
        self.device, self.device_bytes, self.block_rows = device, device_bytes, block_rows
        self._on = torch.empty(0, device=device).device  # with its number, as tensors report it
        self._budget = _free_bytes(self._on) * FREE_SHARE if device_bytes is None else device_bytes
        self.scale = 1.0
        self.blocks: list[Tiles] = []
        self._mask = torch.zeros(0, dtype=torch.bool, device=self._on)  # (places,) rows that can be found
        self._removed = 0
        self._scored = 0  # number of scores computed on the device so far
        self._last: tuple[Query, torch.Tensor] | None = None  # the last query and the scores of all places, unfiltered
        self._lock = threading.Lock()  # one search at a time has the device

    @property
    def nbytes(self) -> int:
        """Memory of the rows in bytes, on the device and in host memory."""
        return sum(rows.nbytes + 4 * len(rows.squares) for rows in self.blocks) + len(self._mask)

    @property
    def host_bytes(self) -> int:
        """Memory of the rows that did not fit on the device."""
        return sum(rows.nbytes for rows in self.blocks if rows.on_host)

    def add(self, ids: Ids, X: Array) -> None:
        """Add rows X (m, d) under new ids (m,)."""
        self.truth.add(ids, X)
        self._upload()

    def build(self, truth: Flat) -> Self:
        """Copy the rows of an exact index to the device."""
        self.truth, self.blocks, self._removed = truth, [], 0
        self._upload()
        return self

    def over(self, truth: Flat) -> Self:
        """Return an index over other rows. Those that both have under the same numbers are not copied again."""
        made, same = copy(self), _same_rows(self.truth, truth)
        made.truth, made._removed, made._last = truth, 0, None
        made.blocks = [rows for rows in self.blocks if rows.stop <= same]
        made._upload()
        return made

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """Return the exact k best rows; `effort` is checked and ignored."""
        among, exclude = check_search(query, k, among, exclude, effort, self.dim)
        plan = Plan.of(query, self.scale) if self.blocks else None
        if plan is None:
            return self.truth.search(query, k, among=among, exclude=exclude)
        parts = _single_queries(query)
        if not parts:
            return self.truth.search(query, k)
        with self._lock:
            candidates = self._candidates(parts, k, among, exclude)
        hits = []
        for part, rows in zip(parts, candidates.rows, strict=True):
            some = len(rows) * TIED < len(self.truth.alive)
            hits.append(
                self.truth.search(part, k, among=self.truth.row_ids[rows])
                if some
                else self.truth.search(part, k, among=among, exclude=exclude)
            )
        ids = np.concatenate([found.ids for found in hits])
        scores = np.concatenate([found.scores for found in hits])
        return Hits(ids, scores, candidates.scored + sum(found.scored for found in hits))

    def _candidates(self, parts: list[Query], k: int, among: Ids | None, exclude: Ids | None) -> "_Candidates":
        """The rows that can be hits of each query."""
        before = self._scored
        far = self._allowed(np.concatenate([rows.far for rows in self.blocks]), among, exclude)
        if among is not None:
            rows = self.truth.rows(among if exclude is None else without(among, exclude))
            rows = np.sort(rows[rows >= 0])
            if len(rows) * SPARSE < len(self.truth.alive):
                few = [self._shorten(part, rows, k) for part in parts]
                return _Candidates(few, self._scored - before)
            mask = torch.zeros_like(self._mask)
            mask[self._places(rows)] = True
            mask &= self._mask
        else:
            mask = self._mask
            if exclude is not None:
                rows = self.truth.rows(exclude)
                mask = mask.clone()
                mask[self._places(rows[rows >= 0])] = False
        together = max(1, SCORE_BYTES // (4 * len(mask)))
        found: list[Ids] = []
        for start in range(0, len(parts), together):
            some = parts[start : start + together]
            found += [np.union1d(rows, far) for rows in self._scan(some, k, mask)]
        return _Candidates(found, self._scored - before)

    def _scan(self, parts: list[Query], k: int, mask: torch.Tensor) -> Iterator[Ids]:
        """The candidates of queries of the same kind, by one pass over all rows."""
        query = parts[0] if len(parts) == 1 else _join(parts)
        plan = Plan.of(query, self.scale)
        assert plan is not None
        error = plan.error(self.extent)
        scores = self._scores(query, plan).masked_fill(~mask, inf)
        smallest = scores.view(plan.q, -1, GROUP).amin(2)  # (q, groups)
        for part, own, least in zip(parts, scores, smallest, strict=True):
            places = _best_places(own, least, k, error)
            yield self._shorten(part, self._numbers(places), k)

    def _scores(self, query: Query, plan: Plan) -> torch.Tensor:
        """Approximate scores of all places, (q, places). A feedback round searches several times with one query."""
        if self._last is not None and self._last[0] is query:
            return self._last[1]
        self._last = None  # frees its memory
        scores = torch.empty((plan.q, len(self._mask)), device=self._on)
        tensors = Tensors.of(plan, self.blocks[0].X.shape[1], self._on)
        place = 0
        for rows, X in self._on_device():
            rough_scores(X, rows.squares, plan, tensors, scores[:, place : place + len(rows.squares)])
            place += len(rows.squares)
        self._scored += plan.q * len(self.truth.alive)
        if plan.q == 1:
            self._last = query, scores
        return scores

    def _shorten(self, query: Query, rows: Ids, k: int) -> Ids:
        """The rows that can be among the k best, by their scores in float64."""
        if len(rows) <= max(DIRECT, 2 * k):
            return rows
        plan = Plan.of(query, self.scale)
        assert plan is not None
        parts = [
            exact_scores(self._gather(rows[part]), query)[0]
            for part in chunks(len(rows), row_bytes=8 * ((self.dim or 0) + 2 * len(plan.S)), max_bytes=STEP_BYTES)
        ]
        scores = torch.cat(parts)
        kth = float(torch.topk(scores, k, largest=False, sorted=False).values.max())
        limit = kth + 2 * exact_error(query, plan, self._longest(rows), self.scale) + tie(kth)
        self._scored += len(rows)
        kept: NDArray[np.bool_] = (~(scores > limit)).cpu().numpy()  # NaN is kept
        return rows[kept]

    def _gather(self, numbers: Ids) -> torch.Tensor:
        """Rows (c, d) float64 on the device, exactly as they were added."""
        d = self.dim or 0
        X = torch.empty((len(numbers), d), dtype=torch.float64, device=self._on)
        for rows, here in self._by_block(numbers):
            own = numbers[here]
            stored = rows.exact & ~np.isin(own, rows.far)
            if stored.all():
                X[here] = rows.gather(torch.from_numpy(own - rows.start), d, self._on) / self.scale
            else:
                X[here] = torch.from_numpy(self.truth.gather(own)).to(self._on, torch.float64)
        return X

    def _by_block(self, numbers: Ids) -> Iterator[tuple[Tiles, slice]]:
        """The blocks of ascending row numbers, with the slice of the numbers in each."""
        starts = np.array([rows.start for rows in self.blocks])
        ends = np.append(np.searchsorted(numbers, starts[1:]), len(numbers))
        begin = 0
        for rows, end in zip(self.blocks, ends.tolist(), strict=True):
            if end > begin:
                yield rows, slice(begin, end)
            begin = end

    def _places(self, numbers: Ids) -> torch.Tensor:
        """The places of rows, by number: blocks are padded to whole tiles."""
        starts, first = self._starts()
        block = np.searchsorted(starts, numbers, side="right") - 1
        return torch.from_numpy(numbers - starts[block] + first[block]).to(self._on)

    def _numbers(self, places: Ids) -> Ids:
        """The numbers of the rows at ascending places."""
        starts, first = self._starts()
        block = np.searchsorted(first, places, side="right") - 1
        numbers: Ids = places - first[block] + starts[block]
        return numbers

    def _starts(self) -> tuple[Ids, Ids]:
        """The number of the first row of each block, and its place."""
        sizes = [len(rows.squares) for rows in self.blocks]
        return np.array([rows.start for rows in self.blocks]), np.cumsum([0, *sizes[:-1]])

    @property
    def extent(self) -> Extent:
        """The sizes of the stored rows and of their rounding errors."""
        return Extent(*(max(values) for values in zip(*(rows.extent for rows in self.blocks), strict=True)))

    def _longest(self, numbers: Ids) -> float:
        """Length of the longest of these rows, or a larger number, in stored units."""
        longest = self.extent.longest
        far = numbers[np.isin(numbers, np.concatenate([rows.far for rows in self.blocks]))]
        if len(far):
            X = self.truth.gather(far).astype(np.float64)
            longest = max(longest, float(np.sqrt(np.vecdot(X, X).max())) * self.scale)
        return longest

    def _allowed(self, numbers: Ids, among: Ids | None, exclude: Ids | None) -> Ids:
        """The few rows that were not removed and pass the filters."""
        numbers = numbers[self.truth.alive[numbers]]
        ids = self.truth.row_ids[numbers]
        keep = np.ones(len(ids), np.bool_) if among is None else np.isin(ids, among)
        kept: Ids = numbers[keep] if exclude is None else numbers[keep & ~np.isin(ids, exclude)]
        return kept

    def _on_device(self) -> Iterator[tuple[Tiles, torch.Tensor]]:
        """All blocks in order, on the device: those in host memory are copied while the ones before are scored."""
        away = [rows for rows in self.blocks if rows.on_host]
        if not away or self._on.type != "cuda":
            yield from ((rows, rows.X) for rows in self.blocks)
            return
        size = max(rows.X.numel() for rows in away)
        buffers = [torch.empty(size, dtype=torch.float16, device=self._on) for _ in away[:2]]
        streams: Any = torch.cuda  # untyped
        copying, scoring = streams.Stream(self._on), streams.current_stream(self._on)
        copying.wait_stream(scoring)  # the memory of the buffers can still be in use
        copied: list[Any] = []

        def copy(number: int) -> None:
            X = away[number].X
            target = buffers[number % 2][: X.numel()].view(X.shape)
            with torch.cuda.stream(copying):
                target.copy_(X, non_blocking=True)
                copied.append((target, copying.record_event()))

        for number in range(len(buffers)):
            copy(number)
        done = 0
        for rows in self.blocks:
            if not rows.on_host:
                yield rows, rows.X
                continue
            target, event = copied[done]
            scoring.wait_event(event)
            yield rows, target
            done += 1
            if len(copied) < len(away):
                copying.wait_event(scoring.record_event())
                copy(len(copied))

    def _upload(self) -> None:
        """Copy the rows that are not yet in blocks, and the mask of the rows that can be found."""
        truth = self.truth
        n, done = len(truth.alive), self.blocks[-1].stop if self.blocks else 0
        if n and not self.blocks:
            self.scale = _choose_scale(truth)
        block_rows = self.block_rows or BLOCK_BYTES // (2 * (truth.dim or 1))
        most = max(1, block_rows // TILE) * TILE
        for start in range(done, n, most):
            self.blocks.append(self._store(start, min(n, start + most)))
        while len(self.blocks) > 1 and self.blocks[-2].n <= 2 * self.blocks[-1].n <= most:
            first, second = self.blocks[-2:]
            if first.n + second.n > most:
                break
            self.blocks[-2:] = [self._store(first.start, second.stop)]
        mask = np.zeros(sum(len(rows.squares) for rows in self.blocks), np.bool_)
        place = 0
        for rows in self.blocks:
            mask[place : place + rows.n] = truth.alive[rows.start : rows.stop]
            mask[place + rows.far - rows.start] = False
            place += len(rows.squares)
        self._mask, self._last = torch.from_numpy(mask).to(self._on), None

    def _store(self, start: int, stop: int) -> Tiles:
        """Convert these rows of `truth` to tiles, on the device if it has room."""
        d = self.truth.dim or 0
        tiles, D = -(-(stop - start) // TILE), d + -d % MULTIPLE
        used = sum(rows.nbytes for rows in self.blocks if rows.start < start and not rows.on_host)
        fits = used + tiles * D * TILE * 2 <= self._budget
        on_gpu = self._on.type == "cuda"
        X = torch.zeros(
            (tiles, D, TILE),
            dtype=torch.float16,
            device=self._on if fits else "cpu",
            pin_memory=on_gpu and not fits,
        )
        squares, errors = torch.zeros(tiles * TILE, device=self._on), torch.zeros((2, tiles * TILE), device=self._on)
        step = max(1, STEP_BYTES // (16 * D * TILE))
        half = all(block.X.dtype == np.float16 for block in self.truth.blocks)
        # Read-only arrays cannot become tensors.
        staging = torch.zeros(
            (min(step, tiles) * TILE, d), dtype=torch.float16 if half else torch.float32, pin_memory=on_gpu
        )
        for tile in range(0, tiles, step):
            m = min(stop - start, (tile + step) * TILE) - tile * TILE
            _read(self.truth, start + tile * TILE, staging[:m].numpy())
            here = slice(tile * TILE, tile * TILE + m)
            rows = staging[:m].to(self._on).float() * self.scale  # (m, d)
            stored = rows.to(torch.float16)
            difference = (rows - stored.float()).abs_()
            errors[0, here], errors[1, here] = difference.sum(1), torch.linalg.vector_norm(difference, dim=1)
            squares[here] = stored.double().square_().sum(1)
            padded = torch.zeros((-(-m // TILE) * TILE, D), dtype=torch.float16, device=self._on)
            padded[:m, :d] = stored
            X[tile : tile + step] = padded.view(-1, TILE, D).transpose(1, 2)
        lengths = (squares[: stop - start] + errors[1, : stop - start]).sqrt_().nan_to_num_(nan=inf, posinf=inf)  # (m,)
        far = _far_rows(lengths)
        for place in far.tolist():
            X[place // TILE, :, place % TILE] = 0
        squares[far], errors[:, far], lengths[far] = 0, 0, 0
        error1, error2 = (1.001 * float(values.max()) for values in errors.nan_to_num_(nan=inf, posinf=inf))
        extent = Extent(float(lengths.max()), error1, error2)
        exact = not (error1 or error2)
        return Tiles(start, stop - start, X, squares, extent, exact, far.cpu().numpy() + start, not fits)

    def _forget(self, ids: Ids) -> None:
        rows = self.truth.rows(ids)
        rows = rows[rows >= 0]
        if len(rows):
            self._mask[self._places(rows)] = False
        self._removed += len(rows)

    def _n_removed(self) -> int:
        return self._removed


class _Candidates(NamedTuple):
    """The rows that can be hits of each query, and the number of scores computed to find them."""

    rows: list[Ids]
    scored: int


def _best_places(scores: torch.Tensor, smallest: torch.Tensor, k: int, error: float) -> Ids:
    """The places of the scores (places,) that can be among the k best; `smallest` are those of each group.

    The k best are in the k groups with the smallest scores, so only these are sorted. A score of inf is not allowed.
    """
    grouped = scores.view(-1, GROUP)
    first = torch.topk(smallest, min(k, len(smallest)), largest=False, sorted=False).indices
    near = grouped[first].flatten()
    kth = float(torch.topk(near, min(k, len(near)), largest=False, sorted=False).values.max())
    limit = kth + 2 * error + 1e-6 * abs(kth) + tie(kth)
    groups = torch.nonzero(~(smallest > limit))[:, 0]
    some = grouped[groups]  # (groups, GROUP)
    group, column = torch.nonzero(~(some > limit) & (some != inf), as_tuple=True)  # NaN is kept
    places: Ids = (groups[group] * GROUP + column).cpu().numpy()
    return places


def _single_queries(query: Query) -> list[Query]:
    """A query per point; other queries unchanged."""
    if not isinstance(query, PointQuery):
        return [query]
    return [PointQuery(query.vectors[i : i + 1]) for i in range(len(query.vectors))]


def _join(parts: list[Any]) -> PointQuery:
    return PointQuery(np.concatenate([part.vectors for part in parts]))


def _same_rows(index: Flat, other: Flat) -> int:
    """How many rows at the beginning of two indexes are in the same arrays."""
    for mine, others in zip(index.blocks, other.blocks, strict=False):
        if mine.X is not others.X:
            return mine.start
    return min(len(index.alive), len(other.alive))


def _choose_scale(truth: Flat) -> float:
    """A power of two that brings rows to float16: 1 if it represents them exactly, else one with values near 1."""
    X = truth.gather(np.arange(0, len(truth.alive), max(1, len(truth.alive) // SAMPLE)))
    X = X[np.isfinite(X).all(axis=1)].astype(np.float64)
    with np.errstate(over="ignore"):
        exact = bool(np.all(X.astype(np.float16) == X))
    typical = float(np.median(np.sqrt(np.mean(X * X, axis=1)))) if len(X) and not exact else 1.0
    return 2.0 ** -round(np.log2(typical)) if 0 < typical < inf else 1.0


def _read(truth: Flat, start: int, out: NDArray[Any]) -> None:
    """Copy consecutive rows to `out`."""
    for block in truth.blocks:
        first, last = max(start, block.start), min(start + len(out), block.start + len(block.X))
        if first < last:
            out[first - start : last - start] = block.X[first - block.start : last - block.start]


def _far_rows(lengths: torch.Tensor) -> torch.Tensor:
    """The numbers of the rows that are much longer than the median or not finite; the longest if there are many."""
    limit = FAR * lengths.median() if len(lengths) else 0
    far = torch.nonzero((lengths > limit) | (lengths == inf))[:, 0]
    return far[torch.topk(lengths[far], min(len(far), FAR_MOST)).indices].sort().values


def _free_bytes(device: torch.device) -> float:
    return float(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else inf
