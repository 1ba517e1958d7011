import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import NearestCentroid
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike import registry
from lookalike.classes import prototypes
from lookalike.classes.hierarchy import Hierarchy
from lookalike.classes.open_set import OpenSet
from lookalike.errors import InputError
from lookalike.store import models
from reference.classes import SlowClasses

KINDS = ["ncm", "ncmc", "second"]
random = np.random.default_rng(6)
MIX = random.normal(size=(6, 6)) * np.geomspace(1, 0.2, 6)
CENTRES = random.normal(size=(5, 6)) * 1.5
Y = np.repeat(np.array(["ant", "bee", "cat", "dog", "eel"]), 30)
X = np.repeat(CENTRES, 30, axis=0) + random.normal(size=(150, 6)) @ MIX + 1
NEW = np.repeat(CENTRES, 40, axis=0) + random.normal(size=(200, 6)) @ MIX + 1
NEW_Y = np.repeat(np.array(["ant", "bee", "cat", "dog", "eel"]), 40)


def assert_same(got, expected, rtol=1e-10):
    """Check that both models have the same classes, in any order, with equal moments and distances."""
    order, other = np.argsort(got.classes_), np.argsort(expected.classes_)
    assert got.classes_[order].tolist() == expected.classes_[other].tolist()
    k = len(got.counts_) // max(1, len(got.classes_))
    cells, cells_other = ((places[:, None] * k + np.arange(k)).ravel() for places in (order, other))
    np.testing.assert_array_equal(got.counts_[cells], expected.counts_[cells_other])
    np.testing.assert_allclose(got.sums_[cells], expected.sums_[cells_other], rtol=rtol, atol=rtol * 1e3)
    if hasattr(expected, "scatter_"):
        np.testing.assert_allclose(got.scatter_, expected.scatter_, rtol=rtol, atol=rtol * 1e4)
    got, expected = copy.deepcopy(got), copy.deepcopy(expected)
    got.softness_ = expected.softness_ = 0.3  # it depends on the held-out images, which differ
    np.testing.assert_allclose(got.distances(NEW)[:, order], expected.distances(NEW)[:, other], rtol=1e-7, atol=1e-7)


@parametrize_with_checks([OpenSet(kind, k=2) for kind in KINDS])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


@settings(max_examples=40)
@given(st.sampled_from(["ncm", "second"]), st.integers(0, 2**32 - 1), st.lists(st.integers(0, 6), max_size=14))
def test_any_sequence_of_changes_equals_a_fresh_fit(kind, seed, steps):
    draw = np.random.default_rng(seed)
    model, slow = OpenSet(kind).fit(X[::7], Y[::7]), SlowClasses()
    slow.add(X[::7], Y[::7])
    for i, step in enumerate(steps):
        label, other, *_ = [*draw.permutation(sorted(slow.rows)).tolist(), "none"]
        rows = np.array(slow.rows[label]).reshape(-1, 6)
        some = rows[draw.permutation(len(rows))[: draw.integers(1, len(rows) + 1)]] if len(rows) else rows
        if step < 2:
            pick = draw.integers(0, len(X), 4)
            names = np.array([label, other, f"new{i}", label])[draw.integers(0, 4, 4)]
            names[names == "none"] = label
            model.partial_fit(X[pick], names)
            slow.add(X[pick], names)
        elif step == 2 and len(some):
            model.remove(some, [label] * len(some))
            slow.remove(some, [label] * len(some))
        elif step == 3 and other != "none":
            model.merge(label, other)
            slow.merge(label, other)
        elif step == 4 and len(some):
            model.split(label, f"part{i}", some)
            slow.split(label, f"part{i}", some)
        elif step == 5:
            model.rename(label, f"a longer name {i}")
            slow.rename(label, f"a longer name {i}")
        elif step == 6 and other != "none":
            model.delete(label, rows if kind == "second" and len(rows) else None)
            slow.delete(label)
        if draw.random() < 0.3 and any(slow.rows.values()):
            model.predict(X[:2])  # caches prototypes, which the next step must invalidate
    assert sorted(model.classes_.tolist()) == sorted(slow.rows)
    means = slow.means()
    for label, count, total in zip(model.classes_.tolist(), model.counts_, model.sums_, strict=True):
        assert count == len(slow.rows[label])
        np.testing.assert_allclose(total, count * means.get(label, np.zeros(6)), rtol=0, atol=1e-10 * 100)
    if kind == "second":
        np.testing.assert_allclose(model.scatter_, slow.scatter(6), rtol=0, atol=1e-10 * 1000)
    if means:
        expected = slow.squared_distances(NEW[::20], model.classes_.tolist(), model.ridge if kind == "second" else None)
        np.testing.assert_allclose(model.distances(NEW[::20]), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["ncm", "second"])
