"""SIFT in colour: the same patches in three channels, one behind the other.

In: pictures. Out: `Patches`, rows of 384 float32 each. van de Sande, Gevers & Snoek, "Evaluating color descriptors for
object and scene recognition", PAMI 2010. What light may do without changing a row differs; each class says it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.features.sift import DIM, Sift
from lookalike.types import Pixels, Vectors


class RgbSift(Sift):
    """SIFT of red, green and blue. Options as of `Sift`.

    Unchanged by light that becomes stronger or is added, in each channel by another factor and another sum.
    """

    dim = 3 * DIM

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        return [np.ascontiguousarray(picture[..., i]) for i in range(3)]


class OpponentSift(Sift):
    """SIFT of the opponent channels: O1, red against green; O2, yellow against blue; O3, light. Options as of `Sift`.

    Unchanged by light that becomes stronger or is added, the same in all channels.
    """

    dim = 3 * DIM

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        return [_stretch(plane) for plane in _opponents(picture)]


class CSift(Sift):
    """SIFT of the C-invariant: O1 / O3, O2 / O3, and light, O3, of the opponent channels. Options as of `Sift`.

    Unchanged by light that becomes stronger, the same in all channels. O1 / O3 and O2 / O3 do not see shadows.
    """

    dim = 3 * DIM

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        o1, o2, light = _opponents(picture)
        return [_stretch(_divide(o1, light)), _stretch(_divide(o2, light)), _stretch(light)]


class RgSift(Sift):
    """SIFT of the chromaticities r = R / (R + G + B), g = G / (R + G + B), and of light. Options as of `Sift`.

    Unchanged by light that becomes stronger, the same in all channels. r and g do not see shadows.
    """

    dim = 3 * DIM

    def _planes(self, picture: Pixels) -> list[NDArray[np.uint8]]:
        red, green, light = *np.moveaxis(picture, 2, 0)[:2], _opponents(picture)[2]
        return [_stretch(_divide(red, light, 1 / 3)), _stretch(_divide(green, light, 1 / 3)), _stretch(light)]


def _opponents(picture: Pixels) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.int16]]:
    """√2·O1, √6·O2 and √3·O3: whole numbers, since SIFT does not see a channel's factor."""
    red, green, blue = np.moveaxis(picture.astype(np.int16), 2, 0)
    return red - green, red + green - 2 * blue, red + green + blue


def _divide(values: NDArray[Any], light: NDArray[np.int16], black: float = 0.0) -> Vectors:
    """values / light, (height, width); `black`, what grey has, where there is no light."""
    shares = np.full(values.shape, black, np.float32)
    np.divide(values, light, out=shares, where=light > 0, dtype=np.float32)
    return shares


def _stretch(plane: NDArray[Any]) -> NDArray[np.uint8]:
    """A channel as OpenCV's SIFT takes it: its own range as 0 to 255, so that rounding costs weak colours little."""
    values = plane.astype(np.float32)
    low, high = values.min(), values.max()
    return np.asarray(np.rint((values - low) * (255 / (high - low or 1))), np.uint8)
