"""What a computer believes about pictures, apart from what people said; and what people said to that.

In: the class that was predicted for an item, how surely, and by what. Out: predictions, best first; what was rejected.
The tables see to it themselves that no prediction stands beside a label of the same item, or after a rejection.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lookalike.errors import InputError
from lookalike.store.database import REAL, Database, unhex, write_ids
from lookalike.store.labels import check_label, check_text
from lookalike.store.schema import TEXT, text

_GIVEN = "item IN (SELECT value FROM json_each(?))"
_ROWS = (
    f"SELECT json_group_array(json_array(item, hex(label), {REAL.format('probability')}, hex(space), hex(model),"
    f" {REAL.format('at')})) FROM predictions WHERE {_GIVEN}"
)


@dataclass(frozen=True, slots=True)
class Prediction:
    """The class that a picture may be of; its source is always "predicted"."""

    item: int
    label: str
    probability: float
    space: str
    model: str  # the kind of classes, and after how many changes of labels
    at: float  # POSIX seconds


class Predictions:
    """The predictions of a collection, at most one an item, in its file of judgements."""

    def __init__(self, database: Database):
        self._db = database

    def add(
        self, rows: Iterable[tuple[int, str, float]], *, space: str, model: str, instead: bool = False
    ) -> dict[str, int]:
        """Keep predictions, (item, label, probability) each; returns how many of each label.

        Those of items that somebody has labelled, and those that somebody has rejected, are left out. `instead`: of all
        that there were, not only of those of the same items.
        """
        now = time.time()
        values = [
            (int(item), check_label(label), float(chance), text(space), text(model), now)
            for item, label, chance in rows
        ]
        insert = f"INSERT OR REPLACE INTO predictions VALUES (?, {TEXT}, ?, {TEXT}, {TEXT}, ?)"
        items = write_ids(row[0] for row in values)
        counts = f"SELECT label, count(*) FROM predictions WHERE {_GIVEN} GROUP BY label ORDER BY label"
        with self._db.transaction() as db:
            if instead:
                db.execute("DELETE FROM predictions")
            db.executemany(insert, values)
            return dict(db.execute(counts, [items]))

    def of(self, label: str) -> list[Prediction]:
        """What is predicted to be of a class, the surest first."""
        query = f"SELECT * FROM predictions WHERE label = {TEXT} ORDER BY probability DESC, item"
        with self._db.reading() as db:
            return [Prediction(*row) for row in db.execute(query, [check_label(label)])]

    def get(self, items: Sequence[int]) -> dict[int, Prediction]:
        """The predictions of these items, where there are any."""
        return {
            item: Prediction(item, unhex(label), float(chance), unhex(space), unhex(model), float(at))
            for item, label, chance, space, model, at in self._db.listed(_ROWS, items)
        }

    def items(self) -> dict[str, list[int]]:
        """Label → the items that are predicted to be of it."""
        found: dict[str, list[int]] = {}
        with self._db.reading() as db:
            for label, item in db.execute("SELECT label, item FROM predictions ORDER BY label, item"):
                found.setdefault(label, []).append(item)
        return found

    def confirm(self, label: str, items: Sequence[int], *, author: str) -> int:
        """These predictions are right: they become labels, with "confirmed" as their source. Returns how many.

        Of items that have the label already there is nothing to confirm.
        """
        name, who = check_label(label), check_text(author)
        wanted = sorted(set(map(int, items)))
        query = f"SELECT item FROM {{}} WHERE label = {TEXT} AND {_GIVEN}"
        with self._db.transaction() as db:
            found, said = (
                {item for (item,) in db.execute(query.format(table), [name, write_ids(wanted)])}
                for table in ("predictions", "labels")
            )
            if missing := len(set(wanted) - found - said):
                raise InputError(
                    f"{missing} of the {len(wanted)} pictures are not predicted to be {label!r}."
                    f" To say that they are: lookalike classes add {label!r} IMAGE…"
                )
            rows = [(item, name, who, time.time()) for item in sorted(found)]
            insert = (
                "INSERT OR IGNORE INTO labels (item, label, author, source, at)"
                f" VALUES (?, {TEXT}, {TEXT}, 'confirmed', ?)"
            )
            return max(0, db.executemany(insert, rows).rowcount)

    def reject(self, label: str, items: Sequence[int], *, author: str) -> int:
        """These are not of a class: it is never predicted for them again. Returns how many predictions went."""
        name, who = check_label(label), check_text(author)
        given = sorted(set(map(int, items)))
        wanted = write_ids(given)
        inside = f"label = {TEXT} AND {_GIVEN}"
        with self._db.transaction() as db:
            said = int(db.execute(f"SELECT count(*) FROM labels WHERE {inside}", [name, wanted]).fetchone()[0])
            if said:
                raise InputError(
                    f"{said} of the pictures are in {label!r} because somebody said so. To take that back: lookalike"
                    " classes remove"
                )
            gone = db.execute(f"DELETE FROM predictions WHERE {inside}", [name, wanted]).rowcount
            insert = f"INSERT OR IGNORE INTO rejections (item, label, author, at) VALUES (?, {TEXT}, {TEXT}, ?)"
            now = time.time()
            db.executemany(insert, [(item, name, who, now) for item in given])
        return max(0, gone)

    def rejected(self, items: Sequence[int]) -> dict[int, set[str]]:
        """The classes that these items are not of: rejected, or called irrelevant in a finished session of that name.

        An item that has the label all the same is of the class: somebody said so.
        """
        query = (
            f"SELECT item, label FROM rejections WHERE {_GIVEN} UNION"
            " SELECT item, name FROM (SELECT name, item, kind, max(event) FROM marks JOIN sessions"
            f" ON sessions.id = session WHERE finished_at IS NOT NULL AND kind <> 'skip' AND {_GIVEN}"
            " GROUP BY name, item) WHERE kind = 'irrelevant'"
            f" EXCEPT SELECT item, label FROM labels WHERE {_GIVEN}"
        )
        found: dict[int, set[str]] = {}
        with self._db.reading() as db:
            for item, label in db.execute(query, [write_ids(items)] * 3):
                found.setdefault(item, set()).add(label)
        return found
