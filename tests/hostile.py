"""A corpus of hostile files, and functions that misbehave in a reading process.

The corpus has readable pictures with odd names and contents, and at least 200 damaged files that must be reported,
each with its kind of damage. All damage is certain to be detectable: no bits of pixel data are flipped.
"""

import io
import os
import signal
import socket
import struct
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, features

CUTS = (0.001, 0.02, 0.06, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""The fractions of their length at which files are truncated."""


def write_corpus(folder: str | Path, random_state: int = 0) -> tuple[list[Path], dict[Path, str]]:
    """Write the corpus to an empty folder; return the good files, and the bad files with their kind of damage."""
    folder = Path(folder)
    random = np.random.default_rng(random_state)
    good, bad = [], {}
    for name, data in _good(random):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        good.append(path)
    for number, (kind, suffix, data) in enumerate(_bad(random)):
        path = folder / kind / f"{number:03}{suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        bad[path] = kind
    for path in _special(folder / "special"):
        bad[path] = "special"
    return good, bad


def picture(random: np.random.Generator, size: tuple[int, int] = (120, 90), mode: str = "RGB") -> Image.Image:
    """Return a picture with enough texture that its file has some length in every format."""
    width, height = size
    coarse = Image.fromarray(random.integers(0, 256, (6, 8, 3), np.uint8))
    image = coarse.resize(size, Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(image)
    for _ in range(6):
        x, y = random.integers(0, width), random.integers(0, height)
        pen.ellipse((x, y, x + 20, y + 20), fill=tuple(int(c) for c in random.integers(0, 256, 3)))
    noise = random.normal(0, 6, (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8)).convert(mode)


def encode(image: Image.Image, format: str, **options: object) -> bytes:
    """Return the image as a file of this format."""
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    """Return a chunk of a PNG file."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, *extra: bytes, rows: int = 1, depth: int = 1) -> bytes:
    """Return a grey PNG file of this size that contains only the first rows of pixels, all zero."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0))
    pixels = zlib.compress(bytes((width * depth + 7) // 8 + 1) * rows, 9)
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(extra) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def tiff(tags: dict[int, tuple[int, int, int]], *, next_ifd: int = 0, tail: bytes = b"") -> bytes:
    """Return a little-endian TIFF file with one directory of (type, count, value) entries."""
    entries = b"".join(struct.pack("<HHII", tag, *entry) for tag, entry in sorted(tags.items()))
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + entries + struct.pack("<I", next_ifd) + tail


def grey_tiff(width: int, height: int, offset: int, count: int) -> dict[int, tuple[int, int, int]]:
    """Return the tags of an uncompressed grey TIFF file with one strip."""
    shorts = {258: 8, 259: 1, 262: 1, 277: 1}
    longs = {256: width, 257: height, 273: offset, 278: height, 279: count}
    return {tag: (3, 1, value) for tag, value in shorts.items()} | {tag: (4, 1, value) for tag, value in longs.items()}


def formats(random: np.random.Generator) -> dict[str, bytes]:
    """Return a good file of every format and compression that Pillow can write here, by file name."""
    image = picture(random)
    files = {
        "plain.jpg": encode(image, "JPEG"),
        "progressive.jpg": encode(image, "JPEG", progressive=True),
        "plain.png": encode(image, "PNG"),
        "palette.png": encode(image.quantize(32), "PNG"),
        "lossy.webp": encode(image, "WEBP"),
        "lossless.webp": encode(image, "WEBP", lossless=True),
        "plain.gif": encode(image.quantize(64), "GIF"),
        "raw.tif": encode(image, "TIFF"),
        "lzw.tif": encode(image, "TIFF", compression="tiff_lzw"),
        "deflate.tif": encode(image, "TIFF", compression="tiff_adobe_deflate"),
        "jpeg.tif": encode(image, "TIFF", compression="jpeg"),
        "plain.bmp": encode(image, "BMP"),
    }
    if features.check("avif"):
        files["plain.avif"] = encode(image, "AVIF")
    return files


def crash(pixels: np.ndarray) -> int:
    """End the process with SIGSEGV if the picture is black."""
    if not pixels.any():
        os.kill(os.getpid(), signal.SIGSEGV)
    return int(pixels.shape[0])


def hang(pixels: np.ndarray) -> int:
    """Sleep for an hour if the picture is black."""
    if not pixels.any():
        time.sleep(3600)
    return int(pixels.shape[0])


def spin(pixels: np.ndarray) -> int:
    """Loop forever if the picture is black."""
    while not pixels.any():
        pass
    return int(pixels.shape[0])


def fail(pixels: np.ndarray) -> int:
    """Raise an error if the picture is black."""
    if not pixels.any():
        raise ValueError("black")
    return int(pixels.shape[0])


def devour(pixels: np.ndarray) -> int:
    """Allocate two gigabytes if the picture is black."""
    return int(pixels.shape[0]) if pixels.any() else int(np.ones(2**31, np.uint8)[0])


def leave(pixels: np.ndarray) -> int:
    """Exit the process with code 0 if the picture is black."""
    if not pixels.any():
        raise SystemExit(0)
    return int(pixels.shape[0])


def return_function(pixels: np.ndarray) -> object:
    """Return an object that cannot be pickled if the picture is black."""
    return int(pixels.shape[0]) if pixels.any() else (lambda: None)


def shape(pixels: np.ndarray) -> tuple[int, ...]:
    """Return the shape; the only function here that always works."""
    return pixels.shape


class AtStart:
    """A function like `shape` that misbehaves when a reading process unpickles it, before the process is ready.

    `how`: "hang" in the first process; "killed" or "exit" in every process. Each process writes a file named after
    its id to the folder.
    """

    def __init__(self, folder: Path, how: str):
        self.folder = folder
        self.how = how

    def __call__(self, pixels: np.ndarray) -> tuple[int, ...]:
        return pixels.shape

    def __reduce__(self) -> tuple[object, ...]:
        return _start, (self.folder, self.how)


def _start(folder: Path, how: str) -> object:
    is_first = not any(folder.iterdir())
    (folder / str(os.getpid())).touch()
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "exit":
        os._exit(3)
    elif is_first:
        time.sleep(3600)
    return shape


def _good(random: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    files = formats(random)
    yield from files.items()
    jpeg = files["plain.jpg"]
    yield "späße 🐟 and spaces.jpg", encode(picture(random), "JPEG")
    yield "new\nline.jpg", encode(picture(random), "JPEG")
    yield os.fsdecode(b"undecodable-\xff\xfe.jpg"), encode(picture(random), "JPEG")
    yield "-rf.jpg", encode(picture(random), "JPEG")
    yield "long-" + "x" * 240 + ".jpg", encode(picture(random), "JPEG")
    yield "UPPER.JPG", encode(picture(random), "JPEG")
    yield "really-a-png.jpg", encode(picture(random), "PNG")
    yield "folder.jpg/inside.jpg", encode(picture(random), "JPEG")
    yield "trailing-bytes.jpg", jpeg + random.bytes(300)
    yield "broken-exif.jpg", encode(picture(random), "JPEG", exif=b"Exif\0\0MM\0*\0\0\xff\xff" + random.bytes(60))
    yield "grey.jpg", encode(picture(random, mode="L"), "JPEG")
    yield "cmyk.jpg", encode(picture(random, mode="CMYK"), "JPEG")
    yield "alpha.png", encode(picture(random, mode="RGBA"), "PNG")
    yield "one-bit.png", encode(picture(random, mode="1"), "PNG")
    yield "sixteen-bit.png", png(40, 30, rows=30, depth=16)
    yield "one-pixel.png", encode(Image.new("RGB", (1, 1)), "PNG")
    frames = [picture(random).quantize(64) for _ in range(3)]
    yield "animated.gif", encode(frames[0], "GIF", save_all=True, append_images=frames[1:])
    grey = grey_tiff(20, 10, 8 + 2 + 9 * 12 + 4, 200)
    yield "directory-loop.tif", tiff(grey, next_ifd=8, tail=bytes(200))


def _bad(random: np.random.Generator) -> Iterator[tuple[str, str, bytes]]:
    """Yield the kind of damage, the suffix and the content of each file."""
    files = formats(random)
    for name, data in files.items():
        for share in CUTS:
            yield "truncated", Path(name).suffix, data[: max(1, int(len(data) * share))]
    for name, magic in (("plain.jpg", 2), ("plain.png", 8), ("plain.gif", 6), ("raw.tif", 4), ("plain.bmp", 2)):
        for at in range(magic):
            yield "flipped-signature", Path(name).suffix, _flip(files[name], at, int(random.integers(2, 8)))
    for at in (0, 1, 2, 3, 8, 9, 10, 11):
        yield "flipped-signature", ".webp", _flip(files["lossy.webp"], at, int(random.integers(8)))
    for at in (16, 17, 18, 19, 24, 25):  # width and depth, which the chunk's checksum covers
        yield "flipped-header", ".png", _flip(files["plain.png"], at, int(random.integers(8)))
    yield from _structures(files)
    yield from _bombs(files)
    for suffix, data in _wrong_types(random):
        yield "wrong-type", suffix, data


def _structures(files: dict[str, bytes]) -> Iterator[tuple[str, str, bytes]]:
    """Yield files whose parts contradict each other."""
    jpeg = files["plain.jpg"]
    frame, scan = jpeg.index(b"\xff\xc0"), jpeg.index(b"\xff\xda")
    yield "structure", ".jpg", jpeg[:frame] + jpeg[scan:]  # no frame header
    yield "structure", ".jpg", jpeg[: frame + 4] + b"\x0c" + jpeg[frame + 5 :]  # 12 bits per sample
    yield "structure", ".jpg", jpeg[: frame + 5] + bytes(4) + jpeg[frame + 9 :]  # width and height are 0
    yield "structure", ".jpg", jpeg[:scan]  # no picture data
    yield "structure", ".jpg", jpeg[:2] + jpeg[-2:]
    yield "structure", ".png", files["plain.png"][:33] + chunk(b"IEND", b"")
    yield "structure", ".png", png(0, 10)
    yield "structure", ".gif", b"GIF89a" + struct.pack("<HHBBB", 10, 10, 0, 0, 0) + b";"  # no frame
    yield "structure", ".bmp", files["plain.bmp"][:14] + b"\xff\xff\xff\x7f" + files["plain.bmp"][18:]
    yield "structure", ".tif", b"II*\0" + struct.pack("<I", 10**6)  # the directory is past the end of the file
    yield "structure", ".tif", tiff(grey_tiff(20, 10, 10**6, 200), tail=bytes(300))  # the pixels are past the end
    yield "structure", ".tif", b"II*\0" + struct.pack("<IH", 8, 65535) + bytes(100)
    yield "structure", ".tif", tiff({256: (4, 1, 20), 257: (4, 1, 10)})
    yield "structure", ".webp", b"RIFF" + struct.pack("<I", 20) + b"WEBPVP8 " + bytes(8)


def _bombs(files: dict[str, bytes]) -> Iterator[tuple[str, str, bytes]]:
    """Yield small files that unpack to an enormous size."""
    jpeg, large = files["plain.jpg"], zlib.compress(bytes(16 * 2**20), 1)
    frame = jpeg.index(b"\xff\xc0")
    yield "bomb", ".png", png(50_000, 50_000)
    yield "bomb", ".png", png(2**31 - 1, 2**31 - 1, rows=0)
    yield "bomb", ".png", png(10, 10, chunk(b"zTXt", b"Comment\0\0" + large), rows=10)
    yield "bomb", ".png", png(10, 10, chunk(b"iCCP", b"profile\0\0" + large), rows=10)
    yield "bomb", ".jpg", jpeg[: frame + 5] + struct.pack(">HH", 65_500, 65_500) + jpeg[frame + 9 :]
    yield "bomb", ".gif", b"GIF89a" + struct.pack("<HHBBB", 65_535, 65_535, 0x80, 0, 0) + bytes(6) + _gif_frame(9, 9)
    yield "bomb", ".gif", b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + bytes(6) + _gif_frame(65_535, 65_535)
    yield "bomb", ".bmp", b"BM" + struct.pack("<IIIIiiHHIIIIII", 99, 0, 54, 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0)
    yield "bomb", ".tif", tiff(grey_tiff(100_000, 100_000, 8, 16), tail=bytes(100))
    yield "bomb", ".webp", _webp_canvas(16_384, 16_384, files["lossy.webp"])


def _wrong_types(random: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "a")
    yield ".jpg", b""
    yield ".jpg", bytes(1000)
    yield ".jpg", b"This is not a picture.\n" * 20
    yield ".jpg", "\ufeffKein Bild, nur Text: äöü\n".encode()
    yield ".jpg", b"%PDF-1.7\n1 0 obj\n<< >>\nendobj\n"
    yield ".jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n"
    yield ".jpg", b"\x7fELF\x02\x01\x01" + bytes(60)
    yield ".png", b"<!DOCTYPE html><html><body>404 Not Found</body></html>"
    yield ".png", b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>'
    yield ".gif", archive.getvalue()
    yield ".jpg", b"\x1f\x8b\x08" + bytes(40)
    yield ".avif", b"\0\0\0\x18ftypisom" + bytes(100)  # a video
    yield ".jpg", b"\x80\x04K\x01."  # a pickle
    yield ".jpg", b"\xff\xd8"
    for _ in range(6):
        yield ".jpg", b"\0" + random.bytes(int(random.integers(10, 4000)))


def _special(folder: Path) -> Iterator[Path]:
    """Create files with names of pictures that are not regular files or cannot be opened."""
    folder.mkdir()
    os.mkfifo(folder / "pipe.jpg")
    yield folder / "pipe.jpg"
    (folder / "dangling.jpg").symlink_to(folder / "nowhere.jpg")
    yield folder / "dangling.jpg"
    (folder / "itself.jpg").symlink_to(folder / "itself.jpg")
    yield folder / "itself.jpg"
    (folder / "device.jpg").symlink_to("/dev/zero")
    yield folder / "device.jpg"
    if len(os.fsencode(folder / "socket.jpg")) < 100:  # the system's limit on such names
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(str(folder / "socket.jpg"))
        yield folder / "socket.jpg"
    if os.geteuid() != 0:  # root can read all files
        (folder / "secret.jpg").write_bytes(b"\xff\xd8\xff")
        (folder / "secret.jpg").chmod(0)
        yield folder / "secret.jpg"


def _flip(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def _gif_frame(width: int, height: int) -> bytes:
    return b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x44\x01\x00;"


def _webp_canvas(width: int, height: int, simple: bytes) -> bytes:
    """Return an extended WebP file that claims a canvas of this size."""
    canvas = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + canvas + simple[12:]
    return b"RIFF" + struct.pack("<I", len(body)) + body
