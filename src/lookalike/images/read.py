"""A picture file in, upright RGB pixels out.

In: a path, or the file's bytes. Out: `Picture`, with (height, width, 3) uint8 RGB pixels, the full size, the format and
the time it was taken. Anything else is an `ImageError` whose message is the reason, short enough for a report.
"""

import contextlib
import hashlib
import importlib
import io
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from PIL import Image, ImageFile

from lookalike.errors import ImageError, MissingError
from lookalike.images.files import LIMITS as LIMITS
from lookalike.images.files import Limits as Limits
from lookalike.images.files import read_bytes
from lookalike.images.pixels import to_rgb
from lookalike.types import Pixels

for _plugin in ("Avif", "Bmp", "Gif", "Jpeg", "Png", "Tiff", "WebP"):
    importlib.import_module(f"PIL.{_plugin}ImagePlugin")  # each enters itself in Image.OPEN
with contextlib.suppress(ImportError):
    importlib.import_module("pillow_heif").register_heif_opener()

_FORMATS = re.compile(
    rb"(?P<JPEG>\xff\xd8\xff)|(?P<PNG>\x89PNG\r\n\x1a\n)|(?P<GIF>GIF8[79]a)|(?P<WEBP>RIFF.{4}WEBP)"
    rb"|(?P<TIFF>II[*+]\0|MM\0[*+])|(?P<BMP>BM)|(?P<AVIF>.{4}ftyp.{0,48}?avi[fs])|(?P<HEIF>.{4}ftyp(hei|hev|mif1|msf1))",
    re.DOTALL,
)
"""Content decides, never the file's name; what is not here never reaches a decoder (Pillow's EPS calls a program)."""

_STRANGERS = {
    b"%PDF": "a PDF",
    b"%!PS": "PostScript",
    b"\x7fELF": "a program",
    b"PK": "a zip archive",
    b"\x1f\x8b": "gzip",
    b"<": "HTML, SVG or XML",
}

_SAYS_NOTHING = ("not identified by this driver", "cannot load this image")
"""What Pillow says where it does not say why."""

_UPRIGHT: dict[int, Callable[[Pixels], Pixels]] = {
    2: lambda pixels: pixels[:, ::-1],
    3: lambda pixels: pixels[::-1, ::-1],
    4: lambda pixels: pixels[::-1],
    5: lambda pixels: pixels.transpose(1, 0, 2),
    6: lambda pixels: pixels[::-1].transpose(1, 0, 2),
    7: lambda pixels: pixels[::-1, ::-1].transpose(1, 0, 2),
    8: lambda pixels: pixels[:, ::-1].transpose(1, 0, 2),
}
"""EXIF orientation → what undoes it."""

_TURNED_BY_US = ("JPEG", "PNG", "WEBP")
"""Pillow turns a TIFF itself; AVIF and HEIC decoders turn what their container tells them to, whatever EXIF says."""

_ORIENTATION, _DATE, _EXIF_IFD, _TAKEN, _TAKEN_OFFSET = 0x0112, 0x0132, 0x8769, 0x9003, 0x9011
_TIFF_PLACES = ((273, 279), (324, 325))
"""Tags of the strips' and the tiles' offsets and lengths."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What was read. `width` and `height` are those of the full, upright picture; `pixels` may be smaller."""

    pixels: Pixels  # (h, w, 3) uint8 RGB
    width: int
    height: int
    format: str  # "jpeg", "png", …
    taken_at: float | None  # POSIX seconds, from EXIF; a time without a zone counts as UTC


def digest_content(data: bytes) -> bytes:
    """Return the first 32 bytes of the BLAKE2b digest of a file's bytes."""
    return hashlib.blake2b(data).digest()[:32]


def content_id(content: bytes) -> int:
    """Return the item id of a file with this digest: its first 63 bits, never negative."""
    return int.from_bytes(content[:8], "big") >> 1


def identify(data: bytes) -> int:
    """Return the item id of a file.

    >>> identify(b"")
    4338375446535122049
    """
    return content_id(digest_content(data))


def read(source: str | Path | bytes, *, side: int | None = None, limits: Limits = LIMITS) -> Picture:
    """The picture in a file, or in the bytes of one.

    Orientation is applied, transparency becomes white, 16 bits become 8, of an animation the first frame is taken.
    `side` permits a decoder to work at reduced size (JPEG: 1/2, 1/4, 1/8), with neither side of the result below it.
    Raises ImageError for everything that is not a complete picture within the limits.
    """
    data = source if isinstance(source, bytes) else read_bytes(source, limits)
    limits.check_bytes(len(data))
    name = _sniff(data)
    try:
        with _GUARD.hold(limits):
            return _decode(name, data, side, limits)
    except ImageError:
        raise
    except MemoryError as error:
        raise ImageError("too large for the memory there is") from error
    except Image.DecompressionBombError:
        raise ImageError(f"more than {limits.max_pixels} pixels") from None
    except Exception as error:  # noqa: BLE001 — hostile bytes make decoders raise anything at all
        text = " ".join(str(error).split())[:120] or type(error).__name__
        if "truncated" in text.lower():
            raise ImageError("truncated: the file ends before the picture does") from None
        if text in _SAYS_NOTHING:
            text = "there is no picture in it"
        raise ImageError(f"damaged {name} file: {text}") from None


