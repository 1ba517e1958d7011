import cv2
import numpy as np
import pytest

from lookalike.features.sift import CSift, OpponentSift, RgbSift, RgSift, Sift

ALL = [RgbSift, OpponentSift, CSift, RgSift]


def draw(low=20, high=90, seed=0):
    noise = np.random.default_rng(seed).integers(low, high, (10, 14, 3), dtype=np.uint8)
    return cv2.resize(noise, (56, 40), interpolation=cv2.INTER_LINEAR)


def extract(local, picture):
    return local.describe([local.prepare(picture)])[0].X


def mean_cosine(local, picture, other):
    """Return the mean cosine between the patches of a picture and the same patches under other light."""
    return float((extract(local, picture) * extract(local, other)).sum(axis=1).mean())


@pytest.mark.parametrize("cls", ALL)
def test_rows_have_384_dimensions_unit_length_and_the_positions_of_sift(cls):
    local, picture = cls(), draw()
    assert local.dim == 384
    [patches] = local.describe([local.prepare(picture)])
    [gray] = Sift().describe([Sift().prepare(picture)])
    np.testing.assert_array_equal(patches.places, gray.places)
    assert patches.X.shape == (len(gray.X), 384)
    np.testing.assert_allclose(np.linalg.norm(patches.X, axis=1), 1, atol=1e-5)


def test_rgb_sift_of_a_gray_picture_is_sift_three_times():
    gray = draw()[..., :1].repeat(3, axis=2)
    for points in ("dense", "both"):
        rows = extract(Sift(points=points, root=False), gray)
        np.testing.assert_array_equal(extract(RgbSift(points=points, root=False), gray), np.tile(rows, 3))


@pytest.mark.parametrize("cls", [OpponentSift, CSift, RgSift])
def test_a_gray_picture_has_intensity_and_no_color(cls):
    gray = draw(0, 255)[..., :1].repeat(3, axis=2)
    gray[:12, :12] = 0  # black has no colour either
    rows = extract(cls(root=False), gray)
    assert not rows[:, :256].any()
    assert rows[:, 256:].any()


def test_channels_are_in_the_papers_order():
    picture = np.full((40, 40, 3), 100, np.uint8)
    picture[:, 20:] = 120, 80, 100  # red against green, with the same yellow and intensity
    blocks = extract(OpponentSift(root=False), picture).reshape(-1, 3, 128).any(axis=(0, 2))
    np.testing.assert_array_equal(blocks, [True, False, False])
    blocks = extract(CSift(root=False), picture).reshape(-1, 3, 128).any(axis=(0, 2))
    np.testing.assert_array_equal(blocks, [True, False, False])
    picture[:, 20:] = 100, 100, 160
    blocks = extract(OpponentSift(root=False), picture).reshape(-1, 3, 128).any(axis=(0, 2))
    np.testing.assert_array_equal(blocks, [False, True, True])
    picture[:, 20:] = 140, 80, 80  # more red, less green, with the same intensity
    blocks = extract(RgSift(root=False), picture).reshape(-1, 3, 128).any(axis=(0, 2))
    np.testing.assert_array_equal(blocks, [True, True, False])
    picture[:, 20:] = 140, 100, 100
    blocks = extract(RgbSift(root=False), picture).reshape(-1, 3, 128).any(axis=(0, 2))
    np.testing.assert_array_equal(blocks, [True, False, False])


@pytest.mark.parametrize("cls", [OpponentSift, CSift, RgSift])
def test_scaled_light_does_not_change_the_bytes(cls):
    np.testing.assert_array_equal(extract(cls(), draw()), extract(cls(), 2 * draw()))


def test_scaled_light_changes_rgb_sift_only_by_rounding():
    assert mean_cosine(RgbSift(), draw(), 2 * draw()) > 0.99


def test_added_light_does_not_change_opponent_sift_but_changes_c_sift_and_rg_sift():
    picture = (draw(80, 120) * np.linspace(0.05, 1, 56)[:, None]).astype(np.uint8)  # from dark to light
    lighter = picture + np.uint8(100)
    np.testing.assert_array_equal(extract(OpponentSift(), picture), extract(OpponentSift(), lighter))
    assert mean_cosine(RgbSift(), picture, lighter) > 0.9999
    assert mean_cosine(CSift(), picture, lighter) < 0.998
    assert mean_cosine(RgSift(), picture, lighter) < 0.998


def test_light_of_another_color_does_not_change_rgb_sift_but_changes_the_others():
    picture = draw(5, 50)
    reddish = picture * np.array([4, 1, 1], np.uint8) + np.array([40, 0, 10], np.uint8)
    assert mean_cosine(RgbSift(), picture, reddish) > 0.9999
    for cls in (OpponentSift, CSift, RgSift):
        assert mean_cosine(cls(), picture, reddish) < 0.98


@pytest.mark.parametrize("cls", [CSift, RgSift])
def test_the_color_channels_are_invariant_to_shadows(cls):
    picture = draw(10, 60)
    lit = picture.copy()
    lit[:, 28:] *= 4
    rows, shaded = extract(cls(root=False), lit), extract(cls(root=False), picture)
    np.testing.assert_array_equal(rows[:24, :256], shaded[:24, :256])  # level 1: no pixel mixes light and shadow
    assert np.abs(rows[:, 256:] - shaded[:, 256:]).max() > 50


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("shape", [(1, 1), (10, 4000), (4000, 10)])
def test_strips_and_single_pixels_give_finite_rows(cls, shape):
    noise = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    for picture in (noise, np.zeros_like(noise)):
        rows = extract(cls(), picture)
        assert rows.shape[1] == 384
        assert np.isfinite(rows).all()
    assert not rows.any()
