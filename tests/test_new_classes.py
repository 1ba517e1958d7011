"""The metric for new classes: whitening within classes, with a strength chosen on held-out classes."""

import numpy as np
import pytest

from lookalike import registry
from lookalike.learn.measures import mean_average_precision
from lookalike.learn.ncmml import Ncmml
from lookalike.learn.new_classes import STRENGTHS, choose_metric


def classes(C, spread, seed=0, n=12, d=20):
    """Return rows of C classes, and their labels; `spread` is the standard deviation of the noise in half of them."""
    random = np.random.default_rng(seed)
    y = np.repeat(np.arange(C), n)
    X = random.normal(size=(C, d))[y] + random.normal(size=(C * n, d)) * np.repeat([0.7, spread], d // 2)
    return X.astype(np.float32), y


def test_new_classes_are_found_better_than_by_plain_vectors():
    X, y = classes(40, spread=3)
    fitted, new = y < 20, y >= 20
    metric = Ncmml().fit(X[fitted], y[fitted])
    plain = mean_average_precision(X[new] - X[fitted].mean(axis=0), y[new])
    assert mean_average_precision(metric.transform(X[new]), y[new]) > plain + 0.2
    assert metric.strength_ == min(STRENGTHS)
    assert metric.trials_[:, 0].tolist() == [np.inf, *STRENGTHS]
    assert metric.summary().startswith("whitened within labels, λ = 0.3 (mAP on held-out labels ")


def test_plain_vectors_are_used_if_no_metric_is_clearly_better():
    X, y = classes(20, spread=0.7)  # the same noise in every direction
    metric = Ncmml().fit(X, y)
    assert metric.strength_ == np.inf
    assert metric.summary().startswith("plain vectors: no metric was clearly better on held-out labels")
    centred = X - X.mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    Z = metric.transform(X)
    np.testing.assert_allclose(Z @ Z.T, expected @ expected.T, atol=1e-4)  # PCA only rotates


def test_few_classes_are_too_few_to_choose():
    X, y = classes(3, spread=3)
    metric = Ncmml().fit(X, y)
    assert metric.strength_ == np.inf
    assert metric.trials_.shape == (0, 3)
    assert "too few to choose" in metric.summary()


def test_whitening_is_that_of_the_covariance_within_classes():
    X, y = classes(30, spread=3)
    found = choose_metric(X, y, np.random.default_rng(0))
    off = X.astype(np.float64) - np.stack([X[y == c].mean(axis=0) for c in range(30)])[y]
    within = off.T @ off / (len(X) - 30)
    lam = found.strength * np.trace(within) / len(within)
    expected = lam * np.linalg.inv(within + lam * np.eye(len(within)))  # WᵀW
    np.testing.assert_allclose(found.W.T @ found.W, expected, atol=1e-4)
    np.testing.assert_allclose(found.W @ X.mean(axis=0) + found.bias, 0, atol=1e-4)


def test_rows_have_unit_length_at_most_256_dimensions_and_survive_a_restart():
    X, y = classes(8, spread=3, n=50, d=300)
    metric = Ncmml().fit(X, y)
    again = registry.restore("transform", registry.spec_of(metric), registry.state_of(metric))
    Z = again.transform(X)
    assert Z.shape == (400, 256)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(Z, metric.transform(X))
    assert again.summary() == metric.summary() != ""


def test_a_metric_fitted_by_an_earlier_version_keeps_its_projection():
    W = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    state = {"W_": W, "n_features_in_": np.array(5)}  # the spec was "ncmml()", with 64 dimensions by default
    metric = registry.restore("transform", "ncmml()", state)
    np.testing.assert_allclose(metric.transform(np.eye(5)), W.T, atol=1e-6)
    assert metric.summary() == ""


@pytest.mark.parametrize("n", [2, 5])
def test_equal_rows_and_classes_of_one_row_are_accepted(n):
    assert np.isfinite(Ncmml().fit(np.ones((2 * n, 3)), np.arange(2 * n) // 2).transform(np.ones((1, 3)))).all()
    assert np.isfinite(Ncmml().fit(np.eye(n + 1), np.arange(n + 1)).transform(np.eye(n + 1))).all()
