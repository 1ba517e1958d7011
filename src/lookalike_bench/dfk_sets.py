"""Image sets as sets of local descriptors, with words where there are any: what Fisher kernels are measured on.

In: corel1k or corel5k below the data folder. Out: `Described`, 400 OpponentSIFT patches a picture by PCA to 64 numbers,
in the order of the pictures' names. Kept as `described` keeps vectors. van de Sande, Gevers & Snoek, "Evaluating color
descriptors for object and scene recognition", PAMI 2010.
"""

import os
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks, principal
from lookalike.errors import SourceError
from lookalike.features.color_sift import OpponentSift
from lookalike.features.points import Points
from lookalike.images.read import read
from lookalike.images.sources import Entry, split_member, walk
from lookalike.learn.sets import Sets
from lookalike.types import Pixels, Progress
from lookalike_bench import datasets
from lookalike_bench.described import Arrays, kept

PATCHES = 400
"""By lot, of all of a picture, on the grid and at Harris–Laplace corners: with 150 mAP is 0.05 lower."""
DIM = 64
SAMPLE = 60_000
"""Patches that PCA learns from."""
AT_ONCE = 64
"""Pictures that are handed to the threads at a time."""
_MADE: dict[tuple[Path, str], "Described"] = {}


class Described(NamedTuple):
    """A set of pictures, each a set of rows."""

    sets: Sets  # n pictures
    labels: NDArray[np.str_]  # (n,)
    names: NDArray[np.str_]  # (n,), sorted


class SomePatches(OpponentSift):
    """OpponentSIFT at some of the points, by a lot that is the same for pictures with as many points.

    Those of the grid and the corners of one level are described together, which is most of the time saved.
    """

    def _points(self, picture: Pixels) -> list[tuple[Points, list[Any]]]:
        levels: dict[tuple[int, int], list[tuple[Points, list[Any]]]] = {}
        for points, keypoints in super()._points(picture):
            levels.setdefault((points.height, points.width), []).append((points, keypoints))
        total = sum(len(keypoints) for group in levels.values() for _, keypoints in group)
        chosen = np.isin(np.arange(total), np.random.default_rng(0).permutation(total)[:PATCHES])
        found = []
        for group in levels.values():
            keypoints = [one for _, several in group for one in several]
            here, chosen = np.flatnonzero(chosen[: len(keypoints)]), chosen[len(keypoints) :]
            centres, widths = (np.concatenate([points[i] for points, _ in group])[here] for i in (2, 3))
            if len(here):
                points = group[0][0]._replace(centres=centres, widths=widths)
                found.append((points, [keypoints[i] for i in here]))
        return found


def describe(name: str, data: Path, progress: Progress) -> Described:
    """The set of this name below `data`, made once a process."""
    key = data, name
    if key not in _MADE:
        with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as scratch:
            dataset = datasets.pictures(name, data, Path(scratch))
            made = kept(dataset, ("opponentsift", PATCHES, DIM, SAMPLE), lambda: _make(dataset, progress))
        names = made["names"]
        rows = made["rows"].astype(np.float32)
        _MADE[key] = Described(
            Sets(rows, made["starts"]), np.array([dataset.labels[one] for one in names.tolist()]), names
        )
    return _MADE[key]


def words(names: NDArray[np.str_], data: Path) -> NDArray[np.int64]:
    """The annotation words of pictures of corel5k by their names, (n, words that occur), ones and zeros."""
    source = Path(data) / datasets.LAYOUTS["corel5k"].archive
    found: dict[str, list[int]] = {}
    try:
        with tarfile.open(source) as archive:
            for part in ("training", "test"):
                file = archive.extractfile(f"labels/{part}_label")
                for line in file.read().decode().splitlines() if file else ():
                    picture, *numbers = line.split()
                    found[picture] = [int(number) for number in numbers]
        several = [found[PurePosixPath(name).stem] for name in names.tolist()]
    except (OSError, KeyError, ValueError) as error:
        raise SourceError(
            f"{source} lacks words: {error}. Expected labels/training_label and labels/test_label, a line a picture,"
            " its number and the numbers of its words."
        ) from None
    y = np.zeros((len(several), 1 + max(max(numbers) for numbers in several)), np.int64)
    for row, its in enumerate(several):
        y[row, its] = 1
    return y[:, y.any(axis=0)]


def _make(dataset: datasets.Dataset, progress: Progress) -> Arrays:
    entries = sorted(walk([dataset.source], on_skip=lambda *_: None), key=lambda entry: split_member(entry.path)[1])
    local = SomePatches(points="both")
    rows = []
    for done, found in enumerate(_prepare(local, entries)):
        rows.append(found)  # (m, 384) uint8
        progress("describing", done + 1, len(entries))
    starts = np.cumsum([0, *map(len, rows)])
    everything = np.concatenate(rows)
    some = np.random.default_rng(0).permutation(len(everything))[:SAMPLE]
    centre, components, _ = (part.astype(np.float32) for part in principal(_floats(local, everything[some]), DIM))
    out = np.empty((len(everything), DIM), np.float16)
    for part in chunks(len(out), row_bytes=16 * local.dim):
        out[part] = (_floats(local, everything[part]) - centre) @ components.T
    names = [split_member(entry.path)[1] for entry in entries]
    return {"rows": out, "starts": starts, "names": np.array(names)}


def _prepare(local: SomePatches, entries: list[Entry]) -> Iterator[NDArray[np.uint8]]:
    """The patches of each picture, in order; OpenCV lets threads work side by side."""
    waiting = iter(entries)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        while group := list(islice(waiting, AT_ONCE)):
            yield from pool.map(lambda entry: local.prepare(read(entry.read()).pixels)[0], group)


def _floats(local: SomePatches, rows: NDArray[np.uint8]) -> Any:
    [patches] = local.describe([(rows, np.empty((len(rows), 2), np.float32))])
    return patches.X
