import numpy as np
import pytest

from lookalike.errors import DamagedError, InputError
from lookalike.index import leaf_visit, sad, scan
from lookalike.index.flat import Flat
from lookalike.index.hyperplane import HyperplaneQuery
from lookalike.index.leaves import Leaves
from lookalike.kernels import KERNELS

random = np.random.default_rng(0)
N, D = 6_000, 20
X = (random.normal(size=(60, D))[random.integers(0, 60, N)] + 0.3 * random.normal(size=(N, D))).astype(np.float32)
IDS = random.permutation(50_000)[:N].astype(np.int64)
A = np.array([1.0, 0.7, -0.6, -0.7, -0.4])


def query(kernel="laplace", kind="frontier"):
    return HyperplaneQuery(X[:5], A, 0.02, kernel=kernel, gamma=0.1, kind=kind)


@pytest.fixture
def index():
    made = Leaves(32)
    made.add(IDS, X)
    return made.build()


@pytest.mark.parametrize("width", [*sad.sad_widths(), None])
def test_sums_of_differences_are_numpys(width):
    rows = random.integers(0, 256, (16, 40), dtype=np.uint8)
    out = np.empty(16, np.uint64)
    sad.make_sad(width)(scan.in_blocks(rows)[0], rows[3], out)
    assert out.tolist() == np.abs(rows.astype(int) - rows[3].astype(int)).sum(1).tolist()


@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != "gaussian-l1"])
@pytest.mark.parametrize("kind", ["frontier", "maximum"])
def test_every_row_as_bytes_gives_what_a_scan_gives(index, kernel, kind):
    expected = index.truth.search(query(kernel, kind), 10)
    hits = index.search(query(kernel, kind), 10, effort=1)
    assert np.isin(hits.ids, expected.ids).mean() >= 0.9
    same = hits.ids == expected.ids
    np.testing.assert_allclose(hits.scores[same], expected.scores[same], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", ["frontier", "maximum"])
def test_most_answers_are_found_in_a_part_of_the_leaves(index, kind, monkeypatch):
    monkeypatch.setattr(leaf_visit, "ALL", 0)
    expected = index.truth.search(query(kind=kind), 20)
    hits = index.search(query(kind=kind), 20)
    assert np.isin(expected.ids, hits.ids).mean() >= 0.7
    assert hits.scored < 0.8 * N


def test_exact_effort_filters_and_changes_are_those_of_a_flat_index(index):
    index.remove(IDS[:100])
    index.add(np.array([90_000]), X[:1])
    flat = Flat()
    flat.add(np.append(IDS[100:], 90_000), np.append(X[100:], X[:1], axis=0))
    among, exclude = IDS[:5_800], IDS[100:150]
    for effort in ("exact", 1):
        hits = index.search(query(kind="maximum"), 30, among=np.append(among, 90_000), exclude=exclude, effort=effort)
        expected = flat.search(query(kind="maximum"), 30, among=np.append(among, 90_000), exclude=exclude)
        assert np.isin(hits.ids, expected.ids).mean() >= (1 if effort == "exact" else 0.9)
        assert not np.isin(hits.ids, exclude).any()
        assert 90_000 in hits.ids


def test_a_saved_index_answers_as_before(index, tmp_path):
    index.save(tmp_path / "leaves")
    again = Leaves.load(tmp_path / "leaves", index.truth)
    first, second = (part.search(query(), 10) for part in (index, again))
    assert first.ids.tolist() == second.ids.tolist()
    (tmp_path / "leaves").write_bytes((tmp_path / "leaves").read_bytes()[:-300])
    with pytest.raises(DamagedError, match="cannot be read"):
        Leaves.load(tmp_path / "leaves", index.truth)


def test_what_cannot_be_is_refused():
    with pytest.raises(InputError, match="multiple of 16"):
        Leaves(20).build()
    with pytest.raises(InputError, match="nothing to save"):
        Leaves().save("nowhere")
