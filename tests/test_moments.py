import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.classes import moments as module
from lookalike.classes.moments import GrowingRows, Moments, sum_groups
from lookalike.errors import InputError


def empty(M, d, scatter=True):
    return Moments(np.zeros(M, np.int64), np.zeros((M, d)), np.zeros((d, d)) if scatter else None)


def within(X, groups):
    total = np.zeros((X.shape[1],) * 2)
    for g in np.unique(groups):
        rows = X[groups == g] - X[groups == g].mean(axis=0)
        total += rows.T @ rows
    return total


def assert_moments(got, X, groups, size):
    """Check that these are the moments of X, to 1e-10 of the size of the added and removed rows."""
    for g, count in enumerate(got.counts):
        assert count == (groups == g).sum()
        np.testing.assert_allclose(got.sums[g], X[groups == g].sum(axis=0), rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(got.scatter, within(X, groups), rtol=0, atol=1e-10 * size**2)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 3), min_size=1, max_size=12), st.sampled_from([0.0, 30.0]))
def test_any_sequence_of_changes_equals_a_fresh_count(seed, steps, offset):
    random = np.random.default_rng(seed)
    M, d = 4, 3
    moments = empty(M, d)
    X, groups = np.empty((0, d)), np.empty(0, np.int64)
    for step in steps:
        if step < 2:
            new = random.normal(size=(random.integers(1, 9), d)).astype(np.float32).astype(float) + offset
            at = random.integers(0, M, len(new))
            moments.add(new, at)
            X, groups = np.concatenate([X, new]), np.concatenate([groups, at])
        elif step == 2 and len(X):
            out = random.permutation(len(X))[: random.integers(1, len(X) + 1)]
            moments.remove(X[out], groups[out])
            X, groups = np.delete(X, out, axis=0), np.delete(groups, out)
        elif step == 3:
            i, j = random.permutation(M)[:2]
            moments.merge(i, j)
            groups = np.where(groups == j, i, groups)
    assert_moments(moments, X, groups, size=100 * (1 + offset))


def test_the_chunk_size_does_not_change_the_moments(monkeypatch):
    random = np.random.default_rng(0)
    X, groups = random.normal(size=(50, 4)), random.integers(0, 3, 50)
    monkeypatch.setattr(module, "chunks", lambda n, row_bytes: (slice(i, min(n, i + 7)) for i in range(0, n, 7)))
    moments = empty(3, 4)
    moments.add(X, groups)
    assert_moments(moments, X, groups, size=10)
    moments.remove(X[::2], groups[::2])
    assert_moments(moments, X[1::2], groups[1::2], size=10)


def test_removing_all_rows_leaves_exact_zeros():
    X = np.random.default_rng(1).normal(size=(9, 3)) * 1e6
    moments = empty(1, 3)
    moments.add(X, np.zeros(9, np.int64))
    for x in X[::-1]:
        moments.remove(x[None], np.zeros(1, np.int64))
    assert not moments.sums.any()
    assert not moments.scatter.any()


def test_removing_rows_that_were_never_added_raises_an_error_and_changes_nothing():
    moments = empty(2, 2)
    moments.add(np.array([[0.0, 1.0], [1.0, 0.0], [5.0, 5.0]]), np.array([0, 0, 1]))
    before = moments.counts.copy(), moments.sums.copy(), moments.scatter.copy()
    with pytest.raises(InputError, match="more rows than a group has"):
        moments.remove(np.zeros((2, 2)), np.array([1, 1]))
    with pytest.raises(InputError, match="Got different rows"):  # a variance would be negative
        moments.remove(np.array([[90.0, 90.0]]), np.array([0]))
    with pytest.raises(InputError, match="Got different rows"):  # no rows, but a sum
        moments.remove(np.array([[5.0, 5.1]]), np.array([1]))
    for now, then in zip((moments.counts, moments.sums, moments.scatter), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_sums_of_groups_on_torch_equal_numpy():
    torch = pytest.importorskip("torch")
    X, groups = np.random.default_rng(2).normal(size=(20, 3)), np.random.default_rng(3).integers(0, 5, 20)
    expected = np.array([X[groups == g].sum(axis=0) for g in range(6)])
    np.testing.assert_allclose(sum_groups(X, groups, 6), expected, atol=1e-12)
    np.testing.assert_allclose(sum_groups(torch.asarray(X), groups, 6).numpy(), expected, atol=1e-12)
    assert sum_groups(X[:0], groups[:0], 2).tolist() == [[0.0] * 3] * 2


def test_arrays_grow_without_a_copy_each_time_and_new_rows_are_zero():
    rows = GrowingRows(np.ones((2, 2)))
    rows.resize(3)
    buffer = rows.values.base
    rows.values[:] = 7
    rows.resize(1)
    rows.resize(6)
    assert rows.values.base is buffer
    assert rows.values.tolist() == [[7.0, 7.0]] + [[0.0, 0.0]] * 5
