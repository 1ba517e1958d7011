"""Sources of pictures: files, folders, tar and zip archives, `.txt` lists of paths, glob patterns, and URLs.

`walk` lists the picture files of sources lazily and always in the same order. Each file is an `Entry`, which can be
read in another process. Hidden files are ignored. Links are followed, optionally only into some folders, and each
folder is visited once, even if several links point to it. `urls` has the functions that contact other machines.
"""

import errno
import fnmatch
import glob
import importlib.util
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Self, TypeAlias

from lookalike.errors import ImageError, InputError, MissingError, SourceError
from lookalike.images import archives, urls
from lookalike.images.files import LIMITS, Limits, check_regular, describe_error, read_bytes
from lookalike.types import Ids

HEIC_SUFFIXES = frozenset((".heic", ".heif"))
_RAW = "3fr arw cr2 cr3 crw dcr dng erf iiq kdc mef mos mrw nef nrw orf pef raf raw rw2 rwl sr2 srf srw x3f"
RAW_SUFFIXES = frozenset(f".{kind}" for kind in _RAW.split())
SUFFIXES = HEIC_SUFFIXES | RAW_SUFFIXES | {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp", ".avif"
}  # fmt: skip
"""Extensions of picture files. A file that is given by its own path can have any extension."""

EXTRAS = {"heic": ("pillow_heif", HEIC_SUFFIXES), "raw": ("rawpy", RAW_SUFFIXES)}
"""The optional dependencies of this package that read more types: their module, and the extensions."""

_NOT_PICTURES = frozenset((".aae", ".dop", ".pp3", ".thm", ".xmp"))
_SYSTEM_FILES = frozenset(("desktop.ini", "ehthumbs.db", "icon\r", "thumbs.db"))
"""Sidecar files of pictures, by extension, and files of operating systems, by name: they are never pictures."""

SEPARATOR = "::"
"""Separates an archive's path from the name of a member."""

MAX_LINE = 2**16
"""Maximum length of a line in a list of files, in bytes."""

OnSkip: TypeAlias = Callable[[str, str], None]
"""`on_skip(path, reason)`: called for each file or folder that exists but cannot be listed."""

OnOtherFile: TypeAlias = Callable[[str], None]
"""`on_other(path)`: called for each file of a type that is not read, except sidecar, system and hidden files."""

Within: TypeAlias = Sequence[str] | None
"""Real paths of the folders that links can point into; None for anywhere."""

OUTSIDE = "it is a link that points outside the allowed folders"
DELETED = "it no longer exists"

MEMBER_COST = 400
"""Bytes of memory per member of an archive, without its name: an `Entry` and its slots in a set and in a dict."""

FOLDERS_CACHED = 10_000
"""Number of folders whose source is cached: files of one folder usually follow each other."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that may be a picture, with the size and modification time that show whether it has changed."""

    path: str  # absolute, or a URL; a member of an archive is "/photos/old.zip::1999/beach.jpg"
    size: int
    mtime_ns: int  # for a member, that of the archive
    archive: str | None = None
    offset: int | None = None
    index: int | None = None
    data: bytes | None = field(default=None, repr=False, compare=False)
    known: Ids | None = field(default=None, repr=False, compare=False)  # a file with one of these ids is not decoded

    def bare(self) -> Self:
        """Return the entry without the data and the known ids, which only its reader needs."""
        return replace(self, data=None, known=None)

    def read(self, limits: Limits = LIMITS) -> bytes:
        """Return the file's bytes. Raises ImageError with the reason if they cannot be read."""
        limits.check_bytes(self.size)
        if self.data is not None:
            return self.data
        if urls.is_url(self.path):
            return urls.read(self.path, limits)
        try:
            if self.archive is None:
                return read_bytes(self.path, limits)
            if self.offset is not None:
                return archives.read_slice(self.archive, self.mtime_ns, self.offset, self.size)
            assert self.index is not None
            return archives.read_zipped(self.archive, self.mtime_ns, self.index, limits)
        except ImageError:
            if not Path(self.archive or self.path).exists():
                raise ImageError(DELETED) from None
            raise


