import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.learn import Fda, training
from lookalike.learn.training import LAM, find_start, train

X, Y = np.arange(20, dtype=np.float32)[:, None], np.arange(20) % 4


def downhill(w, rows, labels):
    return float(np.sum((w - 5) ** 2)), 2 * (w - 5)


def run(**options):
    defaults = {"rate": 0.1, "batch": 6, "max_iterations": 40, "validate": None, "every": 5, "patience": 3, "seed": 0}
    step = options.pop("step", downhill)
    return train(np.zeros(2, np.float32), step, X, Y, **(defaults | options))


def test_the_best_iterate_is_kept_not_the_last():
    seen = []

    def validate(w):  # best on the way, at 3
        seen.append(w.copy())
        return -float(abs(w[0] - 3))

    best, curve = run(validate=validate)
    scores = [-abs(float(w[0]) - 3) for w in seen]
    assert curve.scores == scores
    assert 0 < int(np.argmax(scores)) < len(scores) - 1
    np.testing.assert_array_equal(best, seen[int(np.argmax(scores))])


def test_the_earliest_of_equal_scores_is_kept_and_training_stops_early():
    best, curve = run(validate=lambda w: 1.0)
    assert best.tolist() == [0, 0]
    assert curve.iterations == [0, 5, 10, 15]


def test_without_validation_the_last_iterate_is_kept():
    best, curve = run()
    np.testing.assert_allclose(best, 5, atol=0.01)
    assert curve.iterations == list(range(0, 41, 5))
    assert all(math.isnan(score) for score in curve.scores)
    assert math.isnan(curve.losses[0])
    assert curve.losses[1:] == sorted(curve.losses[1:], reverse=True)


def test_the_last_step_is_also_validated():
    assert run(max_iterations=12)[1].iterations == [0, 5, 10, 12]
    assert run(max_iterations=0)[1].iterations == [0]


def test_the_callback_gets_the_values_of_the_curve():
    calls = []
    curve = run(validate=lambda w: float(w[0]), callback=lambda *what: calls.append(what))[1]
    assert calls[1:] == list(zip(curve.iterations, curve.losses, curve.scores, strict=True))[1:]
    assert curve.table().shape == (len(calls), 3)


