import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.classes import knn as module
from lookalike.classes.knn import KnnClassifier
from lookalike.errors import InputError, UnknownNameError

random = np.random.default_rng(0)
Y = random.integers(0, 4, 200)
X = random.normal(size=(4, 6))[Y] + random.normal(size=(200, 6))
ASKED = random.normal(size=(60, 6))


@parametrize_with_checks([KnnClassifier(), KnnClassifier(k="auto")])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


def vote_slowly(rows, labels, ids, asked, k):
    """Predict row by row: most votes, then the nearest row, then the smallest id."""
    answers = []
    for row in asked:
        near = sorted(range(len(rows)), key=lambda i: (((rows[i] - row) ** 2).sum(), ids[i]))[:k]
        names = [labels[i] for i in near]
        answers.append(max(names, key=lambda name: (names.count(name), -names.index(name))))
    return answers


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 30))
def test_predictions_equal_a_plain_vote_including_ties(seed, k, n):
    random = np.random.default_rng(seed)
    rows, asked = (random.integers(0, 3, (size, 2)).astype(float) for size in (n, 10))  # so that there are many ties
    labels, ids = random.integers(0, 4, n), random.permutation(100)[:n]
    knn = KnnClassifier(k=k).fit(rows, labels, ids=ids)
    assert knn.predict(asked).tolist() == vote_slowly(rows, labels.tolist(), ids, asked, k)
    assert knn.predict(asked).tolist() == knn.classes_[knn.predict_proba(asked).argmax(axis=1)].tolist()


@pytest.mark.parametrize("index", ["flat", "ann"])
def test_probabilities_equal_those_of_scikit_learn(index):
    knn = KnnClassifier(k=7, index=index).fit(X, Y)
    shares = knn.predict_proba(ASKED)
    np.testing.assert_allclose(shares, KNeighborsClassifier(7).fit(X, Y).predict_proba(ASKED), atol=1e-8)
    np.testing.assert_allclose(shares.sum(axis=1), 1)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(-30, 30), min_size=1, max_size=8))
def test_any_order_of_adds_and_removes_equals_a_fresh_fit(seed, changes):
    random = np.random.default_rng(seed)
    names = np.array(["ant", "bee", "cow", "dodo"])
    kept = {i: (X[i], names[Y[i]]) for i in range(20)}
    knn = KnnClassifier(k=3).fit(X[:20], names[Y[:20]])
    for change in changes:
        if change > 0:
            rows, labels, first = (
                random.normal(size=(change, 6)),
                random.choice(names, change),
                max(kept, default=-1) + 1,
            )
            knn.partial_fit(rows, labels)
            kept.update({first + i: (rows[i], labels[i]) for i in range(change)})
        else:
            gone = random.permutation(list(kept))[:-change].tolist()
            assert knn.remove(np.array([*gone, 10_000], np.int64)) == len(gone)
            kept = {i: one for i, one in kept.items() if i not in gone}
    if not kept:
        with pytest.raises(InputError, match="no rows to compare with"):
            knn.predict(ASKED)
        return
    rows, labels = (np.array(part) for part in zip(*kept.values(), strict=True))
    fresh = KnnClassifier(k=3).fit(rows, labels, ids=np.array(list(kept)))
    assert knn.predict(ASKED).tolist() == fresh.predict(ASKED).tolist()
    assert knn.ids_.tolist() == fresh.ids_.tolist()


def test_new_classes_can_be_added_and_old_ones_stay():
    knn = KnnClassifier(k=1).fit([[0.0], [1.0]], ["bee", "cow"])
    knn.partial_fit([[5.0], [9.0]], ["ant", "dragonfly"], ids=[70, 60])
    assert knn.predict([[0.1], [1.2], [5.1], [8.0]]).tolist() == ["bee", "cow", "ant", "dragonfly"]
    assert knn.remove([70]) == 1
    assert knn.classes_.tolist() == ["ant", "bee", "cow", "dragonfly"]
    assert knn.predict_proba([[5.1]])[0, 0] == 0
    assert knn.partial_fit([[7.0]], ["emu"]).ids_.tolist() == [0, 1, 60, 61]
    with pytest.raises(InputError, match="61"):
        knn.partial_fit([[7.0]], ["fox"], ids=[61])
    assert knn.classes_.tolist() == ["ant", "bee", "cow", "dragonfly", "emu"]
    later = KnnClassifier(k=1).partial_fit([[0.0]], ["bee"], classes=["ant", "bee", "cow"])
    assert later.predict_proba([[1.0]]).tolist() == [[0, 1, 0]]


