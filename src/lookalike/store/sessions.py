"""Feedback sessions: the pictures that were shown and the marks of users, as a log of events.

The log is append-only: an undo is an event too. Only an open session can be removed, together with its log. Each mark
is on disk when its call returns. Changes need no writer lock, so several users and processes can mark pictures at
the same time.
"""

import secrets
import shlex
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from lookalike.errors import DamagedError, InputError
from lookalike.store.classes import check_label
from lookalike.store.database import Database, check_text, text
from lookalike.types import Vectors

Kind: TypeAlias = Literal["relevant", "irrelevant", "skip"]
"""The possible marks of a picture."""

KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class ExternalExample:
    """An example that is not a picture in the collection: another file, or a part of a picture."""

    positive: bool  # or a negative example
    vector: Vectors  # (d,) float32
    feature: str | None  # the feature that computed the vector; None for a vector of the space itself
    item: int | None = None  # the id that the picture would have in the collection
    origin: str | None = None  # its path, or the words whose best results have this mean vector

    @property
    def words(self) -> str | None:
        """The words that it stands for; None for a picture or a plain vector."""
        return self.origin if self.feature is None else None


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a session's log."""

    kind: str  # "shown", "relevant", "irrelevant", "skip" or "undo"
    item: int
    round: int  # 0 for the examples that the session started from
    position: int | None  # the position at which the item was shown
    author: str
    at: float  # POSIX seconds
    undone: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """The state of a session, with counts of its marks."""

    id: str
    name: str | None
    author: str
    space: str
    created_at: float
    finished_at: float | None
    changed_at: float
    rounds: int
    relevant: int
    irrelevant: int
    skipped: int

    @property
    def state(self) -> str:
        """Either "open" or "finished"."""
        return "open" if self.finished_at is None else "finished"


class Sessions:
    """The sessions of a collection, in `judgements.sqlite`."""

    def __init__(self, database: Database):
        self._db = database

    def start(
        self,
        space: str,
        *,
        author: str,
        name: str | None,
        marks: Mapping[int, Kind],
        external_examples: Sequence[ExternalExample] = (),
    ) -> str:
        """Start a session from examples; return its id, eight hexadecimal digits."""
        called = None if name is None else check_label(name, "The name of a session")
        session = secrets.token_hex(4)
        insert = (
            "INSERT INTO sessions (id, name, author, space, created_at)"
            " VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), ?)"
        )
        insert_example = (
            "INSERT INTO outsiders (session, number, wanted, item, origin, feature, vector)"
            " VALUES (?, ?, ?, ?, CAST(? AS TEXT), CAST(? AS TEXT), ?)"
        )
        with self._db.transaction() as db:
            while db.execute("SELECT 1 FROM sessions WHERE id = ?", [session]).fetchone():
                session = secrets.token_hex(4)
            db.execute(insert, [session, called, check_text(author), text(space), time.time()])
            for number, example in enumerate(external_examples):
                vector = np.ascontiguousarray(example.vector, "<f4").tobytes()
                origin, feature = _text(example.origin), _text(example.feature)
                db.execute(insert_example, [session, number, example.positive, example.item, origin, feature, vector])
            _log(db, session, 0, [(kind, item, 0, None, None) for item, kind in marks.items()], author)
        return session

    def all(self) -> list[Summary]:
        """Return all sessions, last changed first."""
        query = _SUMMARY.format(marks="marks", which="1") + " ORDER BY changed DESC, id"
        with self._db.reading() as db:
            return [Summary(*row) for row in db.execute(query)]

    def get(self, session: str) -> Summary:
        """Return one session. Raises InputError if it does not exist."""
        query = _SUMMARY.format(marks="(SELECT * FROM marks WHERE session = :id)", which="sessions.id = :id")
        with self._db.reading() as db:
            row = db.execute(query, {"id": _id(session)}).fetchone()
        if row is None:
            raise _unknown(session)
        return Summary(*row)

    def check_open(self, session: str) -> None:
        """Raise InputError if a session is finished or does not exist."""
        with self._db.reading() as db:
            row = db.execute("SELECT name, finished_at FROM sessions WHERE id = ?", [_id(session)]).fetchone()
        if row is None:
            raise _unknown(session)
        if row[1] is not None:
            raise InputError(
                f"Session {session} was finished as {row[0]!r}. To mark more pictures, start a session from its label:"
                f" lookalike feedback --label {shlex.quote(row[0])}"
            )

    def show(self, session: str, items: Sequence[int], *, author: str) -> int:
        """Log a new round that shows these items in this order; return its number, starting at 1."""
        with self._db.transaction() as db:
            self.check_open(session)
            number = _last(db, session, "round") + 1
            rows = [("shown", int(item), number, position, None) for position, item in enumerate(items)]
            _log(db, session, _last(db, session, "step") + 1, rows, author)
        return number

    def mark(self, session: str, marks: Mapping[int, Kind], *, author: str) -> None:
        """Log marks of items as one step, which can be undone. The last mark of an item counts."""
        seen = "SELECT round, position FROM events WHERE session = ? AND item = ? AND kind = 'shown' ORDER BY id DESC"
        with self._db.transaction() as db:
            self.check_open(session)
            current = _last(db, session, "round")
            rows = []
            for item, kind in marks.items():
                place = db.execute(seen, [session, int(item)]).fetchone() or (current, None)
                rows.append((kind, int(item), *place, None))
            _log(db, session, _last(db, session, "step") + 1, rows, author)

    def undo(self, session: str, *, author: str) -> dict[int, Kind]:
        """Undo the last step of this author that is not undone yet; return its marks, empty if there is none."""
        mine = "FROM clicks WHERE session = ? AND author = CAST(? AS TEXT) AND step > 0"
        last = f"SELECT id, kind, item, round, position {mine} AND step = (SELECT max(step) {mine})"
        with self._db.transaction() as db:
            self.check_open(session)
            found = db.execute(last, [session, check_text(author)] * 2).fetchall()
            rows = [("undo", item, round_, position, event) for event, _, item, round_, position in found]
            _log(db, session, _last(db, session, "step") + 1, rows, author)
        return {item: kind for _, kind, item, *_ in found}

    def remove(self, session: str) -> None:
        """Remove an open session and its log. Raises InputError if it is finished, because its class depends on it."""
        with self._db.transaction() as db:
            known = self.get(session)
            if known.finished_at is not None:
                raise InputError(
                    f"Session {session} cannot be removed: it is finished, and the class {known.name!r} depends on it."
                )
            for table in ("events", "outsiders"):
                db.execute(f"DELETE FROM {table} WHERE session = ?", [session])
            db.execute("DELETE FROM sessions WHERE id = ?", [session])

    def marks(self, session: str) -> dict[int, Kind]:
        """Return the current mark of each item, in the order of the events."""
        with self._db.reading() as db:
            return dict(db.execute("SELECT item, kind FROM marks WHERE session = ? ORDER BY event", [session]))

    def first_marks(self, session: str) -> dict[int, Kind]:
        """Return the marks that a session started from, even those that changed later."""
        query = "SELECT item, kind FROM events WHERE session = ? AND step = 0 ORDER BY id"
        with self._db.reading() as db:
            return dict(db.execute(query, [session]))

    def questions(self, session: str) -> list[int]:
        """Return the items that the last round showed, in order; empty before the first round."""
        last = "SELECT max(round) FROM events WHERE session = :id AND kind = 'shown'"
        query = f"SELECT item FROM events WHERE session = :id AND kind = 'shown' AND round = ({last}) ORDER BY position"
        with self._db.reading() as db:
            return [item for (item,) in db.execute(query, {"id": session})]

    def external_examples(self, session: str) -> list[ExternalExample]:
        """Return the external examples that a session started from."""
        query = "SELECT wanted, vector, feature, item, origin FROM outsiders WHERE session = ? ORDER BY number"
        with self._db.reading() as db:
            rows = db.execute(query, [session]).fetchall()
        return [ExternalExample(bool(positive), _vector(session, vector), *rest) for positive, vector, *rest in rows]

    def log(self, session: str) -> list[Event]:
        """Return all events of a session in order."""
        taken_back = "EXISTS (SELECT 1 FROM events AS later WHERE later.undoes = events.id)"
        query = (
            f"SELECT kind, item, round, position, author, at, {taken_back} FROM events WHERE session = ? ORDER BY id"
        )
        with self._db.reading() as db:
            rows = db.execute(query, [session]).fetchall()
        return [
            Event(kind, item, number, position, author, at, bool(undone))
            for kind, item, number, position, author, at, undone in rows
        ]

    def negatives(self, name: str) -> list[int]:
        """Return the negative examples of a class: the items whose last mark in its finished sessions is negative."""
        last = (
            "SELECT item, kind, max(event) FROM marks JOIN sessions ON sessions.id = session"
            " WHERE name = CAST(? AS TEXT) AND finished_at IS NOT NULL AND kind <> 'skip' GROUP BY item"
        )
        with self._db.reading() as db:
            return [item for item, kind, _ in db.execute(last, [check_label(name)]) if kind == "irrelevant"]


