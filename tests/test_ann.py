import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import DamagedError, InputError, StoreError, UnknownNameError
from lookalike.index import ann
from lookalike.index.ann import KINDS, Ann
from lookalike.index.flat import Flat
from lookalike.index.queries import PointQuery

N, D = 3_000, 15  # an odd dimension, because PQ must pad it


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    X = random.normal(size=(N + 500, D)) @ np.diag(0.8 ** np.arange(D))
    ids = random.permutation(100_000)[: N + 500].astype(np.int64)
    return ids, X.astype(np.float32)


@pytest.fixture(scope="module", params=KINDS)
def file(rows, request, tmp_path_factory):
    """A saved index of the first N rows."""
    ids, X = rows
    index = Ann(request.param, links=8, breadth=40)
    index.add(ids[:N], X[:N])
    path = tmp_path_factory.mktemp("ann") / "structure"
    index.build().save(path)
    return path


@pytest.fixture
def index(rows, file):
    """The index of the first N rows, loaded for each test."""
    return Ann.load(file, flat(rows, slice(N)))


@pytest.fixture(autouse=True, scope="module")
def no_exact_search():
    """Use the approximate index for few rows too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ann, "EXACT_ROWS", 1)
        yield


def flat(rows, part):
    truth = Flat()
    truth.add(rows[0][part], rows[1][part])
    return truth


def recall(hits, expected):
    return np.mean([np.isin(a, b).mean() for a, b in zip(expected.ids, hits.ids, strict=True)])


def assert_valid(hits, index):
    """Check that the hits exist, are distinct and are in order of score."""
    for ids, scores in zip(hits.ids, hits.scores, strict=True):
        assert (np.diff(scores) >= 0).all()
        assert len(set(ids)) == len(ids)
        assert (ids >= 0).all()
    assert len(index.vectors(hits.ids.ravel())) == hits.ids.size


def test_a_search_finds_most_true_neighbours_with_fewer_comparisons(index, rows):
    query = PointQuery(rows[1][N:])
    expected = index.truth.search(query, 10)
    hits = index.search(query, 10, effort="fast")
    assert_valid(hits, index)
    assert recall(hits, expected) > 0.9
    assert 0 < hits.scored < 0.6 * expected.scored
    hit = hits.ids == expected.ids
    np.testing.assert_allclose(hits.scores[hit], expected.scores[hit], rtol=1e-6)


def test_vectors_in_blocks_of_both_precisions_are_found(file, rows):
    ids, X = rows
    truth = Flat()
    for number, part in enumerate(np.array_split(np.arange(N), 5)):
        truth.add(ids[part], X[part].astype((np.float32, np.float16)[number % 2]))
    index = Ann.load(file, truth)
    query = PointQuery(X[N:])
    expected, hits = truth.search(query, 10), index.search(query, 10)
    assert recall(hits, expected) > 0.95
    hit = hits.ids == expected.ids
    np.testing.assert_allclose(hits.scores[hit], expected.scores[hit], rtol=1e-6)


def test_equal_vectors_score_exactly_zero(index, rows):
    assert (index.search(PointQuery(rows[1][:N]), 1).scores == 0).mean() > 0.99


def test_more_effort_compares_more_rows(index, rows):
    query = PointQuery(rows[1][N:])
    efforts = ["fast", "balanced", None, "exact", 2, 20, 40.5]
    costs = {effort: index.search(query, 1, effort=effort).scored for effort in efforts}
    assert costs["fast"] <= costs["balanced"] == costs[None]
    assert costs["exact"] == N * 500
    assert costs[2] < costs[20] < costs[40.5]


def test_exact_effort_equals_a_scan(index, rows):
    index.add(*(part[N:] for part in rows))
    index.remove(rows[0][:100])
    query = PointQuery(rows[1][::500])
    for filters in ({}, {"among": index.ids[:50]}, {"exclude": index.ids[::2]}):
        hits, expected = index.search(query, 7, effort="exact", **filters), index.truth.search(query, 7, **filters)
        np.testing.assert_array_equal(hits.ids, expected.ids)
        np.testing.assert_array_equal(hits.scores, expected.scores)


def test_added_rows_are_found_immediately_and_removed_rows_never(index, rows):
    ids, X = rows
    assert index.stale == 0
    index.add(ids[N:], X[N:])
    assert index.stale == 500 / (N + 500)
    assert (index.search(PointQuery(X[N:]), 1).ids[:, 0] == ids[N:]).all()
    gone = np.concatenate([ids[:50], ids[N : N + 50], [200_000]])
    assert index.remove(gone) == 100
    assert len(index) == N + 400
    hits = index.search(PointQuery(X[:50]), 20)
    assert_valid(hits, index)
    assert not np.isin(hits.ids, gone).any()


def test_a_removed_id_can_be_added_again_with_another_vector(index, rows, file, tmp_path):
    ids, X = rows
    index.remove(ids[:1])
    index.add(ids[:1], X[N : N + 1])
    assert index.search(PointQuery(X[N : N + 1]), 1).ids.tolist() == [[ids[0]]]
    index.save(tmp_path / "again")
    loaded = Ann.load(tmp_path / "again", index.truth)
    assert loaded.stale == index.stale > 0
    assert loaded.search(PointQuery(X[N : N + 1]), 1).ids.tolist() == [[ids[0]]]


@pytest.mark.parametrize("share", [0.9, 0.3, 0.05])
def test_filters_apply_inside_the_search(index, rows, share):
    random = np.random.default_rng(1)
    index.add(*(part[N:] for part in rows))
    index.remove(rows[0][:200])
    query = PointQuery(rows[1][200:300])
    among = index.ids[random.random(len(index)) < share]
    exclude = index.ids[random.random(len(index)) < 0.1]
    for filters in ({"among": among}, {"exclude": exclude}, {"among": among, "exclude": exclude}):
        hits, expected = index.search(query, 10, **filters), index.truth.search(query, 10, **filters)
        assert_valid(hits, index)
        assert recall(hits, expected) > 0.9
        assert np.isin(hits.ids, filters.get("among", index.ids)).all()
        assert not np.isin(hits.ids, filters.get("exclude", [])).any()


def test_a_search_among_few_rows_compares_only_these_rows(index, rows, monkeypatch):
    monkeypatch.setattr(ann, "EXACT_ROWS", 41)
    hits = index.search(PointQuery(rows[1][:2]), 5, among=rows[0][:40])
    assert hits.scored == 2 * 40


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_results_are_correct_after_any_sequence_of_changes(file, rows, data):
    ids, X = rows
    index = Ann.load(file, flat(rows, slice(N)))
    live = set(range(N))
    for _ in range(data.draw(st.integers(1, 5))):
        start, size = data.draw(st.integers(0, N + 400)), data.draw(st.integers(1, 100))
        some = set(range(start, min(start + size, N + 500)))
        verb = data.draw(st.sampled_from(["add", "remove", "build"]))
        if verb == "add":
            new = sorted(some - live)
            index.add(ids[new], X[new])
            live |= some
        elif verb == "remove":
            assert index.remove(ids[sorted(some)]) == len(some & live)
            live -= some
        else:
            index.build()
    assert index.ids.tolist() == sorted(ids[sorted(live)].tolist())
    hits = index.search(PointQuery(X[::350]), 3)
    assert_valid(hits, index)
    assert recall(hits, index.search(PointQuery(X[::350]), 3, effort="exact")) > 0.8


def test_a_saved_index_can_be_loaded_over_changed_vectors(file, rows):
    ids, X = rows
    moved = Ann.load(file, flat(rows, slice(500, N + 500)))  # 500 rows were removed, 500 are new
    assert moved.stale == 1_000 / (N + 500)
    query = PointQuery(X[::20])
    hits, expected = moved.search(query, 5), moved.truth.search(query, 5)
    assert_valid(hits, moved)
    assert recall(hits, expected) > 0.9
    assert moved.build().stale == pytest.approx(500 / (N + 500))  # extended: removed rows keep their slots
    moved.remove(ids[500:1_500])
    assert moved.build().stale == 0  # rebuilt


def test_a_loaded_index_gives_the_same_results(index, rows, tmp_path):
    query = PointQuery(rows[1][N:])
    index.save(tmp_path / "copy")
    loaded = Ann.load(tmp_path / "copy", index.truth)
    assert loaded.kind == index.kind
    np.testing.assert_array_equal(loaded.search(query, 5).ids, index.search(query, 5).ids)


def test_the_error_for_a_damaged_file_names_it(file, rows, tmp_path):
    data = file.read_bytes()
    random = np.random.default_rng(0)
    flips = [(place, bit) for place in random.integers(0, len(data), 30) for bit in (0, 7)]
    broken = [data[:0], data[:5], data[: len(data) // 2], data[:-1], data[:-8], data + b"12345678", b"x" * 4_096]
    for place, bit in flips:
        flipped = bytearray(data)
        flipped[place] ^= 1 << bit
        broken.append(bytes(flipped))
    path = tmp_path / "broken"
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(DamagedError, match="broken"):
            Ann.load(path, Flat())
    with pytest.raises(DamagedError, match="missing"):
        Ann.load(tmp_path / "missing", Flat())


def test_a_file_for_other_vectors_is_rejected(file):
    other = Flat()
    other.add(np.arange(3), np.zeros((3, 40), np.float32))
    with pytest.raises(DamagedError, match="40"):
        Ann.load(file, other)


def test_the_error_for_an_unwritable_file_names_it(index, tmp_path):
    with pytest.raises(StoreError, match="no-such-folder"):
        index.save(tmp_path / "no-such-folder" / "file")


def test_few_rows_are_scanned_without_an_index(rows):
    index = Ann()
    index.add(rows[0][:50], rows[1][:50])
    assert index.build().stale == 1
    hits = index.search(PointQuery(rows[1][:2]), 3)
    np.testing.assert_array_equal(hits.ids, index.truth.search(PointQuery(rows[1][:2]), 3).ids)
    with pytest.raises(InputError, match="Build the index first"):
        index.save("nowhere")


def test_progress_is_reported_and_results_are_correct_after_an_interrupted_build(rows, monkeypatch):
    ids, X = rows
    monkeypatch.setattr(ann, "chunks", lambda n, **_: (slice(i, min(i + 1_000, n)) for i in range(0, n, 1_000)))
    told = []

    def interrupt(*what):
        told.append(what)
        if len(told) == 3:
            raise KeyboardInterrupt

    index = Ann(breadth=20)
    with pytest.raises(KeyboardInterrupt):
        index.build(flat(rows, slice(N)), progress=interrupt)
    assert told == [("indexing", done, N) for done in (0, 1_000, 2_000)]
    assert index.stale == 1_000 / N
    assert (index.search(PointQuery(X[:N]), 1).ids[:, 0] == ids[:N]).mean() > 0.95
    assert index.build().stale == 0
    assert (index.search(PointQuery(X[:N]), 1).ids[:, 0] == ids[:N]).mean() > 0.95


def test_an_unknown_kind_is_rejected(rows):
    with pytest.raises(UnknownNameError, match="Did you mean 'hnsw'"):
        Ann("hnws").build(flat(rows, slice(N)))


def test_a_search_does_not_change_the_number_of_faiss_threads(index, rows):
    before = faiss.omp_get_max_threads()
    index.search(PointQuery(rows[1][:1]), 3)
    index.build()
    assert faiss.omp_get_max_threads() == before


@pytest.mark.parametrize("kind", ["hnsw", "ivfpq"])
def test_a_filter_far_from_the_query_still_returns_k_hits(kind, monkeypatch):
    monkeypatch.setattr("lookalike.index.ann.EXACT_ROWS", 500)
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, 16)).astype(np.float32)
    X[:1_000] += 100
    index = Ann(kind)
    index.add(np.arange(20_000), X)
    hits = index.build().search(PointQuery(X[5_000:5_003]), 10, among=np.arange(1_000))
    assert ((hits.ids >= 0) & (hits.ids < 1_000)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_efforts_are_calibrated_on_rows_that_the_structure_does_not_have_yet(kind, rows, tmp_path):
    _, X = rows
    index = Ann(kind, breadth=20).build(flat(rows, slice(N)))
    query = PointQuery(X[N:])
    found = {effort: index.search(query, 10, effort=effort) for effort in ("fast", "balanced")}
    expected = index.truth.search(query, 10)
    assert recall(found["fast"], expected) > 0.95 - 0.03
    assert recall(found["balanced"], expected) > 0.98 - 0.03
    assert index.measured_recall == pytest.approx(recall(found["balanced"], expected), abs=0.03)

    index.save(tmp_path / "index.faiss")
    again = Ann.load(tmp_path / "index.faiss", flat(rows, slice(N)))
    assert again.measured_recall == pytest.approx(index.measured_recall, abs=1e-6)
    for effort, hits in found.items():
        assert again.search(query, 10, effort=effort).scored == hits.scored


@pytest.mark.parametrize("kind", KINDS)
def test_copies_of_a_row_do_not_raise_the_calibrated_efforts(kind, rows):
    index = Ann(kind, links=8, breadth=40)
    index.add(np.arange(N), np.repeat(rows[1][: N // 20], 20, axis=0))  # any ten of the copies are the nearest
    index.build()
    assert index.measured_recall > 0.95
    assert index.search(PointQuery(rows[1][N : N + 1]), 10).scored < N / 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_without_a_calibration_has_fixed_efforts(kind, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(ann, "EXACT_ROWS", N + 1)  # too few rows for a calibration
    index = Ann(kind, breadth=20).build(flat(rows, slice(N)))
    assert index.measured_recall is None
    index.save(tmp_path / "index.faiss")
    monkeypatch.setattr(ann, "EXACT_ROWS", 1)
    again, query = Ann.load(tmp_path / "index.faiss", flat(rows, slice(N))), PointQuery(rows[1][N:])
    assert again.measured_recall is None
    for effort, breadth in ann.BREADTHS[kind].items():
        assert again.search(query, 10, effort=effort).scored == again.search(query, 10, effort=breadth).scored
