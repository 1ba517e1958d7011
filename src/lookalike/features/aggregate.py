"""From the patches of a picture to one row: the base of VLAD, Fisher vectors and discriminative Fisher kernels.

A feature of this kind has one or more local descriptors, a channel each. `Aggregate` describes pictures and their
parts with what was learned; `Vocabulary` also learns, from a uniform sample of the patches (`Reservoir`). Patches can
be aggregated in the cells of a spatial pyramid (`parse_pyramid`, `split_cells`) or inside a box (`cut_box`).
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, chunks
from lookalike.errors import InputError
from lookalike.features.pixels import check_pixels
from lookalike.registry import create, state_of
from lookalike.types import (
    FIT_BYTES,
    Array,
    Box,
    Feature,
    LearnedFeature,
    Local,
    Matches,
    Patches,
    Pixels,
    Prepared,
    Progress,
    Vectors,
    check_box,
    silent,
)

MOST_WORDS = 2**12
"""Maximum number of words or Gaussians of a vocabulary: at 128 numbers per patch, half a million numbers per row."""

PICTURES = 16
"""Pictures whose patches are held at a time."""

MOST_CELLS = 16
"""Maximum number of columns or rows of a level of a pyramid."""

Aggregator: TypeAlias = Callable[[Sequence[Patches]], Vectors]
"""Maps the patches of one picture, a channel each, to (dim,) float32."""

Pyramid: TypeAlias = Annotated[str, Matches(r"[0-9x, ]{1,200}")]
"""Levels of a spatial pyramid as text, such as "1x1,2x2"."""

Levels: TypeAlias = tuple[tuple[int, int], ...]
"""Columns and rows of each level."""


class Aggregate(Feature):
    """A feature on local descriptors. Subclasses define what is learned and how it is used."""

    k: int
    patch_dim: int
    random_state: int

    def __init__(self, specs: Sequence[str], k: int, patch_dim: int, pyramid: str, random_state: int):
        limits = (("k", k, 1, MOST_WORDS), ("patch_dim", patch_dim, 1, 2**16), ("random_state", random_state, 0, 2**31))
        for name, value, least, most in limits:
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise InputError(f"{name} must be a whole number from {least} to {most}. Got {value!r}.")
        self.k = k
        self.patch_dim = patch_dim
        self.pyramid = pyramid
        self.random_state = random_state
        self._levels = parse_pyramid(pyramid)
        self._at_work: Aggregator | None = None
        self._locals: list[Local] = [create("local", spec) for spec in specs]
        self.side = max(local.side for local in self._locals)
        self.by_picture = all(local.by_picture for local in self._locals)

    @abstractmethod
    def _lengths(self) -> list[int]:
        """The length of the patches of each channel in the vocabulary; longer ones are reduced to it."""

    @abstractmethod
    def _aggregator(self) -> Aggregator:
        """The function that aggregates patches with what was learned."""

    def prepare(self, image: Pixels) -> tuple[Prepared, ...]:
        """The picture as each local prepares it."""
        return tuple(local.prepare(image) for local in self._locals)

    def describe(self, prepared: Sequence[Prepared]) -> Vectors:
        """Describe prepared pictures, (n, dim) float32, unit rows."""
        if len(prepared) == 0:
            self._lengths()  # describing no picture is how callers find out whether any could be described
            for local in self._locals:
                local.describe([])
            return np.empty((0, self.dim), np.float32)
        aggregate = self._ready()
        rows = np.empty((len(prepared), self.dim), np.float32)
        for part in chunks(len(prepared), 1, PICTURES):
            rows[part] = [aggregate(patches) for patches in self._describe(prepared[part])]
        return rows

    def regions(self, image: Pixels, boxes: Sequence[Box]) -> Vectors:
        """Describe parts of one picture, (len(boxes), dim) float32, by the patches with their centre inside each box.

        A box without any patch is described by the patch nearest to its centre.
        """
        aggregate = self._ready()
        height, width = check_pixels(image).shape[:2]
        channels = next(self._describe([self.prepare(image)]))
        rows = [aggregate([cut_box(patches, box, height, width) for patches in channels]) for box in boxes]
        return np.array(rows, np.float32).reshape(-1, self.dim)

    def _describe(self, prepared: Sequence[Prepared]) -> Iterator[tuple[Patches, ...]]:
        """The patches of each picture, a channel each."""
        channels = [local.describe([parts[i] for parts in prepared]) for i, local in enumerate(self._locals)]
        return zip(*channels, strict=True)

    def _ready(self) -> Aggregator:
        """The result of `_aggregator`, made once after each fit."""
        if not state_of(self):
            raise InputError(f"{type(self).__name__} has no vocabulary yet. Fit it on pictures first.")
        if self._at_work is None:
            self._at_work = self._aggregator()
        return self._at_work

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_at_work": None}  # functions cannot be pickled


class Vocabulary(Aggregate, LearnedFeature):
    """An aggregate that learns from a sample of patches, whatever pictures they come from."""

    @abstractmethod
    def _fit(self, samples: list[Vectors], progress: Progress) -> None:
        """Learn from a sample of the patches of each channel, (n, local's dim) each."""

    def fit(self, prepared: Iterable[Prepared], *, max_bytes: int = FIT_BYTES, progress: Progress = silent) -> Self:
        """Learn the vocabulary from a stream of prepared pictures; `max_bytes` are shared by the channels."""
        lengths = self._lengths()
        # A sampled patch is held twice while fitting: as it came and reduced.
        rows = max_bytes // (4 * sum(local.dim + D for local, D in zip(self._locals, lengths, strict=True)))
        reduced = [D for local, D in zip(self._locals, lengths, strict=True) if local.dim > D]  # PCA needs D rows
        least = max(self.k, 2, *reduced)
        options = f"{type(self).__name__} with k={self.k} and patch_dim={self.patch_dim}"
        if rows < least:
            raise InputError(
                f"{options} must hold {least} patches, which takes more than {max_bytes} bytes. Give it a smaller k."
            )
        reservoirs = [Reservoir(local.dim, rows * 4 * local.dim, self.random_state) for local in self._locals]
        stream = iter(prepared)
        while batch := list(islice(stream, PICTURES)):
            for channels in self._describe(batch):
                for reservoir, patches in zip(reservoirs, channels, strict=True):
                    reservoir.add(patches.X)
        seen = min(reservoir.seen for reservoir in reservoirs)
        if seen < least:
            raise InputError(
                f"{options} must have at least {least} patches to be fitted on. Got {seen}."
                " Give it more pictures, or smaller numbers."
            )
        progress("fitting", 0, None)
        self._fit([reservoir.rows for reservoir in reservoirs], progress)
        self._at_work = None
        return self


class Reservoir:
    """A uniform sample of a stream of rows within a byte budget: Vitter, "Random sampling with a reservoir", 1985.

    The same rows in the same order give the same bytes, however they are divided into calls of `add` (algorithm R).

    Parameters
    ----------
    dim : the length of a row.
    max_bytes : memory for the sample, at least one row.
    random_state : seed.

    Attributes
    ----------
    rows : (n, dim) float32, the sample.
    seen : number of rows added.

    Examples
    --------
    >>> reservoir = Reservoir(dim=2, max_bytes=24)
    >>> for start in range(0, 100, 10):
    ...     reservoir.add(np.arange(2 * start, 2 * start + 20).reshape(10, 2))
    >>> reservoir.seen, reservoir.rows.shape
    (100, (3, 2))

    """

    def __init__(self, dim: int, max_bytes: int, random_state: int = 0):
        self.capacity = max_bytes // (4 * dim)
        if self.capacity < 1:
            raise InputError(f"max_bytes must be at least {4 * dim}, one row of {dim} numbers. Got {max_bytes}.")
        self.seen = 0
        self._kept: Vectors = np.empty((self.capacity, dim), np.float32)  # the system allocates pages as they fill
        self._random = np.random.default_rng(random_state)

    @property
    def rows(self) -> Vectors:
        """The sample, (n, dim) float32; a view."""
        return self._kept[: self.seen]

    def add(self, X: Array) -> None:
        """Add rows X (m, dim) of the stream."""
        X = check_rows(X, dim=self._kept.shape[1])
        fit = max(0, min(len(X), self.capacity - self.seen))
        self._kept[self.seen : self.seen + fit] = X[:fit]
        # Row t (from 0) draws one of t + 1 places and is kept if the reservoir has that place.
        before = np.arange(self.seen + fit, self.seen + len(X))
        places: NDArray[np.int64] = (self._random.random(len(before)) * (before + 1)).astype(np.int64)
        stays = places < self.capacity
        self._kept[places[stays]] = X[fit:][stays]  # where a place is drawn twice, the later row has it
        self.seen += len(X)


def parse_pyramid(text: str) -> Levels:
    """The levels of a spatial pyramid (Lazebnik, Schmid & Ponce, "Beyond bags of features", CVPR 2006).

    >>> parse_pyramid("1x1, 3x1")
    ((1, 1), (3, 1))
    """
    parts = [re.fullmatch(r"\s*(\d{1,2})x(\d{1,2})\s*", part) for part in str(text).split(",")]
    levels = tuple((int(part[1]), int(part[2])) for part in parts if part)
    if len(levels) < len(parts) or any(not 1 <= count <= MOST_CELLS for level in levels for count in level):
        raise InputError(
            f"pyramid must be levels of columns x rows, each 1 to {MOST_CELLS}, with commas between them, such as"
            f" '1x1,2x2'. Got {text!r}."
        )
    return levels


def count_cells(levels: Levels) -> int:
    """The number of cells of all levels together.

    >>> count_cells(((1, 1), (2, 2)))
    5
    """
    return sum(columns * rows for columns, rows in levels)


def split_cells(places: Vectors, levels: Levels) -> list[slice | NDArray[np.intp]]:
    """The patches of each cell, as an index into them: level by level, row by row from the upper left.

    Places outside the picture belong to the nearest cell.

    >>> split_cells(np.array([[0.1, 0.5], [0.9, 0.5]]), ((1, 1), (2, 1)))
    [slice(None, None, None), array([0]), array([1])]
    """
    cells: list[slice | NDArray[np.intp]] = []
    for columns, rows in levels:
        if columns == rows == 1:
            cells.append(slice(None))  # all patches, without a copy
            continue
        grid = np.array([columns, rows])
        column, row = np.clip((places * grid).astype(np.intp), 0, grid - 1).T
        cells += [np.flatnonzero(row * columns + column == cell) for cell in range(columns * rows)]
    return cells


def cut_box(patches: Patches, box: Box, height: int, width: int) -> Patches:
    """The patches with their centre inside a box, places as shares of the box; if none, the one nearest its centre."""
    left, top, right, bottom = check_box(box)
    low, size = np.array([left, top]), np.array([right - left, bottom - top])
    places = ((patches.places - low) / size).astype(np.float32)  # (m, 2)
    inside = np.flatnonzero(np.all((places >= 0) & (places <= 1), axis=1))
    if len(inside) == 0:
        pixels = (places - 0.5) * size * (width, height)
        inside = np.sum(pixels**2, axis=1).argmin(keepdims=True)
    return Patches(patches.X[inside], places[inside])


def project(X: Vectors, center: Vectors, components: Vectors) -> Vectors:
    """The coordinates of rows X (m, d) along components (D, d) from a center (d,), (m, D) float32."""
    out = np.empty((len(X), len(components)), np.float32)
    for part in chunks(len(X), 8 * sum(components.shape)):
        out[part] = (X[part] - center) @ components.T
    return out
