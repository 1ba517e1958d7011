from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.errors import InputError
from lookalike.learn.chunklets import Dca, Rca

random = np.random.default_rng(5)
Y = random.integers(0, 4, 200)
X = random.normal(size=(200, 5)) @ random.normal(size=(5, 5)) + 2 * random.normal(size=(4, 5))[Y] + 3
BOTH = pytest.mark.parametrize("kind", [Rca, Dca])


@parametrize_with_checks([Rca(), Dca()])
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


def test_rca_equals_that_of_metric_learn():
    theirs = np.load(Path(__file__).parent / "golden" / "metric_learn.npz")
    W = Rca(lam=0).fit(theirs["X"], chunklets=theirs["chunklets"]).W_.astype(np.float64)
    np.testing.assert_allclose(W.T @ W, theirs["rca"], rtol=1e-4, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_the_metric_of_rca_is_the_inverse_within_class_covariance(seed):
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(40, 3)) * [1, 2, 3], random.integers(0, 3, 40)
    covariance = np.zeros((3, 3))
    for x, label in zip(X, y, strict=True):
        off = x - X[y == label].mean(axis=0)
        covariance += np.outer(off, off) / 40
    W = Rca(lam=0).fit(X, y).W_.astype(np.float64)
    np.testing.assert_allclose(W.T @ W, np.linalg.inv(covariance), rtol=1e-3, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_dca_gives_the_best_ratio_in_the_span_of_the_means(seed, C):
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(60, 5)) * [1, 2, 3, 1, 1], np.arange(60) % C
    X += random.normal(size=(C, 5))[y]
    groups = [X[y == c] for c in range(C)]
    means = [group.mean(axis=0) for group in groups]
    inside = np.mean([np.cov(group.T, bias=True) for group in groups], axis=0)
    pairs = [np.outer(means[i] - means[j], means[i] - means[j]) for i in range(C) for j in range(C) if i != j]
    between = np.mean(pairs, axis=0)
    W = Dca(lam=0).fit(X, y).W_.astype(np.float64)
    assert W.shape == (C - 1, 5)
    np.testing.assert_allclose(W @ inside @ W.T, np.eye(C - 1), atol=1e-3)
    ratios = np.diag(W @ between @ W.T)
    np.testing.assert_allclose(W @ between @ W.T, np.diag(ratios), atol=1e-3 * ratios.max())
    assert (np.diff(ratios) <= 1e-3 * ratios.max()).all()
    for other in random.normal(size=(20, C)) @ np.array(means - np.mean(means, axis=0)):
        assert other @ between @ other <= (1 + 1e-3) * ratios[0] * (other @ inside @ other)
    np.testing.assert_array_equal(Dca(dim=1, lam=0).fit(X, y).W_, W[:1].astype(np.float32))


@BOTH
def test_chunklets_replace_labels_and_rows_without_a_chunklet_are_ignored(kind):
    some = np.arange(200) < 150
    chunklets = np.where(some, Y, -1)
    np.testing.assert_allclose(
        kind().fit(X, chunklets=chunklets).W_, kind().fit(X[some], Y[some]).W_, rtol=1e-5, atol=1e-6
    )


@BOTH
def test_torch_gives_the_same_results(kind):
    torch = pytest.importorskip("torch")
    ours, theirs = kind().fit(X, Y), kind().fit(torch.from_numpy(X), torch.from_numpy(Y))
    np.testing.assert_allclose(theirs.transform(torch.from_numpy(X)).numpy(), ours.transform(X), atol=1e-4)


@BOTH
def test_invalid_training_data_is_refused(kind):
    with pytest.raises(InputError, match=r"lam must be a finite number of at least 0. Got -1"):
        kind(lam=-1).fit(X, Y)
    with pytest.raises(InputError, match="at least 2 classes"):
        kind().fit(X, np.ones(200))
    with pytest.raises(InputError, match="Got -1 for all rows"):
        kind().fit(X, chunklets=np.full(200, -1))
    with pytest.raises(InputError, match="a whole number for each of 200 rows"):
        kind().fit(X, chunklets=Y[:9])


@BOTH
def test_classes_of_one_row_and_equal_rows_give_finite_results(kind):
    assert np.isfinite(kind().fit(X, np.arange(200)).transform(X)).all()
    assert np.isfinite(kind().fit(np.ones((6, 5)), np.arange(6) % 2).transform(X)).all()
