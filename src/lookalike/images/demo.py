"""Drawn pictures of a dozen kinds, for a demo and for tests.

In: a kind and a generator of random numbers. Out: (240, 320, 3) uint8 RGB; pictures of one kind differ in colours,
places, sizes and noise. The same `random_state` gives the same files, byte for byte.
"""

from pathlib import Path

import cv2
import numpy as np

from lookalike.errors import InputError, UnknownNameError
from lookalike.images.scenes import SCENES
from lookalike.types import Pixels, Progress

HEIGHT, WIDTH = 240, 320

KINDS = tuple(SCENES)
"""The kinds there are."""


def draw(kind: str, random: np.random.Generator) -> Pixels:
    """A new picture of this kind, one of `KINDS`; (240, 320, 3) uint8 RGB."""
    if kind not in SCENES:
        raise UnknownNameError("kind of picture", kind, KINDS)
    large = SCENES[kind](random)  # larger, then reduced: smooth edges
    small = cv2.resize(large, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
    light = random.uniform(0.9, 1.08) + random.normal(0, 0.02, 3)  # of day, and of the camera
    noise = random.standard_normal(small.shape, np.float32) * random.uniform(1, 5)
    pixels: Pixels = np.clip(small * light + noise, 0, 255).astype(np.uint8)
    return pixels


def draw_folder(
    folder: str | Path, per_kind: int = 25, random_state: int = 0, progress: Progress | None = None
) -> list[Path]:
    """Draw `per_kind` pictures of every kind to `folder/<kind>/<kind>-000.jpg` …; the paths, sorted.

    A file is complete or not there; one that is there already is left alone. More per kind adds to the same first ones.
    """
    if per_kind < 1:
        raise InputError(f"per_kind must be at least 1. Got {per_kind}.")
    paths = []
    for number, kind in enumerate(KINDS):
        home = Path(folder) / kind
        home.mkdir(parents=True, exist_ok=True)
        for i in range(per_kind):
            paths.append(home / f"{kind}-{i:03}.jpg")
            _write(paths[-1], draw(kind, np.random.default_rng([random_state, number, i])))
            if progress is not None:
                progress("drawing", len(paths), per_kind * len(KINDS))
    return paths


def _write(path: Path, pixels: Pixels) -> None:
    done, data = cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 90])
    assert done
    if path.is_file() and path.read_bytes() == data.tobytes():
        return  # a collection sees that it is unchanged
    unfinished = path.with_name(f".{path.name}")  # hidden: nobody takes it for a picture
    unfinished.write_bytes(data.tobytes())
    unfinished.replace(path)
