import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.codes import robust_tsvm as module
from lookalike.codes.robust_tsvm import BALANCES, LOSSES, RobustTsvm, gradient_steps
from lookalike.errors import InputError
from reference import tsvm


def two_clouds(n, d, gap, seed, unlabelled=0.5):
    """Rows and labels of two clouds at a distance of `gap`. Some rows are unlabelled."""
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < 0.5, -1, 1)
    y[:2] = -1, 1
    X = random.normal(size=(n, d))
    X[:, 0] += y * gap / 2
    hidden = random.random(n) < unlabelled
    hidden[:2] = False
    return X, np.where(hidden, 0, y), y


@parametrize_with_checks([RobustTsvm()])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    bound=st.booleans(),
    single=st.booleans(),
    count=st.integers(1, 40),
)
def test_steps_equal_the_plain_algorithm_and_each_ends_on_the_constraint(seed, bound, single, count):
    random = np.random.default_rng(seed)
    n, d = 12, 5
    X = random.normal(size=(n, d)).astype(np.float32 if single else np.float64)
    rows, signs = random.integers(n, size=20), random.choice([-1.0, 1.0], 20)
    weights = random.choice([0.3, 2.0], 20)
    terms = rows, signs, weights, weights * (random.random(20) < 0.3)
    order = random.integers(20, size=count)
    a, level = random.normal(size=d) + 0.1, 0.4 if bound else np.nan
    w, b, t = random.normal(size=d), 0.3, 50.0
    planes = tsvm.steps(X.astype(np.float64), terms, order, w, b, (a, level), t)
    last, mean = w.copy(), np.empty(d)
    last_b, mean_b = gradient_steps(X, terms, order, last, b, (a, X @ a, level), t, mean)
    if bound:
        for plane in planes:
            assert a @ plane[0] + plane[1] == pytest.approx(level, abs=1e-9)
        assert a @ last + last_b == pytest.approx(level, abs=1e-5)
        assert a @ mean + mean_b == pytest.approx(level, abs=1e-5)
    np.testing.assert_allclose(last, planes[-1][0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(mean, np.mean([plane[0] for plane in planes], axis=0), rtol=1e-5, atol=1e-5)
    assert last_b == pytest.approx(planes[-1][1], abs=1e-5)
    assert mean_b == pytest.approx(np.mean([plane[1] for plane in planes]), abs=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(4, 80),
    gap=st.floats(0, 6),
    seed=st.integers(0, 2**32),
    loss=st.sampled_from(LOSSES),
    balance=st.sampled_from(BALANCES),
    C=st.sampled_from([0.01, 1.0, 100.0]),
)
def test_the_objective_is_that_of_the_paper_and_never_rises(n, gap, seed, loss, balance, C):
    X, y, _ = two_clouds(n, 4, gap, seed)
    machine = RobustTsvm(C=C, C_unlabelled=C / 5, loss=loss, balance=balance).fit(X, y)
    assert (np.diff(machine.objectives_) <= 0).all()
    expected = tsvm.objective(X, y, machine.coef_, machine.intercept_, C, C / 5, loss)
    assert machine.objectives_[-1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("balance", BALANCES)
@settings(max_examples=20, deadline=None)
@given(n=st.integers(10, 80), gap=st.floats(0, 6), seed=st.integers(0, 2**32))
def test_the_fitted_plane_satisfies_the_balance_constraint(balance, n, gap, seed):
    X, y, _ = two_clouds(n, 3, gap, seed)
    y[2] = 0
    machine = RobustTsvm(balance=balance).fit(X, y)
    assert machine.decision_function(X[y == 0]).mean() == pytest.approx(machine.level_, abs=1e-6)


def test_the_level_is_the_mean_label_or_the_mean_score_of_the_start(monkeypatch):
    X, y, _ = two_clouds(50, 3, 1.0, 0)
    monkeypatch.setattr(module, "_start", lambda *_: (np.array([1.0, 2.0, 3.0]), 0.5))
    assert RobustTsvm().fit(X, y).level_ == y[y != 0].mean()
    expected = (X[y != 0] @ [1.0, 2.0, 3.0] + 0.5).mean()
    assert RobustTsvm(balance="scores").fit(X, y).level_ == pytest.approx(expected)
    assert np.isnan(RobustTsvm().fit(X[y != 0], y[y != 0]).level_)


def test_the_minimum_equals_that_of_scikit_learn_if_all_rows_have_labels():
    X, _, y = two_clouds(300, 4, 2.0, 3)
    ours = RobustTsvm(C=0.5, loss="hinge", passes=200).fit(X, y)
    theirs = SVC(C=0.5, kernel="linear").fit(X, y)
    best = tsvm.objective(X, y, theirs.coef_[0], theirs.intercept_[0], 0.5, 0.0, "hinge")
    assert best <= ours.objectives_[-1] + 1e-6
    assert ours.objectives_[-1] <= 1.02 * best


def test_unlabelled_rows_move_the_plane_away_from_them():
    random = np.random.default_rng(0)
    y = np.repeat([-1, 1], 200)
    X = np.stack([1.5 * y + 0.3 * random.normal(size=400), 1.5 * random.normal(size=400)], axis=1)
    few = np.zeros(400, int)
    few[[0, 1, 200, 201]] = -1, -1, 1, 1
    X[[0, 1, 200, 201], 1] = -1.5, -1, 1, 1.5  # these four suggest a tilted plane
    alone = RobustTsvm().fit(X[few != 0], few[few != 0]).score(X, y)
    assert alone < 0.95
    assert RobustTsvm(C=10, C_unlabelled=0.1).fit(X, few).score(X, y) > 0.99


def test_label_noise_hurts_the_ramp_less_than_the_hinge():
    cost = {loss: [] for loss in LOSSES}
    for seed in range(5):
        random = np.random.default_rng(seed)
        X, _, y = two_clouds(600, 20, 4.0, seed)
        X[random.random(600) < 0.3] *= 4  # a wrong label on a distant row has a large effect
        noisy = np.where(random.random(600) < 0.2, -y, y)
        fresh, _, truth = two_clouds(4000, 20, 4.0, 100 + seed)
        for loss in LOSSES:
            clean, dirty = (RobustTsvm(loss=loss).fit(X, labels).score(fresh, truth) for labels in (y, noisy))
            cost[loss].append(clean - dirty)
    assert np.mean(cost["ramp"]) < 0.7 * np.mean(cost["hinge"])


def test_any_two_labels_are_accepted_and_zero_means_unlabelled_only_with_minus_one():
    X, _, y = two_clouds(100, 3, 5.0, 0)
    named = RobustTsvm().fit(X, np.where(y > 0, "owl", "cat"))
    assert named.classes_.tolist() == ["cat", "owl"]
    plain = RobustTsvm().fit(X, y)
    np.testing.assert_array_equal(named.coef_, plain.coef_)
    np.testing.assert_array_equal(RobustTsvm().fit(X, (y + 1) // 2).coef_, plain.coef_)
    some = np.where(np.arange(100) < 50, y, 0)
    assert RobustTsvm().fit(X, some).classes_.tolist() == [-1, 1]


def test_the_same_seed_gives_the_same_plane():
    X, y, _ = two_clouds(200, 4, 1.0, 0)
    one, same, other = (RobustTsvm(random_state=seed).fit(X, y) for seed in (1, 1, 2))
    assert one.coef_.tobytes() == same.coef_.tobytes() != other.coef_.tobytes()


def test_zero_rows_are_accepted():
    X, y, _ = two_clouds(60, 3, 5.0, 0)
    X[5:15] = 0
    machine = RobustTsvm().fit(X, y)
    np.testing.assert_allclose(machine.decision_function(np.zeros((1, 3))), machine.intercept_)
    assert np.isfinite(RobustTsvm().fit(np.zeros((60, 3)), y).intercept_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0}, "C must be a number from 1e-30 to 1e30. Got 0"),
        ({"C_unlabelled": -1}, "C_unlabelled must be a number from 0 to 1e30. Got -1"),
        ({"loss": "square"}, "loss must be one of ramp, hinge. Got 'square'"),
        ({"balance": None}, "balance must be one of labels, scores. Got None"),
        ({"passes": 0}, "passes must be a whole number of at least 1. Got 0"),
    ],
)
def test_invalid_parameters_are_rejected(change, message):
    with pytest.raises(InputError, match=message):
        RobustTsvm(**change).fit([[0.0], [1.0]], [-1, 1])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-1, 0, 0], "both classes, -1 and \\+1; 0 is for unlabelled rows. Got -1 and 0"),
        ([0, 0, 0], "must contain 2 classes .* Got 1 class\\."),
        ([1, 2, 3], "must contain 2 classes .* Got 3 classes"),
    ],
)
def test_labels_must_be_of_two_classes(y, message):
    with pytest.raises(InputError, match=message):
        RobustTsvm().fit([[0.0], [1.0], [2.0]], y)


def test_an_unfitted_svm_raises():
    with pytest.raises(NotFittedError):
        RobustTsvm().predict([[0.0]])
