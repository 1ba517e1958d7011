"""Search stored rows on the workers of a cluster.

A shard is a set of slices of segments, which are immutable files that the workers can read. The caller has the same
rows as memory maps; it sends the query and a mask of the allowed rows, and merges the answers by score and id. A worker
opens a shard when it is first asked about it. So a shard has no state that could become stale or be lost.

`ShardCalls` asks the workers. If a worker is lost or late, it asks another one, and finally searches the rows here.
"""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from lookalike.collection.indexes import LEAVES_MIN, STALE_SHARE
from lookalike.errors import ClusterError, LookalikeError, StoreError
from lookalike.index.exact import ExactIndex
from lookalike.index.flat import Flat
from lookalike.index.queries import HyperplaneQuery, check_search
from lookalike.index.topk import keep_best
from lookalike.registry import create
from lookalike.scaled_rows import dtype_name
from lookalike.store.npy_files import map_rows
from lookalike.store.segments import Block
from lookalike.types import Hits, Ids, Query

if TYPE_CHECKING:
    from lookalike.index.leaves import Leaves  # numba is loaded on the workers

HERE_MAX = 20_000
"""With this many rows or fewer, a search here is faster than a message to a worker."""

OPEN_SHARDS = 16
"""Shards that a worker keeps open."""

LATE_S = 1.0
"""Seconds to wait for the next shard before another worker is asked as well; longer if the answers so far took longer,
because the first search must open the shards."""

SLOW_S = 60.0
"""Seconds to wait for the first answer."""

MAX_TRIES = 2
"""Workers that are asked about a shard before its rows are searched here."""

HERE = "here"
"""Stands for this process in the list of workers that were asked."""

log = logging.getLogger("lookalike.cluster")

