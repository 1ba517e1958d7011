import pickle

import numpy as np
import pytest

from lookalike import registry
from lookalike.errors import InputError, SpecError, UnknownNameError
from lookalike.features.histograms import Color
from lookalike.features.join import Join
from reference.pictures import draw


class Wide(Color):
    side = 300
    dim = 1024

    def describe(self, prepared):
        return np.tile(2 * Color().describe(prepared), 2)


class Learned(Color):
    def fit(self, prepared, **options):
        return self


@pytest.fixture(autouse=True)
def known(monkeypatch):
    for cls in (Wide, Learned):
        monkeypatch.setitem(registry.COMPONENTS["feature"], cls.__name__.lower(), f"{__name__}:{cls.__name__}")
    yield
    registry.component.cache_clear()


def test_a_joined_vector_concatenates_the_vectors_of_its_parts():
    pictures = [draw(0), draw(1, 40, 90), draw(2, 300, 200)]
    X = Join(["color()", "wide()"]).extract(pictures)
    row = Color().extract(pictures)
    np.testing.assert_array_equal(X, np.concatenate([row, 2 * row, 2 * row], axis=1))
    assert X.dtype == np.float32


def test_the_dimension_is_the_sum_and_the_side_is_the_maximum():
    joined = Join(parts=["color", "wide()"])
    assert (joined.dim, joined.side) == (1536, 300)


def test_no_pictures_give_an_empty_array():
    assert Join(["color()", "wide()"]).extract([]).shape == (0, 1536)


def test_a_join_can_be_part_of_a_join():
    inner = registry.Spec("join", {"parts": ["color()", "color()"]})
    row = Join([str(inner), "color()"]).extract([draw(0)])
    np.testing.assert_array_equal(row, Join(["color()"] * 3).extract([draw(0)]))


def test_a_pickled_copy_computes_the_same_vector():
    joined = Join(["color()", "color()"])
    copied = pickle.loads(pickle.dumps(joined))
    assert copied.extract([draw(0)]).tobytes() == joined.extract([draw(0)]).tobytes()


def test_the_spec_of_a_join_creates_an_equal_join():
    spec = registry.spec_of(Join(("color()", "wide()")))
    assert spec == "join(parts=['color()', 'wide()'])"
    assert registry.create("feature", spec).parts == ["color()", "wide()"]


@pytest.mark.parametrize("parts", [[], (), "color()", ["color()", 3], None, {}, 7, {"color()": 1}])
def test_parts_must_be_a_list_of_specs(parts):
    with pytest.raises(InputError, match="parts must be a list of at least one feature spec"):
        Join(parts)


def test_a_part_that_must_be_fitted_is_rejected():
    with pytest.raises(InputError, match=r"parts cannot contain features that must be fitted.* Got 'learned\(\)'"):
        Join(["color()", "learned()"])


def test_an_unknown_part_is_reported_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="Did you mean 'color'"):
        Join(["colour()"])
    with pytest.raises(SpecError, match="Cannot read the spec"):
        Join(["color("])


def test_a_network_is_loaded_only_when_it_is_needed(tmp_path):
    Join([f"onnx(path={str(tmp_path / 'absent.onnx')!r})"])
