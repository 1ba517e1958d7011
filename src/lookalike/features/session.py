"""Running networks: sessions of onnxruntime, and batches of pictures through them.

In: an ONNX file or its bytes; prepared pictures. Out: (n, dim) float32, unit rows. An ONNX file holds no code:
running one is computing its graph.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import GraphProto
from onnx.helper import make_model, make_opsetid

from lookalike.arrays import chunks, unit_rows
from lookalike.images.workers import count_cores
from lookalike.types import Vectors

BATCH = 16
"""Pictures a network sees at a time: more is no faster on a CPU and takes memory."""


def open_session(model: str | bytes, threads: int | None = None) -> onnxruntime.InferenceSession:
    """A network, from a file or from bytes, ready to run on `threads` cores (all, where None)."""
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or count_cores()
    # Waiting threads sleep: spinning would take the cores from the processes that decode the next pictures.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # what goes wrong comes as an exception; the terminal is the user's
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def save_graph(graph: GraphProto) -> bytes:
    """A graph as the bytes of an ONNX file, of a version that every onnxruntime we support can read."""
    data: bytes = make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8).SerializeToString()
    return data


def describe_batches(
    run: Callable[[NDArray[np.uint8]], Vectors], prepared: Sequence[NDArray[Any]], dim: int, batch: int = BATCH
) -> Vectors:
    """Unit rows, (n, dim), from a network that takes (m, size, size, 3) uint8 and gives (m, dim), m ≤ batch."""
    X = np.empty((len(prepared), dim), np.float32)
    for part in chunks(len(prepared), row_bytes=1, max_bytes=batch):
        X[part] = run(np.stack(prepared[part]))
    rows: Vectors = unit_rows(X)
    return rows
