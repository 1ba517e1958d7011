"""The Hamming index with and without tables, compared with a loop over single bits."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.codes.queries import CodeQuery, SphericalQuery
from lookalike.errors import InputError
from lookalike.index import multi_hash, threads
from lookalike.index.hamming import LEAST_BLOCKS, Hamming
from lookalike.index.multi_hash import MultiHash
from lookalike.index.queries import PointQuery
from reference import codes as slow


def assert_same(hits, expected):
    np.testing.assert_array_equal(hits.ids, expected[0])
    np.testing.assert_array_equal(hits.scores, expected[1])


def fast_reference(codes, ids, queries, k):
    """Return ids and distances by a full sort, for many rows."""
    near = np.array([np.bitwise_count(codes ^ query).sum(axis=1) for query in queries])
    best = np.array([np.lexsort((ids, row))[:k] for row in near])
    return ids[best], np.take_along_axis(near, best, axis=1)


@st.composite
def histories(draw):
    """Adds and removes in any order, then a search with filters; few values, so that ties are frequent."""
    width = draw(st.sampled_from([1, 4, 9]))
    known = st.integers(0, 150)
    code = st.lists(st.sampled_from([0, 1, 3, 255]), min_size=width, max_size=width)
    adds = st.dictionaries(known, code, max_size=40).map(lambda part: ("add", part))
    removes = st.lists(known, max_size=20).map(lambda ids: ("remove", ids))
    some = st.none() | st.lists(known, max_size=80).map(lambda ids: np.array(ids, np.int64))
    queries = draw(st.lists(code, min_size=1, max_size=3))
    steps = draw(st.lists(adds | removes, max_size=6))
    return width, steps, np.array(queries, np.uint8), draw(st.integers(1, 20)), draw(some), draw(some)


def without_limits(patch):
    """Use tables for any number of rows, and never fall back to a scan."""
    patch.setattr(multi_hash, "MIN_ROWS", 1)
    patch.setattr(multi_hash, "PAYS", 1e-9)


@given(histories(), st.sampled_from(["plain", "weighted"]), st.sampled_from(["hamming", "multihash", "gives up"]))
@settings(max_examples=90)
def test_equals_the_reference_after_any_changes_with_any_filter(history, kind, name):
    with pytest.MonkeyPatch.context() as patch:
        if name == "multihash":
            without_limits(patch)
        check_history(Hamming() if name == "hamming" else MultiHash(), kind, *history)


def check_history(index, kind, width, steps, queries, k, among, exclude):
    truth = {}
    for verb, what in steps:
        if hasattr(index, "build") and len(truth) % 2:  # sometimes
            index.build()
        if verb == "add":
            new = {id_: row for id_, row in what.items() if id_ not in truth}
            index.add(np.array(list(new), np.int64), np.array(list(new.values()), np.uint8).reshape(-1, width))
            truth.update(new)
        else:
            assert index.remove(np.array(what, np.int64)) == len(truth.keys() & set(what))
            truth = {id_: row for id_, row in truth.items() if id_ not in what}
    assert len(index) == len(truth)
    assert index.ids.tolist() == sorted(truth)
    weights = None if kind == "plain" else np.arange(8 * width) % 5
    hits = index.search(CodeQuery(queries, weights), k, among=among, exclude=exclude)
    assert_same(hits, slow.search(truth, queries, k, among, exclude, weights))


@pytest.mark.parametrize("width", [4, 8, 16, 24])
@pytest.mark.parametrize("order", ["rising", "any"])
def test_equals_a_sort_over_many_rows_in_several_threads(width, order, monkeypatch):
    monkeypatch.setattr(threads, "CORES", 2)
    random = np.random.default_rng(width)
    n = 64 * LEAST_BLOCKS * 5 + 17
    codes = random.integers(0, 4, (n, width), np.uint8)  # few values, so that ties are frequent
    ids = np.arange(n) if order == "rising" else random.permutation(10 * n)[:n]
    index = Hamming()
    for part in np.array_split(np.arange(n), 3):
        index.add(ids[part], codes[part])
    queries = random.integers(0, 4, (3, width), np.uint8)
    for k in (1, 10, 300):
        assert_same(index.search(CodeQuery(queries), k), fast_reference(codes, ids, queries, k))


def test_equal_codes_are_ordered_by_id():
    index = Hamming()
    ids = np.random.default_rng(0).permutation(500)
    index.add(ids, np.zeros((500, 8), np.uint8))
    assert index.search(CodeQuery(np.zeros((1, 8), np.uint8)), 40).ids[0].tolist() == list(range(40))


def test_any_query_uses_its_own_score():
    random = np.random.default_rng(0)
    codes = random.integers(0, 256, (300, 4), np.uint8)
    index = Hamming()
    index.add(np.arange(300), codes)
    query = SphericalQuery(codes[:2])
    hits = index.search(query, 5)
    np.testing.assert_array_equal(hits.scores, np.sort(query.score(codes), axis=1)[:, :5])
    np.testing.assert_array_equal(hits.ids[:, 0], [0, 1])


def test_a_copy_and_its_original_change_independently():
    codes = np.random.default_rng(0).integers(0, 256, (210, 9), np.uint8)
    index = Hamming()
    index.add(np.arange(200), codes[:200])
    grown = index.copy()
    grown.remove(np.arange(5))
    for one, rows in ((index, codes[200:205]), (grown, codes[205:])):
        one.add(np.arange(200, 205), rows)
    everything = CodeQuery(codes[202:203])
    assert index.search(everything, 1).scores[0, 0] == 0
    np.testing.assert_array_equal(grown.vectors(np.arange(200, 205)), codes[205:])
    assert (len(index), len(grown)) == (205, 200)
    assert 3 in index
    assert 3 not in grown


def test_vectors_returns_the_codes_that_were_added():
    codes = np.random.default_rng(0).integers(0, 256, (200, 9), np.uint8)
    index = Hamming()
    index.add(np.arange(200), codes)
    np.testing.assert_array_equal(index.vectors(np.array([7, 199, 0])), codes[[7, 199, 0]])
    assert 7 in index
    assert 200 not in index
    with pytest.raises(InputError, match="Got 200"):
        index.vectors(np.array([200]))


def test_searches_can_run_concurrently():
    random = np.random.default_rng(0)
    codes = random.integers(0, 256, (64 * LEAST_BLOCKS * 3, 8), np.uint8)
    index = Hamming()
    index.add(np.arange(len(codes)), codes)
    found = [None] * 4

    def ask(place):
        found[place] = index.search(CodeQuery(codes[place : place + 1]), 5)

    running = [threading.Thread(target=ask, args=(place,)) for place in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for place, hits in enumerate(found):
        assert_same(hits, fast_reference(codes, np.arange(len(codes)), codes[place : place + 1], 5))


def test_scored_counts_every_comparison():
    index = Hamming()
    index.add(np.arange(100), np.zeros((100, 8), np.uint8))
    assert index.search(CodeQuery(np.zeros((3, 8), np.uint8)), 1).scored == 300
    assert index.search(CodeQuery(np.zeros((3, 8), np.uint8)), 1, among=np.arange(5)).scored == 15


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.add(np.array([9]), np.zeros((1, 8), np.float32)), "packed bits"),
        (lambda index: index.add(np.array([9]), np.zeros((1, 4), np.uint8)), "64 bits. Got 32"),
        (lambda index: index.add(np.array([9, 8]), np.zeros((1, 8), np.uint8)), "same length"),
        (lambda index: index.add(np.array([0]), np.zeros((1, 8), np.uint8)), "must be new"),
        (lambda index: index.search(CodeQuery(np.zeros((1, 4), np.uint8)), 1), "4 dimensions"),
        (lambda index: index.search(PointQuery(np.zeros((1, 4))), 1), "4 dimensions"),
        (lambda index: index.search(CodeQuery(np.zeros((1, 8), np.uint8)), 0), "at least 1"),
    ],
)
def test_invalid_input_is_refused(call, message):
    index = Hamming()
    index.add(np.array([0]), np.zeros((1, 8), np.uint8))
    with pytest.raises(InputError, match=message):
        call(index)
    assert len(index) == 1


@pytest.mark.parametrize("flips", [3, 30, 64])
@pytest.mark.parametrize("width", [8, 15, 32])
def test_tables_and_scans_find_the_same_near_and_far_codes(width, flips, monkeypatch):
    monkeypatch.setattr(multi_hash, "PAYS", 1e-9)
    random = np.random.default_rng(width)
    centres = random.integers(0, 256, (40, width), np.uint8)
    noise = np.packbits(random.random((12_000, 8 * width)) < flips / (8 * width) / 2, axis=1)
    codes = centres[random.integers(0, 40, 12_000)] ^ noise
    ids = random.permutation(50_000)[:12_000]
    index = MultiHash()
    index.add(ids[:11_000], codes[:11_000])
    index.build()
    assert index.stale == 0
    index.add(ids[11_000:], codes[11_000:])
    assert index.stale == pytest.approx(1 / 12)
    index.remove(ids[:500])
    assert index.stale == pytest.approx(1_500 / 12_000)
    queries = codes[1_000:1_004]
    for k in (1, 20):
        hits = index.search(CodeQuery(queries), k, exclude=ids[1_000:1_002])
        kept = np.r_[500:1_000, 1_002:12_000]
        assert_same(hits, fast_reference(codes[kept], ids[kept], queries, k))


def test_near_codes_need_few_comparisons_and_far_codes_a_scan():
    random = np.random.default_rng(0)
    codes = random.integers(0, 256, (50_000, 16), np.uint8)
    codes[:20] = codes[0]
    index = MultiHash()
    index.add(np.arange(50_000), codes)
    index.build()
    near, far = index.search(CodeQuery(codes[:1]), 20), index.search(CodeQuery(codes[100:101]), 20)
    assert near.ids[0].tolist() == list(range(20))
    assert near.scored < 1_000
    assert far.scored == 50_000
    both = index.search(CodeQuery(codes[[0, 100]]), 20)
    np.testing.assert_array_equal(both.ids, np.concatenate([near.ids, far.ids]))


def test_tables_are_rebuilt_for_another_index():
    codes = np.random.default_rng(0).integers(0, 256, (multi_hash.MIN_ROWS, 16), np.uint8)
    truth = Hamming()
    truth.add(np.arange(len(codes)), codes)
    index = MultiHash()
    assert index.build().search(CodeQuery(codes[:1]), 1).ids[0, 0] == -1
    assert index.build(truth).search(CodeQuery(codes[5:6]), 1).ids[0, 0] == 5
    assert len(index) == len(codes)
    assert 5 in index
    assert index.ids.tolist() == list(range(len(codes)))
    np.testing.assert_array_equal(index.vectors(np.array([5])), codes[5:6])
