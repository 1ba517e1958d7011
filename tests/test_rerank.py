"""k-reciprocal re-ranking of search results."""

import numpy as np
import pytest

from lookalike.errors import InputError
from lookalike.index.rerank import rerank
from reference import reranking

KINDS = ("fish", "sunset")


@pytest.mark.parametrize("m", [1, 3, 5, 8, 40, 90])
def test_distances_equal_those_of_the_paper(m):
    random = np.random.default_rng(m)
    X = (random.normal(size=(m, 5)) + 3 * random.integers(0, 2, (m, 1))).astype(np.float32)
    expected = reranking.rerank(X[0] + 0.1, X)
    np.testing.assert_allclose(rerank(X[0] + np.float32(0.1), X), expected, atol=1e-6)
    assert 0 <= expected.min() <= expected.max() <= 1


def test_equal_rows_have_finite_distances():
    assert np.isfinite(rerank(np.zeros(3, np.float32), np.zeros((30, 3), np.float32))).all()


def test_results_that_share_the_neighbours_of_the_query_come_first():
    random = np.random.default_rng(0)
    cluster = random.normal(0, 1, (30, 2))  # the query lies at its border
    lonely = np.array([[5.0, 0.0]])
    query = np.array([3.5, 0.0])
    X = np.concatenate([cluster, lonely, random.normal([8, 0], 0.3, (40, 2))]).astype(np.float32)
    near = cluster[:, 0].argmax()
    assert rerank(query.astype(np.float32), X)[near] < rerank(query.astype(np.float32), X)[30]


def test_a_search_can_re_rank_its_results(seen):
    ids, X = seen.vectors()
    better = seen.search(int(ids[0]), k=12, rerank=True)
    first = [result.id for result in seen.search(int(ids[0]), k=200)]
    expected = reranking.rerank(X[0], X[np.searchsorted(ids, first)])
    assert [result.id for result in better] == [first[i] for i in np.argsort(expected, kind="stable")[:12]]
    assert [result.score for result in better] == pytest.approx(np.sort(expected)[:12].tolist(), abs=1e-5)
    assert [result.id for result in better] != first[:12]
    with pytest.raises(InputError, match="At most 1,000 results can be re-ranked"):
        seen.search(int(ids[0]), k=1_001, rerank=True)


def test_results_of_codes_cannot_be_re_ranked(filled):
    filled.fit("codes = fourier() | itq(bits=16)")
    with pytest.raises(InputError, match="cannot be re-ranked, because it searches codes"):
        filled.search(int(filled.vectors()[0][0]), space="codes", rerank=True)
