"""The user's own networks in ONNX files: the feature `Onnx` and the local descriptor `OnnxMaps`.

Both compute one tensor of the network, which can be an output of the file or an inner tensor: vectors (m, d), tokens
(m, tokens, c) or maps (m, c, h, w). `Onnx` pools tokens and maps into one vector per picture. `OnnxMaps` returns the
cells of a map as patches. `Network` loads the file and determines the shapes of its input and output.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
"""Default pool by the number of axes of the network's output."""

DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
"""Supported types of a network's input: onnxruntime's name and NumPy's type."""

NEAREST = 5
"""Maximum number of inner tensors that an error message lists. A network has hundreds."""


class Onnx(Feature):
    """The user's own network: AlexNet, VGG, NetVLAD, CLIP, DINOv2 or any other network exported to ONNX.

    Parameters
    ----------
    path : path of the ONNX file. If weights are in a second file, it must be in the same folder.
    size : side of the network's input; the central square of a picture is resized to size × size pixels.
    mean, scale : the input is (pixel - mean) / scale, with pixels from 0 to 255; one number, or one per channel.
    output : name of the tensor to use, an output or any inner tensor; the first output by default.
    pool : how the output becomes one vector per picture: "gem" (p = 3), "avg", "max", "spoc" or "rmac" for feature
        maps, "cls" or "mean" for tokens. By default "gem" for maps (4 axes) and "cls" for tokens (3 axes); an output
        with 2 axes needs no pool.

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
        """Number of dimensions. Loads the network."""
        return self._loaded()[2]

    def prepare(self, image: Pixels) -> Pixels:
        """Return the central square, (size, size, 3) uint8."""
        return crop_square(image, self.size)

    def describe(self, prepared: Sequence[NDArray[Any]]) -> Vectors:
        """Compute the vectors of prepared pictures, (n, dim) float32, each of length 1."""
        network, pool, dim = self._loaded()
        X = run_batches(lambda pixels: pool(network.run(pixels)), prepared, (dim,), network.batch)
        return network.check_finite(unit_rows(X))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.size, self.mean, self.scale, self.output, self.pool)

    def _load(self) -> tuple["Network", Callable[[NDArray[np.float32]], Vectors], int]:
        """Return the network, the function that pools its output to vectors, and their number of dimensions."""
        network = Network(self.path, self.size, self.mean, self.scale, self.output)
        axes = 1 + len(network.shape)
        if self.pool and self.pool not in pools_for(axes):
            raise InputError(
                f"The output {network.output} of {self.path} has shape {network.shape} per picture, which"
                f" pool={self.pool!r} does not support. Use {' or '.join(map(repr, pools_for(axes))) or 'pool=None'}."
            )
        pool = self.pool or DEFAULT_POOLS[axes]
        if pool is None:
            return network, lambda rows: rows, network.shape[0]
        session = open_session(save_graph(pool_graph(pool, network.shape)))
        dim = network.shape[0] if axes == 4 else network.shape[1]
        return network, lambda maps: session.run(["row"], {"map": maps})[0], dim


class OnnxMaps(Local):
    """The cells of a feature map of the user's own network. Options as in `Onnx`; the output must be a map."""

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
        """Number of channels of the map. Loads the network."""
        return self._network().shape[0]

    def prepare(self, image: Pixels) -> Square:
        """Return the central square, (size, size, 3) uint8, and its box."""
        return crop_with_box(image, self.size)

    def describe(self, prepared: Sequence[Square]) -> list[Patches]:
        """Return the patches of each prepared picture."""
        network = self._network()
        maps = run_batches(network.run, [pixels for pixels, _ in prepared], network.shape, network.batch)
        return map_patches(network.check_finite(maps), [box for _, box in prepared])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.size, self.mean, self.scale, self.output)

    def _load(self) -> "Network":
        network = Network(self.path, self.size, self.mean, self.scale, self.output)
        if len(network.shape) != 3:
            raise InputError(
                f"The output {network.output} of {self.path} has shape {network.shape} per picture, which is not a map."
                " Choose an output with 4 axes: pictures, channels, height and width."
            )
        return network


