"""Classes and predictions. A class is a label; it exists if it was named explicitly or if pictures have the label.

`ClassNames` renames, merges, splits and deletes classes. It numbers every change to labels, so that a class model in
memory can apply them. `Predictions` stores the class that was predicted for a picture, separately from labels. Database
triggers (see `schema`) remove a prediction when its picture is labelled or its class is rejected or removed.
"""

import json
import sqlite3
import time
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from lookalike.errors import InputError, UnknownNameError
from lookalike.store.actions import UNKNOWN, Changed, recording
from lookalike.store.database import REAL, TEXT, Database, check_text, read_groups, read_ids, text, unhex, write_ids
from lookalike.types import Ids

MAX_LABEL = 1_000
"""Maximum number of characters of a label."""
NO_CLASS = "none of these"
"""The prediction for a picture that matches no class. A new class cannot have this name."""

Change: TypeAlias = tuple[int | None, str | None, bool]
"""A label of an item that was added (True) or removed. Item and label are None for other changes to classes."""

_INSERT_LABEL = "INSERT OR IGNORE INTO labels (item, label, author, source, at)"
_INSERT_REJECTION = f"INSERT OR IGNORE INTO rejections (item, label, author, at) VALUES (?, {TEXT}, {TEXT}, ?)"
_IS_GIVEN = "item IN (SELECT value FROM json_each(?))"


def check_label(label: str, what: str = "A label") -> bytes:
    """Return a label as bytes to bind with `TEXT`. Raises InputError, which calls it `what`, if it is not valid."""
    if not isinstance(label, str) or not label.strip() or len(label) > MAX_LABEL or "\0" in label:
        raise InputError(
            f"{what} must be text of 1 to {MAX_LABEL} characters, not all of them whitespace, and without NUL. Got"
            f" {label!r:.80}."
        )
    return check_text(label, what)


def normalize_label(label: str) -> str:
    """Return the normal form of a new name: composed letters (NFC), no surrounding whitespace.

    >>> normalize_label(" cafe\u0301 ") == "caf\u00e9"
    True
    """
    return unicodedata.normalize("NFC", label).strip()


class Membership(NamedTuple):
    """A picture of a class, and the origin of its label."""

    item: int
    author: str
    source: str  # "hand", "csv", "folder", "session", "confirmed" …
    at: float  # POSIX seconds