def missing_extras() -> dict[str, str]:
    """Return the types of pictures that need an extra which is not installed: extension → name of the extra."""
    missing = [(name, suffixes) for name, (module, suffixes) in EXTRAS.items() if not _is_installed(module)]
    return {suffix: name for name, suffixes in missing for suffix in suffixes}


@lru_cache
def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def ignore_other(path: str) -> None:
    """Ignore a file of another type: an `on_other` that does nothing."""


def walk(
    sources: Iterable[str | Path],
    *,
    on_skip: OnSkip,
    on_other: OnOtherFile = ignore_other,
    limits: Limits = LIMITS,
    within: Within = None,
) -> Iterator[Entry]:
    """Yield every picture file of the sources, folder by folder, sorted by name.

    Raises SourceError immediately if a source does not exist. Later errors, and links that point outside the folders
    `within`, are reported to `on_skip`. Files of types that are not read are reported to `on_other`.
    """
    walker = _Walker(on_skip, on_other, limits, within, frozenset(SUFFIXES - missing_extras().keys()))
    return walker.walk([_check_source(os.fspath(source)) for source in sources])


def locate(path: str | Path) -> Entry | None:
    """Return the entry of a file or of an archive's member, as `walk` yields it, or None if it does not exist.

    Raises ImageError with the reason if a host does not answer.
    """
    text = os.fspath(path)
    if urls.is_url(text):
        return _locate_url(absolute(text))
    found = _stat(text)
    if found is not None:
        return _entry(_absolute_in(text), found) if stat.S_ISREG(found.st_mode) else None
    outer, name = split_member(text)
    found = _stat(outer)
    if not name or found is None or not stat.S_ISREG(found.st_mode):
        return None
    archive = _absolute_in(outer)
    if archives.is_compressed_tar(archive):
        members = _walk_archive(archive, found.st_mtime_ns, _is_picture_member, ignore, LIMITS)
        return next((entry for entry in members if entry.path == f"{archive}{SEPARATOR}{name}"), None)
    return _contents(archive, found.st_mtime_ns).get(f"{archive}{SEPARATOR}{name}")


def _locate_url(url: str) -> Entry | None:
    try:
        found = urls.find(url)
    except SourceError as error:
        raise ImageError(str(error)) from None
    return None if found is None or found.is_folder else _url_entry(found)


def known_entry(path: str, size: int) -> Entry | None:
    """Return the entry of a known file of this size, like `locate`, but without a request for a URL."""
    return Entry(path, size, 0) if urls.is_url(path) else locate(path)


def split_member(path: str) -> tuple[str, str]:
    """Split the path of a member into archive and member; return the path and "" if it is not a member's path.

    >>> split_member("/photos/a::b/old.zip::1999/beach.jpg")
    ('/photos/a::b/old.zip', '1999/beach.jpg')
    """
    at = path.find(SEPARATOR)
    while at >= 0:
        if archives.is_archive(path[:at]):
            return path[:at], path[at + len(SEPARATOR) :]
        at = path.find(SEPARATOR, at + 1)
    return path, ""


def leads_inside(path: str, within: Within) -> bool:
    """Whether the real path of `path` is one of these folders or inside one.

    >>> leads_inside("/photos/1999/../1998", ["/photos"]), leads_inside("/photos-2", ["/photos"])
    (True, False)
    """
    if within is None:
        return True
    if urls.is_url(path):
        return any(is_under(path, url) for url in within)
    real = os.path.realpath(path)
    return any(real == folder or real.startswith(folder.rstrip("/") + "/") for folder in within)


def absolute(path: str | Path) -> str:
    """Return the absolute path, without `~` and `..`, or the URL.

    >>> absolute("/photos/../music")
    '/music'
    """
    if not isinstance(path, str | Path):
        raise InputError(f"A path must be text or a Path. Got {path!r:.80}.")
    if "\0" in str(path):
        raise InputError(f"A path cannot contain a null character. Got {path!r:.80}.")
    return urls.check(str(path)) if urls.is_url(path) else os.path.abspath(os.path.expanduser(path))


