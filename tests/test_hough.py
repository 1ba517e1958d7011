import numpy as np
import pytest

from lookalike.features.histograms import DIRECTIONS, DISTANCES, Hough
from reference.histograms import hough_histogram
from reference.pictures import draw


def histogram(picture):
    return (Hough().extract([np.ascontiguousarray(picture)])[0].astype(float) ** 2).reshape(DIRECTIONS, DISTANCES)


def ramp_edge(degrees, distance):
    """Return a straight edge by the angle of its normal, clockwise from the right, and its distance from the centre."""
    y, x = np.mgrid[:128, :128] - 63.5
    away = np.cos(np.radians(degrees)) * x + np.sin(np.radians(degrees)) * y - distance
    return np.repeat((128 + 100 * np.tanh(away / 2)).astype(np.uint8)[..., None], 3, axis=2)


@pytest.mark.parametrize("shape", [(128, 128), (96, 171), (157, 105)])
def test_the_histogram_equals_the_reference(shape):
    picture = draw(3, *shape)
    # OpenCV's luminance is sometimes off by one.
    np.testing.assert_allclose(histogram(picture), hough_histogram(picture), atol=1e-3, rtol=0)


@pytest.mark.parametrize("direction", range(8))
@pytest.mark.parametrize("distance", [0, 1, 2, 3])
def test_a_straight_edge_counts_for_its_direction_and_distance(direction, distance):
    corner = 63.5 * np.sqrt(2)
    row = histogram(ramp_edge(22.5 * direction, (distance + 0.5) * corner / 8))
    assert row[direction, distance] > 0.8


def test_a_rotation_by_90_degrees_shifts_directions_by_four():
    picture = draw(2, 105, 157)
    np.testing.assert_allclose(histogram(np.rot90(picture)), np.roll(histogram(picture), 4, axis=0), atol=1e-5)


@pytest.mark.parametrize("mirror", [np.fliplr, np.flipud])
def test_mirroring_reverses_the_order_of_directions(mirror):
    picture = draw(2, 105, 157)
    expected = histogram(picture)[-np.arange(DIRECTIONS) % DIRECTIONS]
    np.testing.assert_allclose(histogram(mirror(picture)), expected, atol=1e-5)
    assert np.abs(expected - histogram(picture)).max() > 0.01


def test_moving_an_object_changes_distances_but_not_directions():
    picture = np.full((128, 128, 3), 200, np.uint8)
    picture[50:80, 50:80] = 40
    picture[60:70, 55:75] = draw(1)[60:70, 55:75]
    row, moved = histogram(picture), histogram(np.roll(picture, (30, -25), axis=(0, 1)))
    np.testing.assert_allclose(moved.sum(axis=1), row.sum(axis=1), atol=1e-6)
    assert np.abs(moved - row).max() > 0.1


def test_a_picture_without_edges_has_a_uniform_histogram():
    np.testing.assert_allclose(histogram(np.full((30, 40, 3), 90, np.uint8)), 1 / 64, atol=1e-6)


def test_a_weak_edge_counts_for_less_than_a_strong_one():
    picture = np.full((128, 128, 3), 100, np.uint8)
    picture[:, 64:] += 30  # a vertical edge of 128 pixels
    picture[64:] += 120  # and a horizontal one, four times as strong
    directions = histogram(picture).sum(axis=1)
    assert directions[4] / directions[0] == pytest.approx(4, rel=0.1)
