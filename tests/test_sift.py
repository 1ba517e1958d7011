import pickle

import cv2
import numpy as np
import pytest

from lookalike.errors import InputError
from lookalike.features.sift import Sift


def make_picture(height=60, width=88, seed=0, low=40, high=200):
    """A smooth random picture of mid tones."""
    noise = np.random.default_rng(seed).integers(low, high, (height // 4, width // 4, 3), dtype=np.uint8)
    return cv2.resize(noise, (width, height), interpolation=cv2.INTER_LINEAR)


def extract(local, *pictures):
    return local.describe([local.prepare(picture) for picture in pictures])


def test_vectors_equal_those_of_opencv_for_one_upright_patch():
    gray = cv2.cvtColor(make_picture(), cv2.COLOR_RGB2GRAY)
    [patches] = extract(Sift(root=False), np.stack([gray] * 3, axis=2))
    for at, x, y in [(0, 12, 12), (24, 40, 26), (59, 75, 47)]:  # in the first level, which has 6 rows of 10 patches
        point = cv2.KeyPoint(x=x, y=y, size=6 * 2 / 3, angle=0, octave=0)  # four cells of 6 pixels each
        _, [row] = cv2.SIFT.create(nOctaveLayers=1, sigma=1.0).compute(gray, [point])
        np.testing.assert_allclose(patches.places[at], ((x + 0.5) / 88, (y + 0.5) / 60), atol=1e-6)
        np.testing.assert_array_equal(patches.X[at], row)
        assert row.max() > 50


def test_vectors_and_places_have_the_same_order():
    picture = np.full((60, 88, 3), 128, np.uint8)
    picture[:20, :30] = make_picture(20, 28).repeat(2, axis=1)[:, :30]
    [patches] = extract(Sift(), picture)
    busy = patches.X.any(axis=1)
    assert busy.any()
    assert not busy.all()
    assert (patches.places[busy] < 0.9).all()
    assert (patches.places[~busy].max(axis=1) > 0.4).all()


def test_root_sift_vectors_have_unit_length_and_their_squares_are_l1_normalised_sift():
    picture = make_picture()
    [rooted], [plain] = extract(Sift(), picture), extract(Sift(root=False), picture)
    np.testing.assert_allclose(np.linalg.norm(rooted.X, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(rooted.X**2, plain.X / plain.X.sum(axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_array_equal(rooted.places, plain.places)


@pytest.mark.parametrize("points", ["dense", "harris", "both"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (10, 4000), (4000, 10), (4000, 5000)])
def test_a_picture_of_one_colour_and_any_shape_gives_zero_vectors(shape, points):
    [patches] = extract(Sift(points=points), np.full((*shape, 3), 77, np.uint8))
    assert len(patches.X) >= 1
    assert patches.X.shape == (len(patches.places), 128)
    assert not patches.X.any()


def test_a_noisy_strip_gives_finite_vectors():
    for shape in [(10, 4000), (4000, 10), (2, 3)]:
        noise = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
        for points in ("dense", "both"):
            [patches] = extract(Sift(points=points), noise)
            assert np.isfinite(patches.X).all()
            assert patches.X.any()
            assert ((patches.places > 0) & (patches.places < 1)).all()


def test_both_gives_the_grid_first_and_then_the_corners():
    picture = make_picture(128, 192)
    [dense], [harris], [both] = (extract(Sift(points=points), picture) for points in ("dense", "harris", "both"))
    assert 0 < len(harris.X) < len(dense.X)
    np.testing.assert_array_equal(both.X, np.concatenate([dense.X, harris.X]))
    np.testing.assert_array_equal(both.places, np.concatenate([dense.places, harris.places]))


def test_a_picture_without_corners_falls_back_to_the_grid():
    picture = np.repeat(np.arange(100, dtype=np.uint8)[None, :, None], 60, axis=0).repeat(3, axis=2)
    [dense], [harris] = extract(Sift(), picture), extract(Sift(points="harris"), picture)
    np.testing.assert_array_equal(dense.X, harris.X)
    assert dense.X.any()


def test_changes_of_contrast_and_brightness_do_not_change_the_vectors():
    picture = make_picture(low=20, high=90)
    [rows], [stronger], [added] = (extract(Sift(), p) for p in (picture, 2 * picture, picture + 60))
    assert np.median((rows.X * stronger.X).sum(axis=1)) > 0.99
    assert np.median((rows.X * added.X).sum(axis=1)) > 0.999


def test_a_mirrored_picture_has_mirrored_places_and_vectors():
    picture = make_picture(25, 95)  # one level, with equal margins left and right of the grid
    patches, mirrored = extract(Sift(root=False), picture, picture[:, ::-1].copy())
    np.testing.assert_allclose(mirrored.places[::-1, 0], 1 - patches.places[:, 0], atol=1e-6)
    cells = patches.X.reshape(-1, 4, 4, 8)[:, :, ::-1]  # mirrored columns
    turned = cells[..., (4 - np.arange(8)) % 8].reshape(-1, 128)  # mirrored directions
    assert np.abs(mirrored.X[::-1] - turned).max() <= 3


def test_a_rotated_picture_has_other_vectors():
    picture = make_picture(95, 95)
    [patches], [turned] = extract(Sift(), picture), extract(Sift(), np.rot90(picture).copy())
    assert np.median((patches.X @ turned.X.T).max(axis=1)) < 0.95


def test_a_batch_gives_the_same_bytes_as_one_picture_at_a_time():
    pictures = [make_picture(seed=i) for i in range(3)]
    for one, patches in zip(pictures, extract(Sift(points="both"), *pictures), strict=True):
        [alone] = extract(Sift(points="both"), one)
        assert alone.X.tobytes() == patches.X.tobytes()
        assert alone.places.tobytes() == patches.places.tobytes()
    assert Sift().describe([]) == []


def test_reading_processes_send_small_and_exact_data():
    rows, places = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(Sift())).prepare(make_picture())))
    assert rows.dtype == np.uint8
    assert places.dtype == np.float32
    assert Sift(root=False).describe([(rows, places)])[0].X.dtype == np.float32


def test_unknown_options_are_rejected_with_the_allowed_ones():
    with pytest.raises(InputError, match=r"No kind of points named 'grid'\. Known: both, dense, harris"):
        Sift(points="grid")
    with pytest.raises(InputError, match="No kind of points named '3'"):
        Sift(points=3)
    with pytest.raises(InputError, match=r"root must be True or False\. Got 2"):
        Sift(root=2)
