from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from lookalike.errors import InputError
from lookalike.index.flat import Flat
from lookalike.index.fsm_tree import FsmTree, bound_of, stop_radius
from lookalike.index.queries import CentreQuery, HyperplaneQuery, PointQuery
from lookalike.kernels import KERNELS
from reference import brute_force
from reference import fsm_tree as slow

KINDS = ("frontier", "maximum", "centre")


def asked(kind, X, a, b=0.1, kernel="laplace", gamma=0.2):
    """Return a query and its reference implementation."""
    rows = X.astype(np.float64)
    if kind == "centre":
        a = a - a.mean() + 1 / len(a)
        return CentreQuery(X, a, kernel=kernel, gamma=gamma), slow.centre(kernel, gamma, rows, a)
    a = a - a.mean()
    twin = slow.hyperplane(kernel, gamma, rows, a, b, kind)
    return HyperplaneQuery(X, a, b, kernel=kernel, gamma=gamma, kind=kind), twin


def mixture(n, d, seed=0, clusters=8):
    random = np.random.default_rng(seed)
    return (
        random.normal(size=(clusters, d))[random.integers(clusters, size=n)] * 3 + random.normal(size=(n, d))
    ).astype(np.float32)


def grown(X, seed=0, **options):
    """Return a tree and a flat index with the same rows, after some adds and removes."""
    tree, flat, n = FsmTree(**options), Flat(), len(X)
    ids = np.random.default_rng(seed).permutation(3 * n)[:n]
    for index in (tree, flat):
        for part in np.array_split(np.arange(n), 3):
            index.add(ids[part], X[part])
        assert index.remove(ids[::3]) == len(ids[::3])
        index.add(ids[:90:3], X[:90:3])
    return tree, flat


@st.composite
def histories(draw):
    """Adds and removes in any order, then a search with filters; few values, so that ties are frequent."""
    d = draw(st.integers(1, 3))
    known = st.integers(0, 40)
    rows = st.lists(st.integers(-4, 4), min_size=d, max_size=d)
    adds = st.dictionaries(known, rows, max_size=25).map(lambda part: ("add", part))
    removes = st.lists(known, max_size=25).map(lambda ids: ("remove", ids))
    some = st.none() | st.lists(known, max_size=30).map(lambda ids: np.array(ids, np.int64))
    steps = draw(st.lists(adds | removes, max_size=8))
    tree = FsmTree(draw(st.sampled_from([1, 2])), draw(st.integers(3, 6)), sampling=draw(st.sampled_from([0.1, 1.0])))
    return tree, d, steps, draw(st.integers(1, 12)), draw(some), draw(some), draw(st.sampled_from([np.inf, 0.5, -0.1]))


@given(histories(), st.sampled_from(sorted(KERNELS)), st.sampled_from(KINDS), st.integers(0, 9))
@settings(max_examples=120, deadline=None)
def test_equals_brute_force_after_any_changes_with_any_filter(history, kernel, kind, seed):
    tree, d, steps, k, among, exclude, within = history
    truth = {}
    for verb, what in steps:
        if verb == "add":
            new = {id_: row for id_, row in what.items() if id_ not in truth}
            tree.add(np.array(list(new), np.int64), np.array(list(new.values()), np.float32).reshape(-1, d))
            truth.update(new)
        else:
            assert tree.remove(np.array(what, np.int64)) == len(truth.keys() & set(what))
            truth = {id_: row for id_, row in truth.items() if id_ not in what}
        slow.check(tree)
    assert tree.ids.tolist() == sorted(truth)
    random = np.random.default_rng(seed)
    query, twin = asked(kind, random.normal(size=(4, d)).astype(np.float32), random.normal(size=4), kernel=kernel)
    hits = tree.search(query, k, among=among, exclude=exclude, within=within)
    expected = slow.search(truth, twin, k, among, exclude, within)
    found = hits.ids[0][hits.ids[0] >= 0].tolist()
    scores = [score for score, _ in expected]
    assert len(found) == len(set(found)) == len(expected)
    np.testing.assert_allclose(hits.scores[0, : len(found)], scores, rtol=1e-6, atol=1e-7)  # near ties in either order
    np.testing.assert_allclose([twin(np.array(truth[id_], float)) for id_ in found], scores, rtol=1e-6, atol=1e-7)
    assert np.isinf(hits.scores[0, len(found) :]).all()
    assert len(found) == k or (hits.ids[0, len(found) :] == -1).all()


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_ids_equal_those_of_a_flat_index(norm, kernel, kind):
    X = mixture(1_200, 5)
    tree, flat = grown(X, norm=norm, capacity=16)
    slow.check(tree)
    random = np.random.default_rng(1)
    for k, offset in ((1, 0), (20, 0), (300, 100), (2_000, 0)):
        rows = X[random.integers(len(X), size=7)] + np.float32(offset)
        query, _ = asked(kind, rows, random.normal(size=7), kernel=kernel, gamma=random.choice([0.01, 0.3]))
        exclude = random.choice(flat.ids, 50, replace=False)
        hits, expected = tree.search(query, k, exclude=exclude), flat.search(query, k, exclude=exclude)
        np.testing.assert_array_equal(hits.ids, expected.ids)
        np.testing.assert_allclose(hits.scores, expected.scores, rtol=3e-7)


