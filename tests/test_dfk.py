import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.errors import InputError, UnknownNameError
from lookalike.features.clustering import Mixture
from lookalike.learn.dfk import SPREAD, Dfk, Objective, neighbour_objective, neighbour_shares
from lookalike.learn.fisher_scores import SMALL, FisherScores
from lookalike.learn.measures import retrieval
from lookalike.learn.sets import Sets
from reference import fisher_kernel as slow

random = np.random.default_rng(3)
Y = np.arange(240) % 3
X = random.normal(size=(240, 6)) * [1, 1, 3, 3, 3, 3]
X[:, :2] += 2.5 * np.array([[0, 0], [1, 0], [0, 1]])[Y]
SETS = [row + random.normal(size=(random.integers(1, 6), 6)) for row in X]
SEVERAL = np.stack([Y == 0, Y == 1, Y == 2, random.random(240) < 0.3], axis=1)


def objective(scores, w, y):
    """Return the objective of scores (n, P) under weights w (P,), and its gradients by w and by scores."""
    centred = scores - scores.mean(axis=0)
    weighted = centred * w**0.5
    value, L = neighbour_objective(weighted @ weighted.T, y)
    pulled = L @ centred
    return value, (centred * pulled).sum(axis=0), 2 * pulled * w


@parametrize_with_checks([Dfk(k=3, max_iterations=3)])
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 2), st.sampled_from(["all", "fixed"]))
def test_gradients_equal_finite_differences(seed, k, d, learned):
    random = np.random.default_rng(seed)
    first = Mixture(random.dirichlet(np.ones(k) * 3), random.normal(size=(k, d)), random.gamma(2, size=(k, d)) + 0.2)
    packed, P, scale = Objective(first, learned), k * (2 * d + 1), random.gamma(2)
    parameters = random.normal(size=P + 2 * k * d + k) * 0.3
    rows, starts = random.normal(size=(9, d)) * 2, np.array([0, 2, 3, 5, 9])
    y = random.integers(0, 2, (4, 3))

    def posteriors_under(mixture):  # (M, k, 1)
        return FisherScores(mixture, rows).score(rows, np.arange(10)).counts.T[:, :, None]

    now = posteriors_under(packed.unpack(parameters)[0])

    def loss(parameters):
        (alpha, means, variances), roots = packed.unpack(parameters)
        posteriors = now if learned == "fixed" else posteriors_under(Mixture(alpha, means, variances))
        z = (rows[:, None] - means) / np.sqrt(variances)
        root = np.sqrt(alpha)[:, None]
        parts = (posteriors * z / root, posteriors * (z * z - 1) / root / 2**0.5, (posteriors - alpha[:, None]) / root)
        scores = np.concatenate([part.reshape(9, -1) for part in parts], axis=1)
        means = np.stack([scores[a:b].mean(axis=0) for a, b in itertools.pairwise(starts)])
        weighted = means * roots
        weighted = weighted / np.sqrt(np.abs(weighted) + SMALL)
        weighted = weighted / np.linalg.norm(weighted, axis=1, keepdims=True)
        return -slow.objective(weighted, np.full(P, scale**2), [set(np.flatnonzero(row)) for row in y])

    found, gradient = packed.step(parameters, rows, starts, y, scale)
    assert found == pytest.approx(loss(parameters))
    np.testing.assert_allclose(gradient, slow.differences(loss, parameters), rtol=1e-4, atol=1e-6)
    weights_only = Objective(first, "weights").step(parameters, rows, starts, y, scale)[1]
    assert not weights_only[P:].any()
    np.testing.assert_array_equal(weights_only[:P], gradient[:P])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 30))
def test_any_parameters_give_a_valid_mixture_and_valid_weights(seed, size):
    random = np.random.default_rng(seed)
    first = Mixture(np.array([0.3, 0.7]), random.normal(size=(2, 2)), random.gamma(2, size=(2, 2)) + 0.1)
    (alpha, _, variances), roots = Objective(first, "all").unpack(random.normal(size=10 + 8 + 2) * size)
    assert (roots > 0).all()
    assert (variances > 0).all()
    assert alpha.sum() == pytest.approx(1)
    assert (alpha >= 0).all()
    (alpha, means, variances), _ = Objective(first, "all").unpack(np.zeros(20))
    np.testing.assert_allclose(
        [*alpha, *means.flat, *variances.flat], [*first.weights, *first.means.flat, *first.variances.flat]
    )


