import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike import registry
from lookalike.codes import tsvmh as module
from lookalike.codes.bits import unpack
from lookalike.codes.labels import read_labels, sharing
from lookalike.codes.robust_tsvm import RobustTsvm
from lookalike.codes.tsvmh import HingeTsvmh, Tsvmh, TsvmPlanes, class_tree, hull_distances, similarities
from lookalike.errors import InputError


def clouds(n=200, C=5, d=6, seed=0, unlabelled=0.3, spread=1.5):
    X, y = make_blobs(n, d, centers=C, cluster_std=spread, random_state=seed)
    return X, np.where(np.random.default_rng(seed).random(n) < unlabelled, -1, y), y


def distances(A, B):
    """Hamming distances of packed codes, (n, m), bit by bit."""
    A, B = (unpack(codes) for codes in (A, B))
    return (A[:, None] != B[None]).sum(axis=2)


X, Y, TRUTH = clouds()
CLASSES = np.arange(120) % 12
RANDOM = np.random.default_rng(0)
WIDE = (RANDOM.normal(size=(12, 30))[CLASSES] * 3 + RANDOM.normal(size=(120, 30))).astype(np.float32)


@parametrize_with_checks([Tsvmh(bits=8)])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


@settings(max_examples=4, deadline=None)
@given(C=st.integers(2, 5), long=st.sampled_from([24, 32]), short=st.sampled_from([8, 16]), seed=st.integers(0, 99))
def test_a_short_code_is_a_prefix_of_a_long_one(C, long, short, seed):
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


def test_bits_separate_the_groups_of_classes_in_sides():
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


def test_with_more_classes_than_bits_all_classes_are_separated():
    random = np.random.default_rng(0)
    y = np.arange(300) % 30
    X = (random.normal(size=(30, 40))[y] + 0.5 * random.normal(size=(300, 40))).astype(np.float32)
    seen = np.arange(300) < 210
    coder = Tsvmh(bits=16).fit(X[seen], y[seen])
    assert coder.W_.shape == (16, 40)
    assert coder.sides_.shape == (16, 30)
    away = distances(coder.encode(X[~seen]), coder.encode(X[seen]))
    same = y[~seen][:, None] == y[seen]
    assert away[same].mean() < 0.3 * away[~same].mean()
    bits = np.where(coder.project(X) > 0, 1, -1)
    assert (coder.sides_[:, y] == bits.T).mean() > 0.9


def test_trees_differ():
    coder = Tsvmh(bits=16, sample=10).fit(X, Y)
    assert not np.array_equal(coder.W_[0], coder.W_[4])
    assert np.unique(coder.W_, axis=0).shape[0] == 16


def test_several_processes_give_the_same_codes_as_one():
    one, two = (Tsvmh(bits=8, n_jobs=n_jobs).fit(X, Y) for n_jobs in (None, 2))
    assert one.W_.tobytes() == two.W_.tobytes()
    assert one.b_.tobytes() == two.b_.tobytes()


def test_shift_and_scale_of_the_rows_do_not_matter():
    plain, moved = Tsvmh(bits=16).fit(X, Y), Tsvmh(bits=16).fit(100 * X + 30, Y)
    same = distances(plain.encode(X), moved.encode(100 * X + 30)).diagonal()
    assert same.mean() < 0.2


def test_labels_of_any_type_are_accepted():
    names = np.array(["owl", "cat", "fox", "ant", "bee"], object)
    named = np.where(Y < 0, None, names[Y])
    floats = np.where(Y < 0, np.nan, Y)
    expected = Tsvmh(bits=16).fit(X, Y)
    np.testing.assert_array_equal(Tsvmh(bits=16).fit(X, floats).W_, expected.W_)
    coder = Tsvmh(bits=16).fit(X, named)
    assert coder.classes_.tolist() == sorted(names)
    assert (distances(coder.encode(X), coder.encode(X))[TRUTH == 0][:, TRUTH == 0] < 8).all()


def test_each_combination_of_labels_is_a_class():
    random = np.random.default_rng(0)
    labels = random.random((120, 2)) < 0.6
    X = labels * 4 + 0.3 * random.normal(size=(120, 2))
    coder = Tsvmh(bits=16).fit(X, labels)
    assert coder.classes_.shape == (3, 2)  # rows without any label are unlabelled
    codes = coder.encode([[4, 0], [0, 4], [4, 4]])
    assert (distances(codes, codes) + 9 * np.eye(3) > 0).all()


@pytest.mark.parametrize("unlabelled", [0.05, 0.7])
def test_unlabelled_rows_get_the_codes_of_their_class(unlabelled):
    X, y, truth = clouds(400, spread=0.7, unlabelled=unlabelled)
    codes = Tsvmh(bits=16).fit(X, y).encode(X)
    away = distances(codes[y < 0], codes[y >= 0])
    same = truth[y < 0][:, None] == truth[y >= 0]
    assert away[same].mean() < 0.5
    assert away[~same].mean() > 4


def test_the_number_of_unlabelled_rows_in_a_tree_is_limited():
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