def root_of(source: str) -> str:
    """Return the path that contains a source's files: the source, or the folder before a pattern's first wildcard."""
    if urls.is_url(source) or not glob.has_magic(source) or os.path.lexists(source):
        return source
    parts = source.split("/")
    return "/".join(parts[: next(i for i, part in enumerate(parts) if glob.has_magic(part))]) or "/"


def is_list(source: str) -> bool:
    """Whether a source that is a file is a list of paths."""
    path = source.partition("?")[0] if urls.is_url(source) else source
    return path.lower().endswith(".txt")


def has_files(source: str) -> bool:
    """Whether a source can be listed: it exists or, for a pattern, at least one file matches."""
    try:
        walk([source], on_skip=ignore)
    except (SourceError, MissingError):
        return False
    return True


def ignore(path: str, reason: str) -> None:
    """Ignore a skipped file: an `on_skip` that does nothing."""


def exists(path: str) -> bool:
    """Whether a file exists or, for a member, its archive. A URL that does not answer does not count."""
    if urls.is_url(path):
        return describe_url(path) is None
    return os.path.lexists(path) or os.path.lexists(split_member(path)[0])


def describe_url(url: str) -> str | None:
    """Return the reason why there is no file or folder at a URL, as a sentence; None if there is one."""
    try:
        return None if urls.find(url) is not None else f"{url} does not exist."
    except (SourceError, MissingError) as error:
        return f"Cannot read {url}: {error}."


def is_url(path: object) -> bool:
    """Whether a source or a path is a URL."""
    return urls.is_url(path)


def is_under(path: str, root: str) -> bool:
    """Whether a path is this root or inside it."""
    return path == root or path.startswith((root.rstrip("/") + "/", root + SEPARATOR))


def folder_has_files(path: str) -> bool:
    """Whether the folder of a missing file has other files, which shows that its disk is mounted."""
    if urls.is_url(path):
        return True  # a server that does not answer does not report missing files
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def is_missing(path: str, mtime_ns: int) -> bool:
    """Whether a known file no longer exists. A member counts as missing if its archive has changed."""
    archive, member = split_member(path)
    for file in (path, archive):
        try:
            stat = os.stat(file)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return error.errno == errno.ENAMETOOLONG and not os.path.lexists(archive)  # an unreadable file exists
        return bool(member) and file == archive and stat.st_mtime_ns != mtime_ns
    return True


def relative_to(sources: Iterable[str]) -> Callable[[str], str]:
    """Return a function that makes paths relative to the outermost source that contains them.

    For a path outside all sources, it returns the file name.

    >>> relative = relative_to(["/home/me/Pictures", "/home/me/Pictures/2024", "/data/old.zip"])
    >>> relative("/home/me/Pictures/2024/a.jpg"), relative("/data/old.zip::1999/b.jpg"), relative("/home/me/c.jpg")
    ('Pictures/2024/a.jpg', 'old.zip::1999/b.jpg', 'c.jpg')
    """
    roots = {root_of(source).rstrip("/") for source in sources}

    @lru_cache(FOLDERS_CACHED)
    def start(folder: str) -> int:
        """Return the position at which the relative path of a file in this folder starts."""
        position = len(folder) + 1
        while True:
            if folder in roots:
                position = folder.rfind("/") + 1
            if not folder:
                return position
            folder = folder.rpartition("/")[0]

    def relative(path: str) -> str:
        file, member = split_member(path)
        folder, slash, _ = file.rpartition("/")
        shown = file[start(folder) :].lstrip("/") if slash else file
        if urls.is_url(path):
            shown = shown.partition("?")[0]  # the query of a signed URL is secret
        return shown + (SEPARATOR + member if member else "")

    return relative


def outermost(sources: Iterable[str]) -> list[str]:
    """Return the roots of the sources that are not in the root of another source; "" for the whole file system."""
    roots = {root_of(source).rstrip("/") for source in sources}
    parents = {root: [root[:at] for at, letter in enumerate(root) if letter == "/"] for root in roots}
    return sorted(root for root, above in parents.items() if not roots.intersection(above))


