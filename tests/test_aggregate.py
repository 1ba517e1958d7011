"""Code shared by the aggregation features: spatial pyramids, boxes and the sample of patches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from lookalike.errors import InputError
from lookalike.features.aggregate import Reservoir, count_cells, cut_box, parse_pyramid, split_cells
from lookalike.types import Patches

random = np.random.default_rng(3)
places = random.random((50, 2)).astype(np.float32)
patches = Patches(random.normal(size=(50, 4)).astype(np.float32), places)


@pytest.mark.parametrize("text", ["", "1", "2x", "0x1", "17x1", "1x1;2x2", "1x1,", "-1x1", None, 3, "100x1"])
def test_an_invalid_pyramid_is_refused(text):
    with pytest.raises(
        InputError, match=r"pyramid must be a comma-separated list of columns x rows, each from 1 to 16.* Got"
    ):
        parse_pyramid(text)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3))
def test_each_level_has_each_patch_once_in_the_cell_that_contains_it(levels):
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


def test_patches_on_edges_and_outside_belong_to_the_nearest_cell():
    corners = np.array([[1.0, 1.0], [0.0, 0.0], [1.2, -0.1]], np.float32)
    assert [cell.tolist() for cell in split_cells(corners, ((2, 2),))] == [[1], [2], [], [0]]


def test_a_box_contains_the_patches_whose_centre_is_inside():
    inside = cut_box(patches, (0.25, 0.5, 1.0, 1.0), 10, 20)
    expected = (places[:, 0] >= 0.25) & (places[:, 1] >= 0.5)
    np.testing.assert_array_equal(inside.X, patches.X[expected])
    np.testing.assert_allclose(inside.places * (0.75, 0.5) + (0.25, 0.5), places[expected], atol=1e-6)


def test_the_whole_picture_contains_all_patches_unchanged():
    whole = cut_box(patches, (0, 0, 1, 1), 10, 20)
    np.testing.assert_array_equal(whole.X, patches.X)
    np.testing.assert_array_equal(whole.places, places)


def test_a_box_without_patches_uses_the_nearest_patch_in_pixels():
    two = Patches(np.eye(2, dtype=np.float32), np.array([[0.6, 0.5], [0.5, 0.7]], np.float32))
    box = (0.45, 0.45, 0.55, 0.55)
    assert cut_box(two, box, height=10, width=10).X.tolist() == [[1, 0]]
    assert cut_box(two, box, height=10, width=100).X.tolist() == [[0, 1]]


def test_an_invalid_box_is_refused():
    with pytest.raises(InputError, match="A box must be"):
        cut_box(patches, (0.5, 0, 0.4, 1), 10, 10)


def numbered(first, last):
    return np.arange(first, last, dtype=np.float32)[:, None]


def test_every_row_is_sampled_with_equal_probability():
    counts = np.zeros(12)
    for seed in range(4_000):
        reservoir = Reservoir(dim=1, max_bytes=4 * 3, random_state=seed)
        for start in range(0, 12, 4):
            reservoir.add(numbered(start, start + 4))
        kept = reservoir.rows.ravel().astype(int)
        assert len(set(kept)) == 3
        counts[kept] += 1
    assert chisquare(counts).pvalue > 0.001


@given(cuts=st.lists(st.integers(0, 200), max_size=6), max_bytes=st.integers(8, 1_000), seed=st.integers(0, 9))
def test_the_sample_does_not_depend_on_the_batches_and_fits_the_memory_limit(cuts, max_bytes, seed):
    X = np.random.default_rng(1).normal(size=(200, 2)).astype(np.float32)
    whole = Reservoir(2, max_bytes, seed)
    whole.add(X)
    pieces = Reservoir(2, max_bytes, seed)
    for part in np.split(X, sorted(cuts)):
        pieces.add(part)
    assert pieces.rows.tobytes() == whole.rows.tobytes()
    assert pieces.rows.nbytes <= pieces._kept.nbytes <= max_bytes
    assert len(pieces.rows) == min(200, max_bytes // 8)


def test_another_seed_samples_other_rows():
    kept = []
    for seed in (0, 1):
        reservoir = Reservoir(1, 400, seed)
        reservoir.add(numbered(0, 1_000))
        kept.append(reservoir.rows.ravel().tolist())
    assert kept[0] != kept[1]


def test_a_stream_that_fits_in_memory_is_kept_in_order():
    reservoir = Reservoir(1, 400)
    reservoir.add(numbered(0, 3))
    reservoir.add(numbered(3, 5))
    assert reservoir.rows.ravel().tolist() == [0, 1, 2, 3, 4]
    assert reservoir.seen == 5


def test_a_reservoir_refuses_bad_input():
    with pytest.raises(InputError, match=r"max_bytes must be at least 512, the size of one row. Got 511."):
        Reservoir(128, 511)
    with pytest.raises(InputError, match="must have 2 columns"):
        Reservoir(2, 100).add(np.ones((1, 3)))
