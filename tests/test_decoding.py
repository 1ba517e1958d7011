import io
import os
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile, features
from PIL.TiffImagePlugin import IFDRational

from hostile import chunk, encode, formats, grey_tiff, picture, png, tiff
from lookalike.errors import ImageError
from lookalike.images.decoding import identify, read, read_exif, to_rgb
from lookalike.images.files import LIMITS, Limits
from lookalike.types import Exif

RANDOM = np.random.default_rng(0)
FILES = formats(RANDOM)
SAMPLE = picture(RANDOM, (96, 64))
PIXELS = np.asarray(SAMPLE)
LOSSLESS = {
    "PNG": {},
    "TIFF": {},
    "BMP": {},
    "WEBP": {"lossless": True, "exact": True},
}


def close(a, b, tolerance):
    return np.abs(a.astype(int) - b.astype(int)).mean() < tolerance


@pytest.mark.parametrize("name", FILES)
def test_every_format_is_read_as_rgb_with_its_name(name):
    read_ = read(FILES[name])
    assert read_.pixels.dtype == np.uint8
    assert read_.pixels.shape == (90, 120, 3)
    assert (read_.width, read_.height) == (120, 90)
    suffix = name.rpartition(".")[2]
    assert read_.format == {"jpg": "jpeg", "tif": "tiff"}.get(suffix, suffix)


@pytest.mark.parametrize("format", LOSSLESS)
def test_lossless_formats_are_read_exactly(format):
    assert np.array_equal(read(encode(SAMPLE, format, **LOSSLESS[format])).pixels, PIXELS)


def test_a_path_and_its_bytes_give_the_same_picture(tmp_path):
    path = tmp_path / "wrong-ending.png"
    path.write_bytes(FILES["plain.jpg"])
    for source in (path, str(path), FILES["plain.jpg"]):
        assert np.array_equal(read(source).pixels, read(FILES["plain.jpg"]).pixels)
        assert read(source).format == "jpeg"


def test_pixels_are_writable():
    pixels = read(FILES["plain.jpg"]).pixels
    pixels[:] = 0
    assert pixels.flags.c_contiguous


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", ["PNG", "TIFF", "JPEG", "WEBP"])
def test_exif_orientation_is_applied(format, orientation):
    stored = {
        1: PIXELS,
        2: PIXELS[:, ::-1],
        3: PIXELS[::-1, ::-1],
        4: PIXELS[::-1],
        5: PIXELS.transpose(1, 0, 2),
        6: PIXELS.transpose(1, 0, 2)[::-1],
        7: PIXELS[::-1, ::-1].transpose(1, 0, 2),
        8: PIXELS.transpose(1, 0, 2)[:, ::-1],
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True, "exact": True} if format == "WEBP" else {}
    if format == "JPEG":
        options = {"quality": 98, "subsampling": 0}
    found = read(encode(Image.fromarray(np.ascontiguousarray(stored)), format, exif=exif, **options))
    assert (found.width, found.height) == (96, 64)
    assert found.pixels.shape == PIXELS.shape
    assert close(found.pixels, PIXELS, 3 if format == "JPEG" else 0.01)