def folders_named(name: str, sources: Iterable[str]) -> list[str]:
    """Return the absolute folders of this name, which is absolute, a URL or relative to the outermost source.

    >>> folders_named("Pictures/2024", ["/home/me/Pictures", "/home/me/Pictures/2024", "/mnt/Pictures"])
    ['/home/me/Pictures/2024', '/mnt/Pictures/2024']
    """
    if name.startswith("/") or urls.is_url(name):
        return [name.rstrip("/")]
    name = name.rstrip("/")
    starts = {root: root.rpartition("/")[2] for root in outermost(sources)}
    return [
        f"{root.removesuffix(start)}{name}" if root else f"/{name}"
        for root, start in starts.items()
        if not root or name == start or name.startswith((f"{start}/", f"{start}{SEPARATOR}"))
    ]


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches relative paths, or ends of them, with a glob, by the rules of `Filter.path`."""
    globs = {pattern.replace("[^", "[!"), pattern.replace("[", "[[]")}
    prefixes = ("",) if pattern.startswith("*") else ("", "*/", f"*{SEPARATOR}")
    alternatives = (fnmatch.translate(prefix + glob) for prefix in prefixes for glob in globs)
    match = re.compile("|".join(alternatives)).match
    return lambda path: match(path) is not None


def _check_source(source: str) -> str:
    """Return the absolute path or pattern of a source. Raises SourceError if it does not exist."""
    if urls.is_url(source):
        return _check_url(source)
    path = _absolute_in(source)
    if os.path.lexists(path):
        return path
    if glob.has_magic(path):
        if not any(map(_is_supported, _match_pattern(path, ignore))):
            raise SourceError(f"No picture or archive matches the pattern {source!r}.")
        return path
    if locate(source) is None:
        raise SourceError(f"{source!r} does not exist. Relative paths are relative to {_absolute_in('')!r}.")
    return source


def _check_url(source: str) -> str:
    """Return the URL of a source. Raises SourceError if there is nothing that can be listed."""
    url = urls.check(source)
    if archives.is_archive(url):
        raise SourceError(f"{url} is an archive. Archives at URLs are not supported: download it, then add the file.")
    if problem := describe_url(url):
        raise SourceError(problem)
    return url


@dataclass(frozen=True)
class _Walker:
    """One walk over some sources; `suffixes` are the extensions of pictures that can be read here."""

    on_skip: OnSkip
    on_other: OnOtherFile
    limits: Limits
    within: Within
    suffixes: frozenset[str]

    def walk(self, paths: list[str]) -> Iterator[Entry]:
        for path in paths:
            if urls.is_url(path):
                yield from self._walk_url(path, self.within)
            elif _stat(path) is None and glob.has_magic(path):
                for match in _match_pattern(path, self.on_skip):
                    if self._is_picture(match) or archives.is_archive(match):
                        yield from self._walk_one(match, self.within)
            else:
                yield from self._walk_one(path, self.within)

    def _walk_one(self, path: str, within: Within, *, listed: bool = False) -> Iterator[Entry]:
        """Yield the entries of a source that is not a pattern. `listed`: it is from a list, so it cannot be a list."""
        if urls.is_url(path):
            yield from self._walk_url(path, within, listed=listed)
            return
        found = _stat(path)
        kind = 0 if found is None else stat.S_IFMT(found.st_mode)
        if not leads_inside(split_member(path)[0] if found is None else path, within):
            self.on_skip(path, OUTSIDE)
        elif kind == stat.S_IFDIR:
            yield from self._walk_folder(path, within)
        elif found is not None and kind == stat.S_IFREG and archives.is_archive(path):
            is_picture = partial(self._is_picture_member, path)
            yield from _walk_archive(path, found.st_mtime_ns, is_picture, self.on_skip, self.limits)
        elif kind == stat.S_IFREG and is_list(path) and not listed:
            for line in _read_lines(path, self.on_skip):
                allowed = None if within is None else [*within, line]  # the user listed this path explicitly
                yield from self._walk_one(line, allowed, listed=True)
        elif entry := _take(path, self.on_skip):
            yield entry

    def _walk_url(self, url: str, within: Within, *, listed: bool = False) -> Iterator[Entry]:
        """Yield the entries at a URL: a file, the files in a folder, or those of a list."""
        try:
            url = urls.check(url)
            if not leads_inside(url, within):
                self.on_skip(url, OUTSIDE)
            elif is_list(url) and not listed:
                for line in urls.read_list(url):
                    yield from self._walk_url(line, None, listed=True)
            elif (found := urls.find(url)) is None:
                self.on_skip(url, DELETED)
            elif found.is_folder:
                for file in urls.walk(url):
                    if self._is_picture(file.url):
                        yield from self._take_url(file)
            else:
                yield from self._take_url(found)
        except (SourceError, MissingError, InputError) as error:
            self.on_skip(urls.without_login(url), str(error))

    def _take_url(self, found: urls.Found) -> Iterator[Entry]:
        try:
            yield _url_entry(found)
        except ImageError as error:
            self.on_skip(found.url, str(error))

    def _walk_folder(self, path: str, within: Within) -> Iterator[Entry]:
        for _, files in _walk_folders(path, self.on_skip, within):
            for file in files:
                if not self._is_picture(file.path):
                    continue
                if file.is_symlink() and not leads_inside(file.path, within):
                    self.on_skip(file.path, OUTSIDE)
                elif entry := _take(file.path, self.on_skip):
                    yield entry

    def _is_picture(self, path: str) -> bool:
        """Whether a file has the extension of a picture. Other files are reported to `on_other`."""
        suffix = _suffix(path)
        if suffix in self.suffixes:
            return True
        if suffix not in _NOT_PICTURES and path[path.rfind("/") + 1 :].lower() not in _SYSTEM_FILES:
            self.on_other(path)
        return False

    def _is_picture_member(self, archive: str, name: str) -> bool:
        return _is_visible_member(name) and self._is_picture(f"{archive}{SEPARATOR}{name}")


def _take(path: str, on_skip: OnSkip) -> Entry | None:
    """Return the entry of one file or of one member of an archive, or report the error to `on_skip`."""
    try:
        found = os.stat(path)
        check_regular(found)
        return _entry(path, found)
    except (OSError, ValueError, ImageError) as error:
        member = locate(path)
        if member is None:
            on_skip(path, _describe_error(path, error))
        return member


def _url_entry(found: urls.Found) -> Entry:
    if found.size is None:
        raise ImageError("the server does not send its size")
    return Entry(found.url, found.size, found.mtime_ns)


def _walk_folders(root: str, on_skip: OnSkip, within: Within = None) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Yield every folder under the root, including the root, with its files.

    Linked folders come last, so a file with two paths is listed under its real path.
    """
    seen: set[tuple[int, int]] = set()
    folders, links = [root], list[str]()
    while folders or links:
        folder = folders.pop() if folders else links.pop(0)
        try:
            found = Path(folder).stat()
            if (found.st_dev, found.st_ino) in seen:
                continue
            seen.add((found.st_dev, found.st_ino))
            entries = _list(folder)
        except OSError as error:
            on_skip(folder, describe_error(error))
            continue
        below = [entry for entry in entries if _is_folder(entry)]
        for linked in (entry.path for entry in below if entry.is_symlink()):
            links.append(linked) if leads_inside(linked, within) else on_skip(linked, OUTSIDE)
        folders.extend(entry.path for entry in reversed(below) if not entry.is_symlink())
        yield folder, [entry for entry in entries if not _is_folder(entry)]


