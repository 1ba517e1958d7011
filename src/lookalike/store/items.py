"""The items of a collection, their paths and sources, and the skipped files with the reason.

An item is a picture. Its id is derived from a digest of its bytes. An item can have several paths. A path has either an
item or the reason why it was skipped.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import MAXYEAR, UTC, datetime
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from lookalike.errors import DamagedError, InputError, UnknownNameError
from lookalike.store.database import REAL, TEXT, Database, as_ids, batches, read_groups, read_ids, text, unhex
from lookalike.store.word_tables import find_items, find_words
from lookalike.types import Exif, Ids

BATCH = 500
"""Maximum number of rows per query."""

MAX_LENGTH = 4_096
"""Maximum length of a text in a filter."""

EXIF = [field.name for field in fields(Exif)]
"""The columns of the metadata of a picture."""

Digest: TypeAlias = bytes
Order: TypeAlias = Literal["path", "id", "taken", "added"]
"""By first path; by id, which is a random order; newest pictures first; last added first."""
Orientation: TypeAlias = Literal["landscape", "portrait", "square"]
CELLS_PER_DEGREE = 10
"""A place is a cell of 0.1° of latitude and longitude: 11 km from north to south."""


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
    content: Digest | None = None  # digest of the file's bytes; None if an older version of Lookalike added it
    exif: Exif | None = None  # None if an older version of Lookalike added it, until the next refresh


@dataclass(slots=True)
class Seen:
    """A known path, with its item or the reason why it was skipped."""

    size: int
    mtime_ns: int
    item: int | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that items must meet; None for no condition.

    Parameters
    ----------
    path : glob for the whole path or, unless it starts with /, for the end of a path; `*` also matches a slash.
    folder : folder or archive that contains the item, at any depth; absolute, or relative to its source.
    relative : match `path` against paths relative to their source; it and `folder` then cannot start with /.
    label : label that the item must have.
    labelled : whether the item has a label.
    suggested : class that is predicted for the item.
    since, until : POSIX seconds; the time the picture was taken or, if unknown, its earliest modification time.
    year : year of that time, in UTC.
    camera, lens : name of the camera or lens, as in `Exif`.
    place : latitude and longitude in degrees, such as "48.2,16.4"; matches pictures in the same cell of 0.1°.
    orientation : "landscape", "portrait" or "square".
    file_format : format of the file, such as "jpeg".
    min_side, max_side : length of the shorter side in pixels.
    min_bytes, max_bytes : size of the file in bytes.

    """

    path: str | None = None
    label: str | None = None
    since: float | None = None
    until: float | None = None
    min_side: int | None = None
    max_side: int | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    folder: str | None = None
    year: int | None = None
    camera: str | None = None
    lens: str | None = None
    place: str | None = None
    orientation: Orientation | None = None
    file_format: str | None = None
    labelled: bool | None = None
    suggested: str | None = None
    relative: bool = False

    def __post_init__(self) -> None:
        for name in ("path", "folder"):
            value = getattr(self, name) or ""
            if self.relative and (value.startswith("/") or "://" in value):
                raise InputError(
                    f"{name} cannot start with a slash, because paths are relative to their source. Start it with the"
                    f" name of a folder, such as Pictures/{'*' if name == 'path' else '2024'}."
                )
        if self.orientation is not None and self.orientation not in get_args(Orientation):
            raise UnknownNameError("orientation", self.orientation, get_args(Orientation))
        if self.year is not None and not 1 <= self.year <= MAXYEAR:
            raise InputError(f"year must be 1 to {MAXYEAR}. Got {self.year}.")
        if self.place is not None:
            _parse_cell(self.place)
        for name in ("path", "folder", "label", "suggested", "camera", "lens", "file_format"):
            value = getattr(self, name)
            if value is not None and not 0 < len(value) <= MAX_LENGTH:
                raise InputError(f"{name} must have 1 to {MAX_LENGTH} characters. Got {len(value)}.")
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


