import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.errors import InputError, UnknownNameError
from lookalike.learn import Lmnn
from lookalike.learn.lmnn import TripletBatches, count_triplets, count_votes, nearest_of_class, triplet_loss
from reference.lmnn import counts, targets_of, triplet_loop


def make_rows(seed, n, noise=8, scale=3.0):
    """Four classes that differ in four columns, and larger columns of noise."""
    random = np.random.default_rng(seed)
    means, y = np.eye(4) * 4, random.integers(0, 4, n)
    return np.hstack([means[y] + random.normal(size=(n, 4)), scale * random.normal(size=(n, noise))]), y


X, Y = make_rows(0, 240)


def accuracy(change, seed):
    rows, y = make_rows(seed, 600)
    change.fit(rows[:300], y[:300])
    knn = KNeighborsClassifier(5).fit(change.transform(rows[:300]), y[:300])
    return knn.score(change.transform(rows[300:]), y[300:])


class Plain:
    def fit(self, X, y):
        return self

    def transform(self, X):
        return X


@parametrize_with_checks([Lmnn(max_iterations=10)])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


def test_the_metric_beats_l2_and_dynamic_targets_are_not_worse_than_fixed_ones():
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
def test_torch_gives_the_same_results(targets):
    torch = pytest.importorskip("torch")
    ours = Lmnn(dim=5, targets=targets, max_iterations=20).fit(X, Y)
    theirs = Lmnn(dim=5, targets=targets, max_iterations=20).fit(torch.from_numpy(X), torch.from_numpy(Y))
    assert isinstance(theirs.W_, torch.Tensor)
    np.testing.assert_allclose(theirs.W_.numpy(), ours.W_, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(ours.transform(torch.from_numpy(X)).numpy(), ours.transform(X), atol=1e-4)


def test_the_curve_records_every_validation_of_the_fit():
    calls = []
    metric = Lmnn(max_iterations=300).fit(X, Y, callback=lambda *one: calls.append(one))
    assert [call[0] for call in calls] == metric.curve_[:, 0].tolist()
    assert metric.curve_[0, 0] == 0
    assert np.isnan(metric.curve_[0, 1])
    assert metric.curve_[:, 2].max() > metric.curve_[0, 2]


def test_a_separate_validation_set_can_be_given():
    rows, y = make_rows(9, 100)
    metric = Lmnn(max_iterations=50).fit(X, Y, held=(rows, y))
    assert metric.curve_.shape == (3, 3)
    Lmnn(max_iterations=50, measure="map").fit(X, Y, held=(rows, y + 100))  # their classes are not in the training data
    with pytest.raises(InputError):
        Lmnn(max_iterations=50).fit(X, Y, held=(rows, y + 100))


def test_labels_can_be_words_and_classes_can_be_small():
    y = np.array(["ant", "bee", "cow", "dog"])[Y].astype(object)
    y[:2] = "elk", "fox"  # one image each: they only serve as impostors
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
def test_the_scale_of_the_rows_does_not_matter(scale):
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
def test_unusable_labels_are_rejected(y, message):
    with pytest.raises(InputError, match=message):
        Lmnn().fit(X, y)


def test_labels_without_any_pair_are_rejected():
    with pytest.raises(InputError, match=r"y must contain a class with at least 2 rows. Got 9 rows and 9 classes."):
        Lmnn().fit(X[:9], np.arange(9))


def test_rows_that_are_not_finite_are_rejected():
    rows = X.copy()
    rows[17, 3] = np.nan
    with pytest.raises(InputError, match=r"X must be finite. Got NaN or infinity in 1 of 240 rows"):
        Lmnn().fit(rows, Y)


@pytest.mark.parametrize(
    "options", [{"dim": 0}, {"k": 0}, {"k": 2.5}, {"rate": 0}, {"rate": np.nan}, {"max_iterations": 0}]
)
def test_invalid_options_are_rejected(options):
    with pytest.raises(InputError, match=rf"{next(iter(options))} must be"):
        Lmnn(**options).fit(X, Y)
    for name in ("targets", "measure"):
        with pytest.raises(UnknownNameError, match="nonsense"):
            Lmnn(**{name: "nonsense"}).fit(X, Y)


def test_votes_equal_a_plain_count():
    random = np.random.default_rng(5)
    asked, seen, codes = random.normal(size=(20, 3)), random.normal(size=(50, 3)), random.integers(0, 3, 50)
    votes = count_votes(asked, seen, codes, 7)
    for row, got in zip(asked, votes, strict=True):
        near = np.argsort(((seen - row) ** 2).sum(axis=1))[:7]
        np.testing.assert_allclose(got, np.bincount(codes[near], minlength=3), atol=1e-5)
    assert count_votes(asked, seen, codes, 500).round() == pytest.approx(np.bincount(codes)[None].repeat(20, axis=0))


MODES = ("dynamic", "fixed", "all")


def problem(seed, q, b, d=4, D=3):
    random = np.random.default_rng(seed)
    X = random.normal(size=(q + b, d)) + 3
    W = random.normal(size=(D, d)) * random.uniform(0.2, 0.8)
    return W, X


def as_targets(mode, X, q, k):
    """The targets that `triplet_loss` expects for a mode: fixed ones are nearest by ℓ2, -1 if a class has too few."""
    if mode != "fixed":
        return None if mode == "all" else k
    lists = targets_of(X[:q], np.zeros(q), "fixed", k)
    return np.array([one + [-1] * (k - len(one)) for one in lists])


def positives(mode, W, X, q, k):
    return targets_of(X[:q], np.zeros(q), mode, k, W)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 6), st.sampled_from(MODES), st.integers(1, 8))
