"""The estimate: its depths equal a slow twin's, and in simulated sessions its interval contains the true number."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lookalike.feedback.emulated_user import EmulatedUser, emulate
from lookalike.feedback.estimate import MAX_MARKS, Unmarked, estimate_total, find_depths, insert
from lookalike.feedback.learners import gamma_of
from lookalike.feedback.round import Marks, run_round
from lookalike.index.flat import Flat
from reference.feedback import clusters, slow_depths

X, labels = clusters(classes=8, per_class=60, spread=1.6)
index = Flat()
index.add(np.arange(480), X)


def simulate(target, strategy, rounds=8):
    """Return the results of a session for one of eight overlapping clusters."""
    user = EmulatedUser(index.ids, np.flatnonzero(labels == target))
    first, signs = user.start(np.random.default_rng(target))
    session = emulate(
        user,
        index,
        Marks(first, X[first], signs),
        rounds,
        lambda marks, turn: run_round(index, marks, strategy=strategy, seed=target, turn=turn),
    )
    return [played for _, played in session]


@pytest.mark.parametrize("strategy", ["mix", "maximum"])
def test_the_interval_contains_the_true_number_however_questions_are_chosen(strategy):
    outcomes = [played for target in range(8) for played in simulate(target, strategy)[3:]]
    known = [played.estimate for played in outcomes]
    assert all(known)
    assert np.mean([some.low <= 60 <= some.high for some in known]) >= 0.8
    assert 0.8 < np.median([some.likely / 60 for some in known]) < 1.25
    assert np.median([some.high / some.low for some in known]) < 4
    for played in outcomes:
        assert played.found <= played.estimate.low <= played.estimate.likely <= played.estimate.high <= 480


def test_depths_equal_those_of_a_regression_for_each_mark():
    random = np.random.default_rng(0)
    rows = random.normal(size=(40, 3)).astype(np.float32)
    y = np.where(random.random(15) < 0.4, 1, -1).astype(np.int8)
    mine = find_depths(rows[:15], y, Unmarked(rows[15:20], rows[20:], 20))
    assert_allclose(mine, slow_depths(rows, y, gamma_of("gaussian", rows[:15].astype(np.float64))))
    # each row of the tail stands for 100 items
    sampled = find_depths(rows[:15], y, Unmarked(rows[15:20], rows[20:], 2000))
    assert sampled.max() > 20 * mine.max()


def test_an_item_is_inserted_below_the_marks_at_its_depth():
    assert insert(0.0, np.empty(0)) == 0
    assert insert(3.0, np.array([7.0, 0.0, 1.0, 4.0])) == 6


@pytest.mark.parametrize("kinds", [[1, 1, 1, 1, 1], [1, 1, -1, -1, -1]])
def test_too_few_marks_give_no_estimate(kinds):
    assert estimate_total(X[:5], np.array(kinds, np.int8), Unmarked(X[5:10], X[10:15], 100), 2) is None


def test_without_unmarked_items_the_estimate_is_the_number_found():
    y = np.array([1, 1, 1, -1, -1, -1], np.int8)
    known = estimate_total(X[:6], y, Unmarked(X[:0], X[:0], 0), 3)
    assert (known.low, known.likely, known.high) == (3, 3, 3)


def test_only_the_last_marks_count_in_a_long_session():
    random = np.random.default_rng(0)
    rows = random.normal(size=(MAX_MARKS + 20, 3)).astype(np.float32)
    y = np.where(random.random(len(rows)) < 0.5, 1, -1).astype(np.int8)
    unmarked = Unmarked(rows[:50], rows[50:100], 1000)
    assert estimate_total(rows, y, unmarked, 300) == estimate_total(rows[20:], y[20:], unmarked, 300)
