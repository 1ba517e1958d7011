import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.errors import InputError
from lookalike.learn import Fda, Ncmml, NcmmlDot, PqRows
from lookalike.learn.labels import encode_labels, hold_out
from lookalike.learn.measures import mean_average_precision, ranks, top
from lookalike.learn.ncmml import SPREADS, class_scores, inner_product_step, likelihood_step, pack, unpack
from lookalike.learn.training import LAM
from lookalike.registry import restore, spec_of, state_of
from reference.likelihood import differences, gradient, inner_log_likelihood, log_likelihood


def make_rows(n=600, classes=6, useful=4, nuisance=12, seed=0):
    """Classes that differ in a few columns, and larger columns of noise, mixed by a rotation."""
    random = np.random.default_rng(seed)
    centres = 2.5 * np.random.default_rng(99).normal(size=(classes, useful))
    y = random.integers(0, classes, n)
    X = np.concatenate([centres[y] + random.normal(size=(n, useful)), 5 * random.normal(size=(n, nuisance))], axis=1)
    rotation = np.linalg.qr(np.random.default_rng(98).normal(size=(useful + nuisance,) * 2))[0]
    return (X @ rotation).astype(np.float32), y


X, Y = make_rows()
TEST, TRUTH = make_rows(seed=1)


def accuracy(project):
    """Accuracy of the nearest class mean after a projection."""
    Z, T = project(X), project(TEST)
    means = np.stack([Z[c == Y].mean(axis=0) for c in range(6)])
    return np.mean(np.argmin(((T[:, None] - means) ** 2).sum(axis=2), axis=1) == TRUTH)


@parametrize_with_checks([Ncmml(), Ncmml(dim=64), NcmmlDot()])
@pytest.mark.filterwarnings("ignore::lookalike.errors.FewerDimensionsWarning")
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("form", [Ncmml, NcmmlDot])
@pytest.mark.parametrize("batch", [3, 100])
def test_the_learned_metric_beats_plain_distance_if_most_columns_are_noise(form, batch):
    plain = accuracy(lambda rows: rows)
    learned = accuracy(form(dim=4, batch=batch, measure="top1").fit(X, Y).transform)
    assert learned > plain + 0.1


def test_it_is_nearly_as_good_as_using_only_the_informative_columns():
    rotation = np.linalg.qr(np.random.default_rng(98).normal(size=(16, 16)))[0]
    model = Ncmml(dim=4, rate=1, validation=0, max_iterations=300).fit(X, Y)
    assert accuracy(model.transform) > accuracy(lambda rows: (rows @ rotation.T)[:, :4]) - 0.05


def test_the_learned_attributes_are_as_documented():
    model = Ncmml(dim=3, max_iterations=100).fit(X, np.array(list("abcdef"))[Y])
    assert model.W_.shape == (3, 16)
    assert model.W_.dtype == model.means_.dtype == np.float32
    assert model.classes_.tolist() == list("abcdef")
    np.testing.assert_allclose(model.means_, [X[c == Y].mean(axis=0) for c in range(6)], atol=1e-5)
    np.testing.assert_allclose(model.transform(X), X @ model.W_.T, atol=1e-4)
    assert model.curve_[:, 0].tolist() == list(range(0, 101, 10))
    assert model.curve_[-1, 1] < model.curve_[1, 1]


def test_the_best_iterate_is_kept():
    held = TEST[:200], TRUTH[:200]
    model = Ncmml(dim=4, measure="top1", rate=1.0).fit(X, Y, held=held)
    means = model.means_ @ model.W_.T
    hits = np.argmin(((model.transform(held[0])[:, None] - means) ** 2).sum(axis=2), axis=1) == held[1]
    best = model.curve_[:, 2].max()
    np.testing.assert_allclose(hits.mean(), best, atol=2 / 200)


def test_without_steps_it_is_fishers_discriminants_at_the_most_likely_scale():
    held = TEST[:200], TRUTH[:200]
    model = Ncmml(dim=3, max_iterations=0).fit(X, Y, held=held)
    within = (X - model.means_[Y]).var(axis=0).sum() / X.var(axis=0).sum()
    other = Fda(dim=3, lam=LAM * within).fit(X, Y)
    angles = np.linalg.svd(np.linalg.qr(model.W_.T)[0].T @ np.linalg.qr(other.W_.T)[0])[1]
    assert angles.min() > 0.999

    def likelihood(W):
        P, M = held[0] @ W.T, model.means_ @ W.T
        scores = -((P[:, None] - M) ** 2).sum(axis=2) / 2
        return np.mean(scores[np.arange(200), held[1]] - np.logaddexp.reduce(scores, axis=1))

    here = likelihood(model.W_)
    assert here > max(likelihood(model.W_ * 2), likelihood(model.W_ / 2))
    assert (np.diff(SPREADS) > 0).all()


