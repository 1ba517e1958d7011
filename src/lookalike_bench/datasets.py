"""The image sets that benchmarks run on, in the layout of the project's data folder.

In: a folder such as DIR with DIR/corel1k/corel1k.tar. Out: a `Dataset`: an archive that a collection can add, and the
label of each of its pictures; or a `Described`: vectors and labels. The sets are never shipped; docs/bench.md says what
is expected where.
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


def pictures(name: str, folder: str | Path, scratch: Path) -> Dataset:
    """The set of this name as an archive; one that is kept as arrays is written into the folder `scratch`."""
    write = {"cifar10": cifar10, "coil100": coil100}.get(name)
    return load(name, folder) if write is None else write(folder, scratch / f"{name}.tar")


def coil100(folder: str | Path, archive: Path) -> Dataset:
    """COIL-100: 7,200 pictures of 32 × 32 pixels, 100 objects of 72; they are written to a new tar, `archive`."""
    check("coil100", folder)
    with np.load(Path(folder) / FILES["coil100"][0]) as file, tarfile.open(archive, "w") as tar:
        named = ((f"{i:04d}.png", image) for i, image in enumerate(file["x"]))
        labels = dict(zip(_write(tar, named), map(str, file["y"].astype(int).tolist()), strict=True))
    return Dataset("coil100", archive, labels)


def _write(tar: tarfile.TarFile, named: Iterable[tuple[str, NDArray[np.uint8]]]) -> Iterator[str]:
    """Pictures into a tar as PNG files; gives the name of each once it is there."""
    for name, image in named:
        member = tarfile.TarInfo(name)
        Image.fromarray(image).save(png := io.BytesIO(), "png")
        member.size = png.tell()
        png.seek(0)
        tar.addfile(member, png)
        yield name


def cifar10(folder: str | Path, archive: Path) -> Dataset:
    """CIFAR-10 in part: 10,000 training and 2,000 test pictures of 32 × 32 pixels, written to a new tar, `archive`."""
    check("cifar10", folder)
    labels: dict[str, str] = {}
    with np.load(Path(folder) / FILES["cifar10"][0]) as file, tarfile.open(archive, "w") as tar:
        for part in ("train", "test"):
            named = ((f"{part}/{i:05d}.png", image) for i, image in enumerate(file[f"x_{part}"]))
            labels |= dict(zip(_write(tar, named), map(str, file[f"y_{part}"].tolist()), strict=True))
    return Dataset("cifar10", archive, labels)


def mnist(folder: str | Path, *, test: bool = False) -> Described:
    """MNIST: the 60,000 training (or 10,000 test) digits, pixels (n, 784) from 0 to 1, and which digit each is."""
    name = "mnist-test" if test else "mnist"
    check(name, folder)
    pixels, digits = (gzip.decompress((Path(folder) / file).read_bytes()) for file in FILES[name])
    X = np.frombuffer(pixels, np.uint8)[16:].reshape(-1, 784).astype(np.float32)
    X /= 255
    return Described(X, np.frombuffer(digits, np.uint8)[8:].astype(str))


def classes(labels: Labels) -> list[str]:
    """The labels that occur, in order, those that are numbers by size.

    >>> classes(np.array(["10", "9", "9"]))
    ['9', '10']
    """
    return sorted(set(labels.tolist()), key=lambda label: (len(label), label))


def _missing(name: str, folder: str | Path, expected: str) -> SourceError:
    return SourceError(f"No {name} in {folder}. {expected}; --data names the folder that holds all sets.")
