import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.codes.hyperplanes import Itq
from lookalike.codes.pq import Pq
from lookalike.errors import InputError, UnknownNameError
from lookalike.index import choice, coded
from lookalike.index.coded import Coded
from lookalike.index.flat import Flat
from lookalike.index.hamming import Hamming
from lookalike.index.queries import CodedQuery, PointQuery

N = 600
random = np.random.default_rng(0)
X = random.normal(size=(N, 12)).astype(np.float32)
IDS = random.permutation(2_000)[:N].astype(np.int64)


def halve(rows):
    """A transform of rows before they are encoded."""
    return rows[:, :6] * 2


@functools.cache
def make(coder, finish=None):
    """Return an index of all rows and a function that creates queries for it."""
    rows = X if finish is None else finish(X)
    coder = coder(bits=32).fit(rows)
    codes, truth = Hamming(), Flat()
    codes.add(IDS, coder.encode(rows))
    truth.add(IDS, X)
    return Coded(codes, truth, finish), lambda some: CodedQuery(some, coder.query(some)), coder, rows


@pytest.mark.parametrize("finish", [None, halve])
@pytest.mark.parametrize("coder", [Itq, Pq])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), k=st.integers(1, 30), times=st.sampled_from([1, 2.5, "fast"]))
def test_nearest_codes_are_re_ranked_by_vectors(coder, finish, seed, k, times):
    """Compare with a full sort by codes, then a sort of the shortlist by vectors; ties are ordered by id."""
    index, ask, coder, rows = make(coder, finish)
    random = np.random.default_rng(seed)
    asked = rows[random.choice(N, 2)] + 0.1
    among = np.sort(random.choice(IDS, 500, replace=False))
    exclude = np.sort(random.choice(IDS, 50, replace=False))
    hits = index.search(ask(asked), k, among=among, exclude=exclude, effort=times)
    size = int((4 if times == "fast" else times) * k) + 100
    allowed = np.flatnonzero(np.isin(IDS, among) & ~np.isin(IDS, exclude))
    near = coder.query(asked).score(coder.encode(rows[allowed]))
    for row in range(2):
        proposed = allowed[np.lexsort((IDS[allowed], near[row]))[:size]]
        away = np.square(rows[proposed].astype(np.float64) - asked[row]).sum(axis=1).astype(np.float32)
        best = np.lexsort((IDS[proposed], away))[:k]
        assert hits.ids[row].tolist() == IDS[proposed[best]].tolist()
        np.testing.assert_allclose(hits.scores[row], away[best], rtol=1e-5)
    assert hits.scored >= 2 * min(size, len(allowed))


@pytest.mark.parametrize("finish", [None, halve])
def test_an_exact_search_compares_all_vectors_and_no_codes(finish, monkeypatch):
    index, ask, _, rows = make(Itq, finish)
    monkeypatch.setattr(coded, "ROWS_BYTES", 10_000)  # several chunks
    flat = Flat()
    flat.add(IDS, rows)
    for among, exclude in ((None, None), (np.sort(IDS[:300]), np.sort(IDS[:20]))):
        mine = index.search(ask(rows[:3]), 9, among=among, exclude=exclude, effort="exact")
        true = flat.search(PointQuery(rows[:3]), 9, among=among, exclude=exclude)
        assert mine.ids.tolist() == true.ids.tolist()
        np.testing.assert_allclose(mine.scores, true.scores, rtol=1e-5)


def test_a_search_whose_shortlist_would_contain_everything_is_exact():
    index, ask, _, rows = make(Itq, None)
    few = np.sort(IDS[:80])
    exact = index.search(ask(rows[:2]), 100, among=few, effort="exact")
    assert index.search(ask(rows[:2]), 100, among=few).ids.tolist() == exact.ids.tolist()
    assert (exact.ids >= 0).sum(axis=1).tolist() == [80, 80]


def test_removed_rows_are_never_found_and_vectors_are_transformed():
    index, ask, _, rows = make(Itq, halve)
    index.codes.remove(IDS[:5])
    assert len(index) == N - 5
    assert int(IDS[0]) not in index
    for effort in ("exact", "fast", 0.1):
        assert IDS[0] not in index.search(ask(rows[:1]), 5, effort=effort).ids
    assert index.dim == 6
    np.testing.assert_array_equal(index.vectors(IDS[7:9]), rows[7:9])


def test_recall_grows_with_the_effort(monkeypatch):
    index, ask, _, _ = make(Itq, None)
    monkeypatch.setattr(choice, "PLUS", 0)
    few, many = (choice.measure_recall(index, ask, effort) for effort in (1, 20))
    assert few < 0.9
    assert few < many <= 1
    assert choice.measure_recall(index, ask, "exact") == 1
    assert choice.measure_recall(Coded(Hamming(), Flat()), ask) == 1


def test_invalid_searches_are_rejected():
    index, ask, _, rows = make(Itq, None)
    with pytest.raises(InputError, match=r"at least 1\. Got 0"):
        index.search(ask(rows[:1]), 0)
    with pytest.raises(UnknownNameError, match="effort"):
        index.search(ask(rows[:1]), 1, effort="quick")
    empty = Coded(Hamming(), Flat())
    assert empty.dim is None
    assert empty.search(ask(rows[:1]), 2).ids.tolist() == [[-1, -1]]
