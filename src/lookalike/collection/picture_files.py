"""Write pictures of a collection to a folder, as copies or as links."""

import os
from collections.abc import Sequence
from pathlib import Path

from lookalike.atomic_files import write_errors
from lookalike.collection.resolve import ITEMS_BATCH, read_item
from lookalike.errors import ImageError, InputError
from lookalike.store.directory import Store
from lookalike.store.items import Item
from lookalike.types import Progress


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
                _write(store, item, target, link)
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
