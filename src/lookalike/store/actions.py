"""Actions: the changes of users to labels, classes, duplicates and pictures, with the data needed to undo them.

`recording` starts an action in the transaction that makes the change. Meanwhile, database triggers (see `schema`) copy
each changed row to `action_rows`, before and after the change. To undo an action, `Actions.undo` writes the old rows
back, but only if the rows have not changed since the action.

The pictures of a removal are in the catalogue, which is another database. `Actions.record_removal` stores a copy of
their rows before they are removed.
"""

import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from lookalike.errors import ConflictError, DamagedError, NoItemError
from lookalike.store.database import FROM_BACKUP, TEXT, Database, check_text, text
from lookalike.store.schema import DAMAGED_VIEW, RECORDED
from lookalike.text import many

KEEP_S = 30 * 86_400.0
"""Age from which `compact` drops the data needed to undo an action. The action stays in the history."""

MAX_REMOVED = 100_000
"""Maximum number of pictures of a removal that can be undone."""

MAX_ID = 2**63 - 1
"""Largest integer of SQLite."""

UNKNOWN = "unknown"
"""The author of a change without one."""

WHOLE = ("rename", "merge", "split", "delete")
"""Actions on whole classes. They can be undone only if no later action changed one of these classes."""

_TEXTS: dict[str, Callable[["Action"], str]] = {
    "label": lambda a: f"Added {a.pictures} to {a.label}" if a.count else f"Created the class {a.label}",
    "unlabel": lambda a: f"Removed {a.pictures} from {a.label}",
    "confirm": lambda a: f"Confirmed {a.label} for {a.pictures}",
    "reject": lambda a: f"Rejected {a.label} for {a.pictures}",
    "rename": lambda a: f"Renamed the class {a.label} to {a.target}",
    "merge": lambda a: f"Merged {a.label} into {a.target}, {a.pictures} in total",
    "split": lambda a: f"Moved {a.pictures} from {a.label} to {a.target}",
    "delete": lambda a: f"Deleted the class {a.label} with {a.pictures}",
    "finish": lambda a: f"Finished a session: added {a.pictures} to {a.label}",
    "import": lambda a: f"Imported {many(a.count, 'label')}",
    "hierarchy": lambda a: f"Set the hierarchy of classes to {many(a.count, 'pair')}",
    "dismiss": lambda a: f"Marked {many(a.count, 'pair')} of pictures as not duplicates",
    "remove": lambda a: f"Removed {a.pictures} from the collection",
}


class Changed(int):
    """A number of changes. `action` is the action that recorded them, or None if there is nothing to undo."""

    action: int | None

    def __new__(cls, count: int, action: int | None = None) -> Self:
        """Create the number."""
        self = super().__new__(cls, count)
        self.action = action
        return self


class Removed(NamedTuple):
    """The rows of removed pictures, as `Items.save` returns them, and the sources that were removed with them."""

    rows: dict[str, Any]
    sources: list[str]


@dataclass(frozen=True, slots=True)
class Action:
    """One entry of the history."""

    id: int
    kind: str  # a key of the texts above
    label: str | None
    target: str | None  # the new name, for example
    count: int
    author: str
    at: float  # POSIX seconds
    undoes: int | None  # the action that this one undid, or whose undo it undid
    undone_by: int | None
    redoes: bool  # whether it undid an undo
    can_undo: bool

    @property
    def pictures(self) -> str:
        """The number of pictures, with the noun."""
        return many(self.count, "picture")

    @property
    def text(self) -> str:
        """What the action did, as a phrase."""
        done = _TEXTS[self.kind](self) if self.kind in _TEXTS else self.kind
        if self.undoes is None:
            return done
        return f"{'Redid' if self.redoes else 'Undid'}: {done[0].lower()}{done[1:]}"

    @property
    def reason(self) -> str | None:
        """Why the action can no longer be undone; None if it can be, unless the same data has changed since."""
        if self.can_undo:
            return None
        if self.undone_by is not None:
            return f"It was already undone by action {self.undone_by}."
        if self.undoes is not None and self.redoes:
            return "To undo it again, undo the first action."
        if self.undoes is not None and self.kind == "remove":
            return "To remove the pictures again, use: lookalike remove"
        if self.kind == "remove" and self.count > MAX_REMOVED:
            return f"Removals of more than {MAX_REMOVED:,} pictures cannot be undone. Add their folder again."
        return f"It is older than {KEEP_S / 86_400:.0f} days, and `lookalike compact` dropped the data needed."


