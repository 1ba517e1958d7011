import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.features.color_statistics import ColorStatistics
from lookalike.features.sift import Sift
from reference.color_statistics import describe_picture


def extract(*pictures):
    local = ColorStatistics()
    return local.describe([local.prepare(picture) for picture in pictures])


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@settings(max_examples=20)
@given(st.integers(25, 34), st.integers(25, 90), st.integers(0, 2**32 - 1))
def test_rows_equal_a_loop_over_cells(height, width, seed):
    picture = noise(height, width, seed)  # too low for a second level
    [patches] = extract(picture)
    rows, places = describe_picture(picture)
    np.testing.assert_allclose(patches.X, rows, atol=1e-6)
    np.testing.assert_allclose(patches.places, places, atol=1e-6)


def test_patches_have_the_positions_of_dense_sift():
    picture = noise(120, 150)
    [statistics], [sift] = extract(picture), Sift().describe([Sift().prepare(picture)])
    np.testing.assert_array_equal(statistics.places, sift.places)
    assert statistics.X.shape == (len(sift.X), 96)
    assert statistics.X.dtype == np.float32


@pytest.mark.parametrize("shape", [(1, 1), (10, 4000), (4000, 10), (4000, 5000)])
def test_a_plain_picture_has_its_color_as_mean_and_deviation_zero(shape):
    [patches] = extract(np.full((*shape, 3), (250, 3, 77), np.uint8))
    np.testing.assert_allclose(
        patches.X[:, :48], np.tile([250 / 255, 3 / 255, 77 / 255], (len(patches.X), 16)), atol=1e-6
    )
    assert not patches.X[:, 48:].any()


def test_means_are_between_0_and_1_and_deviations_at_most_half():
    [patches] = extract((noise(80, 80) > 127).astype(np.uint8) * 255)
    assert patches.X.min() >= 0
    assert patches.X[:, :48].max() <= 1
    assert 0.4 < patches.X[:, 48:].max() <= 0.5


def test_added_light_changes_the_means_but_not_the_deviations():
    picture = noise(30, 60) // 2
    patches, lighter = extract(picture, picture + 51)
    np.testing.assert_allclose(lighter.X[:, :48], patches.X[:, :48] + 0.2, atol=1e-6)
    np.testing.assert_allclose(lighter.X[:, 48:], patches.X[:, 48:], atol=1e-6)


def test_a_batch_gives_the_same_bytes_as_one_picture_at_a_time():
    pictures = [noise(50, 60, seed) for seed in range(3)]
    for one, patches in zip(pictures, extract(*pictures), strict=True):
        assert extract(one)[0].X.tobytes() == patches.X.tobytes()
    assert extract() == []


def test_input_that_is_not_a_picture_is_refused():
    with pytest.raises(InputError, match="A picture must be a uint8 array"):
        extract(np.zeros((30, 30, 3), np.float32))
