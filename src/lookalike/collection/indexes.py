"""The indexes over stored vectors: opened once, kept in step with the store, built when a space is large enough.

`Indexes` knows stored sets of rows by name; which of them a space searches or learns from is decided by `Space`. An
index that was opened before is reused as far as possible: new rows are added, unchanged files are not read again.
"""

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lookalike.collection.chain import Chain
from lookalike.errors import DamagedError
from lookalike.index.choice import choose, measure_recall
from lookalike.index.flat import Flat
from lookalike.index.ids import without
from lookalike.registry import Spec, component, create
from lookalike.store.derived import Recall, Structure
from lookalike.store.directory import Store
from lookalike.store.segments import Block
from lookalike.types import Progress

if TYPE_CHECKING:  # faiss and numba are loaded when an index needs them
    from lookalike.index.ann import Ann
    from lookalike.index.coded import Coded
    from lookalike.index.leaves import Leaves

LEAVES_SUFFIX = ".leaves"
"""Suffix of files of leaves; all other index files are faiss's."""

SHORTLISTED = "shortlisted"
"""The index of spaces with a measure of their own; also the prefix of its files."""

LEAVES_MIN = 50_000
"""Rows from which feedback searches leaves; fewer are scanned."""

STALE = 0.1
"""Share of rows added or removed since an index was built, above which it is built again."""

MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Memory limits of a Linux container: control groups of version 2, and of version 1."""

PROCESS = 350e6
"""Bytes of Python with its libraries and a network."""


class OpenIndex(NamedTuple):
    """An index that was opened."""

    version: int  # of the store, when the index was last compared with it
    made_of: tuple[Any, ...]
    index: Any


class Indexes:
    """The indexes of a collection. Thread-safe.

    `coded_chain` returns the chain of a space that stores codes, None for all others.
    """

    def __init__(self, store: Store, coded_chain: Callable[[str], Chain | None]):
        self.store = store
        self._coded_chain = coded_chain
        self._lock = threading.RLock()
        self._leaves_lock = threading.RLock()  # taken before the other one, because loading leaves takes long
        self._points: dict[str, OpenIndex] = {}
        self._leaves: dict[str, OpenIndex] = {}

    def points(self, name: str) -> "Flat | Ann | Coded":
        """The index that answers nearest-neighbour queries; that of codes also has the vectors that they encode."""
        if self._coded_chain(name) is not None:  # two sets of rows are read
            return self.store.read_consistently(partial(self._open_points, name))
        return self._open_points(name)

    def hyperplanes(self, name: str) -> "Flat | Leaves":
        """The index that answers feedback."""
        version = self.store.version()
        leaves: Flat | Leaves | None = self._current(self._leaves, name, version)
        if leaves is not None:
            return leaves
        with self._leaves_lock:
            flat, structure = self.flat(name), self.store.vectors.structures.get(name, "hyperplanes")
            made_of, before = (structure, flat), self._leaves.get(name)
            if before is not None and before.made_of == made_of:
                leaves = before.index
            elif before is not None and structure == before.made_of[0] and _has_grown(before.index, flat):
                leaves = before.index.over(flat)
            else:
                leaves = self._open_or_scan(flat, structure)
            self._leaves[name] = self._opened(version, made_of, leaves)
            return leaves

    def flat(self, name: str) -> Flat:
        """The vectors themselves, without an index structure."""
        index: Any = self.points(name)
        flat: Flat = index if isinstance(index, Flat) else index.truth
        return flat

    def open(self, file: str, flat: Flat) -> Any:
        """The index stored in a file, over these vectors."""
        name = "leaves" if file.endswith(LEAVES_SUFFIX) else SHORTLISTED if file.startswith(SHORTLISTED) else "ann"
        return component("index", name).load(self.store.path / "indexes" / file, flat)

    def build_points(self, name: str, chain: Chain, title: str, progress: Progress) -> None:
        """Build a faiss index if there are enough rows for one and the existing one is stale; needs the writer lock.

        `title` is the name of the space in progress reports.
        """
        kind = choose(self.store.vectors.rows(name))
        index = self.points(name)
        if kind == "flat" or (kind == getattr(index, "kind", None) and getattr(index, "stale", 1) <= STALE):
            return
        progress(f"indexing {title}", 0, None)
        self.store.vectors.quarantine_damaged(name, progress=progress)
        before, flat = self.store.vectors.structures.get(name, "points"), self.flat(name)
        recall = None
        if chain.compares:  # faiss uses the Euclidean distance: it proposes candidates, the space's measure decides
            built = create("index", Spec(SHORTLISTED, {"kind": kind})).build(flat, progress, chain.transforms[-1])
            recall = built.recall(chain.transforms[-1])
        elif before is not None and kind == getattr(index, "kind", None):
            # Opened again, because other threads may be searching `index`.
            built = self.open(before.file, flat).build(progress=progress)
        else:
            built = create("index", Spec("ann", {"kind": kind})).build(flat, progress)
        target = self.store.vectors.new_file("indexes", ".faiss")
        built.save(target)
        prefix = f"{SHORTLISTED}-" if chain.compares else ""
        file = self.store.vectors.put_in_place(target, f"{prefix}{kind}-{target.name}")
        with self.store.transaction():
            self.store.vectors.structures.set(name, "points", file, recall)

    def build_leaves(self, name: str, dim: int, progress: Progress) -> None:
        """Build leaves if there are enough rows for them and the existing ones are stale; needs the writer lock.

        Nothing is built if that would take more memory than the machine has; feedback then scans all rows.
        """
        rows = self.store.vectors.rows(name)
        if rows < LEAVES_MIN or not leaves_fit(rows, dim, installed_bytes()):
            return
        if getattr(self.hyperplanes(name), "stale", 1) <= STALE:
            return
        self.store.vectors.quarantine_damaged(name, progress=progress)
        built = create("index", "leaves").build(self.flat(name), progress)
        target = self.store.vectors.new_file("indexes", LEAVES_SUFFIX)
        built.save(target)
        file = self.store.vectors.put_in_place(target)
        with self.store.transaction():
            self.store.vectors.structures.set(name, "hyperplanes", file)

    def measure_codes(self, name: str, chain: Chain, progress: Progress) -> None:
        """Measure the recall of codes on some of the pictures, unless the rows have hardly changed since the last time.

        Needs the writer lock.
        """
        before, rows = self.store.vectors.structures.recall(name), self.store.vectors.rows(name)
        if before is not None and abs(rows - before.rows) <= STALE * before.rows:
            return
        progress(f"measuring {name}", 0, None)
        found = Recall(measure_recall(self.points(name), chain.query), rows)
        with self.store.transaction():
            self.store.vectors.structures.set_recall(name, found)

    def _open_points(self, name: str) -> "Flat | Ann | Coded":
        version = self.store.version()
        index: Flat | Ann | Coded | None = self._current(self._points, name, version)
        if index is not None:
            return index
        with self._lock:
            index = self._current(self._points, name, version)
            if index is not None:
                return index  # another thread was faster
            blocks = self.store.vectors.blocks(name)
            structure = self.store.vectors.structures.get(name, "points")
            chain = self._coded_chain(name)
            truth = None if chain is None else self.points(chain.specs[0])
            made_of = structure, chain, truth, tuple((block.segment, block.n_live) for block in blocks)
            before = self._points.get(name)
            if before is not None and before.made_of == made_of:
                index = before.index
            elif chain is not None:
                index = _coded(_filled(create("index", "hamming"), blocks), truth, chain)
            else:
                index = self._reopen(before, made_of, blocks, structure)
            self._points[name] = self._opened(version, made_of, index)
        return index

    def _current(self, opened: dict[str, OpenIndex], name: str, version: int) -> Any:
        """An open index if nothing was committed since; inside a transaction, None."""
        found = opened.get(name)
        return None if found is None or found.version != version or self.store.in_transaction() else found.index

    def _opened(self, version: int, made_of: tuple[Any, ...], index: Any) -> OpenIndex:
        return OpenIndex(-1 if self.store.in_transaction() else version, made_of, index)  # may never be committed

    def _reopen(
        self, before: OpenIndex | None, made_of: tuple[Any, ...], blocks: list[Block], structure: Structure | None
    ) -> Any:
        """The index over these blocks. The one opened before is reused as far as possible, and does not change."""
        if before is None or before.made_of[1] is not None:
            return self._open_or_scan(_filled(Flat(), blocks), structure)
        flat = before.index if isinstance(before.index, Flat) else before.index.truth
        n = len(before.made_of[3])
        if made_of[3][:n] != before.made_of[3]:  # blocks were merged, or lost rows
            fresh = _filled(Flat(), blocks)
            fresh.inherit(flat)
            return self._open_or_scan(fresh, structure)
        grown = _filled(flat.copy(), blocks[n:])
        if structure is not None and structure == before.made_of[0] and flat is not before.index:
            return before.index.over(grown)
        return self._open_or_scan(grown, structure)

    def _open_or_scan(self, flat: Flat, structure: Structure | None) -> Any:
        """The index of a structure over these vectors; the vectors alone if there is none or it is damaged."""
        if structure is not None:
            with suppress(DamagedError):  # a scan gives the same answers, and the next add builds the index again
                return self.open(structure.file, flat)
        return flat


def installed_bytes() -> int:
    """The memory of this machine, or the limit of the container."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory, *(_limit(file, memory) for file in MEMORY_LIMITS))