def test_rows_held_out_at_random_are_used_in_the_final_fit():
    model = Ncmml(dim=4, max_iterations=60, batch=100).fit(X, Y)
    best = int(model.curve_[np.argmax(model.curve_[:, 2]), 0])
    kept, out = hold_out(Y, 0.2, np.random.default_rng(0))
    part = Ncmml(dim=4, max_iterations=60, batch=100).fit(X[kept], Y[kept], held=(X[out], Y[out]))
    np.testing.assert_allclose(part.curve_, model.curve_, equal_nan=True, rtol=1e-4)
    assert best == part.curve_[np.argmax(part.curve_[:, 2]), 0]
    assert np.abs(part.W_ - model.W_).max() > 1e-3 * np.abs(model.W_).max()  # the same number of steps, on more rows


@pytest.mark.parametrize("scale", [1e-3, 1.0, 255.0])
@pytest.mark.parametrize("offset", [0.0, 10.0])
def test_scale_and_offset_of_the_rows_do_not_matter(scale, offset):
    options = {"dim": 4, "max_iterations": 60, "validation": 0}
    expected = Ncmml(**options).fit(X.astype(np.float64), Y)
    got = Ncmml(**options).fit((X.astype(np.float64) + offset) * scale, Y)
    np.testing.assert_allclose(got.W_ * scale, expected.W_, atol=5e-3 * np.abs(expected.W_).max())


@pytest.mark.parametrize("form", [Ncmml, NcmmlDot])
def test_torch_and_numpy_give_the_same_model(form):
    torch = pytest.importorskip("torch")
    options = {"dim": 4, "batch": 100, "max_iterations": 100, "validation": 0.2}
    ours = form(**options).fit(X, Y)
    theirs = form(**options).fit(torch.from_numpy(X), torch.from_numpy(Y))
    assert isinstance(theirs.W_, torch.Tensor)
    assert isinstance(theirs.transform(torch.from_numpy(X)), torch.Tensor)
    np.testing.assert_allclose(theirs.W_.numpy(), ours.W_, atol=1e-3 * np.abs(ours.W_).max())
    np.testing.assert_allclose(theirs.transform(X), ours.transform(torch.from_numpy(X)).numpy(), atol=1e-2)


def test_a_memory_map_gives_the_same_model_as_the_array(tmp_path):
    np.save(tmp_path / "x.npy", X)
    rows = np.load(tmp_path / "x.npy", mmap_mode="r")
    a, b = (Ncmml(dim=4, batch=50, max_iterations=100).fit(source, Y) for source in (X, rows))
    assert a.W_.tobytes() == b.W_.tobytes()
    assert a.transform(X).tobytes() == b.transform(rows).tobytes()


def test_compressed_rows_give_the_same_model_as_their_decompressed_rows():
    rows = PqRows(X)
    a, b = (Ncmml(dim=4, batch=50, max_iterations=100).fit(source, Y) for source in (rows, rows[:]))
    assert a.W_.tobytes() == b.W_.tobytes()
    np.testing.assert_array_equal(a.transform(rows), b.transform(rows[:]))
    with pytest.raises(InputError, match=r"X must have 16 columns. Got 8"):
        a.transform(PqRows(X[:, :8]))


def test_compressed_rows_on_a_device_are_fitted_there():
    torch = pytest.importorskip("torch")
    options = {"dim": 4, "batch": 50, "max_iterations": 100}
    there, here = (Ncmml(**options).fit(PqRows(X, device=device), Y) for device in ("cpu", None))
    assert isinstance(there.W_, torch.Tensor)
    assert isinstance(there.transform(PqRows(X, device="cpu")), torch.Tensor)
    np.testing.assert_allclose(there.W_.numpy(), here.W_, atol=1e-3 * np.abs(here.W_).max())


