"""The device that searches, fits and extracts features: this machine's GPU, or its CPU.

PyTorch is imported only if the driver of a GPU is present. `LOOKALIKE_DEVICE` is the default of the command line.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import MissingError, UnknownNameError
from lookalike.types import Array, Vectors

DEVICES = ("auto", "cpu", "cuda")
"""The options: the GPU if there is a usable one, never, or always."""

DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Files of the driver, on Linux and in the Windows Subsystem for Linux."""

INSTALL = "pip install 'lookalike[torch]'"


def find_gpu(device: str = "auto") -> str | None:
    """The GPU to use, as PyTorch names it; None for the CPU. Raises MissingError if `device` is "cuda" without one.

    >>> find_gpu("cpu")
    """
    if device not in DEVICES:
        raise UnknownNameError("device", device, DEVICES)
    problem = None if device == "cpu" else gpu_problem()
    if problem and device == "cuda":
        raise MissingError(f"The device 'cuda' cannot be used: {problem}")
    return None if device == "cpu" or problem else "cuda"


def to_device(X: Vectors, gpu: str | None) -> Array:
    """Return X as a tensor on a GPU that `find_gpu` returned; unchanged without one."""
    if gpu is None:
        return X
    import torch

    return torch.from_numpy(np.ascontiguousarray(X)).to(gpu)


@cache
def gpu_problem() -> str | None:
    """The reason why no GPU can be used, with what to do; None if one can."""
    if not any(path.exists() for path in DRIVERS):
        return "this machine has no NVIDIA GPU, or its driver is not installed. Leave out --device cuda."
    if find_spec("torch") is None:
        return f"PyTorch is not installed. Run: {INSTALL}"
    import torch

    if not torch.cuda.is_available():
        return (
            f"PyTorch {torch.__version__} does not find a GPU. Install PyTorch for CUDA (see https://pytorch.org), and"
            " check the driver with nvidia-smi."
        )
    return None


def device_names(gpu: str | None) -> dict[str, str]:
    """The devices of searches and of networks, such as "NVIDIA H200", for a GPU of `find_gpu`.

    >>> device_names(None)
    {'searches': 'CPU', 'networks': 'CPU'}
    """
    if gpu is None or not gpu.startswith("cuda"):
        return {"searches": "CPU", "networks": "CPU"}
    import onnxruntime
    import torch

    name = str(torch.cuda.get_device_name(gpu))
    providers = onnx_providers(onnxruntime.get_available_providers())
    return {"searches": name, "networks": name if len(providers) > 1 else "CPU"}


_describing: list[str] = ["auto"]


def describe_on(device: str) -> None:
    """Set the device on which networks run that are loaded from now on, in this process."""
    _describing[:] = [device]


def onnx_providers(available: list[str]) -> list[Any]:
    """The execution providers of onnxruntime to use: CUDA if it is installed and allowed, else the CPU.

    >>> onnx_providers(["CPUExecutionProvider"])
    ['CPUExecutionProvider']
    """
    use = _describing[0] != "cpu" and "CUDAExecutionProvider" in available
    return ["CUDAExecutionProvider"] * use + ["CPUExecutionProvider"]
