"""From the patches of a picture to one row: what VLAD, Fisher vectors and discriminative Fisher kernels share.

In: pictures, by way of locals, each a channel of its own. Out: (n, dim) float32. A vocabulary is learned from a
uniform sample of the patches; `_fit` makes it, and what `_aggregator` returns puts it to work.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Self, TypeAlias

import numpy as np

from lookalike.arrays import chunks
from lookalike.errors import InputError
from lookalike.features.pixels import check_pixels
from lookalike.features.pyramid import cut_box, parse_pyramid
from lookalike.features.sample import Reservoir
from lookalike.registry import create, state_of
from lookalike.types import (
    FIT_BYTES,
    Box,
    Feature,
    LearnedFeature,
    Local,
    Patches,
    Pixels,
    Prepared,
    Progress,
    Vectors,
    silent,
)

MOST_WORDS = 2**12
"""Words or Gaussians that a vocabulary may have: at 128 numbers a patch, half a million numbers a row."""

PICTURES = 16
"""Pictures whose patches are held at a time."""

Aggregator: TypeAlias = Callable[[Sequence[Patches]], Vectors]
"""The patches of one picture, a channel each, to (dim,) float32."""


class Aggregate(Feature):
    """A feature that stands on locals. Those who derive from it say what is learned and how it is used."""

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
        """How long the patches of each channel are in the vocabulary; those longer are reduced."""

    @abstractmethod
    def _aggregator(self) -> Aggregator:
        """The vocabulary at work."""

    def prepare(self, image: Pixels) -> tuple[Prepared, ...]:
        """What each local prepares."""
        return tuple(local.prepare(image) for local in self._locals)

    def describe(self, prepared: Sequence[Prepared]) -> Vectors:
        """Prepared pictures to (n, dim) float32, unit rows."""
        if len(prepared) == 0:
            self._lengths()  # whoever asks for no picture wants to know whether any could be described
            for local in self._locals:
                local.describe([])
            return np.empty((0, self.dim), np.float32)
        aggregate = self._ready()
        rows = np.empty((len(prepared), self.dim), np.float32)
        for part in chunks(len(prepared), 1, PICTURES):
            rows[part] = [aggregate(patches) for patches in self._describe(prepared[part])]
        return rows

    def regions(self, image: Pixels, boxes: Sequence[Box]) -> Vectors:
        """Parts of one picture to (len(boxes), dim) float32: of the patches whose centre lies inside each box.

        A box without any takes the patch nearest its centre.
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
        """The vocabulary at work, made once for what was learned."""
        if not state_of(self):
            raise InputError(f"{type(self).__name__} has no vocabulary yet. Fit it on pictures first.")
        if self._at_work is None:
            self._at_work = self._aggregator()
        return self._at_work

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_at_work": None}  # a function of this process


class Vocabulary(Aggregate, LearnedFeature):
    """One that learns from patches alone, whatever picture they are of."""

    @abstractmethod
    def _fit(self, samples: list[Vectors], progress: Progress) -> None:
        """The vocabulary from a sample of the patches of each channel, (n, local's dim) each."""

    def fit(self, prepared: Iterable[Prepared], *, max_bytes: int = FIT_BYTES, progress: Progress = silent) -> Self:
        """Learn the vocabulary from a stream of prepared pictures; `max_bytes` are shared by the channels."""
        lengths = self._lengths()
        # A row is held twice while it is learned from: as it came and reduced.
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


def project(X: Vectors, center: Vectors, components: Vectors) -> Vectors:
    """Rows X (m, d) to (m, D) float32: their coordinates along the components (D, d), from the center (d,)."""
    out = np.empty((len(X), len(components)), np.float32)
    for part in chunks(len(X), 8 * sum(components.shape)):
        out[part] = (X[part] - center) @ components.T
    return out