class Recorder:
    """An action that is being recorded. Call `finish` at the end."""

    def __init__(self, db: sqlite3.Connection, number: int):
        self.db = db
        self.number = number

    def finish(self, count: int, shown: int | None = None) -> Changed:
        """Stop recording. `count` is the result of the change; `shown` is the number in the history, if different.

        An action that changed no row is removed.
        """
        self.db.execute("DELETE FROM recording")
        if self.db.execute("SELECT 1 FROM action_rows WHERE action = ?", [self.number]).fetchone() is None:
            self.db.execute("DELETE FROM actions WHERE id = ?", [self.number])
            return Changed(count)
        self.db.execute("UPDATE actions SET items = ? WHERE id = ?", [count if shown is None else shown, self.number])
        return Changed(count, self.number)


@contextmanager
def recording(
    database: Database, kind: str, author: str, *, label: str | None = None, target: str | None = None
) -> Iterator[Recorder]:
    """Start a transaction that records an action. The block must call `Recorder.finish`."""
    with database.transaction() as db:
        yield _start(db, kind, author, label, target)


class Actions:
    """The history of a collection, in `judgements.sqlite`."""

    def __init__(self, database: Database):
        self._db = database

    def __len__(self) -> int:
        with self._db.reading() as db:
            return int(db.execute("SELECT count(*) FROM actions").fetchone()[0])

    def all(self, offset: int = 0, limit: int = -1) -> list[Action]:
        """Return the actions, newest first."""
        with self._db.reading() as db:
            wanted = [min(limit, MAX_ID), min(offset, MAX_ID)]
            rows = db.execute(f"{_SELECT} ORDER BY actions.id DESC LIMIT ? OFFSET ?", wanted).fetchall()
        return [_action(row) for row in rows]

    def get(self, number: int) -> Action:
        """Return one action. Raises NoItemError if it does not exist."""
        with self._db.reading() as db:
            return _get(db, number)

    def items(self, number: int, k: int) -> list[int]:
        """Return at most `k` of the pictures whose labels, rejections or duplicates an action changed."""
        query = (
            "SELECT a, iif(name = 'apart', b, a) FROM action_rows WHERE action = ?"
            " AND name IN ('labels', 'rejections', 'apart') LIMIT ?"
        )
        with self._db.reading() as db:
            pairs = db.execute(query, [number, 4 * k]).fetchall()  # a picture can have several rows
        return list(dict.fromkeys(item for pair in pairs for item in pair))[:k]

    def last(self) -> Action | None:
        """Return the newest action that can be undone and is not an undo."""
        return next((action for action in self.all() if action.can_undo and action.undoes is None), None)

    def undo(self, number: int, *, author: str) -> Changed:
        """Undo an action, or undo its undo; return the number of rows that changed and the action that did it.

        Raises ConflictError, and changes nothing, if one of its rows has changed since. Removals are undone by
        other means; see `record_restored`.
        """
        with self._db.transaction() as db:
            action = _get(db, number)
            _check_can_undo(db, action)
            _check_unchanged(db, action)
            recorder = _start(db, action.kind, author, action.label, action.target, undoes=action)
            n = _write_back(db, number)
            db.execute("INSERT INTO changes (item) VALUES (NULL)")  # class models in memory notice it
            undone = recorder.finish(n, action.count)
            if undone.action is None:  # such as a new class, to which pictures were added since
                raise _conflict(db, action, None)
            return undone

    def record_removal(self, removed: Removed, count: int, *, author: str) -> int | None:
        """Record the removal of pictures that is about to happen; return the action. Too many cannot be undone."""
        with self._db.transaction() as db:
            number = _start(db, "remove", author, None, None).number
            db.execute("DELETE FROM recording")
            saved = zlib.compress(json.dumps(removed).encode()) if count <= MAX_REMOVED else None
            db.execute("UPDATE actions SET items = ?, removed = ? WHERE id = ?", [count, saved, number])
        return number if saved is not None else None

    def forget(self, number: int) -> None:
        """Remove an action whose change failed."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM actions WHERE id = ?", [number])

    def removed(self, number: int) -> Removed:
        """Return the rows of the pictures that an action removed. Raises ConflictError if it cannot be undone."""
        with self._db.reading() as db:
            _check_can_undo(db, _get(db, number))
            (saved,) = db.execute("SELECT removed FROM actions WHERE id = ?", [number]).fetchone()
        return Removed(*json.loads(zlib.decompress(saved)))

    def record_restored(self, number: int, count: int, *, author: str) -> Changed:
        """Record that the pictures which an action removed were brought back."""
        with self._db.transaction() as db:
            action = _get(db, number)
            undo = _start(db, action.kind, author, None, None, undoes=action).number
            db.execute("DELETE FROM recording")
            db.execute("UPDATE actions SET items = ? WHERE id = ?", [count, undo])
        return Changed(count, undo)

    def compact(self) -> None:
        """Drop the data needed to undo actions older than KEEP_S."""
        oldest = time.time() - KEEP_S
        with self._db.transaction() as db:
            db.execute("DELETE FROM action_rows WHERE action IN (SELECT id FROM actions WHERE at < ?)", [oldest])
            db.execute("UPDATE actions SET removed = NULL WHERE removed IS NOT NULL AND at < ?", [oldest])


_SELECT = (
    "SELECT actions.id, actions.kind, actions.label, actions.target, actions.items, actions.author, actions.at,"
    " actions.undoes, actions.undone_by, coalesce(undone.undoes IS NOT NULL, 0) AS redoes,"
    " actions.undone_by IS NULL AND coalesce(undone.undoes, 0) = 0 AND (actions.removed IS NOT NULL"
    " OR EXISTS (SELECT 1 FROM action_rows WHERE action = actions.id))"
    " FROM actions LEFT JOIN actions AS undone ON undone.id = actions.undoes"
)
# The first and the last row that an action recorded for each key of a table, which give the old and the new row.
_SPANS = (
    "SELECT min(number) AS first, max(number) AS last FROM action_rows WHERE action = ? AND name = ? GROUP BY {key}"
)
_LETTERS = "abcdef"


def _action(row: Sequence[Any]) -> Action:
    return Action(*row[:9], *map(bool, row[9:]))


def _get(db: sqlite3.Connection, number: int) -> Action:
    row = db.execute(f"{_SELECT} WHERE actions.id = ?", [number]).fetchone() if number <= MAX_ID else None
    if row is None:
        raise NoItemError(f"There is no action {number}. To list them: lookalike history")
    return _action(row)


def _start(
    db: sqlite3.Connection,
    kind: str,
    author: str,
    label: str | None,
    target: str | None,
    *,
    undoes: Action | None = None,
) -> Recorder:
    """Add an action, and start to record the rows that change."""
    names = [None if name is None else text(name) for name in (label, target)]
    cursor = db.execute(
        f"INSERT INTO actions (kind, label, target, items, author, at, undoes) VALUES (?, {TEXT}, {TEXT}, 0, {TEXT},"
        " ?, ?)",
        [kind, *names, check_text(author), time.time(), None if undoes is None else undoes.id],
    )
    number = int(cursor.lastrowid or 0)
    if undoes is not None:
        db.execute("UPDATE actions SET undone_by = ? WHERE id = ?", [number, undoes.id])
        if undoes.undoes is not None:  # the action has effect again, and can be undone again
            db.execute("UPDATE actions SET undone_by = NULL WHERE id = ?", [undoes.undoes])
    db.execute("INSERT INTO recording VALUES (?)", [number])
    return Recorder(db, number)


def _check_can_undo(db: sqlite3.Connection, action: Action) -> None:
    if action.can_undo:
        damaged = db.execute(f"SELECT 1 FROM {DAMAGED_VIEW}action_rows WHERE action = ?", [action.id]).fetchone()
        damaged = damaged or db.execute(f"SELECT 1 FROM {DAMAGED_VIEW}actions WHERE id = ?", [action.id]).fetchone()
        if damaged:
            raise DamagedError(f"Action {action.id} ({action.text}) is damaged, so it cannot be undone. {FROM_BACKUP}")
        return
    raise ConflictError(f"Cannot undo action {action.id} ({action.text}). {action.reason}")


def _check_unchanged(db: sqlite3.Connection, action: Action) -> None:
    """Raise ConflictError if a row that an action changed has changed since."""
    for table, (columns, keys, _) in RECORDED.items():
        if table == "predictions":  # users did not enter them, and they can be predicted again
            continue
        same = [f"t.{name} IS {letter}" for name, letter in zip(columns.split(), _LETTERS, strict=False)]
        query = (
            f"SELECT {', '.join(_LETTERS[:keys])} FROM action_rows WHERE number IN"
            f" (SELECT last FROM ({_SPANS.format(key=', '.join(_LETTERS[:keys]))}))"
            f" AND CASE added WHEN 1 THEN NOT EXISTS (SELECT 1 FROM {table} AS t WHERE {' AND '.join(same)})"
            f" ELSE EXISTS (SELECT 1 FROM {table} AS t WHERE {' AND '.join(same[:keys])}) END LIMIT 1"
        )
        key = db.execute(query, [action.id, table]).fetchone()
        if key is not None:
            raise _conflict(db, action, _last_change(db, table, key, after=action.id))
    for table, other in (("labels", "rejections"), ("rejections", "labels")):  # a picture has only one of them
        query = (
            "SELECT a, b FROM action_rows AS row WHERE NOT added AND number IN"
            f" (SELECT first FROM ({_SPANS.format(key='a, b')}))"
            f" AND EXISTS (SELECT 1 FROM {other} WHERE item = a AND label = b) AND NOT EXISTS"
            f" (SELECT 1 FROM action_rows WHERE action = row.action AND name = '{other}' AND a = row.a AND b = row.b)"
        )
        key = db.execute(query, [action.id, table]).fetchone()
        if key is not None:
            raise _conflict(db, action, _last_change(db, other, key, after=action.id))
    if action.kind in WHOLE:
        names = (
            "SELECT b AS name FROM action_rows WHERE action = :id AND name IN ('labels', 'rejections')"
            " UNION SELECT a FROM action_rows WHERE action = :id AND name = 'classes'"
        )
        find = (
            "SELECT max(action) FROM action_rows JOIN actions ON actions.id = action"
            " LEFT JOIN actions AS undone ON undone.id = actions.undoes"
            " LEFT JOIN actions AS redone ON redone.id = undone.undoes WHERE action > :id AND"
            " CASE WHEN actions.undoes IS NULL THEN actions.undone_by IS NULL"
            " ELSE redone.id IS NOT NULL AND redone.undone_by IS NULL AND redone.id <> :id END"
            f" AND ((name IN ('labels', 'rejections') AND b IN (SELECT name FROM ({names})))"
            f" OR (name = 'classes' AND a IN (SELECT name FROM ({names}))))"
        )
        later = db.execute(find, {"id": action.id}).fetchone()[0]
        if later is not None:
            raise _conflict(db, action, later)


def _last_change(db: sqlite3.Connection, table: str, key: Sequence[Any], *, after: int) -> int | None:
    """Return the last action after this one that changed the row with this key."""
    values = [text(value) if isinstance(value, str) else value for value in key]
    where = " AND ".join(
        f"{letter} IS {TEXT if isinstance(value, str) else '?'}" for letter, value in zip(_LETTERS, key, strict=False)
    )
    find = f"SELECT max(action) FROM action_rows WHERE name = ? AND {where} AND action > ?"
    found: int | None = db.execute(find, [table, *values, after]).fetchone()[0]
    return found


def _conflict(db: sqlite3.Connection, action: Action, later: int | None) -> ConflictError:
    """Return the error for an action that cannot be undone because of a later one, if that is known."""
    start = f"Cannot undo action {action.id} ({action.text}), because "
    if later is None:
        return ConflictError(f"{start}the same data has changed since. Nothing was undone.")
    return ConflictError(f"{start}action {later} ({_get(db, later).text}) changed the same data. Undo that one first.")


def _write_back(db: sqlite3.Connection, number: int) -> int:
    """Remove the rows that an action added, and add those that it removed; return how many."""
    n = 0
    for table, (columns, keys, update) in RECORDED.items():
        names = columns.split()
        spans = _SPANS.format(key=", ".join(_LETTERS[:keys]))
        if update:
            rows = f"FROM action_rows WHERE action = ?1 AND name = '{table}'"
            before = f"SELECT {', '.join(_LETTERS[keys : len(names)])} {rows} AND NOT added AND a = {table}.{names[0]}"
            n += db.execute(
                f"UPDATE {table} SET ({', '.join(names[keys:])}) = ({before} ORDER BY number LIMIT 1)"
                f" WHERE {names[0]} IN (SELECT a {rows})",
                [number],
            ).rowcount
            continue
        added = f"FROM action_rows WHERE added AND number IN (SELECT last FROM ({spans}))"
        # Of predictions, only those of the action are removed, and not later ones, so the label is compared, too.
        compared = 2 if table == "predictions" else keys
        chosen = f"SELECT {', '.join(_LETTERS[:compared])} {added}"
        delete = f"DELETE FROM {table} WHERE ({', '.join(names[:compared])}) IN ({chosen})"
        if table == "classes":  # a class that pictures were added to since stays
            delete += " AND NOT EXISTS (SELECT 1 FROM labels WHERE label = name)"
        n += max(0, db.execute(delete, [number, table]).rowcount)
    # A label removes predictions and rejections of its picture, and predictions need their class, so the order matters.
    for table in ("classes", "labels", "parents", "rejections", "apart", "predictions"):
        columns, keys, _ = RECORDED[table]
        names = columns.split()
        insert = (
            f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) SELECT {', '.join(_LETTERS[: len(names)])}"
            f" FROM action_rows WHERE NOT added AND number IN (SELECT first FROM"
            f" ({_SPANS.format(key=', '.join(_LETTERS[:keys]))}))"
        )
        n += max(0, db.execute(insert, [number, table]).rowcount)
    return n