@pytest.mark.parametrize("learned", ["all", "fixed", "weights"])
@pytest.mark.parametrize("y", [Y, SEVERAL])
def test_training_improves_the_objective_and_the_held_out_precision(learned, y):
    part = Dfk(k=3, max_iterations=60, validation=0, learned=learned)
    plain = part.set_params(max_iterations=0).fit(X, y).transform(X)
    better = part.set_params(max_iterations=60).fit(X, y)
    Z = better.transform(X)
    ones = np.ones(Z.shape[1], np.float32)
    assert objective(Z, ones, y)[0] > objective(plain, ones, y)[0] + 0.05
    losses = better.curve_[1:, 1]
    assert losses[-1] < losses[0]
    assert (np.diff(better.likelihoods_) >= 0).all()
    watched = Dfk(k=1, max_iterations=100, learned=learned).fit(X, y).curve_
    assert watched[:, 2].max() > watched[0, 2] + 0.01


def test_training_improves_the_retrieval_of_new_items():
    half = np.arange(240) < 160
    part = Dfk(k=2, batch=80)
    plain = part.set_params(max_iterations=0).fit(X[half], Y[half]).transform(X[~half])
    learned = part.set_params(max_iterations=150).fit(X[half], Y[half]).transform(X[~half])
    assert retrieval(learned, Y[~half]) > retrieval(plain, Y[~half]) + 0.05


def test_initial_distances_have_the_default_spread():
    Z = Dfk(k=2, max_iterations=0, validation=0).fit(SETS, Y).transform(SETS).astype(np.float64)
    assert 2 * Z.var(axis=0).sum() == pytest.approx(SPREAD, rel=1e-3)


def test_the_best_validated_parameters_are_kept_and_reported():
    seen = []
    part = Dfk(k=2, max_iterations=60, batch=30).fit(X, Y, callback=lambda *entry: seen.append(entry))
    np.testing.assert_array_equal(np.array(seen), part.curve_)
    steps = int(part.curve_[part.curve_[:, 2].argmax(), 0])
    again = Dfk(k=2, max_iterations=steps, batch=30).fit(X, Y)
    np.testing.assert_array_equal(again.roots_, part.roots_)


def test_weighted_scores_match_the_mixture():
    part = Dfk(k=3, max_iterations=5).fit(SETS, Y)
    assert part.roots_.shape == (39,)
    fisher = FisherScores(Mixture(part.alphas_, part.means_, part.deviations_**2), SETS[4])
    weighted = fisher.scores(SETS[4], np.array([0, len(SETS[4])])) * part.roots_
    expected = np.sign(weighted) * np.abs(weighted) / np.sqrt(np.abs(weighted) + SMALL)
    expected *= part.scale_ / np.linalg.norm(expected)
    np.testing.assert_allclose(part.transform(SETS)[4:5], expected, rtol=1e-4, atol=1e-5)
    starts = np.cumsum([0, *map(len, SETS)])
    np.testing.assert_array_equal(part.transform(Sets(np.concatenate(SETS), starts)), part.transform(SETS))
    np.testing.assert_allclose(part.transform(X), part.transform([row[None] for row in X]), atol=1e-5)


@pytest.mark.parametrize("sets", [False, True])
def test_torch_gives_the_same_results(sets):
    torch = pytest.importorskip("torch")
    rows = [torch.from_numpy(one) for one in SETS] if sets else torch.from_numpy(X)
    ours = Dfk(k=2, max_iterations=8).fit(SETS if sets else X, Y)
    theirs = Dfk(k=2, max_iterations=8).fit(rows, torch.from_numpy(Y))
    np.testing.assert_allclose(theirs.roots_, ours.roots_, rtol=1e-3)
    Z = ours.transform(SETS if sets else X)
    assert np.linalg.norm(theirs.transform(rows).numpy() - Z) < 0.01 * np.linalg.norm(Z)


def test_invalid_training_data_is_refused():
    part = Dfk(k=2, max_iterations=1)
    with pytest.raises(InputError, match="Got 1 class"):
        part.fit(X, ["cat"] * 240)
    with pytest.raises(InputError, match="same labels for each of 240 items"):
        part.fit(X, np.ones((240, 3)))
    with pytest.raises(InputError, match="ones and zeros"):
        part.fit(X, np.stack([Y, Y], axis=1))
    with pytest.raises(InputError, match=r"each of 240 items. Got 5 rows"):
        part.fit(X, SEVERAL[:5])
    with pytest.raises(InputError, match="requires y"):
        part.fit(X)
    with pytest.raises(InputError, match="none for 1 of 240 items"):
        part.fit([SETS[0][:0], *SETS[1:]], Y)
    with pytest.raises(InputError, match="none for 1 of 2 items"):
        part.fit(SETS, Y).transform([SETS[0], SETS[1][:0]])
    with pytest.raises(InputError, match=r"batch must be a whole number of at least 2. Got 1"):
        Dfk(batch=1).fit(X, Y)
    with pytest.raises(UnknownNameError, match="Known: all, fixed, weights"):
        Dfk(learned="none").fit(X, Y)


