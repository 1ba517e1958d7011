"""Predictions: probabilities and none of these from distances, and their calibration on held-out rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from lookalike.classes.open_set import OpenSet
from lookalike.classes.predictions import (
    Membership,
    Prediction,
    choose_temperature,
    choose_threshold,
    fit_membership,
    predict_from_distances,
)


@given(st.sampled_from([0.01, 0.5, 3.0, 40.0]), st.integers(0, 100))
def test_the_temperature_that_generated_the_labels_is_recovered(truth, seed):
    random = np.random.default_rng(seed)
    scores = random.normal(size=(3000, 5)) * truth * 2
    codes = (random.random((3000, 1)) > softmax(scores / truth, axis=1).cumsum(axis=1)).sum(axis=1).clip(0, 4)
    assert 0.85 < choose_temperature(scores, codes) / truth < 1.18


def test_the_temperature_stays_above_zero_if_all_rows_are_correct():
    few, many = (choose_temperature(np.eye(2)[np.arange(n) % 2], np.arange(n) % 2) for n in (4, 400))
    assert 0 < many < few
    assert softmax(np.array([1.0, 0.0]) / few)[0] < 0.95


def test_the_temperature_is_one_without_rows_classes_or_differences():
    assert choose_temperature(np.empty((0, 3)), np.empty(0, np.int64)) == 1
    assert choose_temperature(np.array([[3.0]]), np.array([0])) == 1
    assert choose_temperature(np.ones((4, 3)), np.zeros(4, np.int64)) == 1


@given(st.sampled_from([0.01, 0.1, 0.5]), st.integers(0, 50))
def test_the_threshold_rejects_the_given_share(reject, seed):
    known = np.random.default_rng(seed).exponential(size=400)
    assert abs((known > choose_threshold(known, np.empty(0), reject)).mean() - reject) <= 1 / 400 + 1e-9


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.lists(st.integers(0, 9), min_size=1, max_size=9))
def test_with_rows_of_no_class_the_threshold_minimises_the_errors(known, others):
    known, others = np.array(known, float), np.array(others, float)

    def errors(at):
        return (known > at).mean() + (others <= at).mean()

    best = min(errors(at) for at in [*np.arange(-0.5, 10, 0.5), np.inf])
    assert errors(choose_threshold(known, others, 0.3)) <= best + 1e-9


def test_without_rows_or_a_share_there_is_no_threshold():
    assert choose_threshold(np.empty(0), np.ones(3), 0.1) == np.inf
    assert choose_threshold(np.ones(3), np.empty(0), 0.0) == np.inf


def test_predictions_equal_those_of_the_classifier():
    random = np.random.default_rng(0)
    X, y = np.repeat(3 * np.eye(4), 10, axis=0) + random.normal(size=(40, 4)), np.repeat(["a", "b", "c", "d"], 10)
    model = OpenSet(reject=0.1).fit(X, y)
    rows = np.concatenate([X + 0.1, X + 20])
    found = predict_from_distances(
        model.distances(rows), dict(enumerate(model.classes_)), model.temperature_, model.threshold_
    )
    assert [one.label or "none of these" for one in found] == model.predict(rows).tolist()
    chances = np.sort(model.predict_proba(rows), axis=1)
    np.testing.assert_allclose([one.probability for one in found], chances[:, -1], atol=1e-9)
    np.testing.assert_allclose([one.runner_up_probability for one in found], chances[:, -2], atol=1e-9)
    assert all(one.nearest != one.runner_up for one in found)


def test_excluded_classes_are_never_predicted():
    distances = np.array([[np.inf, 4.0, 2.0], [np.inf, np.inf, 9.0], [np.inf, np.inf, np.inf]])
    two, one, none = predict_from_distances(distances, {0: "a", 1: "b", 2: "c"}, temperature=1.0, threshold=5.0)
    assert (two.label, two.runner_up) == ("c", "b")
    assert two.probability + two.runner_up_probability == pytest.approx(1)
    assert one == Prediction(None, 1.0, "c", None, 0.0)  # beyond the threshold
    assert none == Prediction(None, 0.0, None, None, 0.0)


def test_one_wrong_label_among_many_hardly_changes_the_temperature():
    scores = np.random.default_rng(0).normal(size=(200, 4)) + 6 * np.eye(4)[np.arange(200) % 4]
    codes = np.argmax(scores, axis=1)
    wrong = codes.copy()
    wrong[:10] = (wrong[:10] + 1) % 4
    assert choose_temperature(scores, wrong) < 3 * choose_temperature(scores, codes)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_share_of_members_is_estimated_on_unlabelled_rows(share):
    draw = np.random.default_rng(5)
    known, strangers = draw.normal(1.0, 0.1, 500), draw.normal(1.3, 0.1, 500)
    members = int(2000 * share)
    unlabelled = np.concatenate([draw.normal(1.0, 0.1, members), draw.normal(1.3, 0.1, 2000 - members)])
    chances = fit_membership(known, strangers, unlabelled).chances(unlabelled)
    assert chances.mean() == pytest.approx(share, abs=0.05)
    assert chances[:members].mean() > chances[members:].mean() + 0.5


def test_few_rows_do_not_give_certain_memberships():
    few = fit_membership(np.array([1.0, 1.1]), np.array([2.0, 2.1]), np.empty(0)).chances(np.array([1.0, 2.1]))
    assert (few > 0.05).all()
    assert (few < 0.95).all()


def test_memberships_without_strangers_or_rows():
    rows = np.array([1.0, 1.1, 1.2])
    assert fit_membership(rows, np.empty(0), np.empty(0)) == Membership()
    assert fit_membership(np.empty(0), rows, rows) == Membership()
    assert Membership().chances(np.array([0.0, np.inf])).tolist() == [1, 1]
    single = fit_membership(rows, np.empty(0), rows + 2).chances(np.array([1.0, 3.0]))  # unlabelled rows are strangers
    assert single[0] > 0.7 > 0.3 > single[1]
    upside_down = fit_membership(rows + 2, rows, np.empty(0))  # a distance without information
    np.testing.assert_allclose(upside_down.chances(np.array([0.0, 9.0])), 0.5)
    given = fit_membership(np.repeat(rows, 4), rows + 2, None)  # the share of members is that of these rows
    assert given.chances(np.array([2.0])) > fit_membership(np.repeat(rows, 4), rows + 2, rows[:0]).chances(
        np.array([2.0])
    )


def test_the_probability_of_a_class_includes_that_of_no_class():
    distances, names = np.array([[1.0, 3.0], [10.0, 11.0]]), {0: "a", 1: "b"}
    member = Membership(slope=-1.0, offset=3.0)
    near, far = predict_from_distances(distances, names, 1.0, 2.0, member, np.array([1.0, 2.0]))
    assert near.probability + near.runner_up_probability == pytest.approx(member.chances(np.array([1.0]))[0])
    assert far.probability + far.runner_up_probability == pytest.approx(member.chances(np.array([5.0]))[0])
    assert (near.label, far.label) == ("a", None)
