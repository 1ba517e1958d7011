"""Any network in an ONNX file as a feature.

In: pictures. Out: (n, dim) float32, unit rows: a tensor of the network, pooled where it is more than a row a picture.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import unit_rows
from lookalike.errors import InputError, UnknownNameError
from lookalike.features.network import Network, check_options
from lookalike.features.pixels import crop_square
from lookalike.features.pooling import POOLS, pool_graph, pools_for
from lookalike.features.session import Once, open_session, run_batches, save_graph
from lookalike.types import Feature, Pixels, Vectors

DEFAULT_POOLS = {2: None, 3: "cls", 4: "gem"}
"""Axes of a network's output → the pooling it gets where nobody says."""


class Onnx(Feature):
    """A network of the user's own: AlexNet, VGG, NetVLAD, CLIP, DINOv2, whatever was exported to ONNX.

    Parameters
    ----------
    path : the file. Weights kept in a second file are found beside it.
    size : the network sees the central square of a picture, scaled to size × size pixels.
    mean, scale : the network's input is (pixel - mean) / scale, pixels being 0 to 255; a number, or one a channel.
    output : the name of the tensor to take, an output or any inside the network; the first output where None.
    pool : how an output becomes one row a picture: "gem" (p = 3), "avg", "max", "spoc" or "rmac" for feature maps,
        "cls" or "mean" for tokens. Where None: "gem" for maps (4 axes), "cls" for tokens (3 axes), rows (2 axes) as
        they are.

    """

    def __init__(
        self,
        path: str | Path,
        size: int = 224,
        mean: float | Sequence[float] = 0.0,
        scale: float | Sequence[float] = 255.0,
        output: str | None = None,
        pool: str | None = None,
    ):
        check_options(size, mean, scale, output)
        if pool is not None and pool not in list(POOLS):
            raise UnknownNameError("pooling", str(pool), POOLS)
        self.path = str(path)
        self.size = self.side = size
        self.mean = mean
        self.scale = scale
        self.output = output
        self.pool = pool
        self._loaded = Once(self._load)

    @property
    def dim(self) -> int:
        """The length of a row. Loads the network."""
        return self._loaded()[2]

    def prepare(self, image: Pixels) -> Pixels:
        """The central square, (size, size, 3) uint8."""
        return crop_square(image, self.size)

    def describe(self, prepared: Sequence[NDArray[Any]]) -> Vectors:
        """Prepared pictures to (n, dim) float32, unit rows."""
        network, pool, dim = self._loaded()
        X = run_batches(lambda pixels: pool(network.run(pixels)), prepared, (dim,), network.batch)
        return network.check_finite(unit_rows(X))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.size, self.mean, self.scale, self.output, self.pool)

    def _load(self) -> tuple[Network, Callable[[NDArray[np.float32]], Vectors], int]:
        """The network, what makes rows of its output, and their length."""
        network = Network(self.path, self.size, self.mean, self.scale, self.output)
        axes = 1 + len(network.shape)
        if self.pool and self.pool not in pools_for(axes):
            raise InputError(
                f"The output {network.output} of {self.path} gives {network.shape} a picture, which pool={self.pool!r}"
                f" cannot take. Choose {', '.join(pools_for(axes)) or 'None: it is a row as it stands'}."
            )
        pool = self.pool or DEFAULT_POOLS[axes]
        if pool is None:
            return network, lambda rows: rows, network.shape[0]
        session = open_session(save_graph(pool_graph(pool, network.shape)))
        dim = network.shape[0] if axes == 4 else network.shape[1]
        return network, lambda maps: session.run(["row"], {"map": maps})[0], dim
