"""Folders, archives, lists and patterns in, picture files out.

In: paths of folders, files, tar and zip archives, `.txt` lists of paths, glob patterns. Out: one `Entry` per picture,
lazily and always in the same order, each ready to be read in another process.
"""

import glob
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from lookalike.errors import ImageError, SourceError
from lookalike.images import archives
from lookalike.images.files import LIMITS, Limits, check_regular, explain, read_bytes
from lookalike.images.folders import OUTSIDE, OnSkip, Within, leads_inside, match_pattern, split_path, walk_folders

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp", ".heic", ".heif", ".avif")
)
"""Endings of picture files: what is taken from folders and archives. A file that is named outright is tried anyway."""

SEPARATOR = "::"
"""Between an archive's path and the name of a member."""

MAX_LINE = 2**16
"""Bytes of a line in a list of files."""

MEMBER_COST = 400
"""Memory in bytes that a member of an archive takes, besides its name: an `Entry`, a place in a set and in a dict."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that may be a picture: where it is, and what tells whether it has changed since."""

    path: str  # absolute; a member of an archive is "/photos/old.zip::1999/beach.jpg"
    size: int
    mtime_ns: int  # a member has its archive's
    archive: str | None = None
    offset: int | None = None
    index: int | None = None
    data: bytes | None = field(default=None, repr=False, compare=False)

    def read(self, limits: Limits = LIMITS) -> bytes:
        """The file's bytes. Raises ImageError with the reason why not."""
        limits.check_bytes(self.size)
        if self.data is not None:
            return self.data
        try:
            if self.archive is None:
                return read_bytes(self.path, limits)
            if self.offset is not None:
                return archives.read_slice(self.archive, self.mtime_ns, self.offset, self.size)
            assert self.index is not None
            return archives.read_zipped(self.archive, self.mtime_ns, self.index, limits)
        except ImageError:
            if not Path(self.archive or self.path).exists():
                raise ImageError("vanished since it was listed") from None
            raise


def walk(
    sources: Iterable[str | Path], *, on_skip: OnSkip, limits: Limits = LIMITS, within: Within = None
) -> Iterator[Entry]:
    """Every picture file of the sources, folder by folder in the order of names.

    Hidden files are left out, links are followed and each folder is visited once; a link that leads out of `within`,
    where that is given, goes to `on_skip`. Raises SourceError at once for a source that does not exist; whatever goes
    wrong later goes to `on_skip`, too.
    """
    return _walk([_check_source(os.fspath(source)) for source in sources], on_skip, limits, within)


def locate(path: str | Path) -> Entry | None:
    """The entry of a path as `walk` gave it, if the file or the archive's member is there."""
    text = os.fspath(path)
    found = _stat(text)
    if found is not None:
        return _entry(_absolute(text), found) if stat.S_ISREG(found.st_mode) else None
    outer, name = split_member(text)
    found = _stat(outer)
    if not name or found is None or not stat.S_ISREG(found.st_mode):
        return None
    archive = _absolute(outer)
    if archives.is_compressed_tar(archive):
        members = _walk_archive(archive, found.st_mtime_ns, _ignore, LIMITS)
        return next((entry for entry in members if entry.path == f"{archive}{SEPARATOR}{name}"), None)
    return _contents(archive, found.st_mtime_ns).get(f"{archive}{SEPARATOR}{name}")


def split_member(path: str) -> tuple[str, str]:
    """The archive and the member that a path names; the path itself and nothing where it is no member's.

    >>> split_member("/photos/a::b/old.zip::1999/beach.jpg")
    ('/photos/a::b/old.zip', '1999/beach.jpg')
    """
    at = path.find(SEPARATOR)
    while at >= 0:
        if archives.is_archive(path[:at]):
            return path[:at], path[at + len(SEPARATOR) :]
        at = path.find(SEPARATOR, at + 1)
    return path, ""


def _check_source(source: str) -> str:
    """The source's absolute path, or pattern."""
    path = _absolute(source)
    if os.path.lexists(path):
        return path
    if glob.has_magic(path):
        if not any(map(_is_taken, match_pattern(path, _ignore))):
            raise SourceError(f"No picture and no archive matches the pattern {source!r}.")
        return path
    if locate(source) is None:
        raise SourceError(f"There is no file or folder {source!r}. Relative names count from {_absolute('')!r}.")
    return source


def _walk(paths: list[str], on_skip: OnSkip, limits: Limits, within: Within) -> Iterator[Entry]:
    for path in paths:
        if _stat(path) is None and glob.has_magic(path):
            for match in filter(_is_taken, match_pattern(path, on_skip)):
                yield from _walk_one(match, on_skip, limits, within)
        else:
            yield from _walk_one(path, on_skip, limits, within)