class ClassNames:
    """The classes of a collection, in `judgements.sqlite`. Changes need no writer lock."""

    def __init__(self, database: Database):
        self._db = database

    def counts(self) -> dict[str, int]:
        """Return the number of items of each class, sorted by name, including classes without pictures."""
        query = (
            "SELECT label, count(*) FROM labels GROUP BY label UNION ALL"
            " SELECT name, 0 FROM classes WHERE NOT EXISTS (SELECT 1 FROM labels WHERE label = name) ORDER BY 1"
        )
        with self._db.reading() as db:
            return dict(db.execute(query))

    def named(self) -> list[str]:
        """Return the classes that were named explicitly, so they exist even without pictures."""
        with self._db.reading() as db:
            return [name for (name,) in db.execute("SELECT name FROM classes ORDER BY name")]

    def check(self, *names: str) -> None:
        """Raise UnknownNameError if there is no class with one of these names."""
        with self._db.reading() as db:
            for name in names:
                if not _exists(db, name):
                    raise UnknownNameError("class", name, self.counts())

    def canonical_names(self, names: Iterable[str], *, new: bool = False) -> dict[str, str]:
        """Return the name to use for each of these: that of an existing class, otherwise the normalised one.

        Names that differ only in surrounding whitespace or in letter composition are the same name. Existing
        classes with both spellings are not changed. `new`: unknown names can become classes, so they are checked.
        """
        found: dict[str, str] = {}
        known: dict[str, str] | None = None
        with self._db.reading() as db:
            for name in dict.fromkeys(names):
                check_label(name, "The name of a class")
                if _exists(db, name):
                    found[name] = name
                    continue
                if known is None:
                    query = "SELECT DISTINCT label FROM labels UNION SELECT name FROM classes"
                    known = {normalize_label(one): one for (one,) in db.execute(query)}
                found[name] = known.get(normalize_label(name), normalize_label(name))
                if new and normalize_label(name) not in known and found[name].casefold() == NO_CLASS:
                    raise InputError(
                        f"A class cannot be named {NO_CLASS!r}, because that is the prediction for pictures that match"
                        " no class. Choose another name."
                    )
        return found

    def members(self, name: str) -> list[Membership]:
        """Return the pictures of a class, in the order in which they were labelled."""
        query = f"SELECT item, author, source, at FROM labels WHERE label = {TEXT} ORDER BY at, item"
        with self._db.reading() as db:
            return [Membership(*row) for row in db.execute(query, [check_label(name)])]

    def add(self, name: str, items: Iterable[int], *, author: str, source: str = "hand") -> Changed:
        """Add items to a new or existing class; return how many were not in it."""
        label, who, now = check_label(name, "The name of a class"), check_text(author), time.time()
        rows = [(int(item), label, who, text(source), now) for item in items]
        with recording(self._db, "label", author, label=name) as action:
            db = action.db
            db.execute(
                f"INSERT OR IGNORE INTO classes (name, author, at) VALUES ({TEXT}, {TEXT}, ?)", [label, who, now]
            )
            _log_change(db)
            insert = f"{_INSERT_LABEL} VALUES (?, {TEXT}, {TEXT}, {TEXT}, ?)"
            return action.finish(max(0, db.executemany(insert, rows).rowcount))

    def rename(self, old: str, new: str, *, author: str = UNKNOWN) -> Changed:
        """Rename a class, also in sessions and in the hierarchy; return the number of its pictures."""
        before, after = check_label(old), check_label(new, "The name of a class")
        with recording(self._db, "rename", author, label=old, target=new) as action:
            db = action.db
            self.check(old)
            if old == new:
                raise InputError(f"The class is already named {new!r}.")
            if _exists(db, new):
                raise InputError(f"Class {new!r} already exists. To combine both: lookalike classes merge")
            in_tree = f"SELECT 1 FROM parents WHERE {TEXT} IN (child, parent)"
            if db.execute(in_tree, [before]).fetchone() and db.execute(in_tree, [after]).fetchone():
                raise InputError(f"The hierarchy already contains both {new!r} and {old!r}. Choose another name.")
            n = _move(db, before, after)
            # A rejection that an update replaces would not be recorded.
            db.execute(
                f"DELETE FROM rejections WHERE label = {TEXT}"
                f" AND item IN (SELECT item FROM rejections WHERE label = {TEXT})",
                [after, before],
            )
            for table, column in (
                ("sessions", "name"),
                ("rejections", "label"),
                ("parents", "child"),
                ("parents", "parent"),
            ):
                db.execute(f"UPDATE OR REPLACE {table} SET {column} = {TEXT} WHERE {column} = {TEXT}", [after, before])
            _log_change(db)
            return action.finish(n)

    def merge(self, names: Sequence[str], into: str, *, author: str = UNKNOWN) -> Changed:
        """Merge classes; return the number of pictures. Items that were rejected for all of them stay rejected."""
        after = check_label(into, "The name of a class")
        labels = [check_label(name) for name in dict.fromkeys(names)]
        if len(labels) < 2:
            raise InputError(f"Give at least two classes to merge. Got {', '.join(names) or 'none'}.")
        merged = ", ".join(name for name in dict.fromkeys(names) if name != into)
        with recording(self._db, "merge", author, label=merged, target=into) as action:
            db = action.db
            self.check(*names)
            if into not in names and _exists(db, into):
                raise InputError(
                    f"Class {into!r} already exists. Add it to the classes to merge, or choose another name."
                )
            kept = (
                f"SELECT item, author, max(at) FROM rejections WHERE label IN ({', '.join(TEXT for _ in labels)})"
                " GROUP BY item HAVING count(*) = ?"
            )
            common = db.execute(kept, [*labels, len(labels)]).fetchall()
            for label in labels:
                db.execute(f"DELETE FROM rejections WHERE label = {TEXT}", [label])
                if label != after:
                    _move(db, label, after)
            db.executemany(_INSERT_REJECTION, [(item, after, text(who), at) for item, who, at in common])
            _log_change(db)
            return action.finish(_count(db, after))

    def split(self, name: str, new: str, items: Sequence[int], *, author: str) -> Changed:
        """Move some pictures of a class to a new class; return how many."""
        before, after = check_label(name), check_label(new, "The name of a class")
        inside = f"label = {TEXT} AND item IN (SELECT value FROM json_each(?))"
        who, given = check_text(author), sorted(set(map(int, items)))
        if not given:
            raise InputError(f"Give the pictures of {name!r} to move to {new!r}. Got none.")
        wanted = write_ids(given)
        with recording(self._db, "split", author, label=name, target=new) as action:
            db = action.db
            self.check(name)
            if _exists(db, new):
                raise InputError(f"Class {new!r} already exists. Choose another name for the new class.")
            found = int(db.execute(f"SELECT count(*) FROM labels WHERE {inside}", [before, wanted]).fetchone()[0])
            if found < len(given):
                raise InputError(f"{len(given) - found} of the {len(given)} pictures are not in {name!r}.")
            db.execute(f"INSERT INTO classes (name, author, at) VALUES ({TEXT}, {TEXT}, ?)", [after, who, time.time()])
            copy = f"{_INSERT_LABEL} SELECT item, {TEXT}, author, source, at FROM labels WHERE {inside}"
            db.execute(copy, [after, before, wanted])
            db.execute(f"DELETE FROM labels WHERE {inside}", [before, wanted])
            _log_change(db)
            return action.finish(found)

    def delete(self, name: str, *, author: str = UNKNOWN) -> Changed:
        """Remove a class with its labels, predictions and rejections; return the number of labels."""
        label = check_label(name)
        with recording(self._db, "delete", author, label=name) as action:
            db = action.db
            self.check(name)
            n = _count(db, label)
            db.execute(f"DELETE FROM classes WHERE name = {TEXT}", [label])
            for table in ("labels", "predictions", "rejections"):
                db.execute(f"DELETE FROM {table} WHERE label = {TEXT}", [label])
            _log_change(db)
            return action.finish(n)

    def parents(self) -> list[tuple[str, str]]:
        """Return the hierarchy as (child, parent) pairs."""
        with self._db.reading() as db:
            return db.execute("SELECT child, parent FROM parents ORDER BY child, parent").fetchall()

    def set_parents(self, pairs: Iterable[tuple[str, str]], *, author: str = UNKNOWN) -> Changed:
        """Replace the hierarchy by these (child, parent) pairs; return how many there are."""
        rows = [(check_label(child), check_label(parent)) for child, parent in pairs]
        with recording(self._db, "hierarchy", author) as action:
            db = action.db
            db.execute("DELETE FROM parents")
            db.executemany(f"INSERT OR IGNORE INTO parents (child, parent) VALUES ({TEXT}, {TEXT})", rows)
            _log_change(db)
            return action.finish(len(rows))

    def settings(self) -> dict[str, Any]:
        """Return the settings of the class model by name."""
        with self._db.reading() as db:
            return {name: json.loads(value) for name, value in db.execute("SELECT name, value FROM settings")}

    def update_settings(self, **values: Any) -> None:
        """Change some settings."""
        with self._db.transaction() as db:
            rows = [(name, json.dumps(value)) for name, value in values.items()]
            db.executemany("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", rows)
            _log_change(db)

    def all_labels(self) -> tuple[int, list[tuple[int, str]]]:
        """Return the number of the last change, and all labels as (item, label)."""
        with self._db.reading() as db:
            return _last_change(db), db.execute("SELECT item, label FROM labels").fetchall()

    def changes(self, since: int) -> tuple[int, list[Change] | None]:
        """Return the number of the last change, and the changes after `since`, or None if they were removed."""
        query = "SELECT item, label, added FROM changes WHERE id > ? ORDER BY id"
        with self._db.reading() as db:
            last = _last_change(db)
            found = [(item, label, bool(added)) for item, label, added in db.execute(query, [since])]
            return last, found if len(found) == last - since else None

    def last_change(self) -> int:
        """Return the number of the last change."""
        with self._db.reading() as db:
            return _last_change(db)

    def change(self, number: int) -> Change | None:
        """Return one change, or None if it was removed."""
        with self._db.reading() as db:
            row = db.execute("SELECT item, label, added FROM changes WHERE id = ?", [number]).fetchone()
        return None if row is None else (row[0], row[1], bool(row[2]))

    def forget_changes(self) -> None:
        """Remove all changes except the last. A class model that has not applied them reads all labels again."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM changes WHERE id < (SELECT max(id) FROM changes)")


@dataclass(frozen=True, slots=True)
class StoredPrediction:
    """The class that was predicted for a picture."""

    item: int
    label: str
    probability: float
    space: str
    model: str  # the kind of class model and the number of the last change it has applied
    at: float  # POSIX seconds


class Predictions:
    """The predictions of a collection, at most one per item, in `judgements.sqlite`."""

    def __init__(self, database: Database):
        self._db = database

    def add(
        self, rows: Iterable[tuple[int, str, float]], *, space: str, model: str, replace_all: bool = False
    ) -> dict[str, int]:
        """Save predictions as (item, label, probability); return how many were saved for each label.

        Predictions for labelled items and of rejected classes are skipped. `replace_all` replaces all predictions, not
        only those of the same items.
        """
        now = time.time()
        values = [
            (int(item), check_label(label), float(chance), text(space), text(model), now)
            for item, label, chance in rows
        ]
        insert = f"INSERT OR REPLACE INTO predictions VALUES (?, {TEXT}, ?, {TEXT}, {TEXT}, ?)"
        items = write_ids(row[0] for row in values)
        counts = f"SELECT label, count(*) FROM predictions WHERE {_IS_GIVEN} GROUP BY label ORDER BY label"
        with self._db.transaction() as db:
            if replace_all:
                db.execute("DELETE FROM predictions")
            db.executemany(insert, values)
            return dict(db.execute(counts, [items]))

    def of(self, label: str) -> list[StoredPrediction]:
        """Return the predictions of a class, most probable first."""
        query = f"SELECT * FROM predictions WHERE label = {TEXT} ORDER BY probability DESC, item"
        with self._db.reading() as db:
            return [StoredPrediction(*row) for row in db.execute(query, [check_label(label)])]

    def get(self, items: Sequence[int]) -> dict[int, StoredPrediction]:
        """Return the predictions of these items; items without a prediction are omitted."""
        return {
            item: StoredPrediction(item, unhex(label), float(chance), unhex(space), unhex(model), float(at))
            for item, label, chance, space, model, at in self._db.read_rows(_PREDICTIONS, items)
        }

    def items_by_label(self) -> dict[str, list[int]]:
        """Return the predicted items of each label."""
        with self._db.reading() as db:
            groups = read_groups(db, "SELECT label AS value, item FROM predictions")
            return {label: sorted(items.tolist()) for label, items in groups}

    def items_with(self, label: str) -> Ids:
        """Return the items for which this label is predicted, ascending."""
        with self._db.reading() as db:
            return read_ids(db, f"SELECT item FROM predictions WHERE label = {TEXT}", [check_label(label)])

    def confirm(self, label: str, items: Sequence[int], *, author: str) -> Changed:
        """Turn predictions into labels with the source "confirmed"; return how many. Items with the label are skipped.

        Raises InputError if an item has neither the prediction nor the label.
        """
        name, who = check_label(label), check_text(author)
        wanted = sorted(set(map(int, items)))
        query = f"SELECT item FROM {{}} WHERE label = {TEXT} AND {_IS_GIVEN}"
        with recording(self._db, "confirm", author, label=label) as action:
            db = action.db
            found, labelled = (
                {item for (item,) in db.execute(query.format(table), [name, write_ids(wanted)])}
                for table in ("predictions", "labels")
            )
            if missing := len(set(wanted) - found - labelled):
                raise InputError(
                    f"{missing} of the {len(wanted)} pictures have no prediction {label!r}."
                    f" To label them: lookalike classes add {label!r} IMAGE…"
                )
            rows = [(item, name, who, time.time()) for item in sorted(found)]
            insert = f"{_INSERT_LABEL} VALUES (?, {TEXT}, {TEXT}, 'confirmed', ?)"
            return action.finish(max(0, db.executemany(insert, rows).rowcount))

    def reject(self, label: str, items: Sequence[int], *, author: str) -> Changed:
        """Reject a class for items, so it is never predicted again; return how many predictions were removed."""
        name, who = check_label(label), check_text(author)
        given = sorted(set(map(int, items)))
        wanted = write_ids(given)
        inside = f"label = {TEXT} AND {_IS_GIVEN}"
        with recording(self._db, "reject", author, label=label) as action:
            db = action.db
            labelled = int(db.execute(f"SELECT count(*) FROM labels WHERE {inside}", [name, wanted]).fetchone()[0])
            if labelled:
                raise InputError(
                    f"{labelled} of the pictures are labelled {label!r}. To remove the label: lookalike classes remove"
                )
            removed = db.execute(f"DELETE FROM predictions WHERE {inside}", [name, wanted]).rowcount
            now = time.time()
            db.executemany(_INSERT_REJECTION, [(item, name, who, now) for item in given])
            return action.finish(max(0, removed), len(given))

    def rejected(self, items: Sequence[int]) -> dict[int, set[str]]:
        """Return the classes that were rejected for these items, or marked irrelevant in a finished session.

        A label overrides a rejection.
        """
        query = (
            f"SELECT item, label FROM rejections WHERE {_IS_GIVEN} UNION"
            " SELECT item, name FROM (SELECT name, item, kind, max(event) FROM marks JOIN sessions"
            f" ON sessions.id = session WHERE finished_at IS NOT NULL AND kind <> 'skip' AND {_IS_GIVEN}"
            " GROUP BY name, item) WHERE kind = 'irrelevant'"
            f" EXCEPT SELECT item, label FROM labels WHERE {_IS_GIVEN}"
        )
        found: dict[int, set[str]] = {}
        with self._db.reading() as db:
            for item, label in db.execute(query, [write_ids(items)] * 3):
                found.setdefault(item, set()).add(label)
        return found


_PREDICTIONS = (
    f"SELECT json_group_array(json_array(item, hex(label), {REAL.format('probability')}, hex(space), hex(model),"
    f" {REAL.format('at')})) FROM predictions WHERE {_IS_GIVEN}"
)


def _exists(db: sqlite3.Connection, name: str) -> bool:
    query = f"SELECT 1 FROM labels WHERE label = {TEXT} UNION ALL SELECT 1 FROM classes WHERE name = {TEXT}"
    return db.execute(query, [check_label(name)] * 2).fetchone() is not None


def _count(db: sqlite3.Connection, label: bytes) -> int:
    return int(db.execute(f"SELECT count(*) FROM labels WHERE label = {TEXT}", [label]).fetchone()[0])


def _move(db: sqlite3.Connection, before: bytes, after: bytes) -> int:
    """Move all labels and predictions of a class to another class; return the number of labels."""
    n = _count(db, before)
    db.execute(
        f"INSERT OR IGNORE INTO classes (name, author, at) SELECT {TEXT}, author, at FROM classes WHERE name = {TEXT}",
        [after, before],
    )
    db.execute(f"UPDATE predictions SET label = {TEXT} WHERE label = {TEXT}", [after, before])
    copy = f"{_INSERT_LABEL} SELECT item, {TEXT}, author, source, at FROM labels WHERE label = {TEXT}"
    db.execute(copy, [after, before])
    db.execute(f"DELETE FROM classes WHERE name = {TEXT}", [before])
    db.execute(f"DELETE FROM labels WHERE label = {TEXT}", [before])
    return n


def _log_change(db: sqlite3.Connection) -> None:
    """Record a change other than a label, so that class models in memory notice it."""
    db.execute("INSERT INTO changes (item) VALUES (NULL)")


def _last_change(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(id), 0) FROM changes").fetchone()[0])
