import numpy as np
import pytest

from lookalike.index import leaves
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
    hyperplane.world.cache_clear()
    hyperplane.outcome.cache_clear()


def test_slow_columns_run_on_request_and_trees_are_measured_at_100k():
    plan = tables.plan(BENCH, "")
    assert all(column.endswith("100k") for _, column in plan)
    assert ("exact", "recall-frontier-100k") in plan
    assert ("exact", "recall-frontier-1M") not in plan
    assert tables.plan(BENCH, "", rows=["fast"], columns=["bytes-10M"]) == [("fast", "bytes-10M")]


@pytest.mark.usefixtures("small")
def test_every_row_finds_most_results_of_a_scan():
    found = {row: tables.fill(BENCH, row, "recall-maximum-100k", "").value for row in BENCH.rows}
    assert found["scan-f32"] == found["exact"] == 1
    assert min(found["scan-u8"], found["balanced"]) > 0.9
    assert tables.fill(BENCH, "exact", "scored-maximum-100k", "").value > 0.3
    assert tables.fill(BENCH, "scan-f32", "speedup-frontier-100k", "").value == 1
    assert tables.fill(BENCH, "fast", "speedup-frontier-100k", "").value > 0


@pytest.mark.usefixtures("small")
def test_rows_in_a_file_are_not_counted_as_memory():
    held = tables.fill(BENCH, "fast", "bytes-10M", "").value
    assert hyperplane.DIM < held < 2 * hyperplane.DIM
    assert tables.fill(BENCH, "scan-u8", "recall-frontier-10M", "").value > 0.9
    assert hyperplane.world("10M", 0).X.dtype == np.float16
