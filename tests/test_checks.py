"""Every registered component keeps the contract of its kind."""

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from lookalike import registry
from lookalike.checks import CHECKS


@pytest.fixture(scope="session")
def network(tmp_path_factory):
    """A tiny network of one convolution, so that the feature that takes a user's file has a file."""
    weights = np.random.default_rng(0).normal(size=(8, 3, 5, 5)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["image", "w"], ["map"], kernel_shape=[5, 5], strides=[4, 4])],
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 32, 32])],
        [helper.make_tensor_value_info("map", TensorProto.FLOAT, ["n", 8, 7, 7])],
        [helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.ravel())],
    )
    path = tmp_path_factory.mktemp("network") / "tiny.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def cases():
    for kind, checks in CHECKS.items():
        for name in registry.names(kind):
            for check in checks:
                yield pytest.param(kind, name, check, id=f"{kind}-{name}-{check.__name__}")


@pytest.mark.parametrize(("kind", "name", "check"), cases())
def test_conforms(kind, name, check, network):
    options = {"path": str(network), "size": 32, "pool": "gem"} if name == "onnx" else {}
    check(lambda: registry.create(kind, registry.Spec(name, options)))


def test_every_kind_of_component_has_checks():
    assert set(CHECKS) == set(registry.COMPONENTS)
