"""What every index must do: answer as a plain scan does, whatever came, went or is filtered.

In: `make`, which returns a fresh component each time. Out: nothing, or an AssertionError.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lookalike.checks.common import Make, must_raise
from lookalike.codes.queries import CodeQuery
from lookalike.errors import InputError
from lookalike.index.queries import PointQuery
from lookalike.types import Ids, Index


def check_index_is_exact(make: Make) -> None:
    """With effort="exact", any index answers as a plain scan does."""
    index = make()
    assert isinstance(index, Index)
    ids, X, ask = _indexed(index)
    index.add(ids[:1_000], X[:1_000])
    _build(index)
    index.add(ids[1_000:], X[1_000:])
    hits = index.search(ask(X[:4]), 9, effort="exact")
    expected = ask(X[:4]).score(X)
    for row in range(4):
        order = np.lexsort((ids, expected[row]))[:9]
        assert hits.ids[row].tolist() == ids[order].tolist()
        np.testing.assert_allclose(hits.scores[row], expected[row][order], rtol=1e-4, atol=1e-5)
    assert hits.scored > 0


def check_index_edges(make: Make) -> None:
    """Empty, k > n, k < 1, a wrong dimension, NaN (where there can be one), an id twice."""
    ids, X, ask = _indexed(make())
    empty = make().search(ask(X[:2]), 3)
    assert empty.ids.tolist() == [[-1] * 3] * 2
    assert np.isinf(empty.scores).all()
    index = make()
    index.add(ids[:5], X[:5])
    hits = index.search(ask(X[:1]), 8)
    assert (hits.ids[0] >= 0).sum() == 5
    assert hits.ids[0, 5:].tolist() == [-1] * 3
    must_raise((InputError,), index.search, ask(X[:1]), 0)
    must_raise((InputError,), index.search, ask(X[:1, :3]), 1)
    must_raise((InputError,), ask, np.full((1, 4), np.nan, np.float32))
    must_raise((InputError,), index.add, ids[:1], X[:1])
    must_raise((InputError,), index.add, ids[9:10], np.full((1, 16), np.nan, np.float32))


def check_index_filters(make: Make) -> None:
    """`among`, `exclude` and removal decide inside the search: k answers come back wherever k are left."""
    index = make()
    ids, X, ask = _indexed(index)
    index.add(ids, X)
    _build(index)
    assert index.remove(ids[:10]) == 10
    assert index.remove(ids[:10]) == 0
    among, exclude = np.sort(ids[:60]), np.sort(ids[10:20])
    hits = index.search(ask(X[:1]), 40, among=among, exclude=exclude, effort="exact")
    assert set(hits.ids[0].tolist()) == set(ids[20:60].tolist())
    index.add(ids[:1], X[:1])  # what was removed may come back
    assert index.search(ask(X[:1]), 1, effort="exact").ids[0, 0] == ids[0]


def check_index_ties(make: Make) -> None:
    """Equal scores are ordered by id."""
    index = make()
    _, X, ask = _indexed(index)
    index.add(np.array([5, 3, 9, 1], np.int64), np.ones((4, 8), X.dtype))
    hits = index.search(ask(np.ones((1, 8), X.dtype)), 4, effort="exact")
    assert hits.ids[0].tolist() == [1, 3, 5, 9]
    assert hits.scores[0].tolist() == [0, 0, 0, 0]


def _indexed(index: Any) -> tuple[Ids, Any, Callable[[Any], Any]]:
    """Ids, rows as this index holds them, and the query of rows: points, or codes where it has `codes = True`."""
    random = np.random.default_rng(2)
    ids = random.permutation(5_000)[:1_100].astype(np.int64)
    if getattr(index, "codes", False):
        return ids, random.integers(0, 256, (1_100, 16), np.uint8), CodeQuery
    return ids, random.normal(size=(1_100, 16)).astype(np.float32), PointQuery


def _build(index: Any) -> None:
    """Some indexes have a structure that is built when there is enough to build it from."""
    if hasattr(index, "build"):
        index.build()