def test_later_changes_to_the_input_array_have_no_effect():
    rows = X.astype(np.float32)
    knn = KnnClassifier().fit(rows, Y)
    before = knn.predict_proba(ASKED)
    rows[:] = 0
    np.testing.assert_array_equal(knn.predict_proba(ASKED), before)


def test_k_is_chosen_by_classifying_each_row_by_the_others(monkeypatch):
    rows, labels = X[:100], Y[:100]
    noisy = np.where(random.random(100) < 0.3, random.integers(0, 4, 100), labels)
    knn = KnnClassifier(k="auto").fit(rows, noisy)
    right = {}
    for k in module.CHOICES:
        if k < 100:
            found = [
                vote_slowly(np.delete(rows, i, 0), np.delete(noisy, i).tolist(), range(99), rows[i : i + 1], k)[0]
                for i in range(100)
            ]
            right[k] = int((np.array(found) == noisy).sum())
    assert knn.k_ == max(right, key=lambda k: right[k])
    assert knn.k_ > 1
    assert knn.partial_fit(X[:1], Y[:1]).k_ == knn.k_
    monkeypatch.setattr(module, "MAX_VALIDATED", 50)
    assert KnnClassifier(k="auto").fit(rows, noisy).k_ == KnnClassifier(k="auto").fit(rows, noisy).k_
    assert KnnClassifier(k="auto").fit(X[:1], Y[:1]).k_ == 1
    twins = KnnClassifier(k="auto").fit(np.zeros((400, 2)), np.arange(400) % 2)  # more equal rows than neighbours
    assert twins.k_ in module.CHOICES


def test_one_class_one_row_and_fewer_rows_than_k():
    assert KnnClassifier(k=9).fit([[1.0]], ["cat"]).predict([[3.0], [1.0]]).tolist() == ["cat", "cat"]
    assert KnnClassifier(k=9).fit([[0.0], [1.0], [2.0]], [1, 2, 2]).predict([[0.0]]).tolist() == [2]
    assert KnnClassifier().fit(X, Y).predict(X[:0]).shape == (0,)
    assert KnnClassifier().fit(X, Y).predict_proba(X[:0]).shape == (0, 4)


def test_torch_rows_are_accepted():
    torch = pytest.importorskip("torch")
    knn = KnnClassifier().fit(torch.from_numpy(X), torch.from_numpy(Y))
    np.testing.assert_array_equal(
        knn.predict_proba(torch.from_numpy(ASKED)), KnnClassifier().fit(X, Y).predict_proba(ASKED)
    )


def test_bad_input_raises_an_error_and_changes_nothing():
    knn = KnnClassifier().fit(X, Y)
    bad = X.copy()
    bad[5, 5] = np.nan
    for method in (knn.fit, knn.partial_fit):
        with pytest.raises(InputError, match=r"X must be finite. Got NaN or infinity in 1 of 200 rows"):
            method(bad, Y)
        with pytest.raises(InputError, match=r"one label for each of 200 rows. Got 3"):
            method(X, Y[:3])
        with pytest.raises(InputError, match="Got NoneType"):
            method(X, [None, *Y[1:].tolist()])
        with pytest.raises(InputError, match="requires y to be passed"):
            method(X)
        with pytest.raises(InputError, match=r"one id for each of 200 rows. Got 1"):
            method(X, Y, ids=[3])
    with pytest.raises(InputError, match=r"X must be finite|query must be finite"):
        knn.predict(bad)
    for k in (0, 2.5, "many"):
        with pytest.raises(InputError, match='k must be a whole number of at least 1, or "auto"'):
            KnnClassifier(k=k).fit(X, Y)
    with pytest.raises(UnknownNameError, match="nonsense"):
        KnnClassifier(index="nonsense").fit(X, Y)
    with pytest.raises(NotFittedError):
        KnnClassifier().remove([1])
    np.testing.assert_array_equal(knn.predict(ASKED), KnnClassifier().fit(X, Y).predict(ASKED))
