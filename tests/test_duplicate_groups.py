"""Clusters of duplicates: the algorithm equals its reference, and a chain never becomes one group."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.collection import duplicates
from lookalike.collection.duplicates import (
    choose_search,
    find_clusters,
    find_linked,
    find_near,
    typical_distance,
)
from reference import duplicate_groups as reference


def accept_all(centre, others, distances):
    return zip(others.tolist(), distances.tolist(), strict=True)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 40),
    radius=st.sampled_from([0.0, 1.0, 9.0, 1e9]),
    apart=st.sets(st.tuples(st.integers(0, 20), st.integers(21, 40)), max_size=30),
    odd=st.booleans(),
)
def test_clusters_equal_the_reference(seed, n, radius, apart, odd):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, 3)).astype(np.float32)  # integers, so that distances are exact and often equal
    ids = rng.permutation(n).astype(np.int64)

    def belongs(centre, other):
        return not odd or (centre + other) % 2 == 0

    def judge(centre, others, distances):
        return ((i, d) for i, d in accept_all(centre, others, distances) if belongs(centre, i))

    expected = reference.clusters(ids.tolist(), X, radius, belongs, apart)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "CENTRE_BATCH", 7)
        near = partial(find_near, rows=lambda some: X[some], radius=radius, max_bytes=500)
        found = list(find_clusters(ids, near, judge, apart))
    assert [(cluster.centre, cluster.members) for cluster in found] == expected
    for cluster in found:
        assert cluster.distances == [float(((X[cluster.centre] - X[m]) ** 2).sum()) for m in cluster.members]


def test_a_chain_is_not_one_group():
    X = np.arange(50, dtype=np.float32)[:, None]  # each one step from the next
    found = list(find_clusters(np.arange(50), choose_search(np.arange(50), X.__getitem__, 1.0), accept_all, set()))
    assert max(len(cluster.members) for cluster in found) <= 2
    assert all(abs(cluster.centre - member) == 1 for cluster in found for member in cluster.members)


def test_a_large_group_is_one_cluster():
    X = np.zeros((3_000, 4), np.float32)
    near = choose_search(np.arange(3_000), X.__getitem__, 0.5)
    (cluster,) = find_clusters(np.arange(3_000), near, accept_all, set())
    assert len(cluster.members) == 2_999


def test_find_near_returns_the_nearest_first_without_the_item_itself():
    X = np.array([[0.0], [3.0], [1.0], [10.0]], np.float32)
    ((items, distances),) = find_near(np.array([0]), np.arange(4), lambda some: X[some], 9.0)
    assert items.tolist() == [2, 1]
    assert distances.tolist() == [1.0, 9.0]


def make_copies(groups, copies):
    """Return ids (n,) in random order and rows (n, 16): `copies` nearly equal rows per group, far from the others."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(groups, 16)), copies, axis=0) + 0.01 * rng.normal(size=(groups * copies, 16))
    return rng.permutation(len(X)), X.astype(np.float32)


@pytest.mark.parametrize("copies", [2, 30])
def test_a_large_collection_has_the_same_clusters(copies, monkeypatch):
    ids, X = make_copies(600 // copies, copies)
    expected = list(find_clusters(ids, choose_search(ids, X.__getitem__, 1.0), accept_all, set()))
    assert len(expected) == 600 // copies
    monkeypatch.setattr(duplicates, "EXACT_MAX", 100)
    near = choose_search(ids, X.__getitem__, 1.0)
    assert near.func is find_linked
    found = list(find_clusters(ids, near, accept_all, set()))
    assert [cluster.centre for cluster in found] == [cluster.centre for cluster in expected]
    assert [set(cluster.members) for cluster in found] == [set(cluster.members) for cluster in expected]


def test_the_graph_lists_the_nearest_first_within_the_radius(monkeypatch):
    monkeypatch.setattr(duplicates, "EXACT_MAX", 3)
    X = np.array([[0.0], [3.0], [1.0], [10.0]], np.float32)
    near = choose_search(np.array([2, 0, 3, 1]), X.__getitem__, 9.0)
    (items, distances), (others, _) = near(np.array([0, 3]), np.arange(4))
    assert items.tolist() == [2, 1]
    assert distances.tolist() == [1.0, 9.0]
    assert others.tolist() == []


def test_the_typical_distance_is_the_median():
    X = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    D = ((X[:, None] - X[None]) ** 2).sum(axis=2)[np.triu_indices(400, 1)]
    assert typical_distance(np.arange(400), lambda some: X[some]) == pytest.approx(np.median(D), rel=0.05)
    assert typical_distance(np.array([3]), lambda some: X[some]) == 0.0
