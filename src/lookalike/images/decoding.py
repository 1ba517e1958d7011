"""Decode picture files of any format, colour mode and orientation to upright RGB pixels.

`read` returns a `Picture` with (height, width, 3) uint8 RGB pixels, the full size, the format and the time. If it
cannot, it raises an `ImageError` whose message is a clause such as "it is empty", which callers put into a sentence.
`identify` computes the id of an item from a digest of the file's bytes.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageChops, ImageCms, ImageFile

from lookalike.errors import ImageError, MissingError
from lookalike.images.exif import parse_exif
from lookalike.images.files import LIMITS, Limits, read_bytes
from lookalike.images.raw import RawPreview, is_raw, read_preview
from lookalike.types import NO_EXIF, Exif, Pixels

for _plugin in ("Avif", "Bmp", "Gif", "Jpeg", "Png", "Tiff", "WebP"):
    importlib.import_module(f"PIL.{_plugin}ImagePlugin")  # each registers itself in Image.OPEN
with contextlib.suppress(ImportError):
    importlib.import_module("pillow_heif").register_heif_opener()

_FORMATS = re.compile(
    rb"(?P<JPEG>\xff\xd8\xff)|(?P<PNG>\x89PNG\r\n\x1a\n)|(?P<GIF>GIF8[79]a)|(?P<WEBP>RIFF.{4}WEBP)"
    rb"|(?P<TIFF>II[*+]\0|MM\0[*+])|(?P<BMP>BM)|(?P<AVIF>.{4}ftyp.{0,48}?avi[fs])|(?P<HEIF>.{4}ftyp(hei|hev|mif1|msf1))",
    re.DOTALL,
)
"""Signatures of the supported formats. Other files must not reach a decoder: Pillow's EPS plugin runs a program."""

RAW = "RAW"
"""The format of RAW files, which `lookalike.images.raw` reads; all others are names of Pillow's plugins."""

_OTHER_FORMATS = {
    b"%PDF": "a PDF",
    b"%!PS": "PostScript",
    b"\x7fELF": "a program",
    b"PK": "a zip archive",
    b"\x1f\x8b": "a gzip file",
    b"<": "HTML, SVG or XML",
}

_VAGUE_ERRORS = ("not identified by this driver", "cannot load this image")
"""Messages of Pillow that give no reason."""

_UPRIGHT: dict[int, Callable[[Pixels], Pixels]] = {
    2: lambda pixels: pixels[:, ::-1],
    3: lambda pixels: pixels[::-1, ::-1],
    4: lambda pixels: pixels[::-1],
    5: lambda pixels: pixels.transpose(1, 0, 2),
    6: lambda pixels: pixels[::-1].transpose(1, 0, 2),
    7: lambda pixels: pixels[::-1, ::-1].transpose(1, 0, 2),
    8: lambda pixels: pixels[:, ::-1].transpose(1, 0, 2),
}
"""The operation that turns pixels of each EXIF orientation upright."""

_ROTATED_HERE = ("JPEG", "PNG", "WEBP")
"""Formats whose orientation we apply. Pillow rotates TIFFs; the AVIF and HEIC decoders use the container's rotation."""

_TIFF_PLACES = ((273, 279), (324, 325))
"""TIFF tags of the offsets and lengths of strips and of tiles."""
_BITS, _PHOTOMETRIC = 258, 262
"""TIFF tags: bits per sample, and the photometric interpretation, which is 0 if white is zero."""

BAND_PIXELS = 2**20
"""Number of pixels converted to RGB at a time, so that memory does not hold three copies of a large picture."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A decoded picture. `width` and `height` are those of the full, upright picture; `pixels` can be smaller."""

    pixels: Pixels  # (h, w, 3) uint8 RGB
    width: int
    height: int
    format: str  # "jpeg", "png", …, "raw"
    taken_at: float | None  # POSIX seconds, from EXIF; a time without a time zone is read as UTC
    exif: Exif = NO_EXIF


def digest_content(data: bytes) -> bytes:
    """Return the first 32 bytes of the BLAKE2b digest of a file's bytes."""
    return hashlib.blake2b(data).digest()[:32]


def content_id(content: bytes) -> int:
    """Return the item id of a file with this digest: the first 63 bits, so it is never negative."""
    return int.from_bytes(content[:8], "big") >> 1


def identify(data: bytes) -> int:
    """Return the item id of a file.

    >>> identify(b"")
    4338375446535122049
    """
    return content_id(digest_content(data))


