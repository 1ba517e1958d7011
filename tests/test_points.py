import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.features.points import AREA, PATCH, STEP, detect_corners, lay_grid, level_sizes, scale
from reference.color_statistics import centres

SIDES = st.integers(1, 700)


def spots():
    """White squares of 12 pixels on black, their centres 60 pixels apart, the first at 30."""
    y, x = np.mgrid[:240, :360] % 60
    return ((abs(y - 29.5) < 6) & (abs(x - 29.5) < 6)).astype(np.uint8) * 255


@given(SIDES, SIDES)
def test_a_scaled_picture_is_within_the_limits_and_large_enough_for_a_patch(height, width):
    h, w = scale(np.zeros((height, width, 3), np.uint8)).shape[:2]
    assert min(h, w) > PATCH
    assert h * w <= 1.01 * AREA
    assert max(h, w) - 0.5 <= 8 * (min(h, w) + 0.5)  # tolerance, because sides are rounded
    if 1 / 8 <= width / height <= 8 and height * width <= AREA and min(height, width) > PATCH:
        assert (h, w) == (height, width)


@pytest.mark.parametrize(
    ("shape", "scaled"),
    [
        ((1, 1), (25, 25)),
        ((10, 20), (25, 50)),
        ((10, 4000), (71, 566)),
        ((4000, 10), (566, 71)),
        ((800, 1200), (258, 387)),
    ],
)
def test_a_picture_is_scaled_by_its_area_and_no_further_than_a_patch_needs(shape, scaled):
    assert scale(np.zeros((*shape, 3), np.uint8)).shape == (*scaled, 3)


def test_arrays_that_are_not_pictures_are_rejected():
    with pytest.raises(InputError, match="A picture must be a uint8 array"):
        scale(np.zeros((30, 30), np.uint8))


@given(st.integers(PATCH + 1, 400), st.integers(PATCH + 1, 400))
def test_dense_patches_are_a_regular_centred_grid_inside_the_picture(height, width):
    for points in lay_grid(height, width):
        x, y = (np.unique(column) for column in points.centres.T)
        assert len(points.centres) == len(x) * len(y)
        for ticks, length in ((x, points.width), (y, points.height)):
            np.testing.assert_array_equal(ticks, centres(length))
            assert ticks[0] >= PATCH / 2
            assert ticks[-1] <= length - 1 - PATCH / 2
            assert abs(ticks[0] - (length - 1 - ticks[-1])) <= 1
            assert length - 1 - PATCH / 2 - ticks[-1] < STEP
        assert (points.widths == PATCH).all()


def test_a_picture_of_384_by_256_has_about_3000_dense_patches():
    assert sum(len(points.centres) for points in lay_grid(256, 384)) == 3182


def test_levels_end_before_they_are_smaller_than_a_patch():
    assert level_sizes(25, 25) == [(25, 25)]
    assert level_sizes(40, 400) == [(40, 400), (28, 283)]
    assert len(level_sizes(300, 300)) == 5


def test_places_lie_inside_the_picture_and_mirror_with_it():
    for points in lay_grid(256, 384):
        assert (points.places > 0).all()
        assert (points.places < 1).all()
        mirrored = np.sort(1 - points.places[:, 0])
        assert np.abs(np.sort(points.places[:, 0]) - mirrored).max() <= 1.01 / points.width


def test_the_shared_grid_is_read_only():
    with pytest.raises(ValueError, match="read-only"):
        lay_grid(100, 100)[0].centres[:] = 0


def test_corners_are_found_at_the_spots():
    places = np.concatenate([points.places for points in detect_corners(spots())]) * (360, 240)
    assert len(places) >= 24
    assert np.abs(places % 60 - 30).max() < 10
    assert len(np.unique(places // 60, axis=0)) == 24


def test_corners_lie_on_the_level_with_the_closest_patch_size():
    noise = np.random.default_rng(0).integers(0, 256, (64, 96), dtype=np.uint8)
    picture = cv2.resize(noise, (384, 256), interpolation=cv2.INTER_CUBIC)
    found = detect_corners(picture)
    assert [(points.height, points.width) for points in found] == level_sizes(256, 384)
    assert sum(len(points.widths) > 0 for points in found) >= 2
    for points in found[1:]:
        assert np.all(np.abs(np.log2(points.widths / PATCH)) <= 0.26)
    assert np.all(found[0].widths <= 1.2 * PATCH)


def test_a_corner_is_found_at_twice_the_scale_if_the_picture_is_twice_as_large():
    def corners(picture):
        """Columns: x and y of the picture, width of the patch, all in pixels of the picture."""
        found = [
            np.column_stack([points.places * picture.shape[::-1], points.widths * picture.shape[1] / points.width])
            for points in detect_corners(picture)
        ]
        return np.concatenate(found)

    noise = cv2.GaussianBlur(np.random.default_rng(0).integers(0, 256, (40, 40), dtype=np.uint8), (0, 0), 1)
    picture = cv2.normalize(cv2.resize(noise, (120, 120), interpolation=cv2.INTER_CUBIC), None, 0, 255, cv2.NORM_MINMAX)
    small, large = corners(picture), corners(cv2.resize(picture, (240, 240), interpolation=cv2.INTER_CUBIC))
    small = small[small[:, 2] < 12 * 3.5]  # at larger scales, the doubled scale is not searched
    twice = [
        np.any((np.hypot(*(large[:, :2] - 2 * row[:2]).T) < 3) & (abs(np.log2(large[:, 2] / row[2]) - 1) < 0.3))
        for row in small
    ]
    assert len(small) > 30
    assert np.mean(twice) > 0.8


def test_the_number_of_corners_is_limited_to_the_strongest(monkeypatch):
    monkeypatch.setattr("lookalike.features.points.MAX_CORNERS", 100)
    noise = np.random.default_rng(0).integers(0, 256, (256, 384), dtype=np.uint8)
    noise[:, :192] = noise[:, :192] // 2 + 64  # also corners, but weaker
    places = np.concatenate([points.places for points in detect_corners(noise)])
    assert len(places) == 100
    assert (places[:, 0] > 0.45).all()


def test_a_plain_picture_has_no_corners():
    assert sum(len(points.widths) for points in detect_corners(np.full((25, 200), 90, np.uint8))) == 0
