"""Datasets as vectors: computed once per process, and cached in a folder on request.

`describe` returns the vectors of a dataset by a recipe, from a new collection. `unit_vectors` and `train_test` return
features for classifiers: vectors of unit length from the first stage of a recipe. Vocabularies of fisher are learned,
without labels, from a sample of all pictures of the dataset, as a collection does.

The name of a cached file depends on everything that determines its arrays: the archive, the recipe and the code that
reads pictures and extracts features. If any of them changes, the arrays are computed again.
"""

import hashlib
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import lookalike
from lookalike.atomic_files import atomic_write
from lookalike.collection import Collection
from lookalike.errors import InputError, UnknownNameError
from lookalike.images.sources import split_member
from lookalike.recipes import RECIPES
from lookalike.system import wait_for_lock
from lookalike.types import Progress, Vectors, silent
from lookalike_bench import datasets
from lookalike_bench.datasets import Labels

SETS = ("mnist", "cifar10-deep", "cifar10-fisher", "corel5k-deep", "corel5k-fisher")
"""Datasets with a training and a test set; after the dash, the recipe whose first stage extracts the features."""
CODE = ("encode", "features", "images", "index")
"""Packages whose code determines the vector of a picture."""
Arrays: TypeAlias = dict[str, NDArray[Any]]
_CACHE: ContextVar[Path | None] = ContextVar("cache", default=None)
_MADE: dict[tuple[Path, str, str], "Rows"] = {}


class Rows(NamedTuple):
    """A dataset as vectors. A picture that occurs twice is two rows."""

    X: Vectors  # (n, d)
    labels: Labels  # (n,)
    names: NDArray[np.str_]  # (n,) names of the archive's members


class TrainTest(NamedTuple):
    """Rows to learn from, and rows to classify."""

    X: Vectors  # (n, d)
    y: Labels  # (n,)
    X_test: Vectors  # (m, d)
    y_test: Labels  # (m,)


@contextmanager
def caching(folder: str | Path | None) -> Iterator[None]:
    """Within this block, cache the arrays of datasets in the folder; None disables the cache."""
    if folder is not None:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"Cannot cache in {folder}: {error.strerror}. Give another folder.") from None
    token = _CACHE.set(None if folder is None else Path(folder))
    try:
        yield
    finally:
        _CACHE.reset(token)


def describe(name: str, recipe: str, data: Path, progress: Progress = silent) -> Rows:
    """Vectors of a dataset in `data`, in a collection's order; a recipe is a name or `"name = spec | spec"`."""
    key = data, name, recipe
    if key not in _MADE:
        with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as scratch:
            dataset = datasets.pictures(name, data, Path(scratch))
            specs = RECIPES.get(recipe, [recipe])
            made = cached(dataset, specs, lambda: _make(dataset, recipe, Path(scratch), progress))
        names = made["names"]
        _MADE[key] = Rows(made["X"], np.array([dataset.labels[one] for one in names.tolist()]), names)
    return _MADE[key]


def describe_outside(
    name: str, recipe: str, data: Path, is_query: Callable[[str], bool], progress: Progress = silent
) -> tuple[Rows, Rows]:
    """Vectors of a collection of the pictures that are not queries, and those of the queries, which are not in it.

    `is_query` gets the name of a member of the dataset's archive.
    """
    dataset = datasets.load(name, data)
    members = sorted(dataset.labels)
    queries = [member for member in members if is_query(member)]

    def make() -> Arrays:
        with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as scratch:
            pictures = Path(scratch) / "pictures"
            with tarfile.open(dataset.source) as archive:
                archive.extractall(pictures, filter="data")
            listing = Path(scratch) / "pictures.txt"
            listing.write_text("".join(f"{pictures / one}\n" for one in members if not is_query(one)))
            with Collection(Path(scratch) / "collection", create=True) as collection:
                _fill(collection, listing, recipe, progress)
                rows = _rows(collection, lambda path: str(Path(path).relative_to(pictures)))
                return rows | {"Q": collection.describe([pictures / one for one in queries])}

    made = cached(dataset, (RECIPES.get(recipe, [recipe]), queries), make)
    names, asked = made["names"], np.array(queries)
    labels, asked_labels = (np.array([dataset.labels[one] for one in some.tolist()]) for some in (names, asked))
    return Rows(made["X"], labels, names), Rows(made["Q"], asked_labels, asked)


def base_recipe(recipe: str) -> str:
    """A recipe that consists of the first stage, the feature, of another one.

    >>> base_recipe("color")
    'base = color()'
    """
    return f"base = {RECIPES[recipe][0]}"


def unit_vectors(name: str, folder: Path, progress: Progress = silent) -> Rows:
    """Vectors of unit length of all pictures of a dataset such as "ukbench2000-deep", sorted by name."""
    from lookalike.encode.whiten import L2  # imports scikit-learn, which `describe` does not need

    dataset, _, recipe = name.rpartition("-")
    X, labels, names = describe(dataset, base_recipe(recipe), folder, progress)
    order = np.argsort(names)
    return Rows(L2().transform(X)[order], labels[order], names[order])


