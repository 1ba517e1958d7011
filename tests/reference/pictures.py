"""Synthetic pictures with soft colours, hard edges and some noise."""

import numpy as np


def draw(seed: int, height: int = 128, width: int = 128) -> np.ndarray:
    """Return a colour gradient with a disc, a bar, and noise over one half, (height, width, 3) uint8."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    ground, ink, bar = random.integers(40, 216, (3, 3))
    picture = ground + (x / width)[..., None] * random.integers(-40, 41, 3)
    middle = random.uniform(0.3, 0.7, 2) * (height, width)
    picture[np.hypot(y - middle[0], x - middle[1]) < random.uniform(0.1, 0.3) * height] = ink
    slope = random.uniform(0, np.pi)
    picture[np.abs(np.cos(slope) * (x - middle[1]) + np.sin(slope) * (y - middle[0]) - 20) < 6] = bar
    picture[: height // 2] += random.normal(0, 12, (height // 2, width, 3))
    return picture.round().clip(20, 235).astype(np.uint8)
