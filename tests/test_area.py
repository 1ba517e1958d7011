import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.features.area import AREA, SIDE, resize_area

LENGTHS = st.integers(1, 600)


@given(LENGTHS, LENGTHS)
def test_a_picture_comes_to_the_area_in_its_own_proportions(height, width):
    small = resize_area(np.zeros((height, width, 3), np.uint8))
    tall, wide = small.shape[:2]
    assert min(tall, wide) <= SIDE
    scale = (AREA / (height * width)) ** 0.5
    assert abs(tall - scale * height) <= 0.5 or tall == 1
    assert abs(wide - scale * width) <= 0.5 or wide == 1


def test_a_line_of_a_million_pixels_stays_small():
    assert resize_area(np.zeros((1, 1_000_000, 3), np.uint8)).shape == (1, AREA, 3)


def test_a_picture_of_that_area_is_left_alone():
    picture = np.random.default_rng(0).integers(0, 256, (105, 157, 3), np.uint8)
    np.testing.assert_array_equal(resize_area(picture), picture)


def test_what_is_not_a_picture_is_refused():
    with pytest.raises(InputError, match="A picture must"):
        resize_area(np.zeros((4, 4), np.uint8))
