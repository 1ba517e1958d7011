import numpy as np
import pytest

from lookalike.features.histograms import LaplacianColor, ProbabilityColor
from reference import histograms as slow
from reference.pictures import draw

RED, WHITE, BLUE = (250, 10, 10), (250, 250, 250), (10, 10, 250)


def histogram(feature, picture):
    return feature().extract([picture])[0].astype(float) ** 2


def share(feature, picture, color):
    return histogram(feature, picture)[slow.bin_of(color)]


def plain(color):
    return np.full((128, 128, 3), color, np.uint8)


@pytest.mark.parametrize("shape", [(128, 128), (96, 171)])
def test_probability_weights_equal_a_slow_count(shape):
    picture = draw(3, *shape)
    np.testing.assert_allclose(
        histogram(ProbabilityColor, picture), slow.probability_histogram(picture), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("shape", [(128, 128), (96, 171)])
def test_laplacian_weights_equal_a_slow_count(shape):
    picture = draw(3, *shape)
    # OpenCV's luminance is occasionally off by one level.
    np.testing.assert_allclose(histogram(LaplacianColor, picture), slow.laplacian_histogram(picture), atol=5e-4, rtol=0)


def test_scattered_pixels_weigh_more_than_their_share():
    picture = plain(WHITE)
    picture[4::8, 4::8] = RED  # one pixel in 64, and one in 49 of its own neighbourhood
    assert share(ProbabilityColor, picture, RED) == pytest.approx(49 / (49 + 63 * 49 / 48), rel=0.02)


def test_pixels_of_uniform_areas_have_equal_probability_weights():
    picture = plain(WHITE)
    picture[:, 64:] = BLUE
    np.testing.assert_allclose(
        [share(ProbabilityColor, picture, color) for color in (WHITE, BLUE)], 0.5, rtol=0, atol=1e-6
    )


def test_only_edges_count_for_the_laplacian():
    picture = plain(WHITE)
    picture[20:100, 20:100] = RED
    # 320 white pixels have one red neighbour; 312 red ones have one white neighbour, and 4 in the corners have two.
    assert share(LaplacianColor, picture, RED) == pytest.approx((312 + 4 * 2**2) / (320 + 312 + 4 * 2**2))


def test_a_picture_without_edges_falls_back_to_the_plain_histogram():
    assert share(LaplacianColor, plain(RED), RED) == pytest.approx(1)


def test_edges_between_colours_of_equal_luminance_are_ignored():
    green, purple = (0, 100, 0), (100, 40, 45)  # both of luminance 59
    picture = plain(green)
    picture[:, 32:] = purple
    assert share(LaplacianColor, picture, purple) == pytest.approx(0.75)  # falls back to the plain histogram


@pytest.mark.parametrize("feature", [ProbabilityColor, LaplacianColor])
def test_moving_the_content_on_a_uniform_background_changes_nothing(feature):
    picture = plain(WHITE)
    picture[20:50, 30:60] = RED
    picture[25:28, 40:70] = BLUE
    moved = np.roll(picture, (40, 30), axis=(0, 1))
    np.testing.assert_allclose(*feature().extract([picture, moved]), atol=1e-5)


@pytest.mark.parametrize("feature", [ProbabilityColor, LaplacianColor])
def test_a_darker_picture_has_other_colours(feature):
    row, darker = feature().extract([draw(4), draw(4) // 2])
    assert row @ darker < 0.5