def _match_pattern(pattern: str, on_skip: OnSkip) -> Iterator[str]:
    """Yield each file that an absolute pattern matches, once; `**` matches any number of folders."""
    parts = _split_path(pattern)
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    seen = set()
    for path in _match_parts("/" + "/".join(parts[:fixed]), parts[fixed:], on_skip):
        if path not in seen:
            seen.add(path)
            yield path


def _split_path(path: str) -> list[str]:
    """Split a path into its names.

    >>> _split_path("/photos//./1999/beach.jpg")
    ['photos', '1999', 'beach.jpg']
    """
    return [part for part in path.split("/") if part not in ("", ".")]


def _match_parts(folder: str, parts: list[str], on_skip: OnSkip) -> Iterator[str]:
    head, rest = parts[0], parts[1:]
    if head == "**":
        for below, _ in _walk_folders(folder, on_skip):
            yield from _match_parts(below, rest or ["*"], on_skip)
        return
    try:
        entries = _list(folder, hidden=head.startswith("."))
    except OSError as error:
        on_skip(folder, describe_error(error))
        return
    for entry in entries:
        if fnmatch.fnmatchcase(entry.name, head) and _is_folder(entry) == bool(rest):
            if rest:
                yield from _match_parts(entry.path, rest, on_skip)
            else:
                yield entry.path


