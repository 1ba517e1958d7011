import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike import registry
from lookalike.codes import tsvmh as module
from lookalike.codes.bits import unpack
from lookalike.codes.rtsvm import RobustTsvm
from lookalike.codes.tsvmh import HingeTsvmh, Tsvmh
from lookalike.errors import InputError


def clouds(n=200, C=5, d=6, seed=0, unlabelled=0.3, spread=1.5):
    X, y = make_blobs(n, d, centers=C, cluster_std=spread, random_state=seed)
    return X, np.where(np.random.default_rng(seed).random(n) < unlabelled, -1, y), y


def distances(A, B):
    """Hamming distances of packed codes, (n, m), bit by bit."""
    A, B = (unpack(codes) for codes in (A, B))
    return (A[:, None] != B[None]).sum(axis=2)


X, Y, TRUTH = clouds()


@parametrize_with_checks([Tsvmh(bits=8)])
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    check(estimator)


@settings(max_examples=4, deadline=None)
@given(C=st.integers(2, 5), long=st.sampled_from([24, 32]), short=st.sampled_from([8, 16]), seed=st.integers(0, 99))
def test_a_short_code_is_the_beginning_of_a_long_one(C, long, short, seed):
    X, y, _ = clouds(60, C, seed=seed)
    one, other = (Tsvmh(bits=bits, sample=10, random_state=seed).fit(X, y) for bits in (short, long))
    np.testing.assert_array_equal(one.encode(X), other.encode(X)[:, : short // 8])
    np.testing.assert_array_equal(one.W_, other.W_[:short])


def test_bits_are_the_signs_of_scores():
    coder = Tsvmh(bits=16).fit(X, Y)
    scores, codes = coder.project(X), coder.encode(X)
    assert scores.dtype == np.float32
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(unpack(codes), scores > 0)


def test_bits_tell_the_groups_of_classes_apart_that_they_say():
    X, y, truth = clouds(spread=0.5)
    coder = Tsvmh(bits=8).fit(X, y)
    sides, bits = coder.sides_, np.where(coder.project(X) > 0, 1, -1)
    assert sides.shape == (8, 5)
    assert (np.abs(sides[0]) == 1).all()  # the root of the first tree
    for j in range(8):
        inside = sides[j, truth] != 0
        assert (bits[inside, j] == sides[j, truth[inside]]).mean() > 0.98


def test_codes_of_a_class_are_nearer_to_each_other_than_to_other_classes():
    codes = Tsvmh(bits=32).fit(X, Y).encode(X)
    away = distances(codes, codes)
    same = TRUTH[:, None] == TRUTH
    assert away[same].mean() < 0.4 * away[~same].mean()


def test_trees_differ():
    coder = Tsvmh(bits=16, sample=10).fit(X, Y)
    assert not np.array_equal(coder.W_[0], coder.W_[4])
    assert np.unique(coder.W_, axis=0).shape[0] == 16


def test_processes_make_the_same_codes_as_one():
    one, two = (Tsvmh(bits=8, n_jobs=n_jobs).fit(X, Y) for n_jobs in (None, 2))
    assert one.W_.tobytes() == two.W_.tobytes()
    assert one.b_.tobytes() == two.b_.tobytes()


def test_where_and_how_large_rows_are_does_not_matter():
    plain, moved = Tsvmh(bits=16).fit(X, Y), Tsvmh(bits=16).fit(100 * X + 30, Y)
    same = distances(plain.encode(X), moved.encode(100 * X + 30)).diagonal()
    assert same.mean() < 0.2


def test_labels_are_read_as_any_kind():
    names = np.array(["owl", "cat", "fox", "ant", "bee"], object)
    named = np.where(Y < 0, None, names[Y])
    floats = np.where(Y < 0, np.nan, Y)
    expected = Tsvmh(bits=16).fit(X, Y)
    np.testing.assert_array_equal(Tsvmh(bits=16).fit(X, floats).W_, expected.W_)
    coder = Tsvmh(bits=16).fit(X, named)
    assert coder.classes_.tolist() == sorted(names)
    assert (distances(coder.encode(X), coder.encode(X))[TRUTH == 0][:, TRUTH == 0] < 8).all()


def test_several_labels_a_row_make_categories():
    random = np.random.default_rng(0)
    labels = random.random((120, 2)) < 0.6
    X = labels * 4 + 0.3 * random.normal(size=(120, 2))
    coder = Tsvmh(bits=16).fit(X, labels)
    assert coder.classes_.shape == (3, 2)  # rows with no label at all are unlabelled
    codes = coder.encode([[4, 0], [0, 4], [4, 4]])
    assert (distances(codes, codes) + 9 * np.eye(3) > 0).all()


@pytest.mark.parametrize("unlabelled", [0.05, 0.7])
def test_unlabelled_rows_are_coded_like_their_kind(unlabelled):
    X, y, truth = clouds(400, spread=0.7, unlabelled=unlabelled)
    codes = Tsvmh(bits=16).fit(X, y).encode(X)
    away = distances(codes[y < 0], codes[y >= 0])
    same = truth[y < 0][:, None] == truth[y >= 0]
    assert away[same].mean() < 0.5
    assert away[~same].mean() > 4


def test_a_tree_takes_no_more_unlabelled_rows_than_labelled_ones_could_be():
    X, y, truth = clouds(600, 3, spread=0.7, unlabelled=0.8)
    seen = []

    class Watched(RobustTsvm):
        def fit(self, X, y):
            seen.append((y == 0).sum())
            return super().fit(X, y)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RobustTsvm", Watched)
        coder = Tsvmh(bits=8, sample=20).fit(X, y)
    assert seen[0] == 60
    assert max(seen) == 60
    bits = np.where(coder.project(X) > 0, 1, -1)
    assert (bits[:, 0] == coder.sides_[0, truth]).mean() > 0.95


def test_a_handful_of_unlabelled_rows_does_not_hold_a_plane():
    X = np.array([[0.0], [1], [10], [11], [20], [21], [10.5]])
    coder = Tsvmh(bits=8).fit(X, [0, 0, 1, 1, 2, 2, -1])
    codes = coder.encode(X)
    assert distances(codes[6:], codes)[0].tolist()[2:4] == [0, 0]


def test_scores_are_in_units_of_the_margin():
    X, _, truth = clouds(spread=0.3)
    coder = Tsvmh(bits=8, C=1e4).fit(X, truth)
    scores = np.abs(coder.project(X))
    inside = coder.sides_[:, truth].T != 0
    nearest = np.where(inside, scores, np.inf).min(axis=0)  # of the rows that a plane tells apart
    np.testing.assert_allclose(nearest, 1, atol=0.2)


def test_an_embedding_is_the_distance_from_each_plane():
    coder = Tsvmh(bits=16).fit(X, Y)
    np.testing.assert_allclose(
        coder.transform(X), coder.project(X) / np.linalg.norm(coder.W_, axis=1), rtol=1e-4, atol=1e-5
    )


def test_noise_in_labels_costs_the_ramp_less_than_the_hinge():
    X, _, truth = clouds(600, 4, spread=2.0, unlabelled=0)
    random = np.random.default_rng(1)
    X[random.random(600) < 0.2] *= 3
    noisy = np.where(random.random(600) < 0.2, random.integers(4, size=600), truth)

    def gap(coder):  # how much nearer codes of a class are, as a share
        away = distances(*[coder.encode(X[::3])] * 2)
        same = truth[::3, None] == truth[::3]
        return 1 - away[same].mean() / away[~same].mean()

    lost = [gap(cls(bits=24).fit(X, truth)) - gap(cls(bits=24).fit(X, noisy)) for cls in (Tsvmh, HingeTsvmh)]
    assert lost[0] < lost[1]


def test_it_is_saved_as_arrays_and_comes_back():
    coder = registry.create("coder", "tsvm(bits=16)").fit(X, Y)
    assert registry.kind_of(coder) == ("coder", "tsvm")
    again = registry.restore("coder", registry.spec_of(coder), registry.state_of(coder))
    np.testing.assert_array_equal(again.encode(X), coder.encode(X))


def test_zero_rows_and_no_rows_are_taken():
    some = X.copy()
    some[:20] = 0
    coder = Tsvmh(bits=8).fit(some, Y)
    assert coder.encode(np.zeros((2, 6))).shape == (2, 1)
    assert coder.encode(np.empty((0, 6))).shape == (0, 1)
    np.testing.assert_array_equal(coder.encode(X), np.concatenate([coder.encode(row[None]) for row in X]))
    assert np.isfinite(Tsvmh(bits=8).fit(np.zeros((200, 6)), Y).W_).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 12}, "a multiple of 8, at least 8. Got 12"),
        ({"bits": 0}, "a multiple of 8, at least 8. Got 0"),
        ({"C": -1}, "C must be a number from 1e-30 to 1e30. Got -1"),
        ({"C_unlabelled": -1}, "C_unlabelled must be a number from 0 to 1e30. Got -1"),
        ({"sample": 0}, "sample must be a whole number of at least 1. Got 0"),
        ({"random_state": None}, "random_state must be a whole number of at least 0. Got None"),
    ],
)
def test_bad_parameters_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        Tsvmh(**change).fit(X, Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        (np.full(200, -1), "y must hold some labels. Got none; a coder that needs no labels, such as itq"),
        (
            np.where(np.arange(200) < 50, 3, -1),
            "at least 2 classes to tell apart, besides -1 .* Got 1 class",
        ),
        (np.arange(200) / 7, "Got continuous numbers, such as 0.14"),
        (np.arange(3), r"labels of each of 200 rows. Got shape \(3,\)"),
    ],
)
def test_labels_that_cannot_be_learned_from_are_refused(y, message):
    with pytest.raises(InputError, match=message):
        Tsvmh(bits=8).fit(X, y)


def test_an_unfitted_one_says_so():
    with pytest.raises(NotFittedError):
        Tsvmh().encode(X)
