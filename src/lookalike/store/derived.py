"""Data that is computed from the vectors and can be recomputed: index structures, recall, cached results.

`Structures` lists the files in `indexes/` that make queries of a space faster. `Derived` is a cache of JSON values in
the folder `derived`, such as groups of duplicates and maps. A value that cannot be written or read is recomputed.
"""

import json
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from lookalike.atomic_files import atomic_write
from lookalike.errors import StoreError
from lookalike.store.database import Database
from lookalike.store.npy_files import digest_file

FOLDER = "derived"

Kind: TypeAlias = Literal["points", "hyperplanes", "neighbours"]
"""What a structure is for: searches by example, feedback, or the nearest neighbours of every row."""
KINDS: tuple[Kind, ...] = get_args(Kind)


class Structure(NamedTuple):
    """A file that an index built from the vectors of a space."""

    file: str  # in the folder `indexes`
    recall: float | None  # measured when it was built; None if it was not measured
    digest: bytes | None = None  # of the file; None if an older version of Lookalike built it


class Recall(NamedTuple):
    """The fraction of the results of an exact search that a search of codes finds."""

    value: float  # 0 to 1
    rows: int  # the number of codes when it was measured


class Structures:
    """The index structures of all spaces. Methods that change something need a transaction.

    Parameters
    ----------
    folder : the folder `indexes`.
    database : the catalogue.
    unlink_after_commit : list to which this class adds files to remove after the transaction.

    """

    def __init__(self, folder: Path, database: Database, unlink_after_commit: list[Path]):
        self._folder = folder
        self._db = database
        self._unlink_after_commit = unlink_after_commit

    def get(self, space: str, kind: Kind) -> Structure | None:
        """Return the structure of a space of this kind, or None."""
        query = "SELECT file, recall, digest FROM structures WHERE space = ? AND kind = ?"
        with self._db.reading() as db:
            row = db.execute(query, [space, kind]).fetchone()
        return None if row is None else Structure(*row)

    def set(self, space: str, kind: Kind, file: str | None, recall: float | None = None) -> None:
        """Make a file in `indexes/` the structure of a space of this kind; None removes the structure."""
        before = self.get(space, kind)
        if before is not None and before.file != file:
            self._unlink_after_commit.append(self._folder / before.file)
        db = self._db.writing()
        db.execute("DELETE FROM structures WHERE space = ? AND kind = ?", [space, kind])
        if file is not None:
            insert = "INSERT INTO structures (space, kind, file, recall, digest) VALUES (?, ?, ?, ?, ?)"
            db.execute(insert, [space, kind, file, recall, digest_file(self._folder / file)])

    def recall(self, space: str) -> Recall | None:
        """Return the recall measured since the last fit of a space, or None if it was not measured."""
        with self._db.reading() as db:
            row = db.execute("SELECT recall, rows FROM recalls WHERE space = ?", [space]).fetchone()
        return None if row is None else Recall(*row)

    def set_recall(self, space: str, recall: Recall) -> None:
        """Save the measured recall of a space until its next fit."""
        self._db.writing().execute("INSERT OR REPLACE INTO recalls VALUES (?, ?, ?)", [space, *recall])

    def drop(self, space: str) -> None:
        """Remove the structures of a space and its measured recall."""
        for kind in KINDS:
            self.set(space, kind, None)
        self._db.writing().execute("DELETE FROM recalls WHERE space = ?", [space])


class DerivedValue(NamedTuple):
    """A cached value, and the version of the data it was computed from."""

    version: str
    value: Any


class Derived:
    """A cache of JSON values in the folder `derived` of the collection at `path`."""

    def __init__(self, path: Path):
        self._folder = path / FOLDER

    def read(self, *name: str) -> DerivedValue | None:
        """Return the value with this name, or None if it does not exist or is damaged."""
        return _read(self._file(name))

    def write(self, *name: str, version: str, value: Any) -> None:
        """Save a value, which replaces the previous one. Does nothing if the disk is full or read-only."""
        with suppress(OSError, StoreError):
            self._folder.mkdir(exist_ok=True)
            with atomic_write(self._file(name)) as part:
                part.write_text(json.dumps({"version": version, "value": value, "digest": _digest([version, value])}))

    def damaged(self) -> list[Path]:
        """Return the files that are damaged."""
        return [file for file in sorted(self._folder.glob("*.json")) if _read(file) is None]

    def clear(self) -> None:
        """Remove all values. They are recomputed when needed."""
        for file in self._folder.glob("*"):
            file.unlink(missing_ok=True)

    def _file(self, name: tuple[str, ...]) -> Path:
        """Return the file of a value. It is named by a digest, because a name can contain any character."""
        return self._folder / f"{_digest(name)}.json"


def _read(file: Path) -> DerivedValue | None:
    try:
        found = json.loads(file.read_bytes())
        version, value = str(found.pop("version")), found.pop("value")
        digest = _digest([version, value])
        # Files of older versions have no digest. Any other key is a damaged "digest".
        return DerivedValue(version, value) if found in ({}, {"digest": digest}) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _digest(value: Any) -> str:
    return blake2b(json.dumps(value).encode(), digest_size=12).hexdigest()