def test_loss_and_gradient_equal_the_triplet_loop(seed, q, b, mode, k):
    W, X = problem(seed, q, b)
    wanted = positives(mode, W, X, q, k)
    loss, gradient, count, _ = triplet_loop(W, X, range(q), wanted, [list(range(q, q + b))] * q)
    got = triplet_loss(W, X, q, as_targets(mode, X, q, k))
    np.testing.assert_allclose(got.loss, loss, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(got.gradient, gradient, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(got.active, count[:, q:].sum() / (b * sum(map(len, wanted))), rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 6), st.sampled_from(MODES), st.integers(1, 3))
def test_the_gradient_equals_finite_differences(seed, q, b, mode, k):
    W, X = problem(seed, q, b)
    wanted = positives(mode, W, X, q, k)
    kink = triplet_loop(W, X, range(q), wanted, [list(range(q, q + b))] * q)[3]
    assume(kink > 1e-3)
    if mode == "dynamic":  # a change of targets is also a kink
        Z = X[:q] @ W.T
        gaps = np.diff(np.sort(((Z[:, None] - Z) ** 2).sum(axis=2), axis=1), axis=1)
        assume(gaps.min() > 1e-3)
    targets, step = as_targets(mode, X, q, k), 1e-6
    numeric = np.empty(W.shape)
    for place in np.ndindex(*W.shape):
        shift = np.zeros(W.shape)
        shift[place] = step
        up, down = (float(triplet_loss(W + sign * shift, X, q, targets).loss) for sign in (1, -1))
        numeric[place] = (up - down) / (2 * step)
    np.testing.assert_allclose(triplet_loss(W, X, q, targets).gradient, numeric, rtol=1e-5, atol=1e-6)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(0, 6), st.integers(0, 6))
