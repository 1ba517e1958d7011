"""Search of the word tables: FTS5 tables with the words of items, such as those in their paths.

`store.schema` declares the tables in `WORD_TABLES`, fills them with the words that `lookalike.text.split_words` finds,
and keeps them up to date by triggers. The id of a row is the item. Search only for words that `split_words` returns.
"""

import sqlite3
from collections.abc import Iterable, Sequence

from lookalike.store.database import TEXT, read_ids, text
from lookalike.types import Ids


def find_items(db: sqlite3.Connection, table: str, words: Sequence[Iterable[str]], limit: int = -1) -> Ids:
    """Return at most `limit` items, ascending, that have one spelling of each word.

    Each word is given by its spellings, such as singular and plural. No words match no item.
    """
    any_of = [" OR ".join(f'"{spelling}"' for spelling in spellings) for spellings in words]
    match = " AND ".join(f"({spellings})" for spellings in any_of) or '""'
    query = f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT ?"  # FTS5 returns the smallest first
    return read_ids(db, query, [match, limit])


def find_words(db: sqlite3.Connection, table: str, prefix: str, limit: int) -> list[str]:
    """Return the first `limit` words in the table that start with a prefix, sorted."""
    found: list[str] = []
    start = prefix
    while len(found) < limit:  # a query for several words would read all items of each
        row = db.execute(f"SELECT term FROM {table}_terms WHERE term >= {TEXT} LIMIT 1", [text(start)]).fetchone()
        if row is None or not row[0].startswith(prefix):
            break
        found.append(row[0])
        start = row[0] + " "  # before every longer word
    return found
