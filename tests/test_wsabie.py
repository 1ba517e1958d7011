import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.errors import InputError, UnknownNameError
from lookalike.learn import Jscl, Wsabie, training
from lookalike.learn.wsabie import hinge_loss, rank_loss

random = np.random.default_rng(0)
MEANS = random.normal(size=(6, 10)) * 1.5
Y = random.integers(0, 6, 900)
X = MEANS[Y] + random.normal(size=(900, 10))
BOTH = pytest.mark.parametrize("kind", [Wsabie, Jscl])
LOSSES = pytest.mark.parametrize("loss", [rank_loss, hinge_loss])


@parametrize_with_checks([Wsabie(max_iterations=30), Jscl(max_iterations=30)])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 7))
def test_losses_equal_those_of_plain_loops(seed, m, C):
    random = np.random.default_rng(seed)
    scores, y = random.integers(-2, 3, (m, C)) / 2, random.integers(0, C, m)  # many margins are exactly 0
    ranked = hinged = 0.0
    for row, own in zip(scores, y, strict=True):
        hinges = [1 - row[own] + row[c] for c in range(C) if c != own and 1 - row[own] + row[c] > 0]
        if hinges:
            ranked += sum(1 / j for j in range(1, len(hinges) + 1)) * np.mean(hinges)
        hinged += max(0, 1 - row[own]) + np.mean([max(0, 1 + row[c]) for c in range(C) if c != own])
    assert rank_loss(scores, y)[0] == pytest.approx(ranked / m)
    assert hinge_loss(scores, y)[0] == pytest.approx(hinged / m)


@LOSSES
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 5), C=st.integers(2, 7))
def test_gradients_equal_finite_differences(loss, seed, m, C):
    random = np.random.default_rng(seed)
    scores, y = random.normal(size=(m, C)), random.integers(0, C, m)
    own = scores[np.arange(m), y][:, None]
    kinks = 1 - own + scores if loss is rank_loss else 1 - np.abs(scores)
    assume(np.abs(kinks).min() > 1e-4)
    numeric = np.empty(scores.shape)
    for place in np.ndindex(*scores.shape):
        shift = np.zeros(scores.shape)
        shift[place] = 1e-6
        numeric[place] = (loss(scores + shift, y)[0] - loss(scores - shift, y)[0]) / 2e-6
    np.testing.assert_allclose(loss(scores, y)[1], numeric, atol=1e-7)


@BOTH
def test_the_gradient_of_projection_and_classifiers_equals_finite_differences(kind, monkeypatch):
    seen = {}

    def spy(both, step, rows, labels, **options):
        seen.update(both=both.astype(np.float64), step=step, X=rows[np.arange(30)], y=labels[:30])
        return train(both, step, rows, labels, **options)

    train = training.train
    monkeypatch.setattr(training, "train", spy)
    kind(dim=4, max_iterations=1).fit(X, Y)
    both, step, rows, y = seen["both"], seen["step"], seen["X"], seen["y"]
    both = both + 0.1 * np.random.default_rng(1).normal(size=both.shape)
    gradient = step(both, rows, y)[1]
    for place in list(np.ndindex(*both.shape))[::5]:
        shift = np.zeros(both.shape)
        shift[place] = 1e-7
        numeric = (step(both + shift, rows, y)[0] - step(both - shift, rows, y)[0]) / 2e-7
        assert gradient[place] == pytest.approx(numeric, abs=1e-5)


@BOTH
def test_it_learns_to_classify(kind):
    half = np.arange(900) < 600
    start = kind(dim=5, max_iterations=1, rate=1e-12).fit(X[half], Y[half]).score(X[~half], Y[~half])
    model = kind(dim=5, measure="top1").fit(X[half], Y[half])
    assert model.score(X[~half], Y[~half]) > max(0.9, start + 0.01)
    assert model.coef_.shape == (6, 5)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, model.transform(X) @ model.coef_.T, atol=1e-4)
    assert model.predict(X).tolist() == scores.argmax(axis=1).tolist()


@BOTH
def test_torch_gives_the_same_results(kind):
    torch = pytest.importorskip("torch")
    ours = kind(dim=4, max_iterations=30).fit(X, Y)
    theirs = kind(dim=4, max_iterations=30).fit(torch.from_numpy(X), torch.from_numpy(Y))
    for name in ("W_", "coef_", "offset_"):
        np.testing.assert_allclose(getattr(theirs, name).numpy(), getattr(ours, name), rtol=1e-3, atol=1e-4)
    assert theirs.predict(torch.from_numpy(X)).tolist() == theirs.predict(X).tolist()
    np.testing.assert_allclose(theirs.transform(X), theirs.transform(torch.from_numpy(X)).numpy(), atol=1e-4)


@pytest.mark.parametrize("y", [Y == 0, np.array(["no", "yes"])[(Y == 0).astype(int)]])
def test_two_classes_and_text_labels_are_accepted(y):
    model = Wsabie(dim=3).fit(X, y)
    assert model.decision_function(X).shape == (900,)
    assert model.score(X, y) > 0.9


@BOTH
def test_a_class_with_one_image_is_learned_from_it(kind):
    y = Y.copy()
    y[:1] = 77
    model = kind(dim=5, measure="top1", max_iterations=100).fit(X, y)
    assert 77 in model.classes_
    assert np.isfinite(model.coef_).all()


@BOTH
def test_invalid_input_is_rejected(kind):
    bad = X.copy()
    bad[3, 2] = np.inf
    with pytest.raises(InputError, match="X must be finite"):
        kind().fit(bad, Y)
    with pytest.raises(InputError, match="at least 2 classes"):
        kind().fit(X, np.zeros(900))
    with pytest.raises(InputError, match="rate must be a finite number above 0"):
        kind(rate=-1).fit(X, Y)
    with pytest.raises(UnknownNameError, match="nonsense"):
        kind(measure="nonsense").fit(X, Y)
    with pytest.raises(InputError):
        kind().fit(X, Y, held=(X, Y + 100))


def test_retrieval_can_be_measured_on_unseen_classes():
    model = Jscl(dim=4, measure="map", max_iterations=100).fit(X, Y, held=(X[:50], Y[:50] + 100))
    assert 0 < model.curve_[:, 2].min() <= 1
