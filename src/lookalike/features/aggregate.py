"""Aggregate the patches of a picture into one vector: the base of VLAD, Fisher vectors and DFK.

Such a feature has one or more local descriptors, one channel each. `Aggregate` computes the vectors of pictures and
their parts with a fitted vocabulary. `Vocabulary` also fits it, on a uniform random sample of patches (`Reservoir`).
Patches can be aggregated in the cells of a spatial pyramid (`parse_pyramid`, `split_cells`) or in a box (`cut_box`).
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Self, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, chunks, like, namespace
from lookalike.devices import to_device
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
"""Maximum number of words or Gaussians of a vocabulary. With 128 dimensions per patch: half a million per vector."""

PICTURES = 16
"""Number of pictures whose patches are in memory at a time."""

MOST_CELLS = 16
"""Maximum number of columns or rows of a pyramid level."""

Aggregator: TypeAlias = Callable[[Sequence[Patches]], Vectors]
"""Function from the patches of one picture, one `Patches` per channel, to a (dim,) float32 vector."""

Pyramid: TypeAlias = Annotated[str, Matches(r"[0-9x, ]{1,200}")]
"""Levels of a spatial pyramid as text, such as "1x1,2x2"."""

Levels: TypeAlias = tuple[tuple[int, int], ...]
"""Number of columns and rows of each level."""


class Aggregate(Feature):
    """A feature on local descriptors. Subclasses define the learned attributes and how to aggregate with them."""

    k: int
    patch_dim: int | None
    random_state: int

    def __init__(self, specs: Sequence[str], k: int, patch_dim: int | None, pyramid: str, random_state: int):
        limits = [("k", k, 1, MOST_WORDS), ("random_state", random_state, 0, 2**31)]
        limits += [] if patch_dim is None else [("patch_dim", patch_dim, 1, 2**16)]
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
        """Return the dimensions of patches in the vocabulary, per channel. Longer patches are reduced to them."""

    @abstractmethod
    def _aggregator(self) -> Aggregator:
        """Return the function that aggregates patches, built from the learned attributes."""

    def prepare(self, image: Pixels) -> tuple[Prepared, ...]:
        """Prepare a picture with each local descriptor."""
        return tuple(local.prepare(image) for local in self._locals)

    def describe(self, prepared: Sequence[Prepared]) -> Vectors:
        """Compute the vectors of prepared pictures, (n, dim) float32, each of length 1."""
        if len(prepared) == 0:
            self._lengths()  # callers pass an empty list to check that the options are valid
            for local in self._locals:
                local.describe([])
            return np.empty((0, self.dim), np.float32)
        aggregate = self._ready()
        rows = np.empty((len(prepared), self.dim), np.float32)
        for part in chunks(len(prepared), 1, PICTURES):
            rows[part] = [aggregate(patches) for patches in self._describe(prepared[part])]
        return rows

    def regions(self, image: Pixels, boxes: Sequence[Box]) -> Vectors:
        """Compute the vectors of parts of one picture, (len(boxes), dim) float32.

        The vector of a box uses the patches whose centre is inside it. If there are none, it uses the patch nearest to
        the centre of the box.
        """
        aggregate = self._ready()
        height, width = check_pixels(image).shape[:2]
        channels = next(self._describe([self.prepare(image)]))
        rows = [aggregate([cut_box(patches, box, height, width) for patches in channels]) for box in boxes]
        return np.array(rows, np.float32).reshape(-1, self.dim)

    def _describe(self, prepared: Sequence[Prepared]) -> Iterator[tuple[Patches, ...]]:
        """Yield the patches of each picture, one `Patches` per channel."""
        channels = [local.describe([parts[i] for parts in prepared]) for i, local in enumerate(self._locals)]
        return zip(*channels, strict=True)

    def _ready(self) -> Aggregator:
        """Return the result of `_aggregator`, which is cached until the next fit."""
        if not state_of(self):
            raise InputError(f"{type(self).__name__} is not fitted yet. Call fit with pictures first.")
        if self._at_work is None:
            self._at_work = self._aggregator()
        return self._at_work

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_at_work": None}  # functions cannot be pickled


class Vocabulary(Aggregate, LearnedFeature):
    """An aggregate that is fitted on a random sample of patches, without labels."""

    @abstractmethod
    def _fit(self, samples: list[Array], progress: Progress) -> None:
        """Learn from the sampled patches of each channel, (n, dim of the local descriptor) each, possibly on a GPU."""

    def fit(
        self,
        prepared: Iterable[Prepared],
        *,
        max_bytes: int = FIT_BYTES,
        progress: Progress = silent,
        gpu: str | None = None,
    ) -> Self:
        """Fit the vocabulary on a stream of prepared pictures. The channels share `max_bytes` of memory."""
        lengths = self._lengths()
        # While fitting, a sampled patch is in memory twice: raw and reduced.
        rows = max_bytes // (4 * sum(local.dim + D for local, D in zip(self._locals, lengths, strict=True)))
        reduced = [D for local, D in zip(self._locals, lengths, strict=True) if local.dim > D]  # PCA needs D rows
        least = max(self.k, 2, *reduced)
        chosen = f"k={self.k}" if self.patch_dim is None else f"k={self.k} and patch_dim={self.patch_dim}"
        options = f"{type(self).__name__} with {chosen}"
        if rows < least:
            raise InputError(
                f"{options} needs memory for {least} patches, which is more than {max_bytes} bytes. Use a smaller k."
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
                f"{options} needs at least {least} patches to be fitted. Got {seen}."
                " Use more pictures, or a smaller k or patch_dim."
            )
        progress("fitting", 0, None)
        self._fit([to_device(reservoir.rows, gpu) for reservoir in reservoirs], progress)
        self._at_work = None
        return self


class Reservoir:
    """A uniform random sample of a stream of rows within a byte limit.

    The same rows in the same order give the same bytes, however they are divided into calls of `add`. This is
    algorithm R of Vitter, "Random sampling with a reservoir", 1985.

    Parameters
    ----------
    dim : length of a row.
    max_bytes : memory for the sample; at least the size of one row.
    random_state : random seed.

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
            raise InputError(f"max_bytes must be at least {4 * dim}, the size of one row. Got {max_bytes}.")
        self.seen = 0
        self._kept: Vectors = np.empty((self.capacity, dim), np.float32)  # the system allocates pages as they fill
        self._random = np.random.default_rng(random_state)

    @property
    def rows(self) -> Vectors:
        """The sample, (n, dim) float32; a view."""
        return self._kept[: self.seen]

    def add(self, X: Array) -> None:
        """Add the next rows X (m, dim) of the stream."""
        X = check_rows(X, dim=self._kept.shape[1])
        fit = max(0, min(len(X), self.capacity - self.seen))
        self._kept[self.seen : self.seen + fit] = X[:fit]
        # Row t (from 0) draws one of t + 1 positions at random and is kept if the position is in the reservoir.
        before = np.arange(self.seen + fit, self.seen + len(X))
        places: NDArray[np.int64] = (self._random.random(len(before)) * (before + 1)).astype(np.int64)
        stays = places < self.capacity
        self._kept[places[stays]] = X[fit:][stays]  # if a position is drawn twice, the later row wins
        self.seen += len(X)