@pytest.mark.parametrize("batch", [6, 20, 50])
def test_each_row_is_seen_once_before_any_is_seen_again(batch):
    seen = []

    def step(w, rows, labels):
        assert rows.dtype == w.dtype
        np.testing.assert_array_equal(labels, rows[:, 0].astype(int) % 4)
        seen.append(rows[:, 0].tolist())
        return 0.0, 0 * w

    run(step=step, batch=batch, max_iterations=6)
    size = min(batch, 20)
    assert [len(rows) for rows in seen] == [size] * 6
    for first in range(0, 6, 20 // size):
        once = [row for rows in seen[first : first + 20 // size] for row in rows]
        assert len(set(once)) == len(once)


def test_the_seed_decides_the_batches():
    def record(seed):
        seen = []
        run(step=lambda w, rows, labels: (seen.append(rows[:, 0].tolist()), (0.0, 0 * w))[1], seed=seed)
        return seen

    assert record(1) == record(1) != record(2)


def test_a_rate_that_is_too_large_raises_an_error():
    with pytest.raises(InputError, match=r"rate must be smaller: the loss is not finite at step \d+. Got 1e\+30"):
        run(rate=1e30)


def test_the_best_iterate_is_kept_if_the_loss_diverges_later():
    def step(w, rows, labels):
        return (1.0, -np.ones_like(w)) if w[0] < 12 else (math.inf, -np.ones_like(w) * 1e38)

    best, curve = run(step=step, rate=1, validate=lambda w: float(w[0]))
    assert best.tolist() == [10, 10]
    assert curve.iterations == [0, 5, 10]


def test_rows_are_moved_to_the_device_of_the_parameters():
    torch = pytest.importorskip("torch")

    def step(w, rows, labels):
        assert isinstance(rows, torch.Tensor)
        assert isinstance(labels, torch.Tensor)
        assert rows.dtype == w.dtype
        return torch.mean(rows), 0 * w

    options = {"rate": 0.1, "batch": 6, "max_iterations": 3, "validate": None, "every": 1, "patience": 1, "seed": 0}
    curves = [train(torch.zeros(1), step, source, Y, **options)[1] for source in (X, torch.from_numpy(X))]
    assert curves[0].losses[1:] == curves[1].losses[1:]


def draw(n=120, d=9, classes=4, seed=0):
    random = np.random.default_rng(seed)
    y = np.arange(n) % classes
    scales = np.concatenate([[6.0, 3.0], np.ones(d - 2)])
    return 2 * random.normal(size=(classes, d))[y] + random.normal(size=(n, d)) * scales, y


def within(X, y):
    """The covariance within classes, computed row by row."""
    total = np.zeros((X.shape[1],) * 2)
    for c in np.unique(y):
        for row in X[y == c] - X[y == c].mean(axis=0):
            total += np.outer(row, row)
    return total / (len(X) - len(np.unique(y)))


@given(st.integers(0, 50), st.integers(3, 12), st.integers(2, 5), st.integers(1, 14))
@settings(max_examples=25, deadline=None)
def test_gradients_are_multiplied_by_the_inverse_covariance_within_classes(seed, d, classes, dim):
    X, y = draw(60, d, classes, seed)
    found = find_start(X, y, dim, np.random.default_rng(0))
    S = within(X, y)
    lam = LAM * np.trace(S) / d
    gradient = np.random.default_rng(seed).normal(size=(3, d)).astype(np.float32)
    expected = gradient @ (lam * np.linalg.inv(S + lam * np.eye(d)))
    np.testing.assert_allclose(found.condition(gradient), expected, rtol=1e-3, atol=1e-4)
    assert found.W.shape == (min(dim, d), d)


def test_the_first_directions_are_fishers_and_the_others_are_sorted_by_variance():
    X, y = draw()
    found = find_start(X, y, 9, np.random.default_rng(0))
    S = within(X, y)
    lam = LAM * np.trace(S) / 9
    total = np.trace(np.cov(X.T, bias=True)) / 9
    theirs = Fda(dim=3, lam=lam / total * 116 / 120).fit(X, y).W_  # its covariance is divided by n, not n - C
    overlap = np.linalg.svd(np.linalg.qr(found.W[:3].T)[0].T @ np.linalg.qr(theirs.T)[0])[1]
    np.testing.assert_allclose(overlap, 1, atol=1e-4)
    values, vectors = np.linalg.eigh(S)
    whiten = vectors / np.sqrt(values / lam + 1) @ vectors.T
    V = found.W @ np.linalg.inv(whiten)
    np.testing.assert_allclose(V @ V.T, np.eye(9), atol=1e-3)
    variances = np.var(X @ whiten @ V.T, axis=0, ddof=1)
    assert (np.diff(variances[3:]) < 1e-3).all()
    np.testing.assert_allclose([found.first, found.total], [variances.max(), variances.sum()], rtol=1e-3)


def test_classes_of_one_row_each_start_from_principal_directions():
    X = np.random.default_rng(0).normal(size=(12, 5)) * [5, 4, 3, 2, 1]
    found = find_start(X, np.arange(12), 2, np.random.default_rng(0))
    axes = np.linalg.svd(X - X.mean(axis=0))[2][:2]
    np.testing.assert_allclose(np.abs(found.W @ axes.T), np.eye(2), atol=1e-4)
    gradient = np.ones((2, 5), np.float32)
    assert (found.condition(gradient) == gradient).all()


@pytest.mark.parametrize("rows", [1, 2, 6])
def test_equal_rows_have_a_valid_start(rows):
    found = find_start(np.ones((rows, 3)), np.arange(rows) % 2, 2, np.random.default_rng(0))
    assert np.isfinite(found.W).all()
    assert (found.first, found.total) == (1.0, 1.0)


def test_many_rows_are_sampled(monkeypatch):
    monkeypatch.setattr(training, "START_BYTES", 4 * 9 * 50)
    X, y = draw(5_000)
    seen = []

    class Source:
        shape = X.shape

        def __getitem__(self, rows):
            seen.append(len(rows))
            return X[rows]

    some = find_start(Source(), y, 3, np.random.default_rng(0))
    assert seen == [50]
    assert some.W.dtype == np.float32


def test_torch_and_numpy_have_the_same_start():
    torch = pytest.importorskip("torch")
    X, y = draw()
    ours, theirs = (find_start(rows, y, 6, np.random.default_rng(0)) for rows in (X, torch.from_numpy(X)))
    np.testing.assert_allclose(theirs.W.numpy(), ours.W, atol=1e-4)
    gradient = np.ones((6, 9), np.float32)
    np.testing.assert_allclose(
        theirs.condition(torch.from_numpy(gradient)).numpy(), ours.condition(gradient), atol=1e-4
    )
