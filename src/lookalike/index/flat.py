"""Exact search that compares every vector: the reference for all other indexes.

A search takes about as long as reading the vectors from memory once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import sqrt
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, chunks
from lookalike.errors import InputError, MissingError
from lookalike.index.exact import CHUNK_BYTES, Chunk, ExactIndex, Selection
from lookalike.index.queries import PointQuery
from lookalike.index.topk import TopK, Which
from lookalike.mapped_arrays import MappedRows, is_mapped
from lookalike.scaled_rows import Rows, ScaledRows, as_stored
from lookalike.types import Array, Hits, Ids, Query, Vectors

POINTS_AT_ONCE = 256
"""Queries that share a pass over the vectors."""

SMALL = 512
"""Blocks of up to this many rows are joined with their neighbours; else 1,000 small adds would create 1,000 blocks."""

FEW = 8
"""Scaled rows are not decoded for products with up to this many points."""

COMPILED = 50_000
"""With this many rows, searches read scaled rows by compiled loops. Fewer are decoded once, and kept in memory."""

LONG = 64
"""With this many columns or more, products with one point are computed row by row, up to twice as fast as with BLAS."""


class Squares(NamedTuple):
    """Squared lengths of rows."""

    each: Vectors  # (m,)
    longest: float  # the largest finite one


@dataclass(slots=True)
class Block:
    """Rows that were added together."""

    start: int  # the number of the first row
    X: Rows  # (m, d) float32, float16 or scaled rows
    known_squares: Vectors | None = None
    known_rows: Vectors | None = None
    mapped: MappedRows | None = field(init=False)  # None for rows in memory

    def __post_init__(self) -> None:
        self.mapped = MappedRows.of(as_stored(self.X))

    def decoded(self) -> NDArray[Any]:
        """The rows as an array. Decoded rows are kept, because decoding takes longer than a scan."""
        if not isinstance(self.X, ScaledRows):
            return self.X
        if self.known_rows is None:
            self.known_rows = self.X.decode()
        return self.known_rows

    def squares(self) -> Vectors:
        """Squared lengths, (m,), computed by the first search: opening a collection must not read its vectors."""
        if self.known_squares is None:
            parts = chunks(len(self.X), row_bytes=4 * self.X.shape[1], max_bytes=CHUNK_BYTES)
            self.known_squares = np.concatenate([_square(_float32(self.X[part])) for part in parts])
        return self.known_squares


class Flat(ExactIndex):
    """Exact search that compares every vector with every query.

    `add` refers to float32, float16 and scaled rows without copying them, so do not change them afterwards. It does not
    read a memory map, so it does not check that its values are finite. Searches are thread-safe while no other thread
    calls `add` or `remove`.

    Examples
    --------
    >>> import numpy as np
    >>> index = Flat()
    >>> index.add(np.array([10, 20]), np.eye(2, dtype=np.float32))
    >>> index.search(PointQuery([[0.0, 1.0]]), k=1).ids
    array([[20]])

    """

    dtype = np.float32

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Block] = []
        self._squares = Squares(np.empty(0, np.float32), 0.0)  # of all rows at the last search

    def copy(self) -> Self:
        """Return a copy that shares the vectors and can be changed while this index answers searches."""
        made = super().copy()
        made.blocks = [*self.blocks]
        return made

    def extends(self, other: "Flat") -> bool:
        """Whether this index has all rows of another one, under the same row numbers and with the same rows removed."""
        n = len(other.alive)
        if len(self.alive) < n or not np.array_equal(self.alive[:n], other.alive):
            return False
        known = {id(block) for block in self.blocks}
        return all(id(block) in known or self._has(block, other.row_ids) for block in other.blocks)

    def inherit(self, other: "Flat") -> None:
        """Reuse the squared lengths that another index has computed for the same arrays."""
        known = {id(block.X): block for block in other.blocks}
        for block in self.blocks:
            if id(block.X) in known:
                block.known_squares = known[id(block.X)].known_squares

    def gather(self, rows: Ids) -> Vectors:
        """The rows with these row numbers, (m, d) float32, in the given order."""
        parts = list(self.find(rows))
        for block, local, _ in parts:  # before the first is used, so that the disk reads all of them together
            if block.mapped is not None:
                block.mapped.prefetch(local)
        return self._joined(parts, len(rows))

    def find(self, rows: Ids) -> Iterator[tuple[Block, Ids, Any]]:
        """Find rows (m,); yield a block, the rows in it, and their positions among the m."""
        if len(self.blocks) == 1:
            yield self.blocks[0], rows, slice(None)
            return
        order = np.argsort(rows)
        ends = np.searchsorted(rows[order], [block.start + len(block.X) for block in self.blocks])
        begin = 0
        for block, end in zip(self.blocks, ends, strict=True):
            if end > begin:
                places = order[begin:end]
                yield block, rows[places] - block.start, places
                begin = end

    def score_rows(self, query: PointQuery, which: Which, rows: Ids) -> Vectors:
        """The exact score of each row for query `which[i]`, (m,). No prefetching: a scan has just read the rows."""
        scores = []
        for part in chunks(len(rows), row_bytes=8 * query.dim, max_bytes=2**20):
            X = self._joined(self.find(rows[part]), len(rows[part]))
            scores.append(query.score_pairs(X, which[part]))
        return np.concatenate(scores or [np.empty(0, np.float32)])

    def _joined(self, parts: Iterable[tuple[Block, Ids, Any]], m: int) -> Vectors:
        """The m rows of these parts, which `find` yielded, (m, d) float32."""
        X = np.empty((m, self.dim or 0), np.float32)
        for block, local, places in parts:
            X[places] = block.X.take(local, axis=0)
        return X

    def _search(self, query: Query, k: int, selection: Selection) -> Hits:
        if not isinstance(query, PointQuery):
            return super()._search(query, k, selection)
        if len(query.vectors) <= POINTS_AT_ONCE:
            return self._search_points(query, k, selection)
        parts = [
            self._search_points(PointQuery(query.vectors[start : start + POINTS_AT_ONCE]), k, selection)
            for start in range(0, len(query.vectors), POINTS_AT_ONCE)
        ]
        ids = np.concatenate([part.ids for part in parts])
        scores = np.concatenate([part.scores for part in parts])
        return Hits(ids, scores, sum(part.scored for part in parts))

    def _search_points(self, query: PointQuery, k: int, selection: Selection) -> Hits:
        """Approximate scores ‖x‖² − 2 x·q by a matrix product; exact ones if rounding could change the order."""
        q, d = query.vectors.shape
        factors = -2.0 * query.vectors
        lengths = np.sqrt(np.einsum("ij,ij->i", query.vectors, query.vectors))  # (q,)
        best = TopK(q, k, exact_scores=lambda which, ids: self.score_rows(query, which, self.rows(ids)))
        buffer = np.empty(0, np.float32)  # scores; reused because newly allocated memory is slow
        scored = 0
        with np.errstate(over="ignore", invalid="ignore"):  # the distance of a very long row is inf, never a hit
            for chunk in self._chunks(selection, row_bytes=4 * q, decodes=q > FEW):
                ids, squares = self.row_ids[chunk.rows], self._squares_of(chunk)
                # The error of a sum of d products is at most d roundings of the product of the lengths (Higham, 3.5).
                slack = (d + 8) * np.finfo(np.float32).eps * (lengths + sqrt(squares.longest)) ** 2  # (q,)
                m = len(ids)
                scored += m * q
                buffer = buffer if buffer.size >= m * q else np.empty(m * q, np.float32)
                scores = buffer[: m * q].reshape(q, m)
                _products(chunk.parts, factors, out=scores)
                scores += squares.each
                if chunk.keep is not None:
                    np.copyto(scores, np.inf, where=~chunk.keep)
                best.add(scores, ids, slack)
        return Hits(*best.result(), scored)

    def _check_rows(self, X: Array | ScaledRows) -> Any:
        """Convert X to a C-contiguous float32 or float16 matrix; check that it is finite, unless it is a memory map.

        Scaled rows do not change.
        """
        if isinstance(X, ScaledRows):
            if self.dim not in (None, X.shape[1]):
                raise InputError(f"X must have {self.dim} columns. Got {X.shape[1]}.")
            return X
        if is_mapped(X) and X.dtype in (np.float32, np.float16) and X.ndim == 2 and X.flags.c_contiguous:
            mapped: NDArray[Any] = X
            if self.dim is not None and mapped.shape[1] != self.dim:
                raise InputError(f"X must have {self.dim} columns. Got {mapped.shape[1]}.")
            return mapped
        checked = check_rows(X, dim=self.dim)
        kept = X if getattr(X, "dtype", None) == np.float16 else checked
        return np.ascontiguousarray(kept, dtype=kept.dtype if kept.dtype == np.float16 else np.float32)

    def _append(self, ids: Ids, X: Rows) -> None:
        if not len(ids):
            return
        self.blocks.append(Block(len(self.alive), X))
        while len(self.blocks) > 1 and len(self.blocks[-2].X) <= len(self.blocks[-1].X) <= SMALL:
            first, second = self.blocks[-2:]
            self.blocks[-2:] = [Block(first.start, np.concatenate([first.X, second.X]))]

    def _chunks(self, selection: Selection, row_bytes: int, *, decodes: bool = True) -> Iterator[Chunk]:
        """Chunks of stored rows: all rows in order, unless the selection is a few rows, which are float32.

        `decodes`: whether the caller decodes scaled rows, which needs memory.
        """
        if selection.rows is not None:
            for part in chunks(len(selection.rows), row_bytes=4 * (self.dim or 0), max_bytes=CHUNK_BYTES):
                yield Chunk(selection.rows[part], [self.gather(selection.rows[part])])
            return
        if any(block.X.dtype != np.float32 and (decodes or block.X.dtype == np.float16) for block in self.blocks):
            row_bytes += 4 * (self.dim or 0)  # for the conversion to float32
        keep = None if selection.keep is None or selection.keep.all() else selection.keep
        for part in chunks(len(self.alive), row_bytes, max_bytes=CHUNK_BYTES):
            if keep is None or keep[part].any():
                yield Chunk(part, self._parts(part), None if keep is None else keep[part])

    def _parts(self, rows: slice) -> list[Rows]:
        """Views of consecutive rows in their blocks."""
        few = len(self.alive) < COMPILED
        cut = [
            (block.decoded() if few else block.X)[max(0, rows.start - block.start) : max(0, rows.stop - block.start)]
            for block in self.blocks
        ]
        return [X for X in cut if len(X)]

    def _squares_of(self, chunk: Chunk) -> Squares:
        """Squared lengths of the rows of a chunk; for consecutive rows, `longest` is that of the whole index."""
        if not isinstance(chunk.rows, slice):
            return _with_longest(_square(_float32(chunk.parts[0])))
        if len(self._squares.each) != len(self.alive):
            self._squares = _with_longest(np.concatenate([block.squares() for block in self.blocks]))
        return Squares(self._squares.each[chunk.rows], self._squares.longest)

    def _has(self, block: Block, ids: Ids) -> bool:
        """Whether this index has the rows of a block, with ids from `ids`, under the same numbers, in any blocks."""
        rows = slice(block.start, block.start + len(block.X))
        alive = self.alive[rows]
        return bool(np.array_equal(self.row_ids[rows][alive], ids[rows][alive]))


def _products(parts: Sequence[Rows], points: Vectors, out: Vectors) -> None:
    """Write the inner products of points (q, d) with rows, m in all parts, to `out` (q, m)."""
    q, d = points.shape
    start = 0
    for X in parts:
        columns = out[:, start : start + len(X)]
        if q <= FEW and isinstance(X, ScaledRows):
            (_compiled().products if _compiled() else ScaledRows.dot)(X, points, columns.T)
        elif q == 1 and d >= LONG:
            np.vecdot(_float32(X), points[0], out=columns[0])
        else:
            decode = _compiled().decode if isinstance(X, ScaledRows) and _compiled() else _float32
            np.matmul(points, decode(X).T, out=columns)
        start += len(X)


@cache
def _compiled() -> Any:
    """The compiled loops over scaled rows; None without numba."""
    try:
        from lookalike.index import scaled  # takes half a second
    except MissingError:
        return None
    return scaled


def _float32(X: Rows) -> Vectors:
    return X.astype(np.float32, copy=False)


def _square(X: Vectors) -> Vectors:
    squares: Vectors = np.einsum("ij,ij->i", X, X)
    return squares


def _with_longest(squares: Vectors) -> Squares:
    return Squares(squares, float(np.max(squares, where=np.isfinite(squares), initial=0.0)))
