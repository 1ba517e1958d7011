"""The indexes over stored vectors. They are opened once, updated when the store changes, and built for large spaces.

`Indexes` addresses stored rows by name; `Space` decides which of them it searches or learns from. An open index is
reused as far as possible: new rows are added, and unchanged files are not read again.
"""

import threading
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lookalike.collection.chain import Chain
from lookalike.collection.executor import Executor
from lookalike.errors import DamagedError, MissingError
from lookalike.index.choice import choose, measure_recall
from lookalike.index.flat import Flat
from lookalike.index.ids import without
from lookalike.index.neighbours import NeighbourGraph
from lookalike.registry import Spec, component, create
from lookalike.store.derived import Recall, Structure
from lookalike.store.directory import Store
from lookalike.store.segments import Block
from lookalike.system import installed_bytes
from lookalike.types import Progress

if TYPE_CHECKING:  # faiss and numba are loaded when an index needs them
    from lookalike.index.ann import Ann
    from lookalike.index.coded import Coded
    from lookalike.index.gpu_flat import GpuFlat
    from lookalike.index.leaves import Leaves

LEAVES_SUFFIX, NEIGHBOURS_SUFFIX = ".leaves", ".neighbours"
"""Suffixes of the files of `Leaves` and of `NeighbourGraph`; all other index files are written by faiss."""

SHORTLISTED = "shortlisted"
"""The index for spaces that have their own measure; also the prefix of its files."""

LEAVES_MIN = 50_000
"""With this many rows, feedback uses `Leaves`; fewer rows are scanned."""

GPU_MIN = 50_000
"""With this many rows, searches use a GPU if there is one; a scan of fewer rows on the CPU takes a few milliseconds."""

STALE_SHARE = 0.1
"""Share of added and removed rows above which an index is rebuilt."""

PROCESS_BYTES = 350e6
"""Memory of a process with Python, its libraries and a network."""


class OpenIndex(NamedTuple):
    """An open index."""

    version: int  # of the store, when the index was last compared with it
    built_from: tuple[Any, ...]  # structure, blocks and models; the index is valid as long as they do not change
    index: Any
    blocks: Sequence[Block] = ()  # the stored rows of the index, in its order