@pytest.mark.parametrize("mode", ["L", "1", "P"])
@pytest.mark.parametrize("format", ["PNG", "TIFF"])
def test_grey_one_bit_and_palette_become_rgb(mode, format):
    image = SAMPLE.convert(mode) if mode != "P" else SAMPLE.quantize(32)
    assert np.array_equal(read(encode(image, format)).pixels, np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_becomes_white(mode):
    image = SAMPLE.convert(mode)
    alpha = np.zeros((64, 96), np.uint8)
    alpha[:, 32:] = 128
    alpha[:, 64:] = 255
    image.putalpha(Image.fromarray(alpha))
    pixels = read(encode(image, "PNG")).pixels
    color = np.asarray(SAMPLE.convert(mode[:-1]).convert("RGB")).astype(float)
    assert (pixels[:, :32] == 255).all()
    assert close(pixels[:, 32:64], color[:, 32:64] * (128 / 255) + 255 * (127 / 255), 1)
    assert np.array_equal(pixels[:, 64:], color[:, 64:])


def test_a_transparent_colour_of_a_palette_becomes_white():
    image = Image.new("P", (10, 10), 0)
    image.putpalette([200, 0, 0, 0, 200, 0])
    image.paste(1, (5, 0, 10, 10))
    for data in (encode(image, "PNG", transparency=0), encode(image, "GIF", transparency=0)):
        pixels = read(data).pixels
        assert pixels[0, 0].tolist() == [255, 255, 255]
        assert pixels[0, 9].tolist() == [0, 200, 0]


def test_cmyk_is_read_with_and_without_adobes_inversion():
    image = SAMPLE.convert("CMYK")
    adobe = encode(image, "JPEG", quality=98, subsampling=0)
    assert close(read(adobe).pixels, PIXELS, 4)
    start = adobe.index(b"\xff\xee")
    (length,) = struct.unpack(">H", adobe[start + 2 : start + 4])
    inverted = Image.fromarray(255 - np.asarray(image), "CMYK")
    plain = encode(inverted, "JPEG", quality=98, subsampling=0)  # Pillow inverts it when writing
    plain = plain[:start] + plain[start + 2 + length :]
    assert close(read(plain).pixels, PIXELS, 4)
    assert np.array_equal(read(encode(image, "TIFF")).pixels, np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
def test_sixteen_bit_grey_is_scaled_not_clipped(format):
    values = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    pixels = read(encode(Image.fromarray(values), format)).pixels
    assert np.abs(pixels[:, :, 0].astype(int) - np.arange(256).reshape(16, 16)).max() <= 1


def test_sixteen_bit_rgb_is_scaled_not_clipped():
    row = b"\0" + b"".join(struct.pack(">HHH", 257 * i, 65535 - 257 * i, 300) for i in range(256))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 256, 1, 16, 2, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")
    pixels = read(data).pixels[0].astype(int)
    assert np.abs(pixels[:, 0] - np.arange(256)).max() <= 1
    assert np.abs(pixels[:, 1] - np.arange(255, -1, -1)).max() <= 1
    assert (pixels[:, 2] == 1).all()


def test_grey_with_white_as_zero_is_inverted():
    tags = grey_tiff(4, 1, 8 + 2 + 9 * 12 + 4, 8) | {258: (3, 1, 16), 262: (3, 1, 0)}
    pixels = read(tiff(tags, tail=struct.pack("<HHHH", 0, 21845, 43690, 65535))).pixels
    assert pixels[0, :, 0].tolist() == [255, 170, 85, 0]


@pytest.mark.parametrize("values", [np.linspace(-3, 7, 64), np.linspace(0, 1, 64)])
def test_floats_are_scaled_from_black_to_white(values):
    values = values.astype(np.float32).reshape(8, 8)
    pixels = read(encode(Image.fromarray(values), "TIFF")).pixels
    assert pixels[0, 0].tolist() == [0, 0, 0]
    assert pixels[-1, -1].tolist() == [255, 255, 255]
    assert (np.diff(pixels[:, :, 0].ravel().astype(int)) >= 0).all()


def test_nan_and_infinity_do_not_affect_other_pixels():
    values = np.array([[np.nan, 0.0], [np.inf, 1.0]], np.float32)
    assert read(encode(Image.fromarray(values), "TIFF")).pixels[:, 1, 0].tolist() == [0, 255]


def test_lab_becomes_rgb():
    lab = Image.fromarray(np.full((8, 8, 3), (128, 0, 0), np.uint8), "LAB")  # medium lightness, no colour
    pixels = read(encode(lab, "TIFF")).pixels
    assert np.ptp(pixels[0, 0].astype(int)) <= 2
    assert 100 < pixels[0, 0, 0] < 140


def test_the_first_frame_of_an_animation_is_read():
    frames = [Image.new("RGB", (20, 10), color) for color in ("red", "green", "blue")]
    for name, options in {"GIF": {}, "WEBP": {"lossless": True}, "PNG": {}, "TIFF": {}}.items():
        data = encode(frames[0], name, save_all=True, append_images=frames[1:], **options)
        assert read(data).pixels[0, 0].tolist() == [255, 0, 0], name


def test_conversion_in_bands_gives_the_same_pixels(monkeypatch):
    image = Image.open(io.BytesIO(encode(SAMPLE.convert("RGBA"), "PNG")))
    whole = to_rgb(image)
    monkeypatch.setattr("lookalike.images.decoding.BAND_PIXELS", 96 * 7)
    assert np.array_equal(to_rgb(image), whole)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 700), st.integers(1, 700), st.integers(1, 400))