@dataclass(frozen=True, slots=True)
class Columns:
    """The values by which pictures are counted, as columns in the order of `ids`. Texts are codes; -1 is unknown."""

    ids: Ids  # (n,), ascending
    months: Ids  # (n,), since January 1970, in UTC; `NO_MONTH` is unknown
    codes: dict[str, tuple[list[str], Ids]]  # by the name of a condition of `Filter`: its values, and the codes (n,)

    def mask(self, items: Ids) -> npt.NDArray[np.bool_]:
        """Return which of the ids are among these items, (n,)."""
        if not len(self.ids):
            return np.zeros(0, np.bool_)
        mask = np.zeros(len(self.ids), np.bool_)
        positions = np.minimum(np.searchsorted(self.ids, items), len(self.ids) - 1)
        mask[positions[self.ids[positions] == items]] = True
        return mask


NO_MONTH = -(2**31)


class Items:
    """The items and paths of a collection. Methods that change something need a transaction."""

    def __init__(self, database: Database):
        self._db = database

    def __len__(self) -> int:
        return self._count("SELECT count(*) FROM items")

    def n_paths(self) -> int:
        """Return the number of paths that have an item."""
        return self._count("SELECT count(*) FROM paths WHERE item IS NOT NULL")

    def n_skipped(self) -> int:
        """Return the number of skipped paths."""
        return self._count("SELECT count(*) FROM paths WHERE item IS NULL")

    def ids(self) -> Ids:
        """Return the ids of all items, ascending."""
        with self._db.reading() as db:
            return read_ids(db, "SELECT id FROM items")

    def ordered(self, by: Order) -> Ids:
        """Return the ids of all items in this order; items without a path come last."""
        if by not in get_args(Order):
            raise UnknownNameError("order", by, get_args(Order))
        if by == "id":
            return self.ids()
        with self._db.reading() as db:
            ids = read_ids(db, _ORDERS[by], as_they_come=True)
            if by != "path":
                return ids
            distinct, first = np.unique(ids, return_index=True)  # the first path determines the position of an item
            everything = read_ids(db, "SELECT id FROM items")
        return np.concatenate([ids[np.sort(first)], np.setdiff1d(everything, distinct, assume_unique=True)])

    def added_since(self, at: float) -> Ids:
        """Return the items that were added at this time (POSIX seconds) or later, ascending."""
        with self._db.reading() as db:
            return read_ids(db, "SELECT id FROM items WHERE added_at >= ?", [at])

    def last_added(self) -> float:
        """Return when the last item was added, in POSIX seconds; 0 without items."""
        return float(self._db.read_value("SELECT coalesce(max(added_at), 0) FROM items"))

    def get(self, ids: Sequence[int]) -> dict[int, Item]:
        """Return the items with these ids, in the same order; unknown ids are omitted."""
        found: dict[int, Item] = {}
        for item, paths, size, width, height, kind, added, taken, content, *exif in self._db.read_rows(_ITEMS, ids):
            names = [unhex(path) for path in sorted(paths.split(","))] if paths else []
            taken_at = None if taken is None else float(taken)
            digest = bytes.fromhex(content) or None
            metadata = Exif(*exif[1:]) if exif[0] is not None else None
            found[item] = Item(item, names, size, width, height, kind, float(added), taken_at, digest, metadata)
        return {item: found[item] for item in map(int, ids) if item in found}

    def has(self, ids: Iterable[int]) -> bool:
        """Whether all of these ids are items."""
        wanted = set(as_ids(ids))
        query = "SELECT count(*) FROM items WHERE id IN (SELECT value FROM json_each(?))"
        return sum(int(self._db.read_value(query, [part])) for part in batches(wanted, BATCH)) == len(wanted)

    def existing(self, ids: Iterable[int]) -> Ids:
        """Return those of these ids that are items, ascending."""
        query = "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM items WHERE id = value)"
        found = [item for part in batches(ids, BATCH) for (item,) in self._select(query, part)]
        return np.array(sorted(found), np.int64)

    def first_paths(self, ids: Sequence[int]) -> dict[int, str]:
        """Return the first path of each of these items, in the order of paths; items without a path are omitted."""
        found: dict[int, str] = {}
        for item, path in self.paths_of(ids):
            found.setdefault(item, path)
        return found

    def paths_of(self, ids: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Yield (item, path) for each path of these items; the paths of an item are sorted."""
        for part in batches(ids, BATCH):
            with self._db.reading() as db:
                rows = db.execute(_PATHS, [part]).fetchall()
            yield from rows

    def copies(self) -> dict[int, int]:
        """Return the number of paths of each item that has several; most paths first."""
        query = "SELECT item, count(*) AS n FROM paths WHERE item IS NOT NULL GROUP BY item HAVING n > 1"
        with self._db.reading() as db:
            return dict(db.execute(f"{query} ORDER BY n DESC, item"))

    def seen(self, paths: Sequence[str]) -> dict[str, Seen]:
        """Return the stored information about each of these paths; unknown paths are omitted."""
        found: dict[str, Seen] = {}
        with self._db.reading() as db:
            for start in range(0, len(paths), BATCH):
                part = [text(path) for path in paths[start : start + BATCH]]
                marks = ", ".join(["CAST(? AS TEXT)"] * len(part))
                query = f"SELECT path, size, mtime_ns, item, reason FROM paths WHERE path IN ({marks})"
                for path, size, mtime_ns, item, reason in db.execute(query, part):
                    found[path] = Seen(size, mtime_ns, item, reason)
        return found

    def ids_by_size(self, sizes: Iterable[int], limit: int) -> dict[int, Ids]:
        """Return the ids of the items with these sizes, in bytes, by size; after `limit` ids, others are omitted."""
        found: dict[int, Ids] = {}
        with self._db.reading() as db:
            for part in batches(sizes, BATCH):
                left = limit - sum(map(len, found.values()))
                for size, ids in db.execute(_IDS_BY_SIZE, [part, left]):
                    found[size] = np.fromstring(ids, np.int64, sep=",")
        return found

    def skipped(self) -> dict[str, str]:
        """Return the reason for each skipped path, sorted by path."""
        with self._db.reading() as db:
            return dict(db.execute("SELECT path, reason FROM paths WHERE item IS NULL ORDER BY path"))

    def paths_under(self, root: str) -> Iterator[tuple[str, Seen]]:
        """Yield the known paths at or below `root`, including the members of an archive (`root::name`)."""
        yield from self.seen([root]).items()
        folder = root if root.endswith("/") else root + "/"
        for prefix in (text(folder), text(root + "::")):
            yield from self._between(prefix, _after(prefix))

    def with_path_words(self, words: Sequence[Iterable[str]], limit: int = -1) -> Ids:
        """Return at most `limit` items, ascending, that have one spelling of each of these words in their paths."""
        with self._db.reading() as db:
            return find_items(db, "path_words", words, limit)

    def path_words(self, prefix: str, limit: int) -> list[str]:
        """Return the first `limit` words in paths that start with a prefix, sorted."""
        with self._db.reading() as db:
            return find_words(db, "path_words", prefix, limit)

    def with_text_words(self, words: Sequence[Iterable[str]]) -> Ids:
        """Return the items, ascending, that have one spelling of each of these words in the text in the picture."""
        with self._db.reading() as db:
            return find_items(db, "text_words", words)

    def below(self, folder: str) -> Ids:
        """Return the items in a folder or an archive, at any depth, ascending."""
        with self._db.reading() as db:
            return np.unique(np.concatenate([read_ids(db, _ITEMS_BELOW, ends) for ends in _ranges_below(folder)]))

    def paths(self) -> list[tuple[str, int]]:
        """Return each path that has an item, with the item; sorted by path."""
        return self._select("SELECT path, item FROM paths WHERE item IS NOT NULL ORDER BY path")

    def columns(self) -> Columns:
        """Return the values by which pictures are counted, for all of them."""
        with self._db.reading() as db:
            ids = read_ids(db, "SELECT id FROM items")
            seconds = read_ids(db, _SECONDS, as_they_come=True)
            shapes = read_ids(db, f"SELECT {_SHAPE} FROM items ORDER BY id", as_they_come=True)
            codes: dict[str, tuple[list[str], Ids]] = {"orientation": (list(get_args(Orientation)), shapes)}
            for name, query in _VALUES.items():
                codes[name] = _read_codes(db, query, ids)
        known = seconds != NO_TIME
        months = np.full(len(ids), NO_MONTH)
        months[known] = seconds[known].astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
        return Columns(ids, months, codes)

    def select(self, filter: Filter) -> Ids:
        """Return the items that match a filter, ascending.

        The caller must apply `folder`, `label`, `labelled`, `suggested` and `relative`.
        """
        conditions: list[str] = []
        values: list[Any] = []
        for name, condition in _CONDITIONS.items():
            value = getattr(filter, name)
            if value is not None:
                conditions.append(condition)
                values.append(text(value) if isinstance(value, str) else value)
        if filter.year is not None:
            conditions.append(f"{_TIME} >= ? AND {_TIME} < ?")
            values += [_start_of_year(filter.year), _start_of_year(filter.year + 1)]
        if filter.place is not None:
            conditions.append(f"id IN (SELECT item FROM exif WHERE {_IN_CELL})")
            latitude, longitude = _parse_cell(filter.place)
            north = latitude / CELLS_PER_DEGREE
            values += [north - 1, north + 1, latitude, longitude]
        if filter.path is not None:
            condition, globs = _path_condition(filter.path)
            conditions.append(f"id IN (SELECT item FROM paths WHERE item IS NOT NULL AND ({condition}))")
            values += globs
        with self._db.reading() as db:
            return read_ids(db, f"SELECT id FROM items WHERE {' AND '.join(conditions or ['1'])}", values)

    def sources(self) -> list[str]:
        """Return the sources in the order in which they were added."""
        with self._db.reading() as db:
            return [spec for (spec,) in db.execute("SELECT spec FROM sources ORDER BY rowid")]

    def add_source(self, spec: str) -> None:
        """Store a source for later refreshes."""
        self._db.writing().execute("INSERT OR IGNORE INTO sources VALUES (CAST(? AS TEXT))", [text(spec)])

    def remove_source(self, spec: str) -> None:
        """Remove a source."""
        self._db.writing().execute("DELETE FROM sources WHERE spec = CAST(? AS TEXT)", [text(spec)])

    def home(self) -> str | None:
        """Return the directory of the collection when it was last written, or None if it was not recorded."""
        with self._db.reading() as db:
            found: str | None = db.execute("SELECT home FROM state").fetchone()[0]
            return found

    def set_home(self, home: str) -> None:
        """Record the directory of the collection and update the paths inside it, such as those of uploads."""
        before, db = self.home(), self._db.writing()
        db.execute("UPDATE state SET home = CAST(? AS TEXT)", [text(home)])
        if before is None:
            return
        inside = [path for path, _ in self.paths_under(before)]
        sources = [spec for spec in self.sources() if spec == before or spec.startswith(f"{before}/")]
        for table, column, known in (("paths", "path", inside), ("sources", "spec", sources)):
            for old in known:
                new = text(home + old[len(before) :])
                # UPDATE OR REPLACE would not run the triggers for removed rows.
                db.execute(f"DELETE FROM {table} WHERE {column} = CAST(? AS TEXT)", [new])
                update = f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE {column} = CAST(? AS TEXT)"
                db.execute(update, [new, text(old)])

    def add(self, items: Sequence[Item]) -> None:
        """Add items; existing ones are not changed. `link` adds their paths."""
        rows = [(i.id, i.bytes, i.width, i.height, i.format, i.added_at, i.taken_at, i.content) for i in items]
        insert = (
            "INSERT OR IGNORE INTO items (id, bytes, width, height, format, added_at, taken_at, content)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
        self._db.writing().executemany(insert, rows)

    def set_exif(self, exif: dict[int, Exif]) -> None:
        """Store the metadata of pictures, by item, for items that have none."""
        insert = f"INSERT OR IGNORE INTO exif (item, {', '.join(EXIF)}) VALUES (?{', ?' * len(EXIF)})"
        self._db.writing().executemany(insert, [(item, *astuple(found)) for item, found in exif.items()])

    def without_exif(self) -> Ids:
        """Return the items whose metadata was never read, ascending."""
        with self._db.reading() as db:
            return read_ids(db, "SELECT id FROM items WHERE NOT EXISTS (SELECT 1 FROM exif WHERE item = id)")

    def set_texts(self, texts: dict[int, str]) -> None:
        """Store the texts in pictures, by item, for items that have none; an empty one if a picture has no text."""
        insert = "INSERT OR IGNORE INTO texts (item, text) VALUES (?, CAST(? AS TEXT))"
        self._db.writing().executemany(insert, [(item, text(found)) for item, found in texts.items()])

    def without_text(self) -> Ids:
        """Return the items in which no text was looked for, ascending."""
        with self._db.reading() as db:
            return read_ids(db, "SELECT id FROM items WHERE NOT EXISTS (SELECT 1 FROM texts WHERE item = id)")

    def set_contents(self, contents: dict[int, Digest]) -> None:
        """Store the digests of files, by item, for items that have none."""
        update = "UPDATE items SET content = ? WHERE id = ? AND content IS NULL"
        self._db.writing().executemany(update, [(content, item) for item, content in contents.items()])

    def link(self, rows: Sequence[tuple[str, int, int, int]]) -> list[int]:
        """Add paths of items as (path, size, mtime_ns, item); return the items that lost their last path."""
        return self._save_paths([(*row, None) for row in rows])

    def skip(self, rows: Sequence[tuple[str, int, int, str]]) -> list[int]:
        """Add skipped paths as (path, size, mtime_ns, reason); return the items that lost their last path."""
        return self._save_paths([(*row[:3], None, text(row[3])) for row in rows])

    def unlink(self, paths: Sequence[str]) -> list[int]:
        """Remove paths; return the items that lost their last path."""
        items = {path: seen.item for path, seen in self.seen(paths).items()}
        # The table of words is written fastest in the order of its items.
        known = [[text(path)] for path in sorted(items, key=lambda path: items[path] or 0)]
        self._db.writing().executemany("DELETE FROM paths WHERE path = CAST(? AS TEXT)", known)
        return self._without_path(items.values())

    def only_at(self, paths: Sequence[str]) -> list[int]:
        """Return the items whose paths are all among these."""
        given = set(paths)
        items = sorted({seen.item for seen in self.seen(paths).values() if seen.item is not None})
        elsewhere = {item for item, path in self.paths_of(items) if path not in given}
        return [item for item in items if item not in elsewhere]

    def remove(self, ids: Sequence[int]) -> int:
        """Remove items and their paths; return how many were removed. The caller must remove their vectors."""
        delete = "DELETE FROM items WHERE id IN (SELECT value FROM json_each(?))"
        return sum(self._db.writing().execute(delete, [part]).rowcount for part in batches(ids, BATCH))

    def save(self, ids: Iterable[int]) -> dict[str, Any]:
        """Return the rows of these items in all tables, as values for JSON, so that `restore` can add them again."""
        with self._db.reading() as db:
            saved = {}
            for table, key in _tables_of_items(db).items():
                columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})") if name != "digest"]
                query = f"SELECT {', '.join(columns)} FROM {table} WHERE {key} IN (SELECT value FROM json_each(?))"
                rows = [row for part in batches(ids, BATCH) for row in db.execute(query, [part])]
                saved[table] = {"columns": columns, "rows": [[_to_json(value) for value in row] for row in rows]}
        return saved

    def restore(self, saved: dict[str, Any], ids: Iterable[int]) -> list[int]:
        """Add the rows of these items that `save` returned; items and paths that exist are not changed.

        Returns the items that have no path, because another item has it now.
        """
        db, wanted = self._db.writing(), set(ids)
        for table, key in _tables_of_items(db).items():
            columns, rows = saved.get(table, {"columns": [], "rows": []}).values()
            known = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
            kept = [at for at, name in enumerate(columns) if name in known]
            for row in rows:
                if row[columns.index(key)] not in wanted:
                    continue
                values = [_from_json(row[at]) for at in kept]
                marks = ["CAST(? AS TEXT)" if isinstance(row[at], str) else "?" for at in kept]
                insert = f"INSERT OR IGNORE INTO {table} ({', '.join(columns[at] for at in kept)})"
                db.execute(f"{insert} VALUES ({', '.join(marks)})", values)
        return self._without_path(wanted)

    def _save_paths(self, rows: list[tuple[Any, ...]]) -> list[int]:
        before = [seen.item for seen in self.seen([row[0] for row in rows]).values()]
        # As in `unlink`, in the order of items.
        self._db.writing().executemany(
            "INSERT INTO paths (path, size, mtime_ns, item, reason) VALUES (CAST(? AS TEXT), ?, ?, ?, CAST(? AS TEXT))"
            " ON CONFLICT DO UPDATE SET"
            " size = excluded.size, mtime_ns = excluded.mtime_ns, item = excluded.item, reason = excluded.reason",
            [(text(row[0]), *row[1:]) for row in sorted(rows, key=lambda row: row[3] or 0)],
        )
        return self._without_path(before)

    def _without_path(self, items: Iterable[int | None]) -> list[int]:
        query = "SELECT value FROM json_each(?) WHERE NOT EXISTS (SELECT 1 FROM paths WHERE item = value)"
        known = sorted({item for item in items if item is not None})
        return [item for part in batches(known, BATCH) for (item,) in self._db.writing().execute(query, [part])]

    def _between(self, low: bytes, high: bytes) -> Iterator[tuple[str, Seen]]:
        """Yield the paths in [low, high) page by page, so that the catalogue can change during the iteration."""
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

    def _select(self, query: str, *values: Any) -> list[Any]:
        with self._db.reading() as db:
            return db.execute(query, values).fetchall()

    def _count(self, query: str) -> int:
        with self._db.reading() as db:
            return int(db.execute(query).fetchone()[0])


_ITEMS = (
    "SELECT json_group_array(json_array(id, (SELECT group_concat(hex(path)) FROM paths WHERE item = id),"
    f" bytes, width, height, format, {REAL.format('added_at')},"
    f" CASE WHEN taken_at IS NOT NULL THEN {REAL.format('taken_at')} END, hex(content),"
    f" exif.item, {', '.join(EXIF)})) FROM items LEFT JOIN exif ON exif.item = id"
    " WHERE id IN (SELECT value FROM json_each(?))"
)
_PATHS = "SELECT item, path FROM paths WHERE item IN (SELECT value FROM json_each(?)) ORDER BY item, path"
_IDS_BY_SIZE = (
    "SELECT bytes, group_concat(id) FROM"
    " (SELECT bytes, id FROM items WHERE bytes IN (SELECT value FROM json_each(?)) LIMIT ?) GROUP BY bytes"
)
_TIME = "coalesce(taken_at, (SELECT min(mtime_ns) FROM paths WHERE item = id) / 1e9)"
NO_TIME = -(2**62)
# CAST rounds towards zero; months need whole seconds rounded down.
_SECONDS = (
    f"SELECT coalesce(CAST(t AS INTEGER) - (t < CAST(t AS INTEGER)), {NO_TIME})"
    f" FROM (SELECT {_TIME} AS t FROM items ORDER BY id)"
)
_SHAPE = "CASE WHEN width > height THEN 0 WHEN width < height THEN 1 ELSE 2 END"
"""SQL for the position of a picture's orientation in `Orientation`."""
# CAST of a positive number rounds down.
_LATITUDE_CELL = f"CAST((latitude + 90) * {CELLS_PER_DEGREE} + 0.5 AS INTEGER) - {90 * CELLS_PER_DEGREE}"
_LONGITUDE_CELL = f"CAST((longitude + 180) * {CELLS_PER_DEGREE} + 0.5 AS INTEGER) - {180 * CELLS_PER_DEGREE}"
_IN_CELL = f"latitude BETWEEN ? AND ? AND {_LATITUDE_CELL} = ? AND {_LONGITUDE_CELL} = ?"
"""With the range, SQLite reads only a part of the index of places."""
_VALUES = {
    "camera": "SELECT camera AS value, item FROM exif WHERE camera IS NOT NULL",
    "lens": "SELECT lens AS value, item FROM exif WHERE lens IS NOT NULL",
    "place": f"SELECT printf('%.1f,%.1f', ({_LATITUDE_CELL}) / {CELLS_PER_DEGREE}.0,"
    f" ({_LONGITUDE_CELL}) / {CELLS_PER_DEGREE}.0) AS value, item FROM exif WHERE latitude IS NOT NULL",
    "file_format": "SELECT format AS value, id AS item FROM items",
}
"""Queries for the values that pictures are counted by, with their items."""
_ITEMS_BELOW = f"SELECT DISTINCT item AS id FROM paths WHERE item IS NOT NULL AND path >= {TEXT} AND path < {TEXT}"
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
    "camera": f"id IN (SELECT item FROM exif WHERE camera = {TEXT})",
    "lens": f"id IN (SELECT item FROM exif WHERE lens = {TEXT})",
    "orientation": f"CASE {TEXT} WHEN 'landscape' THEN 0 WHEN 'portrait' THEN 1 ELSE 2 END = {_SHAPE}",
    "file_format": f"format = {TEXT}",
}