def test_only_the_same_seed_gives_the_same_bytes():
    a, b, c = (Ncmml(dim=4, batch=50, max_iterations=60, random_state=seed).fit(X, Y).W_ for seed in (3, 3, 4))
    assert a.tobytes() == b.tobytes() != c.tobytes()


def test_it_is_saved_with_the_class_names():
    model = Ncmml(dim=4, max_iterations=50).fit(X, np.array(["ab", "c", "d", "e", "f", "g"], object)[Y])
    again = restore("transform", spec_of(model), state_of(model))
    assert again.classes_.tolist() == ["ab", "c", "d", "e", "f", "g"]
    assert again.transform(X).tobytes() == model.transform(X).tobytes()


def test_retrieval_as_the_measure_decides_when_to_stop():
    other, labels = make_rows(n=300, seed=5)
    model = Ncmml(dim=4, measure="map").fit(X, Y, held=(other, np.array(list("uvwxyz"))[labels]))
    np.testing.assert_allclose(
        mean_average_precision(model.transform(other), labels), model.curve_[:, 2].max(), atol=1e-3
    )
    assert model.curve_[:, 2].max() > model.curve_[0, 2]


@pytest.mark.filterwarnings("ignore::lookalike.errors.FewerDimensionsWarning")
def test_a_dim_above_the_rank_is_reduced_to_the_rank():
    assert Ncmml(dim=100, max_iterations=5).fit(X, Y).W_.shape == (16, 16)
    assert Ncmml(dim=100, max_iterations=5, validation=0).fit(X[:7], Y[:7]).W_.shape == (6, 16)
    assert Ncmml(dim=64, max_iterations=5, validation=0.9).fit(X[:12], np.arange(12) % 2).W_.shape == (1, 16)


def test_a_class_can_have_a_single_row():
    y = Y.copy()
    y[0] = 77
    model = Ncmml(dim=4, max_iterations=100).fit(X, y)
    assert model.classes_[-1] == 77
    np.testing.assert_allclose(model.means_[-1], X[0], atol=1e-6)
    every = Ncmml(dim=4, max_iterations=20).fit(X[:30], np.arange(30))  # nothing can be held out
    assert np.isnan(every.curve_[:, 2]).all()
    assert np.isfinite(every.W_).all()


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (None, "requires y to be passed"),
        (np.zeros(600, int), r"at least 2 classes. Got 1 class"),
        (np.where(np.arange(600) < 3, np.nan, Y), r"Got none for 3 of 600 rows"),
        (np.where(np.arange(600) < 3, "", Y.astype(str)), r"Got none for 3 of 600 rows"),
        (np.where(np.arange(600) < 3, None, Y.astype(object)), r"Got none for 3 of 600 rows"),
        (Y + 0.5, "Got continuous numbers, such as"),
        (Y[:-1], r"one label for each of 600 rows. Got shape \(599,\)"),
    ],
)
def test_unusable_labels_are_rejected(labels, problem):
    with pytest.raises(InputError, match=problem):
        Ncmml(dim=64).fit(X, labels)


def test_validation_labels_must_be_known_classes():
    with pytest.raises(InputError, match=r"must occur in the training labels. Got \[8\], which do not"):
        Ncmml(dim=64).fit(X, Y, held=(X[:2], np.array([1, 8])))


@pytest.mark.parametrize("where", [0, 599])
@pytest.mark.filterwarnings("ignore::lookalike.errors.FewerDimensionsWarning")
def test_rows_that_are_not_finite_are_rejected(where):
    bad = X.copy()
    bad[where, 3] = np.nan
    for options in ({}, {"validation": 0}):
        with pytest.raises(InputError, match="X must be finite"):
            Ncmml(**options).fit(bad, Y)
    with pytest.raises(InputError, match="X must be finite"):
        Ncmml(dim=64).fit(X, Y, held=(bad, Y))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"dim": 0}, "dim must be a whole number of at least 1. Got 0"),
        ({"rate": 0}, "rate must be a finite number above 0. Got 0"),
        ({"batch": 0}, "batch must be a whole number of at least 1. Got 0"),
        ({"max_iterations": -1}, "max_iterations must be a whole number of at least 0. Got -1"),
        ({"validation": 1.0}, "validation must be a share of at least 0 and below 1. Got 1.0"),
        ({"measure": "top-5"}, "No measure named 'top-5'. Known: map, top1, top5"),
        ({"rate": 1e12}, "rate must be smaller: .* Got 1e\\+12"),
    ],
)
@pytest.mark.filterwarnings("ignore::lookalike.errors.FewerDimensionsWarning")
def test_invalid_options_are_rejected(options, problem):
    with pytest.raises(InputError, match=problem):
        Ncmml(**{"dim": 64} | options).fit(X, Y)