def test_the_order_of_images_does_not_matter(kind):
    whole = OpenSet(kind).fit(X, Y)
    model = OpenSet(kind)
    for i in np.random.default_rng(0).permutation(150):
        model.partial_fit(X[i : i + 1], Y[i : i + 1])
    assert_same(model, whole)


def test_cells_are_exact_in_any_order_once_their_centres_exist():
    start = OpenSet("ncmc", k=3).fit(X, Y)
    one, other = copy.deepcopy(start), copy.deepcopy(start)
    one.partial_fit(NEW, NEW_Y).remove(NEW[::3], NEW_Y[::3])
    order = np.random.default_rng(1).permutation(np.delete(np.arange(200), np.arange(0, 200, 3)))
    for part in np.array_split(order, 7):
        other.partial_fit(NEW[part], NEW_Y[part])
    assert_same(one, other)
    assert_same(one.remove(NEW[order], NEW_Y[order]), start)
    assert_same(OpenSet("ncmc", k=3).fit(X[::-1], Y[::-1]), start)  # k-means does not depend on the order either


def test_one_centroid_per_class_equals_the_nearest_mean():
    ncm, ncmc = OpenSet("ncm").fit(X, Y), OpenSet("ncmc", k=1).fit(X, Y)
    assert_same(ncmc, ncm)
    assert abs(ncmc.temperature_ / ncm.temperature_ - 1) < 1e-10
    np.testing.assert_allclose(ncmc.predict_proba(NEW), ncm.predict_proba(NEW), rtol=1e-10)
    assert_same(ncmc.merge("ant", "bee"), ncm.merge("ant", "bee"))


def test_one_centroid_per_image_equals_the_nearest_neighbour():
    model = OpenSet("ncmc", k=30).partial_fit(X, Y)
    nearest = ((NEW[:, None] - X.astype(np.float32)) ** 2).sum(axis=2).argmin(axis=1)
    assert model.predict(NEW).tolist() == Y[nearest].tolist()


