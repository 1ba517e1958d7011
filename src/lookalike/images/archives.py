"""List and read the members of tar and zip archives lazily, without unpacking them to disk.

A `Member` of a plain tar or of a zip has the position of its bytes. A member of a compressed tar carries the bytes.
Member names are never used as paths, so absolute names and `..` are harmless.

Archives are not trusted. Their headers, directories and decoders use no more memory than `Limits` allows. tarfile and
zipfile read as many bytes as an archive declares, so they read through `_Bounded`.
"""

import bz2
import gzip
import io
import lzma
import os
import sys
import tarfile
import weakref
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Self, cast

from lookalike.errors import ImageError, SourceError
from lookalike.images.files import Limits, describe_error
from lookalike.system import READ_FLAGS, read_at

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz", ".tbz2", ".tar.xz", ".txz")

MAX_RATIO = 200
FREE_BYTES = 256 * 2**20
"""A compressed tar can unpack to MAX_RATIO times its size plus FREE_BYTES. Pictures hardly compress, bombs do."""

HEADER_BYTES = 2**20
"""Maximum size of a tar member's headers, including long names, pax records and sparse maps. tar has no limit."""

DIRECTORY_COST = 24
"""Largest number of bytes of memory that zipfile and `sources` need per byte of a zip's directory."""

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive. Either `problem`, the reason why it cannot be read, or one of the last three is set."""

    name: str
    size: int
    problem: str | None = None
    offset: int | None = None  # of its bytes, in a plain tar
    index: int | None = None  # in the directory of a zip
    data: bytes | None = field(default=None, repr=False)


def is_archive(path: str) -> bool:
    """Whether a file has the name of an archive."""
    return path.lower().endswith(SUFFIXES)


def is_compressed_tar(path: str) -> bool:
    """Whether an archive is a compressed tar, which can only be read sequentially."""
    return not path.lower().endswith(".zip") and _compression(path) is not None


def list_members(path: str, wanted: Callable[[str], bool], limits: Limits) -> Iterator[Member]:
    """Yield the members whose name `wanted` accepts. Raises SourceError at the first damaged part of the archive."""
    try:
        if path.lower().endswith(".zip"):
            yield from _list_zip(path, wanted, limits)
        else:
            yield from _list_tar(path, wanted, limits)
    except SourceError:
        raise
    except (PermissionError, FileNotFoundError) as error:
        raise SourceError(describe_error(error)) from None
    except Exception as error:  # noqa: BLE001 — hostile bytes make decoders raise any error
        raise SourceError(f"it is a damaged archive ({str(error) or type(error).__name__})") from None


def read_slice(path: str, mtime_ns: int, offset: int, size: int) -> bytes:
    """Return the bytes of a member of a plain tar."""
    try:
        file = os.open(path, READ_FLAGS)
        try:
            found = os.fstat(file)
            _check_unchanged(found, mtime_ns)
            is_inside = offset + size <= found.st_size  # read_at allocates `size` bytes before it reads
            data = read_at(file, size, offset) if is_inside else b""
        finally:
            os.close(file)
    except OSError as error:
        raise ImageError(describe_error(error)) from None
    if len(data) < size:
        raise ImageError("its archive is truncated")
    return data


def read_zipped(path: str, mtime_ns: int, index: int, limits: Limits) -> bytes:
    """Return the bytes of a member of a zip."""
    try:
        _check_unchanged(Path(path).stat(), mtime_ns)
        archive = _reopen_zip(path, mtime_ns, limits)
        info = archive.infolist()[index]
        limits.check_bytes(info.file_size)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # For other methods, zipfile does not limit the decoder's output: 40 bytes of bzip2 can become 45 MB.
            raise ImageError(
                f"it uses zip compression method {info.compress_type}; only 0 (stored) and 8 (deflate) are supported"
            )
        with archive.open(info) as file:
            return file.read(info.file_size)  # if this size is wrong, so is the checksum
    except OSError as error:
        raise ImageError(describe_error(error)) from None
    except ImageError:
        raise
    except Exception as error:  # noqa: BLE001 — as in list_members
        damage = "it is encrypted" if "password" in str(error) else f"it is damaged in its archive ({str(error)[:120]})"
        raise ImageError(damage) from None


class _Header(tarfile.TarInfo):
    """A header that raises an error if it is damaged. tarfile itself treats that as the end of the archive."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(f"{error} at byte {archive.offset}") from None


class _Bounded:
    """A file that allows at most `left` more bytes to be read; `problem` is the error message for a larger read."""

    def __init__(self, file: IO[bytes], left: int, problem: str):
        self.file = file
        self.left = left
        self.problem = problem

    def read(self, size: int = -1) -> bytes:
        if size > self.left:
            raise SourceError(self.problem)
        data = self.file.read(size)
        self.left -= len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def seekable(self) -> bool:
        return True


