"""A tar or zip archive in, its members out, without unpacking anything to disk.

In: the path of an archive. Out: one `Member` per file in it, lazily; members of a plain tar or of a zip say where their
bytes lie, those of a compressed tar carry them. Names are only ever text: absolute ones and `..` lead nowhere.
"""

import bz2
import gzip
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Self, cast

from lookalike.errors import ImageError, SourceError
from lookalike.images.files import Limits, explain

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz", ".tbz2", ".tar.xz", ".txz")

MAX_RATIO = 200
FREE_BYTES = 256 * 2**20
"""A compressed tar may unpack to so many times its size, plus this; pictures hardly shrink, bombs do."""

HEADER_BYTES = 2**20
"""A tar header with its long names; the standard sets no limit, and tarfile would hold all of it."""

_UNPACKERS: dict[bytes, Callable[[str], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
}


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive. `problem` says why it cannot be read; else exactly one of the last three is set."""

    name: str
    size: int
    problem: str | None = None
    offset: int | None = None  # of a plain tar: where the bytes begin
    index: int | None = None  # of a zip: number in its directory
    data: bytes | None = field(default=None, repr=False)


def is_archive(path: str) -> bool:
    """Whether a file's name is that of an archive."""
    return path.lower().endswith(SUFFIXES)


def is_compressed_tar(path: str) -> bool:
    """Whether this archive can only be read from its beginning."""
    return not path.lower().endswith(".zip") and _unpacker(path) is not None


def list_members(path: str, wanted: Callable[[str], bool], limits: Limits) -> Iterator[Member]:
    """The members whose name is wanted. Raises SourceError, also half-way, for an archive that is damaged."""
    try:
        if path.lower().endswith(".zip"):
            yield from _list_zip(path, wanted)
        elif unpack := _unpacker(path):
            yield from _list_compressed_tar(path, unpack, wanted, limits)
        else:
            yield from _list_tar(path, wanted)
    except (PermissionError, FileNotFoundError) as error:
        raise SourceError(explain(error)) from None
    except Exception as error:  # noqa: BLE001 — hostile bytes make unpackers raise anything at all
        raise SourceError(f"damaged archive: {str(error) or type(error).__name__}") from None


def read_slice(path: str, mtime_ns: int, offset: int, size: int) -> bytes:
    """A member of a plain tar."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_unchanged(os.fstat(file), mtime_ns)
            data = os.pread(file, size, offset)
        finally:
            os.close(file)
    except OSError as error:
        raise ImageError(explain(error)) from None
    if len(data) < size:
        raise ImageError("truncated: the archive ends before the picture does")
    return data


def read_zipped(path: str, mtime_ns: int, index: int, limits: Limits) -> bytes:
    """A member of a zip."""
    try:
        _check_unchanged(Path(path).stat(), mtime_ns)
        archive = _open_zip(path, mtime_ns)
        with archive.open(archive.infolist()[index]) as file:
            data = file.read(limits.max_bytes + 1)  # a size that lies is cut off by zipfile, and its checksum fails
    except OSError as error:
        raise ImageError(explain(error)) from None
    except ImageError:
        raise
    except Exception as error:  # noqa: BLE001 — as in list_members
        text = "encrypted" if "password" in str(error) else f"damaged in its archive: {error}"
        raise ImageError(text[:160]) from None
    limits.check_bytes(len(data))
    return data


class _Header(tarfile.TarInfo):
    """tarfile takes a damaged header for the end of the archive; we do not."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(f"{error} at byte {archive.offset}") from None


class _Meter:
    """A file that gives no more than it is allowed to: whoever asks for more has met a bomb."""

    def __init__(self, file: IO[bytes]):
        self.file = file
        self.left = HEADER_BYTES

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise tarfile.ReadError("a header of more than a million bytes")
        return data


def _list_tar(path: str, wanted: Callable[[str], bool]) -> Iterator[Member]:
    with tarfile.open(path, "r:", tarinfo=_Header) as archive:
        while (info := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # else every header stays in memory
            if wanted(info.name) and not info.isdir():
                problem = _problem(info)
                yield Member(info.name, info.size, problem, offset=None if problem else info.offset_data)


def _list_compressed_tar(
    path: str, unpack: Callable[[str], Any], wanted: Callable[[str], bool], limits: Limits
) -> Iterator[Member]:
    most = Path(path).stat().st_size * MAX_RATIO + FREE_BYTES
    with unpack(path) as file:
        meter = _Meter(file)
        with tarfile.open(fileobj=cast(IO[bytes], meter), mode="r|", tarinfo=_Header) as archive:
            while (info := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]
                if archive.offset > most:
                    raise tarfile.ReadError(f"it unpacks to more than {MAX_RATIO} times its size")
                meter.left = archive.offset - info.offset + 2 * HEADER_BYTES
                if wanted(info.name) and not info.isdir():
                    yield _carry(archive, info, limits)


def _carry(archive: tarfile.TarFile, info: tarfile.TarInfo, limits: Limits) -> Member:
    """A member with its bytes."""
    problem = _problem(info)
    try:
        limits.check_bytes(info.size)
    except ImageError as error:
        problem = str(error)
    file = None if problem else archive.extractfile(info)
    return Member(info.name, info.size, problem, data=None if file is None else file.read())


def _list_zip(path: str, wanted: Callable[[str], bool]) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        for index, info in enumerate(archive.infolist()):
            if wanted(info.filename) and not info.is_dir():
                yield Member(info.filename, info.file_size, index=index)


def _problem(info: tarfile.TarInfo) -> str | None:
    return None if info.isreg() and not info.issparse() else "a link, a device or a sparse file in an archive"


def _unpacker(path: str) -> Callable[[str], Any] | None:
    """What undoes the compression of this tar; content decides, not the name."""
    with Path(path).open("rb") as file:
        head = file.read(8)
    return next((unpack for start, unpack in _UNPACKERS.items() if head.startswith(start)), None)


@lru_cache(maxsize=4)
def _open_zip(path: str, mtime_ns: int) -> zipfile.ZipFile:  # noqa: ARG001 — a changed archive is opened anew
    return zipfile.ZipFile(path)


def _check_unchanged(found: os.stat_result, mtime_ns: int) -> None:
    if found.st_mtime_ns != mtime_ns:
        raise ImageError("the archive changed since it was listed")
