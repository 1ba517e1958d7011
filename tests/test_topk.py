import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.index.topk import TopK

M = 5_000


def top_by_sorting(scores, ids, k):
    """The slow reference: sort everything."""
    best_ids = np.full((len(scores), k), -1)
    best_scores = np.full((len(scores), k), np.inf, np.float32)
    for row in range(len(scores)):
        found = sorted((s, i) for s, i in zip(scores[row], ids, strict=True) if np.isfinite(s))[:k]
        for place, (score, id_) in enumerate(found):
            best_ids[row, place], best_scores[row, place] = id_, score
    return best_ids, best_scores


def stream(best, scores, ids, size, slack=0.0):
    for start in range(0, len(ids), size):
        best.add(scores[:, start : start + size], ids[start : start + size], slack)
    return best.result()


@pytest.mark.parametrize("order", ["C", "F"])
@given(
    q=st.integers(1, 4),
    m=st.integers(0, 60),
    k=st.integers(1, 12),
    size=st.integers(1, 60),
    values=st.integers(1, 9),
    seed=st.integers(0, 999),
)
@settings(max_examples=60, deadline=None)
def test_it_equals_a_sort_for_any_blocks_ties_and_memory_order(order, q, m, k, size, values, seed):
    random = np.random.default_rng(seed)
    scores = np.asarray(random.integers(-values, values + 1, (q, m)), np.float32, order=order)
    scores[random.random((q, m)) < 0.1] = np.inf
    scores[random.random((q, m)) < 0.1] = np.nan
    ids = random.permutation(m)
    ids_found, scores_found = stream(TopK(q, k), scores, ids, size)
    ids_expected, scores_expected = top_by_sorting(scores, ids, k)
    np.testing.assert_array_equal(ids_found, ids_expected)
    np.testing.assert_array_equal(scores_found, scores_expected)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("values", [3, 1_000_000])
def test_it_equals_a_sort_for_large_blocks(order, values):
    random = np.random.default_rng(0)
    scores = np.asarray(random.integers(0, values, (3, M)), np.float32, order=order)
    ids = random.permutation(M)
    found = stream(TopK(3, 20), scores, ids, size=2_100)
    for got, expected in zip(found, top_by_sorting(scores, ids, 20), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("spread", [1e-9, 1.0])
@pytest.mark.parametrize("size", [50, 3_000])
def test_exact_scores_correct_misleading_approximate_scores(spread, size):
    random = np.random.default_rng(1)
    exact = (spread * random.random((2, M))).astype(np.float32)
    error = 0.01
    rough = (exact + random.uniform(-error, error, exact.shape)).astype(np.float32)
    ids = random.permutation(M)
    place = np.argsort(ids)
    requested = []

    def exact_scores(which, found):
        requested.append(len(found))
        return exact[which, place[found]]

    got = stream(TopK(2, 15, exact_scores), rough, ids, size, slack=2.1 * error)
    for part, expected in zip(got, top_by_sorting(exact, ids, 15), strict=True):
        np.testing.assert_array_equal(part, expected)
    assert spread < 1 or sum(requested) < exact.size / 10  # exact scores are expensive, so few are requested


def test_a_later_block_can_be_less_exact_than_an_earlier_one():
    best = TopK(1, 1, exact_scores=lambda which, ids: np.where(ids == 9, 0.5, 1.0).astype(np.float32))
    best.add(np.ones((1, 600), np.float32), np.arange(100, 700), 0.0)
    best.add(np.full((1, 1), 1.9, np.float32), np.array([9]), 2.0)
    assert best.result()[0].tolist() == [[9]]


def test_without_scores_there_are_no_hits():
    ids, scores = TopK(2, 3).result()
    assert ids.tolist() == [[-1] * 3] * 2
    assert np.isinf(scores).all()
    assert TopK(0, 3).result()[0].shape == (0, 3)