def _tables_of_items(db: sqlite3.Connection) -> dict[str, str]:
    """Return the tables with rows of items, `items` first, and the column of each that has the item's id."""
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    keys = {
        table: key
        for table in tables
        for _, _, parent, key, *_ in db.execute(f"PRAGMA foreign_key_list({table})")
        if parent == "items"
    }
    return {"items": "id"} | keys


def _to_json(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    return text(value) if isinstance(value, str) else value


def _start_of_year(year: int) -> float:
    """Return POSIX seconds."""
    return datetime(year, 1, 1, tzinfo=UTC).timestamp() if year <= MAXYEAR else float("inf")


def _parse_cell(place: str) -> tuple[int, int]:
    """Return the cell of a place, as numbers of cells north and east of 0,0.

    >>> _parse_cell("48.208,16.373"), _parse_cell("-33.9,18.4")
    ((482, 164), (-339, 184))
    """
    try:
        latitude, longitude = map(float, place.split(","))
    except ValueError:
        latitude = longitude = float("nan")
    if not (abs(latitude) <= 90 and abs(longitude) <= 180):
        raise InputError(f"place must be latitude,longitude in degrees, such as 48.2,16.4. Got {place!r:.80}.")
    north, east = ((latitude + 90) * CELLS_PER_DEGREE + 0.5, (longitude + 180) * CELLS_PER_DEGREE + 0.5)
    return int(north) - 90 * CELLS_PER_DEGREE, int(east) - 180 * CELLS_PER_DEGREE


def _read_codes(db: sqlite3.Connection, query: str, ids: Ids) -> tuple[list[str], Ids]:
    """Return the distinct values of a query, and for each item the code of its value; -1 if it has none."""
    values: list[str] = []
    codes = np.full(len(ids), -1)
    for value, items in read_groups(db, query):
        codes[np.searchsorted(ids, items)] = len(values)
        values.append(value)
    return values, codes


def _ranges_below(folder: str) -> list[tuple[bytes, bytes]]:
    """Return the ranges of the paths in a folder and in an archive of this name."""
    prefixes = [text(folder.rstrip("/") + "/"), text(folder + "::")]
    return [(prefix, _after(prefix)) for prefix in prefixes]


def _path_condition(pattern: str) -> tuple[str, list[bytes]]:
    """Return the SQL for a glob of a whole path or of its end. A name with brackets also matches itself."""
    glob = pattern.replace("[!", "[^")  # the shell's [!a] is [^a] in SQLite
    globs = [glob, pattern.replace("[", "[[]")] if "[" in pattern else [glob]
    if not pattern.startswith("/"):
        globs = [begin + glob for begin in ("", "*/", "*::") for glob in globs]
    condition = " OR ".join(["path GLOB CAST(? AS TEXT)"] * len(globs))
    values = [text(glob) for glob in globs]
    if pattern.startswith("/"):
        # With the literal prefix, SQLite reads only a part of the index of paths.
        prefix = text(re.split(r"[*?[]", pattern, maxsplit=1)[0])
        condition = f"path >= CAST(? AS TEXT) AND path < CAST(? AS TEXT) AND ({condition})"
        values = [prefix, _after(prefix), *values]
    return condition, values


def _after(prefix: bytes) -> bytes:
    """Return the smallest string greater than all strings that start with `prefix`."""
    prefix = prefix.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1])
