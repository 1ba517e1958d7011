"""How quick a recipe is on this machine, in a second or so.

In: a recipe's chain of specs. Out: the length of its vectors and pictures a second, estimated from a few drawn ones:
what the reading processes do runs on every core at once, the rest has all cores to itself.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np

from lookalike.collection.describing import SINGLE_BLAS_THREAD
from lookalike.images.decoding import read
from lookalike.images.demo import KINDS, draw
from lookalike.images.workers import count_cores
from lookalike.registry import create
from lookalike.types import Feature, needs_fit

PICTURES = 8
SHAPE = (768, 512)
"""Width and height of the drawn pictures: between a web page's and a camera's."""
LEARN_BYTES = 2**22
"""What features that learn may look at: a poor vocabulary is as quick as a good one."""


@dataclass(frozen=True)
class Speed:
    """What a picture costs."""

    dim: int
    pictures_per_s: float


def measure(chain: Sequence[str]) -> Speed:
    """The speed of a recipe, transforms left out: they are a matrix product. MissingError where weights are missing."""
    feature, rate = _rate(chain[0])
    dim = feature.dim
    for spec in chain[1:]:
        dim = min(dim, getattr(create("transform", spec), "dim", dim))
    return Speed(dim, rate)


@cache
def _rate(spec: str) -> tuple[Feature, float]:
    """A feature, and the pictures a second it can do."""
    feature: Feature = create("feature", spec)
    files = _files()
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)  # as in the reading processes
    try:
        prepared = [feature.prepare(read(data, side=feature.side).pixels) for data in files[:2]]  # warms up
        start = time.perf_counter()
        prepared = [feature.prepare(read(data, side=feature.side).pixels) for data in files]
        preparing = (time.perf_counter() - start) / PICTURES
    finally:
        cv2.setNumThreads(threads)
    if needs_fit(feature):
        feature.fit(prepared, max_bytes=LEARN_BYTES)  # type: ignore[attr-defined]
    with SINGLE_BLAS_THREAD:
        feature.describe(prepared[:1])
        start = time.perf_counter()
        feature.describe(prepared)
        describing = (time.perf_counter() - start) / PICTURES
    everywhere = preparing + describing if feature.by_picture else preparing
    return feature, 1 / (everywhere / count_cores() + (preparing + describing - everywhere))


@cache
def _files() -> list[bytes]:
    """Drawn pictures as JPEG files."""
    files = []
    for i in range(PICTURES):
        small = draw(KINDS[i % len(KINDS)], np.random.default_rng(i))
        done, data = cv2.imencode(".jpg", cv2.resize(small, SHAPE)[:, :, ::-1])
        assert done
        files.append(data.tobytes())
    return files