_SUMMARY = """
    SELECT sessions.id, name, sessions.author, space, created_at, finished_at,
        coalesce((SELECT max(at) FROM events WHERE session = sessions.id), created_at) AS changed,
        coalesce((SELECT max(round) FROM events WHERE session = sessions.id), 0),
        count(*) FILTER (WHERE kind = 'relevant'), count(*) FILTER (WHERE kind = 'irrelevant'),
        count(*) FILTER (WHERE kind = 'skip')
    FROM sessions LEFT JOIN {marks} ON session = sessions.id WHERE {which} GROUP BY sessions.id
"""

_Row: TypeAlias = tuple[str, int, int, int | None, int | None]
"""Kind, item, round, position, and the id of the event that it undoes."""


def _log(db: sqlite3.Connection, session: str, step: int, rows: Sequence[_Row], author: str) -> None:
    insert = (
        "INSERT INTO events (session, step, kind, item, round, position, undoes, author, at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?)"
    )
    who, now = check_text(author), time.time()
    db.executemany(insert, [(session, step, *row, who, now) for row in rows])


def _last(db: sqlite3.Connection, session: str, column: Literal["step", "round"]) -> int:
    found = db.execute(f"SELECT coalesce(max({column}), 0) FROM events WHERE session = ?", [session]).fetchone()
    return int(found[0])


def _text(value: str | None) -> bytes | None:
    return None if value is None else check_text(value, "The origin of an example")


def _vector(session: str, data: bytes) -> Vectors:
    try:
        return np.frombuffer(data, "<f4")
    except (ValueError, TypeError) as error:
        raise DamagedError(f"An example of session {session} is damaged: {error}.") from None


def _id(session: str) -> str:
    """Return the id, or an empty string, which is never an id, if SQLite cannot bind it (lone surrogates)."""
    return session if isinstance(session, str) and session.isascii() else ""


def _unknown(session: str) -> InputError:
    return InputError(f"No session with the id {session!r}. List them with: lookalike sessions")