def read(source: str | Path | bytes, *, side: int | None = None, limits: Limits = LIMITS) -> Picture:
    """Decode the picture in a file, or in the bytes of a file.

    The orientation is applied, transparency becomes white, 16 bits become 8, and an animation gives its first frame.
    With `side`, a JPEG can be decoded at 1/2, 1/4 or 1/8 of its size, as long as both sides have at least that many
    pixels. Raises ImageError if the file is not a complete picture within the limits.
    """
    data = source if isinstance(source, bytes) else read_bytes(source, limits)
    limits.check_bytes(len(data))
    name = _detect_format(data)
    try:
        with _PILLOW.configured(limits):
            return _decode(name, data, side, limits)
    except ImageError:
        raise
    except MemoryError as error:
        raise ImageError("it needs more memory than is available") from error
    except Image.DecompressionBombError:
        raise ImageError(f"it has more than {limits.max_pixels} pixels") from None
    except Exception as error:  # noqa: BLE001 — hostile bytes make decoders raise any error
        reason = error.args[0] if error.args else ""
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(error)  # LibRaw's are bytes
        text = " ".join(text.split())[:120] or type(error).__name__
        if "truncated" in text.lower():
            raise ImageError("it is truncated") from None
        if text in _VAGUE_ERRORS:
            text = "it contains no picture"
        raise ImageError(f"it is a damaged {name} file ({text})") from None