class _Xz(io.RawIOBase):
    """The content of an xz file, read sequentially. Unlike `lzma.open`, it limits the memory of the decoder."""

    def __init__(self, file: IO[bytes], limits: Limits):
        self._file = file
        self._limits = limits
        self._position = 0
        self._decoder = self._start()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET or offset < self._position:
            raise io.UnsupportedOperation("an xz file can only be read sequentially")
        while self._position < offset and self.read(min(offset - self._position, io.DEFAULT_BUFFER_SIZE)):
            pass
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            if self._decoder.eof:  # another stream can follow, after padding
                head = self._decoder.unused_data.lstrip(b"\0")
                while not head and (block := self._file.read(io.DEFAULT_BUFFER_SIZE)):
                    head = block.lstrip(b"\0")
                if not head:
                    return 0
                self._decoder = self._start()
            else:
                head = self._file.read(io.DEFAULT_BUFFER_SIZE) if self._decoder.needs_input else b""
                if self._decoder.needs_input and not head:
                    raise EOFError("unexpected end of data")
            data = self._decoder.decompress(head, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _start(self) -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=self._limits.max_bytes)


def _list_tar(path: str, wanted: Callable[[str], bool], limits: Limits) -> Iterator[Member]:
    compression = _compression(path)
    max_offset = Path(path).stat().st_size * MAX_RATIO + FREE_BYTES if compression else sys.maxsize
    with _open_tar(path, compression, limits) as file:
        for info in _read_headers(file, max_offset):
            if info.isdir() or not wanted(info.name):
                continue
            if problem := _problem(info, limits):
                yield Member(info.name, info.size, problem)
            elif compression is None:
                yield Member(info.name, info.size, offset=info.offset_data)
            else:
                data = file.read(info.size)
                if len(data) < info.size:
                    raise tarfile.ReadError("unexpected end of data")
                yield Member(info.name, info.size, data=data)


def _read_headers(file: IO[bytes], max_offset: int) -> Iterator[tarfile.TarInfo]:
    """Yield the header of each member of a tar, with the file positioned at the member's first byte."""
    while True:
        header = _Bounded(file, HEADER_BYTES, f"it has a header of more than {HEADER_BYTES} bytes")
        # A TarFile keeps every header that it has read in memory, so each header gets its own TarFile.
        with tarfile.open(fileobj=cast(IO[bytes], header), mode="r:", tarinfo=_Header) as archive:
            info = archive.next()
        if info is None:
            return
        if info.size < 0:
            raise tarfile.ReadError("a member has a negative size")
        if archive.offset > max_offset:
            raise tarfile.ReadError(f"it unpacks to more than {MAX_RATIO} times its size")
        yield info
        position = file.tell()
        if archive.offset < position:
            raise tarfile.ReadError("members overlap")
        if archive.offset > position:
            file.seek(archive.offset - 1)
            if not file.read(1):
                raise tarfile.ReadError("unexpected end of data")


def _problem(info: tarfile.TarInfo, limits: Limits) -> str | None:
    """Return the reason why a member cannot be read, or None if it can."""
    if not info.isreg() or info.issparse():
        return "it is a link, a device or a sparse file in an archive"
    try:
        limits.check_bytes(info.size)
    except ImageError as error:
        return str(error)
    return None


def _list_zip(path: str, wanted: Callable[[str], bool], limits: Limits) -> Iterator[Member]:
    for index, info in enumerate(_open_zip(path, limits).infolist()):
        if not info.is_dir() and wanted(info.filename):
            yield Member(info.filename, info.file_size, index=index)


def _open_zip(path: str, limits: Limits) -> zipfile.ZipFile:
    file = Path(path).open("rb")  # noqa: SIM115 — closed with the archive
    max_bytes = limits.max_listing_bytes // DIRECTORY_COST
    bounded = _Bounded(file, max_bytes, f"its directory is larger than {max_bytes} bytes; split the archive")
    try:
        archive = zipfile.ZipFile(cast(IO[bytes], bounded))
    except BaseException:
        file.close()
        raise
    bounded.left = sys.maxsize  # the directory has been read; `read_zipped` limits the members
    weakref.finalize(archive, file.close)
    return archive


@lru_cache(maxsize=4)
def _reopen_zip(path: str, mtime_ns: int, limits: Limits) -> zipfile.ZipFile:  # noqa: ARG001 — part of the cache key
    return _open_zip(path, limits)


def _compression(path: str) -> str | None:
    """Return the compression of a tar, detected from its content, or None for a plain tar."""
    with Path(path).open("rb") as file:
        head = file.read(8)
    return next((name for start, name in _COMPRESSIONS.items() if head.startswith(start)), None)


def _open_tar(path: str, compression: str | None, limits: Limits) -> IO[bytes]:
    match compression:
        case "gzip":
            return cast(IO[bytes], gzip.open(path))
        case "bzip2":
            return cast(IO[bytes], bz2.open(path))
        case "xz":
            return io.BufferedReader(_Xz(Path(path).open("rb"), limits))
        case _:
            return Path(path).open("rb")


def _check_unchanged(found: os.stat_result, mtime_ns: int) -> None:
    if found.st_mtime_ns != mtime_ns:
        raise ImageError("its archive has changed since it was listed")
