import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from lookalike.errors import InputError
from lookalike.features.mixture import Mixture
from lookalike.learn.fisher_scores import FisherScores
from lookalike.learn.neighbours import objective, retrieval, shares
from lookalike.learn.sets import Sets, check_items, take
from reference import fisher_kernel as slow


def mixed(random, k, d):
    return Mixture(random.dirichlet(np.ones(k)), random.normal(size=(k, d)) * 2, random.gamma(2, size=(k, d)) + 0.1)


def items(random, n, d, most=4):
    starts = np.concatenate([[0], np.cumsum(random.integers(1, most + 1, n))])
    return random.normal(size=(starts[-1], d)) * 2, starts


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4))
def test_scores_are_gradients_of_the_likelihood(seed, k, d, most):
    random = np.random.default_rng(seed)
    mixture = mixed(random, k, d)
    rows, starts = items(random, 3, d, most)
    fisher = FisherScores(mixture, rows)
    found = fisher.scores(fisher.sums(rows, starts))
    assert found.shape == (3, fisher.dim)
    for i in range(3):
        expected = slow.scores(
            rows[starts[i] : starts[i + 1]], mixture.weights, mixture.means, np.sqrt(mixture.variances)
        )
        np.testing.assert_allclose((found * fisher.roots())[i], expected, rtol=1e-4, atol=1e-5)


def test_scores_of_what_the_mixture_makes_have_mean_zero_and_for_one_gaussian_variance_one():
    random = np.random.default_rng(0)
    mixture = Mixture(np.ones(1), np.array([[3.0, -1.0]]), np.array([[4.0, 0.25]]))
    rows = random.normal(size=(40_000, 2)) * [2, 0.5] + [3, -1]
    fisher = FisherScores(mixture, rows)
    found = fisher.scores(fisher.sums(rows, np.arange(40_001)))
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=0.03)
    np.testing.assert_allclose(found.var(axis=0), [1, 1, 1, 1, 0], atol=0.05)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3))
def test_gradients_by_the_mixture_are_limits_of_finite_differences_at_fixed_posteriors(seed, k, d):
    random = np.random.default_rng(seed)
    mixture = mixed(random, k, d)
    rows, starts = items(random, 4, d)
    fisher = FisherScores(mixture, rows)
    sums, by_scores = fisher.sums(rows, starts), random.normal(size=(4, fisher.dim))
    posteriors = np.stack([fisher.sums(row[None], np.arange(2))[0, :, -1] for row in rows])  # (M, k)

    def value(weights, means, deviations):
        out = []
        for begin, end in itertools.pairwise(starts):
            g = posteriors[begin:end, :, None]
            z = (rows[begin:end, None] - means) / deviations
            out.append(
                np.concatenate(
                    [
                        ((g * z).mean(axis=0) / np.sqrt(weights)[:, None]).ravel(),
                        ((g * (z * z - 1)).mean(axis=0) / np.sqrt(2 * weights)[:, None]).ravel(),
                        (g[:, :, 0].mean(axis=0) - weights) / np.sqrt(weights),
                    ]
                )
            )
        return np.sum(by_scores * np.stack(out))

    weights, means, deviations = mixture.weights, mixture.means, np.sqrt(mixture.variances)
    expected = [
        slow.differences(lambda a: value(a, means, deviations), weights, 1e-6 * weights.min()),
        slow.differences(lambda u: value(weights, u, deviations), means),
        slow.differences(lambda s: value(weights, means, s), deviations),
    ]
    for found, numeric in zip(fisher.gradient(sums, by_scores), expected, strict=True):
        np.testing.assert_allclose(found, numeric, rtol=1e-3, atol=1e-4 * (1 + np.abs(numeric).max()))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4))
def test_with_what_goes_through_posteriors_gradients_are_limits_of_finite_differences(seed, k, d, most):
    random = np.random.default_rng(seed)
    mixture = mixed(random, k, d)
    mixture = mixture._replace(weights=(mixture.weights + 0.1) / (1 + 0.1 * k))
    rows, starts = items(random, 4, d, most)
    by_scores = random.normal(size=(4, k * (2 * d + 1)))

    def value(weights, means, deviations):
        fisher = FisherScores(Mixture(weights, means, deviations**2), rows)
        return np.sum(by_scores * fisher.scores(fisher.sums(rows, starts)))

    weights, means, deviations = mixture.weights, mixture.means, np.sqrt(mixture.variances)
    expected = [
        slow.differences(lambda a: value(a, means, deviations), weights),
        slow.differences(lambda u: value(weights, u, deviations), means),
        slow.differences(lambda s: value(weights, means, s), deviations),
    ]
    fisher = FisherScores(mixture, rows)
    both = fisher.gradient(fisher.sums(rows, starts), by_scores), fisher.through(rows, starts, by_scores)
    for fixed, through, numeric in zip(*both, expected, strict=True):
        np.testing.assert_allclose(fixed + through, numeric, rtol=1e-4, atol=1e-5 * (1 + np.abs(numeric).max()))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 7), st.booleans())
