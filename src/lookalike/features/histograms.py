"""Histograms of a whole picture, which need no network and no fitting: colours, edges and texture.

`Color`, `Hsv`, `ProbabilityColor` and `LaplacianColor` count colours, `Hough` counts straight edges, and `Fourier` the
waves of a texture. A vector contains the square roots of a histogram that sums to one, so it has unit length, and the
inner product of two vectors is the Bhattacharyya coefficient of their histograms (square roots as in Arandjelović &
Zisserman, CVPR 2012).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.features.pixels import check_pixels, resize
from lookalike.types import Feature, Pixels, Vectors

AREA = 128 * 128
"""Number of pixels of a picture at working size, whatever its aspect ratio."""
SIDE = 128
"""Largest shorter side of a picture of that area."""


class Histogram(Feature):
    """A feature whose `prepare` returns the final vector: it is small and is computed in the reading process."""

    side = SIDE

    def __init__(self) -> None:
        """Accept no options. (The constructor of the protocol would accept any.)"""

    def describe(self, prepared: Sequence[NDArray[Any]]) -> Vectors:
        """Stack the n prepared vectors, (n, dim) float32."""
        return np.array(prepared, np.float32).reshape(-1, self.dim)


COLOR_LEVELS = (32, 16, 16)
"""Levels of hue, saturation and value (8192 in total) in which pixels are counted before they are spread over bins."""
COLOR_BINS = (8, 4, 4)
COLOR_REGIONS = 4


class Color(Histogram):
    """Colours and their approximate position: hue, saturation and value in 8 × 4 × 4 soft bins, in four regions.

    The regions are the central disc and the upper, middle and lower third. A picture and its mirror image have the same
    vector. Each pixel is distributed over the two nearest bins of each axis, so a small change of light changes the
    vector only slightly. Swain & Ballard, "Color indexing", IJCV 1991.
    """

    dim = 512

    def prepare(self, image: Pixels) -> Vectors:
        """Return the vector, (512,) float32."""
        small = resize(check_pixels(image), SIDE, SIDE)
        hsv = np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2HSV_FULL), np.int32)  # (128, 128, 3), each 0 to 255
        places = _CELLS + (hsv[..., 0] // 8 * 256 + hsv[..., 1] // 16 * 16 + hsv[..., 2] // 16)  # (128, 128)
        counts = np.bincount(places.ravel(), minlength=6 * 8192).reshape(6, 8192)
        h = (_CELLS_TO_REGIONS @ counts).reshape(COLOR_REGIONS, COLOR_LEVELS[0], -1)  # (4, 32, 256)
        h = _HUE_TO_BINS.T @ h @ _SHADE_TO_BINS  # (4, 8, 16)
        rows = np.sqrt(h / h.sum(axis=(1, 2), keepdims=True))  # each region has unit length
        return np.asarray(rows.ravel() / np.sqrt(COLOR_REGIONS), np.float32)


def _spread(levels: int, bins: int, *, cyclic: bool = False) -> NDArray[np.float64]:
    """Return the weight of each level in each bin, (levels, bins), linear between the two nearest; rows sum to 1."""
    place = (np.arange(levels) + 0.5) / levels * (bins if cyclic else bins - 1)
    lower = place.astype(int)
    share = place - lower
    spread = np.zeros((levels, bins))
    spread[np.arange(levels), lower] = 1 - share
    spread[np.arange(levels), (lower + 1) % bins] += share
    return spread


def _color_regions() -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the offset of each pixel's cell in the counts, (SIDE, SIDE), and the cells of each region, (4, 6)."""
    y, x = np.mgrid[:SIDE, :SIDE]
    middle = (SIDE - 1) / 2
    disc = (x - middle) ** 2 + (y - middle) ** 2 < (0.375 * SIDE) ** 2
    third = y * 3 // SIDE
    cells = np.arange(6)  # two per third: outside and inside the disc
    regions = np.stack([cells % 2 == 1, *(cells // 2 == i for i in range(3))])
    return ((third * 2 + disc) * 8192).astype(np.int32), regions.astype(np.float64)


_CELLS, _CELLS_TO_REGIONS = _color_regions()
_HUE_TO_BINS = _spread(COLOR_LEVELS[0], COLOR_BINS[0], cyclic=True)  # (32, 8)
_SHADE_TO_BINS = np.kron(  # (256, 16), saturation and value
    _spread(COLOR_LEVELS[1], COLOR_BINS[1]), _spread(COLOR_LEVELS[2], COLOR_BINS[2])
)


HSV_BINS = (10, 4, 3)
"""Bins of hue, saturation and value. A change of light changes hue least and value most."""


class Hsv(Histogram):
    """Colours of the whole picture: 10 hues × 4 saturations × 3 values.

    A hue bin is 36 degrees wide. The first one covers -18 to 18 degrees, so all reds are in one bin. Smith & Chang,
    "Tools and techniques for color image retrieval", SPIE 1996, with fewer bins.

    >>> red = np.full((20, 30, 3), (255, 0, 0), np.uint8)
    >>> int(Hsv().extract([red])[0].argmax())  # the first hue, the last saturation, the last value
    11
    """

    dim = 120

    def prepare(self, image: Pixels) -> Vectors:
        """Return the vector, (120,) float32."""
        hsv = cv2.cvtColor(resize_area(image), cv2.COLOR_RGB2HSV_FULL)  # (h, w, 3), each 0 to 255
        places = _HUE_OFFSETS[hsv[..., 0]] + _SATURATION_OFFSETS[hsv[..., 1]] + _VALUE_OFFSETS[hsv[..., 2]]  # (h, w)
        histogram = np.bincount(places.ravel(), minlength=self.dim)
        return np.asarray(np.sqrt(histogram / histogram.sum()), np.float32)


# The bin offset of each of the 256 levels of an axis.
_HUE_OFFSETS = (np.arange(256) * HSV_BINS[0] + 128) // 256 % HSV_BINS[0] * (HSV_BINS[1] * HSV_BINS[2])
_SATURATION_OFFSETS = np.arange(256) * HSV_BINS[1] // 256 * HSV_BINS[2]
_VALUE_OFFSETS = np.arange(256) * HSV_BINS[2] // 256


RGB_LEVELS = 6
"""Levels of red, of green and of blue."""
REACH = 3
"""Radius of a pixel's neighbourhood, which has 7 × 7 pixels."""
OUTSIDE = 255
"""The bin of pixels outside the picture."""


class ProbabilityColor(Histogram):
    """Colours (6 × 6 × 6 bins of RGB), weighted by local rarity.

    The weight of a pixel is 1 / p, where p is the fraction of its 7 × 7 neighbourhood in the same bin. Small objects
    and fine patterns thus outweigh a plain background. Vertan & Boujemaa, "Upgrading color distributions for image
    retrieval: can we do better?", VISUAL 2000.

    >>> ProbabilityColor().extract([np.zeros((20, 30, 3), np.uint8)]).shape
    (1, 216)
    """

    dim = 216

    def prepare(self, image: Pixels) -> Vectors:
        """Return the vector, (216,) float32."""
        colors = _quantise(resize_area(image))
        return _weighted_row(colors, 1 / _local_shares(colors))


class LaplacianColor(Histogram):
    """Colours (6 × 6 × 6 bins of RGB) at edges: the weight of a pixel is the squared Laplacian of the luminance.

    In a picture without edges, all pixels have the same weight. Vertan & Boujemaa, VISUAL 2000; Boujemaa et al.,
    "IKONA: interactive generic and specific image retrieval", MMCBIR 2001.

    >>> LaplacianColor().extract([np.zeros((20, 30, 3), np.uint8)]).shape
    (1, 216)
    """

    dim = 216

    def prepare(self, image: Pixels) -> Vectors:
        """Return the vector, (216,) float32."""
        small = resize_area(image)
        luminance = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)  # (h, w)
        laplacian = cv2.Laplacian(luminance, cv2.CV_16S, ksize=1, borderType=cv2.BORDER_REPLICATE)
        weights = laplacian.astype(np.float64) ** 2
        return _weighted_row(_quantise(small), weights if weights.any() else np.ones_like(weights))


_RGB_STEPS = (np.arange(256) * RGB_LEVELS // 256).astype(np.uint8)


def _quantise(image: Pixels) -> NDArray[np.uint8]:
    """Return the bin of each pixel's colour, (h, w), 0 to 215."""
    red, green, blue = (_RGB_STEPS[image[..., channel]] for channel in range(3))
    return red * np.uint8(RGB_LEVELS**2) + green * np.uint8(RGB_LEVELS) + blue


def _local_shares(colors: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the fraction of each pixel's neighbourhood inside the picture that is in the pixel's bin, (h, w)."""
    height, width = colors.shape
    framed = np.pad(colors, REACH, constant_values=OUTSIDE)
    counts = np.zeros((height, width), np.uint8)  # at most 49
    for y in range(2 * REACH + 1):
        for x in range(2 * REACH + 1):
            counts += framed[y : y + height, x : x + width] == colors
    return counts / (_neighbours(height)[:, None] * _neighbours(width))


def _neighbours(length: int) -> NDArray[np.int64]:
    """Return the size of the neighbourhood of each of `length` pixels in a line, including itself, (length,)."""
    place = np.arange(length)
    return np.minimum(place, REACH) + np.minimum(place[::-1], REACH) + 1


def _weighted_row(colors: NDArray[np.uint8], weights: NDArray[np.float64]) -> Vectors:
    """Return the square roots of the weighted histogram, (216,) float32."""
    histogram = np.bincount(colors.ravel(), weights.ravel(), minlength=RGB_LEVELS**3)
    return np.asarray(np.sqrt(histogram / histogram.sum()), np.float32)


DIRECTIONS = 8
DISTANCES = 8


class Hough(Histogram):
    """Straight edges by direction and distance from the centre.

    A pixel at (x, y), relative to the centre of the picture, with luminance gradient g (3 × 3 Sobel) in direction t
    lies on an edge whose line passes the centre at the distance |x cos t + y sin t|. It adds |g| to the bin of its
    unsigned direction t (8 bins of 22.5 degrees, the first around the horizontal and the fifth around the vertical
    gradient) and of its distance (8 equal steps from the centre to the corner). Dimension 8 i + j is direction i,
    distance j. In a picture without edges, all dimensions are equal.

    Hough's transform from gradients: O'Gorman & Clowes, "Finding picture edges through collinearity of feature points",
    IEEE Trans. Computers 1976; as an image descriptor: Ferecatu's thesis, Versailles 2005.

    >>> Hough().extract([np.zeros((20, 30, 3), np.uint8)]).shape
    (1, 64)
    """

    dim = 64

    def prepare(self, image: Pixels) -> Vectors:
        """Return the vector, (64,) float32."""
        luminance = cv2.cvtColor(resize_area(image), cv2.COLOR_RGB2GRAY)  # (h, w)
        height, width = luminance.shape
        dx, dy = (
            cv2.Sobel(luminance, cv2.CV_32F, *order, ksize=3, borderType=cv2.BORDER_REPLICATE)
            for order in ((1, 0), (0, 1))
        )
        length = cv2.magnitude(dx, dy)  # (h, w)
        x = np.arange(width, dtype=np.float32) - np.float32((width - 1) / 2)
        y = np.arange(height, dtype=np.float32)[:, None] - np.float32((height - 1) / 2)
        # A pixel without a gradient has weight 0, so its distance does not matter.
        distance = np.abs(x * dx + y * dy) / np.maximum(length, 1)  # (h, w), in pixels
        farthest = np.hypot(width - 1, height - 1) / 2
        steps = np.minimum(distance * np.float32(DISTANCES / farthest), DISTANCES - 1).astype(np.int32)
        turns = np.rint(np.arctan2(dy, dx) * np.float32(DIRECTIONS / np.pi)).astype(np.int32) % DIRECTIONS
        return _root_of_shares(np.bincount((turns * DISTANCES + steps).ravel(), length.ravel(), minlength=self.dim))


RINGS = 6
"""One octave each, from waves longer than 64 pixels to waves of 4 pixels or less. Natural pictures have about the same
energy in each octave (Field 1987)."""
WEDGES = 8


class Fourier(Histogram):
    """Texture: the energy of waves by wavelength and direction, over the whole picture.

    The picture is resized to about 128 × 128 pixels. Its luminance, minus the mean, is multiplied by a Hann window (so
    that opposite borders do not form an edge) and Fourier-transformed. The energy of a wave is added to the bin of its
    wavelength (6 rings, with limits at 64, 32, 16, 8 and 4 pixels) and direction (8 wedges of 22.5 degrees, the first
    around the horizontal). Dimension 8 i + j is ring i, wedge j. In a picture of a single colour, all dimensions are
    equal.

    Weszka, Dyer & Rosenfeld, "A comparative study of texture measures for terrain classification", IEEE Trans. SMC
    1976; as one of several descriptors: Ferecatu's thesis, Versailles 2005.

    >>> Fourier().extract([np.zeros((20, 30, 3), np.uint8)]).shape
    (1, 48)
    """

    dim = 48

    def prepare(self, image: Pixels) -> Vectors:
        """Return the vector, (48,) float32."""
        luminance = np.asarray(cv2.cvtColor(resize_area(image), cv2.COLOR_RGB2GRAY), np.float64)  # (h, w)
        height, width = luminance.shape
        return _root_of_shares(wave_energies((luminance - luminance.mean()) * _hann(height)[:, None] * _hann(width)))


def wave_energies(values: NDArray[np.float64]) -> NDArray[Any]:
    """Return the energy of values (h, w) in each ring and wedge, (48,)."""
    energy = np.abs(np.fft.rfft2(values)) ** 2  # (h, w // 2 + 1): the other half has the same energies
    return np.bincount(_wave_bins(*values.shape).ravel(), energy.ravel(), minlength=RINGS * WEDGES + 1)[1:]


def _hann(length: int) -> NDArray[np.float64]:
    return np.hanning(length + 2)[1:-1]  # without the zeros at its ends


@lru_cache(maxsize=16)
def _wave_bins(height: int, width: int) -> NDArray[np.int64]:
    """Return the bin of each wave of a picture's spectrum, (height, width // 2 + 1), from 1; waves in 0 are ignored.

    Ignored are the mean, the highest frequency of each axis (its own mirror image, so it has no direction), and half of
    column 0, which contains both halves of its spectrum.
    """
    y, x = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)  # waves per pixel
    ring = np.digitize(y**2 + x**2, [4.0**-step for step in range(RINGS, 1, -1)])  # 1/64, …, 1/4 squared
    wedge = np.rint(np.arctan2(y, x) * (WEDGES / np.pi)).astype(np.int64) % WEDGES
    counted = (np.abs(y) < 0.5) & (x < 0.5) & ((x > 0) | (y > 0))
    return np.where(counted, 1 + ring * WEDGES + wedge, 0)


def resize_area(image: Pixels, area: int = AREA) -> Pixels:
    """Resize a picture to about `area` pixels, with its aspect ratio unchanged; a thin strip is at least a pixel wide.

    >>> import numpy as np
    >>> resize_area(np.zeros((400, 600, 3), np.uint8)).shape
    (105, 157, 3)
    """
    height, width = check_pixels(image).shape[:2]
    scale = math.sqrt(area / (height * width))
    new_height, new_width = (min(max(round(scale * length), 1), area) for length in (height, width))
    return resize(image, new_height, new_width)


def _root_of_shares(histogram: NDArray[Any]) -> Vectors:
    """Return the square roots of the normalised histogram, float32; uniform if the histogram is all zero."""
    total = histogram.sum()
    shares = histogram / total if total else np.full(len(histogram), 1 / len(histogram))
    return np.asarray(np.sqrt(shares), np.float32)
