"""The vectors of an index, kept where they are.

In: ids (n,) and rows X (n, d), block by block; a memory map stays one. Out: chunks of rows to score, either all rows in
their order or some of them, gathered. A row keeps its number, from 0 on, for as long as the index lives.
"""

import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, chunks
from lookalike.errors import InputError
from lookalike.index.ids import IdTable, check_ids, sort_ids
from lookalike.types import Ids, Vectors

CHUNK_BYTES = 2**21
"""What is written in one go (scores, gathered rows, converted ones) stays in the cache until it has been read."""

SMALL = 512
"""Rows of a block that may be copied into one with its neighbour, lest a thousand small adds make a thousand blocks."""

LONG = 64
"""Numbers of a row from which on products with one point are quicker row by row, some twice: BLAS is made for many."""

Mask: TypeAlias = NDArray[np.bool_]


class Squares(NamedTuple):
    """Squared lengths of rows."""

    each: Vectors  # (m,)
    longest: float  # the largest finite one


@dataclass(slots=True)
class Block:
    """Rows that were added together."""

    start: int  # the number of the first row
    X: NDArray[Any]  # (m, d) float32 or float16
    known_squares: Vectors | None = None

    def squares(self) -> Vectors:
        """Squared lengths, (m,), computed by the first search: opening a collection must not read its vectors."""
        if self.known_squares is None:
            parts = chunks(len(self.X), row_bytes=4 * self.X.shape[1], max_bytes=CHUNK_BYTES)
            self.known_squares = np.concatenate([_squares(float32(self.X[part])) for part in parts])
        return self.known_squares


@dataclass(slots=True)
class Chunk:
    """Rows that are scored together, m in all, of several blocks: after each step numpy waits for Python's lock."""

    ids: Ids  # (m,)
    parts: list[NDArray[Any]]  # the rows, float32 or float16, in the order of the ids
    keep: Mask | None  # (m,) which of them may be answers; None = all
    squares: Callable[[], Squares]  # their squared lengths

    @property
    def is_float32(self) -> bool:
        """Whether no row has to be converted."""
        return all(X.dtype == np.float32 for X in self.parts)

    def products(self, points: Vectors, out: Vectors) -> None:
        """The inner products with points (q, d), to `out` (m, q)."""
        q, d = points.shape
        start = 0
        for X in self.parts:
            rows = out[start : start + len(X)]
            if q == 1 and d >= LONG:
                np.vecdot(float32(X), points[0], out=rows[:, 0])
            else:
                np.matmul(float32(X), points.T, out=rows)
            start += len(X)


