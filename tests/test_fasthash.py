import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike import registry
from lookalike.codes import fasthash as module
from lookalike.codes.bits import unpack
from lookalike.codes.fasthash import BINS, FastHash, bin_edges, bin_rows, divide_classes, fit_trees, score_trees
from lookalike.errors import InputError
from reference import boosting

X, Y = make_blobs(150, 5, centers=5, cluster_std=1.0, random_state=0)
SOME = np.where(np.arange(150) % 4 == 0, -1, Y)


def small(**changes):
    return FastHash(**{"bits": 16, "trees": 8, "depth": 3} | changes)


@parametrize_with_checks([FastHash(bits=8, trees=3, depth=2)])
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


@settings(max_examples=20, deadline=None)
@given(n=st.integers(2, 60), d=st.integers(1, 5), depth=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_trees_equal_the_reference(n, d, depth, seed):
    random = np.random.default_rng(seed)
    bins = random.integers(BINS, size=(d, n)).astype(np.uint8)
    signs = random.choice([-1.0, 1.0], n).astype(np.float32)
    candidates = random.integers(d, size=(3, depth, 2)).astype(np.int32)
    columns, cuts = np.empty((3, depth), np.int32), np.empty((3, depth), np.uint8)
    answers, scores = np.empty((3, 2**depth), np.float32), np.empty(n, np.float32)
    fit_trees(bins, signs, candidates, 0.5, columns, cuts, answers, scores)
    losses = boosting.losses(bins, signs, columns, cuts, answers)
    assert (np.diff(losses) <= 1e-4).all()
    for tree in range(3):
        before = boosting.scores(bins, columns[:tree], cuts[:tree], answers[:tree])
        comparisons = list(zip(columns[tree], cuts[tree], strict=True))
        for level in range(depth):  # no other comparison at this level would have lowered the loss more
            gains = [
                boosting.gain(bins, signs, before, [*comparisons[:level], (column, cut)])
                for column in candidates[tree, level]
                for cut in range(BINS - 1)
            ]
            assert boosting.gain(bins, signs, before, comparisons[: level + 1]) == pytest.approx(max(gains), rel=1e-3)
        expected = boosting.answers(bins, signs, before, comparisons, 0.5)
        np.testing.assert_allclose(answers[tree], expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(scores, boosting.scores(bins, columns, cuts, answers), rtol=1e-4, atol=1e-4)
    again = np.empty((1, n), np.float32)
    score_trees(bins, columns[None], cuts[None], answers[None], again)
    np.testing.assert_allclose(again[0], scores, rtol=1e-5, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 300), values=st.integers(1, 300), seed=st.integers(0, 2**32))
def test_bins_keep_the_order_of_values_and_have_similar_sizes(n, values, seed):
    random = np.random.default_rng(seed)
    X = random.choice(random.normal(size=values), (n, 2)).astype(np.float32)
    edges = bin_edges(X, random)
    bins = bin_rows(X, edges)
    for column, numbers in zip(X.T, bins, strict=True):
        order = np.argsort(column, kind="stable")
        assert (np.diff(numbers[order].astype(int)) >= 0).all()
        distinct = len(np.unique(column))
        if distinct <= BINS:
            assert len(np.unique(numbers)) == distinct
        else:
            assert len(np.unique(numbers)) > BINS / 3
    assert bins.max() < BINS


@settings(max_examples=30, deadline=None)
@given(C=st.integers(2, 12), bits=st.integers(1, 24), seed=st.integers(0, 2**32))
def test_divisions_are_nested_never_empty_and_separate_every_pair_of_classes(C, bits, seed):
    counts = np.random.default_rng(seed).integers(1, 20, size=C)
    seeds = np.random.SeedSequence(seed).spawn(bits)
    sides = divide_classes(counts, np.eye(C, dtype=bool), seeds)
    assert (np.abs(sides.sum(axis=1)) < C).all()
    np.testing.assert_array_equal(divide_classes(counts, np.eye(C, dtype=bool), seeds[: bits // 2]), sides[: bits // 2])
    if bits >= 2 * C:
        assert len(np.unique(sides, axis=1).T) == C


def test_classes_that_share_a_label_stay_together():
    shared = np.eye(6, dtype=bool)
    shared[0, 1] = shared[1, 0] = True
    sides = divide_classes(np.full(6, 10), shared, np.random.SeedSequence(0).spawn(16))
    agree = (sides[:, :, None] == sides[:, None]).mean(axis=0)
    assert agree[0, 1] > 0.9
    assert agree[2:, 2:][~np.eye(4, dtype=bool)].max() < 0.7


def test_it_separates_classes_that_no_hyperplane_separates():
    random = np.random.default_rng(0)
    X = random.random((900, 2))
    y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)
    coder = FastHash(bits=8, trees=20, depth=3).fit(X[:600], y[:600])
    bits = np.where(coder.project(X[600:]) > 0, 1, -1)
    assert (bits == coder.sides_[:, y[600:].astype(int)].T).mean() > 0.95


def test_a_short_code_is_a_prefix_of_a_long_one():
    np.testing.assert_array_equal(small(bits=8).fit(X, Y).encode(X), small(bits=24).fit(X, Y).encode(X)[:, :1])


def test_bits_are_the_signs_of_scores():
    coder = small().fit(X, SOME)
    scores, codes = coder.project(X), coder.encode(X)
    np.testing.assert_array_equal(unpack(codes), scores > 0)
    np.testing.assert_array_equal(codes, np.concatenate([coder.encode(row[None]) for row in X]))
    assert coder.encode(np.empty((0, 5))).shape == (0, 2)


def test_threads_give_the_same_codes_and_unlabelled_rows_are_ignored():
    expected = small().fit(X[SOME >= 0], SOME[SOME >= 0])
    for coder in (small(n_jobs=2).fit(X, SOME), small().fit(X, np.where(SOME < 0, np.nan, SOME))):
        assert coder.answers_.tobytes() == expected.answers_.tobytes()


def test_many_rows_are_sampled(monkeypatch):
    monkeypatch.setattr(module, "ROWS", 60)
    coder = small().fit(X, Y)
    bits = np.where(coder.project(X) > 0, 1, -1)
    assert (bits == coder.sides_[:, Y].T).mean() > 0.8


def test_it_can_be_saved_as_arrays_and_restored():
    coder = registry.create("coder", "fasthash(bits=8, trees=4, depth=2)").fit(X, Y)
    again = registry.restore("coder", registry.spec_of(coder), registry.state_of(coder))
    np.testing.assert_array_equal(again.encode(X), coder.encode(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 12}, "a multiple of 8, and at least 8. Got 12"),
        ({"trees": 0}, "trees must be a whole number of at least 1. Got 0"),
        ({"depth": 9}, "depth must be a whole number from 1 to 8. Got 9"),
        ({"rate": 0}, "rate must be a number above 0, at most 1. Got 0"),
        ({"random_state": None}, "random_state must be a whole number of at least 0. Got None"),
    ],
)
def test_invalid_parameters_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        small(**change).fit(X, Y)


@pytest.mark.parametrize("y", [None, np.full(150, -1), np.zeros(150)])
def test_invalid_labels_are_refused(y):
    with pytest.raises(InputError, match="y"):
        small().fit(X, y)


def test_an_unfitted_coder_raises():
    with pytest.raises(NotFittedError):
        FastHash().encode(X)
