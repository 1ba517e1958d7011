import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from lookalike.encode import kernel_slem
from lookalike.encode.kernel_slem import FACTORS, ccd, icd, kpca
from lookalike.errors import InputError
from lookalike.kernels import KERNELS, TANGENTS

random = np.random.default_rng(3)
X = random.normal(size=(300, 6)) @ random.normal(size=(6, 6)) / 3


def matrix(name, gamma, rows=X):
    return KERNELS[name].pairs(rows, rows, gamma)


def residual(name, gamma, how, rank, rows=X):
    B = how(rows, KERNELS[name], gamma, rank).B
    return np.linalg.norm(matrix(name, gamma, rows) - B @ B.T)


@pytest.mark.parametrize("name", TANGENTS)
@pytest.mark.parametrize("how", FACTORS.values())
def test_factors_of_full_rank_give_the_kernel_matrix(how, name):
    assert residual(name, 0.2, how, 300) <= 1e-8 * np.linalg.norm(matrix(name, 0.2))


@pytest.mark.parametrize("name", TANGENTS)
@pytest.mark.parametrize("how", FACTORS.values())
def test_projecting_the_pool_gives_its_factor(how, name):
    B, landmarks, projection = how(X, KERNELS[name], 0.2, 5)
    np.testing.assert_allclose(KERNELS[name].pairs(X, landmarks, 0.2) @ projection, B, atol=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "poly"])
@pytest.mark.parametrize("rank", [1, 3, 5])
def test_kernel_pca_is_the_best_approximation_of_its_rank_and_beats_incomplete_cholesky(name, rank):
    values = np.linalg.eigvalsh(matrix(name, 0.2))[:-rank]
    best = residual(name, 0.2, kpca, rank)  # uses a Krylov subspace, because 18 (rank + 8) ≤ 300
    np.testing.assert_allclose(best, np.sqrt(np.sum(values**2)), rtol=1e-6)
    assert best <= residual(name, 0.2, icd, rank)


def test_kernel_pca_gives_the_same_factor_exactly_by_a_subspace_and_in_chunks(monkeypatch):
    subspace = kpca(X, KERNELS["gaussian"], 0.2, 4)
    monkeypatch.setattr(kernel_slem, "KPCA_BYTES", 0)
    chunks = kpca(X, KERNELS["gaussian"], 0.2, 4)
    monkeypatch.setattr(kernel_slem, "KRYLOV_DEPTH", 300)
    exact = kpca(X, KERNELS["gaussian"], 0.2, 4)
    np.testing.assert_allclose(chunks.B, subspace.B, atol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(subspace.B * exact.B, axis=0)), np.sum(exact.B**2, axis=0), rtol=1e-6)


def test_every_pivot_reduces_the_residual():
    residuals = [residual("gaussian", 0.2, icd, rank) for rank in (1, 2, 4, 8, 16, 32)]
    assert all(more > less for more, less in pairwise(residuals))


def test_incomplete_cholesky_chooses_the_row_with_the_largest_residual():
    rows = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]])
    np.testing.assert_array_equal(icd(rows, KERNELS["linear"], 1.0, 2).landmarks, rows[[1, 2]])


@pytest.mark.parametrize("how", FACTORS.values())
def test_the_rank_is_at_most_the_dimension_that_the_rows_span(how):
    assert how(X, KERNELS["linear"], 1.0, 32).B.shape == (300, 6)  # six dimensions
    assert how(X[:4], KERNELS["gaussian"], 1.0, 32).B.shape == (4, 4)  # four rows
    assert how(np.repeat(X[:3], 50, axis=0), KERNELS["gaussian"], 1.0, 32).B.shape == (150, 3)  # three distinct rows
    many = np.tile(X, (3, 1))
    assert how(many, KERNELS["linear"], 1.0, 40).B.shape == (900, 6)  # kernel PCA uses a random subspace


@pytest.mark.parametrize("how", FACTORS.values())
def test_rows_that_are_all_zero_have_no_linear_factor(how):
    with pytest.raises(InputError, match=r"above 0. Got only zero rows"):
        how(np.zeros((5, 3)), KERNELS["linear"], 1.0, 2)


def test_complete_cholesky_factors_the_centred_matrix_with_a_ridge():
    lower, means = ccd(X, KERNELS["poly"], 0.2, 0.7)
    K = matrix("poly", 0.2)
    H = np.eye(300) - 1 / 300
    np.testing.assert_allclose(lower @ lower.T, H @ K @ H + 0.7 * np.eye(300), atol=1e-9)
    np.testing.assert_array_equal(np.triu(lower, 1), 0)
    np.testing.assert_allclose(means, K.mean(axis=0))


def test_a_ridge_too_small_for_a_singular_matrix_raises_an_error():
    with pytest.raises(InputError, match=r"positive definite"):
        ccd(X, KERNELS["linear"], 1.0, 1e-300)


def test_incomplete_cholesky_never_forms_the_kernel_matrix():
    rows = random.normal(size=(20_000, 16)).astype(np.float32)
    tracemalloc.start()
    icd(rows, KERNELS["gaussian"], 0.1, 16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * 8 * 20_000 * 16  # a few times B; K would be 1,250 times B


@pytest.mark.parametrize("how", FACTORS.values())
def test_torch_gives_the_same_factors(how):
    torch = pytest.importorskip("torch")
    mine, theirs = (how(rows, KERNELS["gaussian"], 0.2, 5) for rows in (X, torch.from_numpy(X)))
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(np.abs(b.numpy()), np.abs(a), atol=1e-7)
    lower, _ = ccd(torch.from_numpy(X), KERNELS["gaussian"], 0.2, 0.1)
    np.testing.assert_allclose(lower.numpy(), ccd(X, KERNELS["gaussian"], 0.2, 0.1)[0], atol=1e-10)
