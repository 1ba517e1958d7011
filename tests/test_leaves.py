import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookalike.errors import DamagedError, InputError, StoreError
from lookalike.feedback.learners import Svm
from lookalike.index import leaves
from lookalike.index.flat import Flat
from lookalike.index.leaf_codes import leaf_order
from lookalike.index.leaf_recall import read_recall
from lookalike.index.leaves import Leaves
from lookalike.index.queries import HyperplaneQuery, PointQuery
from lookalike.kernels import KERNELS

random = np.random.default_rng(0)
N, D = 6_000, 20
KINDS = random.integers(0, 60, N)
X = (random.normal(size=(60, D))[KINDS] + 0.3 * random.normal(size=(N, D))).astype(np.float32)
IDS = random.permutation(50_000)[:N].astype(np.int64)
A = np.array([1.0, 0.7, -0.6, -0.7, -0.4])


def query(kernel="laplace", kind="frontier", first=0):
    return HyperplaneQuery(X[first : first + 5], A, 0.02, kernel=kernel, gamma=0.1, kind=kind)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved index. Loading it is faster than building it."""
    made = Leaves(32)
    made.add(IDS, X)
    path = tmp_path_factory.mktemp("leaves") / "file"
    made.build().save(path)
    return path


@pytest.fixture
def index(saved):
    truth = Flat()
    truth.add(IDS, X)
    return Leaves.load(saved, truth)


@pytest.fixture
def chooses_leaves(monkeypatch):
    """Make searches choose leaves, although the tests have few rows."""
    monkeypatch.setattr(leaves, "ALL", 0)


def recall(index, q, k=20, **options):
    hits = index.search(q, k, **options)
    return np.isin(index.truth.search(q, k).ids, hits.ids).mean(), hits.scored / N


@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != "gaussian-l1"])
@pytest.mark.parametrize("kind", ["frontier", "maximum"])
def test_scoring_every_row_gives_nearly_the_results_of_a_scan(index, kernel, kind):
    expected = index.truth.search(query(kernel, kind), 10)
    hits = index.search(query(kernel, kind), 10, effort=1)
    assert np.isin(hits.ids, expected.ids).mean() >= 0.9
    same = hits.ids == expected.ids
    np.testing.assert_allclose(hits.scores[same], expected.scores[same], rtol=1e-6, atol=1e-7)


def uneven_rows(n, d, seed):
    """Like rootSIFT: sparse, non-negative, with heavy tails, in groups of very different size and density."""
    random = np.random.default_rng(seed)
    centres = random.gamma(0.3, size=(n // 100, d))
    sizes = random.pareto(1.2, len(centres)) + 0.01
    group = random.choice(len(centres), n, p=sizes / sizes.sum())
    width = np.exp(random.normal(-1, 1, len(centres)))[group, None]
    rows = centres[group] * random.gamma(width**-2, width**2, (n, d)) + 1e-9
    return np.sqrt(rows / rows.sum(1, keepdims=True)).astype(np.float32)


def hyperplane(rows, kernel, random):
    """The SVM of feedback for rows near a random one."""
    distances = np.square(rows - rows[random.integers(len(rows))]).sum(1)
    marked = np.append(np.argsort(distances)[:12], random.choice(len(rows), 28, replace=False))
    return Svm(kernel).fit(rows[marked], np.repeat([1, -1], [12, 28])).query_


@pytest.mark.usefixtures("chooses_leaves")
def test_each_effort_finds_the_share_of_the_results_that_it_promises_also_in_uneven_rows():
    rows, random = uneven_rows(10_000, 32, 0), np.random.default_rng(1)
    made = Leaves(32)
    made.add(np.arange(len(rows)), rows)
    made.build()
    assert made.recall["balanced"] >= 0.95
    assert made.recall["balanced"] >= made.recall["fast"] >= 0.85
    for kernel in ("gaussian", "laplace"):
        for kind in ("frontier", "maximum"):
            asked = [hyperplane(rows, kernel, random).of_kind(kind) for _ in range(12)]
            found = [[recall(made, one, 50, effort=effort) for one in asked] for effort in ("fast", "balanced")]
            (fast, fast_scored), (balanced, balanced_scored) = np.mean(found, axis=1)
            assert fast >= 0.85
            assert balanced >= 0.93  # of 600 results: 0.95 minus two standard errors
            assert fast_scored <= balanced_scored < 0.9 * len(rows) / N


@pytest.mark.usefixtures("chooses_leaves")
def test_the_recall_depends_on_the_rows_and_is_saved(index, tmp_path):
    clusters = index.recall
    index.save(tmp_path / "leaves")
    assert Leaves.load(tmp_path / "leaves", index.truth).recall == clusters
    assert read_recall(tmp_path / "leaves") == clusters
    other = Leaves(32)
    other.add(np.arange(5_000), np.random.default_rng(0).normal(size=(5_000, D)).astype(np.float32))
    assert other.build().recall != clusters
    assert Leaves().recall is None


@pytest.mark.usefixtures("chooses_leaves")
def test_leaves_of_an_older_version_can_be_searched_but_have_no_recall(index, tmp_path):
    path = tmp_path / "leaves"
    index.save(path)
    with np.load(path) as file:
        arrays = {name: array for name, array in file.items() if name not in ("laws", "limits")}
    with path.open("wb") as file:
        np.savez(file, **arrays)
    old = Leaves.load(path, index.truth)
    assert old.recall is None
    assert read_recall(path) is None
    assert np.mean([recall(old, query(kind="maximum", first=5 * i))[0] for i in range(20)]) >= 0.95


@pytest.mark.parametrize("n", [1_200, 5_200])
def test_all_results_are_found_among_few_rows_and_among_equal_ones(n):
    made = Leaves(16)
    made.add(np.arange(n), np.ones((n, 4), np.float32) if n > 5_000 else X[:n, :4])
    assert made.build().recall == {"fast": 1, "balanced": 1}


@pytest.mark.usefixtures("chooses_leaves")
def test_a_numeric_effort_is_the_share_of_leaves_to_score(index):
    found = np.array([recall(index, query(kind="maximum", first=5 * i), effort=0.1) for i in range(20)])
    assert found[:, 0].mean() >= 0.8
    assert found[:, 1].max() <= 0.1 + 0.1 + 0.02  # leaves, centres and exactly scored rows
    assert (index.search(query(), 500, effort=1e-6).ids >= 0).all()  # k results for any share


@pytest.mark.usefixtures("chooses_leaves")
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_after_any_changes_removed_rows_are_not_found_and_new_rows_are(saved, data):
    truth = Flat()
    truth.add(IDS, X)
    index = Leaves.load(saved, truth)
    q = query(kind=data.draw(st.sampled_from(["frontier", "maximum"])))
    for turn in range(1, data.draw(st.integers(2, 4))):
        gone = np.array(data.draw(st.lists(st.sampled_from(IDS.tolist()), max_size=40, unique=True)), np.int64)
        gone = np.union1d(gone, index.search(q, 5).ids[0])  # including the best results
        index.remove(gone)
        new = np.setdiff1d(gone, index.ids)[:3] + 100_000 * turn
        index.add(new, random.normal(size=(len(new), D)).astype(np.float32))
        hits = index.search(q, 20)
        assert np.isin(hits.ids, index.ids).all()
        assert len(np.unique(hits.ids)) == 20
        tail = index.truth.search(q, 20, among=new)
        better = tail.ids[(tail.scores < hits.scores[0, -1]) & (tail.ids >= 0)]
        assert np.isin(better, hits.ids).all()
        exact = index.search(q, 20, effort="exact")
        assert exact.ids.tolist() == index.truth.search(q, 20).ids.tolist()


@pytest.mark.usefixtures("chooses_leaves")
def test_filters_are_applied_during_the_search(index):
    among, exclude = np.sort(IDS[:5_800]), IDS[100:150]
    for effort in ("exact", None, 1):
        hits = index.search(query(kind="maximum"), 30, among=among, exclude=exclude, effort=effort)
        expected = index.truth.search(query(kind="maximum"), 30, among=among, exclude=exclude)
        assert np.isin(hits.ids, expected.ids).mean() >= (1 if effort == "exact" else 0.9)
        assert np.isin(hits.ids, among).all()
        assert not np.isin(hits.ids, exclude).any()
    few = index.search(query(), 30, among=IDS[:40], exclude=IDS[:20])
    assert sorted(few.ids[few.ids >= 0].tolist()) == sorted(IDS[20:40].tolist())


def test_other_queries_have_the_same_results_as_in_a_flat_index(index):
    point = PointQuery(X[:2])
    assert index.search(point, 7).ids.tolist() == index.truth.search(point, 7).ids.tolist()


def test_every_row_has_one_place_and_each_leaf_belongs_to_one_cell():
    codes = random.integers(0, 256, (5_300, 8), dtype=np.uint8)
    order, cells = leaf_order(codes, 32)
    assert sorted(order[order >= 0].tolist()) == list(range(5_300))
    assert len(order) == 32 * cells[-1]
    assert (np.diff(cells) > 0).all()
    last = order.reshape(-1, 32)[cells[1:] - 1]  # only the last leaf of a cell can have empty places
    assert np.count_nonzero(order < 0) == np.count_nonzero(last < 0)
    assert leaf_order(codes, 32)[0].tolist() == order.tolist()


def test_a_loaded_index_gives_the_same_results_and_notices_changes(index, tmp_path):
    path = tmp_path / "leaves"
    index.save(path)
    again = Leaves.load(path, index.truth)
    first, second = (part.search(query(), 10) for part in (index, again))
    assert first.ids.tolist() == second.ids.tolist()
    assert again.stale == 0
    assert again.nbytes == index.nbytes > N * D
    index.truth.remove(first.ids[0, :3])
    index.truth.add(np.array([90_000]), X[:1])
    late = Leaves.load(path, index.truth)
    assert late.stale > 0
    assert not np.isin(first.ids[0, :3], late.search(query(), 10).ids).any()
    assert 90_000 in late.search(query(kind="maximum"), 30).ids


@pytest.mark.parametrize("damage", ["short", "other", "field", "missing"])
def test_a_damaged_file_is_reported(index, tmp_path, damage):
    path = tmp_path / "leaves"
    index.save(path)
    if damage == "short":
        path.write_bytes(path.read_bytes()[:-300])
    elif damage == "other":
        path.write_bytes(b"something else")
    elif damage == "missing":
        path.unlink()
    else:
        with np.load(path) as file:
            arrays = dict(file)
        arrays["ids"] = arrays["ids"][:-16]
        with path.open("wb") as file:
            np.savez(file, **arrays)
    with pytest.raises(DamagedError, match=r"Cannot read .*leaves: "):
        Leaves.load(path, index.truth)


def test_invalid_use_is_rejected(index, tmp_path):
    with pytest.raises(InputError, match="multiple of 16"):
        Leaves(20).build()
    with pytest.raises(InputError, match="nothing to save"):
        Leaves().save("nowhere")
    with pytest.raises(StoreError, match=r"Cannot write .*folder: "):
        index.save(tmp_path / "no" / "folder")
    index.save(tmp_path / "leaves")
    other = Flat()
    other.add(np.arange(2), np.zeros((2, 3), np.float32))
    with pytest.raises(DamagedError, match="has 20 dimensions, but the vectors have 3"):
        Leaves.load(tmp_path / "leaves", other)
