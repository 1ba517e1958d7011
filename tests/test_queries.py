import numpy as np
import pytest
import torch

from lookalike.errors import InputError
from lookalike.index.queries import PointQuery
from lookalike.types import Query
from reference import brute_force


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)


def test_a_point_query_is_a_query(rows):
    assert isinstance(PointQuery(rows), Query)


def test_scores_are_squared_euclidean_distances(rows):
    scores = PointQuery(rows[:3]).score(rows)
    expected = ((rows[:3, None].astype(np.float64) - rows[None]) ** 2).sum(axis=2)
    assert scores.shape == (3, 20)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_scores_are_never_below_zero():
    rows = 1_000 + np.random.default_rng(0).normal(size=(200, 64)).astype(np.float32) * 1e-3
    assert PointQuery(rows).score(rows).min() >= 0


def test_scores_of_no_rows_have_the_right_shape(rows):
    assert PointQuery(rows[:3]).score(rows[:0]).shape == (3, 0)


def test_pairs_agree_with_brute_force(rows):
    which = np.arange(20) % 3
    scores = PointQuery(rows[:3]).score_pairs(rows, which)
    for row, query, score in zip(rows, which, scores, strict=True):
        assert score == brute_force.search({0: row}, rows[query : query + 1], 1)[1][0, 0]


def test_equal_vectors_score_exactly_zero_and_near_ones_do_not():
    far = np.full((1, 64), 1_000, np.float32)
    near = far.copy()
    near[0, 0] = np.nextafter(np.float32(1_000), np.float32(2_000))
    query = PointQuery(far)
    assert query.score_pairs(far, np.array([0]))[0] == 0
    assert query.score_pairs(near, np.array([0]))[0] > 0


def test_torch_tensors_and_lists_are_welcome(rows):
    np.testing.assert_array_equal(PointQuery(torch.from_numpy(rows)).vectors, rows)
    np.testing.assert_array_equal(PointQuery(rows.tolist()).vectors, rows)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.zeros(4), "two dimensions"),
        ([[np.nan, 1.0]], "finite"),
        (np.array([["a"]]), "real numbers"),
        ([[1e19, 0.0]], "at most 1e[+]18 long"),
        ([[1e300, 0.0]], "at most 1e[+]18 long"),
    ],
)
def test_what_is_not_a_point_is_refused(vectors, message):
    with pytest.raises(InputError, match=message):
        PointQuery(vectors)
