"""Run networks with onnxruntime: sessions, batches of pictures, and feature maps as patches.

An ONNX file contains no code. Running it means computing its graph.
"""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import GraphProto
from onnx.helper import make_model, make_opsetid

from lookalike.arrays import chunks, unit_rows
from lookalike.devices import onnx_providers
from lookalike.features.pixels import crop_square
from lookalike.images.workers import THREADS_VARIABLE
from lookalike.system import count_cores
from lookalike.types import Patches, Pixels

BATCH = 16
"""Pictures per batch. Larger batches do not run faster on a CPU and need more memory."""

T = TypeVar("T")

Square: TypeAlias = tuple[Pixels, NDArray[np.float64]]
"""The central square of a picture, and its box: left, top, right and bottom as fractions of width and height."""


class Once(Generic[T]):
    """A value that is created by the first call and returned by later calls; concurrent calls wait for it.

    >>> heavy = Once(lambda: object())
    >>> heavy() is heavy()
    True
    """

    def __init__(self, make: Callable[[], T]):
        self._make = make
        self._lock = threading.Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        """Return the value."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


def open_session(
    model: str | bytes, threads: int | None = None, folder: str | Path | None = None
) -> onnxruntime.InferenceSession:
    """Open a session for a network, given as a file or as bytes, on `threads` cores.

    The default is the environment variable LOOKALIKE_THREADS, or all cores.

    `folder` is where a network given as bytes stores weights in separate files.
    """
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or int(os.environ.get(THREADS_VARIABLE) or count_cores())
    # Waiting threads sleep. Spinning threads would slow down the processes that decode the next pictures.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    options.log_severity_level = 4  # errors are raised as exceptions; nothing is printed
    providers = onnx_providers(onnxruntime.get_available_providers())
    return onnxruntime.InferenceSession(model, options, providers=providers)


def save_graph(graph: GraphProto) -> bytes:
    """Return a graph as the bytes of an ONNX file, in a version that every supported onnxruntime can read."""
    data: bytes = make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8).SerializeToString()
    return data


def run_batches(
    run: Callable[[NDArray[np.uint8]], NDArray[np.float32]],
    prepared: Sequence[NDArray[Any]],
    shape: tuple[int, ...],
    batch: int = BATCH,
) -> NDArray[np.float32]:
    """Run a network from (m, size, size, 3) uint8 to (m, *shape), m ≤ batch, on n pictures: (n, *shape) float32."""
    X = np.empty((len(prepared), *shape), np.float32)
    for part in chunks(len(prepared), row_bytes=1, max_bytes=batch):
        X[part] = run(np.stack(prepared[part]))
    return X


def crop_with_box(image: Pixels, size: int, share: float = 1.0) -> Square:
    """Return the central square of a picture, from `crop_square`, and its box to within a pixel."""
    pixels = crop_square(image, size, share)
    height, width = image.shape[:2]
    half = share * min(height, width) / 2 / np.array([width, height])  # as fractions of width and height
    return pixels, np.concatenate([0.5 - half, 0.5 + half])


def map_patches(maps: NDArray[np.float32], boxes: Sequence[NDArray[np.float64]]) -> list[Patches]:
    """Return the cells of feature maps (n, c, h, w) as patches, row by row: unit vectors (h · w, c) and positions.

    `boxes` are the parts of the pictures that the network saw. VLAD over such patches: Gong et al., "Multi-scale
    orderless pooling of deep convolutional activation features", ECCV 2014. Unit vectors, as before the VLAD layer:
    Arandjelović et al., "NetVLAD: CNN architecture for weakly supervised place recognition", CVPR 2016.
    """
    c, h, w = maps.shape[1:]
    y, x = np.divmod(np.arange(h * w), w)  # (h * w,)
    cells = np.stack([(x + 0.5) / w, (y + 0.5) / h], axis=1)  # (h * w, 2): centres, as fractions of the square
    return [
        Patches(unit_rows(one.reshape(c, h * w).T.copy()), (box[:2] + cells * (box[2:] - box[:2])).astype(np.float32))
        for one, box in zip(maps, boxes, strict=True)
    ]
