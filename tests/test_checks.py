"""Every registered component passes the conformance checks of its kind."""

import pytest

from lookalike import registry
from lookalike.checks import CHECKS, check_spec_round_trip
from towers import write_text, write_tokenizer


def cases():
    for kind, checks in CHECKS.items():
        for name in registry.names(kind):
            for check in checks if name != "imported" else [check_spec_round_trip]:  # has only imported vectors
                yield pytest.param(kind, name, check, id=f"{kind}-{name}-{check.__name__}")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Options of `text`: a network for the rows of 20 numbers of the checks."""
    folder = tmp_path_factory.mktemp("texts")
    return {"onnx": str(write_text(folder, dim=20)), "tokenizer": str(write_tokenizer(folder))}


@pytest.mark.parametrize(("kind", "name", "check"), list(cases()))
def test_conforms(kind, name, check, network, texts):
    options = {
        "onnx": {"path": str(network), "size": 32, "pool": "gem"},
        "onnxmaps": {"path": str(network), "size": 32},
        "join": {"parts": ["hsv()", "color()"]},
        "vlad": {"k": 8},
        "fisher": {"k": 4, "local": "sift()"},
        "tsvm": {"bits": 8},
        "fasthash": {"bits": 16, "trees": 5, "depth": 3},
        "sdh": {"bits": 32},
        "dfk": {"k": 4, "max_iterations": 5},
        "dmleig": {"pairs": 300},
        "fess": {"k": 4},
        "imported": {"name": "clip", "dim": 8},
        "lmnn": {"max_iterations": 10},
        "mmc": {"pairs": 300},
        "pd": {"k": 4},
        "sdpm": {"triplets": 300},
        "text": texts,
    }
    check(lambda: registry.create(kind, registry.Spec(name, options.get(name, {}))))


def test_every_kind_of_component_has_checks():
    assert set(CHECKS) == set(registry.COMPONENTS)
