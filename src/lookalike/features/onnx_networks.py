"""Networks of the user's own in ONNX files: `Onnx`, a feature, and `OnnxMaps`, local descriptors.

Both run one tensor of the network, whether the file declares it an output or not: rows (m, d), tokens (m, tokens, c) or
maps (m, c, h, w). `Onnx` pools tokens and maps to one row per picture, `OnnxMaps` returns the cells of a map as
patches. `Network` loads the file and determines the shapes of its input and output.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from lookalike.arrays import unit_rows
from lookalike.errors import InputError, MissingError, UnknownNameError
from lookalike.features.inference import (
    BATCH,
    Once,
    Square,
    crop_with_box,
    map_patches,
    open_session,
    run_batches,
    save_graph,
)
from lookalike.features.pixels import crop_square
from lookalike.features.pooling import POOLS, pool_graph, pools_for
from lookalike.types import Feature, Local, Patches, Pixels, Vectors

DEFAULT_POOLS = {2: None, 3: "cls", 4: "gem"}
"""Default pooling by the number of axes of the network's output."""

DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
"""Types of input that a network may have: onnxruntime's name and NumPy's type."""

NEAREST = 5
"""Maximum number of inner tensors that an error names: a network has hundreds."""


class Onnx(Feature):
    """A network of the user's own: AlexNet, VGG, NetVLAD, CLIP, DINOv2 or any other exported to ONNX.

    Parameters
    ----------
    path : the file. Weights in a second file are found beside it.
    size : the network sees the central square of a picture, scaled to size × size pixels.
    mean, scale : the network's input is (pixel - mean) / scale, pixels being 0 to 255; a number, or one per channel.
    output : the name of the tensor to use, an output or any inside the network; the first output by default.
    pool : how an output becomes one row per picture: "gem" (p = 3), "avg", "max", "spoc" or "rmac" for feature maps,
        "cls" or "mean" for tokens. By default "gem" for maps (4 axes), "cls" for tokens (3 axes); rows (2 axes) stay as
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
        _check_options(size, mean, scale, output)
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
        """Describe prepared pictures, (n, dim) float32, unit rows."""
        network, pool, dim = self._loaded()
        X = run_batches(lambda pixels: pool(network.run(pixels)), prepared, (dim,), network.batch)
        return network.check_finite(unit_rows(X))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.size, self.mean, self.scale, self.output, self.pool)

    def _load(self) -> tuple["Network", Callable[[NDArray[np.float32]], Vectors], int]:
        """The network, the function that pools its output to rows, and their length."""
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


class OnnxMaps(Local):
    """The cells of a feature map of a network of the user's own. Options as in `Onnx`; the output must be a map."""

    def __init__(
        self,
        path: str | Path,
        size: int = 224,
        mean: float | Sequence[float] = 0.0,
        scale: float | Sequence[float] = 255.0,
        output: str | None = None,
    ):
        _check_options(size, mean, scale, output)
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
        return crop_with_box(image, self.size)

    def describe(self, prepared: Sequence[Square]) -> list[Patches]:
        """The patches of each prepared picture."""
        network = self._network()
        maps = run_batches(network.run, [pixels for pixels, _ in prepared], network.shape, network.batch)
        return map_patches(network.check_finite(maps), [box for _, box in prepared])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.size, self.mean, self.scale, self.output)

    def _load(self) -> "Network":
        network = Network(self.path, self.size, self.mean, self.scale, self.output)
        if len(network.shape) != 3:
            raise InputError(
                f"The output {network.output} of {self.path} gives {network.shape} a picture, which is no map."
                " Choose one of 4 axes: pictures, channels, height and width."
            )
        return network


