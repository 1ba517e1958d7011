"""Mirrored, rotated and overlaid copies are distinguished from other photos of the same kind."""

import cv2
import numpy as np
import pytest
from PIL import Image

from lookalike.images.edited_copy import EDITED, edited_difference, find_edits
from lookalike.images.same_photo import aspect, shrink
from lookalike.images.thumbnails import thumbnail


@pytest.fixture(scope="module")
def photos(pictures):
    return {path.stem: np.asarray(Image.open(path).convert("RGB")) for path in sorted(pictures.rglob("*.jpg"))}


def difference(one, other):
    smalls = [shrink(one), shrink(other)]
    thumbnails = [thumbnail(small)[None] for small in smalls]
    (edits,) = find_edits(*thumbnails, *(np.array([aspect(small)], np.float32) for small in smalls))
    return min((edited_difference(*smalls, edit) for edit in edits), default=1.0)


def turn(photo, angle):
    height, width = photo.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1.15)
    return np.asarray(cv2.warpAffine(photo, matrix, (width, height)))


def write(photo):
    return cv2.putText(photo.copy(), "Lake, 12 May", (90, 225), cv2.FONT_HERSHEY_DUPLEX, 0.8, (255, 255, 255), 2)


EDITS = {
    "mirrored": lambda photo: np.ascontiguousarray(photo[:, ::-1]),
    "turned left": lambda photo: turn(photo, 5),
    "turned right": lambda photo: turn(photo, -8),
    "text": write,
    "logo": lambda photo: cv2.circle(photo.copy(), (285, 30), 14, (200, 60, 60), -1),
}
KINDS = ("beach", "house", "face", "balloons")


@pytest.mark.parametrize("way", EDITS)
def test_an_edited_copy_is_found_in_either_order(photos, way):
    found = 0
    for kind in KINDS:
        photo, edited = photos[f"{kind}-001"], EDITS[way](photos[f"{kind}-001"])
        found += (difference(photo, edited) <= EDITED) + (difference(edited, photo) <= EDITED)
    assert found >= 6


def test_other_pictures_of_the_same_kind_are_not_edited_copies(photos):
    for kind in KINDS:
        assert min(difference(photos[f"{kind}-000"], photos[f"{kind}-00{i}"]) for i in (1, 2, 3)) > EDITED
