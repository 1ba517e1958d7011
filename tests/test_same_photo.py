"""Altered copies of a photo are distinguished from other photos of the same kind."""

import io

import cv2
import numpy as np
import pytest
from PIL import Image

from lookalike.images.same_photo import SAME, SIDE, difference, shrink
from lookalike.types import crop


@pytest.fixture(scope="module")
def photos(pictures):
    return {path.stem: np.asarray(Image.open(path).convert("RGB")) for path in sorted(pictures.rglob("*.jpg"))}


def save(picture, quality):
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "JPEG", quality=quality)
    return np.asarray(Image.open(stream).convert("RGB"))


COPIES = {
    "recompressed": lambda p: save(p, 25),
    "half": lambda p: cv2.resize(p, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA),
    "larger": lambda p: cv2.resize(p, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC),
    "cropped": lambda p: np.ascontiguousarray(crop(p, (0.05, 0.08, 0.97, 0.95))),
    "quarter off": lambda p: np.ascontiguousarray(crop(p, (0.0, 0.25, 0.75, 1.0))),
    "dimmer": lambda p: save((p * 0.8).astype(np.uint8), 60),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_is_the_same_photo_in_either_order(photos, way):
    missed = 0
    for photo in list(photos.values())[::4]:
        one, other = shrink(photo), shrink(COPIES[way](photo))
        assert difference(one, other) == pytest.approx(difference(other, one), abs=0.05)
        missed += difference(one, other) > SAME
    assert missed <= 1


def test_a_picture_is_the_same_photo_as_itself(photos):
    small = shrink(photos["beach-000"])
    assert difference(small, small) < 0.001


def test_other_pictures_of_the_same_kind_are_not_the_same_photo(photos):
    names = sorted(photos)
    small = {name: shrink(photos[name]) for name in names}
    pairs = [(a, b) for a in names for b in names if a < b and a[:-4] == b[:-4]]
    assert len(pairs) > 50
    wrong = [(a, b) for a, b in pairs if difference(small[a], small[b]) <= SAME]
    assert wrong == []


def test_mirrored_rotated_and_recoloured_pictures_are_not_the_same_photo(photos):
    photo = photos["beach-001"]
    small = shrink(photo)
    assert difference(small, shrink(np.ascontiguousarray(photo[:, ::-1]))) > SAME
    turn = cv2.getRotationMatrix2D((160, 120), 6, 1.1)
    assert difference(small, shrink(np.asarray(cv2.warpAffine(photo, turn, (320, 240))))) > SAME
    assert difference(small, shrink(np.ascontiguousarray(photo[..., ::-1]))) > SAME


def test_pictures_of_one_colour_are_compared_by_their_shade():
    def plain(*color, size=(60, 90)):
        return shrink(np.full((*size, 3), color, np.uint8))

    assert difference(plain(200, 200, 200), plain(201, 200, 200)) <= SAME
    assert difference(plain(200, 200, 200), plain(120, 120, 120)) > SAME
    assert difference(plain(255, 0, 0), plain(0, 130, 0)) > SAME  # nearly the same grey
    assert difference(plain(200, 200, 200), plain(200, 200, 200, size=(90, 60))) > SAME


@pytest.mark.parametrize("size", [(1, 1), (1, 5_000), (5_000, 1), (7, 9), (3_000, 2_000)])
def test_any_size_can_be_compared(size):
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    small = shrink(noise)
    assert max(small.shape) == max(SIDE, 8)
    assert difference(small, small) <= SAME
    assert difference(small, shrink(np.zeros((50, 60, 3), np.uint8))) > SAME or small.std() < 3
