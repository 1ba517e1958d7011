"""Paths: where the sources of a collection are, which known files still exist, and paths relative to a source.

All answers err on the side of keeping pictures: a disk that is not mounted, a folder that cannot be read or an archive
that is being written must not cost a collection its pictures.
"""

import errno
import fnmatch
import glob
import os
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain
from pathlib import Path

from lookalike.errors import InputError, SourceError
from lookalike.images.sources import SEPARATOR, split_member, walk
from lookalike.store.directory import Store

FOLDERS_CACHED = 10_000
"""Folders whose source is cached: files of one folder usually follow each other."""


def absolute(path: str | Path) -> str:
    """The absolute path, without `~` and `..`.

    >>> absolute("/photos/../music")
    '/music'
    """
    if not isinstance(path, str | Path):
        raise InputError(f"A path must be text or a Path. Got {path!r:.80}.")
    return os.path.abspath(os.path.expanduser(path))


def root_of(source: str) -> str:
    """The path that contains a source's files: the source itself, or the folder before a pattern's first wildcard."""
    if not glob.has_magic(source) or os.path.lexists(source):
        return source
    parts = source.split("/")
    return "/".join(parts[: next(i for i, part in enumerate(parts) if glob.has_magic(part))]) or "/"


def has_files(source: str) -> bool:
    """Whether a source can be listed; the files of a pattern may all be gone."""
    try:
        walk([source], on_skip=ignore)
    except SourceError:
        return False
    return True


def ignore(path: str, reason: str) -> None:
    """An `on_skip` that does nothing."""


def exists(path: str) -> bool:
    """Whether a file exists, or the archive that it is a member of."""
    return os.path.lexists(path) or os.path.lexists(split_member(path)[0])


def is_under(path: str, root: str) -> bool:
    """Whether a path is this root, or inside it."""
    return path == root or path.startswith((root.rstrip("/") + "/", root + SEPARATOR))


def folder_has_files(path: str) -> bool:
    """Whether the folder of a missing file has other files: then its disk is mounted."""
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def is_missing(path: str, mtime_ns: int) -> bool:
    """Whether a known file no longer exists. A member is missing if its archive was written again without it."""
    archive, member = split_member(path)
    for file in (path, archive):
        try:
            stat = os.stat(file)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return error.errno == errno.ENAMETOOLONG and not os.path.lexists(archive)  # unreadable is not missing
        return bool(member) and file == archive and stat.st_mtime_ns != mtime_ns
    return True


def find_problem(store: Store, source: str) -> str | None:
    """Why a source cannot be refreshed, None if it can. One that lost all files at once is taken for a missing disk."""
    root = root_of(source)
    known = store.items.paths_under(root)
    first = next(known, None)
    if not exists(root):
        found = f"{source} does not exist."
    elif first is not None and not any(exists(path) for path, _ in chain([first], known)):
        found = f"Every known file of {source} is missing: is its disk mounted?"
    else:
        return None
    return f"{found} Its pictures were kept; to remove them, run: lookalike remove {source}"


def relative_to(sources: Iterable[str]) -> Callable[[str], str]:
    """Return a function that makes paths relative to the outermost source that contains them.

    Of a path outside of all sources, only the last name is left.

    >>> relative = relative_to(["/home/me/Pictures", "/home/me/Pictures/2024", "/data/old.zip"])
    >>> relative("/home/me/Pictures/2024/a.jpg"), relative("/data/old.zip::1999/b.jpg"), relative("/home/me/c.jpg")
    ('Pictures/2024/a.jpg', 'old.zip::1999/b.jpg', 'c.jpg')
    """
    roots = {root_of(source).rstrip("/") for source in sources}

    @lru_cache(FOLDERS_CACHED)
    def start(folder: str) -> int:
        """The position at which the relative path of a file in this folder begins."""
        begin = len(folder) + 1
        while True:
            if folder in roots:
                begin = folder.rfind("/") + 1
            if not folder:
                return begin
            folder = folder.rpartition("/")[0]

    def relative(path: str) -> str:
        file, member = split_member(path)
        folder, slash, _ = file.rpartition("/")
        shown = file[start(folder) :].lstrip("/") if slash else file
        return shown + (SEPARATOR + member if member else "")

    return relative


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches a relative path, or an end of it, with a glob, by the rules of `Filter.path`."""
    globs = {pattern.replace("[^", "[!"), pattern.replace("[", "[[]")}
    begins = ("",) if pattern.startswith("*") else ("", "*/", f"*{SEPARATOR}")
    alternatives = (fnmatch.translate(begin + glob) for begin in begins for glob in globs)
    match = re.compile("|".join(alternatives)).match
    return lambda path: match(path) is not None