class Blocks:
    """Rows with ids. Reading may go on in several threads; `add` and `remove` want to be alone."""

    def __init__(self) -> None:
        self.dim: int | None = None
        self.alive: Mask = np.empty(0, np.bool_)  # (rows,) False = removed
        self.table = IdTable()
        self._ids: Ids = np.empty(0, np.int64)  # (rows,)
        self._blocks: list[Block] = []
        self._squares = Squares(np.empty(0, np.float32), 0.0)  # of all rows there were when it was last asked for

    def copy(self) -> "Blocks":
        """The same rows, under the same numbers, to be added to and removed from without the other's knowing."""
        made = Blocks()
        made.dim, made.alive, made.table, made._blocks = self.dim, self.alive.copy(), self.table.copy(), [*self._blocks]
        made._ids, made._squares = self._ids, self._squares
        return made

    def extends(self, other: "Blocks") -> bool:
        """Whether every row of another is here, under the same number, and none of them has gone since."""
        n = len(other.alive)
        if len(self.alive) < n or not np.array_equal(self.alive[:n], other.alive):
            return False
        known = {id(block) for block in self._blocks}
        return all(id(block) in known or self._has(block, other._ids) for block in other._blocks)

    def inherit(self, other: "Blocks") -> None:
        """Take over the squares that another has computed of the very same rows."""
        known = {id(block.X): block for block in other._blocks}
        for block in self._blocks:
            if id(block.X) in known:
                block.known_squares = known[id(block.X)].known_squares

    def add(self, ids: Ids, X: Vectors) -> None:
        """Refer to rows X (n, d) under new ids (n,)."""
        ids, X = check_ids(ids), _check_block(X, self.dim)
        if len(ids) != len(X):
            raise InputError(f"ids and X must have the same length. Got {len(ids)} ids and {len(X)} rows.")
        self.table.add(ids, len(self.alive) + np.arange(len(ids)))
        self.dim = X.shape[1]
        if len(ids):
            self._blocks.append(Block(len(self.alive), X))
            self.alive = np.concatenate([self.alive, np.ones(len(ids), np.bool_)])
            self._ids = np.concatenate([self._ids, ids])
        while len(self._blocks) > 1 and len(self._blocks[-2].X) <= len(self._blocks[-1].X) <= SMALL:
            self._blocks[-2:] = [_joined(*self._blocks[-2:])]

    def remove(self, ids: Ids) -> int:
        """Mark the rows of these ids as gone; returns how many there were."""
        rows = self.table.remove(sort_ids(ids))
        self.alive[rows] = False
        return len(rows)

    def gather(self, rows: Ids) -> Vectors:
        """These rows, (m, d) float32, in the given order."""
        X = np.empty((len(rows), self.dim or 0), np.float32)
        for block_X, local, places in self.find(rows):
            X[places] = block_X.take(local, axis=0)
        return X

    def find(self, rows: Ids) -> Iterator[tuple[NDArray[Any], Ids, Any]]:
        """Where these rows (m,) are: the X of a block, the rows of it that are meant, and their places among the m."""
        if len(self._blocks) == 1:
            yield self._blocks[0].X, rows, slice(None)
            return
        order = np.argsort(rows)
        ends = np.searchsorted(rows[order], [block.start + len(block.X) for block in self._blocks])
        begin = 0
        for block, end in zip(self._blocks, ends, strict=True):
            if end > begin:
                places = order[begin:end]
                yield block.X, rows[places] - block.start, places
                begin = end

    def _has(self, block: Block, ids: Ids) -> bool:
        """Whether these rows, of which `ids` has the ids, are here under the same numbers, perhaps beside others."""
        rows = slice(block.start, block.start + len(block.X))
        alive = self.alive[rows]
        return bool(np.array_equal(self._ids[rows][alive], ids[rows][alive]))

    def scan(self, keep: Mask, row_bytes: int) -> Iterator[Chunk]:
        """Every row in its order, `keep` (rows,) beside it, in chunks that cost `row_bytes` a row to work on."""
        if any(block.X.dtype != np.float32 for block in self._blocks):
            row_bytes += 4 * (self.dim or 0)  # a copy
        whole = bool(keep.all())
        for part in chunks(len(keep), row_bytes, max_bytes=CHUNK_BYTES):
            if whole or keep[part].any():
                yield Chunk(
                    ids=self._ids[part],
                    parts=self._parts(part),
                    keep=None if whole else keep[part],
                    squares=partial(self._known, part),
                )

    def pick(self, ids: Ids, rows: Ids) -> Iterator[Chunk]:
        """These rows only, whose ids are `ids`, gathered chunk by chunk."""
        for part in chunks(len(rows), row_bytes=4 * (self.dim or 0), max_bytes=CHUNK_BYTES):
            X = self.gather(rows[part])
            yield Chunk(ids=ids[part], parts=[X], keep=None, squares=partial(_measured, X))

    def _parts(self, rows: slice) -> list[NDArray[Any]]:
        """The rows of these numbers, as they are in their blocks."""
        cut = [block.X[max(0, rows.start - block.start) : max(0, rows.stop - block.start)] for block in self._blocks]
        return [X for X in cut if len(X)]

    def _known(self, rows: slice) -> Squares:
        """The squared lengths of these rows, and the longest of all."""
        if len(self._squares.each) != len(self.alive):
            self._squares = _with_longest(np.concatenate([block.squares() for block in self._blocks]))
        return Squares(self._squares.each[rows], self._squares.longest)


def _check_block(X: Any, dim: int | None) -> NDArray[Any]:
    """X as a C-contiguous float32 or float16 matrix; in memory it must be finite, a memory map is not read."""
    if _is_mapped(X) and X.dtype in (np.float32, np.float16) and X.ndim == 2 and X.flags.c_contiguous:
        mapped: NDArray[Any] = X
        if dim is not None and mapped.shape[1] != dim:
            raise InputError(f"X must have {dim} columns. Got {mapped.shape[1]}.")
        return mapped
    checked = check_rows(X, dim=dim)
    kept = X if getattr(X, "dtype", None) == np.float16 else checked
    return np.ascontiguousarray(kept, dtype=kept.dtype if kept.dtype == np.float16 else np.float32)


def _is_mapped(X: Any) -> bool:
    """Whether X looks into a memory map, also through views that no longer say so."""
    while isinstance(X, np.ndarray) and not isinstance(X, np.memmap):
        X = X.base
    return isinstance(X, np.memmap | mmap.mmap)


def _joined(first: Block, second: Block) -> Block:
    return Block(first.start, np.concatenate([first.X, second.X]))


def float32(X: NDArray[Any]) -> Vectors:
    """The same numbers, a copy where they are halves."""
    return X.astype(np.float32, copy=False)


def _squares(X: Vectors) -> Vectors:
    squares: Vectors = np.einsum("ij,ij->i", X, X)
    return squares


def _measured(X: Vectors) -> Squares:
    return _with_longest(_squares(X))


def _with_longest(squares: Vectors) -> Squares:
    return Squares(squares, float(np.max(squares, where=np.isfinite(squares), initial=0.0)))
