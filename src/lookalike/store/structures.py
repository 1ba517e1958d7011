"""What indexes have built over the vectors of spaces, to answer faster, and how much their answers find.

In: files of the folder `indexes`, settled on the disk. Out: which file answers which queries of a space. What changes
anything runs inside a transaction.
"""

from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

from lookalike.store.database import Database
from lookalike.store.files import digest_file

Kind: TypeAlias = Literal["points", "hyperplanes"]
"""The queries that a structure helps to answer: searches by example, and feedback."""
KINDS: tuple[Kind, ...] = get_args(Kind)


class Structure(NamedTuple):
    """What an index has built over the vectors of a space, to answer faster."""

    file: str  # in the folder `indexes`
    recall: float | None  # as measured when it was built, where it was
    digest: bytes | None = None  # of the file; None if an older Lookalike built it


class Recall(NamedTuple):
    """How much of an exact search a search of codes finds."""

    value: float  # 0 to 1
    rows: int  # how many codes there were when it was measured


class Structures:
    """The structures of all spaces; files that are no longer named go onto the list `doomed`."""

    def __init__(self, folder: Path, database: Database, doomed: list[Path]):
        self._folder = folder
        self._db = database
        self._doomed = doomed

    def get(self, space: str, kind: Kind) -> Structure | None:
        """What helps to answer queries of a kind in a space, where something does."""
        query = "SELECT file, recall, digest FROM structures WHERE space = ? AND kind = ?"
        with self._db.reading() as db:
            row = db.execute(query, [space, kind]).fetchone()
        return None if row is None else Structure(*row)

    def name(self, space: str, kind: Kind, file: str | None, recall: float | None = None) -> None:
        """Make a settled file the structure of a space for a kind of queries; the one before goes."""
        before = self.get(space, kind)
        if before is not None and before.file != file:
            self._doomed.append(self._folder / before.file)
        db = self._db.writing()
        db.execute("DELETE FROM structures WHERE space = ? AND kind = ?", [space, kind])
        if file is not None:
            insert = "INSERT INTO structures (space, kind, file, recall, digest) VALUES (?, ?, ?, ?, ?)"
            db.execute(insert, [space, kind, file, recall, digest_file(self._folder / file)])

    def recall(self, space: str) -> Recall | None:
        """What was measured of a space as it is fitted now, where something was."""
        with self._db.reading() as db:
            row = db.execute("SELECT recall, rows FROM recalls WHERE space = ?", [space]).fetchone()
        return None if row is None else Recall(*row)

    def keep_recall(self, space: str, recall: Recall) -> None:
        """Remember what was measured; it goes with the next fit."""
        self._db.writing().execute("INSERT OR REPLACE INTO recalls VALUES (?, ?, ?)", [space, *recall])

    def drop(self, space: str) -> None:
        """Forget all that was built over a space, and what was measured."""
        for kind in KINDS:
            self.name(space, kind, None)
        self._db.writing().execute("DELETE FROM recalls WHERE space = ?", [space])