class Network:
    """A loaded network with the options of `Onnx`.

    `shape` is the shape of its output for one picture, channels first; `batch` the number of pictures per run.
    """

    def __init__(
        self, path: str, size: int, mean: float | Sequence[float], scale: float | Sequence[float], output: str | None
    ):
        if not Path(path).is_file():
            raise MissingError(f"No network at {path}. Give the path of an ONNX file.")
        self.path = path
        self.session = _open(path, output)
        self.output = self.session.get_outputs()[0].name
        self.mean, self.scale = (np.asarray(value, np.float32) for value in (mean, scale))
        self.batch = BATCH
        self.maps_last = False
        self._check_input(size)
        try:
            shape = self._find_shape(np.zeros((2, size, size, 3), np.uint8))
        except Exception as error:  # noqa: BLE001 (onnxruntime's errors share no class)
            raise InputError(f"{path} does not run on {size} × {size} pixels: {_first_line(error)}") from None
        if not 2 <= len(shape) <= 4 or shape[0] != 1:
            raise InputError(
                f"The output {self.output} of {path} has shape {shape} for one picture."
                " Choose an output of 2 to 4 axes, the first of which counts pictures."
            )
        # Pictures and so maps are square: the axis that differs is the channels.
        self.maps_last = len(shape) == 4 and shape[1] == shape[2] != shape[3]
        self.shape: tuple[int, ...] = (shape[3], *shape[1:3]) if self.maps_last else shape[1:]

    def run(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Run pictures (m, size, size, 3) uint8 through the network: (m, *shape) float32."""
        m = len(pixels)
        x = (pixels - self.mean) / self.scale
        if not self.channels_last:
            x = x.transpose(0, 3, 1, 2)  # (m, 3, size, size)
        if self.fixed_batch:
            x = np.concatenate([x, np.zeros((self.batch - m, *x.shape[1:]), x.dtype)])
        Y = self.session.run([self.output], {self.input: np.ascontiguousarray(x, self.dtype)})[0]
        Y = Y[:m] if self.fixed_batch else Y
        return np.ascontiguousarray(Y.transpose(0, 3, 1, 2) if self.maps_last else Y, np.float32)

    def check_finite(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the array if all its numbers are finite; else raise InputError."""
        if not np.all(np.isfinite(X)):
            raise InputError(f"The network {self.path} gave NaN or infinity for a picture. Check its mean and scale.")
        return X

    def _find_shape(self, pixels: NDArray[np.uint8]) -> tuple[int, ...]:
        """The shape of the output for one picture. Files often leave it open, so two pictures are tried."""
        if not self.fixed_batch:
            with suppress(Exception):
                shape = self.run(pixels).shape
                if shape[0] == 2:
                    return (1, *shape[1:])
            self.batch = 1  # the file claims to take any number of pictures, but was traced with one
        return self.run(pixels[:1]).shape

    def _check_input(self, size: int) -> None:
        inputs = self.session.get_inputs()
        shapes = ", ".join(f"{given.name} {given.shape} {given.type}" for given in inputs)
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in DTYPES:
            raise InputError(
                f"{self.path} must have one input, a batch of pictures with 4 axes of float numbers. Got {shapes}."
                " Export the image part of the network alone."
            )
        self.input = inputs[0].name
        self.dtype = DTYPES[inputs[0].type]
        # A length that the file leaves open is a name or None.
        n, *lengths = (length if isinstance(length, int) else None for length in inputs[0].shape)
        self.fixed_batch = bool(n)  # some networks were exported for one batch size only
        self.batch = n or BATCH
        self.channels_last = lengths[2] == 3 and lengths[0] != 3
        wanted = [size, size, 3] if self.channels_last else [3, size, size]
        for length, want in zip(lengths, wanted, strict=True):
            if length not in (None, want):
                raise InputError(f"{self.path} takes {shapes}, but size={size} gives {wanted}. Set its size to match.")


def _check_options(
    size: int, mean: float | Sequence[float], scale: float | Sequence[float], output: str | None
) -> None:
    """Raise InputError for options that are wrong whatever the network."""
    if output is not None and not isinstance(output, str):
        raise InputError(f"output must be the name of a tensor, or None for the first output. Got {output!r}.")
    if not isinstance(size, int) or size < 1:
        raise InputError(f"size must be a whole number of at least 1. Got {size!r}.")
    if not _is_per_channel(mean):
        raise InputError(f"mean must be a number, or three for red, green and blue. Got {mean!r}.")
    if not _is_per_channel(scale) or not np.all(scale):
        raise InputError(f"scale must be a number other than 0, or three of them. Got {scale!r}.")


def _open(path: str, output: str | None) -> onnxruntime.InferenceSession:
    """A session whose first output is the given one."""
    try:
        if output is None:
            return open_session(path)
        return open_session(_end_at(path, output), folder=Path(path).absolute().parent)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 (neither onnx's nor onnxruntime's errors share a class)
        raise InputError(f"Cannot load {path} as an ONNX file: {_first_line(error)}") from None


def _end_at(path: str, output: str) -> bytes:
    """The bytes of the network with this tensor as its only output, without the nodes it does not need."""
    model = onnx.load(path, load_external_data=False)  # weights in other files are not needed here
    graph = model.graph
    outputs = [info.name for info in graph.output]
    inner = [name for node in graph.node for name in node.output if name]
    if output not in inner:
        near = difflib.get_close_matches(output, inner, n=NEAREST, cutoff=0.3)
        raise InputError(
            f"No tensor named '{output}' in {path}. Outputs: {', '.join(outputs)}."
            f" Nearest of {len(inner)} tensors inside: {', '.join(near) or 'none'}."
            f" To see all: [node.output for node in onnx.load({path!r}, load_external_data=False).graph.node]"
        )
    del graph.output[:]
    graph.output.append(onnx.ValueInfoProto(name=output))  # onnxruntime infers its type
    # onnxruntime would compute every node, also the layers after this one.
    needed = {output}
    for i in reversed(range(len(graph.node))):  # nodes are in the order in which they are computed
        if needed.isdisjoint(graph.node[i].output):
            del graph.node[i]
        else:
            needed.update(_reads(graph.node[i]))
    for parts in (graph.initializer, graph.input):
        for i in reversed(range(len(parts))):
            if parts[i].name not in needed:
                del parts[i]
    data: bytes = model.SerializeToString()
    return data


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """The names of the tensors that a node reads, also in its branches and loops."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _reads(inner)
            yield from (info.name for info in graph.output)


def _is_per_channel(value: Any) -> bool:
    try:
        numbers = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return False
    return numbers.shape in ((), (3,)) and bool(np.all(np.isfinite(numbers)))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