class Network:
    """A loaded network with the options of `Onnx`.

    `shape` is the shape of its output for one picture, channels first. `batch` is the number of pictures per run.
    """

    def __init__(
        self, path: str, size: int, mean: float | Sequence[float], scale: float | Sequence[float], output: str | None
    ):
        self.path = path
        self.session = open_network(path, output)
        self.output = self.session.get_outputs()[0].name
        self.mean, self.scale = (np.asarray(value, np.float32) for value in (mean, scale))
        self.batch = BATCH
        self.maps_last = False
        self._check_input(size)
        try:
            shape = self._find_shape(np.zeros((2, size, size, 3), np.uint8))
        except Exception as error:  # noqa: BLE001 (onnxruntime's errors have no common class)
            raise InputError(f"{path} fails on {size} × {size} pixels: {first_line(error)}") from None
        if not 2 <= len(shape) <= 4 or shape[0] != 1:
            raise InputError(
                f"The output {self.output} of {path} has shape {shape} for one picture."
                " Choose an output with 2 to 4 axes, the first of which is the number of pictures."
            )
        # Pictures are square, and so are maps: the axis with a different length is that of the channels.
        self.maps_last = len(shape) == 4 and shape[1] == shape[2] != shape[3]
        self.shape: tuple[int, ...] = (shape[3], *shape[1:3]) if self.maps_last else shape[1:]

    def run(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Run the network on pictures (m, size, size, 3) uint8; return (m, *shape) float32."""
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
        """Return the array. Raises InputError if it contains NaN or infinity."""
        if not np.all(np.isfinite(X)):
            raise InputError(f"The network {self.path} returned NaN or infinity for a picture. Check mean and scale.")
        return X

    def _find_shape(self, pixels: NDArray[np.uint8]) -> tuple[int, ...]:
        """Return the shape of the output for one picture. Files often do not declare it, so two pictures are run."""
        if not self.fixed_batch:
            with suppress(Exception):
                shape = self.run(pixels).shape
                if shape[0] == 2:
                    return (1, *shape[1:])
            self.batch = 1  # the file declares any batch size, but was traced with one picture
        return self.run(pixels[:1]).shape

    def _check_input(self, size: int) -> None:
        inputs = self.session.get_inputs()
        shapes = ", ".join(f"{given.name} {given.shape} {given.type}" for given in inputs)
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in DTYPES:
            raise InputError(
                f"{self.path} must have one input, a float tensor with 4 axes (a batch of pictures). Got {shapes}."
                " Export only the image part of the network."
            )
        self.input = inputs[0].name
        self.dtype = DTYPES[inputs[0].type]
        # A length that the file does not fix is a name or None.
        n, *lengths = (length if isinstance(length, int) else None for length in inputs[0].shape)
        self.fixed_batch = bool(n)  # some networks were exported for a single batch size
        self.batch = n or BATCH
        self.channels_last = lengths[2] == 3 and lengths[0] != 3
        wanted = [size, size, 3] if self.channels_last else [3, size, size]
        for length, want in zip(lengths, wanted, strict=True):
            if length not in (None, want):
                raise InputError(
                    f"{self.path} needs the input {shapes}, but size={size} gives {wanted}. Change size to match."
                )


def _check_options(
    size: int, mean: float | Sequence[float], scale: float | Sequence[float], output: str | None
) -> None:
    """Raise InputError for options that are invalid for every network."""
    if output is not None and not isinstance(output, str):
        raise InputError(f"output must be the name of a tensor, or None for the first output. Got {output!r}.")
    if not isinstance(size, int) or size < 1:
        raise InputError(f"size must be a whole number of at least 1. Got {size!r}.")
    if not _is_per_channel(mean):
        raise InputError(f"mean must be one number, or three for red, green and blue. Got {mean!r}.")
    if not _is_per_channel(scale) or not np.all(scale):
        raise InputError(f"scale must be one number other than 0, or three for red, green and blue. Got {scale!r}.")


def open_network(path: str, output: str | None = None) -> onnxruntime.InferenceSession:
    """Open a session for an ONNX file. `output` makes one tensor, which can be an inner one, its only output."""
    with _load_errors(path):
        if output is None:
            return open_session(path)
        return open_session(_end_at(path, output), folder=Path(path).absolute().parent)


def list_outputs(path: str) -> list[str]:
    """Return the names of the outputs of an ONNX file, without opening a session."""
    with _load_errors(path):
        return [info.name for info in onnx.load(path, load_external_data=False).graph.output]


@contextmanager
def _load_errors(path: str) -> Iterator[None]:
    """Convert the errors of loading an ONNX file to ours."""
    if not Path(path).is_file():
        raise MissingError(f"The network {path} does not exist. Give the path of an ONNX file.")
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 (errors of onnx and onnxruntime have no common class)
        raise InputError(f"Cannot load {path} as an ONNX file: {first_line(error)}") from None


def _end_at(path: str, output: str) -> bytes:
    """Return the bytes of the network with this tensor as its only output, without the nodes it does not need."""
    model = onnx.load(path, load_external_data=False)  # weights in other files are not needed here
    graph = model.graph
    outputs = [info.name for info in graph.output]
    inner = [name for node in graph.node for name in node.output if name]
    if output not in inner:
        near = difflib.get_close_matches(output, inner, n=NEAREST, cutoff=0.3)
        raise InputError(
            f"No tensor named '{output}' in {path}. Outputs: {', '.join(outputs)}."
            f" Most similar names of {len(inner)} inner tensors: {', '.join(near) or 'none'}."
            f" To list all: [node.output for node in onnx.load({path!r}, load_external_data=False).graph.node]"
        )
    del graph.output[:]
    graph.output.append(onnx.ValueInfoProto(name=output))  # onnxruntime infers its type
    # onnxruntime would also compute the layers after this one.
    needed = {output}
    for i in reversed(range(len(graph.node))):  # nodes are in the order of computation
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
    """Yield the names of the tensors that a node reads, including those in its branches and loops."""
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


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().partition("\n")[0]