_OPEN: "LRUCache[Shard, ExactIndex]" = LRUCache(OPEN_SHARDS)  # of this process
_OPENING = threading.Lock()
_LEAVES: "LRUCache[Shard, Future[Leaves | None]]" = LRUCache(OPEN_SHARDS)
_BUILDER = ThreadPoolExecutor(1, thread_name_prefix="lookalike-leaves")


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows of a segment."""

    file: str
    shape: tuple[int, int]
    dtype: str
    digest: bytes  # of the segment; a file of the same name with other content is another slice
    start: int
    stop: int


Shard: TypeAlias = tuple[Slice, ...]


def cut_shards(blocks: Sequence[Block], n: int) -> list[tuple[Shard, list[slice]]]:
    """Cut every block into n slices of about equal size; the i-th slices are shard i.

    So a new block adds a slice to each shard, and the other slices stay on their workers. Also returns the row numbers
    of each slice among all rows of the blocks.
    """
    shards: list[tuple[list[Slice], list[slice]]] = [([], []) for _ in range(n)]
    first = 0
    for block in blocks:
        assert block.file is not None
        file = str(block.file.resolve())  # workers do not see links in the directory of the collection
        shape, dtype = (len(block.ids), block.X.shape[1]), dtype_name(block.X)
        ends = np.linspace(0, len(block.ids), n + 1).astype(int).tolist()
        for (parts, rows), (start, stop) in zip(shards, pairwise(ends), strict=True):
            if stop > start:
                parts.append(Slice(file, shape, dtype, block.digest, start, stop))
                rows.append(slice(first + start, first + stop))
        first += len(block.ids)
    return [(tuple(parts), rows) for parts, rows in shards if parts]


class ShardReader:
    """Searches shards; a dask actor, one per worker and client."""

    def search(
        self,
        shard: Shard,
        query: Query,
        k: int,
        keep: NDArray[np.uint8] | None,
        exclude: Ids | None,
        effort: float | str | None,
    ) -> Hits:
        """Return the k best rows of a shard; `keep` are the allowed rows as packed bits, `exclude` ids to leave out.

        The answer is exact, except that of a hyperplane query to a large shard whose leaves are built (see `Leaves`).
        """
        index = open_shard(shard)
        mask = None if keep is None else np.unpackbits(keep, count=len(index)).astype(np.bool_)
        leaves = find_leaves(shard) if isinstance(query, HyperplaneQuery) and effort != "exact" else None
        if leaves is not None:
            among = None if mask is None else np.sort(index.row_ids[mask])
            return leaves.search(query, k, among=among, exclude=exclude, effort=effort)
        return index.search(query, k, exclude=exclude) if mask is None else index.search_rows(query, k, mask)


def open_shard(shard: Shard) -> ExactIndex:
    """Map the rows of a shard into memory. Raises StoreError if a file is missing."""
    with _OPENING:
        if shard in _OPEN:
            return _OPEN[shard]
    index: ExactIndex = create("index", "hamming" if shard[0].dtype == "uint8" else "flat")
    for part in shard:
        try:
            ids, X = map_rows(Path(part.file), part.shape, part.dtype)
        except OSError as error:
            raise StoreError(f"Cannot read {part.file}: {error.strerror}.") from None
        index.add(ids[part.start : part.stop], X[part.start : part.stop])
    with _OPENING:
        for old in [old for old in _OPEN if shard[: len(old)] == old]:  # an earlier state of the shard
            del _OPEN[old]
        _OPEN[shard] = index
    return index


def find_leaves(shard: Shard) -> "Leaves | None":
    """The leaves of a large shard; None until they are built, in a thread that the first call starts."""
    index = open_shard(shard)
    if len(index) < LEAVES_MIN or not isinstance(index, Flat):
        return None
    with _OPENING:
        if shard not in _LEAVES:
            earlier = [_LEAVES.pop(old) for old in list(_LEAVES) if shard[: len(old)] == old]
            _LEAVES[shard] = _BUILDER.submit(_build_leaves, index, earlier)
        leaves = _LEAVES[shard]
    return leaves.result() if leaves.done() else None


def _build_leaves(index: Flat, earlier: Sequence["Future[Leaves | None]"]) -> "Leaves | None":
    """Build the leaves of a shard, or extend those of an earlier state of the shard if few rows are new.

    Returns None if that fails, for example because memory is short.
    """
    try:
        for built in earlier:
            leaves = built.result()
            if leaves is not None and index.extends(leaves.truth):
                grown = leaves.over(index)
                if grown.stale <= STALE_SHARE:
                    return grown
        new: Leaves = create("index", "leaves").build(index)
        return new
    except (ImportError, MemoryError, LookalikeError) as error:
        log.warning("Cannot build leaves, so feedback scans all rows of this shard: %s", error)
        return None


def count_open() -> tuple[int, int]:
    """The number of shards that this process has open, and of their rows."""
    with _OPENING:
        return len(_OPEN), sum(len(index) for index in _OPEN.values())


class ShardedIndex:
    """An index whose searches run on the workers; see `Searchable`.

    Parameters
    ----------
    index : the same rows in this process.
    blocks : their segments, in the order of the rows.
    calls : asks the workers.

    """

    def __init__(self, index: ExactIndex, blocks: Sequence[Block], calls: "ShardCalls"):
        self._index, self._blocks, self._calls = index, blocks, calls
        self._shards: tuple[int, list[tuple[Shard, list[slice]]]] = (0, [])  # the number of workers, and its shards

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, item: int) -> bool:
        return item in self._index

    @property
    def dim(self) -> int | None:
        """The number of columns; None if it is empty."""
        return self._index.dim

    @property
    def ids(self) -> Ids:
        """All ids, ascending."""
        return self._index.ids

    def vectors(self, ids: Ids) -> NDArray[Any]:
        """The rows of these ids, (m, d)."""
        return self._index.vectors(ids)

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """Return the k best rows: exact, unless feedback searches a large collection without effort="exact"."""
        among, exclude = check_search(query, k, among, exclude, effort, self.dim)
        readers = self._calls.readers()
        if not readers or (among is not None and len(among) <= HERE_MAX):
            return self._index.search(query, k, among=among, exclude=exclude)
        allowed = self._index.allowed(exclude, among)
        unfiltered = among is None and len(self._index) == len(allowed)  # then a few excluded ids are cheaper than bits
        shards = self._cut(self._calls.most_workers(len(readers)))

        def ask(reader: Any, number: int) -> Awaitable[Hits]:
            shard, rows = shards[number]
            keep = None if unfiltered else np.packbits(np.concatenate([allowed[part] for part in rows]))
            return reader.search(shard, query, k, keep, exclude if unfiltered else None, effort)  # type: ignore[no-any-return]

        def search_here(number: int) -> Hits:
            keep = np.zeros_like(allowed)
            for part in shards[number][1]:
                keep[part] = allowed[part]
            return self._index.search_rows(query, k, keep)

        try:
            found = self._calls.gather(len(shards), ask, search_here, readers)
        except ClusterError:  # the connection was lost
            return self._index.search(query, k, among=among, exclude=exclude)
        ids, scores = np.hstack([hits.ids for hits in found]), np.hstack([hits.scores for hits in found])  # (q, n * k)
        return Hits(*keep_best(ids, scores, k), sum(hits.scored for hits in found))

    def _cut(self, n: int) -> list[tuple[Shard, list[slice]]]:
        """The shards for n workers."""
        if self._shards[0] != n:
            self._shards = n, cut_shards(self._blocks, n)
        return self._shards[1]


Ask: TypeAlias = Callable[[Any, int], Awaitable[Hits]]
"""Asks the actor of a worker about a shard, given by its number."""


class ShardCalls:
    """Collects the answers of shards from workers that can be lost or hang. Thread-safe.

    Parameters
    ----------
    readers : returns the actors of the workers by address.
    run : runs a coroutine in the event loop of the client, and waits for it. Raises ClusterError if the connection is
        lost.
    on_lost : called with the address of a worker that cannot be reached.

    """

    def __init__(
        self, readers: Callable[[], dict[str, Any]], run: Callable[..., list[Hits]], on_lost: Callable[[str], None]
    ):
        self.readers, self._run, self._on_lost = readers, run, on_lost
        self._most = 0
        self._homes: dict[int, str] = {}  # the worker of each shard, so that the same rows stay in its memory
        self._late: set[str] = set()  # workers that are not asked again until they have answered
        self._blind: set[str] = set()  # workers that do not see the files of the collection

    def most_workers(self, now: int) -> int:
        """The largest number of workers so far. A worker that is lost for a while does not change the shards."""
        self._most = max(self._most, now)
        return self._most

    def gather(self, n: int, ask: Ask, search_here: Callable[[int], Hits], readers: dict[str, Any]) -> list[Hits]:
        """Return the answers of shards 0 … n - 1."""
        return self._run(self._gather, n, ask, search_here, readers)

    async def _gather(
        self, n: int, ask: Ask, search_here: Callable[[int], Hits], readers: dict[str, Any]
    ) -> list[Hits]:
        started = time.monotonic()
        answers: dict[int, Hits] = {}
        tried: list[list[str]] = [[] for _ in range(n)]
        running: dict[asyncio.Future[Hits], tuple[int, str]] = {}

        def start(number: int) -> None:
            """Ask the next worker about a shard, or search it here; nothing if that is already under way."""
            if tried[number][-1:] == [HERE]:
                return
            worker = self._choose(number, [worker for worker in readers if worker not in tried[number]])
            if worker is None or len(tried[number]) == MAX_TRIES:
                worker = HERE
                call = asyncio.get_running_loop().run_in_executor(None, search_here, number)
            else:
                call = asyncio.ensure_future(_call(ask, readers[worker], number))
                call.add_done_callback(partial(self._end, worker))
            tried[number].append(worker)
            running[call] = number, worker

        for number in range(n):
            start(number)
        while len(answers) < n:
            timeout = max(LATE_S, time.monotonic() - started) if answers else SLOW_S
            done, late = await asyncio.wait(running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for call in done:
                number, worker = running.pop(call)
                if call.exception() is None:
                    answers.setdefault(number, call.result())
                elif worker == HERE:
                    call.result()  # raises
                elif number not in answers:
                    start(number)
            for call in () if done else late:
                number, worker = running[call]
                if worker != HERE:
                    self._late.add(worker)
                if number not in answers:
                    start(number)
        return [answers[number] for number in range(n)]

    def _choose(self, number: int, workers: Sequence[str]) -> str | None:
        """Choose the worker for a shard: the same as last time, unless another one has at least two shards fewer."""
        usable = [worker for worker in workers if worker not in self._late]
        if not usable:
            return None
        load = Counter(self._homes.values())
        idlest, home = min(usable, key=lambda worker: (load[worker], worker)), self._homes.get(number)
        if home is None or home not in usable or load[home] > load[idlest] + 1:
            self._homes[number] = home = idlest
        return home

    def _end(self, worker: str, call: "asyncio.Future[Hits]") -> None:
        """Note that a worker has answered, or is lost; called even if its answer is no longer needed."""
        if call.cancelled():
            return
        self._late.discard(worker)
        error = call.exception()
        if isinstance(error, StoreError):
            if worker not in self._blind:
                self._blind.add(worker)
                log.warning(
                    "Worker %s: %s Workers must see the files of the collection at the same path; other workers or this"
                    " process search them, which is slower. To move them to a shared file system: lookalike cluster"
                    " share DIR",
                    worker,
                    error,
                )
        elif error is not None:
            self._homes = {number: home for number, home in self._homes.items() if home != worker}
            self._on_lost(worker)


async def _call(ask: Ask, reader: Any, number: int) -> Hits:
    """Ask a worker; an actor that is known to be lost raises an error at once, others when they are awaited."""
    return await ask(reader, number)