def test_a_few_unlabelled_rows_do_not_constrain_a_plane():
    X = np.array([[0.0], [1], [10], [11], [20], [21], [10.5]])
    coder = Tsvmh(bits=8).fit(X, [0, 0, 1, 1, 2, 2, -1])
    codes = coder.encode(X)
    assert distances(codes[6:], codes)[0].tolist()[2:4] == [0, 0]


def test_scores_are_in_units_of_the_margin():
    X, _, truth = clouds(spread=0.3)
    coder = Tsvmh(bits=8, C=1e4).fit(X, truth)
    scores = np.abs(coder.project(X))
    inside = coder.sides_[:, truth].T != 0
    nearest = np.where(inside, scores, np.inf).min(axis=0)  # of the rows that the plane separates
    np.testing.assert_allclose(nearest, 1, atol=0.2)


def test_an_embedding_is_the_distance_from_each_plane():
    coder = Tsvmh(bits=16).fit(X, Y)
    np.testing.assert_allclose(
        coder.transform(X), coder.project(X) / np.linalg.norm(coder.W_, axis=1), rtol=1e-4, atol=1e-5
    )


def test_label_noise_hurts_the_ramp_less_than_the_hinge():
    X, _, truth = clouds(600, 4, spread=2.0, unlabelled=0)
    random = np.random.default_rng(1)
    X[random.random(600) < 0.2] *= 3
    noisy = np.where(random.random(600) < 0.2, random.integers(4, size=600), truth)

    def gap(coder):  # relative difference of distances within and between classes
        away = distances(*[coder.encode(X[::3])] * 2)
        same = truth[::3, None] == truth[::3]
        return 1 - away[same].mean() / away[~same].mean()

    lost = [gap(cls(bits=24).fit(X, truth)) - gap(cls(bits=24).fit(X, noisy)) for cls in (Tsvmh, HingeTsvmh)]
    assert lost[0] < lost[1]


def test_it_is_saved_as_arrays_and_restored():
    coder = registry.create("coder", "tsvm(bits=16)").fit(X, Y)
    assert registry.kind_of(coder) == ("coder", "tsvm")
    again = registry.restore("coder", registry.spec_of(coder), registry.state_of(coder))
    np.testing.assert_array_equal(again.encode(X), coder.encode(X))


def test_zero_rows_and_empty_input_are_accepted():
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
        ({"bits": 12}, "a multiple of 8, and at least 8. Got 12"),
        ({"bits": 0}, "a multiple of 8, and at least 8. Got 0"),
        ({"C": -1}, "C must be a number from 1e-30 to 1e30. Got -1"),
        ({"C_unlabelled": -1}, "C_unlabelled must be a number from 0 to 1e30. Got -1"),
        ({"sample": 0}, "sample must be a whole number of at least 1. Got 0"),
        ({"random_state": None}, "random_state must be a whole number of at least 0. Got None"),
    ],
)
def test_invalid_parameters_are_rejected(change, message):
    with pytest.raises(InputError, match=message):
        Tsvmh(**change).fit(X, Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        (np.full(200, -1), "y must contain some labels. Got none; without labels, use a coder such as itq"),
        (
            np.where(np.arange(200) < 50, 3, -1),
            "at least 2 classes, not counting -1 .* Got 1 class",
        ),
        (np.arange(200) / 7, "Got continuous numbers, such as 0.14"),
        (np.arange(3), r"labels for each of 200 rows. Got shape \(3,\)"),
    ],
)
def test_unusable_labels_are_rejected(y, message):
    with pytest.raises(InputError, match=message):
        Tsvmh(bits=8).fit(X, y)


def test_an_unfitted_coder_raises():
    with pytest.raises(NotFittedError):
        Tsvmh().encode(X)


@parametrize_with_checks([TsvmPlanes(dim=3)])
def test_scikit_learn_estimator_checks_of_planes_pass(estimator, check):
    check(estimator)


def test_planes_equal_those_of_the_codes():
    some = np.where(np.random.default_rng(1).random(120) < 0.3, -1, CLASSES)
    planes, coder = TsvmPlanes(dim=19).fit(WIDE, some), Tsvmh(bits=24).fit(WIDE, some)
    np.testing.assert_allclose(planes.transform(WIDE), coder.transform(WIDE)[:, :19], atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(planes.W_, axis=1), 1, atol=1e-5)
    assert TsvmPlanes().fit(WIDE, some).transform(WIDE).shape == (120, 11)  # one tree of 12 classes


def test_codes_of_the_distances_from_planes_keep_classes_together():
    near = registry.create("coder", "itq(bits=16)")
    embedded = TsvmPlanes().fit(WIDE[:60], CLASSES[:60]).transform(WIDE)
    codes = near.fit(embedded).encode(embedded)
    differ = np.unpackbits(codes[60:, None] ^ codes[None, :60], axis=2).sum(axis=2)  # new rows against known ones
    assert (CLASSES[:60][differ.argmin(axis=1)] == CLASSES[60:]).mean() > 0.8


