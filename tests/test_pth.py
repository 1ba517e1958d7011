import io
import os
import pickle
import struct
from collections import OrderedDict

import numpy as np
import pytest

from lookalike.errors import InputError
from lookalike.features.efficientnet import find_weights
from lookalike.features.pth import MAGIC, PROTOCOL, read_pth

torch = pytest.importorskip("torch")


class Evil:
    """An object that calls a given function when plain pickle loads it."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def legacy(weights):
    file = io.BytesIO()
    torch.save(weights, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def head(content):
    """The start of a legacy file with `content` instead of the tensors."""
    return b"".join(pickle.dumps(part, protocol=2) for part in (MAGIC, PROTOCOL, {}, content))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.pth"


def test_the_default_weights_equal_those_that_torch_reads():
    expected = torch.load(find_weights(), weights_only=True)
    weights = read_pth(find_weights())
    assert list(weights) == list(expected)
    for name, tensor in expected.items():
        assert weights[name].dtype == tensor.numpy().dtype
        np.testing.assert_array_equal(weights[name], tensor.numpy(), strict=True)


def test_tensors_that_share_memory_or_are_transposed_are_read_correctly(path):
    base = torch.arange(24.0).reshape(4, 6)
    given = OrderedDict(base=base, turned=base.T, part=base[1:3, 2:], number=torch.tensor(5), nothing=torch.zeros(0, 3))
    path.write_bytes(legacy(given))
    weights = read_pth(path)
    for name, tensor in given.items():
        np.testing.assert_array_equal(weights[name], tensor.numpy(), strict=True)


def test_a_file_that_calls_a_function_is_rejected_without_calling_it(path, tmp_path):
    mark = tmp_path / "called"
    for evil in (Evil(os.system, f"touch {mark}"), Evil(eval, f"open({str(mark)!r}, 'w')"), Evil(os.mkdir, str(mark))):
        for content in (evil, OrderedDict(weight=evil), [evil]):
            path.write_bytes(head(content))
            with pytest.raises(InputError, match="only tensors are allowed"):
                read_pth(path)
    path.write_bytes(pickle.dumps(Evil(os.mkdir, str(mark))))
    with pytest.raises(InputError, match="only tensors are allowed"):
        read_pth(path)
    assert not mark.exists()


def test_harmless_looking_names_are_also_rejected(path):
    for content in (np.zeros(3), torch.nn.Linear(1, 1), os.path.join, Evil(getattr, {}, "clear")):
        path.write_bytes(head(content))
        with pytest.raises(InputError, match="only tensors are allowed"):
            read_pth(path)


def test_strides_beyond_the_stored_data_are_rejected(path):
    class Greedy:
        def __reduce__(self):
            return torch._utils._rebuild_tensor_v2, self.args

    class Pickler(pickle.Pickler):
        def persistent_id(self, thing):
            return ("storage", torch.FloatStorage, "0", "cpu", 4, None) if thing is storage else None

    storage = object()
    for offset, shape, strides in ((0, (10**6, 10**6), (0, 0)), (0, (3, 2), (2, 1)), (3, (2,), (1,)), (0, (2,), (-1,))):
        greedy = Greedy()
        greedy.args = storage, offset, shape, strides, False, OrderedDict()
        file = io.BytesIO()
        Pickler(file, protocol=2).dump(OrderedDict(weight=greedy))
        data = b"".join(pickle.dumps(part, protocol=2) for part in (MAGIC, PROTOCOL, {})) + file.getvalue()
        path.write_bytes(data + pickle.dumps(["0"], protocol=2) + struct.pack("<Q4f", 4, 1, 2, 3, 4))
        with pytest.raises(InputError, match="Cannot read weights"):
            read_pth(path)


def test_a_truncated_file_is_rejected(path):
    whole = legacy(OrderedDict(weight=torch.ones(3, 2), bias=torch.zeros(2)))
    for length in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="Cannot read weights"):
            read_pth(path)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"not a pickle at all", pickle.dumps(5)])
def test_other_files_are_rejected(path, data):
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"Cannot read weights from .*weights\.pth"):
        read_pth(path)
