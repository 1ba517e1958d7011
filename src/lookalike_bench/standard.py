"""Standard sets for retrieval, in the layout in which they are usually found on a disk.

In: a folder. Out: a `Protocol`: the pictures, and for each query what is to be found and what does not count. Whoever
has a set can run the papers' own protocol on it: Holidays (slem, Table 1), Oxford5k, Oxford105k and Paris6k, UKBench.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lookalike.errors import SourceError, UnknownNameError
from lookalike.images.sources import SUFFIXES


class Asked(NamedTuple):
    """A query: a picture by its place in the list, or the part of it inside a box in pixels."""

    picture: int
    box: tuple[float, float, float, float] | None
    relevant: frozenset[int]
    junk: frozenset[int]


Read = TypeVar("Read", bound=tuple[Any, ...])
"""What a set is read as, a tuple of lists: a `Protocol`, or what sets with labels are."""


class Protocol(NamedTuple):
    """A set, and what is asked of it."""

    pictures: list[Path]
    queries: list[Asked]


def load(name: str, folder: str | Path, sets: Mapping[str, tuple[Callable[[Path], Read], str]]) -> Read:
    """The one of these sets, below `folder` in a folder of its own name; SourceError where it is not as expected."""
    if name not in sets:
        raise UnknownNameError("set", name, sets)
    read, expected = sets[name]
    home = Path(folder) / name
    missing = f"No {name} in {folder}. Expected {home} with {expected}; --data names the folder that holds all sets."
    if not home.is_dir():
        raise SourceError(missing)
    try:
        found = read(home)
    except (OSError, ValueError, LookupError) as error:
        raise SourceError(f"{home} is not the {name} set: {error}. Expected {expected}.") from None
    if not all(map(len, found)):  # no pictures, or nothing that is asked
        raise SourceError(missing)
    return found


def holidays(home: Path) -> Protocol:
    """INRIA Holidays: a group is what is left of a number without its last two digits, its query ends in 00."""
    pictures = list_pictures(home)
    numbers = [int(picture.stem) for picture in pictures]
    groups = _groups(number // 100 for number in numbers)
    queries = [
        Asked(row, None, frozenset(groups[number // 100]) - {row}, frozenset({row}))
        for row, number in enumerate(numbers)
        if number % 100 == 0
    ]
    return Protocol(pictures, queries)


def ukbench(home: Path) -> Protocol:
    """UKBench: four pictures an object, in the order of their numbers; each is the query once, and counts itself."""
    pictures = list_pictures(home)
    objects = [int(re.sub(r"\D", "", picture.stem)) // 4 for picture in pictures]
    groups = _groups(objects)
    return Protocol(
        pictures, [Asked(row, None, frozenset(groups[one]), frozenset()) for row, one in enumerate(objects)]
    )


def landmarks(home: Path) -> Protocol:
    """Oxford5k and Paris6k: `*_query.txt` names a picture and a box, `_good` and `_ok` what is wanted, `_junk` neither.

    Distractors of Oxford105k are pictures that no list names.
    """
    pictures = list_pictures(home)
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
        queries.append(Asked(row, (left, top, right, bottom), lists["good"] | lists["ok"], lists["junk"]))
    return Protocol(pictures, queries)


def list_pictures(home: Path) -> list[Path]:
    """Every picture below a folder, by name."""
    return sorted(path for path in home.rglob("*") if path.suffix.lower() in SUFFIXES)


def _groups(keys: Iterable[int]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    return groups


_LANDMARKS = "pictures in any folders and the lists NAME_query.txt, NAME_good.txt, NAME_ok.txt, NAME_junk.txt"
SETS: dict[str, tuple[Callable[[Path], Protocol], str]] = {
    "holidays": (holidays, "jpg/100000.jpg, 100001.jpg …"),
    "oxford5k": (landmarks, _LANDMARKS),
    "oxford105k": (landmarks, f"those of oxford5k, and 100,000 others: {_LANDMARKS}"),
    "paris6k": (landmarks, _LANDMARKS),
    "ukbench": (ukbench, "full/ukbench00000.jpg, ukbench00001.jpg …"),
}
"""By name: how it is read, and what is expected in its folder."""
