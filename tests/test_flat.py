import mmap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.index import flat
from lookalike.index.flat import Flat
from lookalike.index.queries import PointQuery
from lookalike.scaled_rows import ScaledRows, as_stored
from reference import brute_force


def made(n=300, d=8, seed=0, dtype=np.float32):
    """Return an index of rows in several blocks, and the same rows by id."""
    random = np.random.default_rng(seed)
    ids = random.permutation(10 * n)[:n]
    X = random.normal(size=(n, d)).astype(dtype)
    index = Flat()
    for part in np.array_split(np.arange(n), 3):
        index.add(ids[part], X[part])
    return index, dict(zip(ids.tolist(), X.astype(np.float32), strict=True))


def assert_same(hits, expected):
    np.testing.assert_array_equal(hits.ids, expected[0])
    np.testing.assert_array_equal(hits.scores, expected[1])


class Plane:
    """A query of a type unknown to the index: the distance from a hyperplane."""

    def __init__(self, w):
        self.w = w

    def score(self, X):
        return np.abs(X @ self.w)[None, :]


@st.composite
def histories(draw):
    """Adds and removes in any order, then a search with filters; few values, so that ties are frequent."""
    d = draw(st.integers(1, 3))
    known = st.integers(0, 40)
    rows = st.lists(st.floats(-4, 4, width=16), min_size=d, max_size=d)
    adds = st.dictionaries(known, rows, max_size=12).map(lambda part: ("add", part))
    removes = st.lists(known, max_size=12).map(lambda ids: ("remove", ids))
    some = st.none() | st.lists(known, max_size=30).map(lambda ids: np.array(ids, np.int64))
    points = draw(st.lists(rows, min_size=1, max_size=3))
    steps = draw(st.lists(adds | removes, max_size=8))
    return d, steps, np.array(points, np.float32), draw(st.integers(1, 12)), draw(some), draw(some)


@given(histories())
@settings(max_examples=150, deadline=None)
def test_equals_brute_force_after_any_changes_with_any_filter(history):
    d, steps, points, k, among, exclude = history
    index, truth = Flat(), {}
    for verb, what in steps:
        if verb == "add":
            new = {id_: row for id_, row in what.items() if id_ not in truth}
            index.add(np.array(list(new), np.int64), np.array(list(new.values()), np.float32).reshape(-1, d))
            truth.update(new)
        else:
            assert index.remove(np.array(what, np.int64)) == len(truth.keys() & set(what))
            truth = {id_: row for id_, row in truth.items() if id_ not in what}
    assert len(index) == len(truth)
    assert index.ids.tolist() == sorted(truth)
    hits = index.search(PointQuery(points), k, among=among, exclude=exclude)
    assert_same(hits, brute_force.search(truth, points, k, among, exclude))


@pytest.mark.parametrize("share", [None, 0.02, 0.9])
@pytest.mark.parametrize("queries", [1, 3, 300])
def test_equals_brute_force_in_several_chunks(monkeypatch, share, queries):
    monkeypatch.setattr(flat, "CHUNK_BYTES", 256)
    index, truth = made(n=120)
    points = np.random.default_rng(1).normal(size=(queries, 8)).astype(np.float32)
    among = None if share is None else index.ids[np.random.default_rng(2).random(120) < share]
    hits = index.search(PointQuery(points), 5, among=among)
    assert_same(hits, brute_force.search(truth, points, 5, among))


@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("d", [16, flat.LONG + 3])
def test_near_duplicates_far_from_the_origin_are_in_the_correct_order(d, queries):
    random = np.random.default_rng(0)
    X = (1_000 + 1e-3 * random.normal(size=(3_000, d))).astype(np.float32)
    points, index = X[5 : 5 + queries], Flat()
    for part in (slice(0, 700), slice(700, 3_000)):
        index.add(np.arange(3_000)[part], X[part])
    index.remove(np.arange(0, 3_000, 7))
    truth = {id_: row for id_, row in enumerate(X) if id_ % 7}
    assert_same(index.search(PointQuery(points), 4), brute_force.search(truth, points, 4))


@pytest.mark.parametrize("queries", [1, 2])
def test_many_equal_vectors_are_ordered_by_id(queries):
    index = Flat()
    ids = np.random.default_rng(0).permutation(5_000)
    index.add(ids, np.ones((5_000, 4), np.float32))
    hits = index.search(PointQuery(np.ones((queries, 4))), 7)
    assert hits.ids.tolist() == [list(range(7))] * queries
    assert hits.scores.tolist() == [[0.0] * 7] * queries


def test_any_query_uses_its_own_scores():
    index, truth = made()
    index.remove(index.ids[:20])
    truth = {id_: row for id_, row in truth.items() if id_ in index.ids}
    w = np.arange(8, dtype=np.float32)
    for among, exclude in [(None, None), (index.ids[5:15], None), (index.ids[5:], index.ids[::2])]:
        hits = index.search(Plane(w), 6, among=among, exclude=exclude)
        allowed = set(index.ids if among is None else among) - set(() if exclude is None else exclude)
        expected = sorted((abs(float(truth[id_].astype(np.float64) @ w)), id_) for id_ in allowed)[:6]
        assert hits.ids[0].tolist() == [id_ for _, id_ in expected]
        np.testing.assert_allclose(hits.scores[0], [score for score, _ in expected], atol=1e-5)


