"""The codes of an index, laid out for scanning.

In: ids (n,) and codes (n, bytes). Out: blocks of 64 rows, (blocks, words, 64) uint64, word by word inside a block, so
that one instruction compares the same word of several rows. A row keeps its number for as long as the index lives.
"""

import numpy as np
from numpy.typing import NDArray

from lookalike.codes.bits import WORD, Codes, check_codes, to_words
from lookalike.errors import InputError
from lookalike.index.ids import IdTable, check_ids, sort_ids
from lookalike.types import Ids

LANES = 64
"""Rows of a block."""


class CodeBlocks:
    """Codes with ids, copied into memory. Reading may go on in several threads; `add` and `remove` want to be alone."""

    def __init__(self) -> None:
        self.dim: int | None = None  # bytes of a code
        self.n = 0  # rows, removed ones among them
        self.alive: NDArray[np.bool_] = np.empty(0, np.bool_)  # (rows,) False = removed
        self.removed = 0
        self.ascending = True  # whether ids rise with the rows: then the first of equals is the one to keep
        self.table = IdTable()
        self._ids: Ids = np.empty(0, np.int64)  # (room,)
        self._words: NDArray[np.uint64] = np.empty((0, 0, LANES), np.uint64)  # (room / 64, words, 64)

    @property
    def words(self) -> NDArray[np.uint64]:
        """(blocks, words, 64); lanes behind the last row hold anything."""
        return self._words[: -(-self.n // LANES)]

    @property
    def ids(self) -> Ids:
        """The id of each row, (rows,)."""
        return self._ids[: self.n]

    def add(self, ids: Ids, codes: Codes) -> None:
        """Take in codes (m, bytes) under new ids (m,)."""
        ids, codes = check_ids(ids), check_codes(codes, self.dim)
        if len(ids) != len(codes):
            raise InputError(f"ids and codes must have the same length. Got {len(ids)} ids and {len(codes)} codes.")
        self.table.add(ids, self.n + np.arange(len(ids)))
        self.dim = codes.shape[1]
        self._grow(self.n + len(ids))
        rows = np.arange(self.n, self.n + len(ids))
        self._words[rows // LANES, :, rows % LANES] = to_words(codes)
        self._ids[rows] = ids
        last = self._ids[self.n - 1] if self.n else -1
        self.ascending &= bool(np.all(np.diff(ids, prepend=last) > 0))
        self.alive = np.concatenate([self.alive, np.ones(len(ids), np.bool_)])
        self.n += len(ids)

    def remove(self, ids: Ids) -> int:
        """Mark the rows of these ids as gone; returns how many there were."""
        rows = self.table.remove(sort_ids(ids))
        self.alive[rows] = False
        self.removed += len(rows)
        return len(rows)

    def gather(self, rows: Ids) -> Codes:
        """The codes of these rows, (m, bytes)."""
        words = np.ascontiguousarray(self._words[rows // LANES, :, rows % LANES])  # (m, words)
        return words.view(np.uint8).reshape(len(rows), -1)[:, : self.dim or 0]

    def _grow(self, n: int) -> None:
        """Room for n rows, half as many again where there is too little: a row is copied a few times at most."""
        room, n_words = len(self._ids), -(-(self.dim or 0) // WORD)
        if n <= room and self._words.shape[1] == n_words:
            return
        blocks = -(-max(n, n if not room else room * 3 // 2) // LANES)
        words, ids = np.zeros((blocks, n_words, LANES), np.uint64), np.empty(blocks * LANES, np.int64)
        if self.n:
            words[: len(self.words)], ids[: self.n] = self.words, self.ids
        self._words, self._ids = words, ids
