import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.learn.likelihood import class_scores, euclidean, inner, mixture, pack, unpack
from reference.likelihood import differences, gradient, inner_log_likelihood, log_likelihood


@st.composite
def problems(draw, most=3):
    """W, rows, labels, centroids and their owners; every class has a centroid."""
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
def test_the_gradient_of_ncmml_is_that_of_finite_differences(problem):
    W, X, y, means, owners = problem
    loss, found = euclidean(means, X.mean(axis=0))(W, X, y)
    close(loss, -log_likelihood(W, X, y, means, owners), 1e-9)
    close(found, -gradient(W, X, y, means, owners), 1e-9)
    close(found, differences(lambda V: -log_likelihood(V, X, y, means, owners), W), 2e-5)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_the_gradient_of_ncmc_is_that_of_finite_differences(problem):
    W, X, y, centroids, owners = problem
    loss, found = mixture(centroids, owners, X.mean(axis=0))(W, X, y)
    close(loss, -log_likelihood(W, X, y, centroids, owners), 1e-9)
    close(found, -gradient(W, X, y, centroids, owners), 1e-9)
    close(found, differences(lambda V: -log_likelihood(V, X, y, centroids, owners), W), 2e-5)


@settings(max_examples=60, deadline=None)
@given(problems(most=1), st.sampled_from([0.5, 1.0, 4.0]))
def test_the_gradient_of_inner_products_is_that_of_finite_differences(problem, unit):
    W, X, y, means, _ = problem
    t = np.linspace(-1, 1, len(means))
    centre = X.mean(axis=0)

    def slow(packed):
        V, u = unpack(packed, X.shape[1], len(means))
        return -inner_log_likelihood(V, unit * u, X - centre, y, means - centre)

    loss, found = inner(means, centre, unit)(pack(W, t), X, y)
    close(loss, slow(pack(W, t)), 1e-9)
    close(found, differences(slow, pack(W, t)), 2e-5)


@given(problems(most=1))
def test_a_centroid_a_class_is_ncmml(problem):
    W, X, y, means, owners = problem
    one, other = (step(W, X, y) for step in (mixture(means, owners, X[0]), euclidean(means, X[0])))
    close(one[0], other[0], 1e-12)
    close(one[1], other[1], 1e-12)


@given(problems())
def test_class_scores_are_log_probabilities_but_for_a_constant_a_row(problem):
    W, X, y, centroids, owners = problem
    centre = X.mean(axis=0)
    scores = class_scores((X - centre) @ W.T, (centroids - centre) @ W.T, owners)
    logs = scores - scores.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    close(logs[np.arange(len(y)), y].mean(), log_likelihood(W, X, y, centroids, owners), 1e-9)


def test_far_classes_keep_a_gradient():
    """exp(−½d) of the right class is zero in float32: the row must still be drawn to it."""
    W, X = np.eye(2, dtype=np.float32) * 30, np.array([[1.0, 0.0]], np.float32)
    centroids = np.array([[1, 0], [0, 1], [-1, 0], [-1, 1]], np.float32)
    for owners in (None, np.array([0, 0, 1, 1])):
        loss, found = mixture(centroids, owners, np.zeros(2, np.float32))(W, X, np.array([1]))
        assert np.isfinite(loss)
        assert loss > 100
        assert np.isfinite(found).all()
        assert np.abs(found).max() > 1


@pytest.mark.parametrize("form", ["euclidean", "mixture", "inner", "small inner"])
def test_a_step_forms_no_differences(form):
    """What a step holds is far from the batch × classes × d that differences of rows and means would take."""
    random = np.random.default_rng(0)
    b, C, d, D = (8 if form == "small inner" else 200), 150, 300, 16
    W, X, means = (random.normal(size=(m, d)).astype(np.float32) for m in (D, b, C))
    y, centre = random.integers(0, C, b), X[0]
    if "inner" in form:
        step, W = inner(means, centre, 1.0), pack(W, np.zeros(C, np.float32))
    else:
        step = euclidean(means, centre) if form == "euclidean" else mixture(means, np.arange(C), centre)
    step(W, X, y)
    tracemalloc.start()
    step(W, X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * (6 * b * C + 3 * D * d + 4 * (b + C) * D + 3 * b * d) < 4 * b * C * d / 5


def test_torch_gives_the_same():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(1)
    W, X, centroids = random.normal(size=(3, 7)), random.normal(size=(20, 7)), random.normal(size=(8, 7))
    y, owners = random.integers(0, 4, 20), np.repeat(np.arange(4), 2)
    T = torch.from_numpy
    ours = mixture(centroids, owners, X[0])(W, X, y)
    theirs = mixture(T(centroids), T(owners), T(X[0]))(T(W), T(X), T(y))
    close(theirs[0].item(), ours[0], 1e-12)
    close(theirs[1].numpy(), ours[1], 1e-12)
    packed = pack(W, np.zeros(4))
    ours = inner(centroids[:4], X[0], 2.0)(packed, X, y)
    theirs = inner(T(centroids[:4]), T(X[0]), 2.0)(T(packed), T(X), T(y))
    close(theirs[1].numpy(), ours[1], 1e-12)
    P, M = X @ W.T, centroids @ W.T
    close(class_scores(T(P), T(M), owners).numpy(), class_scores(P, M, owners), 1e-12)