def test_single_labels_unlabelled_items_and_degenerate_gaussians_give_finite_results():
    part = Dfk(k=4, max_iterations=15)
    assert np.isfinite(part.fit(X, np.r_[Y[:-1], 99]).transform(X)).all()
    assert np.isfinite(part.fit(X, np.arange(240)).transform(X)).all()
    none = SEVERAL.copy()
    none[:40] = False
    assert np.isfinite(part.fit(X, none).transform(X)).all()
    same = np.repeat(X[:3], 80, axis=0)
    same[:, 5] = 7
    assert np.isfinite(part.fit(same, Y).transform(X)).all()
    assert Dfk(k=60, max_iterations=3).fit(X[:10], Y[:10]).transform(X).shape == (240, 130)


def test_memory_depends_on_the_batch_and_is_not_quadratic_in_the_items():
    rows, y = np.random.default_rng(0).normal(size=(4_000, 3)).astype(np.float32), np.arange(4_000) % 5
    part = Dfk(k=2, batch=100, max_iterations=10, validation=0)
    part.fit(rows[:200], y[:200])  # imports and compiles first
    tracemalloc.start()
    part.fit(rows, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000**2  # bytes: a quarter of one float32 distance per pair


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 7), st.booleans())
def test_the_objective_and_its_gradients_equal_the_reference(seed, n, several):
    random = np.random.default_rng(seed)
    scores, w = random.normal(size=(n, 3)), random.gamma(1, size=3)
    y = random.integers(0, 2, (n, 4)) if several else random.integers(0, 3, n)
    labels = [set(np.flatnonzero(row)) for row in y] if several else [{one} for one in y]
    found, by_w, by_scores = objective(scores, w, y)
    assert found == pytest.approx(slow.objective(scores, w, labels))
    np.testing.assert_allclose(by_w, slow.differences(lambda v: slow.objective(scores, v, labels), w, 1e-7), atol=1e-6)
    numeric = slow.differences(lambda rows: slow.objective(rows, w, labels), scores)
    np.testing.assert_allclose(by_scores, numeric, atol=1e-6)


def test_with_one_label_per_item_it_is_the_objective_of_nca():
    random = np.random.default_rng(1)
    X, y, w = random.normal(size=(30, 4)), random.integers(0, 3, 30), random.gamma(1, size=4)
    nca = NeighborhoodComponentsAnalysis()
    nca.n_iter_ = 0
    loss, gradient = nca._loss_grad_lbfgs(np.diag(np.sqrt(w)), X, y[:, None] == y[None, :], -1.0)
    found, by_w, _ = objective(X, w, y)
    s = np.tanh(0.5)  # for one label in common; -s for none
    assert found == pytest.approx(s * (2 * -loss / 30 - 1))
    by_root = -np.diag(gradient.reshape(4, 4)) * 2 * s / 30
    np.testing.assert_allclose(by_w * 2 * np.sqrt(w), by_root, atol=1e-10)


def test_torch_gives_the_same_objective():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(2)
    scores, w, y = random.normal(size=(6, 5)), random.gamma(1, size=5), random.integers(0, 2, (6, 3))
    results = []
    for cast in (np.asarray, torch.from_numpy):
        Z = cast(scores)
        results.append([*objective(Z, cast(w), cast(y)), neighbour_shares(Z @ Z.T), retrieval(Z, y)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(np.asarray(theirs), ours, atol=1e-10)


def test_retrieval_is_average_precision_by_distance():
    Z = np.array([[0.0], [1.0], [3.0], [3.5]])
    assert retrieval(Z, np.array([0, 1, 0, 2])) == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert retrieval(Z, np.array([[1, 0], [0, 1], [1, 1], [0, 0]])) == pytest.approx(
        (1 / 2 + 1 / 2 + (1 / 2 + 2 / 3) / 2) / 3
    )
    assert retrieval(Z, np.arange(4)) == 0
