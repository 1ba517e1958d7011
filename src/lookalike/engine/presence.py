"""What has become of known files: there, gone, or only away.

In: known paths and sources. Out: yes or no, always in favour of keeping: a disk that is not mounted, a folder that
cannot be read or an archive that is being written must not cost a collection its pictures.
"""

import errno
import glob
import os

from lookalike.errors import SourceError
from lookalike.images.sources import SEPARATOR, split_member, walk


def root_of(source: str) -> str:
    """The path below which a source's files are: itself, or the folder before a pattern's first wildcard."""
    if not glob.has_magic(source) or os.path.lexists(source):
        return source
    parts = source.split("/")
    return "/".join(parts[: next(i for i, part in enumerate(parts) if glob.has_magic(part))]) or "/"


def has_files(source: str) -> bool:
    """Whether there is anything to list; a pattern may match nothing any more."""
    try:
        walk([source], on_skip=ignore)
    except SourceError:
        return False
    return True


def exists(path: str) -> bool:
    """Whether a file is there, or the archive that it is a member of."""
    return os.path.lexists(path) or os.path.lexists(split_member(path)[0])


def is_under(path: str, root: str) -> bool:
    """Whether a path is this one, or lies below it."""
    return path == root or path.startswith((root.rstrip("/") + "/", root + SEPARATOR))


def has_company(path: str) -> bool:
    """Whether there are other files in the folder of one that is gone: then its disk is there."""
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def is_gone(path: str, mtime_ns: int) -> bool:
    """Whether a known file is no more. A member of an archive is, when the archive was written anew without it."""
    archive, member = split_member(path)
    for file in (path, archive):
        try:
            stat = os.stat(file)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return error.errno == errno.ENAMETOOLONG and not os.path.lexists(archive)  # unreadable is not gone
        return bool(member) and file == archive and stat.st_mtime_ns != mtime_ns
    return True


def ignore(path: str, reason: str) -> None:
    """For those who only want to know whether a source is there."""
