import numpy as np
import pytest
import torch

from lookalike.errors import InputError, UnknownNameError
from lookalike.index import CentreQuery, Flat, HyperplaneQuery, PointQuery
from lookalike.kernels import KERNELS
from lookalike.types import Query
from reference import brute_force
from reference import kernels as slow

random = np.random.default_rng(3)
X, P = random.normal(size=(6, 4)).astype(np.float32), random.normal(size=(50, 4)).astype(np.float32)
A = random.normal(size=6)
A -= A.mean()
WEIGHTS = random.random(6)
WEIGHTS /= WEIGHTS.sum()


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


def test_equal_vectors_score_exactly_zero_and_similar_ones_do_not():
    far = np.full((1, 64), 1_000, np.float32)
    near = far.copy()
    near[0, 0] = np.nextafter(np.float32(1_000), np.float32(2_000))
    query = PointQuery(far)
    assert query.score_pairs(far, np.array([0]))[0] == 0
    assert query.score_pairs(near, np.array([0]))[0] > 0


def test_torch_tensors_and_lists_are_accepted(rows):
    np.testing.assert_array_equal(PointQuery(torch.from_numpy(rows)).vectors, rows)
    np.testing.assert_array_equal(PointQuery(rows.tolist()).vectors, rows)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.zeros(4), "two dimensions"),
        ([[np.nan, 1.0]], "finite"),
        (np.array([["a"]]), "real numbers"),
        ([[1e19, 0.0]], "length at most 1e[+]18"),
        ([[1e300, 0.0]], "length at most 1e[+]18"),
    ],
)
def test_an_invalid_point_is_rejected(vectors, message):
    with pytest.raises(InputError, match=message):
        PointQuery(vectors)


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "gaussian-l1"])
def test_hyperplane_distances_follow_the_formula(name):
    query = HyperplaneQuery(X, A, 0.2, kernel=name, gamma=0.5)
    k = getattr(slow, name.replace("-", "_"))(0.5)
    X32 = X.astype(np.float32).astype(np.float64)
    f = slow.gram(P.astype(np.float64), X32, k) @ A + 0.2
    length = np.sqrt(A @ slow.gram(X32, X32, k) @ A)
    np.testing.assert_allclose(query.distance(P), f / length, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(query.score(P), np.abs(f / length)[None], rtol=1e-6)
    np.testing.assert_allclose(query.of_kind("maximum").score(P), -(f / length)[None], rtol=1e-6)


def test_a_flat_index_answers_a_hyperplane_query():
    index = Flat()
    index.add(np.arange(50), P)
    query = HyperplaneQuery(X, A, 0.2, kernel="laplace", kind="maximum")
    hits = index.search(query, 5, exclude=np.array([3]))
    order = np.argsort(query.score(P)[0], kind="stable")
    assert hits.ids[0].tolist() == order[order != 3][:5].tolist()


def test_an_invalid_hyperplane_is_rejected():
    with pytest.raises(UnknownNameError, match="frontier"):
        HyperplaneQuery(X, A, 0.0, kind="front")
    with pytest.raises(InputError, match=r"must add up to 0\. Got 6"):
        HyperplaneQuery(X, A + 1, 0.0, kernel="angular")
    with pytest.raises(InputError, match="no direction"):
        HyperplaneQuery(X, 0 * A, 0.0)
    with pytest.raises(InputError, match="one finite number for each of the support vectors"):
        HyperplaneQuery(X, A[:3], 0.0)
    with pytest.raises(InputError, match="b must be a finite number"):
        HyperplaneQuery(X, A, np.nan)


@pytest.mark.parametrize("name", KERNELS)
def test_centre_distances_follow_the_formula(name):
    query = CentreQuery(X, WEIGHTS, kernel=name, gamma=0.5)
    k = getattr(slow, name.replace("-", "_"))(0.5)
    rows, mine = P.astype(np.float64), X.astype(np.float64)
    own = np.array([k(row, row) for row in rows])
    squares = own - 2 * slow.gram(rows, mine, k) @ WEIGHTS + WEIGHTS @ slow.gram(mine, mine, k) @ WEIGHTS
    assert squares.min() > 0
    np.testing.assert_allclose(query.distance(P), np.sqrt(squares), rtol=1e-9)
    np.testing.assert_allclose(query.score(P), np.sqrt(squares)[None], rtol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_a_centre_of_one_row_equals_a_point_query(name):
    query = CentreQuery(P[7:8], [1.0], kernel=name, gamma=0.5)
    k = getattr(slow, name.replace("-", "_"))(0.5)
    rows = P.astype(np.float64)
    expected = np.sqrt([k(row, row) + k(rows[7], rows[7]) - 2 * k(row, rows[7]) for row in rows])
    np.testing.assert_allclose(query.distance(P), expected, rtol=1e-9, atol=1e-7)
    assert query.distance(P).argmin() == 7


def test_a_negative_squared_distance_counts_as_zero():
    corners = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.float32)
    query = CentreQuery(np.zeros((1, 2)), [1.0], kernel="gaussian-l1", gamma=0.1)
    assert np.all(query.distance(corners) > 0)
    centre = CentreQuery(corners, [0.25] * 4, kernel="gaussian-l1", gamma=0.1)
    assert 1 + centre.square < 2 * np.exp(-0.1)  # the square of the distance is negative
    assert centre.distance(np.zeros((1, 2), np.float32)) == 0


def test_a_flat_index_answers_a_centre_query():
    index = Flat()
    index.add(np.arange(50), P)
    query = CentreQuery(X, WEIGHTS)
    order = np.argsort(query.score(P)[0], kind="stable")
    assert index.search(query, 5, exclude=np.array([3])).ids[0].tolist() == order[order != 3][:5].tolist()


def test_an_invalid_centre_is_rejected():
    with pytest.raises(InputError, match=r"must add up to 1\. Got 2"):
        CentreQuery(X, 2 * WEIGHTS)
    with pytest.raises(InputError, match="one finite number for each"):
        CentreQuery(X, WEIGHTS[:3])
    with pytest.raises(InputError, match="one finite number for each"):
        CentreQuery(X, WEIGHTS * np.nan)
    with pytest.raises(InputError, match="must be finite"):
        CentreQuery(X * np.nan, WEIGHTS)
    with pytest.raises(InputError, match="gamma must be a number above 0"):
        CentreQuery(X, WEIGHTS, gamma=0)
    with pytest.raises(UnknownNameError, match="laplace"):
        CentreQuery(X, WEIGHTS, kernel="laplas")
