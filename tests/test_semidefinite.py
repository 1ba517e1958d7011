from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.errors import InputError
from lookalike.learn import DmlEig, Mmc, Sdpm
from lookalike.learn.measures import retrieval
from lookalike.learn.semidefinite import draw_pairs, least_distance, margin, mean_distance, nearest_triplets
from reference.fisher_kernel import differences

random = np.random.default_rng(6)
Y = random.integers(0, 4, 150)
X = random.normal(size=(150, 4)) * [1, 1, 4, 4] + (3 * random.normal(size=(4, 4)) * [1, 1, 0, 0])[Y]
BOTH = pytest.mark.parametrize("kind", [Mmc, DmlEig])


@parametrize_with_checks([Mmc(pairs=200), DmlEig(pairs=200), Sdpm(triplets=300)])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


def mean_of_roots(squares):
    return np.sqrt(squares).mean()


def soft_least(squares, mu):
    return -mu * np.log(np.mean(np.exp(-squares / mu)))


@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_no_other_metric_has_a_better_objective(kind, seed):
    """Compare with a search over all two-column metrics LᵀL for which the mean over similar pairs is 1."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(40, 2)) @ random.normal(size=(2, 2))
    alike, unlike = draw_pairs(random.integers(0, 3, 40), 60, random)
    part = kind(lam=0, max_iterations=4_000, tolerance=1e-5).fit(rows, alike=alike, unlike=unlike)
    near, far = (rows[pairs[:, 0]] - rows[pairs[:, 1]] for pairs in (alike, unlike))
    # mu of the soft-min is a hundredth of the mean whitened difference, divided by the number of dimensions.
    inverse = np.linalg.inv(near.T @ near / len(near))
    mu = 0.01 * np.mean(np.einsum("md,md->m", far @ inverse, far)) / 2

    def objective(L):
        L = np.reshape(L, (2, 2))
        L = L / np.sqrt(np.mean(np.sum((near @ L.T) ** 2, axis=1)))
        squares = np.sum((far @ L.T) ** 2, axis=1)
        return mean_of_roots(squares) if kind is Mmc else soft_least(squares, mu)

    starts = [np.eye(2).ravel(), *random.normal(size=(4, 4))]
    best = max(-minimize(lambda L: -objective(L), start, method="Nelder-Mead", tol=1e-10).fun for start in starts)
    assert objective(part.W_) == pytest.approx(best, rel=5e-3)
    assert 0 <= part.gap_ + 1e-9 < 0.02
    assert np.mean(np.sum((near @ part.W_.T) ** 2, axis=1)) == pytest.approx(1, rel=1e-3)


def test_mmc_is_at_least_as_close_to_the_optimum_as_metric_learn():
    theirs = np.load(Path(__file__).parent / "golden" / "metric_learn.npz")
    rows, pairs = theirs["X"], {name: theirs[name] for name in ("alike", "unlike")}
    W = Mmc(lam=0).fit(rows, **pairs).W_.astype(np.float64)
    near, far = (rows[some[:, 0]] - rows[some[:, 1]] for some in pairs.values())

    def objective(A):
        return mean_of_roots(np.einsum("md,md->m", far @ A, far)) / np.sqrt(
            np.mean(np.einsum("md,md->m", near @ A, near))
        )

    ours = objective(W.T @ W)
    assert ours >= objective(theirs["mmc"])
    assert ours == pytest.approx(objective(theirs["mmc"]), rel=0.1)


def test_gradients_equal_finite_differences():
    far, root = random.normal(size=(9, 3)), random.normal(size=(3, 3))
    B = root @ root.T
    for function, options in ((mean_distance, (far,)), (least_distance, (far, 0.7))):
        numeric = differences(lambda B, f=function, o=options: f(B, *o)[0], B)
        np.testing.assert_allclose(function(B, *options)[1], (numeric + numeric.T) / 2, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 12))
def test_pairs_are_similar_or_dissimilar_and_never_a_row_with_itself(seed, n):
    random = np.random.default_rng(seed)
    codes = np.unique(np.r_[0, 1, 1, random.integers(0, 4, n)], return_inverse=True)[1]
    alike, unlike = draw_pairs(codes, 300, random)
    assert (codes[alike[:, 0]] == codes[alike[:, 1]]).all()
    assert (alike[:, 0] != alike[:, 1]).all()
    assert (codes[unlike[:, 0]] != codes[unlike[:, 1]]).all()
    assert set(unlike.flat) == set(range(len(codes)))


@BOTH
def test_the_metric_improves_retrieval(kind):
    Z = kind(pairs=1_000).fit(X, Y).transform(X)
    assert retrieval(Z, Y) > retrieval(X, Y) + 0.1


def test_torch_gives_the_same_results():
    torch = pytest.importorskip("torch")
    ours, theirs = (Mmc(pairs=100).fit(rows, y) for rows, y in ((X, Y), (torch.from_numpy(X), torch.from_numpy(Y))))
    np.testing.assert_allclose(theirs.transform(torch.from_numpy(X)).numpy(), ours.transform(X), atol=1e-4)


@BOTH
def test_unusable_training_data_is_rejected(kind):
    with pytest.raises(InputError, match="a different label for each row"):
        kind().fit(X, np.arange(150))
    with pytest.raises(InputError, match="at least 2 classes"):
        kind().fit(X, np.ones(150))
    with pytest.raises(InputError, match="requires y"):
        kind().fit(X)
    with pytest.raises(InputError, match="unlike must contain pairs of row numbers"):
        kind().fit(X, alike=[[0, 1]])
    with pytest.raises(InputError, match="row numbers from 0 to 149"):
        kind().fit(X, alike=np.array([[0, 1]]), unlike=np.array([[0, 150]]))
    with pytest.raises(InputError, match=r"lam must be .* Got -1"):
        kind(lam=-1).fit(X, Y)


@BOTH
def test_equal_rows_and_equal_pairs_give_finite_values(kind):
    assert np.isfinite(kind(pairs=20).fit(np.ones((6, 4)), np.arange(6) % 2).transform(X)).all()
    assert np.isfinite(kind(pairs=20).fit(np.repeat(X[:2], 3, axis=0), [0, 0, 0, 1, 1, 1]).transform(X)).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 30.0]))
def test_the_margin_is_optimal_and_its_gradient_equals_finite_differences(seed, cost):
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
def test_no_other_metric_has_a_larger_margin(seed):
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
def test_triplets_equal_those_of_a_plain_search(seed):
    random = np.random.default_rng(seed)
    rows, codes = random.normal(size=(15, 2)), np.r_[0, 1, random.integers(0, 3, 13)]
    expected = []
    for i in range(10):
        order = np.argsort(np.sum((rows - rows[i]) ** 2, axis=1))
        like = [j for j in order if codes[j] == codes[i] and j != i][:3]
        expected += [[i, j, k] for j in like for k in [k for k in order if codes[k] != codes[i]][:3]]
    assert nearest_triplets(rows, codes, np.arange(10)).tolist() == expected


def test_sdpm_improves_retrieval():
    assert retrieval(Sdpm().fit(X, Y).transform(X), Y) > retrieval(X, Y) + 0.1


def test_sdpm_rejects_unusable_training_data():
    with pytest.raises(InputError, match="a different label for each row"):
        Sdpm().fit(X, np.arange(150))
    with pytest.raises(InputError, match="at least 2 classes"):
        Sdpm().fit(X, np.ones(150))
    with pytest.raises(InputError, match=r"triplets must contain row numbers, \(m, 3\)"):
        Sdpm().fit(X, triplets=np.array([[0, 1]]))
    with pytest.raises(InputError, match="from 0 to 149"):
        Sdpm().fit(X, triplets=np.array([[0, 1, 150]]))
    with pytest.raises(InputError, match=r"cost must be a finite number above 0. Got 0"):
        Sdpm(cost=0).fit(X, Y)


def test_sdpm_of_equal_rows_gives_finite_values():
    assert np.isfinite(Sdpm().fit(np.ones((6, 4)), np.arange(6) % 2).transform(X)).all()
