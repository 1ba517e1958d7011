import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from lookalike.errors import InputError
from lookalike.features.clustering import Mixture
from lookalike.learn import fisher_scores
from lookalike.learn.fisher_scores import FisherScores
from lookalike.learn.sets import Sets, check_items, take
from reference import fisher_kernel as slow


def mixed(random, k, d):
    return Mixture(random.dirichlet(np.ones(k)), random.normal(size=(k, d)) * 2, random.gamma(2, size=(k, d)) + 0.1)


def gradients(fisher, rows, starts, M, learned="all"):
    scored = fisher.score(rows, starts)
    return fisher.backward(scored, fisher.rooted(scored), M, learned)


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
    found = fisher.scores(rows, starts)
    assert found.shape == (3, fisher.dim)
    for i in range(3):
        expected = slow.scores(
            rows[starts[i] : starts[i + 1]], mixture.weights, mixture.means, np.sqrt(mixture.variances)
        )
        np.testing.assert_allclose((found * fisher.information())[i], expected, rtol=1e-4, atol=1e-5)


def test_scores_of_samples_from_a_gaussian_have_mean_zero_and_variance_one():
    random = np.random.default_rng(0)
    mixture = Mixture(np.ones(1), np.array([[3.0, -1.0]]), np.array([[4.0, 0.25]]))
    rows = random.normal(size=(40_000, 2)) * [2, 0.5] + [3, -1]
    fisher = FisherScores(mixture, rows)
    found = fisher.scores(rows, np.arange(40_001))
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=0.03)
    np.testing.assert_allclose(found.var(axis=0), [1, 1, 1, 1, 0], atol=0.05)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_gradients_equal_finite_differences_with_and_without_fixed_posteriors(seed, k, d, most, fixed):
    random = np.random.default_rng(seed)
    mixture = mixed(random, k, d)
    mixture = mixture._replace(weights=(mixture.weights + 0.1) / (1 + 0.1 * k))
    rows, starts = items(random, 4, d, most)
    M = random.normal(size=(4, 4))
    M, logs = M + M.T, random.normal(size=k * (2 * d + 1)) * 0.3
    now = FisherScores(mixture, rows).score(rows, np.arange(len(rows) + 1)).counts.T  # (rows, k)

    def value(logs, weights, means, deviations):  # half the trace of RMRᵀ; its gradient by R is RM
        other = FisherScores(Mixture(weights, means, deviations**2), rows)
        g = now if fixed else other.score(rows, np.arange(len(rows) + 1)).counts.T
        z, roots = (rows[:, None] - means) / deviations, np.sqrt(weights)[:, None]
        parts = (g[:, :, None] * z / roots, g[:, :, None] * (z * z - 1) / roots / 2**0.5, (g - weights) / roots[:, 0])
        each = np.concatenate([part.reshape(len(rows), -1) for part in parts], axis=1)
        U = np.exp(logs) * [each[begin:end].mean(axis=0) for begin, end in itertools.pairwise(starts)]
        R = U / np.sqrt(np.abs(U) + fisher_scores.SMALL)
        return np.sum(M * (R @ R.T)) / 2

    at = logs, mixture.weights, mixture.means, np.sqrt(mixture.variances)
    fisher = FisherScores(mixture, rows, np.exp(logs))
    found = gradients(fisher, rows, starts, M, "fixed" if fixed else "all")
    for i, gradient in enumerate(found):
        numeric = slow.differences(lambda x, i=i: value(*at[:i], x, *at[i + 1 :]), at[i], 1e-6 * min(1, at[1].min()))
        np.testing.assert_allclose(gradient, numeric, rtol=1e-3, atol=1e-4 * (1 + np.abs(numeric).max()))
    alone = gradients(fisher, rows, starts, M, "weights")
    np.testing.assert_allclose(alone.logs, found.logs)
    assert not any(part.any() for part in alone[1:])


def test_items_have_the_same_scores_in_groups_of_any_size(monkeypatch):
    random = np.random.default_rng(4)
    mixture, (rows, starts) = mixed(random, 3, 2), items(random, 30, 2, most=9)
    fisher, M = FisherScores(mixture, rows), random.normal(size=(30, 30))
    together = fisher.scores(rows, starts)
    for i in range(30):
        own = rows[starts[i] : starts[i + 1]]
        np.testing.assert_allclose(fisher.scores(own, np.array([0, len(own)]))[0], together[i], atol=1e-12)
    at_once = gradients(fisher, rows, starts, M)
    monkeypatch.setattr(fisher_scores, "held_bytes", lambda *_: 900)  # a few rows, one Gaussian at a time
    assert len(fisher.score(rows, starts).groups) > 9
    assert len(list(fisher.blocks(30))) == 3
    for ours, theirs in zip(gradients(fisher, rows, starts, M), at_once, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_a_weight_that_underflows_to_zero_has_gradient_zero():
    random = np.random.default_rng(5)
    mixture, rows = mixed(random, 2, 2), random.normal(size=(6, 2)).astype(np.float32)
    roots = np.ones(10, np.float32)
    roots[:2] = 0
    fisher = FisherScores(mixture, rows, roots)
    found = gradients(fisher, rows, np.arange(7), np.eye(6, dtype=np.float32))
    assert all(np.isfinite(part).all() for part in found)
    assert not found.logs[:2].any()


def test_gaussians_without_rows_or_with_tiny_variance_give_finite_scores_and_gradients():
    random = np.random.default_rng(6)
    rows = random.normal(size=(8, 2)).astype(np.float32)
    mixture = Mixture(
        np.array([1 - 2e-6, 1e-6, 1e-6]),
        np.array([[0.0, 0], [500, 500], rows[3]]),
        np.array([[1.0, 1], [1, 1], [1e-6, 1e-6]]),
    )
    fisher = FisherScores(mixture, rows)
    for starts in (np.arange(9), np.array([0, 3, 4, 8])):
        M = np.eye(len(starts) - 1, dtype=np.float32)
        scores = fisher.scores(rows, starts)
        assert np.isfinite(scores).all()
        np.testing.assert_allclose(scores[:, 2:4], 0, atol=1e-5)  # no row belongs to the second Gaussian
        assert all(np.isfinite(part).all() for part in gradients(fisher, rows, starts, M))
    far = fisher.scores(rows * np.float32(1e30), np.arange(9))
    assert np.isfinite(far).all()


def test_torch_gives_the_same_results():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(2)
    mixture, (rows, starts) = mixed(random, 3, 2), items(random, 6, 2)
    M = random.normal(size=(6, 6))
    results = []
    for cast in (np.asarray, torch.from_numpy):
        X = cast(rows)
        fisher = FisherScores(mixture, X)
        results.append([fisher.scores(X, starts), fisher.information(), *gradients(fisher, X, starts, cast(M))])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(np.asarray(theirs), ours, atol=1e-10)


def test_items_are_selected_by_number():
    lists = [np.full((m, 2), float(m)) for m in (3, 1, 2)]
    sets = check_items(BaseEstimator(), lists, reset=True, min_items=1)
    rows, starts = take(sets, np.array([2, 0]))
    assert (rows[:, 0].tolist(), starts.tolist()) == ([2, 2, 3, 3, 3], [0, 2, 5])
    rows, starts = take(np.arange(6.0).reshape(3, 2), np.array([1]))
    assert (rows.tolist(), starts.tolist()) == ([[2, 3]], [0, 1])


def test_invalid_items_are_refused():
    part, one = BaseEstimator(), np.ones((1, 2))
    with pytest.raises(InputError, match=r"Got none for 1 of 3 items, the first at index 1"):
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
