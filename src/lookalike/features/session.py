"""Running networks: sessions of onnxruntime, and batches of pictures through them.

In: an ONNX file or its bytes; prepared pictures. Out: what the network gives, float32. An ONNX file holds no code:
running one is computing its graph.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import GraphProto
from onnx.helper import make_model, make_opsetid

from lookalike.arrays import chunks
from lookalike.images.workers import count_cores

BATCH = 16
"""Pictures a network sees at a time: more is no faster on a CPU and takes memory."""

T = TypeVar("T")


class Once(Generic[T]):
    """Something heavy, made by the first call and kept; threads that call meanwhile wait for it.

    >>> heavy = Once(lambda: object())
    >>> heavy() is heavy()
    True
    """

    def __init__(self, make: Callable[[], T]):
        self._make = make
        self._lock = threading.Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        """The one thing."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


def open_session(
    model: str | bytes, threads: int | None = None, folder: str | Path | None = None
) -> onnxruntime.InferenceSession:
    """A network, from a file or from bytes, ready to run on `threads` cores (all, where None).

    `folder` is where the bytes of a network find the weights that it keeps in files of their own.
    """
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or count_cores()
    # Waiting threads sleep: spinning would take the cores from the processes that decode the next pictures.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    options.log_severity_level = 4  # what goes wrong comes as an exception; the terminal is the user's
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def save_graph(graph: GraphProto) -> bytes:
    """A graph as the bytes of an ONNX file, of a version that every onnxruntime we support can read."""
    data: bytes = make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8).SerializeToString()
    return data


def run_batches(
    run: Callable[[NDArray[np.uint8]], NDArray[np.float32]],
    prepared: Sequence[NDArray[Any]],
    shape: tuple[int, ...],
    batch: int = BATCH,
) -> NDArray[np.float32]:
    """(n, *shape) float32 from a network that takes (m, size, size, 3) uint8 and gives (m, *shape), m ≤ batch."""
    X = np.empty((len(prepared), *shape), np.float32)
    for part in chunks(len(prepared), row_bytes=1, max_bytes=batch):
        X[part] = run(np.stack(prepared[part]))
    return X
