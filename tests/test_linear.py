import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge as TheirRidge
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.errors import InputError
from lookalike.learn.linear import Fda, InverseCovariance, Ridge
from lookalike.learn.pq_rows import PqRows

random = np.random.default_rng(2)
Y = random.integers(0, 4, 300)
X = random.normal(size=(300, 7)) @ random.normal(size=(7, 7)) + 2 * random.normal(size=(4, 7))[Y] + 3
ALL = [Fda(dim=3), Ridge(), InverseCovariance(dim=4)]


@parametrize_with_checks([Fda(), Ridge(), InverseCovariance()])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


def test_discriminants_equal_those_of_scikit_learn():
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(X, Y).transform(X)
    ours = Fda(lam=0).fit(X, Y).transform(X)
    assert ours.shape == (300, 3)
    ours, theirs = (Z / np.linalg.norm(Z, axis=0) for Z in (ours, theirs - theirs.mean(axis=0)))
    np.testing.assert_allclose(np.abs(ours.T @ theirs), np.eye(3), atol=1e-3)


def test_discriminants_give_classes_unit_variance():
    Z = Fda(lam=0).fit(X, Y).transform(X).astype(np.float64)
    within = Z - np.stack([Z[c == Y].mean(axis=0) for c in range(4)])[Y]
    np.testing.assert_allclose(within.T @ within / 300, np.eye(3), atol=1e-3)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-3)


@pytest.mark.parametrize("lam", [0.001, 0.1, 3.0])
def test_ridge_equals_that_of_scikit_learn(lam):
    absolute = lam * X.var(axis=0).mean()
    theirs = TheirRidge(alpha=absolute * len(X)).fit(X, np.eye(4)[Y])
    ours = Ridge(lam).fit(X, Y)
    np.testing.assert_allclose(ours.W_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.transform(X), theirs.predict(X), atol=1e-4)
    assert np.mean(ours.transform(X).argmax(axis=1) == Y) > 0.7


@pytest.mark.parametrize("lam", [1e-3, 0.5])
def test_distances_use_the_inverse_covariance(lam):
    covariance = np.cov(X.T, bias=True) + lam * X.var(axis=0).mean() * np.eye(7)
    W = InverseCovariance(dim=7, lam=lam).fit(X).W_
    np.testing.assert_allclose(W.T @ W, np.linalg.inv(covariance), rtol=1e-3, atol=1e-3)
    few = InverseCovariance(dim=3, lam=lam).fit(X)
    np.testing.assert_allclose(
        few.transform(X), InverseCovariance(dim=7, lam=lam).fit(X).transform(X)[:, :3], atol=1e-4
    )


@pytest.mark.parametrize("part", ALL)
def test_every_type_of_array_gives_the_same_result(part, tmp_path):
    torch = pytest.importorskip("torch")
    rows = X.astype(np.float32)
    expected = part.fit(rows, Y).transform(rows)
    np.save(tmp_path / "x.npy", rows)
    assert part.fit(np.load(tmp_path / "x.npy", mmap_mode="r"), Y).transform(rows).tobytes() == expected.tobytes()
    tensor = torch.from_numpy(rows)
    np.testing.assert_allclose(part.fit(tensor, torch.from_numpy(Y)).transform(tensor).numpy(), expected, atol=1e-3)
    packed = PqRows(rows)
    expected = part.fit(packed[:], Y).transform(packed[:])
    np.testing.assert_array_equal(part.fit(packed, Y).transform(packed), expected)


@pytest.mark.parametrize("part", ALL)
def test_unusable_training_data_is_rejected(part):
    bad = X.copy()
    bad[200, 2] = np.nan
    with pytest.raises(InputError, match="X must be finite"):
        part.fit(bad, Y)
    with pytest.raises(InputError, match=r"lam must be a finite number of at least 0. Got -1"):
        type(part)(lam=-1).fit(X, Y)
    if not isinstance(part, InverseCovariance):
        with pytest.raises(InputError, match="at least 2 classes"):
            part.fit(X, np.ones(300))
        with pytest.raises(InputError, match="Got none for 1 of 300 rows"):
            part.fit(X, np.where(np.arange(300) == 7, np.nan, Y))


@pytest.mark.parametrize("part", ALL)
@pytest.mark.filterwarnings("ignore::lookalike.errors.FewerDimensionsWarning")
def test_a_class_of_one_row_and_equal_rows_give_finite_values(part):
    y = Y.astype(str)
    y[5] = "alone"
    assert np.isfinite(part.fit(X, y).transform(X)).all()
    assert np.isfinite(part.fit(X[:4], np.arange(4)).transform(X)).all()
    assert np.isfinite(part.fit(np.ones((6, 7)), np.arange(6) % 2).transform(X)).all()
