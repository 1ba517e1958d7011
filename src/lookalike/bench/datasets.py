"""The image sets that benchmarks run on, in the layout of the project's data folder.

In: a folder such as DIR with DIR/corel1k/corel1k.tar. Out: a `Dataset`: an archive that a collection can add, and the
label of each of its pictures; or a `Described`: vectors and labels. The sets are never shipped; docs/bench.md says what
is expected where.
"""

import gzip
import io
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lookalike.encode.whiten import PCA
from lookalike.errors import SourceError, UnknownNameError
from lookalike.images.sources import SUFFIXES
from lookalike.types import Progress, Vectors, silent

Labels = NDArray[np.str_]


@dataclass(frozen=True)
class Dataset:
    """Pictures with labels. `labels` goes by the member's name in the archive `source`."""

    name: str
    source: Path
    labels: dict[str, str]


class Described(NamedTuple):
    """The vectors of a set, and their labels."""

    X: Vectors  # (n, d)
    labels: Labels  # (n,)


@dataclass(frozen=True)
class _Layout:
    archive: str
    """Where the archive is, below the data folder."""
    label: Callable[[PurePosixPath], str]
    """From a member's name to its label."""
    about: str


LAYOUTS = {
    "corel1k": _Layout("corel1k/corel1k.tar", lambda name: name.parts[0], "<class>/<id>.jpg, 10 classes of 100"),
    "corel5k": _Layout("corel5k/corel5k.tar", lambda name: name.parts[1], "train|test/<CD>/<id>.jpeg, 50 CDs of 100"),
    "ukbench2000": _Layout(
        "ukbench2000/ukbench2000_max256.tar",
        lambda name: str(int(name.stem.removeprefix("ukbench")) // 4),
        "ukbench<id>.jpg, 500 objects of 4: object = id // 4",
    ),
}

FILES = {
    "cifar10": ("cifar10/cifar10_12k.npz",),
    "coil100": ("coil100/coil100_32_all7200.npz",),
    "mnist": ("mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz"),
    "mnist-test": ("mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"),
}
"""The sets that are arrays, and so have a loader of their own below."""
HARDEST = 52
"""Objects of COIL-100 that are kept: those with the lowest mAP by the classic descriptor."""


def load(name: str, folder: str | Path) -> Dataset:
    """The set of this name below `folder`; reads the archive's table of contents, no pictures."""
    if name not in LAYOUTS:
        raise UnknownNameError("dataset", name, LAYOUTS)
    layout = LAYOUTS[name]
    source = Path(folder) / layout.archive
    expected = f"Expected {source} with {layout.about}"
    if not source.is_file():
        raise _missing(name, folder, expected)
    try:
        with tarfile.open(source) as archive:
            members = [member.name for member in archive if member.isfile()]
        paths = [PurePosixPath(member) for member in members]
        labels = {str(path): layout.label(path) for path in paths if path.suffix.lower() in SUFFIXES}
    except (OSError, tarfile.TarError, ValueError, IndexError) as error:
        raise SourceError(f"{source} is not the {name} set: {error}. {expected}.") from None
    if not labels:
        raise SourceError(f"{source} holds no pictures. {expected}.")
    return Dataset(name, source, labels)


def check(name: str, folder: str | Path) -> None:
    """Refuse a set, of `LAYOUTS` or `FILES`, that is not below `folder`."""
    if name not in FILES:
        load(name, folder)
        return
    for file in FILES[name]:
        if not (Path(folder) / file).is_file():
            raise _missing(name, folder, f"Expected {Path(folder) / file}")


def coil100(folder: str | Path, archive: Path) -> Dataset:
    """COIL-100: 7,200 pictures of 32 × 32 pixels, 100 objects of 72; they are written to a new tar, `archive`."""
    check("coil100", folder)
    with np.load(Path(folder) / FILES["coil100"][0]) as file:
        return _write("coil100", file["x"], file["y"], archive)


def cifar10(folder: str | Path, archive: Path) -> Dataset:
    """CIFAR-10, 12,000 pictures of 32 × 32 pixels, written to a new tar, `archive`: 10,000 train/…, 2,000 test/…."""
    check("cifar10", folder)
    with np.load(Path(folder) / FILES["cifar10"][0]) as file:
        images, labels = (np.concatenate([file[f"{part}_train"], file[f"{part}_test"]]) for part in "xy")
        return _write("cifar10", images, labels.ravel(), archive, n_train=len(file["x_train"]))


def _write(name: str, images: NDArray[np.uint8], labels: NDArray[np.int64], archive: Path, n_train: int = 0) -> Dataset:
    """A set of pictures (n, h, w, 3) as a tar; where `n_train` of them are for training, names say which."""
    found = {}
    with tarfile.open(archive, "w") as tar:
        for i, (image, label) in enumerate(zip(images, labels, strict=True)):
            folder = ("train/" if i < n_train else "test/") if n_train else ""
            member = tarfile.TarInfo(f"{folder}{i:04d}.png")
            Image.fromarray(image).save(png := io.BytesIO(), "png")
            member.size = png.tell()
            png.seek(0)
            tar.addfile(member, png)
            found[member.name] = str(int(label))
    return Dataset(name, archive, found)


def mnist(folder: str | Path, part: str = "mnist") -> Described:
    """MNIST: pixels (n, 784) from 0 to 1, and which digit each is; 60,000 for training, or "mnist-test"."""
    check(part, folder)
    pixels, digits = (gzip.decompress((Path(folder) / file).read_bytes()) for file in FILES[part])
    X = np.frombuffer(pixels, np.uint8)[16:].reshape(-1, 784).astype(np.float32)
    X /= 255
    return Described(X, np.frombuffer(digits, np.uint8)[8:].astype(str))


def classes(labels: Labels) -> list[str]:
    """The labels that occur, in order, those that are numbers by size.

    >>> classes(np.array(["10", "9", "9"]))
    ['9', '10']
    """
    return sorted(set(labels.tolist()), key=lambda label: (len(label), label))


def describe(name: str, folder: Path, progress: Progress = silent) -> Described:
    """A set of `DESCRIBED`, made once a process."""
    if (folder, name) not in _MADE:
        _MADE[folder, name] = DESCRIBED[name](folder, progress)
    return _MADE[folder, name]


def _pictures(dataset: Dataset, recipe: str, progress: Progress) -> Described:
    from lookalike.bench import retrieval  # which needs the sets above

    with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as scratch:
        X, names = retrieval.describe(dataset, recipe, Path(scratch), progress)
    return Described(X, np.array([dataset.labels[name] for name in names]))


def _corel(recipe: str) -> Callable[[Path, Progress], Described]:
    return lambda folder, progress: _pictures(load("corel5k", folder), recipe, progress)


def _coil(recipe: str) -> Callable[[Path, Progress], Described]:
    def make(folder: Path, progress: Progress) -> Described:
        hardest = _hardest(folder, progress)
        X, labels = _coil_all(folder, recipe, progress)
        kept = np.isin(labels, hardest)
        return Described(X[kept], labels[kept])

    return make


def _coil_all(folder: Path, recipe: str, progress: Progress) -> Described:
    key = folder, f"coil100-all-{recipe}"
    if key not in _MADE:
        with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as scratch:
            _MADE[key] = _pictures(coil100(folder, Path(scratch) / "coil100.tar"), recipe, progress)
    return _MADE[key]


def _hardest(folder: Path, progress: Progress) -> list[str]:
    from lookalike.bench import retrieval

    X, labels = _coil_all(folder, "classic", progress)
    rows = np.arange(len(X))
    value = retrieval.COLUMNS["corel1k"].value  # mAP with the query left out
    values = retrieval.rank(X, labels, value, progress, queries=rows, database=rows)
    objects = np.unique(labels)
    by_object = np.array([values[labels == name].mean() for name in objects])
    return [str(name) for name in objects[np.argsort(by_object, kind="stable")[:HARDEST]]]


def _mnist(folder: Path, progress: Progress) -> Described:  # noqa: ARG001
    X, labels = mnist(folder)
    return Described(PCA(dim=64).fit(X).transform(X), labels)


DESCRIBED: dict[str, Callable[[Path, Progress], Described]] = {
    "coil100": _coil("deep"),
    "corel5k": _corel("deep"),
    "mnist": _mnist,
    "coil100-classic": _coil("classic"),
    "corel5k-classic": _corel("classic"),
}
"""Sets as vectors, by their default or by their classic recipe; of mnist, 64 dimensions of its pixels by PCA."""
_MADE: dict[tuple[Path, str], Described] = {}


def _missing(name: str, folder: str | Path, expected: str) -> SourceError:
    return SourceError(f"No {name} in {folder}. {expected}; --data names the folder that holds all sets.")
