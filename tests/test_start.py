"""Where training starts: discriminants first, and gradients made even by the inverse covariance within classes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.learn import start as module
from lookalike.learn.linear import Fda
from lookalike.learn.start import LAM, start


def draw(n=120, d=9, classes=4, seed=0):
    random = np.random.default_rng(seed)
    y = np.arange(n) % classes
    scales = np.concatenate([[6.0, 3.0], np.ones(d - 2)])
    return 2 * random.normal(size=(classes, d))[y] + random.normal(size=(n, d)) * scales, y


def within(X, y):
    """The covariance within classes, row by row."""
    total = np.zeros((X.shape[1],) * 2)
    for c in np.unique(y):
        for row in X[y == c] - X[y == c].mean(axis=0):
            total += np.outer(row, row)
    return total / (len(X) - len(np.unique(y)))


@given(st.integers(0, 50), st.integers(3, 12), st.integers(2, 5), st.integers(1, 14))
@settings(max_examples=25, deadline=None)
def test_gradients_are_multiplied_by_the_inverse_covariance_within_classes(seed, d, classes, dim):
    X, y = draw(60, d, classes, seed)
    found = start(X, y, dim, np.random.default_rng(0))
    S = within(X, y)
    lam = LAM * np.trace(S) / d
    gradient = np.random.default_rng(seed).normal(size=(3, d)).astype(np.float32)
    expected = gradient @ (lam * np.linalg.inv(S + lam * np.eye(d)))
    np.testing.assert_allclose(found.condition(gradient), expected, rtol=1e-3, atol=1e-4)
    assert found.W.shape == (min(dim, d), d)


def test_the_first_directions_are_fishers_and_the_others_come_by_falling_variance():
    X, y = draw()
    found = start(X, y, 9, np.random.default_rng(0))
    S = within(X, y)
    lam = LAM * np.trace(S) / 9
    total = np.trace(np.cov(X.T, bias=True)) / 9
    theirs = Fda(dim=3, lam=lam / total * 116 / 120).fit(X, y).W_  # its covariance is divided by n, not n - C
    overlap = np.linalg.svd(np.linalg.qr(found.W[:3].T)[0].T @ np.linalg.qr(theirs.T)[0])[1]
    np.testing.assert_allclose(overlap, 1, atol=1e-4)
    values, vectors = np.linalg.eigh(S)
    whiten = vectors / np.sqrt(values / lam + 1) @ vectors.T
    V = found.W @ np.linalg.inv(whiten)
    np.testing.assert_allclose(V @ V.T, np.eye(9), atol=1e-3)
    variances = np.var(X @ whiten @ V.T, axis=0, ddof=1)
    assert (np.diff(variances[3:]) < 1e-3).all()
    np.testing.assert_allclose([found.first, found.total], [variances.max(), variances.sum()], rtol=1e-3)


def test_classes_of_one_row_each_start_from_principal_directions():
    X = np.random.default_rng(0).normal(size=(12, 5)) * [5, 4, 3, 2, 1]
    found = start(X, np.arange(12), 2, np.random.default_rng(0))
    axes = np.linalg.svd(X - X.mean(axis=0))[2][:2]
    np.testing.assert_allclose(np.abs(found.W @ axes.T), np.eye(2), atol=1e-4)
    gradient = np.ones((2, 5), np.float32)
    assert (found.condition(gradient) == gradient).all()


@pytest.mark.parametrize("rows", [1, 2, 6])
def test_rows_that_are_all_alike_have_a_start(rows):
    found = start(np.ones((rows, 3)), np.arange(rows) % 2, 2, np.random.default_rng(0))
    assert np.isfinite(found.W).all()
    assert (found.first, found.total) == (1.0, 1.0)


def test_many_rows_are_sampled(monkeypatch):
    monkeypatch.setattr(module, "START_BYTES", 4 * 9 * 50)
    X, y = draw(5_000)
    seen = []

    class Source:
        shape = X.shape

        def __getitem__(self, rows):
            seen.append(len(rows))
            return X[rows]

    some = start(Source(), y, 3, np.random.default_rng(0))
    assert seen == [50]
    assert some.W.dtype == np.float32


def test_torch_and_numpy_start_alike():
    torch = pytest.importorskip("torch")
    X, y = draw()
    ours, theirs = (start(rows, y, 6, np.random.default_rng(0)) for rows in (X, torch.from_numpy(X)))
    np.testing.assert_allclose(theirs.W.numpy(), ours.W, atol=1e-4)
    gradient = np.ones((6, 9), np.float32)
    np.testing.assert_allclose(
        theirs.condition(torch.from_numpy(gradient)).numpy(), ours.condition(gradient), atol=1e-4
    )
