"""Published datasets, in their usual layout on disk.

Datasets for retrieval have their own queries (`QuerySet`): Holidays (slem, Table 1), Oxford5k, Oxford105k, Paris6k and
UKBench. Datasets with labels (`LabelledSet`) are CIFAR-10 and CIFAR-100 (the binary versions), COIL-100, Caltech-101,
Corel and any other folder of class folders, MIRFlickr and NUS-WIDE. MNIST is in `datasets`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import SourceError, UnknownNameError
from lookalike.images.sources import SUFFIXES
from lookalike.types import Pixels


class SetQuery(NamedTuple):
    """A query: a picture by its position in the list, or the part of it inside a box in pixels."""

    picture: int
    box: tuple[float, float, float, float] | None
    relevant: frozenset[int]
    junk: frozenset[int]
    """Pictures that do not count, such as the query itself."""


class QuerySet(NamedTuple):
    """Pictures, and the queries of the dataset's protocol."""

    pictures: list[Path]
    queries: list[SetQuery]


class LabelledSet(NamedTuple):
    """Pictures with one or several labels each; `test` (n,) is all False if the dataset has no test set."""

    pictures: Sequence[Path] | Sequence[Pixels]
    labels: list[frozenset[str]]
    test: NDArray[np.bool_]


def load(name: str, folder: str | Path) -> QuerySet | LabelledSet:
    """Read a dataset of `SETS` from `folder/name`; raise SourceError if its files are not as expected."""
    if name not in SETS:
        raise UnknownNameError("dataset", name, SETS)
    read, expected = SETS[name]
    home = Path(folder) / name
    missing = (
        f"No dataset {name} in {folder}. Expected {home} with {expected}."
        " --data must be the folder that contains all datasets."
    )
    if not home.is_dir():
        raise SourceError(missing)
    try:
        found = read(home)
    except (OSError, ValueError, LookupError) as error:
        raise SourceError(f"{home} is not the dataset {name}: {error}. Expected {expected}.") from None
    if not all(map(len, found)):  # no pictures, or no queries
        raise SourceError(missing)
    return found


