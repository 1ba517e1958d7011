import pickle

import numpy as np
import pytest

from lookalike.errors import InputError
from lookalike.features.efficientnet import EfficientNet, EfficientNetMaps, find_weights
from lookalike.features.onnx_networks import OnnxMaps
from lookalike.registry import create, spec_of

random = np.random.default_rng(3)
PICTURES = [random.integers(0, 256, (height, width, 3), dtype=np.uint8) for height, width in ((40, 60), (300, 224))]
MAPS = """
    net (float[n, 3, 8, 8] image) => (float[n, 3, 4, 4] map)
    { map = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (image) }
"""


def describe(local, pictures):
    return local.describe([local.prepare(picture) for picture in pictures])


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_every_position_of_the_map_gives_a_unit_vector(save):
    local = OnnxMaps(save(MAPS), size=8)
    picture = random.integers(1, 256, (8, 8, 3), dtype=np.uint8)
    ((X, places),) = describe(local, [picture])
    assert (X.shape, local.dim, X.dtype) == ((16, 3), 3, np.float32)
    for row, (x, y) in zip(X, places, strict=True):
        top, left = int(y * 8) - 1, int(x * 8) - 1  # a position is the centre of its cell, two pixels wide
        best = picture[top : top + 2, left : left + 2].max(axis=(0, 1)).astype(float)
        np.testing.assert_allclose(row, best / np.linalg.norm(best), atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((80, 80), [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]]),
        ((80, 160), [[0.375, 0.25], [0.625, 0.25], [0.375, 0.75], [0.625, 0.75]]),
        ((160, 80), [[0.25, 0.375], [0.75, 0.375], [0.25, 0.625], [0.75, 0.625]]),
    ],
)
def test_positions_are_relative_to_the_whole_picture_not_its_central_square(save, shape, expected):
    local = OnnxMaps(save(MAPS.replace("4, 4] map", "2, 2] map").replace("[2, 2]", "[4, 4]")), size=8)
    ((_, places),) = describe(local, [np.zeros((*shape, 3), np.uint8)])
    np.testing.assert_allclose(places, expected, atol=1e-6)
    assert places.dtype == np.float32


def test_a_spot_in_a_wide_picture_is_found_at_its_position(save):
    picture = np.full((80, 200, 3), (9, 9, 9), np.uint8)
    picture[20:30, 120:130] = (250, 0, 0)
    ((X, places),) = describe(OnnxMaps(save(MAPS), size=8), [picture])
    red = places[np.argmax(X[:, 0])]
    np.testing.assert_allclose(red, (125 / 200, 25 / 80), atol=10 / 80)


def test_all_positions_of_the_default_network_are_in_the_seven_eighths_that_it_sees():
    local = EfficientNetMaps()
    ((_, places),) = describe(local, [np.zeros((256, 512, 3), np.uint8)])
    cell = 224 / 7
    np.testing.assert_allclose(places[0], ((144 + cell / 2) / 512, (16 + cell / 2) / 256), atol=1e-6)
    np.testing.assert_allclose(places[-1], ((368 - cell / 2) / 512, (240 - cell / 2) / 256), atol=1e-6)


def test_the_map_of_the_default_network_equals_that_of_the_network_in_torch():
    pytest.importorskip("torch")
    from reference.efficientnet_torch import feature_map

    local = EfficientNetMaps()
    prepared = [local.prepare(picture) for picture in PICTURES]
    maps = feature_map(find_weights(), np.stack([pixels for pixels, _ in prepared]))
    for (X, _), expected in zip(local.describe(prepared), maps, strict=True):
        assert X.shape == (49, local.dim)
        np.testing.assert_allclose(X, unit(expected.reshape(1280, 49).T), atol=1e-5)


def test_it_uses_the_same_pixels_as_the_feature_of_the_same_network(save):
    np.testing.assert_array_equal(EfficientNetMaps().prepare(PICTURES[0])[0], EfficientNet().prepare(PICTURES[0]))


@pytest.mark.parametrize("shape", [(1, 1), (10, 4000), (4000, 10), (4000, 5000)])
def test_pictures_of_any_shape_give_finite_patches_inside_the_picture(save, shape):
    for local in (OnnxMaps(save(MAPS), size=8), EfficientNetMaps()):
        for value in (0, 200):
            ((X, places),) = describe(local, [np.full((*shape, 3), value, np.uint8)])
            assert np.isfinite(X).all()
            assert ((places > 0) & (places < 1)).all()


def test_a_batch_gives_the_same_patches_as_one_picture_at_a_time(save):
    for local in (OnnxMaps(save(MAPS), size=8), EfficientNetMaps()):
        many = describe(local, PICTURES * 9)  # longer than a batch, with a remainder
        assert local.describe([]) == []
        for i in (0, 1, 17):
            (one,) = describe(local, [PICTURES[i % 2]])
            np.testing.assert_allclose(many[i].X, one.X, atol=1e-5)
            assert many[i].places.tobytes() == one.places.tobytes()


def test_channels_can_come_last_and_the_map_can_be_an_inner_output(save):
    expected = describe(OnnxMaps(save(MAPS), size=8), PICTURES)
    path = save("""
        net (float[n, 3, 8, 8] image) => (float[n, 48] row)
        {
            small = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (image)
            map = Transpose <perm = [0, 2, 3, 1]> (small)
            row = Flatten (map)
        }
    """)
    for output in ("map", "small"):
        for (X, _), (Y, _) in zip(describe(OnnxMaps(path, size=8, output=output), PICTURES), expected, strict=True):
            np.testing.assert_allclose(X, Y, atol=1e-6)
    with pytest.raises(
        InputError, match=r"row of .* has shape \(48,\) per picture, which is not a map. Choose an output"
    ):
        describe(OnnxMaps(path, size=8), PICTURES)


def test_values_that_are_not_finite_are_reported(save):
    path = save("net (float[n, 3, 8, 8] image) => (float[n, 3, 8, 8] map) { map = Log (image) }")
    with pytest.raises(InputError, match="Check mean and scale"):
        describe(OnnxMaps(path, size=8, mean=255), PICTURES)


def test_they_can_be_created_from_specs_and_pickles():
    local = OnnxMaps("later.onnx", size=8, mean=(1.0, 2.0, 3.0), output="map")
    assert spec_of(local) == "onnxmaps(path='later.onnx', size=8, mean=(1.0, 2.0, 3.0), output='map')"
    for part in (local, EfficientNetMaps()):
        assert spec_of(create("local", spec_of(part))) == spec_of(pickle.loads(pickle.dumps(part))) == spec_of(part)


@pytest.mark.parametrize("options", [{"size": 0}, {"mean": (1, 2)}, {"scale": 0}])
def test_invalid_options_are_refused_by_the_constructor(options):
    with pytest.raises(InputError):
        OnnxMaps("any.onnx", **options)
