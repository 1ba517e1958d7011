import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike_bench.bc_tree import BcTree


def brute(X, w, b, k, kind):
    """Return the scores of the k best rows, by scoring every row."""
    f = X.astype(np.float64) @ w + b
    return np.sort(np.abs(f) if kind == "frontier" else -f)[:k]


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 300),
    d=st.integers(1, 6),
    leaf=st.integers(1, 40),
    k=st.integers(1, 20),
    b=st.floats(-3, 3),
    away=st.sampled_from([0.0, 5.0]),
    kind=st.sampled_from(["frontier", "maximum"]),
    seed=st.integers(0, 99),
)
def test_a_search_equals_a_scan(n, d, leaf, k, b, away, kind, seed):
    random = np.random.default_rng(seed)
    X = np.round(random.normal(away, 1, (n, d)), 1).astype(np.float32)  # rounded, so that some rows are equal
    w = random.normal(size=d).astype(np.float32)
    hits = BcTree(X, leaf=leaf, seed=seed).search(w, b, k, kind=kind)
    best = brute(X, w.astype(np.float64), b, k, kind)
    np.testing.assert_allclose(hits.scores[0], best, atol=1e-4)
    f = X[hits.ids[0]].astype(np.float64) @ w + b
    np.testing.assert_allclose(np.abs(f) if kind == "frontier" else -f, best, atol=1e-4)
    assert len(set(hits.ids[0].tolist())) == min(k, n)


@pytest.mark.parametrize("kind", ["frontier", "maximum"])
def test_balls_and_cones_skip_rows_of_clustered_data(kind):
    random = np.random.default_rng(0)
    X = (10 * random.normal(size=(20, 1, 8)) + random.normal(size=(20, 100, 8))).reshape(-1, 8).astype(np.float32)
    tree, w = BcTree(X, leaf=50), random.normal(size=8).astype(np.float32)
    all_of_it = tree.search(w, 0.0, 10, kind=kind)
    assert all_of_it.scored < len(X) / 3
    some = tree.search(w, 0.0, 10, kind=kind, limit=20)
    assert 20 <= some.scored < all_of_it.scored
    assert (some.scores[0] >= all_of_it.scores[0]).all()


def test_equal_rows_can_be_split():
    hits = BcTree(np.ones((9, 2), np.float32), leaf=2).search(np.ones(2, np.float32), 0.5, 4)
    assert hits.scores.tolist() == [[2.5] * 4]
    assert BcTree(np.zeros((3, 2), np.float32)).search(np.ones(2, np.float32), 0.5, 9).scores.tolist() == [[0.5] * 3]


def test_invalid_arguments_are_errors():
    tree = BcTree(np.eye(3, dtype=np.float32))
    with pytest.raises(InputError, match=r"w must have shape \(3,\)"):
        tree.search(np.ones(2, np.float32), 0.0, 1)
    for bad in (lambda: tree.search(np.ones(3, np.float32), 0.0, 0), lambda: BcTree(np.empty((0, 3), np.float32))):
        with pytest.raises(InputError, match="must be"):
            bad()
    with pytest.raises(InputError, match="leaf"):
        BcTree(np.eye(3), leaf=0)
