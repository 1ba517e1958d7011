"""Which segments to merge, and their rows in the order of their ids.

In: segments (rows, dead rows) and their blocks. Out: a group that is worth merging; its live rows, a bounded number
at a time. Tiers of like size keep the number of segments logarithmic and every row's rewrites as few.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import CHUNK_BYTES
from lookalike.store.blocks import Block
from lookalike.types import Ids

TIER = 8
"""Segments of a like size that become one; the next tier is that much larger."""

MAX_ROWS = 2**20
"""Rows of a merged segment: a scan gains nothing from larger ones, and a merge needs no more room than this."""


def choose(blocks: Sequence[Block], everything: bool) -> list[Block]:
    """The blocks to merge next; none where all is well."""
    live = {block.segment: block.n_live for block in blocks}
    if everything:
        total, dead = sum(live.values()), any(live[block.segment] < len(block.ids) for block in blocks)
        return list(blocks) if dead or len(blocks) > math.ceil(total / MAX_ROWS) else []
    for block in blocks:
        if 2 * live[block.segment] < len(block.ids):
            return [block]
    tiers: dict[int, list[Block]] = defaultdict(list)
    for block in blocks:
        if live[block.segment] < MAX_ROWS // 2:
            tiers[int(math.log(live[block.segment], TIER))].append(block)
    return next((tier for tier in tiers.values() if len(tier) >= TIER), [])


class Merged:
    """The live rows of several blocks by ascending id, dealt out in portions; tells how many were."""

    def __init__(self, blocks: Sequence[Block], on_rows: Callable[[int], None]):
        self._parts = merge_rows(blocks)
        self._on_rows = on_rows
        self._done = 0
        self._left: tuple[Ids, NDArray[Any]] | None = None

    def take(self, rows: int) -> Iterator[tuple[Ids, NDArray[Any]]]:
        """The next so many rows, (m,) and (m, d) at a time."""
        while rows:
            ids, X = self._left or next(self._parts)
            self._left = (ids[rows:], X[rows:]) if len(ids) > rows else None
            yield ids[:rows], X[:rows]
            taken = min(rows, len(ids))
            rows -= taken
            self._done += taken
            self._on_rows(self._done)


def split(rows: int) -> list[int]:
    """Rows of each merged segment: as few segments as may be, of equal size."""
    parts = math.ceil(rows / MAX_ROWS)
    return [rows // parts + (part < rows % parts) for part in range(parts)]


def merge_rows(blocks: Sequence[Block], max_bytes: int = CHUNK_BYTES) -> Iterator[tuple[Ids, NDArray[Any]]]:
    """The live rows of all blocks by ascending id, (m,) and (m, d) at a time."""
    row_bytes = 8 + blocks[0].X.shape[1] * max(block.X.itemsize for block in blocks)
    window = max(1, max_bytes // (2 * row_bytes * len(blocks)))  # rows of each block; twice: gathered, then ordered
    starts = [0] * len(blocks)
    while unread := [i for i, block in enumerate(blocks) if starts[i] < len(block.ids)]:
        # An id up to the smallest last id of all windows is inside the windows. The window with that last id is always
        # taken whole, so the loop ends even if the ids are damaged.
        windows = {i: blocks[i].ids[starts[i] : starts[i] + window] for i in unread}
        least = min(unread, key=lambda i: int(windows[i][-1]))
        ids, rows = [], []
        for i in unread:
            taken = np.searchsorted(windows[i], windows[least][-1], side="right") if i != least else len(windows[i])
            part = slice(starts[i], starts[i] + int(taken))
            dead = blocks[i].dead
            keep = slice(None) if dead is None else ~dead[part]
            ids.append(blocks[i].ids[part][keep])
            rows.append(blocks[i].X[part][keep])
            starts[i] = part.stop
        gathered = np.concatenate(ids)  # (m,)
        if len(gathered):  # not all dead
            order = np.argsort(gathered)
            yield gathered[order], np.concatenate(rows)[order]