def holidays(home: Path) -> QuerySet:
    """INRIA Holidays: the numbers of a group differ only in the last two digits; the query ends in 00."""
    pictures = _list_pictures(home)
    numbers = [int(picture.stem) for picture in pictures]
    groups = _groups(number // 100 for number in numbers)
    queries = [
        SetQuery(row, None, frozenset(groups[number // 100]) - {row}, frozenset({row}))
        for row, number in enumerate(numbers)
        if number % 100 == 0
    ]
    return QuerySet(pictures, queries)


def ukbench(home: Path) -> QuerySet:
    """UKBench: four pictures per object, in the order of their numbers; each is a query once, and counts itself."""
    pictures = _list_pictures(home)
    objects = [int(re.sub(r"\D", "", picture.stem)) // 4 for picture in pictures]
    groups = _groups(objects)
    return QuerySet(
        pictures, [SetQuery(row, None, frozenset(groups[one]), frozenset()) for row, one in enumerate(objects)]
    )


def landmarks(home: Path) -> QuerySet:
    """Oxford5k and Paris6k: `*_query.txt` names a picture and a box, `_good` and `_ok` are relevant.

    Pictures of `_junk` do not count. Distractors of Oxford105k are pictures that are not in any list.
    """
    pictures = _list_pictures(home)
    rows = {picture.stem: row for row, picture in enumerate(pictures)}
    queries = []
    for file in sorted(home.rglob("*_query.txt")):
        name, *edges = file.read_text().split()
        left, top, right, bottom = (float(edge) for edge in edges)
        lists = {
            kind: frozenset(rows[word] for word in file.with_name(f"{file.name[:-9]}{kind}.txt").read_text().split())
            for kind in ("good", "ok", "junk")
        }
        row = rows[name.removeprefix("oxc1_")]
        queries.append(SetQuery(row, (left, top, right, bottom), lists["good"] | lists["ok"], lists["junk"]))
    return QuerySet(pictures, queries)


def class_folders(home: Path, without: str | None = None) -> LabelledSet:
    """One folder per class, with pictures at any depth; one class may be left out."""
    named = [(picture, picture.relative_to(home).parts[0]) for picture in _list_pictures(home)]
    kept = [(picture, name) for picture, name in named if name != without]
    pictures = [picture for picture, _ in kept]
    return LabelledSet(pictures, [frozenset({name}) for _, name in kept], np.zeros(len(kept), bool))


def caltech101(home: Path) -> LabelledSet:
    """Caltech-101: class folders, without the folder of background pictures."""
    return class_folders(_only_folder(home), without="BACKGROUND_Google")


def coil100(home: Path) -> LabelledSet:
    """COIL-100: obj<number>__<angle>.png."""
    pictures = _list_pictures(home)
    names = [re.fullmatch(r"obj(\d+)__\d+", picture.stem) for picture in pictures]
    if None in names:
        raise ValueError(f"{pictures[names.index(None)].name} is not named obj<number>__<angle>")
    labels = [frozenset({match[1]}) for match in names if match]
    return LabelledSet(pictures, labels, np.zeros(len(pictures), bool))


def cifar10(home: Path) -> LabelledSet:
    """CIFAR-10: records of a label and 3 × 32 × 32 pixels; classes by their names in batches.meta.txt."""
    files = [*sorted(home.rglob("data_batch_*.bin")), *home.rglob("test_batch.bin")]
    return _cifar(files, _one(home, "batches.meta.txt"), labels=1)


def cifar100(home: Path) -> LabelledSet:
    """CIFAR-100: records of a coarse label, a fine label and 3 × 32 × 32 pixels; fine labels are the classes."""
    return _cifar([*home.rglob("train.bin"), *home.rglob("test.bin")], _one(home, "fine_label_names.txt"), labels=2)


def mirflickr(home: Path) -> LabelledSet:
    """MIRFlickr: im<number>.jpg, and a list of numbers for each word; a list `word_r1.txt` is a separate word."""
    pictures = sorted(_list_pictures(home), key=lambda picture: int(re.sub(r"\D", "", picture.stem)))
    rows = {int(re.sub(r"\D", "", picture.stem)): row for row, picture in enumerate(pictures)}
    words: list[set[str]] = [set() for _ in pictures]
    for file in sorted(home.rglob("*.txt")):
        numbers = file.read_text(errors="replace").split()
        if not file.stem.lower().startswith("readme") and all(number.isdigit() for number in numbers):
            for number in numbers:
                words[rows[int(number)]].add(file.stem)
    return LabelledSet(pictures, [frozenset(own) for own in words], np.zeros(len(pictures), bool))


def nuswide(home: Path) -> LabelledSet:
    """NUS-WIDE: lists of pictures, and for each concept a file with a line of 0 or 1 per picture."""
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
    return LabelledSet(pictures, [frozenset(own) for own in words], np.array(test, bool))


def _list_pictures(home: Path) -> list[Path]:
    """Every picture below a folder, sorted by path."""
    return sorted(path for path in home.rglob("*") if path.suffix.lower() in SUFFIXES)


def _groups(keys: Iterable[int]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    return groups


def _cifar(files: Sequence[Path], names: Path, labels: int) -> LabelledSet:
    classes = names.read_text().split()
    parts = [np.frombuffer(file.read_bytes(), np.uint8).reshape(-1, labels + 3_072) for file in files]
    records = np.concatenate(parts)  # (n, labels + 3072)
    test = np.concatenate(
        [np.full(len(part), file.stem.startswith("test")) for file, part in zip(files, parts, strict=True)]
    )
    pixels = records[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)  # (n, 32, 32, 3)
    return LabelledSet(
        list(np.ascontiguousarray(pixels)), [frozenset({classes[code]}) for code in records[:, labels - 1]], test
    )


def _one(home: Path, name: str) -> Path:
    found = next(home.rglob(name), None)
    if found is None:
        raise ValueError(f"the file {name} is missing")
    return found


def _only_folder(home: Path) -> Path:
    """The only folder inside `home`, if there is one: archives often unpack into their own folder."""
    folders = [path for path in home.iterdir() if path.is_dir()]
    return folders[0] if len(folders) == 1 else home


_LANDMARKS = "pictures in any folders and the lists NAME_query.txt, NAME_good.txt, NAME_ok.txt, NAME_junk.txt"
QUERY_SETS: dict[str, tuple[Callable[[Path], QuerySet], str]] = {
    "holidays": (holidays, "jpg/100000.jpg, 100001.jpg …"),
    "oxford5k": (landmarks, _LANDMARKS),
    "oxford105k": (landmarks, f"the pictures of oxford5k and 100,000 others: {_LANDMARKS}"),
    "paris6k": (landmarks, _LANDMARKS),
    "ukbench": (ukbench, "full/ukbench00000.jpg, ukbench00001.jpg …"),
}
LABELLED_SETS: dict[str, tuple[Callable[[Path], LabelledSet], str]] = {
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
SETS: dict[str, tuple[Callable[[Path], QuerySet | LabelledSet], str]] = {**QUERY_SETS, **LABELLED_SETS}
"""By name: the function that reads the dataset, and the files that are expected in its folder."""
