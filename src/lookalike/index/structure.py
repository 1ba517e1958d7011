"""What faiss keeps for an approximate index: compressed rows by position, and a way to walk among them.

In: rows X (m, d) with ids (m,). Out: positions (q, s) of rows that are likely near to points (q, d).
In a file: what faiss writes, ids included, and a sum over it, since faiss itself trusts what it reads.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import faiss as _faiss
import numpy as np
from numpy.typing import NDArray

from lookalike.errors import DamagedError, StoreError
from lookalike.index.ids import IdTable
from lookalike.index.topk import Which
from lookalike.types import Ids, Vectors

faiss: Any = _faiss  # its stubs know only a part of it

KINDS = ("hnsw", "ivfpq")

MAGIC = int.from_bytes(b"lookann1", "little")
"""Ends the file, before the sum."""

Bits = NDArray[np.uint8]
"""A bit for each position, 1 = may be found."""


class Structure:
    """Positions 0 … n - 1, each with a compressed row and an id; -1 is the id of what was removed."""

    def __init__(self, index: Any):  # faiss.IndexIDMap
        self._index = index
        self._inner = faiss.downcast_index(index.index)
        self.kind = KINDS[isinstance(self._inner, faiss.IndexIVF)]
        self._follow()
        live = np.flatnonzero(self.ids >= 0)
        self._table = IdTable()
        self._table.add(self.ids[live], live)
        self._bits: Bits = np.packbits(self.ids >= 0, bitorder="little")
        self.live = len(live)

    @classmethod
    def train(cls, kind: str, sample: Vectors, n: int, links: int, breadth: int) -> Self:
        """A structure without rows, fit for about n like those of the sample."""
        d = sample.shape[1]
        if kind == "hnsw":
            index = faiss.index_factory(d, f"IDMap,HNSW{links}_SQ8")
            faiss.downcast_index(index.index).hnsw.efConstruction = breadth
        else:
            lists = max(1, min(int(n**0.5), len(sample) // 40))  # more would cost minutes of k-means and gain little
            index = faiss.index_factory(d + d % 2, f"IDMap,IVF{lists},PQ{(d + 1) // 2}x4fs")
        structure = cls(index)
        index.train(structure._padded(sample))
        return structure

    @classmethod
    def load(cls, path: Path) -> Self:
        """Raises DamagedError where the file does not hold what `save` wrote."""
        remedy = "Delete it: the index is built anew from the vectors."
        try:
            words = np.memmap(path, np.uint64, "r")
            if len(words) < 3 or words[-2] != MAGIC or words[:-1].sum() != words[-1]:
                raise DamagedError(f"{path} is not whole. {remedy}")
            return cls(faiss.read_index(str(path)))
        except (OSError, ValueError, RuntimeError) as error:
            raise DamagedError(f"{path} cannot be read: {error}. {remedy}") from error

    def save(self, path: Path) -> None:
        """Write everything to one file."""
        try:
            faiss.write_index(self._index, str(path))
            with path.open("r+b") as file:
                size = file.seek(0, 2)
                file.write(bytes(-size % 8) + MAGIC.to_bytes(8, "little"))
            total = np.memmap(path, np.uint64, "r").sum()
            with path.open("ab") as file:
                file.write(total.tobytes())
        except (OSError, RuntimeError) as error:
            raise StoreError(f"{path} cannot be written: {error}. Is there room on the disk?") from error

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dim(self) -> int:
        """The dimension of the rows, made even for PQ."""
        return int(self._index.d)

    def add(self, ids: Ids, X: Vectors) -> None:
        """Append rows X (m, d) under new ids (m,)."""
        first = len(self)
        self._index.add_with_ids(self._padded(X), ids)
        self._follow()
        self._table.add(ids, np.arange(first, len(self)))
        self._bits = np.packbits(self.ids >= 0, bitorder="little")
        self.live += len(ids)

    def remove(self, ids: Ids) -> None:
        """Never propose these ids (m,) again. Neither kind can forget a row: its position stays."""
        gone = self._table.remove(ids)
        self.ids[gone] = -1
        self._bits = _without(self._bits, gone)
        self.live -= len(gone)

    def bits(self, among: Ids | None, exclude: Ids | None) -> tuple[Bits | None, int]:
        """Which positions may be found, None = all of them, and how many they are."""
        if among is not None:
            keep = np.zeros(len(self), np.bool_)
            keep[self._positions(among)] = True
            if exclude is not None:
                keep[self._positions(exclude)] = False
            return np.packbits(keep, bitorder="little"), int(np.count_nonzero(keep))
        if exclude is not None:
            gone = self._positions(exclude)
            return _without(self._bits, gone), self.live - len(gone)
        return (None if self.live == len(self) else self._bits), self.live

    def search(self, points: Vectors, size: int, breadth: int, bits: Bits | None) -> tuple[Ids, int]:
        """Positions of `size` likely neighbours of each point, (q, size), -1 = none, and how many were compared."""
        if self.kind == "hnsw":
            stats, centres, breadth = faiss.cvar.hnsw_stats, 0, max(breadth, size)
        else:
            stats, centres, breadth = faiss.cvar.indexIVF_stats, self._inner.nlist, min(breadth, self._inner.nlist)
        if bits is None:
            params = _plain_params(self.kind, breadth)
        else:
            params = _params(self.kind, breadth, sel=faiss.IDSelectorBitmap(bits))
        before = stats.ndis
        _, positions = self._inner.search(self._padded(points), size, params=params)
        return positions, int(stats.ndis - before + len(points) * centres)

    def _positions(self, ids: Ids) -> Ids:
        positions = self._table.rows(ids)
        return positions[positions >= 0]

    def _follow(self) -> None:
        """Look at faiss's own list of ids, which moves when it grows."""
        n = self._index.ntotal
        self.ids: Ids = faiss.rev_swig_ptr(self._index.id_map.data(), n) if n else np.empty(0, np.int64)

    def _padded(self, X: Vectors) -> Vectors:
        return X if X.shape[1] == self.dim else np.pad(X, ((0, 0), (0, self.dim - X.shape[1])))


def distances(points: Vectors, which: Which, X: NDArray[Any], rows: Ids) -> Vectors:
    """Squared distances in float32, (m,), of row `rows[i]` of X to point `which[i]`: by all cores, X where it is."""
    if X.dtype != np.float32:
        X, rows = X.take(rows, axis=0).astype(np.float32), np.arange(len(rows))
    found = np.empty(len(rows), np.float32)
    at = faiss.swig_ptr
    faiss.pairwise_indexed_L2sqr(X.shape[1], len(rows), at(points), at(which), at(X), at(rows), at(found))
    return found


def _params(kind: str, breadth: int, **selector: Any) -> Any:
    if kind == "hnsw":
        return faiss.SearchParametersHNSW(efSearch=breadth, **selector)
    return faiss.SearchParametersIVF(nprobe=breadth, **selector)


_plain_params = lru_cache(_params)  # making them anew takes a tenth of a short search


def _without(bits: Bits, positions: Ids) -> Bits:
    bits = bits.copy()
    np.bitwise_and.at(bits, positions >> 3, ~(1 << (positions & 7)).astype(np.uint8))
    return bits
