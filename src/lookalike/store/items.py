"""The catalogue: which pictures there are, where they were seen, and which files were skipped and why.

In: items (id = content digest), paths with size and time of change. Out: the same, looked up, filtered, streamed.
One item may have several paths; a path leads to one item, or to the reason it was skipped.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from lookalike.errors import DamagedError, InputError, UnknownNameError
from lookalike.store.database import REAL, Database, as_ids, batches, read_ids, unhex
from lookalike.store.schema import text
from lookalike.types import Ids

BATCH = 500
"""Rows asked for at a time."""

MAX_GLOB = 4_096
"""Characters a path filter may have."""

Digest: TypeAlias = bytes
Order: TypeAlias = Literal["path", "id", "taken", "added"]
"""By first path; by id, which is as good as by lot; the newest picture first; the last added first."""


@dataclass(slots=True)
class Item:
    """A picture. `paths` are sorted."""

    id: int
    paths: list[str]
    bytes: int
    width: int
    height: int
    format: str
    added_at: float
    taken_at: float | None
    content: Digest | None = None  # digest of the file's bytes; None if an older Lookalike added the picture


@dataclass(slots=True)
class Seen:
    """What is remembered of a path: the item it leads to, or the reason it was skipped."""

    size: int
    mtime_ns: int
    item: int | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which items to look at; None leaves a condition out.

    Parameters
    ----------
    path : glob of the whole path, or (unless it begins with /) of any last part of it; `*` also matches a slash.
    relative : whether `path` is matched against paths relative to their source; it cannot begin with / then.
    label : a label the item must have.
    since, until : POSIX seconds; when the picture was taken, or where unknown the earliest change of its files.
    min_side, max_side : pixels of the shorter side.
    min_bytes, max_bytes : size of the file.

    """

    path: str | None = None
    label: str | None = None
    since: float | None = None
    until: float | None = None
    min_side: int | None = None
    max_side: int | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    relative: bool = False

    def __post_init__(self) -> None:
        if self.relative and self.path is not None and self.path.startswith("/"):
            raise InputError(
                "path must not begin with a slash, since paths are relative to their source. Begin it with the name of"
                " a folder, such as Pictures/*."
            )
        for name in ("path", "label"):
            value = getattr(self, name)
            if value is not None and not 0 < len(value) <= MAX_GLOB:
                raise InputError(f"{name} must have 1 to {MAX_GLOB} characters. Got {len(value)}.")
        for low, high in (("since", "until"), ("min_side", "max_side"), ("min_bytes", "max_bytes")):
            for name in (low, high):
                value = getattr(self, name)
                if value is not None and not abs(value) < 2**63:
                    raise InputError(f"{name} must be a number below 2**63. Got {value}.")
                if value is not None and value < 0 and low != "since":
                    raise InputError(f"{name} must be at least 0. Got {value}.")
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                raise InputError(f"{low} must not exceed {high}. Got {least} and {most}.")


