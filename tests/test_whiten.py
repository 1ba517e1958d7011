import tracemalloc

import numpy as np
import pytest
import sklearn.decomposition
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike import arrays as lookalike_arrays
from lookalike.encode.whiten import L2, PCA
from lookalike.errors import InputError
from lookalike.registry import restore, spec_of, state_of

random = np.random.default_rng(5)
X = (random.normal(size=(300, 20)) @ random.normal(size=(20, 20)) + 3).astype(np.float32)


@parametrize_with_checks([PCA(whiten=0.5), L2()])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


def test_pca_equals_that_of_scikit_learn_up_to_signs():
    theirs = sklearn.decomposition.PCA(6).fit(X.astype(np.float64))
    ours = PCA(dim=6).fit(X)
    signs = np.sign(np.sum(theirs.components_ * ours.components_, axis=1))
    np.testing.assert_allclose(ours.components_, signs[:, None] * theirs.components_, atol=1e-6)
    np.testing.assert_allclose(ours.variances_, theirs.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(ours.transform(X), signs * theirs.transform(X.astype(np.float64)), atol=1e-4)


def test_fewer_rows_than_columns_give_the_components_of_scikit_learn():
    wide = np.concatenate([X[:15], X[15:30], X[30:45]], axis=1)  # 15 rows of 60 columns
    theirs = sklearn.decomposition.PCA(10).fit(wide.astype(np.float64))
    ours = PCA(dim=10).fit(wide)
    signs = np.sign(np.sum(theirs.components_ * ours.components_, axis=1))
    np.testing.assert_allclose(ours.components_, signs[:, None] * theirs.components_, atol=1e-6)
    np.testing.assert_allclose(ours.variances_, theirs.explained_variance_, rtol=1e-6)


def test_the_largest_entry_of_each_direction_is_positive():
    components = PCA(dim=6).fit(X).components_
    assert (np.take_along_axis(components, np.abs(components).argmax(axis=1)[:, None], axis=1) > 0).all()


@pytest.mark.parametrize("whiten", [0.0, 0.5, 1.0])
def test_whitening_divides_each_direction_by_its_deviation_to_a_power(whiten):
    pca = PCA(dim=8, whiten=whiten)
    covariance = np.cov(pca.fit_transform(X).T)
    np.testing.assert_allclose(covariance, np.diag(pca.variances_ ** (1 - whiten)), rtol=1e-4, atol=1e-4)


def test_directions_without_variance_stay_finite_when_whitened():
    flat = np.repeat(X[:, :1], 5, axis=1)
    for rows in (flat, np.zeros_like(flat), np.full_like(flat, 7)):
        Y = PCA(dim=5, whiten=1.0).fit_transform(rows)
        assert np.isfinite(Y).all()
        np.testing.assert_allclose(Y[:, 1:], 0, atol=1e-2)


@pytest.mark.parametrize(("n", "dim", "D"), [(300, 6, 6), (300, 99, 20), (4, 99, 3), (2, 1, 1)])
@pytest.mark.filterwarnings("ignore::lookalike.errors.FewerDimensionsWarning")
def test_the_output_has_at_most_the_dimensions_that_the_rows_span(n, dim, D):
    assert PCA(dim=dim).fit_transform(X[:n]).shape == (n, D)


def test_the_number_of_chunks_does_not_change_the_results(monkeypatch):
    whole, unit = PCA(dim=6, whiten=0.5).fit(X), L2().transform(X)
    Y = whole.transform(X)
    monkeypatch.setattr(lookalike_arrays.chunks, "__defaults__", (1000,))
    pieces = PCA(dim=6, whiten=0.5).fit(X)
    np.testing.assert_allclose(pieces.components_, whole.components_, atol=1e-9)
    np.testing.assert_allclose(pieces.transform(X), Y, atol=1e-5)
    np.testing.assert_array_equal(L2().transform(X), unit)


def test_a_memory_mapped_half_precision_matrix_is_never_copied_whole(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.tile(X, (200, 10)).astype(np.float16))  # 60,000 × 200
    rows = np.load(tmp_path / "x.npy", mmap_mode="r")
    monkeypatch.setattr(lookalike_arrays.chunks, "__defaults__", (2**20,))
    tracemalloc.start()
    PCA(dim=4).fit(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes / 2


@pytest.mark.parametrize("part", [PCA(dim=6, whiten=0.5), L2()])
def test_torch_input_gives_torch_output_with_the_same_values(part):
    torch = pytest.importorskip("torch")
    expected = part.fit_transform(X)
    for tensor in (torch.from_numpy(X), torch.from_numpy(X).double(), torch.from_numpy(X.astype(np.float64))):
        got = part.fit(tensor).transform(tensor)
        assert isinstance(got, torch.Tensor)
        assert got.dtype == torch.float32
        np.testing.assert_allclose(got.numpy(), expected, atol=1e-4)
    half = part.transform(torch.from_numpy(X).bfloat16())
    assert half.dtype == torch.float32
    assert all(isinstance(value, np.ndarray | int) for key, value in vars(part).items() if key.endswith("_"))


@pytest.mark.parametrize("rows", [np.ones(5), np.ones((1, 5)), np.ones((4, 5)) * np.nan])
def test_torch_tensors_are_also_checked(rows):
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"X must be"):
        PCA(dim=2).fit(torch.from_numpy(rows))
    with pytest.raises(InputError, match=r"X must have 20 columns. Got 5."):
        PCA(dim=2).fit(torch.from_numpy(X)).transform(torch.ones(3, 5))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("part", [PCA(dim=2), L2()])
def test_rows_that_are_not_finite_are_rejected(part, bad):
    rows = X.copy()
    rows[17, 3] = bad
    with pytest.raises(InputError, match=r"X must be finite. Got NaN or infinity in 1 of 300 rows."):
        part.fit(rows)
    with pytest.raises(InputError, match=r"X must be finite"):
        part.fit(X).transform(rows)


@pytest.mark.parametrize(
    "options", [{"dim": 0}, {"dim": 2.5}, {"dim": "2"}, {"whiten": -0.1}, {"whiten": 1.1}, {"whiten": None}]
)
def test_invalid_options_are_rejected(options):
    (name, value) = next(iter(options.items()))
    with pytest.raises(InputError, match=f"{name} must be .* Got {value!r}"):
        PCA(**options).fit(X)


def test_pca_must_be_fitted_before_use():
    with pytest.raises(NotFittedError):
        PCA().transform(X)


@pytest.mark.parametrize("part", [PCA(dim=6, whiten=1.0), L2()])
def test_spec_and_state_restore_the_whole_object(part):
    expected = part.fit_transform(X)
    state = state_of(part)
    assert all(value.dtype.kind in "fi" for value in state.values())
    assert restore("transform", spec_of(part), state).transform(X).tobytes() == expected.tobytes()


@settings(deadline=None)
@given(arrays(np.float32, (4, 3), elements=st.floats(allow_nan=False, allow_infinity=False, width=32)))
def test_l2_rows_have_length_one_or_stay_zero(rows):
    lengths = np.linalg.norm(L2().fit_transform(rows).astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths, np.any(rows != 0, axis=1), atol=1e-6)
