import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from lookalike.errors import InputError
from lookalike.features.sample import Reservoir


def numbered(first, last):
    return np.arange(first, last, dtype=np.float32)[:, None]


def test_every_row_is_as_likely_to_stay_as_any_other():
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
def test_how_the_stream_is_cut_changes_nothing_and_the_budget_is_kept(cuts, max_bytes, seed):
    X = np.random.default_rng(1).normal(size=(200, 2)).astype(np.float32)
    whole = Reservoir(2, max_bytes, seed)
    whole.add(X)
    pieces = Reservoir(2, max_bytes, seed)
    for part in np.split(X, sorted(cuts)):
        pieces.add(part)
    assert pieces.rows.tobytes() == whole.rows.tobytes()
    assert pieces.rows.nbytes <= pieces._kept.nbytes <= max_bytes
    assert len(pieces.rows) == min(200, max_bytes // 8)


def test_another_seed_keeps_other_rows():
    kept = []
    for seed in (0, 1):
        reservoir = Reservoir(1, 400, seed)
        reservoir.add(numbered(0, 1_000))
        kept.append(reservoir.rows.ravel().tolist())
    assert kept[0] != kept[1]


def test_a_stream_that_fits_is_kept_as_it_came():
    reservoir = Reservoir(1, 400)
    reservoir.add(numbered(0, 3))
    reservoir.add(numbered(3, 5))
    assert reservoir.rows.ravel().tolist() == [0, 1, 2, 3, 4]
    assert reservoir.seen == 5


def test_what_cannot_be_right_is_refused():
    with pytest.raises(InputError, match=r"max_bytes must be at least 512, one row of 128 numbers. Got 511."):
        Reservoir(128, 511)
    with pytest.raises(InputError, match="must have 2 columns"):
        Reservoir(2, 100).add(np.ones((1, 3)))
