"""Paths relative to their source, for clients that may not see absolute paths.

In: the sources of a collection, and paths or patterns. Out: paths that begin with the name of the source: with the
source /home/me/Pictures, the file /home/me/Pictures/2024/a.jpg becomes Pictures/2024/a.jpg.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from lookalike.engine.presence import root_of
from lookalike.images.sources import SEPARATOR, split_member

FOLDERS = 10_000
"""Folders whose source is cached: files of one folder usually follow each other."""


def relative_to(sources: Iterable[str]) -> Callable[[str], str]:
    """Return a function that makes paths relative to the outermost source that contains them.

    Of a path outside of all sources, only the last name is left.

    >>> relative = relative_to(["/home/me/Pictures", "/home/me/Pictures/2024", "/data/old.zip"])
    >>> relative("/home/me/Pictures/2024/a.jpg"), relative("/data/old.zip::1999/b.jpg"), relative("/home/me/c.jpg")
    ('Pictures/2024/a.jpg', 'old.zip::1999/b.jpg', 'c.jpg')
    """
    roots = {root_of(source).rstrip("/") for source in sources}

    @lru_cache(FOLDERS)
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