def test_scored_counts_each_comparison():
    index, _ = made(n=300)
    query = PointQuery(np.zeros((2, 8)))
    assert index.search(query, 1).scored == 2 * 300
    assert index.search(query, 1, among=index.ids[:10]).scored == 2 * 10
    assert index.search(query, 1, among=index.ids[:10], exclude=index.ids[:4]).scored == 2 * 6


@pytest.mark.parametrize("view", [lambda X: X, lambda X: X.view(np.ndarray), lambda X: X.view(np.ndarray)[1:]])
def test_a_memory_map_is_neither_copied_nor_read_by_add(tmp_path, view):
    np.save(tmp_path / "x.npy", np.full((5, 3), np.nan, np.float32))
    X = view(np.load(tmp_path / "x.npy", mmap_mode="r"))[:4]
    index = Flat()
    index.add(np.arange(4), X)
    assert np.shares_memory(index.blocks[0].X, X)
    assert index.search(PointQuery(np.zeros((1, 3))), 2).ids.tolist() == [[-1, -1]]  # rows with NaN are never found


class RecordedMap(mmap.mmap):
    """A memory map that records the parts that are read ahead."""

    def madvise(self, *advice):
        self.__dict__.setdefault("advice", []).append(advice)
        super().madvise(*advice)


@pytest.mark.parametrize("scaled", [False, True])
def test_scattered_rows_of_a_memory_map_are_read_without_those_between_them(tmp_path, scaled):
    X = np.random.default_rng(0).normal(size=(8_192, 128)).astype(np.float32)
    rows = ScaledRows.encode(X) if scaled else X
    file = tmp_path / "rows"
    file.write_bytes(bytes(128) + as_stored(rows).tobytes())
    with file.open("rb") as stream:
        pages = RecordedMap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    mapped = np.ndarray(as_stored(rows).shape, as_stored(rows).dtype, pages, 128)
    index = Flat()
    for half in (slice(0, 4_096), slice(4_096, None)):
        index.add(np.arange(8_192)[half], ScaledRows(mapped[half], 128) if scaled else mapped[half])
    row_bytes = mapped.strides[0]
    index.search(PointQuery(X[:1]), k=3)
    index.vectors(np.arange(300))
    assert "advice" not in vars(pages)  # the system reads ahead in scans
    scattered = np.array([8_000, 7, 2_500, 5_000])
    np.testing.assert_array_equal(index.vectors(scattered), np.asarray(rows[scattered], np.float32))
    index.vectors(np.array([4_096]))
    found = {start + length: start for advice, start, length in pages.advice if advice == mmap.MADV_WILLNEED}
    for row in (*scattered, 4_096):
        begin = 128 + row * row_bytes
        assert found.pop(begin + row_bytes) == begin - begin % mmap.PAGESIZE
    assert not found


def test_rows_in_memory_are_not_copied_either():
    X = np.ones((600, 3), np.float32)
    index = Flat()
    index.add(np.arange(600), X)
    assert np.shares_memory(index.blocks[0].X, X)


def test_float16_rows_stay_float16_and_score_as_float32(tmp_path):
    index, truth = made(dtype=np.float16)
    points = np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)
    assert_same(index.search(PointQuery(points), 5), brute_force.search(truth, points, 5))
    assert {block.X.dtype for block in index.blocks} == {np.dtype(np.float16)}
    some = np.array(list(truth)[:3])
    np.testing.assert_array_equal(index.vectors(some), [truth[id_] for id_ in some])


def test_many_small_adds_give_few_blocks():
    index = Flat()
    X = np.random.default_rng(0).normal(size=(1_000, 4)).astype(np.float32)
    for i in range(1_000):
        index.add(np.array([i]), X[i : i + 1])
    assert len(index.blocks) < 12
    np.testing.assert_array_equal(index.vectors(np.array([999, 0, 500])), X[[999, 0, 500]])


def test_rows_whose_distance_overflows_are_never_found():
    index = Flat()
    index.add(np.array([1, 2]), np.array([[1e30, 0], [1, 0]], np.float32))
    assert index.search(PointQuery([[0.0, 0.0]]), 2).ids.tolist() == [[2, -1]]


def test_a_removed_id_can_be_added_again_with_another_vector():
    index, _ = made()
    id_ = index.ids[:1]
    index.remove(id_)
    index.add(id_, np.full((1, 8), 9, np.float32))
    assert index.search(PointQuery(np.full((1, 8), 9)), 1).scores[0, 0] == 0
    assert index.vectors(id_)[0, 0] == 9


def test_an_empty_index_finds_nothing():
    for query, q in [(PointQuery(np.zeros((2, 3))), 2), (Plane(np.zeros(0, np.float32)), 1)]:
        hits = Flat().search(query, 3)
        assert hits.ids.tolist() == [[-1] * 3] * q
        assert hits.scored == 0
    assert Flat().dim is None
    assert Flat().ids.tolist() == []