def test_centroids_are_summed_as_in_equation_22():
    model = OpenSet("ncmc", k=4).fit(X, Y).add_class("few", X[:2] + 1).add_class("no")
    assert model.softness_ > 0
    expected = np.full((200, 7), np.inf)
    for c, width in enumerate([4, 4, 4, 4, 4, 2]):
        cells = slice(4 * c, 4 * c + width)
        means = model.sums_[cells] / model.counts_[cells][:, None]
        d = ((NEW[:, None] - means) ** 2).sum(axis=2)
        expected[:, c] = -2 * model.softness_ * np.log(np.exp(-d / 2 / model.softness_).mean(axis=1))
    np.testing.assert_allclose(model.distances(NEW), expected, rtol=1e-7)
    chances = np.exp(-expected / 2 / model.temperature_)
    np.testing.assert_allclose(model.predict_proba(NEW), chances / chances.sum(axis=1, keepdims=True), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_merging_two_classes_equals_fitting_them_as_one(kind):
    both = np.isin(Y, ["bee", "dog"])
    model = OpenSet(kind, k=4).fit(X, Y)
    model.merge("bee", "dog", X[both] if kind == "ncmc" else None)
    assert_same(model, OpenSet(kind, k=4).fit(X, np.where(Y == "dog", "bee", Y)))
    assert model.classes_.tolist() == ["ant", "bee", "cat", "eel"]


@pytest.mark.parametrize("kind", KINDS)
def test_deleting_a_class_and_adding_it_again_changes_nothing(kind):
    expected = OpenSet(kind, k=4).fit(X, Y)
    model = copy.deepcopy(expected).delete("bee", X[Y == "bee"])
    assert_same(model, OpenSet(kind, k=4).fit(X[Y != "bee"], Y[Y != "bee"]))
    assert_same(model.add_class("bee", X[Y == "bee"]), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_that_reuses_the_place_of_a_deleted_one_keeps_its_images(kind):
    eels, names = NEW[NEW_Y == "eel"], NEW_Y[NEW_Y == "eel"]
    model = OpenSet(kind, k=4).fit(X, Y)
    expected = copy.deepcopy(model).partial_fit(eels, names).delete("ant", X[:30])
    assert_same(model.delete("ant", X[:30]).partial_fit(eels, names), expected)


def test_an_emptied_class_starts_with_new_centres():
    rows, names = NEW[NEW_Y == "eel"] + 5, NEW_Y[NEW_Y == "eel"]
    model = OpenSet("ncmc", k=3).fit(X, Y)
    expected = copy.deepcopy(model).delete("eel").add_class("eel", rows)
    assert_same(model.remove(X[Y == "eel"], Y[Y == "eel"]).partial_fit(rows, names), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_splitting_a_class_equals_fitting_with_two_names(kind):
    names = Y.copy()
    names[np.flatnonzero(Y == "cat")[:12]] = "fox"
    model = OpenSet(kind, k=1).fit(X, Y).split("cat", "fox", X[names == "fox"])
    assert_same(model, OpenSet(kind, k=1).fit(X, names))


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_and_means_equal_those_of_the_images(kind):
    model = OpenSet(kind, k=3).fit(X, Y).partial_fit(NEW[:7], NEW_Y[:7]).add_class("no")
    assert model.sizes().tolist() == [37, 30, 30, 30, 30, 0]
    ant = np.concatenate([X[:30], NEW[:7]]).mean(axis=0)
    np.testing.assert_allclose(model.means()[[0, 5]], [ant, np.zeros(6)], atol=1e-12)


def test_cluster_finds_the_centres_of_a_fresh_fit():
    half = np.arange(150) % 2 == 0
    model = OpenSet("ncmc", k=3).fit(X[half], Y[half]).partial_fit(X[~half], Y[~half])
    for label in model.classes_.tolist():
        model.cluster(label, X[label == Y])
    assert_same(model, OpenSet("ncmc", k=3).fit(X, Y))


def test_nearest_means_equal_those_of_scikit_learn():
    peer, model = NearestCentroid().fit(X, Y), OpenSet().fit(X, Y)
    assert model.predict(NEW).tolist() == peer.predict(NEW).tolist()
    means = model.sums_ / model.counts_[:, None]
    np.testing.assert_allclose(means, peer.centroids_, rtol=1e-12)
    np.testing.assert_allclose(model.distances(NEW), ((NEW[:, None] - means) ** 2).sum(axis=2), rtol=1e-10)


def test_second_order_equals_linear_discriminant_analysis():
    """Shrinkage is defined differently there: (1 − s)Σ + s·tr/d·I has the same directions as Σ + s/(1 − s)·tr/d·I."""
    peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1, priors=np.full(5, 0.2)).fit(X, Y)
    model = OpenSet("second", ridge=0.1 / 0.9).fit(X, Y)
    assert (model.predict(NEW) == peer.predict(NEW)).mean() == 1


def test_second_order_beats_plain_means_if_dimensions_are_correlated():
    draw = np.random.default_rng(7)
    stretch = np.array([[1.0, 0.98], [0.98, 1.0]])
    centres = np.array([[0.0, 0.0], [1.6, 0.0]])
    y = np.arange(600) % 2
    rows = centres[y] + draw.multivariate_normal([0, 0], 4 * stretch, 600)
    plain, second = (
        OpenSet(kind, ridge=1e-3).fit(rows[:300], y[:300]).score(rows[300:], y[300:]) for kind in ("ncm", "second")
    )
    assert second > 0.95 > 0.75 > plain


def test_several_centroids_beat_one_if_a_class_has_several_parts():
    draw = np.random.default_rng(8)
    y = np.arange(400) % 4
    rows = np.array([[0, 0], [5, 5], [0, 5], [5, 0]])[y] + draw.normal(size=(400, 2))
    one, two = (OpenSet("ncmc", k=k).fit(rows, y // 2).score(rows, y // 2) for k in (1, 2))
    assert two > 0.97 > 0.7 > one


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_sum_to_one_and_fall_with_distance(kind):
    model = OpenSet(kind, k=3).fit(X, Y)
    chances, distances = model.predict_proba(NEW), model.distances(NEW)
    np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-12)
    order = np.argsort(distances, axis=1)
    assert (np.diff(np.take_along_axis(chances, order, axis=1), axis=1) <= 0).all()
    assert model.classes_[chances.argmax(axis=1)].tolist() == model.predict(NEW).tolist()


@pytest.mark.parametrize("kind", ["ncm", "second"])
def test_probabilities_are_calibrated(kind):
    draw = np.random.default_rng(9)
    y = np.arange(4000) % 4
    rows = draw.normal(size=(4, 5))[y] * 30 + draw.normal(size=(4000, 5)) * 30  # T = 1 would be far too confident
    model = OpenSet(kind).fit(rows[:2000], y[:2000])
    chances = model.predict_proba(rows[2000:])
    sure, right = chances.max(axis=1), model.predict(rows[2000:]) == y[2000:]
    for low, high in ((0.3, 0.6), (0.6, 0.9), (0.9, 1.0)):
        some = (sure >= low) & (sure < high)
        assert some.sum() > 50
        assert abs(right[some].mean() - sure[some].mean()) < 0.08


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reject", [0.02, 0.1])
def test_far_images_are_none_of_these_and_few_others_are(kind, reject):
    draw = np.random.default_rng(10)
    y = np.arange(6000) % 3
    rows = np.eye(3, 4)[y] * 9 + draw.normal(size=(6000, 4))
    model = OpenSet(kind, k=3, reject=reject).fit(rows[:3000], np.array(["a", "b", "c"])[y[:3000]])
    rejected = (model.predict(rows[3000:]) == "none of these").mean()
    assert 0.5 * reject < rejected < 1.7 * reject
    assert (model.predict(draw.normal(size=(50, 4)) * 5 + 40) == "none of these").all()
    assert "none of these" not in OpenSet(kind, k=3).fit(rows, y.astype(str)).predict(rows + 100)


def test_images_of_no_class_set_the_threshold():
    model = OpenSet(none_label="nothing").fit(X, Y)
    others = NEW + 30
    model.calibrate(np.concatenate([NEW, others]), np.concatenate([NEW_Y, np.full(len(others), "nothing")]))
    assert model.predict(others + 1).tolist() == ["nothing"] * len(others)
    assert model.predict(NEW).tolist() == OpenSet().fit(X, Y).predict(NEW).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_recalibrating_on_its_own_images_equals_a_fresh_fit(kind):
    fresh = OpenSet(kind, k=2, reject=0.1).fit(X, Y)
    grown = OpenSet(kind, k=2, reject=0.1).partial_fit(X, Y)
    assert (grown.temperature_, grown.threshold_) == (1.0, np.inf)
    grown.recalibrate(X, Y)
    assert grown.temperature_ == pytest.approx(fresh.temperature_, rel=1e-6)
    assert grown.threshold_ == pytest.approx(fresh.threshold_, rel=1e-6)
    assert_same(grown, fresh, rtol=1e-8)  # all held-out images were added again
    grown.recalibrate(X[::30], Y[::30])  # one image of each class is held out; the others remain
    assert np.isfinite(grown.threshold_)
    assert_same(grown, fresh, rtol=1e-8)
    lonely = OpenSet(kind, k=2, reject=0.1).partial_fit(X[::30], Y[::30]).recalibrate(X[::30], Y[::30])
    assert (lonely.temperature_, lonely.threshold_) == (1.0, np.inf)  # no image can be held out
    with pytest.raises(InputError, match="No class named 'fox'"):
        grown.recalibrate(X[:1], ["fox"])


FAR_CENTRES = np.random.default_rng(1).normal(size=(30, 6)) * 2.5


def draw_far(classes, each, seed):
    """Return rows of some of 30 classes that hardly overlap, and their classes."""
    y = np.repeat(classes, each)
    return FAR_CENTRES[y] + np.random.default_rng(seed).normal(size=(len(y), 6)), y


@pytest.mark.parametrize("kind", KINDS)
def test_images_of_other_classes_have_a_low_probability_of_being_known(kind):
    model = OpenSet(kind, k=2, none_label=-1).fit(*draw_far(range(15), 20, 0))
    own, strangers = draw_far(range(15), 20, 1)[0], draw_far(range(15, 30), 20, 2)[0]
    assert model.known_proba(own).mean() > 0.65 > 0.35 > model.known_proba(strangers).mean()
    assert model.known_proba(own[:0]).shape == (0,)
    assert (model.known_proba(own + 100) < 0.01).all()
    raw = OpenSet(kind, none_label=-1).partial_fit(*draw_far(range(15), 20, 0))
    np.testing.assert_array_equal(raw.known_proba(own), 1)  # before calibration
    del model.membership_  # a model that version 0.1 saved
    np.testing.assert_array_equal(model.known_proba(own), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_background_makes_distances_relative(kind):
    rows, y = draw_far(range(15), 20, 0)
    own = draw_far(range(15), 10, 1)[0]
    crowd = np.random.default_rng(2).normal(size=(300, 6)) * 0.1 + rows[0] + 1.2  # similar images of no class
    background, unlabelled = np.concatenate([own, crowd]), np.ones(450, bool)
    options = {"kind": kind, "k": 2, "reject": 0.05, "none_label": -1}
    plain = OpenSet(**options).fit(rows, y)
    model = OpenSet(**options).use_background(background, unlabelled).fit(rows, y)
    typical = model.typical_distances(np.concatenate([crowd, own]))
    assert typical[:300].max() < np.median(typical[300:])
    relative = model.distances(crowd).min(axis=1) / typical[:300]
    assert (model.predict(crowd) < 0).tolist() == (relative > model.threshold_).tolist()
    assert (model.predict(crowd) < 0).mean() > 0.9 > (plain.predict(crowd) < 0).mean()
    assert 0.01 < (model.predict(own) < 0).mean() < 0.12
    assert model.known_proba(crowd).mean() < 0.2 < 0.5 < model.known_proba(own).mean()
    np.testing.assert_allclose(model.typical_distances(crowd[:5]), typical[:5], rtol=1e-6)
    torch = pytest.importorskip("torch")
    same = OpenSet(**options).use_background(torch.tensor(background), unlabelled).fit(torch.tensor(rows), y)
    np.testing.assert_allclose(same.known_proba(torch.tensor(own)), model.known_proba(own), rtol=1e-4, atol=1e-6)
    with pytest.raises(InputError, match="unlabelled must have one value for each of 450 rows"):
        model.use_background(background, [True])
    with pytest.raises(InputError, match="background must have rows of 6 numbers"):
        OpenSet(**options).use_background(background[:, :3]).fit(rows, y)


def test_one_class_is_calibrated_on_unlabelled_images():
    background, y = draw_far(range(30), 20, 0)
    rows, labels = draw_far([3], 10, 1)
    model = OpenSet(reject=0.05, none_label=-1).use_background(background, np.ones(len(y), bool)).fit(rows, labels)
    own, others = draw_far([3], 40, 2)[0], background[y != 3]
    np.testing.assert_array_equal(model.predict_proba(own), 1)  # given that it is one of the classes
    assert model.known_proba(own).mean() > 0.7 > 0.3 > model.known_proba(others).mean()


def test_numeric_labels_need_a_number_for_none_of_these():
    y = np.arange(150) % 3
    with pytest.raises(InputError, match="all strings or all numbers"):
        OpenSet(reject=0.1).fit(X, y)
    model = OpenSet(reject=0.1, none_label=-1).fit(X, y)
    assert model.predict(X + 100).tolist() == [-1] * 150
    assert set(OpenSet().fit(X, y).predict(X).tolist()) <= {0, 1, 2}


def test_classes_without_images_get_means_from_the_hierarchy():
    model = OpenSet().fit(X[Y != "eel"], Y[Y != "eel"])
    means = {label: X[label == Y].mean(axis=0) for label in np.unique(Y)}
    model.add_class("eel")
    assert np.isinf(model.distances(NEW)[:, 4]).all()
    assert "eel" not in model.predict(NEW)
    np.testing.assert_array_equal(model.predict_proba(NEW)[:, 4], 0)
    tree = [
        ("ant", "insect"),
        ("bee", "insect"),
        ("insect", "animal"),
        ("eel", "fish"),
        ("cat", "fish"),
        ("fish", "animal"),
    ]
    model.use_hierarchy(tree, weight=5.0)
    animal = np.mean([means["ant"], means["bee"], means["cat"]], axis=0)
    expected = (means["cat"] + animal) / 2
    np.testing.assert_allclose(model.distances(NEW)[:, 4], ((NEW - expected) ** 2).sum(axis=1), rtol=1e-9)
    model.partial_fit(X[Y == "eel"][:5], ["eel"] * 5)
    halfway = (X[Y == "eel"][:5].mean(axis=0) + expected) / 2
    np.testing.assert_allclose(model.distances(NEW)[:, 4], ((NEW - halfway) ** 2).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(  # a class without relatives has no prior
        model.distances(NEW)[:, 3], ((NEW - means["dog"]) ** 2).sum(axis=1), rtol=1e-9
    )
    before = model.distances(NEW)
    np.testing.assert_allclose(model.rename("eel", "conger").distances(NEW), before, rtol=1e-12)
    assert ("conger", "fish") in {tuple(pair) for pair in model.hierarchy_.tolist()}
    model.use_hierarchy([*tree, ("newt", "fish")]).predict(NEW)
    moved = model.rename("dog", "newt").distances(NEW)[:, 3]  # the new name has relatives
    assert np.abs(moved - before[:, 3]).max() > 0.1


def test_a_prior_improves_classes_of_one_image():
    draw = np.random.default_rng(11)
    families = draw.normal(size=(8, 20)) * 2
    centres = np.repeat(families, 5, axis=0) + draw.normal(size=(40, 20)) * 0.7
    names = np.array([f"family{i // 5}/kind{i}" for i in range(40)])
    rows = np.repeat(centres, 21, axis=0) + draw.normal(size=(840, 20)) * 1.5
    first, y = np.arange(840) % 21 == 0, np.repeat(names, 21)
    many = np.arange(840) // 21 % 5 > 0  # in each family, one class has a single image
    kept = (many & (np.arange(840) % 21 < 15)) | first
    test = ~many & ~first
    plain = OpenSet().fit(rows[kept], y[kept])
    helped = copy.deepcopy(plain).use_hierarchy(Hierarchy.from_names(names), weight=2.0)
    assert helped.score(rows[test], y[test]) > plain.score(rows[test], y[test]) + 0.03


@pytest.mark.parametrize("kind", KINDS)
def test_a_hierarchy_with_cells_moves_them_together(kind):
    tree = [("ant", "all"), ("bee", "all"), ("cat", "all"), ("fly", "all")]
    model = OpenSet(kind, k=3).fit(X, Y).add_class("fly").use_hierarchy(tree)
    expected = np.mean([X[label == Y].mean(axis=0) for label in ("ant", "bee", "cat")], axis=0)
    assert model.predict(expected[None]).tolist() == ["fly"]


@pytest.mark.parametrize("kind", KINDS)
def test_torch_and_numpy_give_the_same_results(kind):
    torch = pytest.importorskip("torch")
    tree = [("ant", "insect"), ("bee", "insect"), ("fly", "insect")]

    def play(convert):
        model = OpenSet(kind, k=2, reject=0.05).fit(convert(X), Y)
        model.partial_fit(convert(NEW[:50]), NEW_Y[:50]).remove(convert(X[:4]), Y[:4])
        model.merge("bee", "cat", convert(np.concatenate([X[30:90], NEW[40:50]])))
        model.split("dog", "fox", convert(X[90:100])).delete("eel", convert(X[120:]))
        return model.add_class("fly").use_hierarchy(tree)

    ours, theirs = play(np.asarray), play(torch.asarray)
    assert isinstance(theirs.sums_, torch.Tensor)
    assert theirs.predict(torch.asarray(NEW)).tolist() == ours.predict(NEW).tolist() == theirs.predict(NEW).tolist()
    for got in (theirs.predict_proba(torch.asarray(NEW)).numpy(), theirs.predict_proba(NEW)):
        np.testing.assert_allclose(got, ours.predict_proba(NEW), atol=1e-9)
    half = torch.asarray(NEW, dtype=torch.float32)
    assert theirs.predict_proba(half).dtype == torch.float32
    np.testing.assert_allclose(theirs.predict_proba(half).numpy(), ours.predict_proba(NEW), atol=1e-3)
    np.testing.assert_allclose(ours.predict_proba(half).numpy(), ours.predict_proba(NEW), atol=1e-3)
    ours.partial_fit(half, NEW_Y)  # torch rows are converted
    assert isinstance(ours.sums_, np.ndarray)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_and_loaded_model_can_be_changed_further(kind, tmp_path, monkeypatch):
    monkeypatch.setitem(registry.COMPONENTS, "classes", {"openset": "lookalike.classes.open_set:OpenSet"})
    model = OpenSet(kind, k=2, reject=0.1).fit(X, Y).use_hierarchy([("ant", "insect"), ("fly", "insect")])
    for i in range(40):
        model.add_class(f"new{i}", X[i : i + 1])
    model.remove(X[:1], ["new0"])
    models.save(tmp_path / "model.npz", model)
    (again,) = models.load(tmp_path / "model.npz")
    assert again.predict_proba(NEW).tobytes() == model.predict_proba(NEW).tobytes()
    assert again.predict(NEW + 50).tolist() == ["none of these"] * 200
    for part in (again, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        part.partial_fit(NEW, NEW_Y).add_class("fly").merge("new2", "new3", X[2:4])
        assert sorted(part.classes_.tolist()) == sorted({*Y, "fly", *(f"new{i}" for i in range(40))} - {"new3"})
    assert_same(again, model.partial_fit(NEW, NEW_Y).add_class("fly").merge("new2", "new3", X[2:4]), rtol=1e-12)
    assert sum(value.nbytes for value in registry.state_of(model).values()) < 9 * model.sums_.size * 4 + 20_000


def test_float32_is_good_enough_far_from_zero():
    model = OpenSet().fit(X + 1000, Y)
    got = model.distances((NEW + 1000).astype(np.float32))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, OpenSet().fit(X, Y).distances(NEW), rtol=1e-2, atol=1e-2)


def test_the_chunk_size_does_not_change_the_results(monkeypatch):
    model = OpenSet(reject=0.1).fit(X, Y)
    expected = model.predict(NEW), model.predict_proba(NEW), model.distances(NEW)
    monkeypatch.setattr(prototypes, "SCORES_BYTES", 300)
    for got, want in zip((model.predict(NEW), model.predict_proba(NEW), model.distances(NEW)), expected, strict=True):
        if want.dtype.kind == "U":
            assert got.tolist() == want.tolist()
        else:
            np.testing.assert_allclose(got, want, rtol=1e-9)


def test_the_same_seed_gives_the_same_bytes():
    first, second = (registry.state_of(OpenSet("ncmc", k=3, reject=0.1, random_state=5).fit(X, Y)) for _ in range(2))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


@pytest.mark.parametrize("kind", KINDS)
def test_one_class_and_classes_of_one_image(kind):
    alone = OpenSet(kind).fit(X[:1], ["only"])
    assert alone.predict(NEW).tolist() == ["only"] * 200
    np.testing.assert_array_equal(alone.predict_proba(NEW), 1)
    single = OpenSet(kind).fit(X[::30], Y[::30])
    assert single.predict(X[::30]).tolist() == Y[::30].tolist()
    assert single.temperature_ == 1
    assert single.predict(NEW[:0]).shape == (0,)
    assert single.predict_proba(NEW[:0]).shape == (0, 5)


def test_a_class_without_images_is_kept():
    model = OpenSet().fit(X, Y).remove(X[Y == "ant"], Y[Y == "ant"])
    assert "ant" in model.classes_
    assert "ant" not in model.predict(NEW)
    assert "ant" in model.partial_fit(X[:1], ["ant"]).predict(X[:1])


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_raises_an_error_and_changes_nothing(kind):
    model = OpenSet(kind, k=2).fit(X, Y)
    before = copy.deepcopy(registry.state_of(model))
    bad = np.where(np.arange(6) == 3, np.nan, X[:2])
    wrong = [
        (lambda: model.remove(X[:1], ["ante"]), "No class named 'ante'.*Did you mean 'ant'"),
        (
            lambda: model.remove(np.repeat(X[:1], 31, axis=0), ["ant"] * 31),
            "remove 31 rows from .*'ant': it has only 30",
        ),
        (lambda: model.partial_fit(bad, ["ant", "bee"]), "finite"),
        (lambda: model.remove(bad, ["ant", "bee"]), "finite"),
        (lambda: model.predict(bad), "finite"),
        (lambda: model.add_class("ant", X[:2]), "'ant' already"),
        (lambda: model.add_class("ant"), "'ant' already"),
        (lambda: model.add_class("none of these", X[:2]), "none_label"),
        (lambda: model.add_class(7, X[:2]), "all strings or all numbers"),
        (lambda: model.rename("ant", "bee"), "'bee' already"),
        (lambda: model.rename("who", "bee"), "No class named 'who'"),
        (lambda: model.merge("ant", "ant"), "two different classes"),
        (lambda: model.merge("ant", "who"), "No class named 'who'"),
        (lambda: model.split("ant", "bee", X[:3]), "'bee' already"),
        (lambda: model.split("ant", "new", np.repeat(X[:1], 31, axis=0)), "Cannot remove 31 rows"),
        (lambda: model.split("ant", 3, X[:3]), "all strings or all numbers"),
        (lambda: model.add_class("new", X[:0]), "minimum of 1"),
        (lambda: model.delete("who"), "No class named 'who'"),
        (lambda: model.partial_fit(X[:2], ["ant"]), "one label for each of 2 rows. Got 1"),
        (lambda: model.partial_fit(X[:2, :3], ["ant", "ant"]), "3 features"),
        (lambda: model.calibrate(X[:1], ["who"]), "No class named 'who'"),
        (lambda: model.use_hierarchy([("a", "b")], weight=0), "weight must be"),
        (lambda: model.use_hierarchy([("a", "a")]), "no cycle"),
    ]
    if kind == "second":
        wrong += [
            (lambda: model.delete("ant"), "must contain the 30 rows of 'ant'"),
            (lambda: model.delete("ant", X[30:60]), "must contain exactly the 30 rows of 'ant'"),
        ]
    if kind == "ncmc":
        wrong += [
            (lambda: model.merge("ant", "bee"), "must contain the 60 rows of 'ant' and 'bee'"),
            (lambda: model.merge("ant", "bee", X[:59]), "Got 59"),
            (lambda: model.cluster("ant", X[:29]), "Got 29"),
        ]
    for change, message in wrong:
        with pytest.raises(ValueError, match=message):
            change()
    after = registry.state_of(model)
    assert sorted(before) == sorted(after)
    for name, value in before.items():
        if name in ("sums_", "scatter_") and kind != "ncm":
            np.testing.assert_allclose(after[name], value, rtol=1e-10, atol=1e-10)
        else:
            np.testing.assert_array_equal(after[name], value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "ncmm"}, "Did you mean 'ncm"),
        ({"k": 0}, "k must be"),
        ({"ridge": 0}, "ridge must be"),
        ({"reject": 1}, "reject must be"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        OpenSet(**options).fit(X, Y)


def test_predicting_requires_a_class():
    for method in (OpenSet().predict, OpenSet().predict_proba, OpenSet().distances):
        with pytest.raises(NotFittedError):
            method(X)
    with pytest.raises(NotFittedError):
        OpenSet().add_class("ant")
    with pytest.raises(NotFittedError):
        OpenSet().use_hierarchy([("a", "b")]).remove(X, Y)
    empty = OpenSet().fit(X[:2], ["a", "b"]).delete("a").delete("b")
    assert len(empty.classes_) == 0
    with pytest.raises(InputError, match="no class has any rows"):
        empty.predict(X)
    assert empty.add_class("c", X[:1]).predict(X[:3]).tolist() == ["c"] * 3


def test_labels_are_stored_as_plain_texts_or_whole_numbers():
    assert OpenSet().fit(X[:4], np.array(["a", "bb", "a", "bb"], object)).classes_.dtype.kind == "U"
    assert OpenSet().fit(X[:4], [3, 1, 3, 1]).rename(3, 70000).classes_.tolist() == [1, 70000]
    for labels in ([None, "a", "b", "c"], ["a", 1, 2, 3]):
        with pytest.raises(InputError, match="all strings or all numbers"):
            OpenSet().fit(X[:4], np.array(labels, object))
    for labels in ([1.0, np.nan], [1.0, 0.5]):
        with pytest.raises(InputError, match="whole numbers"):
            OpenSet().fit(X[:2], labels)
