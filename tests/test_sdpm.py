import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.errors import InputError
from lookalike.learn.neighbours import retrieval
from lookalike.learn.sdpm import Sdpm, margin, nearest_triplets
from reference.fisher_kernel import differences

random = np.random.default_rng(8)
Y = random.integers(0, 4, 150)
X = random.normal(size=(150, 4)) * [1, 1, 4, 4] + (3 * random.normal(size=(4, 4)) * [1, 1, 0, 0])[Y]


@parametrize_with_checks([Sdpm(triplets=300)])
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    check(estimator)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 30.0]))
def test_the_margin_is_the_best_and_its_gradient_the_limit_of_finite_differences(seed, cost):
    random = np.random.default_rng(seed)
    near, far, half = random.normal(size=(7, 3)), 1.5 * random.normal(size=(7, 3)), random.normal(size=(3, 3))
    B = half @ half.T / np.trace(half @ half.T)
    margins = np.array([f @ B @ f - n @ B @ n for n, f in zip(near, far, strict=True)])
    value, gradient = margin(B, near, far, cost)
    search = minimize_scalar(
        lambda rho: cost * np.mean(np.maximum(rho - margins, 0) ** 2) - rho,
        bounds=(0, 30 + 10 / cost),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert value == pytest.approx(-search.fun, abs=1e-6)
    numeric = differences(lambda B: margin(B, near, far, cost)[0], B)
    np.testing.assert_allclose(gradient, (numeric + numeric.T) / 2, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_no_other_metric_does_better(seed):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(40, 2)) @ random.normal(size=(2, 2))
    triplets = nearest_triplets(rows, random.integers(0, 3, 40), np.arange(20))
    part = Sdpm(max_iterations=2_000, tolerance=1e-6).fit(rows, triplets=triplets)
    near, far = (rows[triplets[:, 0]] - rows[triplets[:, i]] for i in (1, 2))
    unit = np.sqrt((np.mean(near**2) + np.mean(far**2)) / 2)

    def objective(L):
        B = np.reshape(L, (-1, 2)).T @ np.reshape(L, (-1, 2))
        return margin(B / np.trace(B), near / unit, far / unit, 1.0)[0]

    starts = [np.eye(2).ravel(), *random.normal(size=(3, 4))]
    best = max(-minimize(lambda L: -objective(L), start, method="Nelder-Mead", tol=1e-10).fun for start in starts)
    assert objective(part.W_) == pytest.approx(best, rel=1e-3)
    assert np.sum(part.W_**2) == pytest.approx(2, rel=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_triplets_are_those_of_a_plain_search(seed):
    random = np.random.default_rng(seed)
    rows, codes = random.normal(size=(15, 2)), np.r_[0, 1, random.integers(0, 3, 13)]
    expected = []
    for i in range(10):
        order = np.argsort(np.sum((rows - rows[i]) ** 2, axis=1))
        like = [j for j in order if codes[j] == codes[i] and j != i][:3]
        expected += [[i, j, k] for j in like for k in [k for k in order if codes[k] != codes[i]][:3]]
    assert nearest_triplets(rows, codes, np.arange(10)).tolist() == expected


def test_rows_find_their_like_better_than_before():
    assert retrieval(Sdpm().fit(X, Y).transform(X), Y) > retrieval(X, Y) + 0.1


def test_what_cannot_be_learned_from_is_refused():
    with pytest.raises(InputError, match="a label of its own for each row"):
        Sdpm().fit(X, np.arange(150))
    with pytest.raises(InputError, match="at least 2 classes"):
        Sdpm().fit(X, np.ones(150))
    with pytest.raises(InputError, match=r"triplets must hold row numbers, \(m, 3\)"):
        Sdpm().fit(X, triplets=np.array([[0, 1]]))
    with pytest.raises(InputError, match="from 0 to 149"):
        Sdpm().fit(X, triplets=np.array([[0, 1, 150]]))
    with pytest.raises(InputError, match=r"cost must be a finite number above 0. Got 0"):
        Sdpm(cost=0).fit(X, Y)


def test_rows_all_alike_give_finite_numbers():
    assert np.isfinite(Sdpm().fit(np.ones((6, 4)), np.arange(6) % 2).transform(X)).all()
