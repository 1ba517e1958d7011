"""Altered versions of a picture, which an encoder must still take for the same: crops, a flip, light, recompression.

In: a picture, (height, width, 3) uint8. Out: the same changed in VARIANTS ways, always the same ones, uint8; or vectors
of them, for pictures of a collection.
"""

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from lookalike.arrays import chunks
from lookalike.engine.calm import CALM
from lookalike.engine.chain import Prepare
from lookalike.errors import InputError
from lookalike.images.sources import locate
from lookalike.images.workers import Read, ReadPool
from lookalike.store.directory import Store
from lookalike.types import Box, Feature, Ids, Pixels, Prepared, Progress, Vectors, crop

CROPS: tuple[Box, ...] = (
    (0.05, 0.05, 0.95, 0.95),
    (0.0, 0.0, 0.75, 0.75),
    (0.25, 0.2, 1.0, 0.95),
    (0.2, 0.2, 0.8, 0.8),
    (0.1, 0.4, 0.6, 0.9),
)
"""What is cut out: nearly all of it, corners, the middle, a quarter off the middle."""

SMALLEST = 0.5
"""The shortest side of a crop, as a share: pictures are read that much larger."""

BLOCK = 32
"""Pictures read at a time, so that not many more are read than are wanted."""


def _flip(image: Pixels) -> Pixels:
    return image[:, ::-1]


def _light(image: Pixels, gain: float) -> Pixels:
    lit: Pixels = np.clip(image * gain, 0, 255).astype(np.uint8)
    return lit


def _compress(image: Pixels, quality: int) -> Pixels:
    """As after another save as JPEG."""
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=quality)
    return np.asarray(Image.open(stream).convert("RGB"))


_ALTER: tuple[Callable[[Pixels], Pixels], ...] = (
    *(lambda image, box=box: crop(image, box) for box in CROPS),
    _flip,
    lambda image: _flip(crop(image, CROPS[3])),
    lambda image: _compress(_light(image, 1.2), 30),
    lambda image: _compress(_light(crop(image, CROPS[2]), 0.8), 60),
)

VARIANTS = len(_ALTER)


def variants(image: Pixels) -> list[Pixels]:
    """The altered versions of a picture.

    >>> [altered.shape[:2] for altered in variants(np.zeros((40, 60, 3), np.uint8))][:4]
    [(36, 54), (30, 45), (30, 45), (24, 36)]
    """
    return [np.ascontiguousarray(alter(image)) for alter in _ALTER]


@dataclass(frozen=True)
class _Vary:
    """What a reading process makes of a picture: each altered version, prepared."""

    prepare: Prepare

    def __call__(self, image: Pixels) -> list[list[Prepared]]:
        return [self.prepare(altered) for altered in variants(image)]


def describe_variants(
    store: Store, ids: Sequence[int], feature: Feature, n: int, progress: Progress, workers: int | None
) -> tuple[Ids, Vectors]:
    """Altered versions of the first n of these items that can be read: ids (m,) and rows (m, VARIANTS, d), m ≤ n.

    A file that is gone, or holds another picture by now, is passed over.
    """
    prepare = Prepare([feature])
    found: dict[int, Vectors] = {}
    with CALM, ReadPool(_Vary(prepare), side=math.ceil(feature.side / SMALLEST), workers=workers) as pool:
        for part in chunks(len(ids), 1, BLOCK):
            paths = store.items.first_paths(ids[part])
            there = [entry for path in paths.values() if (entry := locate(path)) is not None]
            for outcome in pool.map(there):
                if isinstance(outcome, Read) and outcome.id in paths:
                    (found[outcome.id],) = prepare.finish(outcome.parts)  # (VARIANTS, d)
                progress("altering pictures", min(len(found), n), n)
            if len(found) >= n:
                break
    if len(found) < 2:
        raise InputError(f"At least 2 pictures must be there to be read. Got {len(found)} of {len(ids)}.")
    kept = [item for item in ids if item in found][:n]
    return np.array(kept, np.int64), np.stack([found[item] for item in kept])
