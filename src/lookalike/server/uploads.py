"""Pictures that clients upload: to search with (`Uploads`), or to add (`save_files`).

Separate processes with limits on memory and time decode uploads, and return pixels in the size that a search needs.
The pixels are saved in COLLECTION/.search-uploads (`UploadFolder`), so that links to a search work after a restart. The
uploaded file, with its metadata, is not saved.

Files to add are written to COLLECTION/uploads, a source like any other. Their names start with the id of the picture,
so clients cannot choose a path, and a file that is sent twice is stored once.
"""

import os
import queue
import re
import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from cachetools import LRUCache

from lookalike.atomic_files import atomic_write, remove_unfinished, write_errors
from lookalike.collection import SUFFIXES, Entry, Limits, ReadPool, identify
from lookalike.errors import ImageError, LookalikeError, ReadOnlyError
from lookalike.server.settings import Budget
from lookalike.server.thumbnails import scale
from lookalike.types import Pixels, format_id

SIDE = 1_024
"""The shorter side of a cached upload, in pixels. It is large enough to search with parts of the picture."""
MAX_SIDE = 8 * SIDE

SEARCHED = ".search-uploads"
"""Folder for pictures to search with. It is hidden, so that they are not added if the collection is inside a source."""
FOLDER = "uploads"
REMOVED = ".removed"
"""Folder for the files of removed pictures, because uploaded files are never deleted."""
MAX_NAME = 60
"""Maximum length of the client's part of a file name."""

_SIGNATURES = re.compile(
    rb"(?P<jpg>\xff\xd8\xff)|(?P<png>\x89PNG\r\n\x1a\n)|(?P<gif>GIF8[79]a)|(?P<webp>RIFF.{4}WEBP)"
    rb"|(?P<tif>II[*+]\0|MM\0[*+])|(?P<bmp>BM)|(?P<avif>.{4}ftyp.{0,48}?avi[fs])|(?P<heic>.{4}ftyp(hei|hev|mif1|msf1))",
    re.DOTALL,
)
"""The first bytes of image formats. Other damage is only found when the job decodes the file."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A picture to search with."""

    id: str
    item: int  # the id that it would have in the collection
    width: int
    height: int
    pixels: Pixels = field(repr=False)  # (h, w, 3) uint8 RGB


class UploadFolder:
    """Pictures to search with, on disk. When there are too many, the least recently used ones are deleted.

    The name of a file contains all data of an upload except its pixels, and its modification time is the time of its
    last use.
    """

    _name = re.compile(r"(?P<id>[\w-]{22})-(?P<item>[0-7][0-9a-f]{15})-(?P<width>\d+)x(?P<height>\d+)\.png", re.ASCII)

    def __init__(self, path: Path, max_bytes: int, max_files: int):
        self._path = path
        self._max_bytes, self._max_files = max_bytes, max_files
        self._lock = threading.Lock()  # held while an upload is saved

    def save(self, upload: Upload) -> None:
        """Save an upload, unless it is larger than the limit."""
        done, encoded = cv2.imencode(".png", upload.pixels[:, :, ::-1])
        if not done:
            raise LookalikeError("Encoding a picture as PNG failed.")
        data = encoded.tobytes()
        if len(data) > self._max_bytes:
            return
        with self._lock, write_errors(self._path):
            self._path.mkdir(exist_ok=True)
            remove_unfinished(self._path)
            self._make_room(len(data))
            with atomic_write(self._file(upload)) as part:
                part.write_bytes(data)
        self.touch(upload)

    def load(self, id: str) -> Upload | None:
        """Return an upload; None if it is unknown or was deleted."""
        for file, match in self._files():
            if match["id"] == id:
                with suppress(OSError, cv2.error):  # deleted in the meantime, or damaged
                    bgr = cv2.imdecode(np.frombuffer(file.read_bytes(), np.uint8), cv2.IMREAD_COLOR)
                    if bgr is not None:
                        pixels = np.ascontiguousarray(bgr[:, :, ::-1], np.uint8)
                        return Upload(id, int(match["item"], 16), int(match["width"]), int(match["height"]), pixels)
        return None

    def touch(self, upload: Upload) -> None:
        """Record that an upload is used."""
        now = time.time_ns()
        with suppress(OSError):  # it was not saved, or the disk is read-only
            os.utime(self._file(upload), ns=(now, now))

    def _make_room(self, n_bytes: int) -> None:
        found = [(file.stat(), file) for file, _ in self._files()]
        found.sort(key=lambda pair: pair[0].st_mtime_ns)
        total = sum(stat.st_size for stat, _ in found) + n_bytes
        for count, (stat, file) in zip(range(len(found), 0, -1), found, strict=True):
            if total <= self._max_bytes and count < self._max_files:
                break
            file.unlink(missing_ok=True)
            total -= stat.st_size

    def _files(self) -> list[tuple[Path, re.Match[str]]]:
        with suppress(FileNotFoundError):
            return [(file, match) for file in self._path.iterdir() if (match := self._name.fullmatch(file.name))]
        return []

    def _file(self, upload: Upload) -> Path:
        return self._path / f"{upload.id}-{format_id(upload.item)}-{upload.width}x{upload.height}.png"


