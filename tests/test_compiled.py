"""Compiled code shared by indexes, compared with NumPy and Python, and work shared among threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.index import compiled
from lookalike.index.leaf_scores import in_blocks
from lookalike.index.threads import share

LOOPS = {width: compiled.make_sad(width) for width in (*compiled.widths(), None)}


@pytest.mark.parametrize("width", LOOPS)
@settings(max_examples=20, deadline=None)
@given(groups=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_sums_of_differences_equal_numpys(width, groups, seed):
    rows = np.random.default_rng(seed).integers(0, 256, (16, 8 * groups), dtype=np.uint8)
    out = np.empty(16, np.uint64)
    LOOPS[width](in_blocks(rows)[0], rows[3], out)
    assert out.tolist() == np.abs(rows.astype(int) - rows[3].astype(int)).sum(1).tolist()


SQUARES = {width: compiled.make_ssd(width) for width in (*compiled.widths(), None)}


@pytest.mark.parametrize("width", SQUARES)
@settings(max_examples=20, deadline=None)
@given(groups=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_sums_of_squared_differences_equal_numpys(width, groups, seed):
    rows = np.random.default_rng(seed).integers(0, 256, (16, 8 * groups), dtype=np.uint8)
    rows[0], rows[3, :8] = 255, 0  # the largest possible difference
    out = np.empty((16, 2), np.int32)
    SQUARES[width](in_blocks(rows)[0], rows[3], out)
    assert out.sum(1).tolist() == np.square(rows.astype(int) - rows[3].astype(int)).sum(1).tolist()


def test_a_heap_keeps_the_best_entries_with_the_worst_on_top():
    random = np.random.default_rng(0)
    distances, ids, size = np.empty(7, np.int32), np.empty(7, np.int64), 0
    seen = []
    for item in random.permutation(200):
        distance = int(random.integers(0, 9))
        seen.append((distance, int(item)))
        size = compiled.push(distances, ids, size, np.int32(distance), item)
        best = sorted(seen)[:7]
        assert sorted(zip(distances[:size].tolist(), ids[:size].tolist(), strict=True)) == best
        assert (distances[0], ids[0]) == best[-1]


@given(n=st.integers(0, 500), least=st.integers(1, 100))
def test_every_piece_of_shared_work_is_done_once(n, least):
    done = np.zeros(n, int)

    def work(start, stop):
        done[start:stop] += 1

    share(work, n, least)
    assert (done == 1).all()


def test_an_error_in_shared_work_is_raised():
    def fail(start, stop):
        raise InputError(f"{start}–{stop}")

    with pytest.raises(InputError):
        share(fail, 100)