def _walk_one(path: str, on_skip: OnSkip, limits: Limits, within: Within, *, listed: bool = False) -> Iterator[Entry]:
    """A source that is no pattern; in a list, another list is a file like others."""
    found = _stat(path)
    kind = 0 if found is None else stat.S_IFMT(found.st_mode)
    if not leads_inside(split_member(path)[0] if found is None else path, within):
        on_skip(path, OUTSIDE)
    elif kind == stat.S_IFDIR:
        for _, files in walk_folders(path, on_skip, within):
            for file in files:
                if not _is_picture(file.name):
                    continue
                if file.is_symlink() and not leads_inside(file.path, within):
                    on_skip(file.path, OUTSIDE)
                elif entry := _take(file.path, on_skip):
                    yield entry
    elif found is not None and kind == stat.S_IFREG and archives.is_archive(path):
        yield from _walk_archive(path, found.st_mtime_ns, on_skip, limits)
    elif kind == stat.S_IFREG and path.lower().endswith(".txt") and not listed:
        for line in _read_lines(path, on_skip):
            allowed = None if within is None else [*within, line]  # what a list names was asked for, without links
            yield from _walk_one(line, on_skip, limits, allowed, listed=True)
    elif entry := _take(path, on_skip):
        yield entry


def _take(path: str, on_skip: OnSkip) -> Entry | None:
    """One file, or one member of an archive."""
    try:
        found = os.stat(path)
        check_regular(found)
        return _entry(path, found)
    except (OSError, ValueError, ImageError) as error:
        member = locate(path)
        if member is None:
            on_skip(path, _explain(path, error))
        return member


def _walk_archive(path: str, mtime_ns: int, on_skip: OnSkip, limits: Limits) -> Iterator[Entry]:
    met: set[str] = set()
    n_bytes = 0
    try:
        for member in archives.list_members(path, _is_wanted, limits):
            name = f"{path}{SEPARATOR}{'/'.join(split_path(member.name))}"
            n_bytes += sys.getsizeof(name) + MEMBER_COST
            if n_bytes > limits.max_listing_bytes:
                raise SourceError(
                    f"the list of its members takes more than {limits.max_listing_bytes} bytes of memory; "
                    f"only the first {len(met)} were listed. Split the archive"
                )
            problem = member.problem or ("a second member of the same name" if name in met else None)
            met.add(name)
            if problem is not None:
                on_skip(name, problem)
            else:
                yield Entry(name, member.size, mtime_ns, path, member.offset, member.index, member.data)
    except SourceError as error:
        on_skip(path, str(error))


def _read_lines(path: str, on_skip: OnSkip) -> Iterator[str]:
    """The paths in a list, one a line; relative ones count from the list's own folder."""
    try:
        with Path(path).open("rb") as file:
            for line in iter(lambda: file.readline(MAX_LINE), b""):
                name = os.fsdecode(line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n"))
                if name:
                    yield _absolute(name, Path(path).parent)
    except OSError as error:
        on_skip(path, explain(error))


@lru_cache(maxsize=2)
def _contents(archive: str, mtime_ns: int) -> dict[str, Entry]:
    """A whole archive by path, for those who look up one member after the other."""
    return {entry.path: entry for entry in _walk_archive(archive, mtime_ns, _ignore, LIMITS)}


def _is_picture(path: str) -> bool:
    return path[path.rfind(".") :].lower() in SUFFIXES


def _is_taken(path: str) -> bool:
    """Whether a pattern takes this file, going by its name."""
    return _is_picture(path) or archives.is_archive(path)


def _is_wanted(name: str) -> bool:
    """Whether a member of an archive is a picture, going by its name, and neither hidden nor a Mac's shadow of one."""
    return (
        _is_picture(name)
        and "\0" not in name
        and not any(part == "__MACOSX" or (part.startswith(".") and part != "..") for part in split_path(name))
    )


def _entry(path: str, found: os.stat_result) -> Entry:
    return Entry(path, found.st_size, min(found.st_mtime_ns, 2**63 - 1))  # some clocks are centuries ahead


def _absolute(path: str, folder: str | Path = "") -> str:
    return os.path.abspath(os.path.join(folder, path))  # Path would keep "..", or follow links


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _explain(path: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and Path(path).is_symlink():
        return "a link to nothing"
    return explain(error)


def _ignore(path: str, reason: str) -> None:
    """An `on_skip` for those who only look."""