class Uploads:
    """The pictures to search with, under random ids, and the processes that decode them.

    They are saved in a folder of the collection, and the last used ones are cached in memory. If the collection is
    read-only, they are only in memory.
    """

    def __init__(self, collection: Path, budget: Budget):
        self._lock = threading.Lock()  # protects `_cached`
        self._cached: LRUCache[str, Upload] = LRUCache(
            budget.upload_cache_bytes, getsizeof=lambda upload: upload.pixels.nbytes
        )
        self._folder = UploadFolder(collection / SEARCHED, budget.saved_upload_bytes, budget.saved_uploads)
        self._closed = False
        self._idle: queue.LifoQueue[ReadPool] = queue.LifoQueue()
        limits = Limits(budget.upload_bytes, budget.upload_pixels)
        self._pools = [
            ReadPool(reduce, side=SIDE, workers=1, timeout_s=budget.upload_s, limits=limits)
            for _ in range(budget.decoders)
        ]
        for pool in self._pools:
            self._idle.put(pool)

    def __len__(self) -> int:
        with self._lock:
            return len(self._cached)

    def add(self, data: bytes) -> Upload:
        """Decode a picture and save it. Raises ImageError with the reason if it cannot be decoded."""
        pool = self._idle.get()  # a pool is used by one thread at a time
        try:
            outcome = pool.read("the upload", data)
        except ImageError as error:
            raise ImageError(f"Can't read this file: {error}.") from None
        finally:
            self._idle.put(pool)
        made = Upload(secrets.token_urlsafe(16), outcome.id, outcome.width, outcome.height, outcome.parts)
        with suppress(ReadOnlyError):  # then the upload is only in memory
            self._folder.save(made)
        self._cache(made)
        return made

    def warm(self) -> None:
        """Start the processes, so that the first upload does not wait for them."""
        for pool in self._pools:
            if not self._closed:
                list(pool.map([Entry("nothing", 0, 0, data=b"")]))

    def get(self, id: str) -> Upload | None:
        """Return an upload; None if it is unknown or was deleted."""
        with self._lock:
            found = self._cached.get(id)
        if found is None:
            found = self._folder.load(id)
            if found is None:
                return None
            self._cache(found)
        self._folder.touch(found)
        return found

    def close(self) -> None:
        """End the processes."""
        self._closed = True
        for pool in self._pools:
            pool.close()

    def _cache(self, upload: Upload) -> None:
        with self._lock, suppress(ValueError):  # raised for an upload that is larger than the cache
            self._cached[upload.id] = upload


def reduce(pixels: Pixels) -> Pixels:
    """Downscale a picture to the cached size. This runs in the decoding process."""
    height, width = pixels.shape[:2]
    return scale(pixels, min(SIDE / min(height, width), MAX_SIDE / max(height, width)))


class SavedFile(NamedTuple):
    """A saved file to add."""

    name: str  # the client's file name, sanitised
    bytes: int
    item: int  # the id that it will have
    path: Path | None = None  # None if the same file was saved before


_saving = threading.Lock()
"""Held while a request saves files, so that another request does not delete a file that this one relies on."""


def save_files(collection: Path, files: Sequence[tuple[str, bytes]]) -> list[SavedFile]:
    """Save files (name, bytes) for a job to add. If one of them cannot be saved, none is."""
    checked = [_check(name, data) for name, data in files]
    folder = collection / FOLDER
    saved: list[SavedFile] = []
    with _saving:
        with write_errors(folder):
            folder.mkdir(exist_ok=True)
            remove_unfinished(folder)
        try:
            for one, (_, data) in zip(checked, files, strict=True):
                target = None
                if next(folder.glob(f"{format_id(one.item)}-*"), None) is None:
                    target = folder / f"{format_id(one.item)}-{one.name}"
                    with atomic_write(target) as part:
                        part.write_bytes(data)
                saved.append(one._replace(path=target))
        except BaseException:
            delete_files(saved)
            raise
    return saved


def delete_files(saved: Sequence[SavedFile]) -> None:
    """Delete files that no job will add."""
    for one in saved:
        if one.path is not None:
            one.path.unlink(missing_ok=True)


def hide_removed(collection: Path, paths: Sequence[str]) -> None:
    """Move those of these files that were uploaded out of the upload folder, so that the next job does not add them."""
    folder = collection / FOLDER
    for file in map(Path, paths):
        if file.parent == folder and file.exists():
            with write_errors(folder):
                (folder / REMOVED).mkdir(exist_ok=True)
                file.rename(folder / REMOVED / file.name)


def show_removed(collection: Path, paths: Sequence[str]) -> None:
    """Move files that `hide_removed` has moved back to these paths."""
    folder = collection / FOLDER
    for file in map(Path, paths):
        hidden = folder / REMOVED / file.name
        if file.parent == folder and hidden.exists() and not file.exists():
            with write_errors(folder):
                hidden.rename(file)


def _check(name: str, data: bytes) -> SavedFile:
    signature, safe = _SIGNATURES.match(data), safe_name(name)
    if signature is None:
        raise ImageError(
            f"{safe} is not an image. Allowed formats are JPEG, PNG, WebP, GIF, TIFF, BMP, AVIF and HEIC. None of the"
            " files in this request were saved. Send them again without it."
        )
    if Path(safe).suffix.lower() not in SUFFIXES:
        safe = f"{safe}.{signature.lastgroup}"
    return SavedFile(safe, len(data), identify(data))


def safe_name(name: str) -> str:
    r"""Return the last part of a client's file name, reduced to letters, digits, dots and hyphens.

    >>> safe_name("../../etc/passwd\0.jpg"), safe_name(r"C:\\me\\Beach 1.JPG"), safe_name("…")
    ('passwd_.jpg', 'Beach_1.JPG', 'picture')
    """
    last = re.split(r"[/\\]", name)[-1]
    clean = re.sub(r"[^A-Za-z0-9.-]+", "_", last).strip("._-")
    stem, dot, suffix = clean.rpartition(".")
    short = f"{stem[: MAX_NAME - len(suffix) - 1]}{dot}{suffix}" if dot and len(suffix) < 8 else clean[:MAX_NAME]
    return short or "picture"
