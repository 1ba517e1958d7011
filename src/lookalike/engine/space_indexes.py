"""The indexes over the vectors of spaces, opened once and kept in step with the store.

In: a store, and which spaces hold codes. Out: per space an index that answers queries, and one that answers feedback.
What was opened before is used again as far as it goes: rows that came are added, files that stayed are not read again.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lookalike.engine.chain import Chain
from lookalike.engine.looks import at_one_moment
from lookalike.errors import DamagedError
from lookalike.index.flat import Flat
from lookalike.index.ids import without
from lookalike.registry import component, create
from lookalike.store.derived import Structure
from lookalike.store.directory import Store
from lookalike.store.segments import Block

if TYPE_CHECKING:  # faiss is loaded when there is an index of its kind
    from lookalike.index.ann import Ann
    from lookalike.index.coded import Coded
    from lookalike.index.leaves import Leaves

LEAVES_SUFFIX = ".leaves"
"""How the files of leaves end; all others are faiss's."""

SHORTLISTED = "shortlisted"
"""The index for spaces with a measure of their own; its files begin with that."""


class OpenIndex(NamedTuple):
    """An index that was opened."""

    version: int  # of the store, when it was last compared with it
    made_of: tuple[Any, ...]
    index: Any


class Indexes:
    """The indexes of a collection's spaces. Safe to use from several threads.

    `coded_chain` tells the chain of a space that holds codes, and None of all others.
    """

    def __init__(self, store: Store, coded_chain: Callable[[str], Chain | None]):
        self.store = store
        self._coded_chain = coded_chain
        self._lock = threading.RLock()
        self._leaves_lock = threading.RLock()  # taken before the other: to load leaves takes long
        self._opened: dict[str, OpenIndex] = {}
        self._leaves: dict[str, OpenIndex] = {}

    def points(self, name: str) -> "Flat | Ann | Coded":
        """The index over a space's vectors, in step with the store; codes have those of their base beside them."""
        if self._coded_chain(name) is not None:  # two spaces are looked at
            return at_one_moment(self.store, partial(self._points, name))
        return self._points(name)

    def hyperplanes(self, name: str) -> "Flat | Leaves":
        """The index over a space's vectors that feedback asks, in step with the store."""
        version = self.store.version()
        leaves: Flat | Leaves | None = self._still(self._leaves, name, version)
        if leaves is not None:
            return leaves
        with self._leaves_lock:
            flat, structure = self.flat(name), self.store.vectors.structures.get(name, "hyperplanes")
            made_of, before = (structure, flat), self._leaves.get(name)
            if before is not None and before.made_of == made_of:
                leaves = before.index
            elif before is not None and structure == before.made_of[0] and _grew(before.index, flat):
                leaves = before.index.over(flat)
            else:
                leaves = self._open_or(flat, structure)
            self._leaves[name] = self._keep(version, made_of, leaves)
            return leaves

    def flat(self, name: str) -> Flat:
        """The vectors of a space themselves."""
        index: Any = self.points(name)
        flat: Flat = index if isinstance(index, Flat) else index.truth
        return flat

    def open(self, file: str, flat: Flat) -> Any:
        """The index of a file, over these vectors."""
        name = "leaves" if file.endswith(LEAVES_SUFFIX) else SHORTLISTED if file.startswith(SHORTLISTED) else "ann"
        return component("index", name).load(self.store.path / "indexes" / file, flat)

    def _points(self, name: str) -> "Flat | Ann | Coded":
        version = self.store.version()
        index: Flat | Ann | Coded | None = self._still(self._opened, name, version)
        if index is not None:
            return index
        with self._lock:
            index = self._still(self._opened, name, version)
            if index is not None:
                return index  # another thread was faster
            blocks = self.store.vectors.blocks(name)
            structure = self.store.vectors.structures.get(name, "points")
            chain = self._coded_chain(name)
            truth = None if chain is None else self.points(chain.specs[0])
            made_of = structure, chain, truth, tuple((block.segment, block.n_live) for block in blocks)
            before = self._opened.get(name)
            if before is not None and before.made_of == made_of:
                index = before.index
            elif chain is not None:
                index = _coded(_filled(create("index", "hamming"), blocks), truth, chain)
            else:
                index = self._reopened(before, made_of, blocks, structure)
            self._opened[name] = self._keep(version, made_of, index)
        return index

    def _still(self, kept: dict[str, OpenIndex], name: str, version: int) -> Any:
        """An index that was opened, where nothing has been committed since; what is not committed may differ."""
        found = kept.get(name)
        return None if found is None or found.version != version or self.store.in_transaction() else found.index

    def _keep(self, version: int, made_of: tuple[Any, ...], index: Any) -> OpenIndex:
        return OpenIndex(-1 if self.store.in_transaction() else version, made_of, index)  # it may never be committed

    def _reopened(
        self, before: OpenIndex | None, made_of: tuple[Any, ...], blocks: list[Block], structure: Structure | None
    ) -> Any:
        """The index over these blocks; what was opened before is used again as far as it goes, and stays as it is."""
        if before is None or before.made_of[1] is not None:
            return self._open_or(_filled(Flat(), blocks), structure)
        flat = before.index if isinstance(before.index, Flat) else before.index.truth
        n = len(before.made_of[3])
        if made_of[3][:n] != before.made_of[3]:  # some were merged, or have lost rows
            made = _filled(Flat(), blocks)
            made.inherit(flat)
            return self._open_or(made, structure)
        grown = _filled(flat.copy(), blocks[n:])
        if structure is not None and structure == before.made_of[0] and flat is not before.index:
            return before.index.over(grown)
        return self._open_or(grown, structure)

    def _open_or(self, flat: Flat, structure: Structure | None) -> Any:
        """The index whose structure this is, over these vectors; or these alone."""
        if structure is not None:
            with suppress(DamagedError):  # a scan gives the same answers, and the next settle builds anew
                return self.open(structure.file, flat)
        return flat


def _grew(leaves: Any, flat: Flat) -> bool:
    """Whether these vectors are those that leaves were made of, and perhaps more."""
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

    codes.remove(without(codes.ids, truth.ids))  # those of vectors in a damaged segment
    return Coded(codes, truth, chain.transform if len(chain.specs) > 2 else None)
