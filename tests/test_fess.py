import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.errors import InputError
from lookalike.features.clustering import Mixture
from lookalike.learn.fess import Fess, Pd, summarise
from lookalike.learn.sets import Sets
from reference import fisher_kernel as slow

random = np.random.default_rng(5)
SETS = [random.normal(size=(random.integers(1, 6), 3)) + (i % 2) for i in range(40)]


@parametrize_with_checks([Fess(k=2), Pd(k=2)])
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.integers(1, 500))
def test_terms_equal_the_reference_and_sum_to_the_likelihood(seed, k, d, items):
    random = np.random.default_rng(seed)
    mixture = Mixture(random.dirichlet(np.ones(k)), random.normal(size=(k, d)) * 2, random.gamma(2, size=(k, d)) + 0.1)
    rows, starts = random.normal(size=(7, d)) * 2, np.array([0, 1, 3, 7])
    parts = mixture.weights, mixture.means, np.sqrt(mixture.variances)
    fess, pd = Fess(), Pd()
    pd.items_ = items
    terms, effects = (part.terms(*summarise(mixture, rows, starts)) for part in (fess, pd))
    for i, item in enumerate(np.split(rows, starts[1:-1])):
        np.testing.assert_allclose(terms[i], slow.free_energy_pieces(item, *parts), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(effects[i], slow.posterior_divergence(item, items, *parts), rtol=1e-5, atol=1e-7)
        likelihood = slow.mean_log_likelihood(item, np.log(mixture.weights), *parts[1:])
        assert terms[i].sum() == pytest.approx(likelihood)
        assert effects[i].sum() > likelihood - 1e-9  # the EM step increases the likelihood


@pytest.mark.parametrize("kind", [Fess, Pd])
def test_columns_are_standardised_before_items_are_normalised(kind):
    part = kind(k=2).fit(SETS)
    mixture = Mixture(part.alphas_, part.means_, part.deviations_**2)
    terms = part.terms(*summarise(mixture, np.concatenate(SETS), np.cumsum([0, *map(len, SETS)])))
    scaled = (terms - part.centre_) / part.spreads_
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=0), 1, atol=1e-6)
    expected = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    np.testing.assert_allclose(part.transform(SETS), expected, atol=1e-5)
    assert part.transform(SETS).dtype == np.float32


@pytest.mark.parametrize("kind", [Fess, Pd])
def test_equal_items_give_finite_results_and_empty_items_are_refused(kind):
    same = [np.ones((2, 3))] * 5
    assert np.isfinite(kind(k=2).fit(same).transform(same)).all()
    part = kind(k=2).fit(SETS)
    assert part.transform(Sets(np.empty((0, 3)), np.zeros(1, np.int64))).shape == (0, len(part.centre_))
    with pytest.raises(InputError, match="none for 1 of 2 items"):
        part.transform([SETS[0], SETS[1][:0]])
    with pytest.raises(InputError, match=r"k must be a whole number of at least 1. Got 0"):
        kind(k=0).fit(SETS)


def test_torch_gives_the_same_results():
    torch = pytest.importorskip("torch")
    ours = Pd(k=2).fit(SETS).transform(SETS)
    rows = [torch.from_numpy(one) for one in SETS]
    np.testing.assert_allclose(Pd(k=2).fit(rows).transform(rows).numpy(), ours, atol=1e-4)