def test_planes_are_saved_and_restored():
    fitted = registry.create("transform", "tsvmplanes(dim=5)").fit(WIDE, CLASSES)
    again = registry.restore("transform", registry.spec_of(fitted), registry.state_of(fitted))
    np.testing.assert_array_equal(again.transform(WIDE), fitted.transform(WIDE))


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [({"dim": 0}, CLASSES, "dim must be"), ({}, np.zeros(120), "at least 2"), ({}, np.full(120, -1), "some labels")],
)
def test_planes_reject_invalid_input(options, y, message):
    with pytest.raises(InputError, match=message):
        TsvmPlanes(**options).fit(WIDE, y)


def leaves(nodes):
    """The classes that are the only one on their side of a node."""
    return sorted(int(side[0]) for node in nodes for side in (node.left, node.right) if len(side) == 1)


@settings(max_examples=60, deadline=None)
@given(C=st.integers(2, 25), seed=st.integers(0, 2**32), kind=st.sampled_from(["any", "equal", "far", "blocks"]))
def test_every_class_is_one_leaf_and_every_node_divides_a_side_of_its_parent(C, seed, kind):
    random = np.random.default_rng(seed)
    distances = {
        "any": random.random((C, C)) * 10,
        "equal": np.ones((C, C)),
        "far": random.choice([0.0, 1e9], (C, C)),
        "blocks": 100.0 * (np.arange(C)[:, None] // 3 != np.arange(C) // 3),
    }[kind]
    distances = np.triu(distances, 1) + np.triu(distances, 1).T
    nodes = class_tree(similarities(distances))
    assert len(nodes) == C - 1
    assert leaves(nodes) == list(range(C))
    for place, node in enumerate(nodes):
        together = sorted([*node.left, *node.right])
        if node.parent < 0:
            assert place == 0
            assert together == list(range(C))
        else:
            assert node.parent < place
            assert together in [list(side) for side in nodes[node.parent][:2]]


def test_a_cut_is_the_best_normalised_cut_if_groups_are_well_separated():
    random = np.random.default_rng(0)
    groups = np.array([0, 1, 0, 1, 1, 0, 0])
    W = np.where(groups[:, None] == groups, 0.9, 0.1) + 0.05 * random.random((7, 7))
    W = np.triu(W, 1) + np.triu(W, 1).T
    costs = {}
    for number in range(1, 2**6):
        side = (number >> np.arange(7)) & 1 == 1
        across = W[side][:, ~side].sum()
        costs[tuple(side)] = across / W[side].sum() + across / W[~side].sum()
    best = np.array(min(costs, key=costs.get))
    root = class_tree(W)[0]
    assert {tuple(root.left), tuple(root.right)} == {tuple(np.flatnonzero(best)), tuple(np.flatnonzero(~best))}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), scale=st.sampled_from([1e-3, 1.0, 1e4]))
def test_hull_distance_is_the_distance_between_the_nearest_points_of_two_hulls(seed, scale):
    random = np.random.default_rng(seed)
    A, B = random.normal(size=(6, 3)), random.normal((7, 0, 0), size=(6, 3))

    def gap(z):  # the squared distance between two convex combinations
        away = z[:6] @ A - z[6:] @ B
        return away @ away

    sums = [{"type": "eq", "fun": lambda z, part=part: z[part].sum() - 1} for part in (slice(6), slice(6, 12))]
    found = minimize(gap, np.full(12, 1 / 6), method="SLSQP", bounds=[(0, 1)] * 12, constraints=sums, tol=1e-12)
    expected = scale * np.sqrt(found.fun)
    codes = np.repeat([0, 1], 6)
    got = hull_distances(np.concatenate([A, B]) * scale, codes, np.random.default_rng(0))
    np.testing.assert_allclose(got, [[0, expected], [expected, 0]], rtol=0.02, atol=1e-12)


def test_hulls_that_overlap_have_distance_zero():
    X = np.array([[0.0], [4.0], [1.0], [3.0], [2.0], [9.0]])
    assert hull_distances(X, np.array([0, 0, 1, 1, 0, 2]), np.random.default_rng(0))[0, 1] == 0
    assert (hull_distances(np.zeros((6, 2)), np.array([0, 0, 1, 1, 2, 2]), np.random.default_rng(0)) == 0).all()


def test_label_combinations_that_share_a_label_have_the_largest_similarity():
    labels = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 1, 0]], bool)
    combinations, codes = read_labels(labels, 5)
    assert (combinations[codes] == labels).all()
    assert len(combinations) == 4
    W = similarities(np.full((4, 4), 7.0), sharing(combinations))
    both = codes[3]
    for single in (0, 1):
        assert W[both, codes[single]] == 1
    assert W[both, codes[2]] < 1
    assert (np.diag(W) == 0).all()
    root = class_tree(W)[0]
    assert [codes[2]] in (root.left.tolist(), root.right.tolist())  # it shares no label, so it is split first


def test_a_class_without_rows_is_rejected():
    with pytest.raises(InputError, match=r"Every class must have at least one row. Class 1 has none"):
        hull_distances(np.eye(3), np.array([0, 2, 2]), np.random.default_rng(0))