@pytest.mark.parametrize("norm", [1, 2])
def test_point_queries_equal_brute_force(norm):
    X = mixture(600, 3)
    tree, flat = grown(X, norm=norm, capacity=8)
    truth = dict(zip(flat.ids.tolist(), flat.vectors(flat.ids), strict=True))
    points = X[:5] + np.float32(0.1)
    hits = tree.search(PointQuery(points), 7)
    expected = brute_force.search(truth, points, 7)
    np.testing.assert_array_equal(hits.ids, expected[0])
    np.testing.assert_allclose(hits.scores, expected[1], rtol=3e-7)
    assert hits.scored < 5 * len(tree) / 2  # in few dimensions, the tree prunes
    nearest = tree.search(PointQuery(points), 600, within=1.0)
    assert ((nearest.ids >= 0).sum(axis=1) == (flat.search(PointQuery(points), 600).scores <= 1).sum(axis=1)).all()
    assert tree.search(PointQuery(points[:0]), 7).ids.shape == (0, 7)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("kernel", sorted(set(KERNELS) - {"poly"}))
@pytest.mark.parametrize("kind", [*KINDS, "point"])
def test_bounds_hold_for_any_two_rows(norm, kernel, kind):
    random = np.random.default_rng(2)
    for scale in (0.01, 1.0, 30.0):
        X = (scale * random.normal(size=(80, 4))).astype(np.float32)
        query = PointQuery(X[:1]) if kind == "point" else asked(kind, X[:6], random.normal(size=6), kernel=kernel)[0]
        bound = bound_of(query, norm, float(np.abs(X).sum(axis=1).max()))
        u = bound.u(bound.score(X))
        np.testing.assert_array_equal(
            bound.score(X).astype(np.float32),
            query.score_pairs(X, np.zeros(80, int)) if kind == "point" else query.score(X)[0],
        )
        for row, own in zip(X, u, strict=True):
            gaps = np.linalg.norm((X - row).astype(np.float64), norm, axis=1)
            assert (bound.lower(np.full(80, own), gaps) <= u).all()
            assert (bound.lower_by_parent(own, gaps, np.zeros(80)) <= u).all()
            assert (bound.lower_by_parent(own, 1.5 * gaps, 0.5 * gaps) <= u).all()


def test_the_parent_bound_of_a_frontier_query_is_one_sided():
    X = np.array([[0, 100], [0, 0], [0, 1]], np.float32)  # all on the hyperplane, one far from the others
    query = HyperplaneQuery(np.array([[1, 0], [-1, 0]]), [0.5, -0.5], 0.0, kernel="linear")
    bound = bound_of(query, 2, 100.0)
    assert (bound.lower_by_parent(0.0, np.array([100.0, 0.0, 1.0]), np.zeros(3)) <= query.score(X)[0]).all()
    point = bound_of(CentreQuery(X[1:2], [1.0], kernel="linear"), 2, 100.0)
    assert point.lower_by_parent(0.0, np.array([100.0]), np.array([30.0])) == pytest.approx(70, rel=1e-5)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("utilisation", [0.1, 0.4, 0.5])
def test_every_node_except_the_root_has_the_minimum_utilisation(norm, utilisation):
    tree = FsmTree(norm, 10, utilisation)
    X = mixture(700, 4)
    X[100:200] = X[100]  # equal rows are split too
    tree.add(np.arange(700), X)
    slow.check(tree)
    counts = np.delete(tree._tree.counts, tree._tree.root)
    assert counts[counts > 0].min() >= int(utilisation * 11) >= 1


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_a_split_minimises_the_larger_radius(norm, seed):
    X = mixture(13, 2, seed)
    tree = FsmTree(norm, 12, 0.4, sampling=1.0)
    tree.add(np.arange(13), X)
    nodes = tree._tree
    children, _ = nodes.entries(nodes.root)
    assert nodes.radii[children].max() == pytest.approx(slow.smallest_radius(X, norm, 5), rel=1e-9)


