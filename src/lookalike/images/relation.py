"""How a copy relates to the largest picture of its group: which part of it the copy shows, and how it was edited.

The part is found by the alignment of `same_photo`. It lies outside the largest picture if the copy shows more: a small
copy of the whole photo can be in the same group as a large crop.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.images.edited_copy import Edit, edited_difference, whole_and_part
from lookalike.images.same_photo import Small, align, rotation
from lookalike.types import WHOLE, Box

SAME_EDGE = 0.01
"""Maximum difference of the edges of two parts that count as the same, as a share of the width or height. On synthetic
pictures, the alignment errs by up to 0.001 for copies of the whole picture, and by about 0.003 for crops."""

UPRIGHT = 0.03
"""Largest `rotation` of a copy that was not rotated."""


class Relation(NamedTuple):
    """The part of the largest picture that a copy shows, and whether the copy was mirrored or rotated."""

    box: Box  # shares of the width and height of the largest picture; can exceed 0 to 1
    mirrored: bool = False
    rotated: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether the copy does not show the whole largest picture."""
        return not _is_inside(WHOLE, self.box)

    @property
    def shows_more(self) -> bool:
        """Whether the copy shows something that the largest picture does not."""
        return not _is_inside(self.box, WHOLE)

    def shows_all_of(self, other: "Relation") -> bool:
        """Whether the copy shows everything that another copy of the same picture shows."""
        return _is_inside(other.box, self.box)


ITSELF = Relation(WHOLE)
"""The relation of the largest picture to itself."""


def relate(largest: Small, copy: Small, edits: Sequence[Edit]) -> Relation:
    """Return the relation of a copy to the largest picture, by the one of the possible edits that matches best."""
    edit = min(edits, key=lambda edit: edited_difference(largest, copy, edit)) if len(edits) > 1 else edits[0]
    whole, part = whole_and_part(largest, copy, edit)
    matrix = align(whole, part, edit.place)[2]
    box = _part_box(whole, part, matrix)
    if edit.place.swapped:  # the box of the largest picture inside the copy
        left, top, right, bottom = box
        width, height = right - left, bottom - top
        box = (-left / width, -top / height, (1 - left) / width, (1 - top) / height)
    left, top, right, bottom = (round(edge, 4) for edge in box)
    rotated = bool(edit.angle) or rotation(matrix) > UPRIGHT
    return Relation((left, top, right, bottom), edit.mirrored, rotated)


def _part_box(whole: Small, part: Small, matrix: NDArray[Any]) -> Box:
    """Return the box of a part, given the map (2, 3) from pixels of the whole to pixels of the part."""
    (height, width), (h, w) = whole.shape[:2], part.shape[:2]
    inverse = cv2.invertAffineTransform(matrix)  # (2, 3)
    x, y = (w - 1) / 2, (h - 1) / 2
    middles = np.array([[-0.5, y], [x, -0.5], [w - 0.5, y], [x, h - 0.5]])  # of the left, top, right, bottom edge
    placed = middles @ inverse[:, :2].T + inverse[:, 2] + 0.5
    left, top, right, bottom = placed[[0, 1, 2, 3], [0, 1, 0, 1]] / (width, height, width, height)
    return float(left), float(top), float(right), float(bottom)


def _is_inside(inner: Box, outer: Box) -> bool:
    """Whether a box is inside another one, within SAME_EDGE."""
    return (
        inner[0] >= outer[0] - SAME_EDGE
        and inner[1] >= outer[1] - SAME_EDGE
        and inner[2] <= outer[2] + SAME_EDGE
        and inner[3] <= outer[3] + SAME_EDGE
    )