def test_reduced_decoding_is_never_smaller_than_the_side(width, height, side):
    found = read(encode(Image.new("RGB", (width, height), "teal"), "JPEG"), side=side)
    assert (found.width, found.height) == (width, height)
    shorter = min(found.pixels.shape[:2])
    assert shorter >= min(side, width, height)
    assert shorter < 4 * side or shorter <= min(width, height) / 8 + 1
    assert found.pixels.shape[0] * width == pytest.approx(found.pixels.shape[1] * height, abs=8 * max(width, height))


def test_reduced_decoding_keeps_the_picture():
    large = SAMPLE.resize((960, 640), Image.Resampling.BICUBIC)
    data = encode(large, "JPEG", quality=95)
    small = read(data, side=100).pixels
    assert small.shape == (160, 240, 3)
    reduced = np.asarray(large.resize((240, 160), Image.Resampling.BOX))
    assert close(small, reduced, 3)


def test_the_time_a_picture_was_taken_is_read():
    exif = Image.Exif()
    exif.get_ifd(0x8769).update({0x9003: "2021:07:04 12:30:00", 0x9011: "+02:00"})
    assert read(encode(SAMPLE, "JPEG", exif=exif)).taken_at == 1625394600.0
    exif.get_ifd(0x8769).pop(0x9011)
    assert read(encode(SAMPLE, "JPEG", exif=exif)).taken_at == 1625401800.0
    for nonsense in ("0000:00:00 00:00:00", "yesterday", ""):
        exif.get_ifd(0x8769)[0x9003] = nonsense
        assert read(encode(SAMPLE, "JPEG", exif=exif)).taken_at is None
    exif.get_ifd(0x8769).update({0x9003: "9999:12:31 23:59:59", 0x9011: "-12:00"})  # the year 10000 in UTC
    assert (
        read(encode(SAMPLE, "JPEG", exif=exif)).taken_at == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
    )
    assert read(FILES["plain.png"]).taken_at is None


CAMERA = {0x010F: "NIKON CORPORATION", 0x0110: "NIKON D90\0\0"}
DETAILS = {0x829A: IFDRational(1, 200), 0x829D: 2.8, 0x8827: (400, 400), 0x920A: 35.0, 0xA434: " 35 mm\n f/1.8 "}
PLACE = {1: "S", 2: (33.0, 51.0, 54.5148), 3: "E", 4: (151.0, 12.0, 35.64)}
FOUND = Exif("NIKON D90", "35 mm f/1.8", 0.005, 2.8, 400, 35.0, -33.865143, 151.2099)


def with_exif(format="JPEG", *, camera=CAMERA, details=DETAILS, gps=PLACE):
    exif = Image.Exif()
    exif.update(camera)
    exif.get_ifd(0x8769).update(details)
    exif.get_ifd(0x8825).update(gps)
    exif[0x8769] = exif[0x8825] = 0  # otherwise Pillow does not write these parts to a TIFF
    return encode(SAMPLE, format, exif=exif)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_camera_data_is_read_with_and_without_decoding(format):
    data = with_exif(format)
    assert read(data).exif == read_exif(data) == FOUND


def test_files_without_camera_data_have_none():
    assert read(FILES["plain.png"]).exif == read_exif(FILES["plain.png"]) == Exif()
    assert read_exif(b"text") == read_exif(b"") == Exif()