def test_a_split_keeps_the_centre_of_the_node():
    tree = FsmTree(capacity=6)
    X = mixture(60, 2)
    tree.add(np.arange(7), X[:7])
    for i in range(7, 60):
        nodes = tree._tree
        before, root = {node: nodes.centres[node].copy() for node in np.flatnonzero(nodes.counts)}, nodes.root
        tree.add([i], X[i : i + 1])
        for node, centre in before.items():
            assert node == root or np.array_equal(tree._tree.centres[node], centre)
    assert np.count_nonzero(tree._tree.counts) > 10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_the_relative_error_is_at_most_epsilon(kind, epsilon):
    random, inexact, cost = np.random.default_rng(3), 0, []
    for seed in range(25):  # small trees in few dimensions, where bounds are tight enough for inexact results
        X = mixture(120, 1 + seed % 2, seed, clusters=30)
        tree, flat = FsmTree(norm=2, capacity=4, random_state=seed), Flat()
        tree.add(np.arange(120), X)
        flat.add(np.arange(120), X)
        for _ in range(8):
            rows = (4 * random.normal(size=(3, X.shape[1]))).astype(np.float32)
            query, _ = asked(kind, rows, random.normal(size=3), b=random.normal(), kernel="linear")
            hits, truth = tree.search(query, 3, epsilon=epsilon), flat.search(query, 3)
            got, best = hits.scores[0, -1], truth.scores[0, -1]
            assert got <= best * (1 + epsilon) + 1e-6 if best > 0 else got * (1 + epsilon) <= best + 1e-6
            inexact += got > best
            cost.append(hits.scored / tree.search(query, 3).scored)
    assert max(cost) <= 1
    assert np.mean(cost) < 1
    assert inexact > 0


@pytest.mark.parametrize(
    ("n", "k", "linear", "offset"),
    [(20_000, 10, True, 0), (20_000, 50, True, 0), (3_000, 60, False, 0), (400, 90, True, 0), (9_000, 90, True, 1)],
)
@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_the_stop_radius_contains_k_scores_with_at_most_the_given_probability(n, k, linear, offset, delta):
    random, missed, close = np.random.default_rng(4), 0, 0
    for _ in range(300):
        scores = random.random(n) + offset
        r, size = stop_radius(n, k, delta, linear, partial(random.choice, scores, replace=False))
        kth = np.partition(scores, k - 1)[k - 1]
        missed += kth <= r
        close += r > kth / 4
        assert 0 < size <= n
    assert missed <= binom.ppf(0.9999, 300, delta)
    assert close > 200  # the radius is large enough to be useful


def test_too_few_items_have_no_stop_radius():
    assert stop_radius(100_000, 5, 0.1, False, lambda m: np.zeros(m)) == (-np.inf, 0)
    assert stop_radius(1_000, 5, 0.0, True, lambda m: np.zeros(m)) == (-np.inf, 0)
    assert stop_radius(0, 1, 0.5, True, lambda m: np.zeros(m)) == (-np.inf, 0)


@pytest.mark.parametrize(("kind", "epsilon"), [("frontier", 1.0), ("maximum", 0.3), ("centre", 0.3)])
def test_pac_search_meets_its_guarantee_and_scores_fewer_rows(kind, epsilon):
    n, k, delta, queries = 6_000, 60, 0.2, 80
    random = np.random.default_rng(5)
    X = mixture(n, 4)
    tree, flat = FsmTree(norm=2), Flat()
    tree.add(np.arange(n), X)
    flat.add(np.arange(n), X)
    wrong, cost, full = 0, [], []
    for seed in range(queries):
        tree.random_state = seed  # a different sample each time
        query, _ = asked(kind, X[random.integers(n, size=6)], random.normal(size=6), kernel="angular-l2")
        hits, truth = tree.search(query, k, epsilon=epsilon, delta=delta), flat.search(query, k)
        got, best = hits.scores[0, -1], truth.scores[0, -1]
        wrong += got > best * (1 + epsilon) if best > 0 else got * (1 + epsilon) > best
        cost.append(hits.scored)
        full.append(tree.search(query, k, epsilon=epsilon).scored if seed < 20 else np.nan)
    assert wrong <= binom.ppf(0.999, queries, delta)
    assert np.mean(cost[:20]) < 0.85 * np.mean(full[:20])