def leaves_peak(n: float, d: float) -> float:
    """Peak memory while leaves are built: rows as bytes twice, unsorted and sorted, and orders."""
    return (2.2 * d + 60) * n


def leaves_fit(n: float, d: float, ram: float) -> bool:
    """Whether leaves can be built within `ram` bytes of memory."""
    return PROCESS + leaves_peak(n, d) <= ram


def _has_grown(leaves: Any, flat: Flat) -> bool:
    """Whether these vectors are those that leaves were built from, and possibly more."""
    return not isinstance(leaves, Flat) and flat.extends(leaves.truth)


def _filled(index: Any, blocks: Iterable[Block]) -> Any:
    """An index with the live rows of these blocks added."""
    for block in blocks:
        index.add(block.ids, block.X)
        if block.dead is not None:
            index.remove(block.ids[block.dead])
    return index


def _coded(codes: Any, truth: Any, chain: Chain) -> "Coded":
    from lookalike.index.coded import Coded  # numba takes a second to load

    codes.remove(without(codes.ids, truth.ids))  # codes of vectors in a damaged segment
    return Coded(codes, truth, chain.transform if len(chain.specs) > 2 else None)


def _limit(file: Path, memory: int) -> int:
    """The limit in a file; all the memory if there is none ("max", or a number larger than any machine)."""
    try:
        limit = int(file.read_text())
    except (OSError, ValueError):
        return memory
    return limit if limit > 0 else memory
