"""RAW and HEIC files: recognized by their bytes; read with the optional packages, or with a stand-in for rawpy."""

import io
import struct
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from lookalike.errors import ImageError, MissingError
from lookalike.images.decoding import read
from lookalike.images.files import Limits
from lookalike.images.raw import is_raw

WIDTH, HEIGHT = 1280, 960
TAKEN = "2021:05:06 07:08:09"
TAKEN_AT = 1620284889.0

COLOR_MATRIX = (6461, -907, -882, -4300, 12184, 2378, -819, 1944, 5931)
"""From XYZ to the colours of a camera, times 10,000."""

Entries = list[tuple[int, int, bytes]]
FORMATS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 10: 8}
"""Bytes per value of each TIFF type."""


def scene() -> NDArray[np.uint8]:
    """A picture whose upper left quarter is red."""
    pixels = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    pixels[: HEIGHT // 2, : WIDTH // 2] = 220, 30, 30
    return pixels


def jpeg(pixels: NDArray[np.uint8], size: tuple[int, int], **options: Any) -> bytes:
    data = io.BytesIO()
    Image.fromarray(pixels).resize(size).save(data, "JPEG", quality=90, **options)
    return data.getvalue()


def directory(entries: Entries, strip: bytes, start: int, extra: Sequence[tuple[int, int, bytes]] = ()) -> bytes:
    """A TIFF directory at byte `start`, with its values and its strip of pixels."""
    entries = sorted([*entries, *extra, (273, 4, bytes(4)), (279, 4, struct.pack("<I", len(strip)))])
    at = start + 2 + 12 * len(entries) + 4
    strip_at = at + sum(len(value) + len(value) % 2 for _, _, value in entries if len(value) > 4)
    head, values = struct.pack("<H", len(entries)), b""
    for tag, kind, value in entries:
        if tag == 273:
            value = struct.pack("<I", strip_at)
        head += struct.pack("<HHI", tag, kind, len(value) // FORMATS[kind])
        if len(value) > 4:
            head += struct.pack("<I", at + len(values))
            values += value + bytes(len(value) % 2)
        else:
            head += value.ljust(4, b"\0")
    return head + bytes(4) + values + strip


def dng(orientation: int = 1, preview: bytes | None = None) -> bytes:
    """A DNG file with the data of a sensor and, optionally, a preview."""

    def short(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}H", *values)

    def long(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}I", *values)

    pixels = scene()
    mosaic = np.empty((HEIGHT, WIDTH), np.uint16)
    for top, left, color in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2)):
        mosaic[top::2, left::2] = pixels[top::2, left::2, color].astype(np.uint16) * 64
    matrix = struct.pack("<18i", *(part for value in COLOR_MATRIX for part in (value, 10_000)))
    camera: Entries = [
        (50706, 1, bytes((1, 4, 0, 0))),
        (50707, 1, bytes((1, 1, 0, 0))),
        (50708, 2, b"Test Camera\0"),
        (271, 2, b"TestMake\0"),
        (272, 2, b"TestModel\0"),
        (306, 2, TAKEN.encode() + b"\0"),
        (274, 3, short(orientation)),
        (50721, 10, matrix),
        (50778, 3, short(21)),
        (50728, 5, long(1, 1, 1, 1, 1, 1)),
    ]
    sensor: Entries = [
        (254, 4, long(0)),
        (256, 4, long(WIDTH)),
        (257, 4, long(HEIGHT)),
        (258, 3, short(16)),
        (259, 3, short(1)),
        (262, 3, short(32803)),
        (277, 3, short(1)),
        (278, 4, long(HEIGHT)),
        (33421, 3, short(2, 2)),
        (33422, 1, bytes((0, 1, 1, 2))),
        (50717, 4, long(16383)),
    ]
    header = b"II*\0" + long(8)
    if preview is None:
        return header + directory(sensor, mosaic.tobytes(), 8, camera)
    width, height = Image.open(io.BytesIO(preview)).size
    small: Entries = [
        (254, 4, long(1)),
        (256, 4, long(width)),
        (257, 4, long(height)),
        (258, 3, short(8, 8, 8)),
        (259, 3, short(7)),
        (262, 3, short(6)),
        (277, 3, short(3)),
        (278, 4, long(height)),
        (330, 4, long(0)),
    ]
    at = 8 + len(directory(small, preview, 8, camera))
    at += at % 2
    small[-1] = 330, 4, long(at)
    first = header + directory(small, preview, 8, camera)
    return first.ljust(at, b"\0") + directory(sensor, mosaic.tobytes(), at)


def is_red(pixels: NDArray[np.uint8], across: float, down: float) -> bool:
    height, width = pixels.shape[:2]
    red, green, _ = pixels[int(down * height), int(across * width)].astype(int)
    return bool(red > green + 60)


@pytest.mark.parametrize(
    ("orientation", "size", "red"), [(1, (WIDTH, HEIGHT), (0.2, 0.2)), (6, (HEIGHT, WIDTH), (0.8, 0.2))]
)
@pytest.mark.parametrize("preview", [None, (160, 120), (1024, 768)])
def test_a_dng_is_read_upright(
    orientation: int, size: tuple[int, int], red: tuple[float, float], preview: tuple[int, int] | None
) -> None:
    """The large preview is read; without one, the data of the sensor at half its size."""
    pytest.importorskip("rawpy")
    data = dng(orientation, None if preview is None else jpeg(scene(), preview))
    picture = read(data)
    assert (picture.format, picture.width, picture.height, picture.taken_at) == ("raw", *size, TAKEN_AT)
    assert max(picture.pixels.shape) == (1024 if preview == (1024, 768) else 640)
    assert (picture.pixels.shape[0] > picture.pixels.shape[1]) == (orientation == 6)
    assert is_red(picture.pixels, *red)
    assert not is_red(picture.pixels, 1 - red[0], 1 - red[1])


