"""RAW files of cameras: recognize them by their bytes, and read the preview that the camera stored in them.

Reading needs the package `rawpy` (LibRaw). A file without a large preview is decoded at half its size.
"""

import importlib
import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from PIL.JpegImagePlugin import JpegImageFile

from lookalike.errors import ImageError, MissingError
from lookalike.types import Pixels

MIN_PREVIEW = 640
"""Minimum length of the longer side of a preview that is used, in pixels. Many files also have a tiny one."""

_SIGNATURES = re.compile(
    rb"II\*\0.{4}CR|.{4}ftypcrx |FUJIFILMCCD-RAW|II(?:RO|RS|U\0)|MMOR|FOVb|\0MRM|II.{4}HEAPCCDR", re.DOTALL
)
_TIFF = (b"II*\0", b"MM\0*")
_PHOTOMETRIC, _SUB_IFDS, _DNG_VERSION = 262, 330, 50706
_SENSOR_VALUES = (32803, 34892)
"""The photometric interpretations "colour filter array" and "linear raw"."""
_SHORT, _LONGS = 3, (4, 13)
_MAX_IFDS = 16

_ORIENTATIONS = {3: 3, 5: 8, 6: 6}
"""The EXIF orientation of each rotation of LibRaw; 0 is upright."""


@dataclass(frozen=True, slots=True)
class RawPreview:
    """The preview of a RAW file, or, if it has none that is large enough, its pixels at half their size."""

    jpeg: bytes | None
    pixels: Pixels | None  # (h, w, 3) uint8 RGB
    orientation: int  # EXIF orientation that turns the preview upright
    width: int
    height: int  # of the full, upright picture
    taken_at: float | None


def is_raw(data: bytes) -> bool:
    """Whether these are the bytes of a RAW file. Many are TIFF files that also contain small ordinary pictures."""
    return _SIGNATURES.match(data) is not None or (
        data[:4] in _TIFF
        and any(tag == _DNG_VERSION or (tag == _PHOTOMETRIC and value in _SENSOR_VALUES) for tag, value in _tags(data))
    )


def read_preview(data: bytes, max_pixels: int) -> RawPreview:
    """Return the preview of a RAW file. Raises ImageError, or an error of LibRaw."""
    try:
        rawpy: Any = importlib.import_module("rawpy")
    except ImportError:
        message = "it is a RAW picture; to read it, install: pip install 'lookalike[raw]'"
        raise ImageError(message) from MissingError("rawpy")
    with rawpy.imread(io.BytesIO(data)) as raw:
        sizes = raw.sizes
        width, height = int(sizes.width), int(sizes.height)
        if width * height > max_pixels:
            raise ImageError(f"it has more than {max_pixels} pixels")
        orientation = _ORIENTATIONS.get(sizes.flip, 1)
        full = (height, width) if orientation >= 5 else (width, height)
        moment: datetime | None = getattr(getattr(raw, "other", None), "timestamp", None)
        taken_at = moment.replace(tzinfo=UTC).timestamp() if moment is not None and moment.year > 1970 else None
        try:
            thumb = raw.extract_thumb()
        except (rawpy.LibRawNoThumbnailError, rawpy.LibRawUnsupportedThumbnailError):
            thumb = None
        if thumb is not None and thumb.format == rawpy.ThumbFormat.JPEG and _long_side(thumb.data) >= MIN_PREVIEW:
            return RawPreview(thumb.data, None, orientation, *full, taken_at)
        if thumb is not None and thumb.format == rawpy.ThumbFormat.BITMAP and max(thumb.data.shape) >= MIN_PREVIEW:
            return RawPreview(None, thumb.data, orientation, *full, taken_at)
        pixels = raw.postprocess(half_size=True, use_camera_wb=True, output_bps=8)  # (h, w, 3), upright
        return RawPreview(None, pixels, 1, *full, taken_at)


def _long_side(jpeg: bytes) -> int:
    try:
        return max(JpegImageFile(io.BytesIO(jpeg), "").size)
    except (OSError, SyntaxError, ValueError):  # it is damaged: decode the sensor's data
        return 0


def _tags(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the tag and the first value of each entry in the directories of a TIFF file that have whole numbers."""
    order = "<" if data[:1] == b"I" else ">"
    try:
        offsets, seen = [struct.unpack_from(order + "I", data, 4)[0]], set[int]()
        while offsets and len(seen) < _MAX_IFDS:
            offset = offsets.pop(0)
            if offset == 0 or offset in seen:
                continue
            seen.add(offset)
            (n,) = struct.unpack_from(order + "H", data, offset)
            for entry in range(offset + 2, offset + 2 + 12 * n, 12):
                tag, kind, count = struct.unpack_from(order + "HHI", data, entry)
                (value,) = struct.unpack_from(order + ("H" if kind == _SHORT else "I"), data, entry + 8)
                if tag == _SUB_IFDS and kind in _LONGS:
                    count = min(count, _MAX_IFDS)
                    offsets += struct.unpack_from(f"{order}{count}I", data, entry + 8 if count == 1 else value)
                yield tag, value
            offsets += struct.unpack_from(order + "I", data, offset + 2 + 12 * n)
    except struct.error:  # it is truncated; the decoder reports that
        return
