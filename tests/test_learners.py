"""Learners: the SVM is the optimum of its dual, held-out marks choose its blend, and invalid marks raise errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.errors import InputError, UnknownNameError
from lookalike.feedback import learners as module
from lookalike.feedback.learners import BLENDS, Svdd, Svm, balance, gamma_of, ordered_pairs, solve, split_folds
from lookalike.index.queries import HyperplaneQuery
from lookalike.kernels import KERNELS
from reference.feedback import clusters, dual_objective, hyperplane_between, pairs_in_order

X, labels = clusters(classes=2, per_class=25)
y = np.where(labels == 0, 1, -1).astype(np.int8)
SOLID = [name for name in KERNELS if name != "gaussian-l1"]


@pytest.mark.parametrize("kernel", SOLID)
def test_every_kernel_separates_two_clusters(kernel):
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
        over = other.sum()  # restore Σaᵢ = 0 by lowering the heavier side, which stays within bounds
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


def test_both_signs_have_the_same_weight():
    weights = balance(np.array([1, -1, -1, -1], np.int8), np.array([1.0, 1.0, 1.0, 0.5]))
    assert weights[0] == weights[1:].sum() == 2.5


def test_a_cost_means_the_same_at_every_scale_of_a_kernel():
    small, large = Svm("linear").fit(X, y), Svm("linear").fit(100 * X, y)
    np.testing.assert_allclose(large.costs_ * 1e4, small.costs_, rtol=1e-4)
    K = small.gram_
    apart = [K[i, i] + K[j, j] - 2 * K[i, j] for i in range(50) for j in range(50) if i != j]
    np.testing.assert_allclose(small.costs_, small.C / (np.mean(apart) / 2))  # as many positives as negatives


def test_a_mark_without_weight_does_not_count():
    weights = np.ones(50)
    weights[0] = 0.0
    wrong = y.copy()
    wrong[0] = -1
    np.testing.assert_allclose(
        Svm(gamma=0.1).fit(X, wrong, weights).best().score(X),
        Svm(gamma=0.1).fit(X[1:], y[1:]).best().score(X),
        atol=0.01,
    )


def test_a_ball_encloses_the_positive_marks():
    svdd = Svdd().fit(X, y)
    scores = svdd.best().score(X)[0]
    assert scores[y > 0].max() < scores[y < 0].min()
    assert np.median(svdd.unsure().score(X[y > 0])) < np.median(svdd.unsure().score(X[y < 0]))
    one = Svdd(gamma=0.1).fit(X[:1], y[:1])
    assert one.best().score(X[:1])[0, 0] == pytest.approx(0, abs=1e-6)


def test_invalid_marks_raise_an_error():
    with pytest.raises(InputError, match="both signs"):
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
    with pytest.raises(NotFittedError, match="not fitted yet"):
        Svm().best()
    with pytest.raises(InputError, match=r"one positive mark"):
        Svdd().fit(X[30:], y[30:])
    with pytest.raises(InputError, match="distance-based kernel"):
        Svdd("linear").fit(X, y)
    with pytest.raises(InputError, match="nu must be"):
        Svdd(nu=1.5).fit(X, y)


def test_equal_rows_with_both_signs_do_not_prevent_a_fit():
    with pytest.raises(InputError, match="no direction"):
        Svm().fit(np.ones((2, 3), np.float32), np.array([1, -1], np.int8))
    both, signs = np.concatenate([X, X[:1]]), np.append(y, -1).astype(np.int8)
    assert np.all(np.sign(Svm().fit(both, signs).best().distance(X[1:])) == y[1:])


def test_the_blend_is_chosen_by_held_out_marks():
    random = np.random.default_rng(0)
    rows = random.normal(size=(60, 5)).astype(np.float32)
    noise = np.where(random.random(60) < 0.5, 1, -1).astype(np.int8)
    svm = Svm().fit(rows, noise)
    ranking = svm.ranking()
    assert ranking.blend in BLENDS
    assert ordered_pairs(svm.best().distance(rows), noise) > 0.95  # it overfits
    assert ordered_pairs(ranking.held_out, noise) < 0.75  # the held-out marks show it


def test_each_mark_is_held_out_once_and_assumed_negatives_never():
    signs = np.array([1, 1, 1, -1, -1, -1, -1, -1], np.int8)
    real = np.array([True] * 7 + [False])
    assert sorted(np.concatenate(split_folds(signs, real)).tolist()) == list(range(7))
    rows = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)
    held_out = Svm(gamma=1.0).fit(rows, signs, np.where(real, 1.0, 0.5)).ranking().held_out
    assert np.isnan(held_out[7])
    assert np.isfinite(held_out[:7]).all()


@pytest.mark.parametrize("blend", BLENDS)
@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_held_out_marks_and_other_rows_are_scored_on_the_same_scale(kernel, blend, monkeypatch):
    """Held-out distances are to hyperplanes of length one, fitted without the marks that they score."""
    monkeypatch.setattr(module, "BLENDS", (blend,))
    monkeypatch.setattr(module, "DEFAULT_BLENDS", ((0, blend),))
    X, labels = clusters(classes=10, per_class=60, spread=1.6)
    rows, signs = X[::20], np.where(labels[::20] < 4, 1, -1).astype(np.int8)
    svm = Svm(kernel).fit(rows, signs)
    ranking = svm.ranking()
    assert ranking.blend == blend
    assert ranking.query.length == pytest.approx(1)
    for out in split_folds(signs, np.ones(len(signs), bool)):
        kept = np.setdiff1d(np.arange(len(signs)), out)
        a, b = hyperplane_between(svm.gram_[np.ix_(kept, kept)], signs[kept], svm.costs_[kept], blend)
        without = HyperplaneQuery(rows[kept][a != 0], a[a != 0], b, kernel=kernel, gamma=svm.gamma_)
        np.testing.assert_allclose(ranking.held_out[out], without.distance(rows[out]), atol=1e-4)


def test_held_out_marks_override_the_default_blend():
    """The positives form a tight group. Some negatives inside it are wrong marks, to which an SVM overfits."""
    random = np.random.default_rng(0)
    rows = np.concatenate([random.normal(size=(20, 6)), 4 * random.normal(size=(20, 6))]).astype(np.float32)
    signs = np.repeat([1, -1], 20).astype(np.int8)
    clean = Svm(C=1e4).fit(rows, signs).ranking()
    assert clean.blend == dict(module.DEFAULT_BLENDS)[5]
    signs[:20:3] = -1
    assert Svm(C=1e4).fit(rows, signs).ranking().blend < clean.blend


def test_ordered_pairs_match_a_count_by_hand():
    random = np.random.default_rng(0)
    scores, signs = random.integers(0, 5, 20).astype(float), np.where(random.random(20) < 0.5, 1, -1)
    assert ordered_pairs(scores, signs) == pytest.approx(pairs_in_order(scores, signs))


@parametrize_with_checks([Svm(), Svdd()])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


def test_an_svm_learns_any_two_classes():
    names = np.where(y > 0, "owl", "cat")
    svm = Svm().fit(X, names)
    assert svm.classes_.tolist() == ["cat", "owl"]
    assert svm.predict(X).tolist() == names.tolist()
    np.testing.assert_array_equal(svm.best().score(X), Svm().fit(X, y).best().score(X))


def test_a_ball_is_an_outlier_detector_whose_sign_is_the_side_of_its_surface():
    svdd = Svdd(nu=0.2).fit(X, y)
    inside = svdd.predict(X) > 0
    assert inside[y > 0].mean() > 0.6
    assert not inside[y < 0].any()
    np.testing.assert_array_equal(inside, svdd.score_samples(X) >= svdd.offset_)
