import math

import numpy as np
import pytest

from lookalike.errors import InputError
from lookalike.learn.sgd import train

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


def test_the_earliest_of_equal_scores_is_kept_and_patience_ends():
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


def test_the_last_step_is_validated_too():
    assert run(max_iterations=12)[1].iterations == [0, 5, 10, 12]
    assert run(max_iterations=0)[1].iterations == [0]


def test_the_callback_sees_what_the_curve_keeps():
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


def test_too_large_a_rate_is_said():
    with pytest.raises(InputError, match=r"rate must be smaller: the loss is no longer finite by step \d+. Got 1e\+30"):
        run(rate=1e30)


def test_what_was_gained_before_the_loss_grew_without_bound_is_kept():
    def step(w, rows, labels):
        return (1.0, -np.ones_like(w)) if w[0] < 12 else (math.inf, -np.ones_like(w) * 1e38)

    best, curve = run(step=step, rate=1, validate=lambda w: float(w[0]))
    assert best.tolist() == [10, 10]
    assert curve.iterations == [0, 5, 10]


def test_rows_go_to_where_the_parameters_are():
    torch = pytest.importorskip("torch")

    def step(w, rows, labels):
        assert isinstance(rows, torch.Tensor)
        assert isinstance(labels, torch.Tensor)
        assert rows.dtype == w.dtype
        return torch.mean(rows), 0 * w

    options = {"rate": 0.1, "batch": 6, "max_iterations": 3, "validate": None, "every": 1, "patience": 1, "seed": 0}
    curves = [train(torch.zeros(1), step, source, Y, **options)[1] for source in (X, torch.from_numpy(X))]
    assert curves[0].losses[1:] == curves[1].losses[1:]
