import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.errors import InputError
from lookalike.learn.ncmc import Ncmc
from lookalike.learn.ncmml import Ncmml
from lookalike.learn.pq_rows import PqRows
from lookalike.registry import restore, spec_of, state_of
from reference.likelihood import log_likelihood


def make_rows(seed, n=400):
    """Two opposite blobs per class, and columns of noise."""
    random = np.random.default_rng(seed)
    y, side = random.integers(0, 3, n), random.integers(0, 2, n)
    angle = np.pi * (y / 3 + side)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1) * 4 + random.normal(size=(n, 2))
    return np.concatenate([X, 3 * random.normal(size=(n, 4))], axis=1).astype(np.float32), y


X, Y = make_rows(0)
TEST, TRUTH = make_rows(1)


@parametrize_with_checks([Ncmc(max_iterations=30)])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_one_centroid_per_class_equals_ncm(rounds):
    options = {"dim": 2, "batch": 60, "max_iterations": 150}
    means = Ncmml(**options).fit(X, Y)
    ours = Ncmc(k=1, rounds=rounds, **options).fit(X, Y)
    np.testing.assert_allclose(ours.centroids_, means.means_, atol=1e-6)
    assert ours.centroid_labels_.tolist() == [0, 1, 2]
    if rounds < 2:  # further rounds continue the training
        np.testing.assert_allclose(ours.W_, means.W_, rtol=1e-4, atol=1e-5)
    distances = ((ours.transform(TEST)[:, None] - means.means_ @ ours.W_.T) ** 2).sum(axis=2)
    np.testing.assert_array_equal(ours.predict(TEST), np.argmin(distances, axis=1))


def test_without_rounds_the_metric_is_that_of_ncmml():
    options = {"dim": 2, "batch": 60, "max_iterations": 150}
    ours = Ncmc(k=4, rounds=0, **options).fit(X, Y)
    np.testing.assert_array_equal(ours.W_, Ncmml(**options).fit(X, Y).W_)
    assert len(ours.centroids_) == 12


@pytest.mark.parametrize("rounds", [1, 3])
def test_several_centroids_beat_one_mean(rounds):
    options = {"dim": 2, "batch": 100, "max_iterations": 500}
    one = Ncmc(k=1, **options).fit(X, Y).score(TEST, TRUTH)
    more = Ncmc(k=2, rounds=rounds, **options).fit(X, Y).score(TEST, TRUTH)
    assert more > one + 0.1


def test_rounds_never_keep_a_worse_score():
    options = {"dim": 2, "k": 4, "batch": 100, "max_iterations": 200}
    scores = [Ncmc(rounds=rounds, **options).fit(X, Y).curve_[:, 2].max() for rounds in (1, 2, 4)]
    assert scores == sorted(scores)
    curve = Ncmc(rounds=4, **options).fit(X, Y).curve_
    assert (np.diff(curve[:, 0]) >= 0).all()


def test_probabilities_follow_equation_22():
    model = Ncmc(dim=2, k=3, max_iterations=100).fit(X, Y)
    p = model.predict_proba(TEST)
    assert p.dtype == np.float32
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    expected = log_likelihood(
        model.W_.astype(float), TEST.astype(float), TRUTH, model.centroids_, model.centroid_labels_
    )
    np.testing.assert_allclose(np.log(p[np.arange(400), TRUTH]).mean(), expected, rtol=1e-3)
    np.testing.assert_array_equal(model.predict(TEST), np.argmax(p, axis=1))


def test_scores_of_far_rows_still_rank_the_classes():
    model = Ncmc(dim=2, k=3, max_iterations=100).fit(X, Y)
    far = 50 * TEST[:20]
    assert (np.sort(model.predict_proba(far), axis=1)[:, 0] == 0).all()  # too small for float32
    scores = model.decision_function(far)
    assert all(len(np.unique(row)) == scores.shape[1] for row in scores)
    np.testing.assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(far))


def test_centroids_are_means_of_rows_of_their_class_and_sorted_by_class():
    model = Ncmc(dim=2, k=5, max_iterations=50).fit(X, Y)
    assert (np.diff(model.centroid_labels_) >= 0).all()
    assert len(model.centroids_) <= 15
    for c in range(3):
        own = model.centroids_[model.centroid_labels_ == c]
        nearest = np.argmin(((X[c == Y][:, None] - own) ** 2).sum(axis=2), axis=1)
        moved = np.stack([X[c == Y][nearest == j].mean(axis=0) for j in range(len(own))])
        assert np.abs(moved - own).mean() < 0.25  # the centres of k-means, except for the held-out rows


def test_classes_of_few_or_equal_rows_have_fewer_centroids():
    y = Y.copy()
    y[:2], y[2:10] = 7, 8
    rows = X.copy()
    rows[2:10] = rows[2]
    model = Ncmc(dim=2, k=4, max_iterations=50).fit(rows, y)
    counts = [(model.centroid_labels_ == c).sum() for c in (7, 8)]
    assert 1 <= counts[0] <= 2
    assert counts[1] == 1
    assert np.isfinite(model.predict_proba(rows)).all()


def test_torch_memory_maps_and_compressed_rows_give_the_same_model(tmp_path):
    torch = pytest.importorskip("torch")
    options = {"dim": 2, "k": 3, "batch": 100, "max_iterations": 60, "rounds": 2}
    expected = Ncmc(**options).fit(X, Y)
    tensor = Ncmc(**options).fit(torch.from_numpy(X), torch.from_numpy(Y))
    np.testing.assert_allclose(tensor.W_.numpy(), expected.W_, atol=1e-2 * np.abs(expected.W_).max())
    assert isinstance(tensor.predict_proba(torch.from_numpy(X)), torch.Tensor)
    assert (tensor.predict(TEST) == expected.predict(TEST)).mean() > 0.98
    np.save(tmp_path / "x.npy", X)
    mapped = Ncmc(**options).fit(np.load(tmp_path / "x.npy", mmap_mode="r"), Y)
    assert mapped.W_.tobytes() == expected.W_.tobytes()
    rows = PqRows(X)
    a, b = (Ncmc(**options).fit(source, Y) for source in (rows, rows[:]))
    assert a.W_.tobytes() == b.W_.tobytes()
    assert a.predict(rows).tolist() == b.predict(rows[:]).tolist()


def test_it_is_saved_with_the_class_names():
    model = Ncmc(dim=2, k=3, max_iterations=20).fit(X, np.array(["owl", "cat", "eel"])[Y])
    again = restore("transform", spec_of(model), state_of(model))
    assert again.predict(TEST).tolist() == model.predict(TEST).tolist()
    assert set(again.predict(TEST)) <= {"owl", "cat", "eel"}


@pytest.mark.parametrize(("options", "name"), [({"k": 0}, "k"), ({"rounds": -1}, "rounds"), ({"k": 2.5}, "k")])
def test_invalid_options_are_rejected(options, name):
    with pytest.raises(InputError, match=f"{name} must be a whole number"):
        Ncmc(**options).fit(X, Y)