class _PillowSettings:
    """Settings of Pillow, which are global: set while any thread reads, and restored afterwards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self._readers = 0

    @contextlib.contextmanager
    def configured(self, limits: Limits) -> Iterator[None]:
        with self._lock:
            if self._readers == 0:
                self._stack.callback(setattr, Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)
                self._stack.callback(setattr, ImageFile, "LOAD_TRUNCATED_IMAGES", ImageFile.LOAD_TRUNCATED_IMAGES)
                self._stack.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", module=r"PIL\.|pillow_heif")
            self._readers += 1
            Image.MAX_IMAGE_PIXELS = (limits.max_pixels + 1) // 2  # Pillow raises an error above twice this number
            ImageFile.LOAD_TRUNCATED_IMAGES = False
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
                if self._readers == 0:
                    self._stack.close()


_PILLOW = _PillowSettings()
_STDERR = threading.Lock()


def _detect_format(data: bytes) -> str:
    """Return the name of Pillow's plugin for these bytes, or RAW. Raises ImageError if they are not a picture."""
    if not data:
        raise ImageError("it is empty")
    if is_raw(data):
        return RAW
    if match := _FORMATS.match(data):
        name = str(match.lastgroup)
        if name not in Image.OPEN:
            message = "it is a HEIC picture; to read it, install: pip install 'lookalike[heic]'"
            raise ImageError(message) from MissingError("pillow-heif")
        return name
    head = data[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    kind = next((kind for start, kind in _OTHER_FORMATS.items() if head.startswith(start)), None)
    if kind is None and head.isascii() and b"\0" not in head:
        kind = "text"
    raise ImageError("it is not in a supported image format" if kind is None else f"it is {kind}, not an image")


def _decode(name: str, data: bytes, side: int | None, limits: Limits) -> Picture:
    if name == RAW:
        return replace(_decode_raw(read_preview(data, limits.max_pixels), side, limits), exif=read_exif(data))
    _check_end(_declared_end(name, data), data)
    # Call the plugin directly: Image.open hides the reason of an error, and the size of a picture that is too large.
    image = Image.OPEN[name][0](io.BytesIO(data), "")
    width, height = image.size
    limits.check_pixels(width, height)
    if width < 1 or height < 1:
        raise ImageError("it has no pixels")
    _check_end(_pixels_end(image), data)
    if side is not None and name == "JPEG":
        image.draft(None, (side, side))
    if name == "TIFF":
        metadata = parse_exif(_tags(image))  # loading closes the file
        with _silent_stderr():
            image.load()
    else:
        image.load()
        metadata = parse_exif(_tags(image))  # in a PNG, it can be after the pixels
    orientation, taken_at, exif = metadata
    pixels = to_rgb(image)  # (h, w, 3)
    if name in _ROTATED_HERE and orientation in _UPRIGHT:
        pixels = np.ascontiguousarray(_UPRIGHT[orientation](pixels))
        if orientation >= 5:
            width, height = height, width
    return Picture(pixels, width, height, "heic" if name == "HEIF" else name.lower(), taken_at, exif)


def read_exif(data: bytes) -> Exif:
    """Return the metadata of a picture from the bytes of its file, without decoding the pixels.

    It is empty if the file is not a picture. Metadata after the pixels of a PNG is not found.
    """
    try:
        name = _detect_format(data)
        name = "TIFF" if name == RAW else name  # most RAW files are TIFF files
        with _PILLOW.configured(LIMITS), _silent_stderr() if name == "TIFF" else contextlib.nullcontext():
            image = Image.OPEN[name][0](io.BytesIO(data), "")
            return parse_exif(Image.Image.getexif(image))[2]  # a PNG's own method decodes the pixels
    except Exception:  # noqa: BLE001 — as in read: hostile bytes
        return NO_EXIF


def _tags(image: Image.Image) -> Any:
    """Return the metadata of an image in Pillow's form; empty if it is damaged."""
    with contextlib.suppress(Exception):  # as in read: hostile bytes
        return image.getexif()
    return Image.Exif()


def _decode_raw(preview: RawPreview, side: int | None, limits: Limits) -> Picture:
    """Return the picture of a RAW file. The preview has no orientation of its own, or its own is right."""
    width, height, pixels, orientation = preview.width, preview.height, preview.pixels, preview.orientation
    if preview.jpeg is not None:
        decoded = _decode("JPEG", preview.jpeg, side, limits)
        pixels = decoded.pixels
        if parse_exif(_tags(Image.OPEN["JPEG"][0](io.BytesIO(preview.jpeg), "")))[0] in _UPRIGHT:
            orientation = 1
    assert pixels is not None, "a preview has either a JPEG or pixels"
    is_rotated = (pixels.shape[1] < pixels.shape[0]) == (width < height)  # before it was stored
    if orientation in _UPRIGHT and not (orientation >= 5 and width != height and is_rotated):
        pixels = np.ascontiguousarray(_UPRIGHT[orientation](pixels))
    return Picture(pixels, width, height, "raw", preview.taken_at)


def _check_end(needed: int, data: bytes) -> None:
    """Raise ImageError if a file is shorter than it declares."""
    if needed > len(data):
        raise ImageError(f"it is truncated ({len(data)} of at least {needed} bytes)")


def _declared_end(name: str, data: bytes) -> int:
    """Return the end that the file's header declares: the end of a WebP, the start of a TIFF's directory."""
    if name == "WEBP":
        return 8 + int.from_bytes(data[4:8], "little")
    if name == "TIFF" and data[2:4] in (b"*\0", b"\0*"):
        return 2 + int.from_bytes(data[4:8], "little" if data[:1] == b"I" else "big")
    return 0


def _pixels_end(image: Image.Image) -> int:
    """Return the end of the last strip or tile of a TIFF. libtiff would fill missing ones with grey."""
    tags = getattr(image, "tag_v2", {})
    places = [zip(tags.get(offsets, ()), tags.get(counts, ()), strict=False) for offsets, counts in _TIFF_PLACES]
    return max((start + count for place in places for start, count in place), default=0)


def to_rgb(image: Image.Image) -> Pixels:
    """Return the pixels of a decoded image of any mode as a new (h, w, 3) uint8 RGB array."""
    if image.mode == "CMYK" and image.format in ("JPEG", "MPO") and "adobe" not in image.info:
        image = ImageChops.invert(image)  # Pillow assumes that all CMYK JPEGs are inverted, as Adobe writes them
    range_ = _value_range(image) if image.mode[0] in "IF" else None
    width, height = image.size
    rows = max(1, BAND_PIXELS // width)
    pixels = np.empty((height, width, 3), np.uint8)
    for top in range(0, height, rows):
        band = image if rows >= height else image.crop((0, top, width, min(height, top + rows)))
        pixels[top : top + rows] = np.asarray(_convert(band)) if range_ is None else _stretch(band, *range_)
    return pixels


def _convert(image: Image.Image) -> Image.Image:
    """Convert an image of 1 or 8 bits per sample to RGB, with transparent pixels on white."""
    if image.mode == "LAB":
        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB")
        assert converted is not None
        return converted
    if image.mode == "La":
        image = image.convert("LA")
    if image.mode[-1] in "Aa" or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image.getchannel("A"))
        return white
    return image if image.mode == "RGB" else image.convert("RGB")


def _value_range(image: Image.Image) -> tuple[float, float]:
    """Return the values of black and white in a grey image of more than 8 bits."""
    tags = getattr(image, "tag_v2", {})
    if image.mode.startswith("I;16"):
        low, high = 0.0, 2.0 ** tags.get(_BITS, (16,))[0] - 1
    else:  # 32-bit integers and floats declare no range, so use the range of the picture's values
        values = np.asarray(image)
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return (high, low) if tags.get(_PHOTOMETRIC) == 0 else (low, high)


def _stretch(image: Image.Image, black: float, white: float) -> Pixels:
    grey = (np.asarray(image, np.float64) - black) * (255 / ((white - black) or 1))  # (h, w)
    rounded: Pixels = np.clip(np.nan_to_num(np.rint(grey)), 0, 255).astype(np.uint8)
    return rounded[:, :, None]  # (h, w, 1)


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discard standard error inside the block. libtiff writes warnings there and has no option to prevent it."""
    with _STDERR, contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # standard error may be closed
            saved = os.dup(2)
            stack.callback(os.close, saved)
            stack.callback(os.dup2, saved, 2)
            null = os.open(os.devnull, os.O_WRONLY)
            stack.callback(os.close, null)
            os.dup2(null, 2)
        yield
