"""Read weights from torch's legacy `.pth` files, without torch and without running code from the file.

A pickle can name any function to call. This reader accepts only tensors.
"""

import io
import math
import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
STORAGES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


def read_pth(path: str | Path) -> dict[str, NDArray[Any]]:
    """Return the tensors, by name, of a state dictionary that `torch.save` wrote in the legacy format."""
    file = io.BytesIO(Path(path).read_bytes())
    try:
        if _Tensors(file).load() != MAGIC or _Tensors(file).load() != PROTOCOL:
            raise ValueError("it is not a legacy .pth file")
        _Tensors(file).load()  # a description of the writing machine; storages are little-endian on every machine
        tensors: dict[str, _Tensor] = _Tensors(file).load()
        keys: list[str] = _Tensors(file).load()
        kinds = {tensor.storage.key: tensor.storage.dtype for tensor in tensors.values()}
        storages = {key: _read_storage(file, kinds[key]) for key in keys}
        return {name: tensor.cut(storages[tensor.storage.key]) for name, tensor in tensors.items()}
    except Exception as error:  # noqa: BLE001 (a damaged pickle can raise almost any exception)
        raise InputError(f"Cannot read weights from {path}: {error or type(error).__name__}.") from None


class _Storage(NamedTuple):
    dtype: np.dtype[Any]
    key: str


class _Tensor(NamedTuple):
    """The arguments of torch's `_rebuild_tensor_v2`. The last two do not affect the values."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    hooks: object

    def cut(self, numbers: NDArray[Any]) -> NDArray[Any]:
        if math.prod(self.shape) > len(numbers):  # strides of zero could demand any amount of memory
            raise ValueError(f"a tensor of shape {self.shape} has {len(numbers)} values")
        item = numbers.itemsize
        # NumPy raises for an offset or strides outside the buffer.
        strides = [step * item for step in self.strides]
        view = np.ndarray(self.shape, numbers.dtype, numbers, self.offset * item, strides)
        return np.ascontiguousarray(view).reshape(self.shape)  # a scalar keeps its shape ()


class _Tensors(pickle.Unpickler):
    """An unpickler of tensors, their storages and dictionaries that raises an error for every other name."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _Tensor
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        raise pickle.UnpicklingError(f"it refers to {module}.{name}; only tensors are allowed")

    def persistent_load(self, pid: Any) -> _Storage:
        _, dtype, key, *_ = pid  # "storage", its class, its key, then its device and length
        return _Storage(dtype, key)


def _read_storage(file: BinaryIO, dtype: np.dtype[Any]) -> NDArray[Any]:
    (count,) = struct.unpack("<Q", file.read(8))
    return np.frombuffer(file.read(count * dtype.itemsize), dtype, count)
