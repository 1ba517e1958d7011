"""Properties shared by the histogram features, and the working size. test_hsv.py and others test each feature."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.features.histograms import (
    AREA,
    SIDE,
    Fourier,
    Hough,
    Hsv,
    LaplacianColor,
    ProbabilityColor,
    resize_area,
)
from reference.pictures import draw

FEATURES = [ProbabilityColor, LaplacianColor, Hsv, Hough, Fourier]
each = pytest.mark.parametrize("feature", FEATURES)
BYTES = st.integers(0, 255)


@given(st.sampled_from(FEATURES), st.tuples(BYTES, BYTES, BYTES), st.integers(1, 60), st.integers(1, 60), BYTES)
def test_the_squares_of_a_vector_are_a_histogram(feature, color, height, width, seed):
    plain = np.full((height, width, 3), color, np.uint8)
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    rows = feature().extract([plain, noise])
    assert rows.dtype == np.float32
    assert rows.shape == (2, feature.dim)
    assert (rows >= 0).all()
    np.testing.assert_allclose((rows.astype(float) ** 2).sum(axis=1), 1, atol=1e-5)


@each
@pytest.mark.parametrize("shape", [(1, 1), (10, 4000), (4000, 10), (1, 300_000), (4000, 5000)])
def test_the_size_of_a_plain_picture_makes_no_difference(feature, shape):
    plain = [np.full((*size, 3), (200, 30, 60), np.uint8) for size in (shape, (20, 30))]
    np.testing.assert_array_equal(*feature().extract(plain))


@each
@pytest.mark.parametrize("shape", [(10, 4000), (4000, 10), (2, 3), (3000, 2000)])
def test_a_noisy_picture_of_any_shape_gives_a_finite_unit_row(feature, shape):
    noise = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    np.testing.assert_allclose(np.linalg.norm(feature().extract([noise])), 1, atol=1e-5)


@each
def test_a_picture_at_twice_the_size_has_nearly_the_same_vector(feature):
    small = draw(5)
    row, twice = feature().extract([small, small.repeat(2, axis=0).repeat(2, axis=1)])
    np.testing.assert_allclose(twice, row, atol=1e-6)


@each
def test_a_batch_gives_the_same_bytes_as_one_picture_at_a_time(feature):
    pictures = [draw(seed, 60 + seed, 90) for seed in range(6)]
    one_by_one = np.concatenate([feature().extract([picture]) for picture in pictures])
    assert feature().extract(pictures).tobytes() == one_by_one.tobytes()
    assert len(np.unique(one_by_one, axis=0)) == 6


@each
def test_a_pickled_feature_gives_the_same_vector(feature):
    made = feature()
    assert pickle.loads(pickle.dumps(made)).extract([draw(1)]).tobytes() == made.extract([draw(1)]).tobytes()


@each
def test_no_pictures_give_no_rows(feature):
    assert feature().extract([]).shape == (0, feature.dim)


@each
@pytest.mark.parametrize("image", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8), "a"])
def test_input_that_is_not_a_picture_is_refused(feature, image):
    with pytest.raises(InputError, match="A picture must"):
        feature().prepare(image)


@each
def test_a_rotation_by_180_degrees_does_not_change_the_vector(feature):
    picture = draw(2, 105, 157)
    row, turned = feature().extract([picture, picture[::-1, ::-1].copy()])
    np.testing.assert_allclose(turned, row, atol=1e-5)


@pytest.mark.parametrize("feature", [ProbabilityColor, LaplacianColor, Hsv])
@pytest.mark.parametrize("turn", [np.rot90, np.flipud, np.fliplr])
def test_colours_do_not_change_when_a_picture_is_rotated_or_mirrored(feature, turn):
    picture = draw(2, 105, 157)
    row, turned = feature().extract([picture, np.ascontiguousarray(turn(picture))])
    np.testing.assert_allclose(turned, row, atol=1e-6)


@pytest.mark.parametrize("feature", [Hough, Fourier])
def test_edges_and_waves_do_not_change_with_brightness_contrast_or_inversion(feature):
    grey = np.repeat((draw(3)[..., :1] // 4), 3, axis=2)  # 0 to 58
    row, brighter, stronger, negative = feature().extract([grey, grey + 100, grey * 4, 255 - grey])
    np.testing.assert_allclose(brighter, row, atol=1e-5)
    np.testing.assert_allclose(stronger, row, atol=1e-5)
    np.testing.assert_allclose(negative, row, atol=1e-5)


@given(st.integers(1, 600), st.integers(1, 600))
def test_a_picture_is_resized_to_the_working_area_with_its_aspect_ratio(height, width):
    small = resize_area(np.zeros((height, width, 3), np.uint8))
    tall, wide = small.shape[:2]
    assert min(tall, wide) <= SIDE
    scale = (AREA / (height * width)) ** 0.5
    assert abs(tall - scale * height) <= 0.5 or tall == 1
    assert abs(wide - scale * width) <= 0.5 or wide == 1


def test_a_line_of_a_million_pixels_stays_small():
    assert resize_area(np.zeros((1, 1_000_000, 3), np.uint8)).shape == (1, AREA, 3)


def test_a_picture_of_the_working_area_is_not_resized():
    picture = np.random.default_rng(0).integers(0, 256, (105, 157, 3), np.uint8)
    np.testing.assert_array_equal(resize_area(picture), picture)


def test_only_pictures_are_resized():
    with pytest.raises(InputError, match="A picture must"):
        resize_area(np.zeros((4, 4), np.uint8))
