import numpy as np
import pytest

from lookalike.errors import InputError, UnknownNameError
from lookalike.index.centre import CentreQuery
from lookalike.index.flat import Flat
from lookalike.kernels import KERNELS
from reference import kernels as slow

random = np.random.default_rng(4)
X, P = random.normal(size=(6, 4)).astype(np.float32), random.normal(size=(50, 4)).astype(np.float32)
a = random.random(6)
a /= a.sum()


@pytest.mark.parametrize("name", KERNELS)
def test_distances_are_those_of_the_formula(name):
    query = CentreQuery(X, a, kernel=name, gamma=0.5)
    k = getattr(slow, name.replace("-", "_"))(0.5)
    rows, mine = P.astype(np.float64), X.astype(np.float64)
    own = np.array([k(row, row) for row in rows])
    squares = own - 2 * slow.gram(rows, mine, k) @ a + a @ slow.gram(mine, mine, k) @ a
    assert squares.min() > 0
    np.testing.assert_allclose(query.distance(P), np.sqrt(squares), rtol=1e-9)
    np.testing.assert_allclose(query.score(P), np.sqrt(squares)[None], rtol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_one_row_is_a_point_query(name):
    query = CentreQuery(P[7:8], [1.0], kernel=name, gamma=0.5)
    k = getattr(slow, name.replace("-", "_"))(0.5)
    rows = P.astype(np.float64)
    expected = np.sqrt([k(row, row) + k(rows[7], rows[7]) - 2 * k(row, rows[7]) for row in rows])
    np.testing.assert_allclose(query.distance(P), expected, rtol=1e-9, atol=1e-7)
    assert query.distance(P).argmin() == 7


def test_what_no_space_holds_is_at_distance_0():
    corners = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.float32)
    query = CentreQuery(np.zeros((1, 2)), [1.0], kernel="gaussian-l1", gamma=0.1)
    assert np.all(query.distance(corners) > 0)
    centre = CentreQuery(corners, [0.25] * 4, kernel="gaussian-l1", gamma=0.1)
    assert 1 + centre.square < 2 * np.exp(-0.1)  # the square of the distance is negative
    assert centre.distance(np.zeros((1, 2), np.float32)) == 0


def test_a_flat_index_answers_it():
    index = Flat()
    index.add(np.arange(50), P)
    query = CentreQuery(X, a)
    order = np.argsort(query.score(P)[0], kind="stable")
    assert index.search(query, 5, exclude=np.array([3])).ids[0].tolist() == order[order != 3][:5].tolist()


def test_what_is_no_centre_is_refused():
    with pytest.raises(InputError, match=r"must add up to 1\. Got 2"):
        CentreQuery(X, 2 * a)
    with pytest.raises(InputError, match="one finite number a row"):
        CentreQuery(X, a[:3])
    with pytest.raises(InputError, match="one finite number a row"):
        CentreQuery(X, a * np.nan)
    with pytest.raises(InputError, match="must be finite"):
        CentreQuery(X * np.nan, a)
    with pytest.raises(InputError, match="gamma must be a number above 0"):
        CentreQuery(X, a, gamma=0)
    with pytest.raises(UnknownNameError, match="laplace"):
        CentreQuery(X, a, kernel="laplas")
