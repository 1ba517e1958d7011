"""Selections of pictures: their ids, stored for an hour, and their files as a zip that is written while it is sent.

A browser can download a file of any size only from a URL, which is too short for thousands of ids. So the page stores
the ids first, and downloads from the URL of the selection.
"""

import secrets
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

import numpy as np
from cachetools import TTLCache

from lookalike.types import Ids

CACHED_IDS = 1_000_000
CACHED_S = 3_600.0

MAX_ZIPPED = 10_000
"""Maximum number of pictures in a zip. Its directory, about 1 kB per picture, is kept in memory until the end."""
MISSING = "missing-files.txt"
EARLIEST, LATEST = datetime(1980, 1, 1, tzinfo=UTC), datetime(2107, 12, 31, tzinfo=UTC)  # of the format


class Selections:
    """The selections, cached under random ids. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: TTLCache[str, Ids] = TTLCache(CACHED_IDS, CACHED_S, getsizeof=len)

    def add(self, ids: Iterable[int]) -> tuple[str, int]:
        """Store a selection; return its id and its size. Repeated ids count once."""
        distinct = np.array(list(dict.fromkeys(ids)), np.int64)
        name = secrets.token_urlsafe(16)
        with self._lock:
            self._cached[name] = distinct
        return name, len(distinct)

    def get(self, name: str) -> list[int] | None:
        """Return the ids of a selection; None if it is unknown or has expired."""
        with self._lock:
            found = self._cached.get(name)
        return None if found is None else found.tolist()


class _Parts:
    """A file that `zipfile` writes to, and that is emptied after every picture."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: all data are in memory."""

    def close(self) -> None:
        """Do nothing: all data are in memory."""

    def take(self) -> list[bytes]:
        taken, self._parts = self._parts, []
        return taken


def zip_parts(
    names: Sequence[str], taken: Sequence[float | None], load: Callable[[int], bytes | str], texts: dict[str, str]
) -> Iterator[list[bytes]]:
    """Yield a zip of files, piece by piece. Only one file at a time is in memory.

    `load` returns the bytes of the file at a position, or the reason why it is missing. After these files, the zip has
    a file for each text that is not empty, by name, and a list of the missing files. Pictures are not compressed,
    because their formats are.
    """
    target = _Parts()
    missing: list[str] = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for place, (name, at) in enumerate(zip(names, taken, strict=True)):
            data = load(place)
            if isinstance(data, str):
                missing.append(f"{name}: {data}")
                continue
            archive.writestr(zipfile.ZipInfo(name, _date(at)), data)
            del data
            yield target.take()
        if missing:
            texts = texts | {MISSING: "\n".join(missing) + "\n"}
        for name, text in texts.items():
            if text:
                archive.writestr(zipfile.ZipInfo(name, _date(None)), text)
    yield target.take()


def _date(seconds: float | None) -> tuple[int, int, int, int, int, int]:
    """Return a time in the form of `zipfile`, in UTC; unknown times are the earliest one of the format."""
    at = EARLIEST
    if seconds is not None and EARLIEST.timestamp() <= seconds <= LATEST.timestamp():
        at = datetime.fromtimestamp(seconds, UTC)
    return at.year, at.month, at.day, at.hour, at.minute, at.second
