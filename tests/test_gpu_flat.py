import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.index.flat import Flat
from lookalike.index.queries import CentreQuery, CodedQuery, HyperplaneQuery, PointQuery, WeightedQuery
from lookalike.kernels import KERNELS
from lookalike.scaled_rows import SCALED, ScaledRows
from waiting import TIMEOUT_S

torch = pytest.importorskip("torch")
from lookalike.index import gpu_flat, gpu_scores  # noqa: E402 — needs torch
from lookalike.index.gpu_flat import GpuFlat  # noqa: E402

N, D = 3_000, 20
random = np.random.default_rng(0)
X = random.normal(size=(N, D)).astype(np.float32)
IDS = random.permutation(50_000)[:N].astype(np.int64)
A = np.array([1.0, 0.7, -0.6, -0.7, -0.4])
KINDS = ("frontier", "maximum")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def plane(kernel="laplace", kind="frontier", rows=X, gamma=0.05):
    return HyperplaneQuery(rows[:5], A, 0.02, kernel=kernel, gamma=gamma, kind=kind)


def pair(rows=X, ids=IDS, **options):
    """The same rows in both indexes, added in two parts."""
    indexes = Flat(), GpuFlat("cpu", **{"block_rows": 1_024} | options)
    for index in indexes:
        index.add(ids[: len(ids) // 3], rows[: len(ids) // 3])
        index.add(ids[len(ids) // 3 :], rows[len(ids) // 3 :])
    return indexes


def assert_same(flat, index, query, k=20, exact=True, **filters):
    expected, hits = flat.search(query, k, **filters), index.search(query, k, **filters)
    assert hits.ids.tolist() == expected.ids.tolist()
    if exact:
        np.testing.assert_array_equal(hits.scores, expected.scores)
    else:
        np.testing.assert_allclose(hits.scores, expected.scores, rtol=1e-4, atol=1e-4)


@pytest.fixture
def scores_candidates_in_float64(monkeypatch):
    """Make searches score all candidates on the device, although the tests have few."""
    monkeypatch.setattr(gpu_flat, "DIRECT", 0)


@pytest.fixture(scope="module", params=["float32", "float16", SCALED])
def indexes(request):
    return pair(ScaledRows.encode(X) if request.param == SCALED else X.astype(request.param))


@pytest.mark.usefixtures("scores_candidates_in_float64")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_hyperplanes_of_every_kernel_have_the_hits_of_a_scan(indexes, kernel, kind):
    assert_same(*indexes, plane(kernel, kind))


@pytest.mark.usefixtures("scores_candidates_in_float64")
@pytest.mark.parametrize("queries", [0, 1, 3, 40])
def test_points_have_the_hits_of_a_scan(indexes, queries):
    assert_same(*indexes, PointQuery(X[:queries] + np.float32(0.01)), k=7)


@pytest.mark.usefixtures("scores_candidates_in_float64")
def test_weighted_points_have_the_hits_of_a_scan(indexes):
    assert_same(*indexes, WeightedQuery(PointQuery(X[:4]), [0.5, 0.25, -0.5, 0.1]), exact=False)


@pytest.mark.parametrize(
    "query",
    [CodedQuery(X[:2], None), CentreQuery(X[:2], [0.5, 0.5]), WeightedQuery(CodedQuery(X[:2], None), [1, -1])],
)
def test_other_queries_have_the_hits_of_a_scan(indexes, query):
    assert_same(*indexes, query, exact=not isinstance(query, WeightedQuery))


@pytest.mark.parametrize("share", [0.001, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("query", [plane(), PointQuery(X[:3])])
def test_filters_apply_during_the_search(indexes, query, share):
    among = IDS[random.random(N) < share]
    assert_same(*indexes, query, among=among)
    assert_same(*indexes, query, among=among, exclude=IDS[::3])
    assert_same(*indexes, query, exclude=np.append(IDS[::3], 60_000))


def test_removed_rows_are_not_found_and_added_rows_are():
    flat, index = pair()
    best = index.search(plane(), 10).ids[0]
    for each in (flat, index):
        assert each.remove(np.append(best[:5], 60_000)) == 5
        each.add(np.array([60_001, best[0]]), X[:2])
    assert len(index) == N - 3
    assert best[1] not in index
    assert index.ids.tolist() == flat.ids.tolist()
    for query in (plane(), plane("gaussian", "maximum"), PointQuery(X[:1])):
        assert_same(flat, index, query)
        assert_same(flat, index, query, among=best)


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_after_any_changes_the_hits_are_those_of_a_scan(data):
    flat, index = Flat(), GpuFlat("cpu", block_rows=1_024)
    for turn in range(data.draw(st.integers(1, 5))):
        m = data.draw(st.sampled_from([0, 1, 7, 1_024, 1_500]))
        rows = random.normal(size=(m, 6)).astype(data.draw(st.sampled_from([np.float16, np.float32])))
        rows *= data.draw(st.sampled_from([0.01, 1, 100]))
        gone = flat.ids[:: data.draw(st.integers(1, 9))]
        for each in (flat, index):
            each.add(np.arange(m) + 10_000 * turn, rows)
            each.remove(gone)
        query = plane(data.draw(st.sampled_from(sorted(KERNELS))), rows=X[:, :6])
        k = data.draw(st.sampled_from([1, 10, 3_000]))
        assert_same(flat, index, query, k)
        assert_same(flat, index, PointQuery(X[:2, :6]), k)


def test_an_index_over_more_rows_reuses_the_blocks_it_has():
    flat, index = pair()
    grown = index.truth.copy()
    grown.add(np.array([70_000]), X[:1])
    grown.remove(IDS[:4])
    larger = index.over(grown)
    assert any(block is other for block in larger.blocks for other in index.blocks)
    for query in (plane(), PointQuery(X[:1])):
        assert_same(grown, larger, query)
        assert_same(flat, index, query)


def test_rows_beyond_the_memory_of_the_device_stay_in_host_memory():
    flat, index = pair(device_bytes=2 * 1_024 * 32)
    assert 0 < index.host_bytes < index.nbytes
    assert pair()[1].host_bytes == 0
    for query in (plane(), PointQuery(X[:2]), plane("poly", "maximum")):
        assert_same(flat, index, query)


def test_the_same_query_is_not_scored_again():
    flat, index = pair()
    query = plane(kind="maximum")
    first = index.search(query, 5)
    again = index.search(query, 30, exclude=first.ids[0])
    assert again.scored < N <= first.scored
    assert again.ids.tolist() == flat.search(query, 30, exclude=first.ids[0]).ids.tolist()
    index.add(np.array([80_000]), X[:1])
    assert index.search(query, 5).scored >= N


@pytest.mark.usefixtures("scores_candidates_in_float64")
@pytest.mark.parametrize("query", [plane("gaussian"), PointQuery(X[:2]), plane("angular", "maximum")])
def test_equal_vectors_are_ordered_by_id(query):
    flat, index = pair(np.repeat(X[:30], 100, axis=0))
    assert_same(flat, index, query, k=250)


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "linear"])
def test_vectors_of_any_size_have_the_hits_of_a_scan(size, kernel):
    flat, index = pair(X * np.float32(size))
    gamma = 0.05 / size if kernel == "laplace" else 0.05 / size**2
    assert_same(flat, index, plane(kernel, rows=X * np.float32(size), gamma=gamma))
    assert_same(flat, index, PointQuery(X[:2] * np.float32(size)))


def test_a_few_long_rows_do_not_change_other_hits():
    rows = X.copy()
    rows[[3, 1_500]] = [[1e4], [1e30]]
    flat, index = pair(rows)
    for query in (plane(rows=X), plane("linear", "maximum"), PointQuery(X[:1]), PointQuery(rows[3:4])):
        assert_same(flat, index, query)
        assert_same(flat, index, query, among=IDS[:40])


def test_rows_of_a_memory_map_that_are_not_finite_are_never_found(tmp_path):
    rows = X.copy()
    rows[::7, 3] = np.nan
    np.save(tmp_path / "x.npy", rows)
    flat, index = pair(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert_same(flat, index, PointQuery(X[1:3]))
    assert_same(flat, index, plane("gaussian"))


def test_an_empty_index_finds_nothing():
    hits = GpuFlat("cpu").search(plane(), 3)
    assert hits.ids.tolist() == [[-1] * 3]


def test_invalid_arguments_are_rejected(indexes):
    _, index = indexes
    with pytest.raises(InputError, match="k must be"):
        index.search(plane(), 0)
    with pytest.raises(InputError, match="dimensions"):
        index.search(PointQuery(X[:1, :3]), 1)
    with pytest.raises(InputError, match="existing"):
        index.add(IDS[:1], X[:1])


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_error_of_approximate_scores_is_within_its_bound(indexes, kernel):
    flat, index = indexes
    for query in (plane(kernel), PointQuery(X[:1])):
        plan = gpu_scores.Plan.of(query, index.scale)
        tensors = gpu_scores.Tensors.of(plan, 32, torch.device("cpu"))
        for block in index.blocks:
            scores = torch.full((1, len(block.squares)), torch.nan)
            gpu_scores.by_torch(block.X, block.squares, plan, tensors, scores)
            expected = query.score(flat.gather(np.arange(block.start, block.stop)))
            error = np.abs(scores[:, : block.n].numpy() - expected).max()
            assert error <= plan.error(index.extent)
            assert error > 0  # approximate


@pytest.mark.skipif(not (torch.cuda.is_available() or INTERPRETED), reason="needs a GPU or Triton's interpreter")
@pytest.mark.parametrize("query", [*(plane(kernel) for kernel in KERNELS), *(PointQuery(X[:q]) for q in (1, 5, 20))])
def test_triton_computes_the_scores_of_torch(query, monkeypatch):
    from lookalike.index import gpu_triton

    for kernel in (gpu_triton.columns_kernel, gpu_triton.differences_kernel, gpu_triton.products_kernel):
        monkeypatch.setattr(kernel, "configs", kernel.configs[:1])  # the interpreter cannot choose the fastest one
    device = torch.device("cpu" if INTERPRETED else "cuda")
    index = GpuFlat(str(device))
    index.add(IDS, X)
    plan = gpu_scores.Plan.of(query, index.scale)
    tensors = gpu_scores.Tensors.of(plan, 32, device)
    for block in index.blocks:
        scores, expected = (torch.full((plan.q, len(block.squares)), torch.nan, device=device) for _ in range(2))
        gpu_scores.by_triton(block.X, block.squares, plan, tensors, scores)
        gpu_scores.by_torch(block.X, block.squares, plan, tensors, expected)
        assert float((scores - expected).abs().max()) <= plan.error(index.extent)


def test_only_numpy_and_torch_are_imported():
    program = """
import sys
for name in ("numba", "faiss", "cv2", "onnxruntime", "scipy", "sklearn", "triton"):
    sys.modules[name] = None
import numpy as np
from lookalike.index.gpu_flat import GpuFlat
from lookalike.index.queries import PointQuery
index = GpuFlat("cpu")
index.add(np.arange(3), np.eye(3))
assert index.search(PointQuery(np.eye(3)), 1).ids[:, 0].tolist() == [0, 1, 2]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=TIMEOUT_S)
