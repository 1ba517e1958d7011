import numpy as np
import pytest

from lookalike.errors import InputError, UnknownNameError
from lookalike.index.flat import Flat
from lookalike.index.hyperplane import HyperplaneQuery
from lookalike.kernels import KERNELS
from reference import kernels as slow

random = np.random.default_rng(3)
X, P = random.normal(size=(6, 4)), random.normal(size=(50, 4)).astype(np.float32)
a = random.normal(size=6)
a -= a.mean()


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "gaussian-l1"])
def test_distances_are_those_of_the_formula(name):
    query = HyperplaneQuery(X, a, 0.2, kernel=name, gamma=0.5)
    k = getattr(slow, name.replace("-", "_"))(0.5)
    X32 = X.astype(np.float32).astype(np.float64)
    f = slow.gram(P.astype(np.float64), X32, k) @ a + 0.2
    length = np.sqrt(a @ slow.gram(X32, X32, k) @ a)
    np.testing.assert_allclose(query.distance(P), f / length, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(query.score(P), np.abs(f / length)[None], rtol=1e-6)
    np.testing.assert_allclose(query.of_kind("maximum").score(P), -(f / length)[None], rtol=1e-6)


def test_a_flat_index_answers_it():
    index = Flat()
    index.add(np.arange(50), P)
    query = HyperplaneQuery(X, a, 0.2, kernel="laplace", kind="maximum")
    hits = index.search(query, 5, exclude=np.array([3]))
    order = np.argsort(query.score(P)[0], kind="stable")
    assert hits.ids[0].tolist() == order[order != 3][:5].tolist()


def test_what_is_no_hyperplane_is_refused():
    with pytest.raises(UnknownNameError, match="frontier"):
        HyperplaneQuery(X, a, 0.0, kind="front")
    with pytest.raises(InputError, match=r"must add up to 0\. Got 6"):
        HyperplaneQuery(X, a + 1, 0.0, kernel="angular")
    with pytest.raises(InputError, match="no direction"):
        HyperplaneQuery(X, 0 * a, 0.0)
    with pytest.raises(InputError, match="one finite number a support vector"):
        HyperplaneQuery(X, a[:3], 0.0)
    with pytest.raises(InputError, match="one finite number a support vector"):
        HyperplaneQuery(X, a, np.nan)
