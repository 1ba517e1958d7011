"""The texture histogram: how a picture's energy is spread over coarse and fine waves and their directions.

In: pictures. Out: (n, 48) float32: square roots of the shares of energy in 6 rings × 8 wedges, unit rows.
Weszka, Dyer & Rosenfeld, "A comparative study of texture measures for terrain classification", IEEE Trans. SMC 1976; as
one of several descriptors: Ferecatu's thesis, Versailles 2005.
"""

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.features.area import SIDE, resize_area
from lookalike.features.rows import RowFeature
from lookalike.types import Pixels, Vectors

RINGS = 6
"""An octave each, from waves longer than 64 pixels to those of 4 and less: pictures have about as much energy in one
octave as in another (Field 1987)."""
WEDGES = 8


class Fourier(RowFeature):
    """Textures: the energy of waves by length and direction, wherever they are.

    The luminance of the picture at about 128 × 128 pixels, less its mean, under a Hann window (so that opposite borders
    do not meet in an edge), is Fourier-transformed; a wave counts its energy for its length (rings: longer than
    64 pixels, than 32, 16, 8, 4, and the rest) and direction (wedges of 22.5 degrees, the first around the horizontal).
    Column 8 i + j is ring i, wedge j. A picture of one colour gets the same in all columns.

    >>> Fourier().extract([np.zeros((20, 30, 3), np.uint8)]).shape
    (1, 48)
    """

    side = SIDE
    dim = RINGS * WEDGES

    def prepare(self, image: Pixels) -> Vectors:
        """The row itself, (48,) float32: it is small."""
        luminance = np.asarray(cv2.cvtColor(resize_area(image), cv2.COLOR_RGB2GRAY), np.float64)  # (h, w)
        height, width = luminance.shape
        shares = _shares((luminance - luminance.mean()) * _hann(height)[:, None] * _hann(width))
        return np.asarray(np.sqrt(shares), np.float32)


def _shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of the energy of values (h, w) in each bin, (48,)."""
    energy = np.abs(np.fft.rfft2(values)) ** 2  # (h, w // 2 + 1): the other half has the same energies
    histogram = np.bincount(_bins(*values.shape).ravel(), energy.ravel(), minlength=RINGS * WEDGES + 1)[1:]
    total = histogram.sum()
    return histogram / total if total else np.full(len(histogram), 1 / len(histogram))


def _hann(length: int) -> NDArray[np.float64]:
    return np.hanning(length + 2)[1:-1]  # without the zeros at its ends


@lru_cache(maxsize=16)
def _bins(height: int, width: int) -> NDArray[np.int64]:
    """The bin of each wave of a picture's spectrum, (height, width // 2 + 1), from 1 on; 0 is left out.

    Left out are the mean, the highest frequency of each axis, which is its own mirror image and so has no direction,
    and one of each two waves of column 0, which holds both halves of its spectrum.
    """
    y, x = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)  # waves a pixel
    ring = np.digitize(y**2 + x**2, [4.0**-step for step in range(RINGS, 1, -1)])  # 1/64, …, 1/4 squared
    wedge = np.rint(np.arctan2(y, x) * (WEDGES / np.pi)).astype(np.int64) % WEDGES
    counted = (np.abs(y) < 0.5) & (x < 0.5) & ((x > 0) | (y > 0))
    return np.where(counted, 1 + ring * WEDGES + wedge, 0)
