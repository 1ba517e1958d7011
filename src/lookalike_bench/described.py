"""The vectors of an image set by a recipe: made once a process, and kept between processes where a folder is given.

In: the name of a set, a recipe, the data folder. Out: `Rows`, out of a new collection. Kept rows are named by what made
them, the archive, the recipe and the code that reads and describes pictures: after a change they are made anew.
"""

import fcntl
import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import lookalike
from lookalike.collection import Collection
from lookalike.errors import InputError
from lookalike.images.sources import split_member
from lookalike.recipes import RECIPES
from lookalike.store.whole import whole
from lookalike.types import Progress, Vectors, silent
from lookalike_bench import datasets

CODE = ("encode", "features", "images")
"""The packages that a picture goes through on its way to a vector."""
Arrays: TypeAlias = dict[str, NDArray[Any]]
_FOLDER: ContextVar[Path | None] = ContextVar("folder", default=None)
_MADE: dict[tuple[Path, str, str], "Rows"] = {}


class Rows(NamedTuple):
    """A set as vectors. A picture that the set holds twice is two rows."""

    X: Vectors  # (n, d)
    labels: NDArray[np.str_]  # (n,)
    names: NDArray[np.str_]  # (n,) of the archive's members


@contextmanager
def keeping(folder: str | Path | None) -> Iterator[None]:
    """Within this block, what is described is kept in the folder, and taken from there; None: nothing is kept."""
    if folder is not None:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"Nothing can be kept in {folder}: {error.strerror}. Give another folder.") from None
    token = _FOLDER.set(None if folder is None else Path(folder))
    try:
        yield
    finally:
        _FOLDER.reset(token)


def describe(name: str, recipe: str, data: Path, progress: Progress = silent) -> Rows:
    """The set of this name below `data` by a recipe, its name or `"name = spec | spec"`, in a collection's order."""
    key = data, name, recipe
    if key not in _MADE:
        with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as scratch:
            dataset = datasets.pictures(name, data, Path(scratch))
            made = kept(dataset, RECIPES.get(recipe, [recipe]), lambda: _make(dataset, recipe, Path(scratch), progress))
        names = made["names"]
        _MADE[key] = Rows(made["X"], np.array([dataset.labels[one] for one in names.tolist()]), names)
    return _MADE[key]


def kept(dataset: datasets.Dataset, by: object, make: Callable[[], Arrays]) -> Arrays:
    """What `make` makes of a set, or what was kept of it; `by` says, by its `repr`, how it is made."""
    folder = _FOLDER.get()
    if folder is None:
        return make()
    file = folder / f"{dataset.name}-{_key(dataset, by)}.npz"
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be making them just now
        if file.exists():
            with np.load(file) as found:
                return dict(found)
        made = make()
        with whole(file) as part, part.open("wb") as stream:
            np.savez(stream, **made)  # type: ignore[arg-type]
    return made


def base(recipe: str) -> str:
    """The recipe that is the first stage of another, its feature, alone.

    >>> base("color")
    'base = color()'
    """
    return f"base = {RECIPES[recipe][0]}"


def _make(dataset: datasets.Dataset, recipe: str, scratch: Path, progress: Progress) -> Arrays:
    with Collection(scratch / "collection", create=True) as collection:
        collection.add(dataset.source, recipes=[recipe], progress=progress)
        if any(space["state"] == "raw" for space in collection.stats()["spaces"]):  # too few to be fitted by the add
            collection.fit(progress=progress)
        ids, X = collection.vectors()
        at = {int(item): row for row, item in enumerate(ids)}
        pairs = [(at[item.id], split_member(path)[1]) for item in collection.items() for path in item.paths]
        rows, names = [row for row, _ in pairs], [name for _, name in pairs]
        return {"X": np.asarray(X)[rows], "names": np.array(names)}  # a copy: X is a file


def _key(dataset: datasets.Dataset, by: object) -> str:
    digest = hashlib.sha256(repr((by, _code())).encode())
    with dataset.source.open("rb") as file:
        digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


@cache
def _code() -> str:
    home, digest = Path(lookalike.__file__).parent, hashlib.sha256()
    for file in sorted(file for package in CODE for file in (home / package).glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
