"""What a person names when they speak of classes: pictures, folders, hierarchies.

In: ids, paths, folders, files. Out: items of the collection, rows (n, d) of a space, pairs of child and parent.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lookalike.arrays import check_rows, to_numpy
from lookalike.engine.examples import Example, identity, listed, shown
from lookalike.engine.marks import origin
from lookalike.engine.spaces import Spaces
from lookalike.engine.words import absolute
from lookalike.errors import ImageError, InputError
from lookalike.images.sources import walk
from lookalike.store.directory import Store
from lookalike.types import Pixels, Progress, Vectors, silent

DESCRIBED = 16
"""Pictures from outside that are described at a time."""


class PictureRows(NamedTuple):
    """What can be classified."""

    examples: list[Example]
    X: Vectors  # (n, d)
    ids: list[int | None]  # of files and items


def pictures_of(store: Store, pictures: Example | Iterable[Example]) -> list[int]:
    """The items of a collection that are meant: by id, path or folder."""
    items: dict[int, None] = {}
    for example in listed(pictures):
        if isinstance(example, str | Path) and os.path.isdir(os.path.expanduser(example)):
            root = absolute(example)
            inside = [seen.item for _, seen in store.items.paths_under(root) if seen.item is not None]
            if not inside:
                raise InputError(f"No picture of the collection is in {example}. Add it first: lookalike add {example}")
            items.update(dict.fromkeys(inside))
            continue
        item = identity(store, example)
        if item is None or not store.items.get([item]):
            said = origin(example)
            raise InputError(f"{said} is not a picture of the collection. Add it first: lookalike add {said}")
        items[item] = None
    return list(items)


def files_in(pictures: Sequence[Example], on_skip: Callable[[str, str], None] | None = None) -> list[Example]:
    """The same with every picture file below a folder in its place."""
    found: list[Example] = []
    for example in pictures:
        if isinstance(example, str | Path) and os.path.isdir(os.path.expanduser(example)):
            inside = [entry.path for entry in walk([os.path.expanduser(example)], on_skip=on_skip or _stop)]
            if not inside:
                raise InputError(f"There is no picture in the folder {example}.")
            found += inside
        else:
            found.append(example)
    return found


def _stop(path: str, reason: str) -> None:
    raise ImageError(f"Cannot read {path}: {reason}.")


def rows_of(
    store: Store,
    spaces: Spaces,
    name: str,
    examples: Sequence[Example],
    on_skip: Callable[[str, str], None] | None = None,
    progress: Progress = silent,
) -> PictureRows:
    """Rows that classes of a space are told apart by. Known items cost a look-up; others are read and described.

    With `on_skip`, what cannot be read is told there, with the reason, and left out.
    """
    taught, chain = spaces.taught(name), spaces.chain(name)
    index, side = spaces.index(taught), spaces.side()
    known: list[tuple[Example, int | None]] = []
    rows: dict[int, Vectors] = {}  # by place
    images: dict[int, Pixels] = {}

    def describe() -> None:
        if images:
            X = chain.feature.extract(list(images.values()))
            rows.update(zip(images, chain.transform(X) if taught == name and chain.fitted else X, strict=True))
            images.clear()

    for number, example in enumerate(examples):
        progress("reading", number, len(examples))
        item = None
        try:
            if isinstance(example, np.ndarray) and example.ndim == 1:
                rows[len(known)] = to_numpy(check_rows(example[None, :], dim=index.dim, name="the example vector"))[0]
            else:
                item = identity(store, example)
                if item is not None and item in index:
                    rows[len(known)] = index.vectors(np.array([item]))[0]
                else:
                    images[len(known)] = shown(store, example, side)
        except (ImageError, InputError) as error:
            if on_skip is None:
                raise
            on_skip(origin(example), str(error))
            continue
        known.append((example, item))
        if len(images) >= DESCRIBED:
            describe()
    describe()
    progress("reading", len(examples), len(examples))
    X = np.stack([rows[place] for place in range(len(known))]) if known else np.empty((0, index.dim or 1), np.float32)
    return PictureRows([example for example, _ in known], X, [item for _, item in known])


def read_hierarchy(source: str | Path | Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(child, parent) each: of a CSV file, of nested folders, or as given; without circles."""
    from lookalike.classes.hierarchy import Hierarchy

    if not isinstance(source, str | Path):
        return Hierarchy(source).pairs
    path = Path(source).expanduser()
    if path.is_dir():
        return Hierarchy(_nested(path)).pairs
    try:
        pairs = Hierarchy.from_csv(path).pairs
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read a hierarchy from {source}: {error}.") from None
    if not pairs:
        raise InputError(
            f"{source} has no line of child,parent. To forget a hierarchy: lookalike classes hierarchy --clear"
        )
    return pairs


def _nested(folder: Path) -> list[tuple[str, str]]:
    """The folders below one, each a kind of the one that it is in."""
    root = os.path.abspath(folder)
    found = [(name, os.path.basename(top)) for top, names, _ in os.walk(root) for name in sorted(names) if top != root]
    if not found:
        raise InputError(f"There must be folders in folders below {folder}: their nesting is the hierarchy. Got none.")
    return found
