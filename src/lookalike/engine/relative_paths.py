"""Paths relative to the source they were added from, for clients that may not see absolute paths.

In: the sources of a collection, and paths or patterns. Out: the name of the source and what is below it: a file of the
source /home/me/Pictures is Pictures/2024/a.jpg.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable

from lookalike.engine.presence import root_of
from lookalike.images.sources import SEPARATOR, split_member


def relative_to(sources: Iterable[str]) -> Callable[[str], str]:
    """A function that makes paths relative: to the outermost source that holds them, else only their last name is left.

    >>> relative = relative_to(["/home/me/Pictures", "/home/me/Pictures/2024", "/data/old.zip"])
    >>> relative("/home/me/Pictures/2024/a.jpg"), relative("/data/old.zip::1999/b.jpg"), relative("/home/me/c.jpg")
    ('Pictures/2024/a.jpg', 'old.zip::1999/b.jpg', 'c.jpg')
    """
    roots = {root_of(source).rstrip("/") for source in sources}

    def relative(path: str) -> str:
        file, member = split_member(path)
        start, folder = file.rfind("/") + 1, file
        while True:
            if folder in roots:
                start = folder.rfind("/") + 1
            if not folder:
                break
            folder = folder.rpartition("/")[0]
        return file[start:].lstrip("/") + (SEPARATOR + member if member else "")

    return relative


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a relative path matches a glob, as a whole or in a last part, by the rules of `Filter.path`."""
    globs = {pattern.replace("[^", "[!"), pattern.replace("[", "[[]")}
    alternatives = (fnmatch.translate(begin + glob) for begin in ("", "*/", f"*{SEPARATOR}") for glob in globs)
    match = re.compile("|".join(alternatives)).match
    return lambda path: match(path) is not None
