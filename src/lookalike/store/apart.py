"""Pictures that are not duplicates of each other, because somebody said so.

In: items, by twos or more. Out: pairs of ids, the smaller first. Keyed by content, as all of `judgements.sqlite`: a
picture that is removed and comes back is still told apart.
"""

import time
from collections.abc import Iterable
from itertools import combinations
from typing import TypeAlias

from lookalike.errors import InputError
from lookalike.store.database import Database, as_ids
from lookalike.store.labels import check_text
from lookalike.store.schema import TEXT

Pair: TypeAlias = tuple[int, int]

MOST = 1_000
"""Items that are told apart at a time: half a million pairs."""


class Apart:
    """The pairs that are no duplicates, in a collection's file of judgements."""

    def __init__(self, database: Database):
        self._db = database

    def __len__(self) -> int:
        with self._db.reading() as db:
            return int(db.execute("SELECT count(*) FROM apart").fetchone()[0])

    def add(self, items: Iterable[int], *, author: str) -> int:
        """Each of these is no duplicate of the others; returns how many pairs were new. What was said before stays.

        One item alone is paired with itself: that it lies at several paths is as it should be.
        """
        who, now = check_text(author), time.time()
        rows = [(*pair, who, now) for pair in _pairs(items)]
        with self._db.transaction() as db:
            insert = f"INSERT OR IGNORE INTO apart (first, second, author, at) VALUES (?, ?, {TEXT}, ?)"
            return max(0, db.executemany(insert, rows).rowcount)

    def remove(self, items: Iterable[int]) -> int:
        """Take back what was said of these; returns how many pairs there were."""
        with self._db.transaction() as db:
            return max(0, db.executemany("DELETE FROM apart WHERE first = ? AND second = ?", _pairs(items)).rowcount)

    def pairs(self) -> set[Pair]:
        """Every pair, the smaller id first."""
        with self._db.reading() as db:
            return set(db.execute("SELECT first, second FROM apart"))


def _pairs(items: Iterable[int]) -> list[Pair]:
    ids = sorted(set(as_ids(items)))
    if not 1 <= len(ids) <= MOST:
        raise InputError(f"1 to {MOST:,} pictures can be told apart at a time. Got {len(ids):,}.")
    return list(combinations(ids, 2)) or [(ids[0], ids[0])]
