import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.features.histograms import Color

COLORS = st.tuples(*[st.integers(0, 255)] * 3)
SIDES = st.integers(1, 60)


def plain(color, shape=(20, 30)):
    return np.full((*shape, 3), color, np.uint8)


@settings(deadline=None)
@given(COLORS, SIDES, SIDES, st.integers(0, 2**32 - 1))
def test_every_picture_gives_a_finite_unit_row(color, height, width, seed):
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    rows = Color().extract([plain(color, (height, width)), noise])
    assert rows.shape == (2, 512)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (10, 4000), (4000, 10), (4000, 5000)])
def test_the_size_of_a_plain_picture_makes_no_difference(shape):
    np.testing.assert_array_equal(*Color().extract([plain((200, 30, 60), shape), plain((200, 30, 60))]))


def test_the_histogram_equals_a_count_pixel_by_pixel():
    picture = np.random.default_rng(3).integers(0, 256, (128, 128, 3), dtype=np.uint8)
    np.testing.assert_allclose(Color().extract([picture])[0], slow_row(picture), atol=1e-6)


def test_a_batch_gives_the_same_bytes_as_one_picture_at_a_time():
    pictures = [plain((i * 20, 90, 255 - i * 20)) for i in range(12)]
    one_by_one = np.concatenate([Color().extract([picture]) for picture in pictures])
    assert Color().extract(pictures).tobytes() == one_by_one.tobytes()


def test_no_pictures_give_no_rows():
    assert Color().extract([]).shape == (0, 512)


def test_a_mirrored_picture_has_the_same_vector_and_an_upside_down_one_does_not():
    picture = plain((20, 60, 220), (128, 128))
    picture[64:] = (240, 200, 10)
    picture[:20, :40] = 255
    row, mirrored, upturned = Color().extract([picture, picture[:, ::-1].copy(), picture[::-1].copy()])
    np.testing.assert_allclose(mirrored, row, atol=1e-6)
    assert row @ upturned < 0.6


def test_similar_colors_give_similar_vectors():
    red, orange, blue = Color().extract([plain((250, 10, 10)), plain((250, 60, 10)), plain((10, 10, 250))])
    assert red @ orange > 0.5
    assert red @ blue < 0.1


def test_hue_is_circular():
    pinkish, red, orange = Color().extract([plain((250, 10, 40)), plain((250, 10, 10)), plain((250, 40, 10))])
    assert pinkish @ red > 0.8
    assert orange @ red > 0.8


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 3)),
        np.zeros((0, 4, 3), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        "a",
    ],
)
def test_input_that_is_not_a_picture_is_refused(image):
    with pytest.raises(InputError, match="A picture must"):
        Color().prepare(image)


def slow_row(picture):
    hsv = cv2.cvtColor(picture, cv2.COLOR_RGB2HSV_FULL)
    regions = np.zeros((4, 8, 4, 4))
    for y in range(128):
        for x in range(128):
            hue, saturation, value = hsv[y, x].tolist()
            cube = np.einsum(
                "a,b,c", bins(hue // 8, 32, 8, True), bins(saturation // 16, 16, 4), bins(value // 16, 16, 4)
            )
            regions[1 + y * 3 // 128] += cube
            if np.hypot(y - 63.5, x - 63.5) < 48:
                regions[0] += cube
    return np.concatenate([np.sqrt(region / region.sum()).ravel() for region in regions]) / 2


def bins(level, levels, count, cyclic=False):
    weights = np.zeros(count)
    place = (level + 0.5) / levels * (count if cyclic else count - 1)
    for bin_ in range(int(place), int(place) + 2):
        weights[bin_ % count] += max(0.0, 1 - abs(place - bin_))
    return weights
