import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.codes.class_tree import categories, class_tree, hull_distances, sharing, similarities
from lookalike.errors import InputError


def leaves(nodes):
    """Classes that end alone on a side, from all nodes."""
    return sorted(int(side[0]) for node in nodes for side in (node.left, node.right) if len(side) == 1)


@settings(max_examples=60, deadline=None)
@given(C=st.integers(2, 25), seed=st.integers(0, 2**32), kind=st.sampled_from(["any", "equal", "far", "blocks"]))
def test_every_class_is_one_leaf_and_every_node_divides_a_side_of_its_parent(C, seed, kind):
    random = np.random.default_rng(seed)
    distances = {
        "any": random.random((C, C)) * 10,
        "equal": np.ones((C, C)),
        "far": random.choice([0.0, 1e9], (C, C)),
        "blocks": 100.0 * (np.arange(C)[:, None] // 3 != np.arange(C) // 3),
    }[kind]
    distances = np.triu(distances, 1) + np.triu(distances, 1).T
    nodes = class_tree(similarities(distances))
    assert len(nodes) == C - 1
    assert leaves(nodes) == list(range(C))
    for place, node in enumerate(nodes):
        together = sorted([*node.left, *node.right])
        if node.parent < 0:
            assert place == 0
            assert together == list(range(C))
        else:
            assert node.parent < place
            assert together in [list(side) for side in nodes[node.parent][:2]]


def test_a_cut_is_the_best_of_all_normalised_cuts_where_groups_are_plain():
    random = np.random.default_rng(0)
    groups = np.array([0, 1, 0, 1, 1, 0, 0])
    W = np.where(groups[:, None] == groups, 0.9, 0.1) + 0.05 * random.random((7, 7))
    W = np.triu(W, 1) + np.triu(W, 1).T
    costs = {}
    for number in range(1, 2**6):
        side = (number >> np.arange(7)) & 1 == 1
        across = W[side][:, ~side].sum()
        costs[tuple(side)] = across / W[side].sum() + across / W[~side].sum()
    best = np.array(min(costs, key=costs.get))
    root = class_tree(W)[0]
    assert {tuple(root.left), tuple(root.right)} == {tuple(np.flatnonzero(best)), tuple(np.flatnonzero(~best))}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), scale=st.sampled_from([1e-3, 1.0, 1e4]))
def test_hull_distance_is_the_distance_of_the_nearest_points_of_two_hulls(seed, scale):
    from scipy.optimize import minimize

    random = np.random.default_rng(seed)
    A, B = random.normal(size=(6, 3)), random.normal((7, 0, 0), size=(6, 3))

    def gap(z):  # the squared distance of two mixtures
        away = z[:6] @ A - z[6:] @ B
        return away @ away

    sums = [{"type": "eq", "fun": lambda z, part=part: z[part].sum() - 1} for part in (slice(6), slice(6, 12))]
    found = minimize(gap, np.full(12, 1 / 6), method="SLSQP", bounds=[(0, 1)] * 12, constraints=sums, tol=1e-12)
    expected = scale * np.sqrt(found.fun)
    codes = np.repeat([0, 1], 6)
    got = hull_distances(np.concatenate([A, B]) * scale, codes, np.random.default_rng(0))
    np.testing.assert_allclose(got, [[0, expected], [expected, 0]], rtol=0.02, atol=1e-12)


def test_hulls_that_overlap_have_distance_zero():
    X = np.array([[0.0], [4.0], [1.0], [3.0], [2.0], [9.0]])
    assert hull_distances(X, np.array([0, 0, 1, 1, 0, 2]), np.random.default_rng(0))[0, 1] == 0
    assert (hull_distances(np.zeros((6, 2)), np.array([0, 0, 1, 1, 2, 2]), np.random.default_rng(0)) == 0).all()


def test_categories_that_share_a_label_are_as_alike_as_can_be():
    labels = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 1, 0]], bool)
    combinations, codes = categories(labels)
    assert (combinations[codes] == labels).all()
    assert len(combinations) == 4
    W = similarities(np.full((4, 4), 7.0), sharing(combinations))
    both = codes[3]
    for single in (0, 1):
        assert W[both, codes[single]] == 1
    assert W[both, codes[2]] < 1
    assert (np.diag(W) == 0).all()
    root = class_tree(W)[0]
    assert [codes[2]] in (root.left.tolist(), root.right.tolist())  # the one that shares no label goes first


def test_a_class_without_rows_is_refused():
    with pytest.raises(InputError, match=r"Every class must have a row. Got none of class 1"):
        hull_distances(np.eye(3), np.array([0, 2, 2]), np.random.default_rng(0))