class Items:
    """The items and paths of a collection. `add`, `link`, `skip`, `unlink`, `remove` run inside a transaction."""

    def __init__(self, database: Database):
        self._db = database

    def __len__(self) -> int:
        return self._count("SELECT count(*) FROM items")

    def n_paths(self) -> int:
        """Paths that lead to an item."""
        return self._count("SELECT count(*) FROM paths WHERE item IS NOT NULL")

    def ids(self) -> Ids:
        """Every item, ascending."""
        with self._db.reading() as db:
            return read_ids(db, "SELECT id FROM items")

    def ordered(self, by: Order) -> Ids:
        """Every item in this order; those without a path come last."""
        if by not in get_args(Order):
            raise UnknownNameError("order", by, get_args(Order))
        if by == "id":
            return self.ids()
        with self._db.reading() as db:
            ids = read_ids(db, _ORDERS[by], as_they_come=True)
            if by != "path":
                return ids
            distinct, first = np.unique(ids, return_index=True)  # an item comes where its first path does
            everything = read_ids(db, "SELECT id FROM items")
        return np.concatenate([ids[np.sort(first)], np.setdiff1d(everything, distinct, assume_unique=True)])

    def added_since(self, at: float) -> Ids:
        """The items that were added at this time (POSIX seconds) or later, ascending."""
        with self._db.reading() as db:
            return read_ids(db, "SELECT id FROM items WHERE added_at >= ?", [at])

    def get(self, ids: Sequence[int]) -> dict[int, Item]:
        """Those of the ids that are items, in the order asked."""
        found: dict[int, Item] = {}
        for item, paths, size, width, height, kind, added, taken, content in self._db.listed(_ITEMS, ids):
            names = [unhex(path) for path in sorted(paths.split(","))] if paths else []
            taken_at = None if taken is None else float(taken)
            digest = bytes.fromhex(content) or None
            found[item] = Item(item, names, size, width, height, kind, float(added), taken_at, digest)
        return {item: found[item] for item in map(int, ids) if item in found}

    def has(self, ids: Iterable[int]) -> bool:
        """Whether all of these are items."""
        wanted = set(as_ids(ids))
        query = "SELECT count(*) FROM items WHERE id IN (SELECT value FROM json_each(?))"
        return sum(int(self._db.one(query, [part])) for part in batches(wanted, BATCH)) == len(wanted)

    def first_paths(self, ids: Sequence[int]) -> dict[int, str]:
        """The first path, in their order, of each item that has one."""
        found: dict[int, str] = {}
        for item, path in self.paths_of(ids):
            found.setdefault(item, path)
        return found

    def paths_of(self, ids: Sequence[int]) -> Iterator[tuple[int, str]]:
        """The paths of these items, each with its item; those of one item sorted."""
        for part in batches(ids, BATCH):
            with self._db.reading() as db:
                rows = db.execute(_PATHS, [part]).fetchall()
            yield from rows

    def copies(self) -> dict[int, int]:
        """The items at more than one path, with how many they are; most paths first."""
        query = "SELECT item, count(*) AS n FROM paths WHERE item IS NOT NULL GROUP BY item HAVING n > 1"
        with self._db.reading() as db:
            return dict(db.execute(f"{query} ORDER BY n DESC, item"))

    def seen(self, paths: Sequence[str]) -> dict[str, Seen]:
        """What is remembered of each of these paths; unknown ones are left out."""
        found: dict[str, Seen] = {}
        with self._db.reading() as db:
            for start in range(0, len(paths), BATCH):
                part = [text(path) for path in paths[start : start + BATCH]]
                marks = ", ".join(["CAST(? AS TEXT)"] * len(part))
                query = f"SELECT path, size, mtime_ns, item, reason FROM paths WHERE path IN ({marks})"
                for path, size, mtime_ns, item, reason in db.execute(query, part):
                    found[path] = Seen(size, mtime_ns, item, reason)
        return found

    def known_sizes(self, sizes: Iterable[int]) -> set[int]:
        """Those of the sizes, in bytes, that some item has."""
        with self._db.reading() as db:
            query = "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM items WHERE bytes = value)"
            return {size for part in batches(sizes, BATCH) for (size,) in db.execute(query, [part])}

    def skipped(self) -> dict[str, str]:
        """Path → why it was skipped, sorted by path."""
        with self._db.reading() as db:
            return dict(db.execute("SELECT path, reason FROM paths WHERE item IS NULL ORDER BY path"))

    def paths_under(self, root: str) -> Iterator[tuple[str, Seen]]:
        """What is remembered of a path, of everything below it, and of an archive's members (`root::name`)."""
        yield from self.seen([root]).items()
        folder = root if root.endswith("/") else root + "/"
        for prefix in (text(folder), text(root + "::")):
            yield from self._between(prefix, _after(prefix))

    def select(self, filter: Filter) -> Ids:
        """The items that pass, ascending. The caller applies `label`, which is a judgement, and `relative`."""
        conditions: list[str] = []
        values: list[Any] = []
        for name, condition in _CONDITIONS.items():
            value = getattr(filter, name)
            if value is not None:
                conditions.append(condition)
                values.append(value)
        if filter.path is not None:
            condition, globs = _path_condition(filter.path)
            conditions.append(f"id IN (SELECT item FROM paths WHERE item IS NOT NULL AND ({condition}))")
            values += globs
        with self._db.reading() as db:
            return read_ids(db, f"SELECT id FROM items WHERE {' AND '.join(conditions or ['1'])}", values)

    def sources(self) -> list[str]:
        """What was added, in the order it was."""
        with self._db.reading() as db:
            return [spec for (spec,) in db.execute("SELECT spec FROM sources ORDER BY rowid")]

    def add_source(self, spec: str) -> None:
        """Remember what was added, for a refresh."""
        self._db.writing().execute("INSERT OR IGNORE INTO sources VALUES (CAST(? AS TEXT))", [text(spec)])

    def remove_source(self, spec: str) -> None:
        """Forget what was added."""
        self._db.writing().execute("DELETE FROM sources WHERE spec = CAST(? AS TEXT)", [text(spec)])

    def home(self) -> str | None:
        """Where the collection was when it was last written; None where nobody wrote it down yet."""
        with self._db.reading() as db:
            found: str | None = db.execute("SELECT home FROM state").fetchone()[0]
            return found

    def move(self, home: str) -> None:
        """Write down where the collection is now: what lies inside of it, such as pictures sent to it, came along."""
        before, db = self.home(), self._db.writing()
        db.execute("UPDATE state SET home = CAST(? AS TEXT)", [text(home)])
        if before is None:
            return
        inside = [path for path, _ in self.paths_under(before)]
        sources = [spec for spec in self.sources() if spec == before or spec.startswith(f"{before}/")]
        for table, column, known in (("paths", "path", inside), ("sources", "spec", sources)):
            update = f"UPDATE OR REPLACE {table} SET {column} = CAST(? AS TEXT) WHERE {column} = CAST(? AS TEXT)"
            db.executemany(update, [(text(home + path[len(before) :]), text(path)) for path in known])

    def add(self, items: Sequence[Item]) -> None:
        """New items; those already there stay as they are. Their paths are added by `link`."""
        rows = [(i.id, i.bytes, i.width, i.height, i.format, i.added_at, i.taken_at, i.content) for i in items]
        insert = (
            "INSERT OR IGNORE INTO items (id, bytes, width, height, format, added_at, taken_at, content)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
        self._db.writing().executemany(insert, rows)

    def set_contents(self, contents: dict[int, Digest]) -> None:
        """Store the digests of files, by item, for items that have none."""
        update = "UPDATE items SET content = ? WHERE id = ? AND content IS NULL"
        self._db.writing().executemany(update, [(content, item) for item, content in contents.items()])

    def link(self, rows: Sequence[tuple[str, int, int, int]]) -> list[int]:
        """Paths that lead to items: (path, size, mtime_ns, item). Returns the items that lost their last path so."""
        return self._remember([(*row, None) for row in rows])

    def skip(self, rows: Sequence[tuple[str, int, int, str]]) -> list[int]:
        """Paths not to read again: (path, size, mtime_ns, reason). Returns the items that lost their last path so."""
        return self._remember([(*row[:3], None, text(row[3])) for row in rows])

    def unlink(self, paths: Sequence[str]) -> list[int]:
        """Forget paths; returns the items that lost their last path so."""
        before = [seen.item for seen in self.seen(paths).values()]
        self._db.writing().executemany("DELETE FROM paths WHERE path = CAST(? AS TEXT)", [[text(p)] for p in paths])
        return self._pathless(before)

    def remove(self, ids: Sequence[int]) -> int:
        """Forget items and their paths; returns how many were there. Their vectors are buried by the caller."""
        delete = "DELETE FROM items WHERE id IN (SELECT value FROM json_each(?))"
        return sum(self._db.writing().execute(delete, [part]).rowcount for part in batches(ids, BATCH))

    def _remember(self, rows: list[tuple[Any, ...]]) -> list[int]:
        before = [seen.item for seen in self.seen([row[0] for row in rows]).values()]
        self._db.writing().executemany(
            "INSERT INTO paths (path, size, mtime_ns, item, reason) VALUES (CAST(? AS TEXT), ?, ?, ?, CAST(? AS TEXT))"
            " ON CONFLICT DO UPDATE SET"
            " size = excluded.size, mtime_ns = excluded.mtime_ns, item = excluded.item, reason = excluded.reason",
            [(text(row[0]), *row[1:]) for row in rows],
        )
        return self._pathless(before)

    def _pathless(self, items: Iterable[int | None]) -> list[int]:
        query = "SELECT value FROM json_each(?) WHERE NOT EXISTS (SELECT 1 FROM paths WHERE item = value)"
        known = sorted({item for item in items if item is not None})
        return [item for part in batches(known, BATCH) for (item,) in self._db.writing().execute(query, [part])]

    def _between(self, low: bytes, high: bytes) -> Iterator[tuple[str, Seen]]:
        """Paths in [low, high), a page at a time, so that the catalogue may change while somebody iterates."""
        query = (
            "SELECT path, size, mtime_ns, item, reason FROM paths"
            " WHERE path {} CAST(? AS TEXT) AND path < CAST(? AS TEXT) ORDER BY path LIMIT ?"
        )
        comparison = ">="
        while True:
            with self._db.reading() as db:
                rows = db.execute(query.format(comparison), [low, high, BATCH]).fetchall()
            for row in rows:
                yield row[0], Seen(*row[1:])
            if len(rows) < BATCH:
                return
            last = text(rows[-1][0])
            if last <= low:  # with a damaged index, this loop might not end
                raise DamagedError("The index of paths in the catalogue is damaged. Run: lookalike repair")
            low, comparison = last, ">"

    def _count(self, query: str) -> int:
        with self._db.reading() as db:
            return int(db.execute(query).fetchone()[0])


_ITEMS = (
    "SELECT json_group_array(json_array(id, (SELECT group_concat(hex(path)) FROM paths WHERE item = id),"
    f" bytes, width, height, format, {REAL.format('added_at')},"
    f" CASE WHEN taken_at IS NOT NULL THEN {REAL.format('taken_at')} END, hex(content))) FROM items"
    " WHERE id IN (SELECT value FROM json_each(?))"
)
_PATHS = "SELECT item, path FROM paths WHERE item IN (SELECT value FROM json_each(?)) ORDER BY item, path"
_TIME = "coalesce(taken_at, (SELECT min(mtime_ns) FROM paths WHERE item = id) / 1e9)"
_ORDERS: dict[Order, str] = {
    "path": "SELECT item FROM paths WHERE item IS NOT NULL ORDER BY path",
    "taken": f"SELECT id FROM items ORDER BY {_TIME} DESC, id",
    "added": "SELECT id FROM items ORDER BY added_at DESC, id",
}
_CONDITIONS = {
    "since": f"{_TIME} >= ?",
    "until": f"{_TIME} <= ?",
    "min_side": "min(width, height) >= ?",
    "max_side": "min(width, height) <= ?",
    "min_bytes": "bytes >= ?",
    "max_bytes": "bytes <= ?",
}


def _path_condition(pattern: str) -> tuple[str, list[bytes]]:
    """SQL for a glob of the whole path or of its last part; a name with brackets in it also matches itself."""
    glob = pattern.replace("[!", "[^")  # SQLite's way to write the shell's
    globs = [glob, pattern.replace("[", "[[]")] if "[" in pattern else [glob]
    if not pattern.startswith("/"):
        globs = [begin + glob for begin in ("", "*/", "*::") for glob in globs]
    condition = " OR ".join(["path GLOB CAST(? AS TEXT)"] * len(globs))
    values = [text(glob) for glob in globs]
    if pattern.startswith("/"):
        # The literal beginning lets SQLite go straight to that part of the catalogue.
        prefix = text(re.split(r"[*?[]", pattern, maxsplit=1)[0])
        condition = f"path >= CAST(? AS TEXT) AND path < CAST(? AS TEXT) AND ({condition})"
        values = [prefix, _after(prefix), *values]
    return condition, values


def _after(prefix: bytes) -> bytes:
    """The least string above all that begin with `prefix`."""
    prefix = prefix.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1])
