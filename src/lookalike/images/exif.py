"""Read the metadata that a camera writes: time, camera, lens, exposure, position.

All values come from the file and can be hostile, so each one is checked and shortened, and invalid ones are left out.
"""

import contextlib
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from lookalike.types import MAX_EXIF_TEXT, Exif

_MAKE, _MODEL, _ORIENTATION, _DATE = 0x010F, 0x0110, 0x0112, 0x0132
_EXIF_IFD, _GPS_IFD = 0x8769, 0x8825
_EXPOSURE, _APERTURE, _ISO, _TAKEN, _TAKEN_OFFSET = 0x829A, 0x829D, 0x8827, 0x9003, 0x9011
_FOCAL_LENGTH, _LENS = 0x920A, 0xA434
_LATITUDE_REF, _LATITUDE, _LONGITUDE_REF, _LONGITUDE = 1, 2, 3, 4

_MOST = {"exposure_s": 86_400.0, "aperture": 1_000.0, "iso": 10_000_000.0, "focal_length_mm": 100_000.0}
"""Largest plausible values."""


def parse_exif(tags: Any) -> tuple[int, float | None, Exif]:
    """Return the orientation, the time in POSIX seconds, and the other metadata of Pillow's `Image.Exif`."""
    details = _section(tags, _EXIF_IFD)
    gps = _section(tags, _GPS_IFD)
    camera = _camera(_text(tags, _MAKE), _text(tags, _MODEL))
    iso = _number(details, _ISO, "iso")
    latitude, longitude = _position(gps)
    exif = Exif(
        camera=camera,
        lens=_text(details, _LENS),
        exposure_s=_number(details, _EXPOSURE, "exposure_s"),
        aperture=_number(details, _APERTURE, "aperture"),
        iso=None if iso is None else round(iso),
        focal_length_mm=_number(details, _FOCAL_LENGTH, "focal_length_mm"),
        latitude=latitude,
        longitude=longitude,
    )
    orientation = _read(lambda: int(tags.get(_ORIENTATION, 1)))
    return orientation or 1, _time(tags, details), exif


def _section(tags: Any, number: int) -> Mapping[int, Any]:
    return _read(lambda: tags.get_ifd(number)) or {}


def _read(get: Callable[[], Any]) -> Any:
    """Return the result of a function, or None if hostile metadata makes it fail."""
    with contextlib.suppress(Exception):
        return get()
    return None


def _text(tags: Mapping[int, Any], tag: int) -> str | None:
    """Return a value as one line of printable text; None if it is not text or empty."""
    value = _read(lambda: tags.get(tag))
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        return None
    printable = "".join(c if c.isprintable() else " " for c in value[: 4 * MAX_EXIF_TEXT].split("\0", 1)[0])
    return " ".join(printable.split())[:MAX_EXIF_TEXT].strip() or None


def _camera(make: str | None, model: str | None) -> str | None:
    """Return the name of a camera: its model, after the maker unless the model starts with it.

    >>> _camera("NIKON CORPORATION", "NIKON D90"), _camera("Panasonic", "DMC-TZ5")
    ('NIKON D90', 'Panasonic DMC-TZ5')
    """
    if make is None or model is None:
        return model or make
    repeated = model.lower().startswith(make.lower().split()[0])
    return model if repeated else f"{make} {model}"[:MAX_EXIF_TEXT].strip()


def _number(tags: Mapping[int, Any], tag: int, name: str) -> float | None:
    value = _read(lambda: tags.get(tag))
    if isinstance(value, tuple):  # some cameras write the ISO value twice
        value = value[0] if value else None
    number: float | None = _read(lambda: float(f"{float(value):.6g}"))
    return number if number is not None and 0 < number <= _MOST[name] else None


def _position(gps: Mapping[int, Any]) -> tuple[float | None, float | None]:
    """Return latitude and longitude in degrees, or None for both if one is missing, invalid, or both are 0."""
    latitude = _degrees(gps, _LATITUDE, _LATITUDE_REF, "S", 90)
    longitude = _degrees(gps, _LONGITUDE, _LONGITUDE_REF, "W", 180)
    if latitude is None or longitude is None or latitude == longitude == 0:
        return None, None
    return latitude, longitude


def _degrees(gps: Mapping[int, Any], tag: int, ref: int, negative: str, most: float) -> float | None:
    def convert() -> float:
        parts = [float(part) for part in gps[tag]]
        if not 1 <= len(parts) <= 3 or min(parts) < 0:
            raise ValueError
        degrees, minutes, seconds = [*parts, 0.0, 0.0][:3]
        return degrees + minutes / 60 + seconds / 3_600

    angle: float | None = _read(convert)
    if angle is None or not math.isfinite(angle) or angle > most:
        return None
    return round(-angle if (_text(gps, ref) or "").upper() == negative else angle, 6)


def _time(tags: Mapping[int, Any], details: Mapping[int, Any]) -> float | None:
    """Return POSIX seconds, in the years 1 to 9999; a time without a time zone is read as UTC."""
    moment = _text(details, _TAKEN) or _text(tags, _DATE)
    for zone in (_text(details, _TAKEN_OFFSET), "+00:00") if moment else ():
        with contextlib.suppress(ValueError, OverflowError):
            return datetime.strptime(f"{moment} {zone}", "%Y:%m:%d %H:%M:%S %z").astimezone(UTC).timestamp()
    return None