class Indexes:
    """The indexes of a collection. Thread-safe.

    `coded_chain` returns the chain of a space that stores codes, None for all others. `has_own_measure` returns whether
    rows are compared by another measure than the Euclidean distance. `executor` can run searches on other machines.
    `gpu` is the GPU of this machine that answers searches, None for the CPU.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        coded_chain: Callable[[str], Chain | None],
        has_own_measure: Callable[[str], bool],
        gpu: str | None = None,
    ):
        self._gpu = gpu
        self.store = store
        self._executor = executor
        self._coded_chain = coded_chain
        self._has_own_measure = has_own_measure
        self._lock = threading.RLock()
        self._leaves_lock = threading.RLock()  # acquired before `_lock`; separate, because loading leaves is slow
        self._points: dict[str, OpenIndex] = {}
        self._leaves: dict[str, OpenIndex] = {}
        self._sharded: dict[str, tuple[Any, Any]] = {}  # an index, and the same rows with searches elsewhere

    def points(self, name: str) -> "Flat | Ann | Coded | GpuFlat":
        """The index that answers nearest-neighbour queries here; an index of codes also has the encoded vectors."""
        index: Flat | Ann | Coded | GpuFlat = self._open(name).index
        return index

    def searched(self, name: str) -> "Flat | Ann | Coded | GpuFlat":
        """The index that answers nearest-neighbour queries, possibly on other machines."""
        opened = self._open(name)
        sharded = self._shard(name, opened)
        index: Flat | Ann | Coded | GpuFlat = opened.index if sharded is None else sharded
        return index

    def hyperplanes(self, name: str) -> "Flat | Leaves | GpuFlat":
        """The index that answers the hyperplane queries of feedback."""
        sharded: Flat | None = self._shard(name, self._open(name))
        if sharded is not None:
            return sharded
        if _is_on_gpu(index := self.points(name)):
            on_gpu: GpuFlat = index  # type: ignore[assignment]
            return on_gpu
        version = self.store.version()
        leaves: Flat | Leaves
        if (current := self._current(self._leaves, name, version)) is not None:
            leaves = current.index
            return leaves
        with self._leaves_lock:
            flat, structure = self.flat(name), self.store.vectors.structures.get(name, "hyperplanes")
            built_from, before = (structure, flat), self._leaves.get(name)
            if before is not None and before.built_from == built_from:
                leaves = before.index
            elif before is not None and structure == before.built_from[0] and _has_grown(before.index, flat):
                leaves = before.index.over(flat)
            else:
                leaves = self._open_or_scan(name, flat, structure)
            self._leaves[name] = self._opened(version, built_from, leaves)
            return leaves

    def flat(self, name: str) -> Flat:
        """The vectors without an index structure."""
        index: Any = self.points(name)
        while not isinstance(index, Flat):  # codes can have an index of their vectors
            index = index.truth
        return index

    def open(self, file: str, flat: Flat) -> Any:
        """Open the index stored in a file, over these vectors, or the neighbour graph."""
        if file.endswith(NEIGHBOURS_SUFFIX):
            return NeighbourGraph.load(self.store.path / "indexes" / file)
        name = "leaves" if file.endswith(LEAVES_SUFFIX) else SHORTLISTED if file.startswith(SHORTLISTED) else "ann"
        return component("index", name).load(self.store.path / "indexes" / file, flat)

    def close_removed(self, names: Container[str]) -> None:
        """Close all indexes except those of these stored rows."""
        for opened in (self._points, self._leaves, self._sharded):
            for name in [name for name in list(opened) if name not in names]:
                opened.pop(name, None)

    def is_sharded(self, name: str) -> bool:
        """Whether searches of these rows run on other machines, so that indexes are not needed here."""
        return self._shard(name, self._open(name)) is not None

    def build_points(self, name: str, chain: Chain, title: str, progress: Progress) -> None:
        """Build a faiss index if there are enough rows and no current index exists; needs the writer lock.

        `title` is the name of the space in progress reports.
        """
        kind = choose(self.store.vectors.rows(name))
        index = self.points(name)
        if (
            kind == "flat"
            or _is_on_gpu(index)
            or (kind == getattr(index, "kind", None) and getattr(index, "stale", 1) <= STALE_SHARE)
        ):
            return
        progress(f"indexing {title}", 0, None)
        self.store.vectors.quarantine_damaged(name, progress=progress)
        structure, flat = self.store.vectors.structures.get(name, "points"), self.flat(name)
        recall = None
        if chain.has_own_measure:  # faiss finds candidates by Euclidean distance; the measure re-ranks them
            built = create("index", Spec(SHORTLISTED, {"kind": kind})).build(flat, progress, chain.transforms[-1])
            recall = built.recall(chain.transforms[-1])
        elif structure is not None and kind == getattr(index, "kind", None):
            # A second instance, because other threads may be searching `index`.
            built = self.open(structure.file, flat).build(progress=progress)
            recall = built.measured_recall
        else:
            built = create("index", Spec("ann", {"kind": kind})).build(flat, progress)
            recall = built.measured_recall
        target = self.store.vectors.new_file("indexes", ".faiss")
        built.save(target)
        prefix = f"{SHORTLISTED}-" if chain.has_own_measure else ""
        file = self.store.vectors.put_in_place(target, f"{prefix}{kind}-{target.name}")
        with self.store.transaction():
            self.store.vectors.structures.set(name, "points", file, recall)

    def build_leaves(self, name: str, dim: int, progress: Progress) -> None:
        """Build leaves if there are enough rows and no current leaves exist; needs the writer lock.

        Leaves are not built without numba, or if their build needs more memory than the machine has; feedback then
        scans all rows.
        """
        rows = self.store.vectors.rows(name)
        if rows < LEAVES_MIN or not leaves_fit(rows, dim, installed_bytes()):
            return
        current = self.hyperplanes(name)
        if getattr(current, "stale", 1) <= STALE_SHARE and getattr(current, "recall", None) is not None:
            return
        try:
            leaves = create("index", "leaves")
        except MissingError:
            return
        self.store.vectors.quarantine_damaged(name, progress=progress)
        target = self.store.vectors.unfinished_file(name, LEAVES_SUFFIX)
        leaves.build(self.flat(name), progress, target)  # resumes, if it was interrupted
        file = self.store.vectors.put_in_place(target, self.store.vectors.new_file("indexes", LEAVES_SUFFIX).name)
        with self.store.transaction():
            self.store.vectors.structures.set(name, "hyperplanes", file)

    def feedback_recall(self, name: str) -> dict[str, float] | None:
        """The measured recall of each effort of the leaves; None if there are none, or an older version built them."""
        structure = self.store.vectors.structures.get(name, "hyperplanes")
        if structure is None:
            return None
        from lookalike.index.leaf_recall import read_recall  # scikit-learn takes a second to load

        return read_recall(self.store.path / "indexes" / structure.file)

    def measure_codes(self, name: str, chain: Chain, progress: Progress) -> None:
        """Measure the recall of codes on a sample, unless few rows have changed since the last measurement.

        Needs the writer lock.
        """
        before, rows = self.store.vectors.structures.recall(name), self.store.vectors.rows(name)
        if before is not None and abs(rows - before.rows) <= STALE_SHARE * before.rows:
            return
        progress(f"measuring {name}", 0, None)
        found = Recall(measure_recall(self.points(name), chain.query), rows)
        with self.store.transaction():
            self.store.vectors.structures.set_recall(name, found)

    def _open(self, name: str) -> OpenIndex:
        if self._coded_chain(name) is not None:  # needs codes and vectors of the same version
            return self.store.read_consistently(partial(self._open_points, name))
        return self._open_points(name)

    def _open_points(self, name: str) -> OpenIndex:
        version = self.store.version()
        current = self._current(self._points, name, version)
        if current is not None:
            return current
        with self._lock:
            current = self._current(self._points, name, version)
            if current is not None:
                return current  # another thread has opened it
            blocks = self.store.vectors.blocks(name)
            structure = self.store.vectors.structures.get(name, "points")
            chain = self._coded_chain(name)
            truth = None if chain is None else self.points(chain.specs[0])
            built_from = structure, chain, truth, tuple((block.segment, block.n_live) for block in blocks)
            before = self._points.get(name)
            if before is not None and before.built_from == built_from:
                index = before.index
            elif chain is not None:
                index = _make_coded(_with_blocks(create("index", "hamming"), blocks), truth, chain)
            else:
                index = self._reopen(name, before, built_from, blocks, structure)
            opened = self._opened(version, built_from, index, blocks)
            self._points[name] = opened
        return opened

    def _current(self, opened: dict[str, OpenIndex], name: str, version: int) -> OpenIndex | None:
        """The open index if nothing was committed since it was opened; None inside a transaction."""
        current = opened.get(name)
        return None if current is None or current.version != version or self.store.in_transaction() else current

    def _opened(self, version: int, built_from: tuple[Any, ...], index: Any, blocks: Sequence[Block] = ()) -> OpenIndex:
        # A transaction may be rolled back.
        return OpenIndex(-1 if self.store.in_transaction() else version, built_from, index, blocks)

    def _shard(self, name: str, opened: OpenIndex) -> Any:
        """An index with the same rows, whose searches run on other machines; None if searches run here."""
        before = self._sharded.get(name)
        if before is not None and before[0] is opened.index:
            return before[1]
        index, chain = opened.index, self._coded_chain(name)
        if chain is not None:
            codes, truth = self._executor.shard(index.codes, opened.blocks), self._points.get(chain.specs[0])
            if codes is None or truth is None or truth.index is not index.truth:  # a commit has changed the vectors
                sharded = None
            else:
                sharded = index.over(codes, self._shard(chain.specs[0], truth) or index.truth)
        else:
            sharded = self._executor.shard(index if isinstance(index, Flat) else index.truth, opened.blocks)
        self._sharded[name] = opened.index, sharded
        return sharded

    def _reopen(
        self,
        name: str,
        before: OpenIndex | None,
        built_from: tuple[Any, ...],
        blocks: list[Block],
        structure: Structure | None,
    ) -> Any:
        """Open the index over these blocks. Parts of the previous index are reused; it does not change."""
        if before is None or before.built_from[1] is not None:
            return self._open_or_scan(name, _with_blocks(Flat(), blocks), structure)
        on_gpu = before.index if _is_on_gpu(before.index) else None
        flat = before.index if isinstance(before.index, Flat) else before.index.truth
        n = len(before.built_from[3])
        if built_from[3][:n] != before.built_from[3]:  # blocks were merged, or rows removed
            fresh = _with_blocks(Flat(), blocks)
            fresh.inherit(flat)
            return self._open_or_scan(name, fresh, structure, on_gpu)
        grown = _with_blocks(flat.copy(), blocks[n:])
        if structure is not None and structure == before.built_from[0] and flat is not before.index and not on_gpu:
            return before.index.over(grown)
        return self._open_or_scan(name, grown, structure, on_gpu)

    def _open_or_scan(self, name: str, flat: Flat, structure: Structure | None, on_gpu: "GpuFlat | None" = None) -> Any:
        """Open the index of a structure over these vectors; return the vectors if it is missing or damaged.

        With a GPU, copy them to it, or those that the index `on_gpu` does not have, unless they have their own measure,
        which a GPU cannot compute.
        """
        if self._gpu and len(flat) >= GPU_MIN and not self._has_own_measure(name):
            from lookalike.index.gpu_flat import GpuFlat  # PyTorch takes a second to load

            with suppress(RuntimeError):  # out of memory: search on the CPU
                return GpuFlat(self._gpu).build(flat) if on_gpu is None else on_gpu.over(flat)
        if structure is not None:
            # A scan returns the same results. The next add rebuilds a damaged index; leaves need numba.
            with suppress(DamagedError, MissingError):
                return self.open(structure.file, flat)
        return flat


def leaves_peak(n: float, d: float) -> float:
    """Peak memory of building leaves in a file: a sample for k-means, or later the scores of all rows for a query."""
    return max(1.5 * 4 * d * 128 * min(n / 500, 4_096), 30 * n)


def leaves_fit(n: float, d: float, ram: float) -> bool:
    """Whether leaves can be built within `ram` bytes of memory."""
    return PROCESS_BYTES + leaves_peak(n, d) <= ram


def _is_on_gpu(index: Any) -> bool:
    return getattr(index, "kind", None) == "gpu"


def _has_grown(leaves: Any, flat: Flat) -> bool:
    """Whether these vectors include all those that leaves were built from."""
    return not isinstance(leaves, Flat) and flat.extends(leaves.truth)


def _with_blocks(index: Any, blocks: Iterable[Block]) -> Any:
    """Add the live rows of these blocks to an index, and return it."""
    for block in blocks:
        index.add(block.ids, block.X)
        if block.dead is not None:
            index.remove(block.ids[block.dead])
    return index


def _make_coded(codes: Any, truth: Any, chain: Chain) -> "Coded":
    from lookalike.index.coded import Coded  # numba takes a second to load

    codes.remove(without(codes.ids, truth.ids))  # codes of vectors in a damaged segment
    return Coded(codes, truth, chain.transform if len(chain.specs) > 2 else None)
