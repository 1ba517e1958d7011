"""The places of a network's feature map as local descriptors: what a vocabulary of deep features is made of.

In: pictures. Out: the patches of each, (h · w, c) float32, unit rows, with the centres of their cells in the picture.
Gong et al., "Multi-scale orderless pooling of deep convolutional activation features", ECCV 2014, for VLAD over them;
unit rows as before the VLAD layer of Arandjelović et al., "NetVLAD: CNN architecture for weakly supervised place
recognition", CVPR 2016.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import unit_rows
from lookalike.errors import InputError
from lookalike.features.efficientnet import DIM, MAP, SHARE, SIDE, SIZE, build, find_weights
from lookalike.features.network import Network, check_options
from lookalike.features.pixels import crop_square
from lookalike.features.pth import read_pth
from lookalike.features.session import Once, open_session, run_batches
from lookalike.types import Local, Patches, Pixels

Square: TypeAlias = tuple[Pixels, NDArray[np.float64]]
"""What a network sees of a picture, and its box: left, top, right and bottom as shares of the whole."""


class OnnxMaps(Local):
    """The feature map of a network of the user's own. The options are those of `Onnx`; the output must be a map."""

    def __init__(
        self,
        path: str | Path,
        size: int = 224,
        mean: float | Sequence[float] = 0.0,
        scale: float | Sequence[float] = 255.0,
        output: str | None = None,
    ):
        check_options(size, mean, scale, output)
        self.path = str(path)
        self.size = self.side = size
        self.mean = mean
        self.scale = scale
        self.output = output
        self._network = Once(self._load)

    @property
    def dim(self) -> int:
        """The channels of the map. Loads the network."""
        return self._network().shape[0]

    def prepare(self, image: Pixels) -> Square:
        """The central square, (size, size, 3) uint8, and its box."""
        return crop_square(image, self.size), _square_box(image)

    def describe(self, prepared: Sequence[Square]) -> list[Patches]:
        """Prepared pictures to the patches of each."""
        network = self._network()
        maps = run_batches(network.run, [pixels for pixels, _ in prepared], network.shape, network.batch)
        return _cut(network.check_finite(maps), [box for _, box in prepared])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.size, self.mean, self.scale, self.output)

    def _load(self) -> Network:
        network = Network(self.path, self.size, self.mean, self.scale, self.output)
        if len(network.shape) != 3:
            raise InputError(
                f"The output {network.output} of {self.path} gives {network.shape} a picture, which is no map."
                " Choose one of 4 axes: pictures, channels, height and width."
            )
        return network


class EfficientNetMaps(Local):
    """The last feature map of EfficientNet-Lite0: 49 patches a picture, 1,280 numbers each."""

    side = SIDE
    dim = DIM

    def __init__(self) -> None:
        self._session = Once(lambda: open_session(build(read_pth(find_weights()))))

    def prepare(self, image: Pixels) -> Square:
        """The inner 7/8 of the central square, (224, 224, 3) uint8, and its box."""
        return crop_square(image, SIZE, SHARE), _square_box(image, SHARE)

    def describe(self, prepared: Sequence[Square]) -> list[Patches]:
        """Prepared pictures to the 49 patches of each."""
        session = self._session()
        images = [pixels for pixels, _ in prepared]
        maps = run_batches(lambda pixels: session.run(["map"], {"pixels": pixels})[0], images, MAP)
        return _cut(maps, [box for _, box in prepared])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()


def _square_box(image: Pixels, share: float = 1.0) -> NDArray[np.float64]:
    """Where the central square lies, to within a pixel: left, top, right and bottom."""
    height, width = image.shape[:2]
    half = share * min(height, width) / 2 / np.array([width, height])  # as shares of width and height
    return np.concatenate([0.5 - half, 0.5 + half])


def _cut(maps: NDArray[np.float32], boxes: Sequence[NDArray[np.float64]]) -> list[Patches]:
    """(n, c, h, w) maps of these parts of pictures to a patch a place, row by row."""
    c, h, w = maps.shape[1:]
    y, x = np.divmod(np.arange(h * w), w)  # (h * w,)
    cells = np.stack([(x + 0.5) / w, (y + 0.5) / h], axis=1)  # (h * w, 2): centres, as shares of the square
    return [
        Patches(unit_rows(one.reshape(c, h * w).T.copy()), (box[:2] + cells * (box[2:] - box[:2])).astype(np.float32))
        for one, box in zip(maps, boxes, strict=True)
    ]
