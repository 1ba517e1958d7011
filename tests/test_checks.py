"""Every registered component keeps the contract of its kind."""

import pytest

from lookalike import registry
from lookalike.checks import CHECKS


def cases():
    for kind, checks in CHECKS.items():
        for name in registry.names(kind):
            for check in checks:
                yield pytest.param(kind, name, check, id=f"{kind}-{name}-{check.__name__}")


@pytest.mark.parametrize(("kind", "name", "check"), list(cases()))
def test_conforms(kind, name, check, network):
    options = {"path": str(network), "size": 32, "pool": "gem"} if name == "onnx" else {}
    check(lambda: registry.create(kind, registry.Spec(name, options)))


def test_every_kind_of_component_has_checks():
    assert set(CHECKS) == set(registry.COMPONENTS)