class Counting(HyperplaneQuery):
    """A hyperplane query that counts the rows it scores."""

    counted = 0

    def distance(self, X):
        self.counted += len(X)
        return super().distance(X)


def test_every_computed_score_is_counted():
    X = mixture(1_000, 3)
    tree = FsmTree(capacity=8)
    tree.add(np.arange(1_000), X)
    for options in ({}, {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 0.3}, {"within": 0.1}, {"among": np.arange(9)}):
        query = Counting(X[:2], [1.0, -1.0], 0.0)
        assert tree.search(query, 5, **options).scored == query.counted > 0
    query = Counting(X[:2], [1.0, -1.0], 0.0)
    tree.search(query, 5, within=-1.0)
    assert query.counted <= 8  # no distance is below 0, so the root is pruned


def test_a_query_without_a_bound_is_answered_by_a_scan():
    X = mixture(200, 3)
    tree, flat = grown(X, capacity=8)
    hyperplane = HyperplaneQuery(X[:2], [1.0, -1.0], 0.0, kernel="poly")
    hits, expected = tree.search(hyperplane, 5), flat.search(hyperplane, 5)
    np.testing.assert_array_equal(hits.ids, expected.ids)
    assert hits.scored == len(tree)
    limit = expected.scores[0, 2]
    assert tree.search(hyperplane, 5, within=limit).ids[0].tolist() == [*expected.ids[0, :3], -1, -1]


def test_the_same_calls_give_the_same_results():
    X = mixture(800, 4)
    query, _ = asked("frontier", X[:5], np.arange(5.0))
    first, second = (grown(X, capacity=8)[0].search(query, 30, epsilon=1.0, delta=0.3) for _ in range(2))
    assert first.ids.tobytes() == second.ids.tobytes()
    assert first.scored == second.scored


def test_the_memory_of_removed_rows_is_reused():
    X = mixture(500, 3)
    tree = FsmTree(capacity=8)
    for _ in range(4):
        tree.add(np.arange(500), X)
        rooms = len(tree._tree.X), len(tree._tree.radii)
        assert tree.remove(np.arange(500)) == 500
    assert rooms == (500, len(tree._tree.radii))
    assert len(tree._tree.radii) <= 500
    assert tree.dim == 3
    assert tree.search(PointQuery(X[:1]), 2).ids.tolist() == [[-1, -1]]


def test_invalid_use_is_rejected():
    X = mixture(20, 3)
    tree = FsmTree()
    query = HyperplaneQuery(X[:2], [1.0, -1.0], 0.0)
    assert tree.search(query, 2).ids.tolist() == [[-1, -1]]
    assert tree.remove(np.array([5])) == 0
    tree.add(np.arange(20), X)
    assert tree.search(query, 25).ids[0, 20:].tolist() == [-1] * 5
    assert (tree.search(query, 3, among=np.array([77])).ids == -1).all()
    assert 3 in tree
    assert 77 not in tree
    np.testing.assert_array_equal(tree.vectors(np.array([4, 2])), X[[4, 2]])
    for options, words in (
        ({"epsilon": -1}, "epsilon must be at least 0"),
        ({"epsilon": np.nan}, "epsilon must be at least 0"),
        ({"delta": 1.0}, "below 1"),
        ({"within": np.nan}, "within not NaN"),
        ({"effort": "best"}, "effort"),
    ):
        with pytest.raises(InputError, match=words):
            tree.search(query, 2, **options)
    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        tree.search(query, 0)
    with pytest.raises(InputError, match="2 dimensions, the index 3"):
        tree.search(HyperplaneQuery(X[:2, :2], [1.0, -1.0], 0.0), 1)
    with pytest.raises(InputError, match="which is not"):
        tree.vectors(np.array([77]))
    for ids, rows, words in (
        ([30], X[:1] * np.nan, "must be finite"),
        ([30], X[:1, :2], "3 columns"),
        ([30, 30], X[:2], "unique"),
        ([30, 3], X[:2], "must be new"),
        ([30], X[:2], "same length"),
    ):
        with pytest.raises(InputError, match=words):
            tree.add(np.array(ids), rows)
        assert tree.ids.tolist() == list(range(20))
        slow.check(tree)
    for options in ({"norm": 3}, {"capacity": 2}, {"utilisation": 0.6}, {"sampling": 0.0}):
        with pytest.raises(InputError, match=f"{next(iter(options))} must be"):
            FsmTree(**options)