def train_test(name: str, folder: Path, progress: Progress = silent) -> TrainTest:
    """The training and test sets of a dataset in `SETS`; for corel5k, the test set is a random half of each class.

    Vectors of mnist are pixels from 0 to 1, other vectors have unit length.
    """
    if name not in SETS:
        raise UnknownNameError("dataset", name, SETS)
    if name == "mnist":
        return TrainTest(*datasets.mnist(folder), *datasets.mnist(folder, test=True))
    X, y, names = unit_vectors(name, folder, progress)
    if name.startswith("corel5k"):
        train, test = halves(y)
    else:
        train, test = (np.flatnonzero(np.char.startswith(names, part)) for part in ("train/", "test/"))
    return TrainTest(X[train], y[train], X[test], y[test])


def halves(y: Labels) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row numbers of two random halves of each class, always the same; the first half gets the odd row.

    >>> [len(half) for half in halves(np.array(["a"] * 3 + ["b"] * 2))]
    [3, 2]
    """
    random = np.random.default_rng(0)
    first, second = [], []
    for label in datasets.classes(y):
        members = random.permutation(np.flatnonzero(y == label))
        middle = (len(members) + 1) // 2
        first.append(members[:middle])
        second.append(members[middle:])
    return np.sort(np.concatenate(first)), np.sort(np.concatenate(second))


def check_set(name: str, folder: Path) -> None:
    """Raise an error if the files of a dataset such as "mnist" or "corel5k-deep" are missing."""
    dataset = name.split("-")[0]
    datasets.check(dataset, folder)
    if dataset == "mnist":
        datasets.check("mnist-test", folder)


def cached(dataset: datasets.Dataset, by: object, make: Callable[[], Arrays]) -> Arrays:
    """The arrays that `make` returns, or their cached copy; the `repr` of `by` must determine the result of `make`."""
    folder = _CACHE.get()
    if folder is None:
        return make()
    file = folder / f"{dataset.name}-{_key(dataset, by)}.npz"
    with file.with_suffix(".lock").open("w") as lock:
        wait_for_lock(lock.fileno())  # another process may be writing the file
        if file.exists():
            with np.load(file) as found:
                return dict(found)
        made = make()
        with atomic_write(file) as part, part.open("wb") as stream:
            np.savez(stream, **made)  # type: ignore[arg-type]
    return made


@contextmanager
def cached_collection(dataset: datasets.Dataset, recipe: str, progress: Progress = silent) -> Iterator[Collection]:
    """A collection of a dataset's pictures, or its cached copy.

    All pictures are in one folder, under the last part of their names, so that the names of folders say nothing.
    """
    with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as scratch:
        place = (_CACHE.get() or Path(scratch)) / f"{dataset.name}-{_key(dataset, RECIPES[recipe])}.lookalike"
        with place.with_suffix(".lock").open("w") as lock:
            wait_for_lock(lock.fileno())  # another process may be adding the pictures
            if not place.exists():
                pictures, unfinished = Path(scratch) / "pictures", place.with_suffix(".part")
                shutil.rmtree(unfinished, ignore_errors=True)  # an earlier process was killed
                pictures.mkdir()
                with tarfile.open(dataset.source) as archive:
                    for name in dataset.labels:
                        (pictures / PurePosixPath(name).name).write_bytes(archive.extractfile(name).read())  # type: ignore[union-attr]
                with Collection(unfinished, create=True) as collection:
                    _fill(collection, pictures, recipe, progress)
                unfinished.rename(place)
        with Collection(place) as collection:
            yield collection


def _make(dataset: datasets.Dataset, recipe: str, scratch: Path, progress: Progress) -> Arrays:
    with Collection(scratch / "collection", create=True) as collection:
        _fill(collection, dataset.source, recipe, progress)
        return _rows(collection, lambda path: split_member(path)[1])


def _fill(collection: Collection, source: Path, recipe: str, progress: Progress) -> None:
    collection.add(source, recipes=[recipe], progress=progress)
    if any(space["state"] == "raw" for space in collection.stats()["spaces"]):  # too few pictures: add did not fit
        collection.fit(progress=progress)


def _rows(collection: Collection, name: Callable[[str], str]) -> Arrays:
    """The vectors of a collection, and the names of the pictures; a picture at two paths is two rows."""
    ids, X = collection.vectors()
    at = {int(item): row for row, item in enumerate(ids)}
    pairs = [(at[item.id], name(path)) for item in collection.items() for path in item.paths]
    rows, names = [row for row, _ in pairs], [one for _, one in pairs]
    return {"X": np.asarray(X)[rows], "names": np.array(names)}  # a copy: X is memory-mapped


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
