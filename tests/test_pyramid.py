import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.features.pyramid import count_cells, cut_box, parse_pyramid, split_cells
from lookalike.types import Patches

random = np.random.default_rng(3)
places = random.random((50, 2)).astype(np.float32)
patches = Patches(random.normal(size=(50, 4)).astype(np.float32), places)


@pytest.mark.parametrize("text", ["", "1", "2x", "0x1", "17x1", "1x1;2x2", "1x1,", "-1x1", None, 3, "100x1"])
def test_a_pyramid_that_cannot_be_read_is_refused(text):
    with pytest.raises(InputError, match=r"pyramid must be levels of columns x rows, each 1 to 16.* Got"):
        parse_pyramid(text)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3))
def test_each_level_has_each_patch_once_in_the_cell_it_lies_in(levels):
    levels = tuple(levels)
    assert parse_pyramid(",".join(f"{columns}x{rows}" for columns, rows in levels)) == levels
    cells = split_cells(places, levels)
    assert len(cells) == count_cells(levels)
    for columns, rows in levels:
        level, cells = cells[: columns * rows], cells[columns * rows :]
        assert sorted(i for cell in level for i in np.arange(50)[cell]) == list(range(50))
        for number, cell in enumerate(level):
            row, column = divmod(number, columns)
            x, y = places[cell].T
            assert ((x >= column / columns) & (x <= (column + 1) / columns)).all()
            assert ((y >= row / rows) & (y <= (row + 1) / rows)).all()


def test_edges_and_what_lies_outside_belong_to_the_nearest_cell():
    corners = np.array([[1.0, 1.0], [0.0, 0.0], [1.2, -0.1]], np.float32)
    assert [cell.tolist() for cell in split_cells(corners, ((2, 2),))] == [[1], [2], [], [0]]


def test_a_box_holds_the_patches_whose_centre_is_inside():
    inside = cut_box(patches, (0.25, 0.5, 1.0, 1.0), 10, 20)
    expected = (places[:, 0] >= 0.25) & (places[:, 1] >= 0.5)
    np.testing.assert_array_equal(inside.X, patches.X[expected])
    np.testing.assert_allclose(inside.places * (0.75, 0.5) + (0.25, 0.5), places[expected], atol=1e-6)


def test_the_whole_picture_holds_all_of_them_unchanged():
    whole = cut_box(patches, (0, 0, 1, 1), 10, 20)
    np.testing.assert_array_equal(whole.X, patches.X)
    np.testing.assert_array_equal(whole.places, places)


def test_a_box_without_patches_takes_the_one_nearest_in_pixels():
    two = Patches(np.eye(2, dtype=np.float32), np.array([[0.6, 0.5], [0.5, 0.7]], np.float32))
    box = (0.45, 0.45, 0.55, 0.55)
    assert cut_box(two, box, height=10, width=10).X.tolist() == [[1, 0]]
    assert cut_box(two, box, height=10, width=100).X.tolist() == [[0, 1]]


def test_a_box_that_is_none_is_refused():
    with pytest.raises(InputError, match="A box must be"):
        cut_box(patches, (0.5, 0, 0.4, 1), 10, 10)
