"""Names of files and counts of things as text that can be shown anywhere.

In: any path, also one with undecodable bytes, control characters or of great length; a count. Out: one printable line.
"""

import os
from pathlib import Path


def printable(text: str) -> str:
    r"""The same text with whatever is not printable written as an escape: no name can move the cursor or break a line.

    >>> printable("a\udcffb\n")
    'a\\udcffb\\n'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def many(n: int, one: str, several: str | None = None) -> str:
    """A count and what is counted, as the page's `many` says it.

    >>> many(1, "group"), many(2_000, "picture"), many(0, "class", "classes")
    ('1 group', '2,000 pictures', '0 classes')
    """
    return f"{n:,} {one if n == 1 else several or one + 's'}"


def shorten(path: str | None, width: int | None = None) -> str:
    """A path as short as it stays clear: seen from the current directory or from home; its end, if `width` is less.

    >>> shorten("/data/holiday/beach/0001.jpg", width=16)
    '…/beach/0001.jpg'
    """
    if path is None:
        return "(no path)"
    for folder, short in ((_here(), ""), (Path(os.path.expanduser("~")), "~/")):
        if folder is not None and path.startswith(f"{folder}/"):
            path = short + path.removeprefix(f"{folder}/")
            break
    text = printable(path)
    return text if width is None or len(text) <= width else "…" + text[len(text) - max(width, 2) + 1 :]


def _here() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # somebody removed the directory we stand in
        return None