def test_no_queries_give_no_hits():
    index, _ = made()
    assert index.search(PointQuery(np.zeros((0, 8))), 3).ids.shape == (0, 3)


def test_effort_is_accepted_and_changes_nothing():
    index, _ = made()
    query = PointQuery(np.zeros((1, 8)))
    expected = index.search(query, 5).ids.tolist()
    for effort in ("exact", "balanced", "fast", 3, 0.5):
        assert index.search(query, 5, effort=effort).ids.tolist() == expected


@pytest.mark.parametrize(
    ("ids", "X", "message"),
    [
        ([1, 1], np.zeros((2, 8)), "unique. Got 1"),
        ([1], np.zeros((2, 8)), "1 ids and 2 rows"),
        ([-1], np.zeros((1, 8)), "between 0 and"),
        ([2**63], np.zeros((1, 8)), "between 0 and"),
        ([1.5], np.zeros((1, 8)), "whole numbers"),
        ([[1]], np.zeros((1, 8)), "one dimension"),
        ([1], np.zeros((1, 9)), "8 columns. Got 9"),
        ([1], np.full((1, 8), np.inf), "finite"),
    ],
)
def test_invalid_rows_are_rejected_and_change_nothing(ids, X, message):
    index = Flat()
    index.add(np.array([7]), np.zeros((1, 8), np.float32))
    with pytest.raises(InputError, match=message):
        index.add(ids, X)
    assert index.ids.tolist() == [7]
    assert index.search(PointQuery(np.zeros((1, 8))), 2).ids.tolist() == [[7, -1]]


def test_a_known_id_is_rejected():
    index, _ = made()
    with pytest.raises(InputError, match="remove them first"):
        index.add(index.ids[:1], np.zeros((1, 8), np.float32))


def test_a_memory_map_of_another_width_is_rejected(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 3), np.float32))
    index, _ = made()
    with pytest.raises(InputError, match="Got 3"):
        index.add(np.arange(90_000, 90_004), np.load(tmp_path / "x.npy", mmap_mode="r"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be a whole number of at least 1. Got 0"),
        ({"effort": "exat"}, "Did you mean 'exact'"),
        ({"effort": 0}, "effort must be a number above 0"),
        ({"effort": float("nan")}, "effort must be a number above 0"),
        ({"query": PointQuery(np.zeros((1, 5)))}, "5 dimensions, the index 8"),
        ({"among": np.array([0.5])}, "among must be whole numbers"),
        ({"exclude": np.array([-3])}, "exclude must be between"),
    ],
)
def test_invalid_arguments_of_search_are_rejected(arguments, message):
    index, _ = made()
    with pytest.raises(InputError, match=message):
        index.search(**{"query": PointQuery(np.zeros((1, 8))), "k": 1} | arguments)


def test_vectors_of_unknown_ids_are_rejected():
    index, _ = made()
    with pytest.raises(InputError, match="Got 99999"):
        index.vectors(np.array([index.ids[0], 99_999]))


@given(histories(), histories())
@settings(max_examples=60, deadline=None)
def test_a_copy_and_its_original_change_independently(history, more):
    d, steps, points, k, among, exclude = history
    index, truth = Flat(), {}

    def play(index, truth, steps):
        for verb, what in steps:
            if verb == "add":
                new = {id_: row[:1] * d for id_, row in what.items() if id_ not in truth}
                index.add(np.array(list(new), np.int64), np.array(list(new.values()), np.float32).reshape(-1, d))
                truth.update(new)
            else:
                index.remove(np.array(what, np.int64))
                for id_ in what:
                    truth.pop(id_, None)

    play(index, truth, steps)
    grown, larger = index.copy(), dict(truth)
    play(grown, larger, more[1])
    for one, rows in ((index, truth), (grown, larger)):
        hits = one.search(PointQuery(points), k, among=among, exclude=exclude)
        assert_same(hits, brute_force.search(rows, points, k, among, exclude))
    kept = np.array_equal(grown.rows(index.ids), index.rows(index.ids))
    assert grown.extends(index) or not kept  # an unchanged row is never missed
    assert not grown.extends(index) or kept


def test_an_index_extends_another_with_the_same_rows_in_other_blocks():
    X = np.eye(6, dtype=np.float32)

    def filled(*groups):
        index = Flat()
        for ids in groups:
            index.add(np.array(ids), X[: len(ids)])
        return index

    index = filled([1, 2, 3], [4])
    assert filled([1], [2, 3, 4, 5]).extends(index)
    assert not filled([1, 2, 3, 5]).extends(index)
    assert not filled([1, 2, 3]).extends(index)


def test_squares_of_the_same_arrays_are_reused():
    index, _ = made()
    index.search(PointQuery(np.zeros((1, 8))), 1)  # computes them
    again = Flat()
    for block in index.blocks:
        again.add(np.arange(block.start, block.start + len(block.X)), block.X)
    again.inherit(index)
    pairs = list(zip(again.blocks, index.blocks, strict=True))
    assert pairs
    assert all(new.known_squares is old.known_squares is not None for new, old in pairs)
