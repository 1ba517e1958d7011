import io
import tarfile
from pathlib import Path

import cv2
import numpy as np
import pytest

from lookalike.errors import SourceError
from lookalike.index import leaf_recall, leaves
from lookalike_bench import hyperplane, tables
from lookalike_bench.hyperplane import BENCH


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(hyperplane, "SIZES", {"100k": 6_000, "1M": 7_000, "10M": 8_000})
    monkeypatch.setattr(hyperplane, "CLUSTERS", 20)
    monkeypatch.setattr(hyperplane, "QUERIES", 2)
    monkeypatch.setattr(hyperplane, "REPEATS", 1)
    monkeypatch.setattr(hyperplane, "LARGE", 7_500)
    monkeypatch.setattr(leaves, "ALL", 0)
    monkeypatch.setattr(leaf_recall, "QUERIES", 4)
    hyperplane.world.cache_clear()
    hyperplane.marked_queries.cache_clear()
    hyperplane.outcome.cache_clear()


def test_slow_columns_run_on_request_and_trees_are_measured_at_100k():
    plan = tables.plan(BENCH, "")
    assert all(column.endswith("100k") for _, column in plan)
    assert ("exact", "recall-frontier-100k") in plan
    assert ("exact", "recall-frontier-1M") not in plan
    assert tables.plan(BENCH, "", rows=["fast"], columns=["bytes-10M"]) == [("fast", "bytes-10M")]
    with pytest.raises(SourceError, match="corel1k"):
        tables.plan(BENCH, "", rows=["fast"], columns=["bytes-sift1M"])


@pytest.mark.usefixtures("small")
def test_every_row_finds_most_results_of_a_scan():
    found = {row: tables.fill(BENCH, row, "recall-maximum-100k", "").value for row in BENCH.rows}
    assert found["scan-f32"] == found["exact"] == 1
    assert min(found["scan-u8"], found["balanced"]) > 0.9
    assert tables.fill(BENCH, "exact", "scored-maximum-100k", "").value > 0.3
    assert tables.fill(BENCH, "scan-f32", "speedup-frontier-100k", "").value == 1
    assert tables.fill(BENCH, "fast", "speedup-frontier-100k", "").value > 0


@pytest.mark.usefixtures("small")
def test_rows_and_leaves_in_a_file_are_not_counted_as_memory():
    assert tables.fill(BENCH, "fast", "bytes-10M", "").value < 1
    assert 5 * hyperplane.DIM < tables.fill(BENCH, "fast", "bytes-1M", "").value < 7 * hyperplane.DIM
    assert tables.fill(BENCH, "scan-u8", "recall-frontier-10M", "").value > 0.9
    assert hyperplane.world("10M", 0, Path()).X.dtype == np.float16


@pytest.fixture
def photos(tmp_path):
    """A folder with corel1k: pictures of noise."""
    folder = tmp_path / "corel1k"
    folder.mkdir()
    with tarfile.open(folder / "corel1k.tar", "w") as archive:
        for i in range(5):
            noise = np.random.default_rng(i).integers(0, 256, (300, 400, 3), np.uint8)
            data = cv2.imencode(".png", noise)[1].tobytes()
            member = tarfile.TarInfo(f"class/{i}.png")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return tmp_path


@pytest.mark.usefixtures("small")
def test_real_vectors_are_descriptors_of_photos(monkeypatch, photos):
    monkeypatch.setattr(hyperplane, "SIFT_SIZES", {"sift100k": 1_500, "sift1M": 900_000})
    monkeypatch.setattr(hyperplane, "PHOTOS", ["corel1k"])
    assert tables.fill(BENCH, "balanced-gaussian", "recall-maximum-sift100k", photos).value > 0.9
    X = hyperplane.world("sift100k", 0, photos).X
    assert X.shape == (1_500, 128)
    assert np.linalg.norm(X, axis=1) == pytest.approx(1)
    with pytest.raises(SourceError, match="but 900,000 are needed"):
        tables.fill(BENCH, "fast", "recall-maximum-sift1M", photos)


@pytest.mark.usefixtures("small")
def test_many_real_vectors_are_from_a_dense_grid(monkeypatch, photos):
    monkeypatch.setattr(hyperplane, "SIFT_SIZES", {"sift10M": 20_000})
    monkeypatch.setattr(hyperplane, "LARGE", 10_000)
    monkeypatch.setattr(hyperplane, "PHOTOS", ["corel1k"])
    X = hyperplane.world("sift10M", 0, photos).X
    assert (X.shape, X.dtype) == ((20_000, 128), np.float16)
    assert np.linalg.norm(X.astype(np.float32), axis=1) == pytest.approx(1, abs=1e-2)
    assert len(np.unique(X, axis=0)) > 19_900  # the order is random, and every point is a vector of its own
