"""Any network in an ONNX file as a feature.

In: pictures. Out: (n, dim) float32, unit rows: the network's output, pooled where it is more than a row a picture.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import NodeArg

from lookalike.errors import InputError, MissingError, UnknownNameError
from lookalike.features.pixels import crop_square
from lookalike.features.pooling import POOLS, pool_graph
from lookalike.features.session import BATCH, describe_batches, open_session, save_graph
from lookalike.types import Feature, Pixels, Vectors

DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
"""The numbers a network may want: onnxruntime's name for them, and NumPy's."""

DEFAULT_POOLS = {2: None, 3: "cls", 4: "gem"}
"""Axes of a network's output → the pooling it gets where nobody says."""


class Onnx(Feature):
    """A network of the user's own: CLIP, DINOv2, NetVLAD, whatever was exported to ONNX.

    Parameters
    ----------
    path : the file. Weights kept in a second file are found beside it.
    size : the network sees the central square of a picture, scaled to size × size pixels.
    mean, scale : the network's input is (pixel - mean) / scale, pixels being 0 to 255; a number, or one a channel.
    output : the name of the output to take; the first where None.
    pool : how an output becomes one row a picture: "gem" (p = 3), "avg" or "max" for feature maps, "cls" or "mean"
        for tokens. Where None: "gem" for maps (4 axes), "cls" for tokens (3 axes), rows (2 axes) as they are.

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
        if not isinstance(size, int) or size < 1:
            raise InputError(f"size must be a whole number of at least 1. Got {size!r}.")
        if not _is_per_channel(mean):
            raise InputError(f"mean must be a number, or three for red, green and blue. Got {mean!r}.")
        if not _is_per_channel(scale) or not np.all(scale):
            raise InputError(f"scale must be a number other than 0, or three of them. Got {scale!r}.")
        if pool is not None and pool not in POOLS:
            raise UnknownNameError("pooling", pool, POOLS)
        self.path = str(path)
        self.size = self.side = size
        self.mean = mean
        self.scale = scale
        self.output = output
        self.pool = pool
        self._lock = threading.Lock()
        self._network: _Network | None = None

    @property
    def dim(self) -> int:
        """The length of a row. Loads the network."""
        return self._load().dim

    def prepare(self, image: Pixels) -> Pixels:
        """The central square, (size, size, 3) uint8."""
        return crop_square(image, self.size)

    def describe(self, prepared: Sequence[NDArray[Any]]) -> Vectors:
        """Prepared pictures to (n, dim) float32, unit rows."""
        network = self._load()
        X = describe_batches(network.run, prepared, network.dim, network.fixed_batch or BATCH)
        if not np.all(np.isfinite(X)):
            raise InputError(f"The network {self.path} gave NaN or infinity for a picture. Check its mean and scale.")
        return X

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.size, self.mean, self.scale, self.output, self.pool)

    def _load(self) -> "_Network":
        with self._lock:
            if self._network is None:
                self._network = _Network(self)
            return self._network


class _Network:
    """The loaded network of a feature, and what can only be found out by loading it."""

    def __init__(self, feature: Onnx):
        self.path = feature.path
        if not Path(self.path).is_file():
            raise MissingError(f"No network at {self.path}. Give the path of an ONNX file.")
        try:
            self.session = open_session(self.path)
        except Exception as error:  # noqa: BLE001 (onnxruntime's errors share no class)
            raise InputError(f"Cannot load {self.path} as an ONNX file: {_first_line(error)}") from None
        self.mean, self.scale = (np.asarray(value, np.float32) for value in (feature.mean, feature.scale))
        self._check_input(self.session.get_inputs(), feature.size)
        outputs = [output.name for output in self.session.get_outputs()]
        if feature.output not in (None, *outputs):
            raise UnknownNameError(f"output of {self.path}", str(feature.output), outputs)
        self.output = feature.output or outputs[0]
        # Shapes are often left open in the file: what comes out is learned by trying.
        try:
            maps = self._run_maps(np.zeros((1, feature.size, feature.size, 3), np.uint8))
        except Exception as error:  # noqa: BLE001 (onnxruntime's errors share no class)
            size = feature.size
            raise InputError(f"{self.path} does not run on {size} × {size} pixels: {_first_line(error)}") from None
        self._choose_pool(feature.pool, maps.shape)
        self.dim: int = self._pool(maps).shape[1]

    def run(self, pixels: NDArray[np.uint8]) -> Vectors:
        """(m, size, size, 3) to (m, dim)."""
        return self._pool(self._run_maps(pixels))

    def _check_input(self, inputs: list[NodeArg], size: int) -> None:
        shapes = ", ".join(f"{given.name} {given.shape} {given.type}" for given in inputs)
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in DTYPES:
            raise InputError(
                f"{self.path} must have one input, a batch of pictures with 4 axes of float numbers. Got {shapes}."
                " Export the image part of the network alone."
            )
        self.input = inputs[0].name
        self.dtype = DTYPES[inputs[0].type]
        # A name, or None, stands where the file leaves a length open.
        n, *lengths = (length if isinstance(length, int) else None for length in inputs[0].shape)
        self.fixed_batch = n  # some networks were exported for batches of one length only
        self.channels_last = lengths[2] == 3 and lengths[0] != 3
        wanted = [size, size, 3] if self.channels_last else [3, size, size]
        for length, want in zip(lengths, wanted, strict=True):
            if length not in (None, want):
                raise InputError(f"{self.path} takes {shapes}, but size={size} gives {wanted}. Set its size to match.")

    def _run_maps(self, pixels: NDArray[np.uint8]) -> Vectors:
        """(m, size, size, 3) to the network's own output, float32."""
        m = len(pixels)
        x = (pixels - self.mean) / self.scale
        if not self.channels_last:
            x = x.transpose(0, 3, 1, 2)  # (m, 3, size, size)
        if self.fixed_batch:
            x = np.concatenate([x, np.zeros((self.fixed_batch - m, *x.shape[1:]), x.dtype)])
        maps = self.session.run([self.output], {self.input: np.ascontiguousarray(x, self.dtype)})[0]
        return np.ascontiguousarray(maps[:m] if self.fixed_batch else maps, np.float32)

    def _choose_pool(self, pool: str | None, shape: tuple[int, ...]) -> None:
        axes = len(shape)
        if axes not in DEFAULT_POOLS or shape[0] != 1:
            raise InputError(
                f"The output {self.output} of {self.path} has shape {shape} for one picture."
                " Choose an output of 2 to 4 axes, the first of which counts pictures."
            )
        if pool and POOLS[pool][0] != axes:
            fitting = [name for name, (wants, _) in POOLS.items() if wants == axes]
            raise InputError(
                f"The output {self.output} of {self.path} has shape {shape}, which pool={pool!r} cannot take."
                f" Choose {', '.join(fitting) or 'None: it is a row as it stands'}."
            )
        pool = pool or DEFAULT_POOLS[axes]
        self.pooling = open_session(save_graph(pool_graph(pool))) if pool else None
        # Pictures are square, so maps are: the odd axis is the channels.
        self.maps_last = axes == 4 and shape[1] == shape[2] != shape[3]

    def _pool(self, maps: Vectors) -> Vectors:
        """The network's output to (m, dim)."""
        if self.pooling is None:
            return maps
        if self.maps_last:
            maps = np.ascontiguousarray(maps.transpose(0, 3, 1, 2))  # (m, c, h, w)
        rows: Vectors = self.pooling.run(["row"], {"map": maps})[0]
        return rows


def _is_per_channel(value: Any) -> bool:
    try:
        numbers = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return False
    return numbers.shape in ((), (3,)) and bool(np.all(np.isfinite(numbers)))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
