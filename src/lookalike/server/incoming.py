"""Pictures that clients send to be added for good: written under COLLECTION/uploads, a source like any other.

In: names as clients gave them, and bytes. Out: files that are on the disk, all of a request or none. A name is ours:
the picture's id, then what is harmless of the client's; so nobody chooses a path, and a file sent twice is one file.
"""

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lookalike.atomic_files import atomic_write, remove_unfinished, write_errors
from lookalike.errors import ImageError
from lookalike.images.decoding import identify
from lookalike.images.sources import SUFFIXES
from lookalike.types import format_id

FOLDER = "uploads"
AWAY = ".removed"
"""Where files are whose pictures were taken out: nothing that people sent is ever deleted."""
MAX_NAME = 60
"""Characters that are kept of a client's name."""

_KINDS = re.compile(
    rb"(?P<jpg>\xff\xd8\xff)|(?P<png>\x89PNG\r\n\x1a\n)|(?P<gif>GIF8[79]a)|(?P<webp>RIFF.{4}WEBP)"
    rb"|(?P<tif>II[*+]\0|MM\0[*+])|(?P<bmp>BM)|(?P<avif>.{4}ftyp.{0,48}?avi[fs])|(?P<heic>.{4}ftyp(hei|hev|mif1|msf1))",
    re.DOTALL,
)
"""How picture files begin. Whether one is a picture is found out by the guarded process that reads it."""


class Incoming(NamedTuple):
    """A file that was written."""

    name: str  # as the client called it, made harmless
    bytes: int
    item: int  # the id that it will have
    path: Path | None = None  # None where the same file was there already


_WRITING = threading.Lock()
"""One request at a time: what another has written is not taken back under our feet."""


def keep(collection: Path, files: Sequence[tuple[str, bytes]]) -> list[Incoming]:
    """Write files (name, bytes), to be added by the next job; they are on the disk when this returns, or none is."""
    checked = [_check(name, data) for name, data in files]
    folder = collection / FOLDER
    kept: list[Incoming] = []
    with _WRITING:
        with write_errors(folder):
            folder.mkdir(exist_ok=True)
            remove_unfinished(folder)
        try:
            for one, (_, data) in zip(checked, files, strict=True):
                target = None
                if next(folder.glob(f"{format_id(one.item)}-*"), None) is None:  # what has this name is whole
                    target = folder / f"{format_id(one.item)}-{one.name}"
                    with atomic_write(target) as part:
                        part.write_bytes(data)
                kept.append(one._replace(path=target))
        except BaseException:
            take_back(kept)
            raise
    return kept


def take_back(kept: Sequence[Incoming]) -> None:
    """Remove what was written, since nobody will add it."""
    for one in kept:
        if one.path is not None:
            one.path.unlink(missing_ok=True)


def put_away(collection: Path, paths: Sequence[str]) -> None:
    """Of these files, hide those that were sent: their pictures were taken out, and the next upload adds the folder."""
    folder = collection / FOLDER
    for file in map(Path, paths):
        if file.parent == folder and file.exists():
            with write_errors(folder):
                (folder / AWAY).mkdir(exist_ok=True)
                file.rename(folder / AWAY / file.name)


def _check(name: str, data: bytes) -> Incoming:
    kind, shown = _KINDS.match(data), harmless(name)
    if kind is None:
        raise ImageError(
            f"{shown} is no picture: send JPEG, PNG, WebP, GIF, TIFF, BMP, AVIF or HEIC. Nothing of this request was"
            " kept: leave that file out, and send the others again."
        )
    if Path(shown).suffix.lower() not in SUFFIXES:
        shown = f"{shown}.{kind.lastgroup}"
    return Incoming(shown, len(data), identify(data))


def harmless(name: str) -> str:
    r"""What may stay of a name: letters, digits and a few signs of its last part.

    >>> harmless("../../etc/passwd\0.jpg"), harmless(r"C:\\me\\Beach 1.JPG"), harmless("…")
    ('passwd_.jpg', 'Beach_1.JPG', 'picture')
    """
    last = re.split(r"[/\\]", name)[-1]
    clean = re.sub(r"[^A-Za-z0-9.-]+", "_", last).strip("._-")
    stem, dot, suffix = clean.rpartition(".")
    kept = f"{stem[: MAX_NAME - len(suffix) - 1]}{dot}{suffix}" if dot and len(suffix) < 8 else clean[:MAX_NAME]
    return kept or "picture"
