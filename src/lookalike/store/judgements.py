"""What people said about pictures: labels, each with who said it and when; sessions; classes; what is no duplicate.

In: pairs of item id and label. Out: the labels of items, the items of a label. A file of its own, keyed by content
digests, so that it outlives the catalogue; its transactions are short and need no writer lock.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lookalike.errors import InputError
from lookalike.store.apart import Apart
from lookalike.store.classes import ClassNames
from lookalike.store.database import Database, as_ids, read_ids, unhex, write_ids
from lookalike.store.labels import check_label, check_text
from lookalike.store.predictions import Predictions
from lookalike.store.schema import JUDGEMENTS, TEXT, text
from lookalike.store.sessions import Sessions
from lookalike.types import Ids


class SaidLabel(NamedTuple):
    """A label of an item, and where it comes from."""

    label: str
    author: str
    source: str  # "hand", "csv", "folder", "session", "confirmed" …
    at: float  # POSIX seconds


class Judgements:
    """The judgements of a collection, in the SQLite file at `path`."""

    def __init__(self, path: Path):
        self.database = Database(path, JUDGEMENTS)
        self.sessions = Sessions(self.database)
        self.classes = ClassNames(self.database)
        self.predictions = Predictions(self.database)
        self.apart = Apart(self.database)

    def __len__(self) -> int:
        with self.database.reading() as db:
            return int(db.execute("SELECT count(*) FROM labels").fetchone()[0])

    def add_labels(self, rows: Sequence[tuple[int, str]], *, author: str, source: str) -> int:
        """Label items, (item, label) each; returns how many were new. What was said before keeps its provenance.

        `source` is how it came to be said: "csv", "folder", "hand" …
        """
        who, how, now = check_text(author), text(source), time.time()
        values = [(int(item), check_label(label), who, how, now) for item, label in rows]
        insert = f"INSERT OR IGNORE INTO labels (item, label, author, source, at) VALUES (?, {TEXT}, {TEXT}, {TEXT}, ?)"
        with self.database.transaction() as db:
            return max(0, db.executemany(insert, values).rowcount)

    def remove_labels(self, rows: Sequence[tuple[int, str]]) -> int:
        """Take labels back, (item, label) each; returns how many were there."""
        values = [(int(item), check_label(label)) for item, label in rows]
        with self.database.transaction() as db:
            delete = "DELETE FROM labels WHERE item = ? AND label = CAST(? AS TEXT)"
            return max(0, db.executemany(delete, values).rowcount)

    def labels(self, ids: Sequence[int]) -> dict[int, list[str]]:
        """The labels of each of these items, sorted; an empty list where there are none."""
        found: dict[int, list[str]] = {item: [] for item in as_ids(ids)}
        query = (
            "SELECT json_group_array(json_array(item, hex(label))) FROM labels"
            " WHERE item IN (SELECT value FROM json_each(?))"
        )
        for item, label in self.database.listed(query, found):
            found[item].append(unhex(label))
        return {item: sorted(labels, key=os.fsencode) for item, labels in found.items()}

    def said(self, ids: Sequence[int]) -> dict[int, list[SaidLabel]]:
        """The labels of each of these items, sorted, with who said so, how and when; items without any are left out."""
        found: dict[int, list[SaidLabel]] = {}
        query = (
            "SELECT item, label, author, source, at FROM labels"
            " WHERE item IN (SELECT value FROM json_each(?)) ORDER BY item, label"
        )
        with self.database.reading() as db:
            for item, *said in db.execute(query, [write_ids(ids)]):
                found.setdefault(item, []).append(SaidLabel(*said))
        return found

    def items_with(self, label: str) -> Ids:
        """The items that have this label, ascending."""
        with self.database.reading() as db:
            return read_ids(db, "SELECT item FROM labels WHERE label = CAST(? AS TEXT)", [check_label(label)])

    def labelled(self) -> Ids:
        """The items that have any label, ascending."""
        with self.database.reading() as db:
            return read_ids(db, "SELECT DISTINCT item FROM labels")

    def single_labels(self) -> dict[int, str]:
        """The items that have exactly one label, and it."""
        with self.database.reading() as db:
            return dict(db.execute("SELECT item, min(label) FROM labels GROUP BY item HAVING count(*) = 1"))

    def label_counts(self) -> dict[str, int]:
        """Label → how many items have it, sorted by label."""
        with self.database.reading() as db:
            return dict(db.execute("SELECT label, count(*) FROM labels GROUP BY label ORDER BY label"))

    def finish(self, session: str, name: str) -> int:
        """End a session: what it has as relevant gets the label `name`; returns how many had it not.

        Who and when are those of the click. What was called irrelevant stays in the session, under its name, and is no
        longer predicted to be of it.
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
        with self.database.transaction() as db:
            found = self.sessions.get(session)
            if found.finished_at is not None and found.name != name:
                raise InputError(
                    f"Session {session} was finished as {found.name!r}. Start another to collect {name!r}:"
                    f" its examples can be those with the label {found.name!r}."
                )
            new = max(0, db.execute(insert, [check_label(name), session]).rowcount)
            db.execute(delete, [check_label(name), session])
            db.execute(update, [check_label(name), time.time(), session])
        return new

    def compact(self) -> None:
        """Forget what is of no more use, and give its room back to the disk."""
        self.classes.forget_changes()
        self.database.vacuum()

    def verify(self) -> list[str]:
        """Return a sentence for each fault in the file."""
        return self.database.verify()

    def close(self) -> None:
        """Close the connections of every thread."""
        self.database.close()
