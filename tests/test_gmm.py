import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

from lookalike.errors import InputError
from lookalike.features import clustering as module
from lookalike.features.clustering import Mixture, kmeans, step
from lookalike.features.gmm import Gmm
from reference.aggregation import log_densities, log_likelihood

random = np.random.default_rng(7)
X = (random.normal(size=(6, 5))[random.integers(6, size=800)] * 3 + random.normal(size=(800, 5))).astype(np.float32)


def start(k, rows=X):
    d = rows.shape[1]
    return Mixture(np.full(k, 1 / k), rows[:k].astype(np.float64), np.full((k, d), 1.5))


def test_em_steps_equal_those_of_scikit_learn():
    rows, mixture = X.astype(np.float64), start(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ten steps do not converge
        theirs = GaussianMixture(
            4,
            covariance_type="diag",
            tol=0,
            reg_covar=0,
            max_iter=10,
            weights_init=mixture.weights,
            means_init=mixture.means,
            precisions_init=1 / mixture.variances,
        ).fit(rows)
    for _ in range(10):
        mixture, _ = step(rows, mixture, np.full(5, 1e-9))
    np.testing.assert_allclose(mixture.weights, theirs.weights_, rtol=1e-6)
    np.testing.assert_allclose(mixture.means, theirs.means_, rtol=1e-6)
    np.testing.assert_allclose(mixture.variances, theirs.covariances_, rtol=1e-6)
    _, likelihood = step(rows, mixture, np.full(5, 1e-9))
    assert likelihood == pytest.approx(theirs.score(rows), abs=1e-9)


def test_posteriors_and_likelihoods_equal_the_reference():
    gmm = Gmm(k=5).fit(X)
    logs = np.array([log_densities(x, *gmm.mixture) for x in X[:50].astype(np.float64)])
    expected = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
    np.testing.assert_allclose(gmm.posteriors(X[:50]), expected, atol=1e-5)
    np.testing.assert_allclose(gmm.posteriors(X[:50].astype(np.float64)), expected, atol=1e-12)
    np.testing.assert_allclose(gmm.log_likelihood(X[:50]), np.logaddexp.reduce(logs, axis=1), atol=1e-4)
    assert gmm.likelihoods_[-1] == pytest.approx(log_likelihood(X, *gmm.mixture), abs=1e-4)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 60),
    k=st.integers(1, 8),
    floor=st.sampled_from([1e-6, 1e-3, 0.3, 3.0]),
    repeated=st.booleans(),
)
def test_no_step_lowers_the_likelihood_with_or_without_active_floors(seed, n, k, floor, repeated):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, 3)) * [1, 10, 0.1] + [0, 5, 0]
    rows = rows[random.integers(max(1, n // 4), size=n)] if repeated else rows
    floors = floor * np.maximum(rows.var(axis=0), 1e-4)
    weights = random.dirichlet(np.ones(k)) * 0.99 + 0.01 / k
    mixture = Mixture(weights, random.normal(size=(k, 3)) * 5, floors + random.gamma(1, size=(k, 3)))
    before = -np.inf
    for _ in range(12):
        mixture, likelihood = step(rows, mixture, floors)
        assert likelihood >= before - 1e-9 * (1 + abs(likelihood))
        before = likelihood
        assert (mixture.variances >= floors).all()
        assert mixture.weights.sum() == pytest.approx(1)
        assert mixture.weights.min() >= 0.999e-3 / k


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_likelihoods_of_a_fit_never_decrease(dtype):
    gmm = Gmm(k=12, tolerance=0, max_iterations=60).fit(X.astype(dtype))
    assert len(gmm.likelihoods_) > 5
    assert (np.diff(gmm.likelihoods_) >= 0).all()


def test_a_step_that_lowers_the_likelihood_is_discarded(monkeypatch):
    told = iter([1.0, 2.0, 1.9, 5.0])

    def fall(rows, mixture, floors):
        return mixture._replace(means=mixture.means + 1), next(told)

    monkeypatch.setattr(module, "step", fall)
    gmm = Gmm(k=3).fit(X)
    assert gmm.likelihoods_.tolist() == [1.0, 2.0]
    np.testing.assert_allclose(gmm.means_, kmeans(X, 3)[0] + 1)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not():
    first, second, other = (Gmm(k=6, random_state=seed, max_iterations=3).fit(X) for seed in (1, 1, 2))
    assert pickle.dumps(first) == pickle.dumps(second)
    assert first.means_.tobytes() != other.means_.tobytes()


def test_many_chunks_give_the_same_result(monkeypatch):
    whole = Gmm(k=4).fit(X)
    posteriors = whole.posteriors(X)
    monkeypatch.setattr(module, "CACHE_BYTES", 3_000)
    pieces = Gmm(k=4).fit(X)
    np.testing.assert_allclose(pieces.means_, whole.means_, atol=1e-3)
    np.testing.assert_allclose(whole.posteriors(X), posteriors, atol=1e-5)
    mixture, rows = start(4), X.astype(np.float64)
    in_pieces = step(rows, mixture, np.full(5, 1e-9))
    monkeypatch.undo()
    for got, expected in zip(in_pieces[0], step(rows, mixture, np.full(5, 1e-9))[0], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_torch_gives_the_results_of_numpy():
    torch = pytest.importorskip("torch")
    ours, theirs = Gmm(k=4).fit(X), Gmm(k=4).fit(torch.from_numpy(X))
    assert isinstance(theirs.means_, np.ndarray)
    np.testing.assert_allclose(theirs.means_, ours.means_, atol=1e-3)
    np.testing.assert_allclose(theirs.variances_, ours.variances_, rtol=1e-2)
    posteriors = ours.posteriors(torch.from_numpy(X))
    assert isinstance(posteriors, torch.Tensor)
    np.testing.assert_allclose(posteriors.numpy(), ours.posteriors(X), atol=1e-5)
    np.testing.assert_allclose(ours.log_likelihood(torch.from_numpy(X)).numpy(), ours.log_likelihood(X), atol=1e-4)


def test_a_gaussian_without_rows_keeps_its_mean():
    lonely = np.full(5, 500.0)
    mixture = start(3)
    mixture.means[2] = lonely
    after, _ = step(X, mixture, np.full(5, 1e-3))
    np.testing.assert_array_equal(after.means[2], lonely)
    assert after.weights[2] == pytest.approx(1e-3 / 3)
    assert np.isfinite(after.variances).all()


@pytest.mark.parametrize("rows", [np.zeros((20, 3)), np.ones((20, 3)) * [1, 2, 3], np.repeat(X[:2, :3], 10, axis=0)])
def test_equal_rows_give_finite_results(rows):
    rows = rows.astype(np.float32)
    gmm = Gmm(k=6).fit(rows)
    assert all(np.isfinite(part).all() for part in gmm.mixture)
    np.testing.assert_allclose(gmm.posteriors(rows).sum(axis=1), 1, rtol=1e-5)


def test_rows_far_from_all_gaussians_give_finite_results():
    gmm = Gmm(k=4).fit(X)
    far = np.full((1, 5), 1e30, np.float32)
    assert np.isfinite(gmm.posteriors(far)).all()
    assert np.isfinite(gmm.log_likelihood(far)).all()


def test_progress_is_reported_until_the_end():
    told = []
    Gmm(k=2, max_iterations=4).fit(X, progress=lambda *call: told.append(call))
    assert told[0] == ("fitting the mixture", 0, 4)
    assert told[-1] == ("fitting the mixture", 4, 4)


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 2.5}, {"max_iterations": 0}, {"tolerance": -1}, {"floor": 0}])
def test_invalid_options_are_refused(options):
    (name, value) = next(iter(options.items()))
    with pytest.raises(InputError, match=f"{name} must be .* Got {value!r}"):
        Gmm(**options).fit(X)


def test_fewer_rows_than_gaussians_are_refused():
    with pytest.raises(InputError, match=r"k must be at most 3 \(the number of rows\). Got 4."):
        Gmm(k=4).fit(X[:3])
    with pytest.raises(InputError, match=r"k must be at most 3 \(the number of rows\). Got 4."):
        kmeans(X[:3], 4)


def test_it_must_be_fitted_first():
    with pytest.raises(NotFittedError):
        Gmm().posteriors(X)


def test_kmeans_samples_rows_reproducibly(monkeypatch):
    monkeypatch.setattr("lookalike.features.clustering.ROWS_PER_CENTRE", 20)
    first, second, other = (kmeans(X, 6, seed)[0] for seed in (3, 3, 4))
    assert first.tobytes() == second.tobytes() != other.tobytes()
    assert first.shape == (6, 5)


@pytest.fixture(scope="module")
def tensor():
    """A function that copies NumPy rows to a torch tensor, the twin of rows on a GPU."""
    return pytest.importorskip("torch").tensor


def mean_square(rows, centres):
    """The mean squared distance of rows to their nearest centre, and the number of centres that are nearest to some."""
    squares = np.square(rows[:, None].astype(np.float64) - centres).sum(axis=2)
    return squares.min(axis=1).mean(), len(np.unique(squares.argmin(axis=1)))


@pytest.mark.parametrize("most", [256, 20])  # rows per centre: all rows, or a sample
@pytest.mark.parametrize("shift", [0, 1_000])
def test_kmeans_on_a_device_finds_the_centres_of_faiss(tensor, monkeypatch, most, shift):
    monkeypatch.setattr(module, "ROWS_PER_CENTRE", most)
    rows = X + np.float32(shift)
    expected, distance = kmeans(rows, 6, random_state=2)
    for kind in (np.float32, np.float64):
        centres, found = kmeans(tensor(rows.astype(kind)), 6, random_state=2)
        assert centres.dtype == np.float32
        np.testing.assert_allclose(centres, expected, atol=1e-2)
        assert found == pytest.approx(distance, rel=1e-3)


def test_kmeans_on_a_device_depends_on_the_seed_but_not_on_chunks(tensor, monkeypatch):
    (first, error), (second, _), (other, _) = (kmeans(tensor(X), 9, seed) for seed in (3, 3, 4))
    assert first.tobytes() == second.tobytes() != other.tobytes()
    monkeypatch.setattr(module, "CACHE_BYTES", 8 * 9 * 100)  # 100 rows
    pieces, in_pieces = kmeans(tensor(X), 9, 3)
    np.testing.assert_allclose(pieces, first, atol=1e-4)
    assert in_pieces == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_kmeans_on_a_device_fills_empty_clusters(tensor, seed):
    rows = np.concatenate([np.zeros((300, 5), np.float32), X[:100]])  # most of the first centres are equal
    (expected, _), (centres, reported) = kmeans(rows, 20, seed), kmeans(tensor(rows), 20, seed)
    (distance, used), (of_faiss, _) = mean_square(rows, centres), mean_square(rows, expected)
    assert used == 20
    assert distance == pytest.approx(reported, rel=0.02)  # before the last step
    assert distance < 1.3 * of_faiss


def test_kmeans_of_as_many_centres_as_rows_returns_the_rows(tensor):
    for rows in (X[:50], tensor(X[:50])):
        centres, distance = kmeans(rows, 50)
        np.testing.assert_array_equal(centres, X[:50])
        assert distance == 0
        centres[:] = 0  # a copy
    assert X[:50].any()


def test_kmeans_on_a_device_of_equal_rows_returns_them(tensor):
    centres, distance = kmeans(tensor(np.full((20, 3), 7.0)), 6)
    assert (centres == 7).all()
    assert distance == 0
