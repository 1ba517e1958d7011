"""Thumbnails find one picture inside another, and reject pictures that do not correlate."""

import cv2
import numpy as np
import pytest

from lookalike.images.thumbnails import SIDE, find_places, thumbnail
from lookalike.types import crop


def scene(seed, size=(120, 160)):
    """A smooth random picture."""
    noise = np.random.default_rng(seed).normal(size=(*size, 3)).astype(np.float32)
    smooth = cv2.GaussianBlur(noise, (0, 0), 8)
    return np.clip(128 + 50 * smooth / smooth.std(), 0, 255).astype(np.uint8)


def find(one, other):
    (place,) = find_places(
        thumbnail(one)[None],
        thumbnail(other)[None],
        np.array([one.shape[1] / one.shape[0]]),
        np.array([other.shape[1] / other.shape[0]]),
    )
    return place


@pytest.mark.parametrize(
    "box", [(0, 0, 1, 1), (0.1, 0.05, 0.95, 0.9), (0, 0, 0.75, 0.75), (0.1, 0, 1, 1), (0.2, 0.2, 0.8, 0.8)]
)
def test_a_crop_is_found_where_it_was_cut_out(box):
    for seed in range(5):
        whole = scene(seed)
        part = np.ascontiguousarray(crop(whole, box))
        left, top, right, bottom = box
        expected = np.array([left, top, right - left, bottom - top])
        for place, swapped in ((find(whole, part), False), (find(part, whole), True)):
            assert place is not None
            assert place.swapped == swapped or box == (0, 0, 1, 1)
            assert np.abs(np.array(place[1:]) - expected).max() < 2.5 / SIDE


def test_two_crops_that_overlap_are_found_although_neither_contains_the_other():
    for seed in range(5):
        whole = scene(seed)
        assert find(*(np.ascontiguousarray(crop(whole, box)) for box in ((0, 0, 0.92, 0.95), (0.08, 0.05, 1, 1))))


def test_different_pictures_have_no_place():
    assert not any(find(scene(seed), scene(seed + 100)) for seed in range(20))


def test_a_batch_of_pairs_gives_the_same_places_as_single_pairs():
    wholes = [scene(seed) for seed in range(6)]
    parts = [np.ascontiguousarray(crop(whole, (0, 0, 0.7 + seed / 20, 0.8))) for seed, whole in enumerate(wholes)]
    parts[3] = scene(50)
    shapes, part_shapes = (np.array([p.shape[1] / p.shape[0] for p in ps]) for ps in (wholes, parts))
    thumbnails, part_thumbnails = (np.stack([thumbnail(p) for p in ps]) for ps in (wholes, parts))
    found = find_places(thumbnails, part_thumbnails, shapes, part_shapes)
    assert found == [find(*pair) for pair in zip(wholes, parts, strict=True)]
    assert [place is None for place in found] == [False, False, False, True, False, False]


def test_plain_pictures_have_no_place():
    plain = np.full((50, 60, 3), 90, np.uint8)
    assert find(plain, plain) is None
    assert find(scene(0), plain) is None
