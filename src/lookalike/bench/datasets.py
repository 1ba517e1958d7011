"""The image sets that benchmarks run on, in the layout of the project's data folder.

In: a folder such as DIR with DIR/corel1k/corel1k.tar. Out: a `Dataset`: an archive that a collection can add, and
the label of each of its pictures. The sets are never shipped; docs/bench.md says what is expected where.
"""

import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lookalike.errors import SourceError, UnknownNameError
from lookalike.images.sources import SUFFIXES


@dataclass(frozen=True)
class Dataset:
    """Pictures with labels. `labels` goes by the member's name in the archive `source`."""

    name: str
    source: Path
    labels: dict[str, str]


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


def load(name: str, folder: str | Path) -> Dataset:
    """The set of this name below `folder`; reads the archive's table of contents, no pictures."""
    if name not in LAYOUTS:
        raise UnknownNameError("dataset", name, LAYOUTS)
    layout = LAYOUTS[name]
    source = Path(folder) / layout.archive
    expected = f"Expected {source} with {layout.about}"
    if not source.is_file():
        raise SourceError(f"No {name} in {folder}. {expected}; --data names the folder that holds all sets.")
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
