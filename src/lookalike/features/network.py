"""A network of the user's own, loaded from an ONNX file and ready to run on pictures.

In: (m, size, size, 3) uint8. Out: one tensor of the network, whether the file calls it an output or not, float32:
(m, d) rows, (m, tokens, c) tokens or (m, c, h, w) maps.
"""

import difflib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from lookalike.errors import InputError, MissingError
from lookalike.features.session import BATCH, open_session

DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
"""The numbers a network may want: onnxruntime's name for them, and NumPy's."""

NEAREST = 5
"""Names of inner tensors that an error offers: a network has hundreds."""


class Network:
    """A loaded network, and what can only be found out by loading it. The options are those of `Onnx`.

    `shape` is what it gives for a picture, channels first; `batch` how many pictures it takes at a time.
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
        # Pictures are square, so maps are: the odd axis is the channels.
        self.maps_last = len(shape) == 4 and shape[1] == shape[2] != shape[3]
        self.shape: tuple[int, ...] = (shape[3], *shape[1:3]) if self.maps_last else shape[1:]

    def run(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(m, size, size, 3) to (m, *shape)."""
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
        """What was made of the network's numbers, if all are numbers."""
        if not np.all(np.isfinite(X)):
            raise InputError(f"The network {self.path} gave NaN or infinity for a picture. Check its mean and scale.")
        return X

    def _find_shape(self, pixels: NDArray[np.uint8]) -> tuple[int, ...]:
        """What comes out for one picture. Files often leave shapes open, so it is found out by trying, on two."""
        if not self.fixed_batch:
            with suppress(Exception):
                shape = self.run(pixels).shape
                if shape[0] == 2:
                    return (1, *shape[1:])
            self.batch = 1  # the file takes any number of pictures, it says, but was traced with one
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
        # A name, or None, stands where the file leaves a length open.
        n, *lengths = (length if isinstance(length, int) else None for length in inputs[0].shape)
        self.fixed_batch = bool(n)  # some networks were exported for batches of one length only
        self.batch = n or BATCH
        self.channels_last = lengths[2] == 3 and lengths[0] != 3
        wanted = [size, size, 3] if self.channels_last else [3, size, size]
        for length, want in zip(lengths, wanted, strict=True):
            if length not in (None, want):
                raise InputError(f"{self.path} takes {shapes}, but size={size} gives {wanted}. Set its size to match.")


def check_options(size: int, mean: float | Sequence[float], scale: float | Sequence[float], output: str | None) -> None:
    """InputError for what can be seen to be wrong without loading the network."""
    if output is not None and not isinstance(output, str):
        raise InputError(f"output must be the name of a tensor, or None for the first output. Got {output!r}.")
    if not isinstance(size, int) or size < 1:
        raise InputError(f"size must be a whole number of at least 1. Got {size!r}.")
    if not _is_per_channel(mean):
        raise InputError(f"mean must be a number, or three for red, green and blue. Got {mean!r}.")
    if not _is_per_channel(scale) or not np.all(scale):
        raise InputError(f"scale must be a number other than 0, or three of them. Got {scale!r}.")


def _open(path: str, output: str | None) -> onnxruntime.InferenceSession:
    """A session whose first output is the one wanted."""
    try:
        if output is None:
            return open_session(path)
        return open_session(_end_at(path, output), folder=Path(path).absolute().parent)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 (neither onnx's nor onnxruntime's errors share a class)
        raise InputError(f"Cannot load {path} as an ONNX file: {_first_line(error)}") from None


def _end_at(path: str, output: str) -> bytes:
    """The file with this tensor as its only output, without what is not needed for it."""
    model = onnx.load(path, load_external_data=False)  # weights in other files stay there until they are needed
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
    graph.output.append(onnx.ValueInfoProto(name=output))  # onnxruntime finds out its type
    # onnxruntime would compute every node: the layers after this one, for nothing.
    needed = {output}
    for i in reversed(range(len(graph.node))):  # nodes stand in the order in which they are computed
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
    """The names of the tensors that a node reads, in its branches and loops too."""
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
