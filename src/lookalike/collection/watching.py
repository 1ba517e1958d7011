"""Watching folders: wait for changes of picture files, with the package watchfiles (the extra `watch`)."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lookalike.errors import InputError, MissingError
from lookalike.images.sources import is_picture, is_under, is_url

QUIET_MS, MAX_MS = 500, 10_000
"""A group of changes ends after QUIET_MS without a change, or after MAX_MS."""

WAKE_MS = 1_000
"""Interval at which a stop request is noticed."""


def find_folders(sources: Sequence[str]) -> list[str]:
    """Return the sources that are existing folders on this machine; raises InputError if there is none."""
    folders = [source for source in sources if not is_url(source) and os.path.isdir(source)]
    if not folders:
        raise InputError("There is no folder to watch. Only folders that were added can be watched. Add one first.")
    return folders


def watch_folders(folders: Sequence[str], ignored: str | Path) -> Iterator[list[str]]:
    """Yield [] as soon as these folders are watched, then each group of changed paths, sorted.

    Hidden files and the folder `ignored` are left out.
    """
    try:
        import watchfiles
    except ImportError:
        raise MissingError(
            "Watching folders needs watchfiles. Install it with: pip install 'lookalike[watch]'"
        ) from None

    def wanted(_: object, path: str) -> bool:
        root = next((folder for folder in folders if is_under(path, folder)), "")
        hidden = any(part.startswith(".") for part in path[len(root) :].split("/"))
        return not hidden and not is_under(path, str(ignored))

    groups = watchfiles.watch(
        *folders,
        watch_filter=wanted,
        debounce=MAX_MS,
        step=QUIET_MS,
        rust_timeout=WAKE_MS,
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )
    next(groups, None)  # the folders are watched from now on
    yield []
    yield from (sorted(path for _, path in group) for group in groups if group)


def find_files(paths: Sequence[str]) -> list[str]:
    """Return the paths that are folders or picture files."""
    return [path for path in paths if os.path.isdir(path) or (os.path.isfile(path) and is_picture(path))]
