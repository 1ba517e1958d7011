import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookalike.arrays import as_numpy, check_rows, chunks, namespace, principal, to_numpy, unit_rows
from lookalike.errors import InputError


@given(n=st.integers(0, 500), row_bytes=st.integers(0, 50), max_bytes=st.integers(1, 300))
def test_chunks_cover_every_row_once_and_fit_the_memory_limit(n, row_bytes, max_bytes):
    parts = list(chunks(n, row_bytes, max_bytes))
    assert [row for part in parts for row in range(n)[part]] == list(range(n))
    assert all((part.stop - part.start) * row_bytes <= max(max_bytes, row_bytes) for part in parts)


@pytest.mark.parametrize("array", [np.ones((2, 3)), torch.ones(2, 3)])
def test_the_same_code_runs_on_numpy_and_torch(array):
    xp = namespace(array)
    assert float(xp.sum(xp.sqrt(array))) == pytest.approx(6)


def test_integers_and_half_precision_become_float32_and_double_stays():
    assert check_rows(np.ones((2, 3), np.int64)).dtype == np.float32
    assert check_rows(np.ones((2, 3), np.float16)).dtype == np.float32
    assert check_rows(torch.ones(2, 3, dtype=torch.float16)).dtype == torch.float32
    assert check_rows(np.ones((2, 3))).dtype == np.float64
    assert check_rows([[1, 2], [3, 4]]).shape == (2, 2)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), "two dimensions"),
        (np.array([["a", "b"]]), "real numbers"),
        (np.array([[1.0, np.nan, 1], [0, 0, 0]]), "NaN or infinity in 1 of 2 rows"),
        (torch.tensor([[1.0, float("inf"), 0.0]]), "NaN or infinity in 1 of 1 rows"),
        (np.ones((2, 4)), "must have 3 columns. Got 4"),
        ([[1, 2], [3]], "matrix of numbers"),
        (np.ones((2, 3), complex), "real numbers"),
    ],
)
def test_the_error_for_invalid_rows_names_the_problem(X, message):
    with pytest.raises(InputError, match=message):
        check_rows(X, dim=3)


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_unit_rows_have_length_one_and_zero_rows_stay_zero(make):
    X = to_numpy(unit_rows(make([[3.0, 4.0], [0.0, 0.0]])))
    assert X.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]


def test_to_numpy_does_not_copy_a_float32_array():
    X = np.ones((2, 3), np.float32)
    assert to_numpy(X) is X


def test_as_numpy_keeps_the_precision():
    assert as_numpy(torch.ones(2, dtype=torch.float64)).dtype == np.float64
    assert as_numpy(np.ones(2, np.float32)).dtype == np.float32


def wide_rows(n=12, d=30):
    random = np.random.default_rng(4)
    return random.normal(size=(n, n)) @ random.normal(size=(n, d)) + 3


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy])
def test_principal_directions_of_wide_rows_match_the_covariance(make):
    X = wide_rows()
    mean, components, variances = (as_numpy(part) for part in principal(make(X), 11))
    values, vectors = np.linalg.eigh(np.cov(X.T))
    np.testing.assert_allclose(mean, X.mean(axis=0))
    np.testing.assert_allclose(variances, values[::-1][:11], rtol=1e-8)
    np.testing.assert_allclose(np.abs(np.sum(components * vectors[:, ::-1][:, :11].T, axis=1)), 1, rtol=1e-8)
    np.testing.assert_allclose(components @ components.T, np.eye(11), atol=1e-12)
    assert (components.max(axis=1) == np.abs(components).max(axis=1)).all()


def test_principal_directions_from_rows_and_from_columns_are_equal():
    X = wide_rows(12, 12)
    wide = np.concatenate([X, np.zeros((12, 1))], axis=1)  # wider than high: decomposed by rows
    for by_rows, by_columns in zip(principal(X, 8), principal(wide, 8), strict=True):
        np.testing.assert_allclose(by_columns[..., : by_rows.shape[-1]], by_rows, atol=1e-8)


@pytest.mark.parametrize("X", [np.zeros((4, 9)), np.ones((4, 9)), np.repeat([[1.0] * 9, [2.0] * 9], 2, axis=0)])
def test_principal_directions_without_variance_are_orthonormal_too(X):
    _, components, variances = principal(X, 4)
    np.testing.assert_allclose(components @ components.T, np.eye(4), atol=1e-12)
    assert (variances >= 0).all()


def test_principal_directions_of_very_wide_rows_need_little_memory(monkeypatch):
    monkeypatch.setattr(chunks, "__defaults__", (2**20,))
    X = np.random.default_rng(0).normal(size=(30, 65_536)).astype(np.float32)
    tracemalloc.start()
    components = principal(X, 3)[1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert components.shape == (3, 65_536)
    assert peak < 8 * components.nbytes  # a covariance would be 34 GB


def test_principal_refuses_values_that_are_not_finite():
    X = wide_rows()
    X[3, 20] = np.nan
    with pytest.raises(InputError, match="NaN or infinity in 1 of 12 rows"):
        principal(X, 2)
