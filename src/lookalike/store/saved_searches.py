"""Saved searches: a name, a query as JSON, and up to when the user has seen its results."""

import json
import secrets
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lookalike.errors import DamagedError, InputError, UnknownNameError
from lookalike.store.classes import check_label, normalize_label
from lookalike.store.database import FROM_BACKUP, TEXT, Database, check_text, text

MAX_SAVED = 1_000
"""Maximum number of saved searches in a collection."""


@dataclass(frozen=True, slots=True)
class StoredSearch:
    """A saved search."""

    id: str
    name: str
    author: str
    query: dict[str, Any]  # as `lookalike.collection.saved_searches` writes it
    created_at: float
    seen_at: float  # when the user last looked at the results
    newest: float  # pictures that were added after this time are new


class StoredSearches:
    """The saved searches of a collection, in `judgements.sqlite`."""

    def __init__(self, database: Database):
        self._db = database

    def __len__(self) -> int:
        with self._db.reading() as db:
            return int(db.execute("SELECT count(*) FROM saved_searches").fetchone()[0])

    def add(self, name: str, query: Mapping[str, Any], *, newest: float, author: str) -> str:
        """Add a search; return its id, eight hexadecimal digits. Raises InputError if the name is taken."""
        called, now = _name(name), time.time()
        values = [called, check_text(author), text(json.dumps(query)), now, now, newest]
        insert = (
            "INSERT INTO saved_searches (id, name, author, query, created_at, seen_at, newest)"
            f" VALUES (?, {TEXT}, {TEXT}, {TEXT}, ?, ?, ?)"
        )
        with self._db.transaction() as db:
            if len(self) >= MAX_SAVED:
                raise InputError(
                    f"A collection can have at most {MAX_SAVED:,} saved searches. Delete some: lookalike saved delete"
                    " NAME"
                )
            _check_free(db, called)
            search = secrets.token_hex(4)
            while db.execute("SELECT 1 FROM saved_searches WHERE id = ?", [search]).fetchone():
                search = secrets.token_hex(4)
            db.execute(insert, [search, *values])
        return search

    def all(self) -> list[StoredSearch]:
        """Return all saved searches, ordered by name."""
        return self._select("1 ORDER BY name COLLATE NOCASE, name")

    def get(self, id_or_name: str) -> StoredSearch:
        """Return the search with this id or name; an id comes first. Raises UnknownNameError if there is none."""
        try:
            wanted = text(normalize_label(id_or_name))
        except UnicodeEncodeError:  # a lone surrogate
            wanted = b""
        for column in ("id", "name"):
            if found := self._select(f"{column} = {TEXT}", wanted):
                return found[0]
        raise UnknownNameError("saved search", id_or_name, [search.name for search in self.all()])

    def rename(self, search: str, name: str) -> None:
        """Rename the search with this id. Raises InputError if the name is taken."""
        with self._db.transaction() as db:
            _check_free(db, _name(name), other_than=search)
            db.execute(f"UPDATE saved_searches SET name = {TEXT} WHERE id = ?", [_name(name), search])

    def look(self, search: str, newest: float) -> None:
        """Record that the user has seen the results, with all pictures that were added until `newest`."""
        update = "UPDATE saved_searches SET seen_at = ?, newest = max(newest, ?) WHERE id = ?"
        with self._db.transaction() as db:
            db.execute(update, [time.time(), newest, search])

    def remove(self, search: str) -> None:
        """Remove the search with this id."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM saved_searches WHERE id = ?", [search])

    def _select(self, condition: str, *values: Any) -> list[StoredSearch]:
        columns = "id, name, author, query, created_at, seen_at, newest"
        with self._db.reading() as db:
            rows = db.execute(f"SELECT {columns} FROM saved_searches WHERE {condition}", values).fetchall()
        return [replace(StoredSearch(*row), query=_query(row[0], row[3])) for row in rows]


def _name(name: str) -> bytes:
    return check_label(normalize_label(name) if isinstance(name, str) else name, "The name of a saved search")


def _check_free(db: sqlite3.Connection, name: bytes, other_than: str = "") -> None:
    """Raise InputError if another search has this name."""
    found = db.execute(f"SELECT name FROM saved_searches WHERE name = {TEXT} AND id <> ?", [name, other_than])
    if row := found.fetchone():
        raise InputError(
            f"A search named {row[0]!r} is already saved. Choose another name, or delete the saved search."
        )


def _query(search: str, query: str) -> dict[str, Any]:
    try:
        parsed = json.loads(query)
    except ValueError as error:
        raise DamagedError(f"The saved search {search} is damaged: {error}. {FROM_BACKUP}") from None
    if not isinstance(parsed, dict):
        raise DamagedError(f"The saved search {search} is damaged: its query is not an object. {FROM_BACKUP}")
    return parsed
