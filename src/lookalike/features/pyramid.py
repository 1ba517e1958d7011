"""Which patches lie in which part of a picture: spatial pyramids and boxes.

In: the places of patches, (m, 2), as shares of width and height. Out: the patches of each cell, or those of a box.
Lazebnik, Schmid & Ponce, "Beyond bags of features: spatial pyramid matching", CVPR 2006.
"""

import re
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError
from lookalike.types import Box, Matches, Patches, Vectors, check_box

Pyramid: TypeAlias = Annotated[str, Matches(r"[0-9x, ]{1,200}")]
"""Levels as text, such as "1x1,2x2"."""

Levels: TypeAlias = tuple[tuple[int, int], ...]
"""Columns and rows of each level."""

MOST = 16
"""Columns or rows that a level may have."""


def parse_pyramid(text: str) -> Levels:
    """The levels that a string spells.

    >>> parse_pyramid("1x1, 3x1")
    ((1, 1), (3, 1))
    """
    parts = [re.fullmatch(r"\s*(\d{1,2})x(\d{1,2})\s*", part) for part in str(text).split(",")]
    levels = tuple((int(part[1]), int(part[2])) for part in parts if part)
    if len(levels) < len(parts) or any(not 1 <= count <= MOST for level in levels for count in level):
        raise InputError(
            f"pyramid must be levels of columns x rows, each 1 to {MOST}, with commas between them, such as"
            f" '1x1,2x2'. Got {text!r}."
        )
    return levels


def count_cells(levels: Levels) -> int:
    """How many cells all levels have together.

    >>> count_cells(((1, 1), (2, 2)))
    5
    """
    return sum(columns * rows for columns, rows in levels)


def split_cells(places: Vectors, levels: Levels) -> list[slice | NDArray[np.intp]]:
    """The patches of each cell, as an index into them: level by level, row by row from the upper left.

    Places outside the picture belong to the nearest cell.

    >>> split_cells(np.array([[0.1, 0.5], [0.9, 0.5]]), ((1, 1), (2, 1)))
    [slice(None, None, None), array([0]), array([1])]
    """
    cells: list[slice | NDArray[np.intp]] = []
    for columns, rows in levels:
        if columns == rows == 1:
            cells.append(slice(None))  # all of them, without a copy
            continue
        grid = np.array([columns, rows])
        column, row = np.clip((places * grid).astype(np.intp), 0, grid - 1).T
        cells += [np.flatnonzero(row * columns + column == cell) for cell in range(columns * rows)]
    return cells


def cut_box(patches: Patches, box: Box, height: int, width: int) -> Patches:
    """The patches with their centre inside a box, places as shares of the box; else the one nearest its centre."""
    left, top, right, bottom = check_box(box)
    low, size = np.array([left, top]), np.array([right - left, bottom - top])
    places = ((patches.places - low) / size).astype(np.float32)  # (m, 2)
    inside = np.flatnonzero(np.all((places >= 0) & (places <= 1), axis=1))
    if len(inside) == 0:
        pixels = (places - 0.5) * size * (width, height)
        inside = np.sum(pixels**2, axis=1).argmin(keepdims=True)
    return Patches(patches.X[inside], places[inside])
