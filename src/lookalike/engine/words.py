"""What people's words mean: ids and paths of pictures.

In: an id, a number of 16 hexadecimal digits, a path as somebody writes it. Out: items and paths of the catalogue.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from lookalike.errors import InputError
from lookalike.store.items import Items
from lookalike.types import parse_id


def absolute(path: str | Path) -> str:
    """A path as it can be found again from any directory.

    >>> absolute("/photos/../music")
    '/music'
    """
    if not isinstance(path, str | Path):
        raise InputError(f"A path must be text or a Path. Got {path!r:.80}.")
    return os.path.abspath(os.path.expanduser(path))


def find_item(items: Items, word: str) -> int | None:
    """The item that an id, or a path that is known, means; None where it means none."""
    item = parse_id(word)
    if item is not None and items.get([item]):
        return item
    path = absolute(word)
    seen = items.seen([path]).get(path)
    return None if seen is None else seen.item


def resolve(items: Items, words: Sequence[int | str | Path]) -> tuple[set[int], list[str]]:
    """The ids and the known paths that these words mean, a folder all below it; InputError for what means nothing."""
    ids: set[int] = set()
    paths: list[str] = []
    for word in words:
        item = word if isinstance(word, int) else parse_id(str(word))
        if item is not None and items.get([item]):
            ids.add(item)
            continue
        path = absolute(str(word))
        under = [] if isinstance(word, int) else [known for known, _ in items.paths_under(path)]
        if not under and path not in items.sources():
            raise InputError(f"Nothing in the collection is named {str(word)!r}.")
        paths += under
    return ids, paths
