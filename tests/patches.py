"""A local feature for tests that computes its patches directly from the pixels."""

import numpy as np

from lookalike.types import Local, Patches


class Grid(Local):
    """Random projections of every `step`-th pixel: (m, dim), with positions on a grid."""

    side = 16
    dim = 12

    def __init__(self, dim=12, step=4):
        self.dim = dim
        self.step = step

    def prepare(self, image):
        return np.ascontiguousarray(image[:: self.step, :: self.step])

    def describe(self, prepared):
        mix = np.random.default_rng(0).normal(size=(3, self.dim))
        found = []
        for pixels in prepared:
            height, width = pixels.shape[:2]
            X = np.sin(pixels.reshape(-1, 3) / 40 @ mix).astype(np.float32)
            y, x = np.mgrid[:height, :width]
            places = np.stack([(x.ravel() + 0.5) / width, (y.ravel() + 0.5) / height], axis=1)
            found.append(Patches(X, places.astype(np.float32)))
        return found


def draw(seed, height=64, width=80):
    """Return a picture of random blocks of 4 × 4 pixels."""
    random = np.random.default_rng(seed)
    return np.kron(random.integers(0, 256, (height // 4, width // 4, 3)), np.ones((4, 4, 1))).astype(np.uint8)
