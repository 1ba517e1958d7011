"""The names of classes: every label is one, and those that were named without a picture.

In: names, items and who says so. Out: how many pictures each class has, what changed since when. A class is its labels:
there is no second truth. The verbs are short transactions that need no writer lock, as all of `judgements.sqlite`.
"""

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from lookalike.errors import InputError, UnknownNameError
from lookalike.store.database import Database, write_ids
from lookalike.store.labels import NONE, check_label, check_text, tidy
from lookalike.store.schema import TEXT, text


class Membership(NamedTuple):
    """Who put a picture into a class."""

    item: int
    author: str
    source: str  # "hand", "csv", "folder", "session", "confirmed" …
    at: float  # POSIX seconds


Change: TypeAlias = tuple[int | None, str | None, bool]
"""A label that was added (True) or taken back; without item and label: something else about classes."""

_INSERT = "INSERT OR IGNORE INTO labels (item, label, author, source, at)"


class ClassNames:
    """The classes of a collection, in its file of judgements."""

    def __init__(self, database: Database):
        self._db = database

    def counts(self) -> dict[str, int]:
        """Name → how many items have the label, sorted by name; 0 for one that was only named."""
        query = (
            "SELECT label, count(*) FROM labels GROUP BY label UNION ALL"
            " SELECT name, 0 FROM classes WHERE NOT EXISTS (SELECT 1 FROM labels WHERE label = name) ORDER BY 1"
        )
        with self._db.reading() as db:
            return dict(db.execute(query))

    def named(self) -> list[str]:
        """The classes that are there even without a picture."""
        with self._db.reading() as db:
            return [name for (name,) in db.execute("SELECT name FROM classes ORDER BY name")]

    def check(self, *names: str) -> None:
        """UnknownNameError where there is no class of this name."""
        with self._db.reading() as db:
            for name in names:
                if not _exists(db, name):
                    raise UnknownNameError("class", name, self.counts())

    def spell(self, names: Iterable[str], *, new: bool = False) -> dict[str, str]:
        """How each of these names is written here: as a class that is there has it, else tidied.

        Names that differ only in the blanks around them, or in how their letters are composed, are one; classes that
        are there already, with both spellings, stay as they are. `new`: those that are not there may become classes.
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
                    known = {tidy(one): one for (one,) in db.execute(query)}
                found[name] = known.get(tidy(name), tidy(name))
                if new and tidy(name) not in known and found[name].casefold() == NONE:
                    raise InputError(
                        f"No class can be named {NONE!r}: it is what pictures of no class are called. Choose another."
                    )
        return found

    def members(self, name: str) -> list[Membership]:
        """Who put which picture into a class, in the order in which it was said."""
        query = f"SELECT item, author, source, at FROM labels WHERE label = {TEXT} ORDER BY at, item"
        with self._db.reading() as db:
            return [Membership(*row) for row in db.execute(query, [check_label(name)])]

    def add(self, name: str, items: Iterable[int], *, author: str, source: str = "hand") -> int:
        """Put items into a class, which may be new; returns how many were not in it."""
        label, who, now = check_label(name, "The name of a class"), check_text(author), time.time()
        rows = [(int(item), label, who, text(source), now) for item in items]
        with self._db.transaction() as db:
            db.execute(
                f"INSERT OR IGNORE INTO classes (name, author, at) VALUES ({TEXT}, {TEXT}, ?)", [label, who, now]
            )
            _touch(db)
            return max(0, db.executemany(f"{_INSERT} VALUES (?, {TEXT}, {TEXT}, {TEXT}, ?)", rows).rowcount)

    def rename(self, old: str, new: str) -> int:
        """Another name, which no class has; what sessions and the hierarchy call so, too. Returns its pictures."""
        before, after = check_label(old), check_label(new, "The name of a class")
        with self._db.transaction() as db:
            self.check(old)
            if old == new:
                raise InputError(f"The class is named {new!r} already.")
            if _exists(db, new):
                raise InputError(
                    f"There is a class named {new!r} already. To make one of both: lookalike classes merge"
                )
            in_tree = f"SELECT 1 FROM parents WHERE {TEXT} IN (child, parent)"
            if db.execute(in_tree, [before]).fetchone() and db.execute(in_tree, [after]).fetchone():
                raise InputError(f"The hierarchy has {new!r} beside {old!r} already. Choose another name.")
            n = _move(db, before, after)
            for table, column in (
                ("sessions", "name"),
                ("rejections", "label"),
                ("parents", "child"),
                ("parents", "parent"),
            ):
                db.execute(f"UPDATE OR REPLACE {table} SET {column} = {TEXT} WHERE {column} = {TEXT}", [after, before])
            _touch(db)
        return n

    def merge(self, names: Sequence[str], into: str) -> int:
        """Make one class of several; returns its pictures. What was rejected for all of them is for it."""
        after = check_label(into, "The name of a class")
        labels = [check_label(name) for name in dict.fromkeys(names)]
        if len(labels) < 2:
            raise InputError(f"At least two classes are needed to merge. Got {', '.join(names) or 'none'}.")
        with self._db.transaction() as db:
            self.check(*names)
            if into not in names and _exists(db, into):
                raise InputError(f"There is a class named {into!r} already. Name it among those to merge.")
            kept = (
                f"SELECT item, author, max(at) FROM rejections WHERE label IN ({', '.join(TEXT for _ in labels)})"
                " GROUP BY item HAVING count(*) = ?"
            )
            common = db.execute(kept, [*labels, len(labels)]).fetchall()
            for label in labels:
                db.execute(f"DELETE FROM rejections WHERE label = {TEXT}", [label])
                if label != after:
                    _move(db, label, after)
            insert = f"INSERT OR IGNORE INTO rejections (item, label, author, at) VALUES (?, {TEXT}, {TEXT}, ?)"
            db.executemany(insert, [(item, after, text(author), at) for item, author, at in common])
            _touch(db)
            return _count(db, after)

    def split(self, name: str, new: str, items: Sequence[int], *, author: str) -> int:
        """Make some pictures of a class a class of their own; returns how many they are."""
        before, after = check_label(name), check_label(new, "The name of a class")
        inside = f"label = {TEXT} AND item IN (SELECT value FROM json_each(?))"
        who, given = check_text(author), sorted(set(map(int, items)))
        if not given:
            raise InputError(f"Say which pictures of {name!r} are to be {new!r}. Got none.")
        wanted = write_ids(given)
        with self._db.transaction() as db:
            self.check(name)
            if _exists(db, new):
                raise InputError(f"There is a class named {new!r} already. Choose another name for what is split off.")
            found = int(db.execute(f"SELECT count(*) FROM labels WHERE {inside}", [before, wanted]).fetchone()[0])
            if found < len(given):
                raise InputError(f"{len(given) - found} of the {len(given)} pictures are not in {name!r}.")
            db.execute(f"INSERT INTO classes (name, author, at) VALUES ({TEXT}, {TEXT}, ?)", [after, who, time.time()])
            copy = f"{_INSERT} SELECT item, {TEXT}, author, source, at FROM labels WHERE {inside}"
            db.execute(copy, [after, before, wanted])
            db.execute(f"DELETE FROM labels WHERE {inside}", [before, wanted])
            _touch(db)
        return found

    def delete(self, name: str) -> int:
        """Forget a class: its labels, what was predicted and what was rejected; returns how many labels there were."""
        label = check_label(name)
        with self._db.transaction() as db:
            self.check(name)
            n = _count(db, label)
            db.execute(f"DELETE FROM classes WHERE name = {TEXT}", [label])
            for table in ("labels", "predictions", "rejections"):
                db.execute(f"DELETE FROM {table} WHERE label = {TEXT}", [label])
            _touch(db)
        return n

    def parents(self) -> list[tuple[str, str]]:
        """The hierarchy: every (child, parent)."""
        with self._db.reading() as db:
            return db.execute("SELECT child, parent FROM parents ORDER BY child, parent").fetchall()

    def set_parents(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Another hierarchy, of (child, parent) each; none clears it."""
        rows = [(check_label(child), check_label(parent)) for child, parent in pairs]
        with self._db.transaction() as db:
            db.execute("DELETE FROM parents")
            db.executemany(f"INSERT OR IGNORE INTO parents (child, parent) VALUES ({TEXT}, {TEXT})", rows)
            _touch(db)

    def settings(self) -> dict[str, Any]:
        """What was set, by name."""
        with self._db.reading() as db:
            return {name: json.loads(value) for name, value in db.execute("SELECT name, value FROM settings")}

    def set(self, **values: Any) -> None:
        """Set some of them."""
        with self._db.transaction() as db:
            rows = [(name, json.dumps(value)) for name, value in values.items()]
            db.executemany("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", rows)
            _touch(db)

    def all(self) -> tuple[int, list[tuple[int, str]]]:
        """The number of the last change, and every (item, label) as of then."""
        with self._db.reading() as db:
            return _last(db), db.execute("SELECT item, label FROM labels").fetchall()

    def changes(self, since: int) -> tuple[int, list[Change] | None]:
        """The number of the last change, and those after number `since`, in order; None where they are forgotten."""
        query = "SELECT item, label, added FROM changes WHERE id > ? ORDER BY id"
        with self._db.reading() as db:
            last = _last(db)
            found = [(item, label, bool(added)) for item, label, added in db.execute(query, [since])]
            return last, found if len(found) == last - since else None

    def last(self) -> int:
        """The number of the last change."""
        with self._db.reading() as db:
            return _last(db)

    def change(self, number: int) -> Change | None:
        """One change, where it is still known."""
        with self._db.reading() as db:
            row = db.execute("SELECT item, label, added FROM changes WHERE id = ?", [number]).fetchone()
        return None if row is None else (row[0], row[1], bool(row[2]))

    def forget_changes(self) -> None:
        """Leave only the last change: whoever is behind looks at everything again."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM changes WHERE id < (SELECT max(id) FROM changes)")


def _exists(db: sqlite3.Connection, name: str) -> bool:
    query = f"SELECT 1 FROM labels WHERE label = {TEXT} UNION ALL SELECT 1 FROM classes WHERE name = {TEXT}"
    return db.execute(query, [check_label(name)] * 2).fetchone() is not None


def _count(db: sqlite3.Connection, label: bytes) -> int:
    return int(db.execute(f"SELECT count(*) FROM labels WHERE label = {TEXT}", [label]).fetchone()[0])


def _move(db: sqlite3.Connection, before: bytes, after: bytes) -> int:
    """What is in one class is in the other, with who said so and when; returns how many had been in the first."""
    n = _count(db, before)
    db.execute(
        f"INSERT OR IGNORE INTO classes (name, author, at) SELECT {TEXT}, author, at FROM classes WHERE name = {TEXT}",
        [after, before],
    )
    db.execute(f"UPDATE predictions SET label = {TEXT} WHERE label = {TEXT}", [after, before])
    copy = f"{_INSERT} SELECT item, {TEXT}, author, source, at FROM labels WHERE label = {TEXT}"
    db.execute(copy, [after, before])
    db.execute(f"DELETE FROM classes WHERE name = {TEXT}", [before])
    db.execute(f"DELETE FROM labels WHERE label = {TEXT}", [before])
    return n


def _touch(db: sqlite3.Connection) -> None:
    """Something other than a label has changed: whoever keeps classes in memory looks again."""
    db.execute("INSERT INTO changes (item) VALUES (NULL)")


def _last(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(id), 0) FROM changes").fetchone()[0])
