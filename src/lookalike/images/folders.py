"""A folder or a pattern in, files out.

In: the path of a folder, or a glob pattern. Out: its files, in the order of names; hidden ones are left out, links are
followed (where some folders are named, only into those), and a folder is visited once, however many links lead to it.
"""

import fnmatch
import glob
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from lookalike.images.files import explain

OnSkip: TypeAlias = Callable[[str, str], None]
"""`on_skip(path, reason)`: called for what is there but cannot be listed."""

Within: TypeAlias = Sequence[str] | None
"""Real folders that links may lead into; None: anywhere."""

OUTSIDE = "a link out of the folders that may be read"


def walk_folders(root: str, on_skip: OnSkip, within: Within = None) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Every folder under the root, itself included, with its files.

    Linked folders come last, so that a file that can be reached on two ways is listed under its real path.
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
            on_skip(folder, explain(error))
            continue
        below = [entry for entry in entries if _is_folder(entry)]
        for linked in (entry.path for entry in below if entry.is_symlink()):
            links.append(linked) if leads_inside(linked, within) else on_skip(linked, OUTSIDE)
        folders.extend(entry.path for entry in reversed(below) if not entry.is_symlink())
        yield folder, [entry for entry in entries if not _is_folder(entry)]


def match_pattern(pattern: str, on_skip: OnSkip) -> Iterator[str]:
    """The files that an absolute pattern matches, each once; `**` stands for any number of folders."""
    parts = split_path(pattern)
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    seen = set()
    for path in _match("/" + "/".join(parts[:fixed]), parts[fixed:], on_skip):
        if path not in seen:
            seen.add(path)
            yield path


def leads_inside(path: str, within: Within) -> bool:
    """Whether a path, all links followed, is in one of these folders, or is one.

    >>> leads_inside("/photos/1999/../1998", ["/photos"]), leads_inside("/photos-2", ["/photos"])
    (True, False)
    """
    if within is None:
        return True
    real = os.path.realpath(path)
    return any(real == folder or real.startswith(folder.rstrip("/") + "/") for folder in within)


def split_path(path: str) -> list[str]:
    """The names along a path.

    >>> split_path("/photos//./1999/beach.jpg")
    ['photos', '1999', 'beach.jpg']
    """
    return [part for part in path.split("/") if part not in ("", ".")]


def _match(folder: str, parts: list[str], on_skip: OnSkip) -> Iterator[str]:
    head, rest = parts[0], parts[1:]
    if head == "**":
        for below, _ in walk_folders(folder, on_skip):
            yield from _match(below, rest or ["*"], on_skip)
        return
    try:
        entries = _list(folder, hidden=head.startswith("."))
    except OSError as error:
        on_skip(folder, explain(error))
        return
    for entry in entries:
        if fnmatch.fnmatchcase(entry.name, head) and _is_folder(entry) == bool(rest):
            if rest:
                yield from _match(entry.path, rest, on_skip)
            else:
                yield entry.path


def _list(folder: str, *, hidden: bool = False) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        visible = (entry for entry in entries if hidden or not entry.name.startswith("."))
        return sorted(visible, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False
