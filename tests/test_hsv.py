import colorsys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.features.histograms import HSV_BINS, Hsv
from reference.histograms import hsv_histogram
from reference.pictures import draw


def histogram(picture):
    return (Hsv().extract([picture])[0].astype(float) ** 2).reshape(HSV_BINS)


def plain(hue, saturation, value):
    color = [round(255 * channel) for channel in colorsys.hsv_to_rgb(hue, saturation, value)]
    return np.full((128, 128, 3), color, np.uint8)


@pytest.mark.parametrize("shape", [(128, 128), (96, 171)])
def test_the_histogram_equals_the_reference(shape):
    picture = draw(3, *shape)
    # OpenCV's hue and saturation are sometimes off by one.
    np.testing.assert_allclose(histogram(picture), hsv_histogram(picture), atol=1e-3, rtol=0)


@given(st.integers(0, 9), st.integers(0, 3), st.integers(0, 2))
def test_a_colour_in_the_middle_of_a_bin_counts_for_it(hue, saturation, value):
    row = histogram(plain(hue / 10, (saturation + 0.5) / 4, (value + 0.5) / 3))
    assert row[hue, saturation, value] == 1


def test_reds_on_both_sides_of_zero_degrees_are_one_hue():
    np.testing.assert_array_equal(*Hsv().extract([plain(0.97, 0.9, 0.9), plain(0.03, 0.9, 0.9)]))


def test_dimmer_light_changes_values_but_not_hues():
    picture = np.concatenate([plain(0.1, 0.6, 0.9), plain(0.5, 0.6, 0.9)])
    row, dimmer = histogram(picture), histogram(picture // 2)
    np.testing.assert_allclose(dimmer.sum(axis=2), row.sum(axis=2))
    assert (row * dimmer).sum() == 0


@given(st.integers(0, 127), st.integers(0, 127))
def test_the_positions_of_colours_do_not_matter(down, right):
    picture = draw(1)
    np.testing.assert_array_equal(*Hsv().extract([picture, np.roll(picture, (down, right), axis=(0, 1))]))