def test_damaged_raw_files_raise_an_image_error() -> None:
    pytest.importorskip("rawpy")
    for size in (200, 600, 5_000):
        with pytest.raises(ImageError):
            read(dng()[:size])
    with pytest.raises(ImageError, match="more than 1000 pixels"):
        read(dng(), limits=Limits(max_pixels=1000))


def test_a_heic_picture_is_read() -> None:
    heif = pytest.importorskip("pillow_heif")
    data = io.BytesIO()
    heif.from_pillow(Image.fromarray(scene())).save(data, quality=80)
    picture = read(data.getvalue())
    assert (picture.format, picture.width, picture.height) == ("heic", WIDTH, HEIGHT)
    assert is_red(picture.pixels, 0.2, 0.2)
    assert not is_red(picture.pixels, 0.8, 0.8)


def test_raw_files_are_recognized_by_their_bytes() -> None:
    for data in (dng(), dng(preview=jpeg(scene(), (64, 48))), b"II*\0\x10\0\0\0CR\2\0", b"\0\0\0\x18ftypcrx abcd"):
        assert is_raw(data)
        assert not any(is_raw(data[:size]) for size in (0, 4, 7))
    tiff = io.BytesIO()
    Image.fromarray(scene()).save(tiff, "TIFF")
    loop = b"II*\0\x08\0\0\0\0\0\x08\0\0\0"  # a directory that points to itself
    for data in (tiff.getvalue(), jpeg(scene(), (64, 48)), loop, b"MM\0*" + bytes(20), b"II*\0\xff\xff\xff\xff"):
        assert not is_raw(data)


def test_without_the_package_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rawpy", None)
    with pytest.raises(ImageError, match=r"it is a RAW picture; .* pip install 'lookalike\[raw\]'") as caught:
        read(dng())
    assert isinstance(caught.value.__cause__, MissingError)  # so another attempt is made later


class Raw:
    """A stand-in for an open RAW file whose sensor is landscape."""

    def __init__(self, flip: int, thumb: Any):
        self.sizes = SimpleNamespace(width=WIDTH, height=HEIGHT, flip=flip)
        self.other = SimpleNamespace(timestamp=datetime(2021, 5, 6, 7, 8, 9))
        self.thumb = thumb

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *error: object) -> None: ...

    def extract_thumb(self) -> Any:
        if self.thumb is None:
            raise LookupError("No thumbnail in file")
        return self.thumb

    def postprocess(self, *, half_size: bool, use_camera_wb: bool, output_bps: int) -> NDArray[np.uint8]:
        assert half_size
        return np.full((HEIGHT // 2, WIDTH // 2, 3), 7, np.uint8)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Raw]]:
    """RAW files to open, with a stand-in for rawpy."""
    files: list[Raw] = []
    module = SimpleNamespace(
        imread=lambda _: files.pop(),
        ThumbFormat=SimpleNamespace(JPEG="jpeg", BITMAP="bitmap"),
        LibRawNoThumbnailError=LookupError,
        LibRawUnsupportedThumbnailError=KeyError,
    )
    monkeypatch.setitem(sys.modules, "rawpy", module)
    yield files
    assert not files


def stand_in(data: Any, flip: int = 0) -> Raw:
    return Raw(flip, SimpleNamespace(format="jpeg" if isinstance(data, bytes) else "bitmap", data=data))


def test_previews_are_turned_upright_once(opened: list[Raw]) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    upright = np.ascontiguousarray(np.rot90(scene(), -1))
    for thumb in (
        jpeg(scene(), (800, 600)),  # as the sensor sees it
        jpeg(scene(), (800, 600), exif=exif),  # with its own orientation
        jpeg(upright, (600, 800)),  # upright already
        scene(),  # not compressed
    ):
        opened.append(stand_in(thumb, flip=6))
        picture = read(dng())
        assert (picture.width, picture.height, picture.taken_at) == (HEIGHT, WIDTH, TAKEN_AT)
        assert picture.pixels.shape[0] > picture.pixels.shape[1]
        assert is_red(picture.pixels, 0.8, 0.2)
        assert not is_red(picture.pixels, 0.2, 0.2)


@pytest.mark.parametrize("thumb", [None, jpeg(scene(), (160, 120)), b"\xff\xd8damaged", scene()[::10, ::10]])
def test_the_sensor_is_decoded_if_no_large_preview_exists(opened: list[Raw], thumb: Any) -> None:
    opened.append(Raw(0, None) if thumb is None else stand_in(thumb))
    assert read(dng()).pixels.shape == (HEIGHT // 2, WIDTH // 2, 3)


def test_the_preview_is_decoded_at_the_size_that_is_needed(opened: list[Raw]) -> None:
    opened.append(stand_in(jpeg(scene(), (WIDTH, HEIGHT))))
    picture = read(dng(), side=200)
    assert (picture.width, picture.pixels.shape) == (WIDTH, (HEIGHT // 4, WIDTH // 4, 3))


def test_an_error_of_libraw_is_shown_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError(b"Input/output error")

    monkeypatch.setitem(sys.modules, "rawpy", SimpleNamespace(imread=fail))
    with pytest.raises(ImageError, match=r"^it is a damaged RAW file \(Input/output error\)$"):
        read(dng())