@pytest.mark.parametrize(
    ("tags", "name", "value"),
    [
        ({"camera": {0x0110: "x" * 9_999}}, "camera", "x" * 100),
        ({"camera": {0x0110: "a\x1b[31mb\tc\x07"}}, "camera", "a [31mb c"),
        ({"camera": {0x010F: "\0", 0x0110: " \n"}}, "camera", None),
        ({"camera": {0x010F: "Acme"}}, "camera", "Acme"),
        ({"camera": {0x010F: "Acme", 0x0110: "X1"}}, "camera", "Acme X1"),
        ({"details": {0x829A: IFDRational(1, 0)}}, "exposure_s", None),
        ({"details": {0x829A: 1e9}}, "exposure_s", None),
        ({"details": {0x829D: -2.0}}, "aperture", None),
        ({"details": {0x8827: 0}}, "iso", None),
        ({"gps": PLACE | {2: (91.0, 0.0, 0.0)}}, "latitude", None),
        ({"gps": PLACE | {2: (IFDRational(0, 0), 0.0, 0.0)}}, "longitude", None),
        ({"gps": {1: "N", 2: (0.0, 0.0, 0.0), 3: "E", 4: (0.0, 0.0, 0.0)}}, "latitude", None),
        ({"gps": {2: (1.0, 2.0, 3.0)}}, "latitude", None),
    ],
)
def test_hostile_camera_data_is_shortened_or_left_out(tags, name, value):
    data = with_exif(**tags)
    assert getattr(read(data).exif, name) == getattr(read_exif(data), name) == value


def test_an_id_has_63_bits_and_depends_on_the_content():
    ids = {identify(bytes([i])) for i in range(200)}
    assert len(ids) == 200
    assert all(0 <= i < 2**63 for i in ids)
    assert max(ids) > 2**61
    assert identify(b"\x01") in ids


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_rejected(name):
    data = FILES[name]
    for share in (0.3, 0.7, 0.95):
        with pytest.raises(ImageError):
            read(data[: int(len(data) * share)])


def test_a_tiff_with_a_truncated_last_strip_is_rejected():
    strip = encode(SAMPLE.convert("L"), "JPEG", quality=95)
    tags = grey_tiff(96, 64, 8 + 2 + 9 * 12 + 4, len(strip)) | {259: (3, 1, 7)}
    whole = tiff(tags, tail=strip)
    assert np.array_equal(read(whole).pixels, read(strip).pixels)
    for cut in (2, len(strip) // 3):
        with pytest.raises(ImageError, match=r"^it is truncated"):
            read(whole[:-cut])


def test_a_jpeg_without_its_last_bytes_is_rejected_at_any_size():
    for side in (None, 20):
        with pytest.raises(ImageError, match=r"^it is truncated"):
            read(FILES["plain.jpg"][:-2], side=side)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.randoms(use_true_random=False))
def test_any_damage_gives_pixels_or_a_reason(name, random):
    data = bytearray(FILES[name])
    for _ in range(random.randint(1, 6)):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    try:
        outcome = f"{read(bytes(data)).pixels.shape[2]} channels"
    except ImageError as error:
        outcome = str(error)
    assert outcome == "3 channels" or (outcome and "\n" not in outcome)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_rejected_with_a_reason(data):
    with pytest.raises(ImageError, match=r"."):
        read(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"hello", "it is text, not an image"),
        (b"%PDF-1.7", "it is a PDF, not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "it is PostScript, not an image"),
        (b"\0\1\2", "it is not in a supported image format"),
        (png(50_000, 50_000), "it has 50000 × 50000 pixels; the limit is 200000000"),
    ],
)
def test_the_reason_names_the_problem(data, reason):
    with pytest.raises(ImageError, match=f"^{reason}$"):
        read(data)


def test_a_heic_picture_needs_a_package():
    if "HEIF" in Image.OPEN:
        pytest.skip("pillow-heif is installed")
    with pytest.raises(ImageError, match=r"install: pip install 'lookalike\[heic\]'"):
        read(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))


