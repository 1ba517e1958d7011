"""Standard sets with labels, in the layout in which they are usually found on a disk.

In: a folder. Out: a `Labelled`: pictures as paths or as arrays, the labels of each, one or several, and which are of
the test part. CIFAR-10 and CIFAR-100 (the binary versions), COIL-100, Caltech-101, Corel and any other folder of class
folders, MIRFlickr, NUS-WIDE. (MNIST is in `datasets`.)
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.types import Pixels
from lookalike_bench.standard import list_pictures


class Labelled(NamedTuple):
    """Pictures with labels; `test` (n,) is False throughout where the set has no test part of its own."""

    pictures: Sequence[Path] | Sequence[Pixels]
    labels: list[frozenset[str]]
    test: NDArray[np.bool_]


def class_folders(home: Path, without: str | None = None) -> Labelled:
    """A folder a class; the pictures of a class may be in folders below it. One class may be left out."""
    named = [(picture, picture.relative_to(home).parts[0]) for picture in list_pictures(home)]
    kept = [(picture, name) for picture, name in named if name != without]
    pictures = [picture for picture, _ in kept]
    return Labelled(pictures, [frozenset({name}) for _, name in kept], np.zeros(len(kept), bool))


def caltech101(home: Path) -> Labelled:
    """Caltech-101: class folders, less the one of background pictures."""
    return class_folders(_only_folder(home), without="BACKGROUND_Google")


def coil100(home: Path) -> Labelled:
    """COIL-100: obj<number>__<angle>.png."""
    pictures = list_pictures(home)
    names = [re.fullmatch(r"obj(\d+)__\d+", picture.stem) for picture in pictures]
    if None in names:
        raise ValueError(f"{pictures[names.index(None)].name} is not named obj<number>__<angle>")
    labels = [frozenset({match[1]}) for match in names if match]
    return Labelled(pictures, labels, np.zeros(len(pictures), bool))


def cifar10(home: Path) -> Labelled:
    """CIFAR-10: records of a label and 3 × 32 × 32 pixels; classes by their names in batches.meta.txt."""
    files = [*sorted(home.rglob("data_batch_*.bin")), *home.rglob("test_batch.bin")]
    return _cifar(files, _one(home, "batches.meta.txt"), labels=1)


def cifar100(home: Path) -> Labelled:
    """CIFAR-100: records of a coarse label, a fine label and 3 × 32 × 32 pixels; the fine ones are the classes."""
    return _cifar([*home.rglob("train.bin"), *home.rglob("test.bin")], _one(home, "fine_label_names.txt"), labels=2)


def mirflickr(home: Path) -> Labelled:
    """MIRFlickr: im<number>.jpg, and a list of numbers for each word; lists `word_r1.txt` are words of their own."""
    pictures = sorted(list_pictures(home), key=lambda picture: int(re.sub(r"\D", "", picture.stem)))
    rows = {int(re.sub(r"\D", "", picture.stem)): row for row, picture in enumerate(pictures)}
    words: list[set[str]] = [set() for _ in pictures]
    for file in sorted(home.rglob("*.txt")):
        numbers = file.read_text(errors="replace").split()
        if not file.stem.lower().startswith("readme") and all(number.isdigit() for number in numbers):
            for number in numbers:
                words[rows[int(number)]].add(file.stem)
    return Labelled(pictures, [frozenset(own) for own in words], np.zeros(len(pictures), bool))


def nuswide(home: Path) -> Labelled:
    """NUS-WIDE: lists of pictures, and for each concept a file with a line of 0 or 1 for each of them."""
    pictures: list[Path] = []
    words: list[set[str]] = []
    test: list[bool] = []
    for part in ("Train", "Test"):
        names = _one(home, f"{part}Imagelist.txt").read_text().split()
        start = len(pictures)
        pictures += [home / "Flickr" / name.replace("\\", "/") for name in names]
        words += [set() for _ in names]
        test += [part == "Test"] * len(names)
        for file in sorted(home.rglob(f"Labels_*_{part}.txt")):
            marks = file.read_text().split()
            if len(marks) != len(names):
                raise ValueError(f"{file.name} has {len(marks):,} lines for {len(names):,} pictures")
            concept = file.stem.removeprefix("Labels_").removesuffix(f"_{part}")
            for row in np.flatnonzero(np.array(marks) == "1").tolist():
                words[start + row].add(concept)
    return Labelled(pictures, [frozenset(own) for own in words], np.array(test, bool))


def _cifar(files: Sequence[Path], names: Path, labels: int) -> Labelled:
    classes = names.read_text().split()
    parts = [np.frombuffer(file.read_bytes(), np.uint8).reshape(-1, labels + 3_072) for file in files]
    records = np.concatenate(parts)  # (n, labels + 3072)
    test = np.concatenate(
        [np.full(len(part), file.stem.startswith("test")) for file, part in zip(files, parts, strict=True)]
    )
    pixels = records[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)  # (n, 32, 32, 3)
    return Labelled(
        list(np.ascontiguousarray(pixels)), [frozenset({classes[code]}) for code in records[:, labels - 1]], test
    )


def _one(home: Path, name: str) -> Path:
    found = next(home.rglob(name), None)
    if found is None:
        raise ValueError(f"there is no {name}")
    return found


def _only_folder(home: Path) -> Path:
    """The folder that an archive was unpacked into, where all is inside one."""
    folders = [path for path in home.iterdir() if path.is_dir()]
    return folders[0] if len(folders) == 1 else home


SETS: dict[str, tuple[Callable[[Path], Labelled], str]] = {
    "caltech101": (caltech101, "101_ObjectCategories/<class>/image_0001.jpg"),
    "cifar10-binary": (cifar10, "data_batch_1.bin … test_batch.bin and batches.meta.txt"),
    "cifar100-binary": (cifar100, "train.bin, test.bin and fine_label_names.txt"),
    "coil100-pictures": (coil100, "obj1__0.png …"),
    "corel": (class_folders, "<class>/<picture>.jpg"),
    "imagefolder": (class_folders, "<class>/<picture>"),
    "mirflickr": (mirflickr, "im1.jpg … and a list of numbers for each word, <word>.txt"),
    "nuswide": (
        nuswide,
        "ImageList/TrainImagelist.txt, TrainTestLabels/Labels_<concept>_Train.txt and Flickr/<picture>",
    ),
}
"""By name: how it is read, and what is expected in its folder."""