def _list(folder: str, *, hidden: bool = False) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        visible = (entry for entry in entries if hidden or not entry.name.startswith("."))
        return sorted(visible, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that points to itself
        return False


def _walk_archive(
    path: str, mtime_ns: int, is_picture: Callable[[str], bool], on_skip: OnSkip, limits: Limits
) -> Iterator[Entry]:
    seen: set[str] = set()
    n_bytes = 0
    try:
        for member in archives.list_members(path, is_picture, limits):
            name = f"{path}{SEPARATOR}{'/'.join(_split_path(member.name))}"
            n_bytes += sys.getsizeof(name) + MEMBER_COST
            if n_bytes > limits.max_listing_bytes:
                raise SourceError(
                    f"the list of its members needs more than {limits.max_listing_bytes} bytes of memory; "
                    f"only the first {len(seen)} were listed; split the archive"
                )
            problem = member.problem or ("its archive has an earlier member of the same name" if name in seen else None)
            seen.add(name)
            if problem is not None:
                on_skip(name, problem)
            else:
                yield Entry(name, member.size, mtime_ns, path, member.offset, member.index, member.data)
    except SourceError as error:
        on_skip(path, str(error))


def _read_lines(path: str, on_skip: OnSkip) -> Iterator[str]:
    """Yield the paths in a list, one per line. Relative paths are relative to the folder of the list."""
    try:
        with Path(path).open("rb") as file:
            for line in iter(lambda: file.readline(MAX_LINE), b""):
                name = os.fsdecode(line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n"))
                if name:
                    yield name if urls.is_url(name) else _absolute_in(name, Path(path).parent)
    except OSError as error:
        on_skip(path, describe_error(error))


@lru_cache(maxsize=2)
def _contents(archive: str, mtime_ns: int) -> dict[str, Entry]:
    """Return all entries of an archive by path; cached for callers that look up several members."""
    return {entry.path: entry for entry in _walk_archive(archive, mtime_ns, _is_picture_member, ignore, LIMITS)}


def _suffix(path: str) -> str:
    return path[path.rfind(".") :].lower()


def is_picture(path: str) -> bool:
    """Whether a file has the extension of a picture."""
    return _suffix(path) in SUFFIXES


def _is_supported(path: str) -> bool:
    """Whether a pattern includes this file, according to its extension."""
    return is_picture(path) or archives.is_archive(path)


def _is_picture_member(name: str) -> bool:
    return is_picture(name) and _is_visible_member(name)


def _is_visible_member(name: str) -> bool:
    """Whether a member's name is not that of a hidden file or of macOS metadata."""
    return "\0" not in name and not any(
        part == "__MACOSX" or (part.startswith(".") and part != "..") for part in _split_path(name)
    )


def _entry(path: str, found: os.stat_result) -> Entry:
    return Entry(path, found.st_size, min(found.st_mtime_ns, 2**63 - 1))  # times after 2262 exceed SQLite's 64 bits


def _absolute_in(path: str, folder: str | Path = "") -> str:
    return os.path.abspath(os.path.join(folder, path))  # Path would keep ".." or follow links


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _describe_error(path: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and Path(path).is_symlink():
        return "it is a broken link"
    return describe_error(error)