def parse_pyramid(text: str) -> Levels:
    """Parse the levels of a spatial pyramid (Lazebnik, Schmid & Ponce, "Beyond bags of features", CVPR 2006).

    >>> parse_pyramid("1x1, 3x1")
    ((1, 1), (3, 1))
    """
    parts = [re.fullmatch(r"\s*(\d{1,2})x(\d{1,2})\s*", part) for part in str(text).split(",")]
    levels = tuple((int(part[1]), int(part[2])) for part in parts if part)
    if len(levels) < len(parts) or any(not 1 <= count <= MOST_CELLS for level in levels for count in level):
        raise InputError(
            f"pyramid must be a comma-separated list of columns x rows, each from 1 to {MOST_CELLS}, such as"
            f" '1x1,2x2'. Got {text!r}."
        )
    return levels


def count_cells(levels: Levels) -> int:
    """Return the total number of cells of all levels.

    >>> count_cells(((1, 1), (2, 2)))
    5
    """
    return sum(columns * rows for columns, rows in levels)


def split_cells(places: Vectors, levels: Levels) -> list[slice | NDArray[np.intp]]:
    """Return the indices of the patches in each cell: level by level, row by row from the upper left.

    Positions outside the picture belong to the nearest cell.

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
    """Return the patches whose centre is inside a box, or the patch nearest to its centre if there are none.

    Their positions are fractions of the box.
    """
    left, top, right, bottom = check_box(box)
    low, size = np.array([left, top]), np.array([right - left, bottom - top])
    places = ((patches.places - low) / size).astype(np.float32)  # (m, 2)
    inside = np.flatnonzero(np.all((places >= 0) & (places <= 1), axis=1))
    if len(inside) == 0:
        pixels = (places - 0.5) * size * (width, height)
        inside = np.sum(pixels**2, axis=1).argmin(keepdims=True)
    return Patches(patches.X[inside], places[inside])


def project(X: Array, center: Vectors, components: Vectors) -> Array:
    """Project rows X (m, d), minus a center (d,), onto components (D, d); return (m, D) float32, on the device of X."""
    xp, center, components = namespace(X), like(X, center), like(X, components)
    out = xp.empty((len(X), len(components)), dtype=xp.float32, device=array_api_compat.device(X))
    for part in chunks(len(X), 8 * sum(components.shape)):
        out[part] = (X[part] - center) @ components.T
    return out
