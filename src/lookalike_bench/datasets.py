"""The datasets in the data folder (`--data`).

A dataset is either an archive that a collection can add, with the label of each picture (`Dataset`), or vectors with
labels (`LabelledVectors`). The datasets are not part of Lookalike; docs/bench.md lists the expected files.
"""

import gzip
import io
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lookalike.errors import SourceError, UnknownNameError
from lookalike.images.sources import SUFFIXES
from lookalike.types import Vectors

Labels = NDArray[np.str_]


@dataclass(frozen=True)
class Dataset:
    """An archive of pictures, and their labels by the name of the archive's member."""

    name: str
    source: Path
    labels: dict[str, str]


class LabelledVectors(NamedTuple):
    """A dataset as vectors."""

    X: Vectors  # (n, d)
    labels: Labels  # (n,)


@dataclass(frozen=True)
class _Layout:
    archive: str
    """Path below the data folder."""
    label: Callable[[PurePosixPath], str]
    """From the name of a member to its label."""
    about: str


LAYOUTS = {
    "corel1k": _Layout("corel1k/corel1k.tar", lambda name: name.parts[0], "<class>/<id>.jpg, 10 classes of 100"),
    "corel5k": _Layout("corel5k/corel5k.tar", lambda name: name.parts[1], "train|test/<CD>/<id>.jpeg, 50 CDs of 100"),
    "tinyimagenet40": _Layout(
        "tinyimagenet40/tinyimagenet40.tar",
        lambda name: name.parts[1],
        "train|test/<class>/<id>.JPEG, 40 classes of 550",
    ),
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
"""Datasets that are stored as arrays; each has its own loader below."""


def load(name: str, folder: str | Path) -> Dataset:
    """The dataset of this name in `folder`; reads only the table of contents of its archive."""
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
        raise SourceError(f"{source} is not the dataset {name}: {error}. {expected}.") from None
    if not labels:
        raise SourceError(f"{source} contains no pictures. {expected}.")
    return Dataset(name, source, labels)


def check(name: str, folder: str | Path) -> None:
    """Raise an error if a dataset of `LAYOUTS` or `FILES` is not in `folder`."""
    if name not in FILES:
        load(name, folder)
        return
    for file in FILES[name]:
        if not (Path(folder) / file).is_file():
            raise _missing(name, folder, f"Expected {Path(folder) / file}")


def pictures(name: str, folder: str | Path, scratch: Path) -> Dataset:
    """The dataset of this name as an archive; a dataset stored as arrays is written to the folder `scratch`."""
    write = {"cifar10": cifar10, "coil100": coil100}.get(name)
    return load(name, folder) if write is None else write(folder, scratch / f"{name}.tar")


def coil100(folder: str | Path, archive: Path) -> Dataset:
    """COIL-100, written to a new tar file: 7,200 pictures of 32 × 32 pixels, 72 of each of 100 objects."""
    check("coil100", folder)
    with np.load(Path(folder) / FILES["coil100"][0]) as file, tarfile.open(archive, "w") as tar:
        named = ((f"{i:04d}.png", image) for i, image in enumerate(file["x"]))
        labels = dict(zip(_write(tar, named), map(str, file["y"].astype(int).tolist()), strict=True))
    return Dataset("coil100", archive, labels)


def _write(tar: tarfile.TarFile, named: Iterable[tuple[str, NDArray[np.uint8]]]) -> Iterator[str]:
    """Write pictures to a tar file as PNG; yield the name of each after it is written."""
    for name, image in named:
        member = tarfile.TarInfo(name)
        Image.fromarray(image).save(png := io.BytesIO(), "png")
        member.size = png.tell()
        png.seek(0)
        tar.addfile(member, png)
        yield name


def cifar10(folder: str | Path, archive: Path) -> Dataset:
    """A part of CIFAR-10, written to a new tar file: 10,000 training and 2,000 test pictures of 32 × 32 pixels."""
    check("cifar10", folder)
    labels: dict[str, str] = {}
    with np.load(Path(folder) / FILES["cifar10"][0]) as file, tarfile.open(archive, "w") as tar:
        for part in ("train", "test"):
            named = ((f"{part}/{i:05d}.png", image) for i, image in enumerate(file[f"x_{part}"]))
            labels |= dict(zip(_write(tar, named), map(str, file[f"y_{part}"].tolist()), strict=True))
    return Dataset("cifar10", archive, labels)


def mnist(folder: str | Path, *, test: bool = False) -> LabelledVectors:
    """The 60,000 training (or 10,000 test) digits of MNIST: pixels (n, 784) from 0 to 1, and labels."""
    name = "mnist-test" if test else "mnist"
    check(name, folder)
    pixels, digits = (gzip.decompress((Path(folder) / file).read_bytes()) for file in FILES[name])
    X = np.frombuffer(pixels, np.uint8)[16:].reshape(-1, 784).astype(np.float32)
    X /= 255
    return LabelledVectors(X, np.frombuffer(digits, np.uint8)[8:].astype(str))


def corel5k_words(folder: str | Path) -> dict[str, list[str]]:
    """The annotation words of each picture of corel5k, by the stem of its name."""
    source = Path(folder) / LAYOUTS["corel5k"].archive
    found: dict[str, list[str]] = {}
    try:
        with tarfile.open(source) as archive:
            names = _read_text(archive, "labels/words").split()
            for part in ("training", "test"):
                for line in _read_text(archive, f"labels/{part}_label").splitlines():
                    picture, *numbers = line.split() or [""]
                    found[picture] = [names[int(number) - 1] for number in numbers]
    except (OSError, LookupError, ValueError, tarfile.TarError) as error:
        raise SourceError(
            f"Cannot read the words of {source}: {error}. Expected labels/words, and labels/training_label and"
            " labels/test_label with one line per picture: its number and the numbers of its words."
        ) from None
    return found


def _read_text(archive: tarfile.TarFile, member: str) -> str:
    file = archive.extractfile(member)
    return "" if file is None else file.read().decode()


def classes(labels: Labels) -> list[str]:
    """The distinct labels, sorted; numbers are sorted by size.

    >>> classes(np.array(["10", "9", "9"]))
    ['9', '10']
    """
    return sorted(set(labels.tolist()), key=lambda label: (len(label), label))


def _missing(name: str, folder: str | Path, expected: str) -> SourceError:
    return SourceError(
        f"No dataset {name} in {folder}. {expected}. --data must be the folder that contains all datasets."
    )