def test_the_caller_can_set_limits(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png(100, 100, rows=100))
    assert read(path, limits=Limits(max_pixels=10_000)).width == 100
    with pytest.raises(ImageError, match="it has 100 × 100 pixels; the limit is 9999"):
        read(path, limits=Limits(max_pixels=9_999))
    size = path.stat().st_size
    assert read(path, limits=Limits(max_bytes=size)).width == 100
    for source in (path, path.read_bytes()):
        with pytest.raises(ImageError, match=f"it has {size} bytes; the limit is {size - 1}"):
            read(source, limits=Limits(max_bytes=size - 1))


def test_pictures_above_pillows_limit_are_read_up_to_ours(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    assert read(FILES["plain.gif"]).width == 120
    assert Image.MAX_IMAGE_PIXELS == 10


def test_global_settings_of_pillow_are_neither_used_nor_changed(monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(ImageError, match="truncated"):
        read(FILES["plain.jpg"][:-100])
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True


def test_pipes_devices_and_folders_are_rejected_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    for path, reason in (
        (tmp_path / "pipe.jpg", "it is not a regular file"),
        ("/dev/zero", "it is not a regular file"),
        (tmp_path, "it is a folder, not a file"),
        (tmp_path / "gone.jpg", "it does not exist"),
        ("zero\0byte.jpg", "embedded null byte"),
        (tmp_path / ("x" * 300), "file name too long"),
    ):
        with pytest.raises(ImageError, match=reason):
            read(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read all files")
def test_a_file_without_permission_is_rejected(tmp_path):
    path = tmp_path / "secret.jpg"
    path.write_bytes(FILES["plain.jpg"])
    path.chmod(0)
    with pytest.raises(ImageError, match="permission denied"):
        read(path)


def test_decoders_print_nothing_and_raise_no_warnings(capfd):
    damaged = [
        data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        for data in FILES.values()
        for at in range(20, len(data), max(1, len(data) // 25))
    ]
    description = tiff(grey_tiff(20, 10, 8 + 2 + 10 * 12 + 4, 200) | {270: (2, 10**6, 8)}, tail=bytes(200))
    exif = encode(SAMPLE, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x09\0" + bytes(20))
    assert read(description).width == 20
    assert read(exif).width == 96
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        refused = 0
        for data in [*damaged, description, exif]:
            try:
                read(data)
            except ImageError:
                refused += 1
    assert refused > 20
    assert raised == []
    assert capfd.readouterr() == ("", "")


def test_standard_error_works_after_reading(capfd):
    read(FILES["lzw.tif"])
    os.write(2, b"still here")
    assert capfd.readouterr().err == "still here"


def test_reading_works_when_standard_error_is_closed():
    code = (
        "import os, sys; os.close(2); from lookalike.images.decoding import read; "
        "sys.stdout.write(str(read(sys.stdin.buffer.read()).width))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=FILES["lzw.tif"], stdout=subprocess.PIPE, check=False)
    assert done.stdout == b"120"


def test_threads_can_read_at_the_same_time():
    before = list(warnings.filters)
    limit = Image.MAX_IMAGE_PIXELS
    shapes = []

    def work(name):
        shapes.extend(read(FILES[name]).pixels.shape for _ in range(15))

    threads = [
        threading.Thread(target=work, args=(name,)) for name in ("plain.jpg", "lzw.tif", "plain.png", "plain.gif")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shapes == [(90, 120, 3)] * 60
    assert list(warnings.filters) == before
    assert limit == Image.MAX_IMAGE_PIXELS


def test_a_picture_too_large_for_memory_is_rejected_with_the_cause(monkeypatch):
    def explode(*_):
        raise MemoryError

    monkeypatch.setattr("lookalike.images.decoding.to_rgb", explode)
    with pytest.raises(ImageError, match="it needs more memory than is available") as caught:
        read(FILES["plain.jpg"])
    assert isinstance(caught.value.__cause__, MemoryError)


def test_avif_is_read_if_pillow_supports_it():
    assert ("plain.avif" in FILES) == features.check("avif")


def test_the_default_limits_match_the_documentation():
    assert Limits(512 * 2**20, 200_000_000) == LIMITS
