"""Data entered by users: labels, sessions, classes and predictions, not-duplicates, actions and saved searches.

It is stored in `judgements.sqlite`, separate from the catalogue, with ids derived from the digests of pictures. It
therefore survives the loss of the catalogue and applies again when a removed picture is added again. Changes are short
transactions that need no writer lock.
"""

import os
import time
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple, TypeAlias

from lookalike.errors import InputError
from lookalike.store.actions import UNKNOWN, Actions, Changed, recording
from lookalike.store.classes import ClassNames, Predictions, check_label
from lookalike.store.database import TEXT, Database, as_ids, check_text, read_groups, read_ids, text, unhex, write_ids
from lookalike.store.saved_searches import StoredSearches
from lookalike.store.schema import JUDGEMENTS
from lookalike.store.sessions import Sessions
from lookalike.types import Ids

MAX_NOT_DUPLICATES = 1_000
"""Maximum number of items per call of `NotDuplicates.add`, which gives half a million pairs."""

Pair: TypeAlias = tuple[int, int]
"""Two item ids, the smaller first."""


class LabelRecord(NamedTuple):
    """A label of an item, with its author, source and time."""

    label: str
    author: str
    source: str  # "hand", "csv", "folder", "session", "confirmed" …
    at: float  # POSIX seconds


class Judgements:
    """The labels, sessions and classes of a collection, in the SQLite file at `path`. `len` is the number of labels."""

    def __init__(self, path: Path):
        self.database = Database(path, JUDGEMENTS)
        self.sessions = Sessions(self.database)
        self.classes = ClassNames(self.database)
        self.predictions = Predictions(self.database)
        self.not_duplicates = NotDuplicates(self.database)
        self.actions = Actions(self.database)
        self.saved_searches = StoredSearches(self.database)

    def __len__(self) -> int:
        with self.database.reading() as db:
            return int(db.execute("SELECT count(*) FROM labels").fetchone()[0])

    def version(self) -> str:
        """Return a text that changes with every label and mark. It costs one query."""
        query = "SELECT coalesce((SELECT max(id) FROM changes), 0) || ' ' || coalesce((SELECT max(id) FROM events), 0)"
        return str(self.database.read_value(query))

    def add_labels(self, rows: Sequence[tuple[int, str]], *, author: str, source: str) -> Changed:
        """Add labels as (item, label); return how many were new. An existing label keeps its author and source.

        `source` is the origin of the label: "csv", "folder", "hand" …
        """
        who, how, now = check_text(author), text(source), time.time()
        values = [(int(item), check_label(label), who, how, now) for item, label in rows]
        insert = f"INSERT OR IGNORE INTO labels (item, label, author, source, at) VALUES (?, {TEXT}, {TEXT}, {TEXT}, ?)"
        with recording(self.database, "import", author) as action:
            return action.finish(max(0, action.db.executemany(insert, values).rowcount))

    def remove_labels(self, rows: Sequence[tuple[int, str]], *, author: str = UNKNOWN) -> Changed:
        """Remove labels, given as (item, label); return how many were removed."""
        values = [(int(item), check_label(label)) for item, label in rows]
        names = ", ".join(sorted({label for _, label in rows}))
        with recording(self.database, "unlabel", author, label=names) as action:
            delete = "DELETE FROM labels WHERE item = ? AND label = CAST(? AS TEXT)"
            return action.finish(max(0, action.db.executemany(delete, values).rowcount))

    def labels(self, ids: Sequence[int]) -> dict[int, list[str]]:
        """Return the labels of each of these items, sorted; an empty list for an item without labels."""
        found: dict[int, list[str]] = {item: [] for item in as_ids(ids)}
        query = (
            "SELECT json_group_array(json_array(item, hex(label))) FROM labels"
            " WHERE item IN (SELECT value FROM json_each(?))"
        )
        for item, label in self.database.read_rows(query, found):
            found[item].append(unhex(label))
        return {item: sorted(labels, key=os.fsencode) for item, labels in found.items()}

    def label_records(self, ids: Sequence[int]) -> dict[int, list[LabelRecord]]:
        """Return the labels of these items with author, source and time; items without labels are omitted."""
        found: dict[int, list[LabelRecord]] = {}
        query = (
            "SELECT item, label, author, source, at FROM labels"
            " WHERE item IN (SELECT value FROM json_each(?)) ORDER BY item, label"
        )
        with self.database.reading() as db:
            for item, *record in db.execute(query, [write_ids(ids)]):
                found.setdefault(item, []).append(LabelRecord(*record))
        return found

    def items_with(self, label: str) -> Ids:
        """Return the items that have this label, ascending."""
        with self.database.reading() as db:
            return read_ids(db, "SELECT item FROM labels WHERE label = CAST(? AS TEXT)", [check_label(label)])

    def items_by_label(self) -> dict[str, Ids]:
        """Return the items with each label."""
        with self.database.reading() as db:
            return dict(read_groups(db, "SELECT label AS value, item FROM labels"))

    def labelled(self) -> Ids:
        """Return the items that have at least one label, ascending."""
        with self.database.reading() as db:
            return read_ids(db, "SELECT DISTINCT item FROM labels")

    def single_labels(self) -> dict[int, str]:
        """Return the label of each item that has exactly one label."""
        with self.database.reading() as db:
            return dict(db.execute("SELECT item, min(label) FROM labels GROUP BY item HAVING count(*) = 1"))

    def label_counts(self) -> dict[str, int]:
        """Return the number of items of each label, sorted by label."""
        with self.database.reading() as db:
            return dict(db.execute("SELECT label, count(*) FROM labels GROUP BY label ORDER BY label"))

    def finish(self, session: str, name: str, *, author: str = UNKNOWN) -> Changed:
        """Finish a session: label its positive items with `name`; return how many labels are new.

        The author and time of a label are those of the mark. Negative items stay in the session, and predictions of the
        label for them are removed.
        """
        insert = (
            "INSERT OR IGNORE INTO labels (item, label, author, source, at)"
            " SELECT item, CAST(? AS TEXT), author, 'session', at FROM marks WHERE session = ? AND kind = 'relevant'"
        )
        delete = (
            "DELETE FROM predictions WHERE label = CAST(? AS TEXT)"
            " AND item IN (SELECT item FROM marks WHERE session = ? AND kind = 'irrelevant')"
        )
        update = "UPDATE sessions SET name = CAST(? AS TEXT), finished_at = coalesce(finished_at, ?) WHERE id = ?"
        with recording(self.database, "finish", author, label=name) as action:
            db = action.db
            found = self.sessions.get(session)
            if found.finished_at is not None and found.name != name:
                raise InputError(
                    f"Session {session} was already finished as {found.name!r}. To collect {name!r}, start another"
                    f" session, for example from the pictures with the label {found.name!r}."
                )
            new = max(0, db.execute(insert, [check_label(name), session]).rowcount)
            db.execute(delete, [check_label(name), session])
            db.execute(update, [check_label(name), time.time(), session])
            return action.finish(new)

    def compact(self) -> None:
        """Remove the log of changes to labels and what is needed to undo old actions, and free their disk space."""
        self.classes.forget_changes()
        self.actions.compact()
        self.database.vacuum()

    def close(self) -> None:
        """Close the connections of every thread."""
        self.database.close()


