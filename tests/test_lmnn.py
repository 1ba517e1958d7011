import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.errors import InputError, UnknownNameError
from lookalike.learn.lmnn import Lmnn, count_votes


def draw(seed, n, noise=8, scale=3.0):
    """Four classes in four columns, and columns that are larger and say nothing."""
    random = np.random.default_rng(seed)
    means, y = np.eye(4) * 4, random.integers(0, 4, n)
    return np.hstack([means[y] + random.normal(size=(n, 4)), scale * random.normal(size=(n, noise))]), y


X, Y = draw(0, 240)


def accuracy(change, seed):
    rows, y = draw(seed, 600)
    change.fit(rows[:300], y[:300])
    knn = KNeighborsClassifier(5).fit(change.transform(rows[:300]), y[:300])
    return knn.score(change.transform(rows[300:]), y[300:])


class Plain:
    def fit(self, X, y):
        return self

    def transform(self, X):
        return X


@parametrize_with_checks([Lmnn(max_iterations=10)])
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    check(estimator)


def test_neighbours_under_the_metric_are_righter_than_by_l2_and_dynamic_targets_do_not_do_worse():
    results = {
        name: np.array([accuracy(make(), seed) for seed in (1, 2)])
        for name, make in {
            "l2": Plain,
            "dynamic": lambda: Lmnn(max_iterations=200),
            "fixed": lambda: Lmnn(targets="fixed", max_iterations=200),
            "all": lambda: Lmnn(targets="all", max_iterations=200),
        }.items()
    }
    means = {name: values.mean() for name, values in results.items()}
    assert min(means["dynamic"], means["fixed"], means["all"]) > means["l2"] + 0.05
    noise = np.sqrt(2 * means["fixed"] * (1 - means["fixed"]) / 600)
    assert means["dynamic"] > means["fixed"] - 2 * noise


@pytest.mark.parametrize("targets", ["dynamic", "fixed", "all"])
def test_torch_gives_the_same_numbers(targets):
    torch = pytest.importorskip("torch")
    ours = Lmnn(dim=5, targets=targets, max_iterations=20).fit(X, Y)
    theirs = Lmnn(dim=5, targets=targets, max_iterations=20).fit(torch.from_numpy(X), torch.from_numpy(Y))
    assert isinstance(theirs.W_, torch.Tensor)
    np.testing.assert_allclose(theirs.W_.numpy(), ours.W_, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(ours.transform(torch.from_numpy(X)).numpy(), ours.transform(X), atol=1e-4)


def test_the_best_iterate_is_kept_and_the_curve_tells_of_it():
    calls = []
    metric = Lmnn(max_iterations=300).fit(X, Y, callback=lambda *one: calls.append(one))
    assert [call[0] for call in calls] == metric.curve_[:, 0].tolist()
    assert metric.curve_[0, 0] == 0
    assert np.isnan(metric.curve_[0, 1])
    assert metric.curve_[:, 2].max() > metric.curve_[0, 2]


def test_rows_of_ones_own_to_validate_on():
    rows, y = draw(9, 100)
    metric = Lmnn(max_iterations=50).fit(X, Y, held=(rows, y))
    assert metric.curve_.shape == (3, 3)
    Lmnn(max_iterations=50, measure="map").fit(X, Y, held=(rows, y + 100))  # of other classes
    with pytest.raises(InputError):
        Lmnn(max_iterations=50).fit(X, Y, held=(rows, y + 100))


def test_labels_may_be_words_and_classes_small():
    y = np.array(["ant", "bee", "cow", "dog"])[Y].astype(object)
    y[:2] = "elk", "fox"  # one image each: they can only be told from
    metric = Lmnn(k=100, max_iterations=50).fit(X, y)  # k is larger than any class
    assert metric.classes_.tolist() == ["ant", "bee", "cow", "dog", "elk", "fox"]
    assert np.isfinite(metric.transform(X)).all()
    same = Lmnn(k=100, max_iterations=50).fit(X, np.array(list("abcdef"))[np.unique(y, return_inverse=True)[1]])
    np.testing.assert_array_equal(metric.W_, same.W_)
    for targets in ("fixed", "all"):
        assert np.isfinite(Lmnn(targets=targets, k=100, max_iterations=50).fit(X, y).W_).all()


def test_two_rows_of_a_class_and_one_of_another_are_enough():
    assert np.isfinite(Lmnn().fit([[0.0, 1], [0, 2], [3, 1]], [0, 0, 1]).W_).all()


@pytest.mark.parametrize("scale", [1e-4, 1e6])
def test_the_scale_of_the_rows_does_not_count(scale):
    one, other = (Lmnn(max_iterations=60).fit(rows, Y) for rows in (X, X * scale))
    np.testing.assert_allclose(other.W_ * scale, one.W_, rtol=0.02, atol=0.01 * np.abs(one.W_).max())


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(240), "at least 2 classes"),
        (None, "requires y to be passed"),
        (np.where(np.arange(240) == 7, np.nan, Y), "label for each row"),
        (Y[:100], "one label for each of 240 rows"),
    ],
)
def test_labels_that_cannot_be_learned_from_are_refused(y, message):
    with pytest.raises(InputError, match=message):
        Lmnn().fit(X, y)


def test_rows_without_a_pair_are_refused():
    with pytest.raises(InputError, match=r"y must give a class to 2 rows or more. Got 9 rows and 9 classes."):
        Lmnn().fit(X[:9], np.arange(9))


def test_rows_that_are_not_finite_are_refused():
    rows = X.copy()
    rows[17, 3] = np.nan
    with pytest.raises(InputError, match=r"X must be finite. Got NaN or infinity in 1 of 240 rows"):
        Lmnn().fit(rows, Y)


@pytest.mark.parametrize(
    "options", [{"dim": 0}, {"k": 0}, {"k": 2.5}, {"rate": 0}, {"rate": np.nan}, {"max_iterations": 0}]
)
def test_options_that_cannot_be_right_are_refused(options):
    with pytest.raises(InputError, match=rf"{next(iter(options))} must be"):
        Lmnn(**options).fit(X, Y)
    for name in ("targets", "measure"):
        with pytest.raises(UnknownNameError, match="nonsense"):
            Lmnn(**{name: "nonsense"}).fit(X, Y)


def test_votes_are_those_of_a_plain_count():
    random = np.random.default_rng(5)
    asked, seen, codes = random.normal(size=(20, 3)), random.normal(size=(50, 3)), random.integers(0, 3, 50)
    votes = count_votes(asked, seen, codes, 7)
    for row, got in zip(asked, votes, strict=True):
        near = np.argsort(((seen - row) ** 2).sum(axis=1))[:7]
        np.testing.assert_allclose(got, np.bincount(codes[near], minlength=3), atol=1e-5)
    assert count_votes(asked, seen, codes, 500).round() == pytest.approx(np.bincount(codes)[None].repeat(20, axis=0))