def test_the_objective_and_its_gradients_are_those_of_plain_loops(seed, n, several):
    random = np.random.default_rng(seed)
    scores, w = random.normal(size=(n, 3)), random.gamma(1, size=3)
    y = random.integers(0, 2, (n, 4)) if several else random.integers(0, 3, n)
    labels = [set(np.flatnonzero(row)) for row in y] if several else [{one} for one in y]
    found, by_w, by_scores = objective(scores, w, y)
    assert found == pytest.approx(slow.objective(scores, w, labels))
    np.testing.assert_allclose(by_w, slow.differences(lambda v: slow.objective(scores, v, labels), w, 1e-7), atol=1e-6)
    numeric = slow.differences(lambda rows: slow.objective(rows, w, labels), scores)
    np.testing.assert_allclose(by_scores, numeric, atol=1e-6)


def test_with_one_label_an_item_it_is_the_objective_of_nca():
    random = np.random.default_rng(1)
    X, y, w = random.normal(size=(30, 4)), random.integers(0, 3, 30), random.gamma(1, size=4)
    nca = NeighborhoodComponentsAnalysis()
    nca.n_iter_ = 0
    loss, gradient = nca._loss_grad_lbfgs(np.diag(np.sqrt(w)), X, y[:, None] == y[None, :], -1.0)
    found, by_w, _ = objective(X, w, y)
    s = np.tanh(0.5)  # of one label in common; -s of none
    assert found == pytest.approx(s * (2 * -loss / 30 - 1))
    by_root = -np.diag(gradient.reshape(4, 4)) * 2 * s / 30
    np.testing.assert_allclose(by_w * 2 * np.sqrt(w), by_root, atol=1e-10)


def test_torch_gives_the_same_numbers():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(2)
    mixture, (rows, starts) = mixed(random, 3, 2), items(random, 6, 2)
    y = random.integers(0, 2, (6, 3))
    results = []
    for cast in (np.asarray, torch.from_numpy):
        X = cast(rows)
        fisher = FisherScores(mixture, X)
        sums = fisher.sums(X, starts)
        value, by_w, by_scores = objective(fisher.scores(sums), fisher.roots(), cast(y))
        results.append([value, by_w, by_scores, shares(fisher.scores(sums)), *fisher.gradient(sums, by_scores)])
        results[-1] += fisher.through(X, starts, by_scores)
        retrieval(fisher.scores(sums), y)
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(np.asarray(theirs), ours, atol=1e-10)


def test_retrieval_is_average_precision_by_distance():
    Z = np.array([[0.0], [1.0], [3.0], [3.5]])
    assert retrieval(Z, np.array([0, 1, 0, 2])) == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert retrieval(Z, np.array([[1, 0], [0, 1], [1, 1], [0, 0]])) == pytest.approx(
        (1 / 2 + 1 / 2 + (1 / 2 + 2 / 3) / 2) / 3
    )
    assert retrieval(Z, np.arange(4)) == 0


def test_items_are_read_by_number():
    lists = [np.full((m, 2), float(m)) for m in (3, 1, 2)]
    sets = check_items(BaseEstimator(), lists, reset=True, min_items=1)
    rows, starts = take(sets, np.array([2, 0]))
    assert (rows[:, 0].tolist(), starts.tolist()) == ([2, 2, 3, 3, 3], [0, 2, 5])
    rows, starts = take(np.arange(6.0).reshape(3, 2), np.array([1]))
    assert (rows.tolist(), starts.tolist()) == ([[2, 3]], [0, 1])


def test_items_that_cannot_be_used_are_refused():
    part, one = BaseEstimator(), np.ones((1, 2))
    with pytest.raises(InputError, match=r"Got none for 1 of 3 items, the first of them number 1"):
        check_items(part, [one, one[:0], one], reset=True, min_items=1)
    with pytest.raises(InputError, match=r"same number of columns. Got \[2, 3\]"):
        check_items(part, [one, np.ones((1, 3))], reset=True, min_items=1)
    with pytest.raises(InputError, match=r"at least 2 items. Got 1"):
        check_items(part, [one], reset=True, min_items=2)
    check_items(part, [one], reset=True, min_items=1)
    with pytest.raises(InputError, match=r"X must have 2 columns. Got 3"):
        check_items(part, [np.ones((1, 3))], reset=False, min_items=1)
    with pytest.raises(InputError, match="must be finite"):
        take(Sets(one * np.nan, np.array([0, 1])), [0])
