"""Benchmark cells in several processes: every cell is reported, even if some fail."""

import os

import pytest

from lookalike import cli
from lookalike_bench import jobs, results, tables
from lookalike_bench.jobs import Settings
from lookalike_bench.tables import merge_names
from toy_bench import ALONE, BENCH


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(tables.BENCHES, "toy", "toy_bench:BENCH")
    monkeypatch.setitem(tables.BENCHES, "alone", "toy_bench:ALONE")


def test_cells_that_share_work_are_one_task(toy):
    tasks = jobs.split(BENCH, BENCH.places())
    assert [task.places for task in tasks] == [
        (("a", "x"), ("a", "fails"), ("a", "ends"), ("a", "y")),
        (("b", "x"), ("b", "fails"), ("b", "y")),
    ]


def test_a_cell_on_request_is_filled_if_its_row_or_column_is_named():
    assert ("b", "ends") not in BENCH.places()
    assert ("b", "ends") in BENCH.places(rows=["b"])
    assert ("b", "ends") in BENCH.places(columns=["ends"])


def test_a_cell_that_fails_does_not_stop_the_others(toy):
    watched, places = [], [("a", "x"), ("a", "fails"), ("a", "y")]
    found = list(jobs.fill([(BENCH, places)], Settings("", 0, None), 1, lambda *told: watched.append(told)))
    assert [(one.column, one.cell is not None, one.why) for one in found] == [
        ("x", True, ""),
        ("fails", False, "ValueError: no such luck"),
        ("y", True, ""),
    ]
    assert (0, "toy a x") in watched


def test_a_process_that_ends_fails_one_cell(toy, tmp_path, capsys):
    file = tmp_path / "figures.jsonl"
    words = ["bench", "run", "toy", "--data", ".", "--jobs", "2", "--results", str(file)]
    before = dict(os.environ)
    assert cli.run(words) == 2
    told = capsys.readouterr()
    assert "3 of 7 cells failed" in told.err
    assert "Filled 4 cells in " in told.err
    assert "toy a ends: its process died with exit code 3" in told.err
    assert told.err.count("ValueError: no such luck") >= 2
    records = results.read(file)
    assert {(one.cell.row, one.cell.column) for one in records} == {("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")}
    assert {one.cell.paper for one in records} == {0.55}
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
        assert all(one.cell.scored <= max(1, -(-cores // 2)) for one in records)  # each process has its share of cores
    assert dict(os.environ) == before
    assert told.out.count("min left]") + told.out.count("[7/7]") == 4


def test_timings_run_first_in_a_separate_process_with_every_core(toy):
    left = [(BENCH, [("b", "x")]), (ALONE, [("a", "x"), ("a", "ends")]), (ALONE, [])]  # "ends" would end this process
    found = list(jobs.fill(left, Settings("", 0, None), 2, lambda *_: None))
    assert [(one.bench, one.column, one.why) for one in found] == [
        ("alone", "x", ""),
        ("alone", "ends", "its process died with exit code 3"),
        ("toy", "x", ""),
    ]
    if hasattr(os, "sched_getaffinity"):
        assert found[0].cell.scored == len(os.sched_getaffinity(0))


def test_the_number_of_jobs_is_at_least_one(toy, capsys):
    assert cli.run(["bench", "run", "toy", "--data", ".", "--jobs", "0"]) == 2
    assert "jobs must be at least 1" in capsys.readouterr().err


def test_names_that_differ_in_one_place_are_merged():
    columns = [f"{name}/{bits}{kind}" for name in ("a", "b") for bits in (8, 32, 4) for kind in ("", "-ties")]
    assert merge_names(columns) == ["{a,b}/{4,8,32}", "{a,b}/{4,8,32}-ties"]
    assert merge_names(["one", "two", "x-1", "x/1"]) == ["one", "two", "x-1", "x/1"]
    assert merge_names([]) == []
