"""Ids, int64 and not negative: checks, set operations on sorted ids, and the table from ids to row numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError
from lookalike.types import Ids


def check_ids(ids: Any, name: str = "ids") -> Ids:
    """Convert `ids` to int64, (m,). Raises InputError if they are not valid ids."""
    ids = np.asarray(ids)
    if ids.ndim != 1:
        raise InputError(f"{name} must have one dimension. Got shape {ids.shape}.")
    if len(ids) and ids.dtype.kind not in "iu":
        raise InputError(f"{name} must be whole numbers. Got dtype {ids.dtype}.")
    if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= 2**63):
        raise InputError(f"{name} must be between 0 and 2**63 - 1. Got {ids.min()} to {ids.max()}.")
    return np.asarray(ids, np.int64)


def sort_ids(ids: Any, name: str = "ids") -> Ids:
    """Check `ids`, sort them and remove repetitions. `np.unique` is 50 times slower on sorted ids."""
    found = check_ids(ids, name)
    if not np.all(found[1:] > found[:-1]):
        found = np.sort(found)
        found = found[np.append(True, found[1:] > found[:-1])]
    return found


def without(ids: Ids, others: Ids) -> Ids:
    """The `ids` that are not in `others`; both ascending."""
    if not len(others):
        return ids
    place = np.minimum(np.searchsorted(others, ids), len(others) - 1)
    rest: Ids = ids[others[place] != ids]
    return rest


class IdTable:
    """Ids and their row numbers in a few sorted runs, each at least twice as long as the next.

    New ids form a new run, and runs of similar length are merged, as in a binary counter. An id is therefore moved at
    most log2(n) times, even if few ids are added at a time.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Ids, Ids]] = []  # ids, ascending, and their rows; row -1 = removed
        self._removed = False  # whether any row can be -1

    def __contains__(self, item: int) -> bool:
        return bool(self.rows(np.array([item], np.int64))[0] >= 0)

    def copy(self) -> "IdTable":
        """An independent copy."""
        made = IdTable()
        made._runs, made._removed = [(ids, rows.copy()) for ids, rows in self._runs], self._removed
        return made

    def add(self, ids: Ids, rows: Ids) -> None:
        """Add new ids (m,) and their rows (m,). If an id is not new, nothing is added."""
        self.check_new(ids)
        order = np.argsort(ids, kind="stable")
        self._runs.append((ids[order], rows[order]))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._runs[-2:] = [_merge(self._runs[-2:])]

    def check_new(self, ids: Ids) -> None:
        """Raise InputError if an id occurs twice or is in the table."""
        ids = np.sort(ids, kind="stable")
        repeated = ids[1:][ids[1:] == ids[:-1]]
        if len(repeated):
            raise InputError(f"ids must be unique. Got {repeated[0]} more than once.")
        known = ids[self.rows(ids) >= 0]
        if len(known):
            raise InputError(f"ids must be new. Got {len(known)} existing ones, such as {known[0]}; remove them first.")

    def remove(self, ids: Ids) -> Ids:
        """Remove these ids (m,), each given once; return the rows of those that were present."""
        removed = [np.empty(0, np.int64)]
        for run_ids, rows in self._runs:
            place, present = _locate(run_ids, rows, ids)
            removed.append(rows[place[present]])
            rows[place[present]] = -1
            self._removed |= bool(present.any())
        return np.concatenate(removed)

    def rows(self, ids: Ids) -> Ids:
        """The row of each id, (m,); -1 for unknown ids."""
        found = np.full(len(ids), -1, np.int64)
        for run_ids, rows in self._runs:
            place, present = _locate(run_ids, rows, ids)
            found[present] = rows[place[present]]
        return found

    def find(self, ids: Ids) -> Ids:
        """The row of each id, (m,). Raises InputError for unknown ids."""
        ids = check_ids(ids)
        rows = self.rows(ids)
        if rows.min(initial=0) < 0:
            raise InputError(f"ids must be in the index. Got {ids[rows < 0][0]}, which is not.")
        return rows

    def ids(self) -> Ids:
        """All ids, ascending."""
        if len(self._runs) == 1:  # already sorted
            run_ids, rows = self._runs[0]
            if not self._removed:  # a read-only view: a copy of 100M ids takes 0.5 s
                ids = run_ids.view()
                ids.flags.writeable = False
                return ids
            return np.asarray(run_ids[rows >= 0], np.int64)
        return _merge(self._runs)[0] if self._runs else np.empty(0, np.int64)


def _locate(run_ids: Ids, rows: Ids, ids: Ids) -> tuple[Ids, NDArray[np.bool_]]:
    """The place of each id in a run, and whether the id is present."""
    if not len(run_ids):
        return np.zeros(len(ids), np.int64), np.zeros(len(ids), np.bool_)
    place = np.minimum(np.searchsorted(run_ids, ids), len(run_ids) - 1)
    return place, (run_ids[place] == ids) & (rows[place] >= 0)


def _merge(runs: list[tuple[Ids, Ids]]) -> tuple[Ids, Ids]:
    ids, rows = (np.concatenate(part) for part in zip(*runs, strict=True))
    ids, rows = ids[rows >= 0], rows[rows >= 0]
    order = np.argsort(ids, kind="stable")  # Timsort merges sorted runs
    return ids[order], rows[order]
