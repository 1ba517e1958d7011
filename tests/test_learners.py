"""Learners: the SVM is the dual's optimum for every kernel, its γ comes from the data, and bad marks are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from lookalike.errors import InputError, UnknownNameError
from lookalike.feedback.learners import Svdd, Svm, balance, gamma_of, solve
from lookalike.kernels import KERNELS
from reference.feedback import clusters, dual_objective

X, labels = clusters(classes=2, per_class=25)
y = np.where(labels == 0, 1, -1).astype(np.int8)
SOLID = [name for name in KERNELS if name != "gaussian-l1"]


@pytest.mark.parametrize("kernel", SOLID)
def test_every_kernel_parts_two_clusters(kernel):
    svm = Svm(kernel).fit(X, y)
    assert np.all(np.sign(svm.unsure().distance(X)) == y)
    assert svm.best().score(X)[0][y > 0].max() < svm.best().score(X)[0][y < 0].min()
    assert abs(svm.a_.sum()) < 1e-9


@given(st.integers(0, 50))
def test_no_feasible_step_beats_the_solution(seed):
    random = np.random.default_rng(seed)
    rows, signs = random.normal(size=(14, 3)), np.where(random.random(14) < 0.4, 1, -1)
    signs[:2] = 1, -1
    K, costs = np.exp(-((rows[:, None] - rows) ** 2).sum(axis=2)), random.uniform(0.2, 3, 14)
    a, _ = solve(K, signs.astype(np.int8), costs)
    best = dual_objective(K, signs, a)
    for _ in range(20):
        step = random.normal(size=14)
        alpha = np.clip(a * signs + 0.1 * step, 0, costs)
        other = alpha * signs
        over = other.sum()  # back to Σaᵢ = 0 by lowering the heavier side, which stays within bounds
        side = signs == np.sign(over)
        if over and alpha[side].sum() > 0:
            other[side] *= 1 - abs(over) / alpha[side].sum()
        assert dual_objective(K, signs, other) <= best + 1e-2


def test_gamma_follows_the_scale_of_the_data():
    assert gamma_of("laplace", 10.0 * X) == pytest.approx(gamma_of("laplace", X.astype(np.float64)) / 10, rel=1e-4)
    assert gamma_of("gaussian", 10.0 * X) == pytest.approx(gamma_of("gaussian", X.astype(np.float64)) / 100, rel=1e-4)
    assert gamma_of("laplace", np.ones((5, 3))) == 1.0
    order = np.argsort(Svm("laplace").fit(X, y).best().score(X)[0])
    np.testing.assert_array_equal(np.argsort(Svm("laplace").fit(1000 * X, y).best().score(1000 * X)[0]), order)


def test_both_kinds_weigh_the_same():
    weights = balance(np.array([1, -1, -1, -1], np.int8), np.array([1.0, 1.0, 1.0, 0.5]))
    assert weights[0] == weights[1:].sum() == 2.5


def test_a_cost_means_the_same_at_every_scale_of_a_kernel():
    small, large = Svm("linear").fit(X, y), Svm("linear").fit(100 * X, y)
    np.testing.assert_allclose(large.costs_ * 1e4, small.costs_, rtol=1e-4)
    K = small.gram_
    apart = [K[i, i] + K[j, j] - 2 * K[i, j] for i in range(50) for j in range(50) if i != j]
    np.testing.assert_allclose(small.costs_, small.C / (np.mean(apart) / 2))  # as many of each kind: no balance


def test_a_mark_without_weight_teaches_nothing():
    weights = np.ones(50)
    weights[0] = 0.0
    wrong = y.copy()
    wrong[0] = -1
    np.testing.assert_allclose(
        Svm(gamma=0.1).fit(X, wrong, weights).best().score(X),
        Svm(gamma=0.1).fit(X[1:], y[1:]).best().score(X),
        atol=0.01,
    )


def test_a_ball_is_drawn_around_what_is_wanted():
    svdd = Svdd().fit(X, y)
    scores = svdd.best().score(X)[0]
    assert scores[y > 0].max() < scores[y < 0].min()
    assert np.median(svdd.unsure().score(X[y > 0])) < np.median(svdd.unsure().score(X[y < 0]))
    one = Svdd(gamma=0.1).fit(X[:1], y[:1])
    assert one.best().score(X[:1])[0, 0] == pytest.approx(0, abs=1e-6)


def test_bad_marks_are_refused_in_words():
    with pytest.raises(InputError, match="both kinds"):
        Svm().fit(X[:5], y[:5])
    with pytest.raises(InputError, match=r"\+1 or -1 for each of the 50"):
        Svm().fit(X, 0 * y)
    with pytest.raises(InputError, match="finite"):
        Svm().fit(np.full((2, 3), np.nan), np.array([1, -1], np.int8))
    with pytest.raises(InputError, match=r"gamma must be a number above 0\. Got 0"):
        Svm(gamma=0).fit(X, y)
    with pytest.raises(InputError, match="C must be"):
        Svm(C=0).fit(X, y)
    with pytest.raises(InputError, match="weights"):
        Svm().fit(X, y, -np.ones(50))
    with pytest.raises(UnknownNameError, match="gaussian"):
        Svm("gauss").fit(X, y)
    with pytest.raises(NotFittedError, match="no marks yet"):
        Svm().best()
    with pytest.raises(InputError, match=r"mark \+1"):
        Svdd().fit(X[30:], y[30:])
    with pytest.raises(InputError, match="kernel of a distance"):
        Svdd("linear").fit(X, y)
    with pytest.raises(InputError, match="nu must be"):
        Svdd(nu=1.5).fit(X, y)


def test_equal_rows_marked_both_ways_do_not_stop_it():
    with pytest.raises(InputError, match="no direction"):
        Svm().fit(np.ones((2, 3), np.float32), np.array([1, -1], np.int8))
    both, signs = np.concatenate([X, X[:1]]), np.append(y, -1).astype(np.int8)
    assert np.all(np.sign(Svm().fit(both, signs).best().distance(X[1:])) == y[1:])
