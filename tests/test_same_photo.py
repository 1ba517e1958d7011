"""Altered copies of a photo are distinguished from other photos of the same kind."""

import io

import cv2
import numpy as np
import pytest
from PIL import Image

from lookalike.images.same_photo import MIN_DETAIL, SAME, SIDE, UNRELATED, detail, difference, shrink
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


def test_a_brighter_copy_is_the_same_photo_although_pixels_are_clipped(photos):
    taken = [(photo * 0.8).astype(np.uint8) for photo in photos.values()]
    brighter = [np.clip(photo * 1.4, 0, 255).astype(np.uint8) for photo in taken]
    clipped = [i for i, copy in enumerate(brighter) if 0.05 < (copy.max(axis=2) == 255).mean() < 0.6]
    assert len(clipped) > 10
    missed = [difference(shrink(taken[i]), shrink(brighter[i])) > SAME for i in clipped]
    assert sum(missed) <= 1


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


def _without_detail():
    """Different pictures that nothing distinguishes but noise and brightness."""
    rng = np.random.default_rng(0)
    down, across = np.mgrid[-1:1:120j, -1:1:160j]
    masks = [rng.integers(1, 4, (120, 160)) for _ in range(4)]
    blobs = [2 * cv2.circle(np.zeros((120, 160)), (40 * i, 60), 10 * i, 1, -1) + 1 for i in (1, 2, 3)]
    gradients = [128 + 100 * share * down for share in (0.5, 0.7, 1.0)]
    vignettes = [200 - 40 * (across**2 + share * down**2) for share in (0.5, 1.0)]
    greys = [np.full((120, 160), grey) for grey in (0, 120, 255)]
    return [np.repeat(p.astype(np.uint8)[..., None], 3, axis=2) for p in masks + blobs + gradients + vignettes + greys]


def test_pictures_without_detail_are_never_the_same_photo():
    small = [shrink(picture) for picture in _without_detail()]
    assert [round(detail(one), 1) for one in small if detail(one) >= MIN_DETAIL] == []
    assert {difference(one, other) for one in small for other in small} == {UNRELATED}


def test_photos_have_detail(photos):
    assert min(detail(shrink(photo)) for photo in photos.values()) > MIN_DETAIL


def test_a_clipped_pixel_is_compared_from_one_side_only(photos):
    photo = photos["house-000"]
    white = photo.copy()
    white[60:180, 80:240] = 255  # not a brighter copy: what is bright there is dark in the photo
    assert difference(shrink(photo), shrink(white)) > SAME
    assert difference(shrink(white), shrink(photo)) > SAME


@pytest.mark.parametrize("size", [(1, 1), (1, 5_000), (5_000, 1), (7, 9), (3_000, 2_000)])
def test_any_size_can_be_compared(size):
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    small = shrink(noise)
    assert max(small.shape) == max(SIDE, 8)
    assert difference(small, small) <= SAME or detail(small) < MIN_DETAIL
    assert difference(small, shrink(np.zeros((50, 60, 3), np.uint8))) > SAME
