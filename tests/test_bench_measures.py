"""Measures of a ranking, compared with scikit-learn and with cases computed by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics import average_precision_score

from lookalike.errors import InputError
from lookalike_bench import measures
from reference import ties

RANKED = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


def ap_by_hand(relevant: list[bool]) -> float:
    precisions = [sum(relevant[: rank + 1]) / (rank + 1) for rank, hit in enumerate(relevant) if hit]
    return sum(precisions) / len(precisions)


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=60).filter(any))
def test_average_precision_equals_that_of_scikit_learn(relevant: list[bool]) -> None:
    scores = -np.arange(len(relevant), dtype=float)
    assert_allclose(measures.average_precision([relevant])[0], average_precision_score(relevant, scores))


@settings(deadline=None)
@given(RANKED)
def test_junk_is_ignored(ranking: list[tuple[bool, bool]]) -> None:
    relevant, junk = (list(part) for part in zip(*ranking, strict=True))
    kept = [hit for hit, out in ranking if not out]
    ours = measures.average_precision([relevant], junk=[junk])
    if any(kept):
        assert_allclose(ours[0], ap_by_hand(kept))
        assert_allclose(measures.precision_at([relevant], 3, junk=[junk])[0], sum(kept[:3]) / 3)
        assert_allclose(measures.recall_at([relevant], 3, junk=[junk])[0], sum(kept[:3]) / sum(kept))
    else:
        assert np.isnan(ours[0])


def test_average_precision_of_a_case_computed_by_hand() -> None:
    relevant = [[True, False, True, False, False, True]]
    assert_allclose(measures.average_precision(relevant), [(1 / 1 + 2 / 3 + 3 / 6) / 3])


def test_relevant_items_missing_from_a_truncated_ranking_count() -> None:
    assert_allclose(measures.average_precision([[True, True]], total=[4]), [0.5])
    assert_allclose(measures.recall_at([[True, False]], 2, total=[4]), [0.25])


def test_the_query_itself_can_be_left_out() -> None:
    relevant, itself = [[True, False, True]], [[True, False, False]]
    assert_allclose(measures.average_precision(relevant, junk=itself), [0.5])


def test_queries_without_relevant_items_are_left_out_of_the_mean() -> None:
    relevant = [[True, False], [False, False], [False, True]]
    assert_allclose(measures.average_precision(relevant), [1.0, np.nan, 0.5])
    assert measures.mean(measures.average_precision(relevant)) == pytest.approx(0.75)
    assert np.isnan(measures.mean([np.nan]))


def test_precision_of_a_ranking_shorter_than_k_counts_misses() -> None:
    assert_allclose(measures.precision_at([[True, True]], 4), [0.5])


def test_four_recall_at_4_counts_the_query_and_ranges_from_0_to_4() -> None:
    best = [True] * 4 + [False] * 4
    worst = [False] * 4 + [True] * 4
    half = [True, False, True, False, True, True, False, False]
    assert_allclose(measures.four_recall_at_4([best, worst, half]), [4, 0, 2])


def test_bootstrap_contains_the_mean_narrows_with_more_queries_and_is_reproducible() -> None:
    values = np.random.default_rng(0).random(400)
    low, high = measures.bootstrap(values, seed=1)
    assert low < values.mean() < high
    assert (low, high) == measures.bootstrap(values, seed=1) != measures.bootstrap(values, seed=2)
    few_low, few_high = measures.bootstrap(values[:40], seed=1)
    assert few_high - few_low > high - low


def test_bootstrap_interval_has_the_theoretical_width() -> None:
    values = np.random.default_rng(3).normal(size=2_000)
    low, high = measures.bootstrap(values, seed=0)
    assert high - low == pytest.approx(2 * 1.96 / np.sqrt(2_000), rel=0.1)


def test_bootstrap_ignores_queries_without_relevant_items() -> None:
    assert measures.bootstrap([0.5, np.nan, 0.5]) == (0.5, 0.5)
    assert np.isnan(measures.bootstrap([np.nan])).all()


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: measures.average_precision([True, False]), "one row per query"),
        (lambda: measures.average_precision([[True]], junk=[[True, False]]), "shape of relevant"),
        (lambda: measures.precision_at([[True]], 0), "at least 1. Got 0"),
    ],
)
def test_the_error_for_invalid_input_names_what_is_allowed(call: object, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        call()  # type: ignore[operator]


@given(st.lists(st.lists(st.booleans(), max_size=4), min_size=1, max_size=3), st.integers(1, 10))
@settings(max_examples=150)
def test_tied_precision_is_the_mean_over_all_orders(groups, k):
    sizes, relevant = [[len(group) for group in groups]], [[sum(group) for group in groups]]
    for order, expected in (
        ("mean", ties.mean_over_orders(groups, k)),
        ("best", ties.laid_out(groups, k, best=True)),
        ("worst", ties.laid_out(groups, k, best=False)),
    ):
        assert measures.tied_average_precision(sizes, relevant, k, order=order) == pytest.approx([expected], abs=1e-12)


def test_tied_precision_without_ties_is_average_precision():
    ranked = np.random.default_rng(0).random((20, 30)) < 0.4
    found = measures.tied_average_precision(np.ones_like(ranked, int), ranked, 12)
    np.testing.assert_allclose(found, np.nan_to_num(measures.average_precision(ranked[:, :12])), atol=1e-12)


def test_tied_precision_of_large_groups_is_the_mean_of_random_orders():
    random = np.random.default_rng(0)
    sizes, relevant = np.array([[3, 400, 900]]), np.array([[2, 130, 20]])
    groups = [np.arange(n) < r for n, r in zip(sizes[0], relevant[0], strict=True)]
    drawn = np.array([np.concatenate([random.permutation(group) for group in groups]) for _ in range(2_000)])[:, :500]
    expected = measures.average_precision(drawn)
    found = measures.tied_average_precision(sizes, relevant, 500)
    assert abs(found[0] - expected.mean()) < 4 * expected.std() / 2_000**0.5


@pytest.mark.parametrize(
    ("sizes", "relevant", "k", "order", "message"),
    [
        ([[1]], [[2]], 1, "mean", "with 0 <= relevant <= sizes"),
        ([1], [1], 1, "mean", "groups"),
        ([[1]], [[1]], 0, "mean", "at least 1"),
        ([[1]], [[1]], 1, "any", "mean, best or worst"),
    ],
)
def test_invalid_groups_are_errors(sizes, relevant, k, order, message):
    with pytest.raises(InputError, match=message):
        measures.tied_average_precision(sizes, relevant, k, order=order)


def test_trapezoid_precision_equals_that_of_the_oxford_program() -> None:
    random = np.random.default_rng(0)
    relevant, junk = random.random((20, 30)) < 0.2, random.random((20, 30)) < 0.2
    relevant[0] = False
    expected = []
    for hits, passed in zip(relevant & ~junk, junk, strict=True):
        total, area, recall, precision, found, place = hits.sum(), 0.0, 0.0, 1.0, 0, 0
        for hit, skip in zip(hits, passed, strict=True):
            if skip:
                continue
            found, place = found + hit, place + 1
            area += (found / max(total, 1) - recall) * (precision + found / place) / 2
            recall, precision = found / max(total, 1), found / place
        expected.append(area if total else np.nan)
    assert_allclose(measures.trapezoid_precision(relevant, junk=junk), expected)


def test_top_errors_and_learning_curves() -> None:
    np.testing.assert_array_equal(measures.top_error([0, 1, 5], 1), [0, 1, 1])
    assert_allclose(measures.learning_area([[0, 0.5, 1], [1, 1, 1]]), [0.5, 1])
    np.testing.assert_array_equal(measures.four_recall_at_4([[True] * 4]), [4])
    with pytest.raises(InputError, match="at least 1"):
        measures.top_error([0], 0)
    with pytest.raises(InputError, match="at least two rounds"):
        measures.learning_area([[1.0]])
