"""Write pictures of a collection to a folder, as copies or as links, or to a zip."""

import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from lookalike.atomic_files import atomic_write, write_errors
from lookalike.collection.resolve import ITEMS_BATCH, read_item
from lookalike.errors import ImageError, InputError
from lookalike.store.directory import Store
from lookalike.store.items import Item
from lookalike.types import Progress

T = TypeVar("T", str, Path)


def check_new_folder(folder: Path) -> None:
    """Raise InputError unless a folder is empty or can be created."""
    if folder.is_dir():
        if any(folder.iterdir()):
            raise InputError(f"{folder} is not empty. Give a folder that is empty or does not exist yet.")
    elif folder.exists():
        raise InputError(f"{folder} is a file. Give a folder that is empty or does not exist yet.")


def write_pictures(
    store: Store, files: Sequence[tuple[int, Path]], *, link: bool = False, progress: Progress
) -> dict[str, str]:
    """Write each picture (item, path); return the reason for each path that could not be written.

    With `link`, a symbolic link leads to the original. A picture in an archive is copied, because it has no own file.
    """
    return _write_each(store, files, lambda item, target: _write(store, item, target, link), progress)


def zip_pictures(store: Store, files: Sequence[tuple[int, str]], target: Path, *, progress: Progress) -> dict[str, str]:
    """Write each picture (item, name) to a zip; return the reason for each name that could not be written.

    Pictures are not compressed, because their formats are.
    """
    with atomic_write(target) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        return _write_each(store, files, lambda item, name: archive.writestr(name, read_item(store, item)), progress)


def _write_each(
    store: Store, files: Sequence[tuple[int, T]], write: Callable[[Item, T], None], progress: Progress
) -> dict[str, str]:
    missing: dict[str, str] = {}
    for start in range(0, len(files), ITEMS_BATCH):
        batch = files[start : start + ITEMS_BATCH]
        items = store.items.get([item for item, _ in batch])
        for done, (number, target) in enumerate(batch, start):
            progress("writing pictures", done, len(files))
            item = items.get(number)
            try:
                if item is None:
                    raise ImageError("it is no longer in the collection")
                write(item, target)
            except ImageError as error:
                missing[str(target)] = str(error)
    progress("writing pictures", len(files), len(files))
    return missing


def _write(store: Store, item: Item, target: Path, link: bool) -> None:
    original = next((path for path in item.paths if _is_unchanged(path, item)), None) if link else None
    data = read_item(store, item) if original is None else b""
    with write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if original is None:
            target.write_bytes(data)
        else:
            target.symlink_to(original)


def _is_unchanged(path: str, item: Item) -> bool:
    """Whether a path is a file with the size of the item, rather than missing or in an archive."""
    return os.path.isfile(path) and os.path.getsize(path) == item.bytes
