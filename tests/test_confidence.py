import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from lookalike.classes.confidence import choose_temperature, choose_threshold


@given(st.sampled_from([0.01, 0.5, 3.0, 40.0]), st.integers(0, 100))
def test_the_temperature_that_made_the_labels_is_found(truth, seed):
    random = np.random.default_rng(seed)
    scores = random.normal(size=(3000, 5)) * truth * 2
    codes = (random.random((3000, 1)) > softmax(scores / truth, axis=1).cumsum(axis=1)).sum(axis=1).clip(0, 4)
    assert 0.85 < choose_temperature(scores, codes) / truth < 1.18


def test_rows_that_are_all_right_do_not_make_it_certain():
    few, many = (choose_temperature(np.eye(2)[np.arange(n) % 2], np.arange(n) % 2) for n in (4, 400))
    assert 0 < many < few
    assert softmax(np.array([1.0, 0.0]) / few)[0] < 0.95


def test_where_nothing_can_be_learned_it_is_one():
    assert choose_temperature(np.empty((0, 3)), np.empty(0, np.int64)) == 1
    assert choose_temperature(np.array([[3.0]]), np.array([0])) == 1
    assert choose_temperature(np.ones((4, 3)), np.zeros(4, np.int64)) == 1


@given(st.sampled_from([0.01, 0.1, 0.5]), st.integers(0, 50))
def test_the_threshold_refuses_the_share_it_was_asked_to(reject, seed):
    known = np.random.default_rng(seed).exponential(size=400)
    assert abs((known > choose_threshold(known, np.empty(0), reject)).mean() - reject) <= 1 / 400 + 1e-9


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.lists(st.integers(0, 9), min_size=1, max_size=9))
def test_with_others_no_threshold_makes_fewer_mistakes(known, others):
    known, others = np.array(known, float), np.array(others, float)

    def mistakes(at):
        return (known > at).mean() + (others <= at).mean()

    best = min(mistakes(at) for at in [*np.arange(-0.5, 10, 0.5), np.inf])
    assert mistakes(choose_threshold(known, others, 0.3)) <= best + 1e-9


def test_no_rows_no_threshold():
    assert choose_threshold(np.empty(0), np.ones(3), 0.1) == np.inf
    assert choose_threshold(np.ones(3), np.empty(0), 0.0) == np.inf