def test_options_are_checked_without_a_dimension_too():
    for options, problem in (({"rate": 0}, "rate must be"), ({"measure": "top-5"}, "No measure named 'top-5'")):
        with pytest.raises(InputError, match=problem):
            Ncmml(**options).fit(X, Y)
    with pytest.raises(InputError, match="held and callback need a dimension"):
        Ncmml().fit(X, Y, callback=print)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 12), min_size=2, max_size=8), st.floats(0, 0.9), st.integers(0, 99))
def test_a_share_of_each_class_is_held_out_but_never_all_of_it(counts, share, seed):
    codes = np.repeat(np.arange(len(counts)), counts)
    kept, out = hold_out(codes, share, np.random.default_rng(seed))
    assert sorted([*kept, *out]) == list(range(len(codes)))
    for c, count in enumerate(counts):
        held = int((codes[out] == c).sum())
        assert held in {min(count - 1, int(share * count + more)) for more in (0, 1)}


@given(st.lists(st.sampled_from(["owl", "cat", "eel"]), min_size=2, max_size=9).filter(lambda y: len(set(y)) > 1))
def test_encoded_labels_decode_to_the_same_labels(y):
    classes, codes = encode_labels(y, len(y))
    assert classes[codes].tolist() == y
    assert classes.tolist() == sorted(set(y))


@settings(max_examples=30)
@given(st.integers(0, 999), st.integers(2, 30))
def test_measures_equal_their_slow_references(seed, n):
    random = np.random.default_rng(seed)
    Z, y = random.normal(size=(n, 3)), random.integers(0, 3, n)
    unit = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    values = []
    for i in range(n):
        others = [j for j in np.argsort(-(unit @ unit[i]), kind="stable") if j != i]
        relevant = [y[j] == y[i] for j in others]
        if any(relevant):
            values.append(np.mean([sum(relevant[: at + 1]) / (at + 1) for at, hit in enumerate(relevant) if hit]))
    np.testing.assert_allclose(mean_average_precision(Z, y), np.mean(values) if values else 0)
    found = ranks(Z, y)
    np.testing.assert_array_equal(found, [sorted(-row).index(-row[c]) for row, c in zip(Z, y, strict=True)])
    assert abs(top(found, 2) - np.mean(found < 2)) < 1 / n
    assert (top(found, 1) >= 1) == (found == 0).all()


@st.composite
def problems(draw, most=3):
    """W, rows, labels, centroids and their classes. Every class has a centroid."""
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    d, b, C = draw(st.integers(1, 6)), draw(st.integers(1, 8)), draw(st.integers(2, 5))
    D = draw(st.integers(1, d + 2))
    owners = np.repeat(np.arange(C), random.integers(1, most + 1, C))
    scale, offset = draw(st.sampled_from([0.3, 1.0, 3.0])), draw(st.sampled_from([0.0, 50.0]))
    return (
        random.normal(size=(D, d)) * scale / d**0.5,
        random.normal(size=(b, d)) + offset,
        random.integers(0, C, b),
        random.normal(size=(len(owners), d)) + offset,
        owners,
    )


def close(got, expected, tolerance=1e-6):
    np.testing.assert_allclose(got, expected, atol=tolerance * max(1, np.abs(expected).max()), rtol=tolerance)


@settings(max_examples=60, deadline=None)
@given(problems(most=1))
def test_the_gradient_of_ncmml_equals_finite_differences(problem):
    W, X, y, means, owners = problem
    loss, found = likelihood_step(means, None, X.mean(axis=0))(W, X, y)
    close(loss, -log_likelihood(W, X, y, means, owners), 1e-9)
    close(found, -gradient(W, X, y, means, owners), 1e-9)
    close(found, differences(lambda V: -log_likelihood(V, X, y, means, owners), W), 2e-5)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_the_gradient_of_ncmc_equals_finite_differences(problem):
    W, X, y, centroids, owners = problem
    loss, found = likelihood_step(centroids, owners, X.mean(axis=0))(W, X, y)
    close(loss, -log_likelihood(W, X, y, centroids, owners), 1e-9)
    close(found, -gradient(W, X, y, centroids, owners), 1e-9)
    close(found, differences(lambda V: -log_likelihood(V, X, y, centroids, owners), W), 2e-5)


