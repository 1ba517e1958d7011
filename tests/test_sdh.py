import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike import registry
from lookalike.codes.bits import unpack
from lookalike.codes.sdh import Sdh, update_bits
from lookalike.errors import InputError

X, Y = make_blobs(150, 5, centers=5, cluster_std=1.0, random_state=0)
SOME = np.where(np.arange(150) % 4 == 0, -1, Y)


@parametrize_with_checks([Sdh(bits=8)])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), nu=st.sampled_from([0.0, 1e-5, 0.1, 10.0]), lam=st.sampled_from([1e-3, 1.0, 100.0]))
def test_the_loss_never_rises(seed, nu, lam):
    coder = Sdh(bits=16, anchors=20, nu=nu, lam=lam, random_state=seed).fit(X, SOME)
    assert (np.diff(coder.losses_) <= 1e-4 * coder.losses_[:-1] + 1e-6).all()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 6), bits=st.integers(1, 5))
def test_flipping_a_single_bit_never_reduces_the_loss(seed, n, bits):
    random = np.random.default_rng(seed)
    B = random.choice(np.array([-1, 1], np.float32), (n, bits))
    labels, W, pull = random.random((n, 2)), random.normal(size=(bits, 2)), random.normal(size=(n, bits))

    def loss(B):  # what of the whole depends on B: ‖Y − BW‖² + ν‖B‖² − 2ν⟨B, F⟩ with ‖B‖² constant
        return np.square(labels - B @ W).sum() - 2 * (B * pull).sum()

    before = loss(B)
    update_bits(B, labels, W, pull)
    assert set(np.unique(B)) <= {-1.0, 1.0}
    assert loss(B) <= before + 1e-6
    if not _converged(B, labels, W, pull):
        return  # the number of sweeps is limited
    for i in range(n):
        for j in range(bits):
            other = B.copy()
            other[i, j] *= -1
            assert loss(other) >= loss(B) - 1e-6


def _converged(B, labels, W, pull):
    again = B.copy()
    update_bits(again, labels, W, pull)
    return np.array_equal(again, B)


def test_it_separates_classes_that_no_plane_separates():
    random = np.random.default_rng(0)
    X = random.random((900, 2))
    y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)
    codes = np.unpackbits(Sdh(bits=16, anchors=200).fit(X[:600], y[:600]).encode(X[600:]), axis=1)
    away = (codes[:, None] != codes[None]).sum(axis=2)
    same = y[600:, None] == y[600:]
    assert away[same].mean() < 0.3 * away[~same].mean()


def test_bits_are_the_signs_of_scores():
    coder = Sdh(bits=16).fit(X, SOME)
    scores, codes = coder.project(X), coder.encode(X)
    np.testing.assert_array_equal(unpack(codes), scores > 0)
    assert coder.encode(np.empty((0, 5))).shape == (0, 2)


def test_scores_are_computed_from_kernels_with_the_anchors():
    coder = Sdh(bits=8, anchors=30).fit(X + 100, Y)
    away = np.square((X + 100)[:, None] - coder.anchors_[None].astype(np.float64)).sum(axis=2)
    assert coder.width_ == pytest.approx(away.mean(), rel=1e-3)
    expected = np.exp(-away / coder.width_) @ coder.P_ + coder.b_
    np.testing.assert_allclose(coder.project(X + 100), expected, rtol=1e-3, atol=1e-3 * np.abs(coder.P_).max())


def test_unlabelled_rows_are_ignored_and_many_rows_are_sampled(monkeypatch):
    expected = Sdh(bits=8).fit(X[SOME >= 0], SOME[SOME >= 0])
    np.testing.assert_array_equal(Sdh(bits=8).fit(X, SOME).P_, expected.P_)
    monkeypatch.setattr("lookalike.codes.sdh.ROWS", 50)
    assert Sdh(bits=8).fit(X, SOME).anchors_.shape == (50, 5)


def test_several_labels_per_row_are_accepted():
    labels = np.random.default_rng(0).random((150, 3)) < 0.5
    assert Sdh(bits=8).fit(X, labels).encode(X).shape == (150, 1)


def test_it_is_saved_as_arrays_and_restored():
    coder = registry.create("coder", "sdh(bits=8, anchors=9)").fit(X, Y)
    again = registry.restore("coder", registry.spec_of(coder), registry.state_of(coder))
    np.testing.assert_array_equal(again.encode(X), coder.encode(X))


def test_equal_rows_are_accepted():
    assert np.isfinite(Sdh(bits=8).fit(np.zeros((150, 5)), Y).project(np.zeros((2, 5)))).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 12}, "a multiple of 8, and at least 8. Got 12"),
        ({"anchors": 0}, "anchors must be a whole number of at least 1. Got 0"),
        ({"lam": 0}, "lam must be a number from 1e-30 to 1e30. Got 0"),
        ({"nu": -1}, "nu must be a number from 0 to 1e30. Got -1"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1. Got 0"),
        ({"random_state": None}, "random_state must be a whole number of at least 0. Got None"),
    ],
)
def test_invalid_parameters_are_rejected(change, message):
    with pytest.raises(InputError, match=message):
        Sdh(**change).fit(X, Y)


@pytest.mark.parametrize("y", [None, np.full(150, -1), np.zeros(150)])
def test_unusable_labels_are_rejected(y):
    with pytest.raises(InputError, match="y"):
        Sdh().fit(X, y)


def test_an_unfitted_coder_raises_an_error():
    with pytest.raises(NotFittedError):
        Sdh().encode(X)