def test_counts_by_sorting_equal_a_loop_even_for_equal_distances(seed, q, k, b):
    random = np.random.default_rng(seed)
    near, far = (random.integers(0, 4, (q, width)).astype(float) for width in (k, b))  # many margins are exactly 0
    near[random.random((q, k)) < 0.2] = -np.inf
    for got, expected in zip(count_triplets(near, far), counts(near, far), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_rows_far_from_zero_do_not_lose_precision():
    W, X = problem(1, 6, 5)
    moved = triplet_loss(W.astype(np.float32), (X + 1000).astype(np.float32), 6, 3)
    np.testing.assert_allclose(moved.gradient, triplet_loss(W, X, 6, 3).gradient, atol=2e-3)


@pytest.mark.parametrize("mode", MODES)
def test_torch_gives_the_same_triplet_loss(mode):
    torch = pytest.importorskip("torch")
    for seed in range(5):
        W, X = problem(seed, 9, 7)
        targets = as_targets(mode, X, 9, 3)
        there = torch.from_numpy(targets) if mode == "fixed" else targets
        for got, expected in zip(
            triplet_loss(torch.from_numpy(W), torch.from_numpy(X), 9, there),
            triplet_loss(W, X, 9, targets),
            strict=True,
        ):
            np.testing.assert_allclose(got.numpy(), expected, rtol=1e-9, atol=1e-11)


def test_a_query_without_targets_adds_nothing():
    W, X = problem(3, 4, 3)
    targets = np.array([[1], [-1], [-1], [0]])
    loss, gradient, _, _ = triplet_loop(W, X, [0, 3], [[1], [], [], [0]], [[4, 5, 6]] * 4)
    got = triplet_loss(W, X, 4, targets)
    np.testing.assert_allclose(got.loss, loss)
    np.testing.assert_allclose(got.gradient, gradient, atol=1e-10)
    nothing = triplet_loss(W, X, 4, np.full((4, 1), -1))
    assert float(nothing.loss) == float(nothing.active) == 0
    assert not nothing.gradient.any()


CODES = np.repeat([0, 1, 2, 3, 4], [1, 5, 40, 300, 2])


@pytest.mark.parametrize("mode", MODES)
def test_batches_have_two_thirds_of_one_class_and_one_third_of_others(mode):
    random = np.random.default_rng(0)
    X = random.normal(size=(len(CODES), 3))
    table = nearest_of_class(X, CODES, 4)
    batches = TripletBatches(CODES, {"all": None, "dynamic": 4, "fixed": table}[mode], 60)
    seen = set()
    for _ in range(200):
        numbers = batches.draw(random)
        codes = CODES[numbers]
        q = int((codes == codes[0]).sum())
        seen.add(int(codes[0]))
        assert (codes[:q] == codes[0]).all()
        assert (codes[q:] != codes[0]).all()
        assert len(set(numbers.tolist())) == len(numbers)
        assert len(numbers) - q == 20
        assert q <= 40
        if mode != "fixed":
            assert q == min(40, (codes[0] == CODES).sum())
        else:
            whole = sum(set(table[n][table[n] >= 0]) <= set(numbers[:q]) for n in numbers[:q])
            assert whole >= 1  # targets are in the same batch as their queries
            assert q >= min(40 - 4, (codes[0] == CODES).sum())
    assert seen == {1, 2, 3, 4}  # all classes except the one with a single row, which has no pair


def test_fixed_targets_are_found_anywhere_in_the_batch():
    random = np.random.default_rng(1)
    X = random.normal(size=(len(CODES), 3))
    table = nearest_of_class(X, CODES, 4)
    batches = TripletBatches(CODES, table, 60)
    W = np.eye(3)
    for _ in range(10):
        numbers = batches.draw(random)
        q = int((CODES[numbers] == CODES[numbers[0]]).sum())
        place = {number: at for at, number in enumerate(numbers[:q])}
        wanted = [[place[t] for t in table[n] if t in place] for n in numbers[:q]]
        loss, gradient, count, _ = triplet_loop(W, X[numbers], range(q), wanted, [list(range(q, len(numbers)))] * q)
        got = batches.step(W, X[numbers], numbers)
        np.testing.assert_allclose(got[0], loss, rtol=1e-9)
        share = count[:, q:].sum() / (sum(map(len, wanted)) * (len(numbers) - q))
        np.testing.assert_allclose(got[1], gradient / share, rtol=1e-8, atol=1e-9)


def test_nearest_of_class_equals_a_plain_search():
    random = np.random.default_rng(2)
    X, y = random.normal(size=(60, 3)), random.integers(0, 4, 60)
    found = nearest_of_class(X, y, 20)
    for got, expected in zip(found, targets_of(X, y, "fixed", 20), strict=True):
        assert sorted(got[got >= 0]) == sorted(expected)
    torch = pytest.importorskip("torch")
    again = nearest_of_class(torch.from_numpy(X), y, 20)
    np.testing.assert_array_equal(np.sort(again, axis=1), np.sort(found, axis=1))
