import numpy as np
import pytest

from lookalike.arrays import distances
from lookalike.errors import InputError, UnknownNameError
from lookalike.index.fsm_tree import DISTANCES
from lookalike.kernels import KERNELS, TANGENTS, check_kernel, typical_gamma
from reference import kernels as slow

random = np.random.default_rng(2)
X, Y = random.normal(size=(7, 5)), random.normal(size=(4, 5))


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_equal_their_formulas(name):
    pairs, diagonal, *_ = check_kernel(name, 0.3)
    np.testing.assert_allclose(
        pairs(X, Y, 0.3), slow.gram(X, Y, getattr(slow, name.replace("-", "_"))(0.3)), rtol=1e-12
    )
    np.testing.assert_allclose(diagonal(X, 0.3), np.diag(pairs(X, X, 0.3)), rtol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_the_same_in_torch_and_do_not_change_the_rows(name):
    torch = pytest.importorskip("torch")
    pairs, diagonal, *_ = KERNELS[name]
    x, y = torch.from_numpy(X.copy()), torch.from_numpy(Y.copy())
    np.testing.assert_allclose(pairs(x, y, 0.3).numpy(), pairs(X, Y, 0.3), rtol=1e-12)
    np.testing.assert_allclose(diagonal(x, 0.3).numpy(), diagonal(X, 0.3), rtol=1e-12)
    assert pairs(x.float(), y.float(), 0.3).dtype == diagonal(x.float(), 0.3).dtype == torch.float32
    np.testing.assert_array_equal(x.numpy(), X)


@pytest.mark.parametrize("name", TANGENTS)
def test_tangents_touch_the_kernel_where_both_rows_are_equal(name):
    pairs, tangent = KERNELS[name].pairs, TANGENTS[name]
    slope, level, _ = tangent(X, 0.3)
    for step, error in ((0.0, 1e-12), (1e-4, 1e-6)):  # the error grows with the square of the step
        near = X + step * random.normal(size=X.shape)
        got = slope * np.sum(X * near, axis=1) + level - tangent(near, 0.3)[2]
        np.testing.assert_allclose(got, np.diag(pairs(X, near, 0.3)), atol=error)


def test_rounding_never_makes_a_gaussian_larger_than_one():
    rows = (1e3 + 1e-3 * random.normal(size=(50, 8))).astype(np.float32)
    assert check_kernel("gaussian", 10.0).pairs(rows, rows, 10.0).max() <= 1


def test_unknown_kernels_and_invalid_gammas_are_rejected():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'gaussian'"):
        check_kernel("gauss", 1.0)
    for gamma in (0, -1.0, np.nan, np.inf, "1", None):
        with pytest.raises(InputError, match=r"gamma must be a number above 0. Got"):
            check_kernel("gaussian", gamma)


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_in_the_feature_space_follow_from_input_distances(name):
    k = getattr(slow, name.replace("-", "_"))(0.3)
    want = np.sqrt([[k(x, x) + k(y, y) - 2 * k(x, y) for y in Y] for x in X])
    got = DISTANCES[name](distances(X, Y, KERNELS[name].norm or 2), 0.3)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_the_error_lists_the_allowed_kernels():
    with pytest.raises(UnknownNameError, match="gaussian, linear, poly"):
        check_kernel("laplace", 1.0, TANGENTS)


def test_the_typical_gamma_follows_from_the_median_distance():
    rows = random.normal(size=(40, 5))
    pairs = np.triu_indices(40, 1)
    far = np.median(np.abs(rows[:, None] - rows).sum(axis=2)[pairs])
    assert typical_gamma("laplace", rows) == pytest.approx(1 / far)
    assert typical_gamma("gaussian-l1", rows) == pytest.approx(1 / far**2)
    assert typical_gamma("gaussian", rows) == pytest.approx(1 / np.median(((rows[:, None] - rows) ** 2).sum(2)[pairs]))
    for name, few in (("linear", rows), ("laplace", rows[:1]), ("laplace", np.ones((5, 5)))):
        assert typical_gamma(name, few) == 1.0
