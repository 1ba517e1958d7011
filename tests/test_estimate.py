"""The estimate: its curve is optimal, and in simulations its interval covers the truth as often as documented."""

import numpy as np
import pytest

from lookalike.feedback import estimate as module
from lookalike.feedback.estimate import UnmarkedScores, estimate_total, fit_curve
from reference.feedback import logistic_loss


def simulate(seed):
    """Return scores of 2,000 items, 20 to 400 of them positive, with marks at the top and around the frontier."""
    random = np.random.default_rng(seed)
    wanted = np.zeros(2000, bool)
    wanted[: random.integers(20, 400)] = True
    scores = np.where(wanted, 1.2, -1.2) + random.normal(size=2000)
    asked = np.unique(
        np.concatenate([np.argsort(-scores)[:10], np.argsort(np.abs(scores))[:40], random.choice(2000, 8)])
    )
    rest = np.setdiff1d(np.arange(2000), asked)
    order = rest[np.argsort(-scores[rest])]
    unmarked = UnmarkedScores(
        scores[order[:200]], scores[random.choice(order[200:], 300, replace=False)], len(order) - 200
    )
    y = np.where(wanted[asked], 1, -1).astype(np.int8)
    return estimate_total(scores[asked], y, unmarked, int(wanted[asked].sum()), seed=seed), int(wanted.sum()), y


def test_the_interval_contains_the_truth_in_nine_of_ten_rounds():
    told = [(known, truth) for known, truth, _ in map(simulate, range(150)) if known]
    assert len(told) > 120
    assert np.mean([known.low <= truth <= known.high for known, truth in told]) >= 0.88
    assert np.median([known.high / known.low for known, _ in told]) < 10
    assert 0.7 < np.median([known.likely / truth for known, truth in told]) < 1.4


def test_the_estimate_is_never_below_the_number_found():
    for seed in range(20):
        known, _, y = simulate(seed)
        assert known is None or np.count_nonzero(y > 0) <= known.low <= known.likely <= known.high <= 2000


def test_the_curve_is_optimal():
    random = np.random.default_rng(0)
    scores, wanted, weights = random.normal(size=30), (random.random(30) < 0.4) * 1.0, random.random(30)
    slope, level, _ = fit_curve(scores, wanted, weights)

    def loss(a, b):
        return logistic_loss(a, b, scores, wanted, weights, module.SLOPE, np.diag(module.RIDGE))

    best = loss(slope, level)
    for step in (0.05, -0.05):
        assert loss(slope + step, level) > best
        assert loss(slope, level + step) > best


@pytest.mark.parametrize("kinds", [[1, 1, 1, 1, 1], [1, 1, -1, -1, -1]])
def test_too_few_marks_give_no_estimate(kinds):
    unmarked = UnmarkedScores(np.zeros(5), np.zeros(5), 100)
    assert estimate_total(np.arange(5.0), np.array(kinds, np.int8), unmarked, 2) is None


def test_without_unmarked_items_the_estimate_is_the_number_found():
    y = np.array([1, 1, 1, -1, -1, -1], np.int8)
    known = estimate_total(np.array([1.0, 2, 1, -1, -2, -1]), y, UnmarkedScores(np.empty(0), np.empty(0), 0), 3)
    assert (known.low, known.likely, known.high) == (3, 3, 3)


def test_a_large_tail_is_negative_if_the_end_of_the_head_is(monkeypatch):
    random = np.random.default_rng(0)
    y = np.repeat([1, -1], 15).astype(np.int8)
    marks = np.where(y > 0, 1, -1) + 0.7 * random.normal(size=30)

    def likely(head):
        unmarked = UnmarkedScores(head, random.normal(-2.5, 1, 500), 1_000_000)
        told = []
        for usual in (module.USUAL_SIZE, np.inf):
            monkeypatch.setattr(module, "USUAL_SIZE", usual)
            told.append(estimate_total(marks, y, unmarked, 15).likely)
            monkeypatch.undo()
        return told

    less, more = likely(np.linspace(2, -3, 500))
    assert less < 0.8 * more
    same, before = likely(np.linspace(4, 3, 500))
    assert same == pytest.approx(before, rel=0.1)