class NotDuplicates:
    """Pairs of pictures that users marked as not duplicates of each other. `len` is the number of pairs."""

    def __init__(self, database: Database):
        self._db = database

    def __len__(self) -> int:
        with self._db.reading() as db:
            return int(db.execute("SELECT count(*) FROM apart").fetchone()[0])

    def add(self, items: Iterable[int], *, author: str) -> Changed:
        """Mark these items as not duplicates of each other; return how many pairs are new.

        A single item is paired with itself, so its copies at several paths are not reported as duplicates.
        """
        who, now = check_text(author), time.time()
        rows = [(*pair, who, now) for pair in _pairs(items)]
        with recording(self._db, "dismiss", author) as action:
            insert = f"INSERT OR IGNORE INTO apart (first, second, author, at) VALUES (?, ?, {TEXT}, ?)"
            return action.finish(max(0, action.db.executemany(insert, rows).rowcount))

    def remove(self, items: Iterable[int]) -> int:
        """Remove the pairs of these items; return how many were removed."""
        with self._db.transaction() as db:
            return max(0, db.executemany("DELETE FROM apart WHERE first = ? AND second = ?", _pairs(items)).rowcount)

    def pairs(self) -> set[Pair]:
        """Return all pairs."""
        with self._db.reading() as db:
            return set(db.execute("SELECT first, second FROM apart"))


def _pairs(items: Iterable[int]) -> list[Pair]:
    ids = sorted(set(as_ids(items)))
    if not 1 <= len(ids) <= MAX_NOT_DUPLICATES:
        raise InputError(
            f"You can mark 1 to {MAX_NOT_DUPLICATES:,} pictures as not duplicates at a time. Got {len(ids):,}."
        )
    return list(combinations(ids, 2)) or [(ids[0], ids[0])]