@settings(max_examples=60, deadline=None)
@given(problems(most=1), st.sampled_from([0.5, 1.0, 4.0]))
def test_the_gradient_of_inner_products_equals_finite_differences(problem, unit):
    W, X, y, means, _ = problem
    t = np.linspace(-1, 1, len(means))
    centre = X.mean(axis=0)

    def slow(packed):
        V, u = unpack(packed, X.shape[1], len(means))
        return -inner_log_likelihood(V, unit * u, X - centre, y, means - centre)

    loss, found = inner_product_step(means, centre, unit)(pack(W, t), X, y)
    close(loss, slow(pack(W, t)), 1e-9)
    close(found, differences(slow, pack(W, t)), 2e-5)


@given(problems(most=1))
def test_one_centroid_per_class_equals_ncmml(problem):
    W, X, y, means, owners = problem
    one, other = (step(W, X, y) for step in (likelihood_step(means, owners, X[0]), likelihood_step(means, None, X[0])))
    close(one[0], other[0], 1e-12)
    close(one[1], other[1], 1e-12)


@given(problems())
def test_class_scores_are_log_probabilities_up_to_a_constant_per_row(problem):
    W, X, y, centroids, owners = problem
    centre = X.mean(axis=0)
    scores = class_scores((X - centre) @ W.T, (centroids - centre) @ W.T, owners)
    logs = scores - scores.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    close(logs[np.arange(len(y)), y].mean(), log_likelihood(W, X, y, centroids, owners), 1e-9)


def test_far_classes_keep_a_gradient():
    """exp(−½d) of the correct class is zero in float32, but the gradient must still move the row towards it."""
    W, X = np.eye(2, dtype=np.float32) * 30, np.array([[1.0, 0.0]], np.float32)
    centroids = np.array([[1, 0], [0, 1], [-1, 0], [-1, 1]], np.float32)
    for owners in (None, np.array([0, 0, 1, 1])):
        loss, found = likelihood_step(centroids, owners, np.zeros(2, np.float32))(W, X, np.array([1]))
        assert np.isfinite(loss)
        assert loss > 100
        assert np.isfinite(found).all()
        assert np.abs(found).max() > 1


@pytest.mark.parametrize("form", ["euclidean", "mixture", "inner", "small inner"])
def test_a_step_does_not_store_all_differences(form):
    """A step needs much less memory than the batch × classes × d differences of rows and means."""
    random = np.random.default_rng(0)
    b, C, d, D = (8 if form == "small inner" else 200), 150, 300, 16
    W, X, means = (random.normal(size=(m, d)).astype(np.float32) for m in (D, b, C))
    y, centre = random.integers(0, C, b), X[0]
    if "inner" in form:
        step, W = inner_product_step(means, centre, 1.0), pack(W, np.zeros(C, np.float32))
    else:
        step = likelihood_step(means, None if form == "euclidean" else np.arange(C), centre)
    step(W, X, y)
    tracemalloc.start()
    step(W, X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * (6 * b * C + 3 * D * d + 4 * (b + C) * D + 3 * b * d) < 4 * b * C * d / 5


def test_torch_gives_the_same_likelihood():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(1)
    W, X, centroids = random.normal(size=(3, 7)), random.normal(size=(20, 7)), random.normal(size=(8, 7))
    y, owners = random.integers(0, 4, 20), np.repeat(np.arange(4), 2)
    T = torch.from_numpy
    ours = likelihood_step(centroids, owners, X[0])(W, X, y)
    theirs = likelihood_step(T(centroids), T(owners), T(X[0]))(T(W), T(X), T(y))
    close(theirs[0].item(), ours[0], 1e-12)
    close(theirs[1].numpy(), ours[1], 1e-12)
    packed = pack(W, np.zeros(4))
    ours = inner_product_step(centroids[:4], X[0], 2.0)(packed, X, y)
    theirs = inner_product_step(T(centroids[:4]), T(X[0]), 2.0)(T(packed), T(X), T(y))
    close(theirs[1].numpy(), ours[1], 1e-12)
    P, M = X @ W.T, centroids @ W.T
    close(class_scores(T(P), T(M), owners).numpy(), class_scores(P, M, owners), 1e-12)
