"""What was worked out and can be worked out again: groups of duplicates, maps.

In: a name, what it was made from, and a JSON value. Out: the value, and whether it is of today. Losing one of these
files costs time and nothing else, so one that cannot be written, or read back, is no error.
"""

import json
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from lookalike.errors import StoreError
from lookalike.store.whole import whole

FOLDER = "derived"


class DerivedValue(NamedTuple):
    """A value that was kept, and the version of what it was made from."""

    version: str
    value: Any


class Derived:
    """The folder `derived` of the collection at `path`."""

    def __init__(self, path: Path):
        self._folder = path / FOLDER

    def read(self, *name: str) -> DerivedValue | None:
        """What is kept under this name; None where nothing is, or it is damaged."""
        return _read(self._file(name))

    def write(self, *name: str, version: str, value: Any) -> None:
        """Keep a value, in the place of the one before; whole or not at all."""
        with suppress(OSError, StoreError):  # a full or read-only disk: it is made again the next time
            self._folder.mkdir(exist_ok=True)
            with whole(self._file(name)) as part:
                part.write_text(json.dumps({"version": version, "value": value, "digest": _digest([version, value])}))

    def damaged(self) -> list[Path]:
        """Return the files that are damaged."""
        return [file for file in sorted(self._folder.glob("*.json")) if _read(file) is None]

    def clear(self) -> None:
        """Remove all values; they are computed again when they are needed."""
        for file in self._folder.glob("*"):
            file.unlink(missing_ok=True)

    def _file(self, name: tuple[str, ...]) -> Path:
        """Names may hold anything, a file's name may not."""
        return self._folder / f"{_digest(name)}.json"


def _read(file: Path) -> DerivedValue | None:
    try:
        found = json.loads(file.read_bytes())
        version, value = str(found["version"]), found["value"]
        digest = _digest([version, value])
        return DerivedValue(version, value) if found.get("digest", digest) == digest else None  # old files have none
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _digest(value: Any) -> str:
    return blake2b(json.dumps(value).encode(), digest_size=12).hexdigest()
