import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.features.histograms import RINGS, WEDGES, Fourier, wave_energies
from reference.histograms import fourier_histogram
from reference.pictures import draw


def histogram(picture):
    return (Fourier().extract([np.ascontiguousarray(picture)])[0].astype(float) ** 2).reshape(RINGS, WEDGES)


def shares(values):
    energies = wave_energies(values)
    return energies / energies.sum()


def stripes(length, degrees, phase=0.0, height=128, width=128):
    """Return a wave of this length in pixels and this direction, in degrees clockwise from the right."""
    y, x = np.mgrid[:height, :width]
    place = np.cos(np.radians(degrees)) * x + np.sin(np.radians(degrees)) * y
    wave = 128 + 100 * np.sin(2 * np.pi * place / length + phase)
    return np.repeat(wave.round().astype(np.uint8)[..., None], 3, axis=2)


@pytest.mark.parametrize("shape", [(128, 128), (96, 171), (157, 105)])
def test_the_histogram_equals_the_reference(shape):
    picture = draw(3, *shape)
    # OpenCV's luminance is sometimes off by one.
    np.testing.assert_allclose(histogram(picture), fourier_histogram(picture), atol=1e-4, rtol=0)


@pytest.mark.parametrize("wedge", range(8))
@pytest.mark.parametrize(("ring", "length"), [(2, 22), (3, 11), (4, 5.5), (5, 3)])
def test_stripes_count_for_their_length_and_direction(ring, length, wedge):
    assert histogram(stripes(length, 22.5 * wedge))[ring, wedge] > 0.9


@pytest.mark.parametrize(("ring", "length"), [(0, 120), (1, 45)])
def test_waves_as_long_as_the_picture_count_for_the_first_rings(ring, length):
    assert histogram(stripes(length, 0))[: ring + 2].sum() > 0.95
    assert histogram(stripes(length, 0)).sum(axis=1).argmax() == ring


def test_a_rotation_by_90_degrees_shifts_wedges_by_four():
    picture = draw(2, 105, 157)
    np.testing.assert_allclose(histogram(np.rot90(picture)), np.roll(histogram(picture), 4, axis=1), atol=1e-6)


@pytest.mark.parametrize("mirror", [np.fliplr, np.flipud])
@pytest.mark.parametrize("shape", [(105, 157), (128, 128)])
def test_mirroring_reverses_the_order_of_wedges(mirror, shape):
    picture = draw(2, *shape)
    expected = histogram(picture)[:, -np.arange(WEDGES) % WEDGES]
    np.testing.assert_allclose(histogram(mirror(picture)), expected, atol=1e-6)
    assert np.abs(expected - histogram(picture)).max() > 0.01


@given(st.integers(0, 95), st.integers(0, 170))
def test_without_the_window_a_cyclic_shift_changes_nothing(down, right):
    values = draw(1, 96, 171)[..., 0].astype(float)
    np.testing.assert_allclose(shares(np.roll(values, (down, right), axis=(0, 1))), shares(values), atol=1e-9)


def test_all_crops_of_a_texture_have_nearly_the_same_vector():
    row, *others = (histogram(stripes(9, 40, phase)).ravel() for phase in (0, 1, 2, 3))
    for other in others:
        np.testing.assert_allclose(other, row, atol=0.005)


def test_the_window_suppresses_the_edge_between_opposite_borders():
    y = np.linspace(0, 1, 128)[:, None]
    ramp = np.repeat((255 * y * np.ones(128)).astype(np.uint8)[..., None], 3, axis=2)
    unwindowed = shares(ramp[..., 0] - ramp[..., 0].mean()).reshape(RINGS, WEDGES)
    assert histogram(ramp)[2:].sum() < unwindowed[2:].sum() / 5


def test_a_plain_picture_has_a_uniform_histogram():
    np.testing.assert_allclose(histogram(np.full((30, 40, 3), 90, np.uint8)), 1 / 48, atol=1e-6)