class _Guard:
    """Pillow's warnings and limits belong to the whole process; they are ours while any thread reads, then put back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self._readers = 0

    @contextlib.contextmanager
    def hold(self, limits: Limits) -> Iterator[None]:
        with self._lock:
            if self._readers == 0:
                self._stack.callback(setattr, Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)
                self._stack.callback(setattr, ImageFile, "LOAD_TRUNCATED_IMAGES", ImageFile.LOAD_TRUNCATED_IMAGES)
                self._stack.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", module=r"PIL\.|pillow_heif")
            self._readers += 1
            Image.MAX_IMAGE_PIXELS = (limits.max_pixels + 1) // 2  # Pillow raises beyond twice this
            ImageFile.LOAD_TRUNCATED_IMAGES = False
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
                if self._readers == 0:
                    self._stack.close()


_GUARD = _Guard()
_STDERR = threading.Lock()


def _sniff(data: bytes) -> str:
    """The name of Pillow's plugin for these bytes."""
    if not data:
        raise ImageError("empty file")
    if match := _FORMATS.match(data):
        name = str(match.lastgroup)
        if name not in Image.OPEN:
            raise ImageError("a HEIC picture: install pillow-heif to read it") from MissingError("pillow-heif")
        return name
    head = data[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    kind = next((kind for start, kind in _STRANGERS.items() if head.startswith(start)), None)
    if kind is None:
        kind = "text" if head.isascii() and b"\0" not in head else "unknown content"
    raise ImageError(f"not a picture ({kind})")


def _decode(name: str, data: bytes, side: int | None, limits: Limits) -> Picture:
    _check_end(_declared_end(name, data), data)
    # The plugin directly, because Image.open hides the reason of a failure and the size of what is too large.
    image = Image.OPEN[name][0](io.BytesIO(data), "")
    width, height = image.size
    limits.check_pixels(width, height)
    if width < 1 or height < 1:
        raise ImageError("a picture without pixels")
    _check_end(_pixels_end(image), data)
    if side is not None and name == "JPEG":
        image.draft(None, (side, side))
    with _hush() if name == "TIFF" else contextlib.nullcontext():
        image.load()
    orientation, taken_at = _read_exif(image)
    pixels = to_rgb(image)  # (h, w, 3)
    if name in _TURNED_BY_US and orientation in _UPRIGHT:
        pixels = np.ascontiguousarray(_UPRIGHT[orientation](pixels))
        if orientation >= 5:
            width, height = height, width
    return Picture(pixels, width, height, "heic" if name == "HEIF" else name.lower(), taken_at)


def _check_end(needed: int, data: bytes) -> None:
    """Refuse a file that is shorter than what it says of itself."""
    if needed > len(data):
        raise ImageError(f"truncated: {len(data)} of at least {needed} bytes")


def _declared_end(name: str, data: bytes) -> int:
    """Where the file's header says that something lies: the end of a WebP, the directory of a TIFF."""
    if name == "WEBP":
        return 8 + int.from_bytes(data[4:8], "little")
    if name == "TIFF" and data[2:4] in (b"*\0", b"\0*"):
        return 2 + int.from_bytes(data[4:8], "little" if data[:1] == b"I" else "big")
    return 0


def _pixels_end(image: Image.Image) -> int:
    """Where the last strip or tile of a TIFF ends: libtiff would fill those that are missing with grey."""
    tags = getattr(image, "tag_v2", {})
    places = [zip(tags.get(offsets, ()), tags.get(counts, ()), strict=False) for offsets, counts in _TIFF_PLACES]
    return max((start + count for place in places for start, count in place), default=0)


def _read_exif(image: Image.Image) -> tuple[int, float | None]:
    """Orientation and time; broken metadata does not make a picture unreadable."""
    orientation, moment, offset = 1, "", ""
    with contextlib.suppress(Exception):  # as in read: hostile bytes
        exif = image.getexif()
        orientation = int(exif.get(_ORIENTATION, 1))
        details = exif.get_ifd(_EXIF_IFD)
        moment = str(details.get(_TAKEN) or exif.get(_DATE) or "").strip(" \0")
        offset = str(details.get(_TAKEN_OFFSET) or "").strip(" \0")
    for zone in (offset, "+00:00") if moment else ():
        with contextlib.suppress(ValueError, OverflowError):
            return orientation, datetime.strptime(f"{moment} {zone}", "%Y:%m:%d %H:%M:%S %z").timestamp()
    return orientation, None


@contextlib.contextmanager
def _hush() -> Iterator[None]:
    """Standard error goes nowhere meanwhile: libtiff writes its complaints there, and nothing else stops it."""
    with _STDERR, contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # standard error may be closed: nothing to hush
            saved = os.dup(2)
            stack.callback(os.close, saved)
            stack.callback(os.dup2, saved, 2)
            null = os.open(os.devnull, os.O_WRONLY)
            stack.callback(os.close, null)
            os.dup2(null, 2)
        yield
